"""What all commands share: consoles, tables, progress bars, common arguments."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleDimensions
from rich.table import Table

from bipointnet import shipped
from bipointnet.errors import UserError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from bipointnet.data.dataset import PointClouds
    from bipointnet.evaluation.inputs import Input
    from bipointnet.evaluation.predictor import Predictor
    from bipointnet.scale import Job
    from bipointnet.training.progress import OnProgress
    from bipointnet.training.progress import Progress as Moment

FILE_WIDTH = 400  # columns of tables in files and pipes


class _Console(Console):
    """A console that cuts no names in files and pipes, which have no width, and leaves a closed pipe to `main`."""

    @property
    def size(self) -> ConsoleDimensions:
        size = super().size
        return size if self.is_terminal else size._replace(width=max(size.width, FILE_WIDTH))

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def on_broken_pipe(self) -> None:
        raise


out, err = _Console(), _Console(stderr=True)
LINE_SECONDS = 10.0
LISTED = 5  # errors of a job that are printed


def locate_model(path: Path | None) -> Path | None:
    """The path of a model argument: the name of a shipped model becomes its file."""
    return None if path is None else shipped.locate(path)


# An empty metavar, since a flag takes no value; typer would print <bool>.
AS_JSON = typer.Option(False, "--json", metavar="", help="Print the result as JSON.")
# readable=False: errors of the system are reported in one place, with a remedy.
MODEL = typer.Argument(
    metavar="MODEL",
    readable=False,
    callback=locate_model,
    help="Packed model, name of a shipped one, run folder (its last epoch) or checkpoint.",
)
PACKED = typer.Argument(
    metavar="FILE",
    readable=False,
    callback=locate_model,
    help="Packed model, as `bipointnet export` writes it, or the name of a shipped one.",
)


def model_option(default: str) -> Any:
    """The option --model of a command; default: what happens without it."""
    return typer.Option(
        None,
        "-m",
        "--model",
        readable=False,
        callback=locate_model,
        help=f"Packed model, name of a shipped one, run folder (its last epoch) or checkpoint{default}.",
    )


COLUMNS = typer.Option(
    None,
    "--columns",
    metavar="NAMES",
    help="Names of the columns of a text, bin or npy file, like x,y,z,intensity; - ignores one.",
)
STRICT = typer.Option(False, "--strict", metavar="", help="Refuse a file with NaN or infinite coordinates.")
DATA = typer.Argument(
    metavar="DATA", help="shapes, rooms or outdoors (built in), a folder, or a manifest (CSV or JSON)."
)
SKIP_BAD = typer.Option(
    False, "--skip-bad", metavar="", help="Leave out files that cannot be read or have too few points."
)


ENGINE = typer.Option(None, "--engine", help="Where a job with many files runs: local (default) or ray.")
ADDRESS = typer.Option(None, "--address", help="Ray cluster, such as auto or ray://HOST:10001 (default: a new one).")
WORKERS = typer.Option(None, "--workers", min=1, help="Worker processes of a job (default: one per core).")
FILES_FROM = typer.Option(None, "--files-from", metavar="LIST", help="Text file that names the files, one per line.")


def plain(text: object) -> str:
    """Escape markup, so that rich prints the text unchanged."""
    return str(text).replace("[", r"\[")


def print_line(text: str, **style: Any) -> None:
    """Print one line of text that may be longer than the terminal is wide."""
    out.print(text, highlight=False, soft_wrap=True, **style)


def complain(sentence: str) -> None:
    """Print one sentence about a mistake on stderr."""
    err.print(f"[bold red]error:[/] {plain(sentence)}", highlight=False, soft_wrap=True)


def warn(sentence: str) -> None:
    """Print one sentence on stderr about something that may be a mistake."""
    err.print(f"[bold yellow]warning:[/] {plain(sentence)}", highlight=False, soft_wrap=True)


def print_summary(clouds: "PointClouds") -> None:
    """Say on stderr what was read."""
    for line in clouds.summary.lines() if clouds.summary else ():
        err.print(line, highlight=False, soft_wrap=True, markup=False)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def open_predictor(path: Path) -> "Predictor":
    """The model at a path. A wrong path is reported before NumPy is imported."""
    from bipointnet.evaluation.model_file import identify

    identify(path)
    from bipointnet.evaluation.predictor import open_model

    return open_model(path)


def print_default_model(name: str, on_axis: str = "") -> None:
    """Say on stderr which shipped model is used, because none was given. on_axis: what to add about its up axis."""
    card = shipped.card(name)
    err.print(
        f"Model: {card['name']}, {card['classes']} classes, trained on {card['trained_on']} with {card['up']} up"
        f"{on_axis}; choose another with --model",
        highlight=False,
        soft_wrap=True,
    )


def run_job(job: "Job", inputs: "Sequence[Input]", as_json: bool) -> None:
    """Run a job over many files with a progress bar; print what it did; exit with 2 if a file cannot be used."""
    try:
        with rate_bar() as progress:
            outcome = job.run(inputs, progress)
    except KeyboardInterrupt:
        err.print("The same command continues this job.")
        raise
    if as_json:
        errors = [{"file": name, "error": error} for name, error in outcome.errors]
        print_json({"done": outcome.done, "skipped": outcome.skipped, "errors": errors, "out": str(job.out)})
    else:
        for _, error in outcome.errors[:LISTED]:
            complain(error)
        if len(outcome.errors) > LISTED:
            complain(f"{len(outcome.errors) - LISTED:,} more files; the column `error` of the results has all")
        print_line(f"{outcome}. Results: {plain(job.out)}")
    if outcome.errors:
        raise typer.Exit(2)


@contextmanager
def rate_bar() -> Iterator[Callable[[int, int], None]]:
    """A progress bar with files per second and the remaining time; yields a callback for (done, total)."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    rate = TextColumn("{task.fields[rate]}")
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), rate, TimeElapsedColumn(), TextColumn("left"))
    hidden = not err.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=hidden) as progress:
        task = progress.add_task("files", rate="")

        def show(done: int, total: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, completed=done, total=total, rate=f"{speed:,.0f} per second" if speed else "")

        yield show


