"""What all commands share: the app, its consoles, tables, bars and checks."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bipointnet import __version__
from bipointnet.errors import UserError

app = typer.Typer(
    help="1-bit neural networks for point clouds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)
AS_JSON = typer.Option(False, "--json", help="Print the result as JSON.")
MODEL = typer.Argument(help="Packed model, run folder (its last epoch) or checkpoint file.")
PACKED = typer.Argument(help="Packed model, as `bipointnet export` writes it.")


def plain(text: object) -> str:
    """Text that rich prints as it stands."""
    return str(text).replace("[", r"\[")


def need_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise UserError(
            "this command needs PyTorch, which is not installed; pip install 'bipointnet[train]'"
        ) from error


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def is_packed(path: Path) -> bool:
    """Whether a model is a packed file or a run, by its content; UserError where it is neither."""
    from bipointnet.runtime import model as runtime

    if not path.exists():
        raise UserError(f"{path}: it is not there; expected a packed model, a run folder or a checkpoint")
    if path.is_dir():
        return False
    facts = runtime.peek(path)
    if facts is None:
        raise UserError(
            f"{path}: not a packed model and not a checkpoint, or a damaged one; expected a file written by "
            "`bipointnet export` or `bipointnet train`"
        )
    return "program" in facts


def require_same_classes(data: str, found: Any, model: Path, expected: list[str], trained_on: str) -> None:
    """Whether the classes of a data set are those of the model to evaluate on it."""
    if list(found) != expected:
        raise UserError(
            f"{data}: its {len(found)} classes are not the {len(expected)} of {trained_on} that {model} was trained "
            "on; expected the same class names"
        )


def empty_table(title: str, columns: dict[str, str]) -> Table:
    """An empty table; columns: their names, each with its side."""
    table = Table(title=title)
    for name, side in columns.items():
        table.add_column(name, justify="right" if side == "right" else "left")
    return table


@contextmanager
def epoch_bar() -> Iterator[Progress]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as progress:
        yield progress


@contextmanager
def counting_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that tells how much of it is done; it goes when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=err, transient=True) as progress:
        task = progress.add_task(title)
        yield lambda done, of: progress.update(task, completed=done, total=of)


def watcher(progress: Progress, title: str, epochs: int) -> Callable[[Any], None]:
    """A watcher for `train` that moves a bar by steps and shows the newest figures."""
    task: TaskID | None = None
    figures = ""

    def watch(moment: Any) -> None:
        nonlocal task, figures
        if task is None:
            task = progress.add_task(title, total=epochs * moment.steps, state="")
        if moment.row is not None:
            figures = f", loss {moment.row['loss']:.3f}"
            evaluated = {"test_miou": "test mIoU", "test_oa": "test"}
            name = next((name for name in evaluated if moment.row[name] is not None), None)
            if name is not None:
                figures += f", {evaluated[name]} {moment.row[name]:.1f} %"
        done = (moment.epoch - 1) * moment.steps + moment.step
        progress.update(task, completed=done, state=f"epoch {moment.epoch}/{epochs}{figures}")

    return watch


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True)) -> None:
    if version:
        print(__version__)
        raise typer.Exit
