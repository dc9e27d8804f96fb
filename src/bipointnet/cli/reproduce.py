"""The command reproduce."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bipointnet.cli.common import AS_JSON, complain, empty_table, err, out, plain, print_json, print_line
from bipointnet.config import Config
from bipointnet.errors import UserError
from bipointnet.extras import import_whole, require

if TYPE_CHECKING:
    from bipointnet.reproduce.jobs import Job
    from bipointnet.reproduce.tables import Table

RESULTS = Path("benchmarks/results")


def reproduce(
    name: str = typer.Argument(
        metavar="TABLE", help="ablation, methods, backbones, parts, rooms, deploy or robustness."
    ),
    data: list[str] = typer.Argument(None, metavar="[DATA]...", help="Folders of the data sets that the table needs."),
    results: Path = typer.Option(RESULTS, "-o", "--out", help="Folder of the results, one JSON file per run."),
    runs: Path = typer.Option(Path("runs/reproduce"), "--runs", help="Folder of the run folders and logs."),
    at_once: int = typer.Option(
        None, "--jobs", min=1, help="Trainings side by side (default: 3 on a GPU, else 1).", show_default=False
    ),
    only: str = typer.Option("", "--only", metavar="TEXT", help="Only runs whose names contain TEXT."),
    changes: list[str] = typer.Option(
        [],
        "--set",
        metavar="NAME=VALUE",
        help="Override an option of `train`, such as epochs=2; requires -o with another folder.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Train the missing runs of a TABLE of the paper, and print the table.

    The paper's figures stand beside ours. A run whose result is there is not
    repeated. After a kill or Ctrl-C the same command continues where the runs
    stopped. Without DATA, the table is printed from the results that are there.

    Example: bipointnet reproduce methods modelnet40_ply_hdf5_2048 --jobs 4
    """
    from bipointnet.reproduce.tables import TABLES

    if name not in TABLES:
        raise UserError(f"TABLE is {name!r}; expected one of {', '.join(TABLES)}")
    table = TABLES[name]
    if changes and results.resolve() == RESULTS.resolve():
        raise UserError("--set makes other runs than those of the table; expected -o with a folder for their results")
    if data:
        failed = _train(_missing(table, _by_layout(data), _changed(changes), only, results), results, runs, at_once)
        if failed:
            raise UserError(f"{len(failed)} of the runs failed ({', '.join(failed)}); their logs are in {runs}")
    _print(table, results, as_json)


def _by_layout(data: list[str]) -> dict[str, str]:
    from bipointnet.data import layout_name

    found: dict[str, str] = {}
    for each in data:
        layout = layout_name(each)
        if layout in found:
            raise UserError(f"DATA holds {layout} twice, in {found[layout]} and {each}; name one of them")
        found[layout] = each
    return found


def _changed(changes: list[str]) -> dict[str, Any]:
    """The values of --set. A value is read as TOML, or else is a string."""
    found: dict[str, Any] = {}
    for change in changes:
        given, equals, value = change.partition("=")
        name = given.replace("-", "_")
        if not equals or name not in Config.__annotations__ or name == "seed":
            raise UserError(f"--set is {change!r}; expected NAME=VALUE with an option of `bipointnet train` but seed")
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name] = value
    return found


def _missing(table: "Table", data: dict[str, str], changes: dict[str, Any], only: str, results: Path) -> "list[Job]":
    """The runs to train, first seeds first."""
    from bipointnet.reproduce.jobs import Job, is_done

    needed = sorted({row.data for row in table.rows})
    if not data.keys() & set(needed):
        raise UserError(
            f"DATA holds {', '.join(data)}; expected a data set of this table: {', '.join(needed)}; name its folder"
        )
    for layout in needed:
        if layout not in data:
            err.print(f"Rows with {layout} are not trained: none of DATA holds it.", highlight=False, soft_wrap=True)
    most = max(row.seeds for row in table.rows)
    rows = [(row, seed) for seed in range(most) for row in table.rows if seed < row.seeds and row.data in data]
    jobs = [Job.of(row, seed, data[row.data], changes) for row, seed in rows]
    return [job for job in jobs if only in job.name and not is_done(job, results)]


def _train(jobs: "list[Job]", results: Path, runs: Path, at_once: int | None) -> list[str]:
    """Train; returns the names of the runs that failed."""
    if not jobs:
        return []
    require("training", "torch", "safetensors")
    if at_once is None:
        import_whole("torch")
        import torch

        at_once = 3 if torch.cuda.is_available() else 1
    from bipointnet.reproduce.jobs import train_jobs

    failed: list[str] = []

    def on_end(job: "Job", why: str | None) -> None:
        if why is not None:
            failed.append(job.name)
            complain(f"{job.name}: {why}")
        else:
            err.print(f"{plain(job.name)}: done", highlight=False, soft_wrap=True)

    err.print(f"{len(jobs)} runs to train, {at_once} side by side; logs in {plain(runs)}", highlight=False)
    number = train_jobs(jobs, results, runs, at_once, on_end)
    if number is not None:
        err.print("Stopped; the states are saved, and the same command continues.", highlight=False)
        raise typer.Exit(128 + number)
    return failed


def _print(table: "Table", results: Path, as_json: bool) -> None:
    from bipointnet.reproduce.report import cells, lines

    found = lines(table, results)
    if as_json:
        rows = [each._asdict() | {"figures": {k: v._asdict() for k, v in each.figures.items()}} for each in found]
        print_json({"table": table.title, "rows": rows})
        return
    shown = empty_table(table.title, {"row": "left", "ours": "left", "paper": "left", "seeds": "right"})
    for each in found:
        shown.add_row(*(plain(cell) for cell in cells(each)))
    out.print(shown)
    for note in table.notes:
        print_line(plain(note))
