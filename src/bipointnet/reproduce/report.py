"""A table with its figures: the mean over the seeds that are there, beside the figure of the paper."""

from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from bipointnet.errors import UserError
from bipointnet.reproduce.jobs import read_result
from bipointnet.reproduce.tables import Row, Table


class Figure(NamedTuple):
    """One figure of a row in percent: of the paper, and ours for each seed that was trained."""

    paper: float | None
    ours: tuple[float, ...]


class Line(NamedTuple):
    """A row of a table with its figures by name."""

    label: str
    data: str
    seeds: int  # that are wanted
    figures: dict[str, Figure]

    @property
    def done(self) -> int:
        return max(len(figure.ours) for figure in self.figures.values())


def _value(path: Path, result: dict[str, Any], key: str) -> float:
    """An entry of the result of a run. A network for all categories has its scores in one place."""
    found = result.get(key, result.get("scores", {}).get(key))
    if not isinstance(found, int | float):
        raise UserError(
            f"{path}: has no {key}; expected a result of `bipointnet train`; delete the file to run it again"
        )
    return found


def line(row: Row, results: Path) -> Line:
    """The figures of one row, from NAME-seed0.json, NAME-seed1.json, ..."""
    paths = [results / f"{row.name}-seed{seed}.json" for seed in range(row.seeds)]
    found = [(path, read_result(path)) for path in paths]
    done = [(path, result) for path, result in found if result and (not row.corrupted or "corrupted_oa" in result)]
    figures = {
        name: Figure(row.paper.get(name), tuple(_value(path, result, key) for path, result in done))
        for name, key in row.figures.items()
    }
    return Line(row.label, row.data, row.seeds, figures)


def lines(table: Table, results: Path) -> list[Line]:
    return [line(row, results) for row in table.rows]


def cells(found: Line) -> list[str]:
    """A line as text: label, figures, the paper's figures, seeds.

    >>> cells(Line("PointNet", "modelnet", 3, {"OA": Figure(86.4, (85.0, 86.0))}))
    ['PointNet', 'OA 85.5 (85.0, 86.0)', 'OA 86.4', '2 of 3']
    >>> cells(Line("PointNet", "modelnet", 1, {"OA": Figure(None, ())}))
    ['PointNet', '-', '-', '0 of 1']
    """
    ours = [f"{name} {_with_seeds(figure.ours)}" for name, figure in found.figures.items() if figure.ours]
    paper = [f"{name} {figure.paper:.1f}" for name, figure in found.figures.items() if figure.paper is not None]
    return [found.label, ", ".join(ours) or "-", ", ".join(paper) or "-", f"{found.done} of {found.seeds}"]


def _with_seeds(values: tuple[float, ...]) -> str:
    each = f" ({', '.join(f'{value:.1f}' for value in values)})" if len(values) > 1 else ""
    return f"{mean(values):.1f}{each}"


def markdown(table: Table, results: Path) -> str:
    """The table as a section of a page."""
    rows = [" | ".join(cells(found)) for found in lines(table, results)]
    head = ["| row | ours | paper | seeds |", "|---|---|---|---|"]
    notes = ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    return "\n".join([f"## {table.title}", "", *head, *(f"| {row} |" for row in rows), *notes, ""])