def require_packed(path: Path) -> None:
    """Raise UserError unless a path holds a packed model."""
    from bipointnet.evaluation.model_file import identify

    if not identify(path).packed:
        raise UserError(f"{path}: a run; expected a packed model; export it first: bipointnet export {path} -o FILE")


def require_axis(up: str | None) -> None:
    """Raise UserError for a value of --up that is no axis."""
    if up not in (None, "x", "y", "z"):
        raise UserError(f"--up is {up!r}; expected x, y or z")


def column_names(columns: str | None) -> tuple[str, ...]:
    """The value of --columns."""
    return () if columns is None else tuple(name.strip() for name in columns.split(","))


def empty_table(title: str, columns: dict[str, str]) -> Table:
    """A table without rows. columns: name -> "left" or "right"."""
    table = Table(title=title)
    for name, side in columns.items():
        table.add_column(name, justify="right" if side == "right" else "left")
    return table


@contextmanager
def epoch_bar() -> "Iterator[Progress]":
    """Progress bars of training runs, see `epoch_progress`."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        yield progress


@contextmanager
def counting_bar(title: str, shown: bool | None = None) -> Iterator[Callable[[int, int], None]]:
    """A progress bar that disappears at the end; yields a callback for (done, total). Default: shown on a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("left"))
    hidden = not (err.is_terminal if shown is None else shown)
    with Progress(
        *columns, TimeRemainingColumn(), console=err, transient=True, disable=hidden, redirect_stdout=False
    ) as progress:
        task = progress.add_task(title)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def duration(seconds: float) -> str:
    """A time in words, to two digits or so.

    >>> duration(8.4), duration(100), duration(4000)
    ('8 s', '2 min', '1 h 7 min')
    """
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def epoch_progress(bars: "Progress", title: str, epochs: int) -> "OnProgress":
    """A progress callback for `train`: advances a bar after every step and shows the newest figures.

    Without a terminal it prints a line for the first and the last epoch, and between them one every LINE_SECONDS, with
    the time that the rest will take.
    """
    task: TaskID | None = None
    figures = ""
    next_line = 0.0
    begun: tuple[float, int] | None = None  # time and steps at the first call

    def show(moment: "Moment") -> None:
        nonlocal task, figures, next_line, begun
        if task is None:
            task = bars.add_task(title, total=epochs * moment.steps, state="")
        epoch, comma, newest = str(moment).partition(",")
        figures = comma + newest or figures
        done = (moment.epoch - 1) * moment.steps + moment.step
        bars.update(task, completed=done, state=epoch + figures)
        now = time.monotonic()
        begun = begun or (now, done)
        if not err.is_terminal and moment.row is not None and (now >= next_line or moment.epoch == epochs):
            taken, rest = done - begun[1], ""
            if taken and done < epochs * moment.steps:
                rest = f", {duration((now - begun[0]) * (epochs * moment.steps - done) / taken)} left"
            err.print(f"{title}: {moment}{rest}", highlight=False, soft_wrap=True, markup=False)
            next_line = now + LINE_SECONDS

    return show
