"""The command line: parses, calls, prints."""

import dataclasses
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn, track
from rich.table import Table

from bipointnet import __version__
from bipointnet.config import Config, from_mapping, read_toml
from bipointnet.errors import UserError

app = typer.Typer(
    help="1-bit neural networks for point clouds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)
AS_JSON = typer.Option(False, "--json", help="Print the result as JSON.")


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2."""
    try:
        app()
    except UserError as error:
        err.print(f"[bold red]error:[/] {_plain(error)}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(130)


def _plain(text: object) -> str:
    """Text that rich prints as it stands."""
    return str(text).replace("[", r"\[")


def _need_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise UserError(
            "this command needs PyTorch, which is not installed; pip install 'bipointnet[train]'"
        ) from error


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


@contextmanager
def _bar() -> Iterator[Progress]:
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


def _watcher(progress: Progress, title: str, epochs: int) -> Callable[[Any], None]:
    """A watcher for `train` that moves a bar by steps and shows the newest figures."""
    task: TaskID | None = None
    figures = ""

    def watch(moment: Any) -> None:
        nonlocal task, figures
        if task is None:
            task = progress.add_task(title, total=epochs * moment.steps, state="")
        if moment.row is not None:
            figures = f", loss {moment.row['loss']:.3f}"
            if moment.row["test_oa"] is not None:
                figures += f", test {moment.row['test_oa']:.1f} %"
        done = (moment.epoch - 1) * moment.steps + moment.step
        progress.update(task, completed=done, state=f"epoch {moment.epoch}/{epochs}{figures}")

    return watch


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True)) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def demo(
    folder: Path = typer.Option(Path("demo"), "-o", "--out", help="Where runs and picture go."), as_json: bool = AS_JSON
) -> None:
    """Train a 1-bit PointNet, its float twin and a naive 1-bit network on built-in shapes, in minutes on a CPU."""
    _need_torch()
    from bipointnet.demo import NETWORKS
    from bipointnet.demo import demo as run_demo

    with _bar() as progress:
        watchers = {name: _watcher(progress, name, config.epochs) for name, config in NETWORKS.items()}
        contestants = run_demo(folder, lambda name, moment: watchers[name](moment))
    if as_json:
        _print_json([{"name": c.name, "bytes": c.bytes, **c.figures} for c in contestants])
        return
    table = Table(title="Held-out shapes, last epoch")
    for name in ("network", "accuracy", "mean class", "entropy a pooled bit", "size", "epochs", "trained in"):
        table.add_column(name, justify="left" if name == "network" else "right")
    for c in contestants:
        table.add_row(
            c.name,
            f"{c.judgement.overall:.1f} %",
            f"{c.judgement.mean_class:.1f} %",
            "-" if c.figures["method"] == "fp" else f"{c.judgement.entropy:.2f}",
            f"{c.bytes / 1000:,.0f} kB",
            str(c.figures["epochs"]),
            f"{c.figures['seconds']:.0f} s",
        )
    out.print(table)
    one, float_twin = contestants[0], contestants[1]
    out.print(
        f"The 1-bit network is {float_twin.bytes / one.bytes:.1f} times smaller than its float twin and "
        f"{float_twin.judgement.overall - one.judgement.overall:.1f} points behind it. Plain max pooling leaves the "
        f"naive one {contestants[2].judgement.entropy:.2f} bits of entropy a feature to work with."
    )
    out.print("There is no packed runtime yet: all networks ran through PyTorch, so no speed is claimed here.")
    out.print(f"Picture: {folder / 'demo.png'}   Runs: {folder}/", highlight=False)


def _with_config_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with one option for every field of Config in place of its **given."""
    signature = inspect.signature(command)
    parameters = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    for f in dataclasses.fields(Config):
        flag = "--" + f.name.replace("_", "-")
        kind = Config.__annotations__[f.name]
        kind = kind if kind in (int, float, bool) else str
        shown = False if f.default is None else str(f.default)
        names = [f"{flag}/--no-{flag[2:]}"] if kind is bool else [flag]
        option = typer.Option(None, *names, help=f.metadata["help"], show_default=shown, rich_help_panel="Recipe")
        parameters.append(
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)
        )
    command.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


@app.command()
@_with_config_options
def train(
    data: str = typer.Argument(help="shapes, or a folder."),
    config: Path | None = typer.Option(None, "--config", help="TOML file with any of the options below."),
    folder: Path | None = typer.Option(None, "-o", "--out", help="Run folder (default: a name under runs/)."),
    resume: bool = typer.Option(False, "--resume", help="Go on where the run in the folder was cut off."),
    init: Path | None = typer.Option(None, "--init", help="Start from the weights of another run, where they fit."),
    as_json: bool = AS_JSON,
    **given: Any,
) -> None:
    """Train a network on DATA: `shapes` (built in), or a folder in a known layout or with one sub-folder a class.

    Options override the TOML file, which overrides the paper's recipe. A run that was cut off goes on with --resume.
    """
    _need_torch()
    options = {name: value for name, value in given.items() if value is not None}
    values = (read_toml(config) if config else {}) | options
    settings = from_mapping("options", values)

    from bipointnet.data import open_dataset
    from bipointnet.train import train as run_training

    clouds = open_dataset(data, settings.points)
    folder = (
        folder or Path("runs") / f"{clouds.name}-{settings.model}-{settings.method}-{settings.pool}-seed{settings.seed}"
    )
    with _bar() as progress:
        title = f"{settings.model} {settings.method} {settings.pool}"
        figures = run_training(
            settings, clouds, folder, resume=resume, init=init, watch=_watcher(progress, title, settings.epochs)
        )
    if as_json:
        _print_json(figures)
        return
    out.print(
        f"{clouds.name}: last epoch {figures['last_oa']:.2f} % overall, {figures['last_macc']:.2f} % mean class; "
        f"best epoch {figures['best_oa']:.2f} %; {figures['seconds']:.0f} s"
    )
    out.print(f"Run: {folder}", highlight=False)


@app.command("eval")
def evaluate(
    model: Path = typer.Argument(help="Run folder (its last epoch) or checkpoint file."),
    data: str = typer.Argument(help="shapes, or a folder."),
    as_json: bool = AS_JSON,
) -> None:
    """Judge a trained network on the test split of DATA."""
    _need_torch()
    import torch

    from bipointnet import checkpoint, metrics
    from bipointnet.data import open_dataset
    from bipointnet.tasks import judge

    network, facts = checkpoint.load_model(model)
    points = facts["config"]["points"]
    clouds = open_dataset(data, points)
    if list(clouds.classes) != facts["classes"]:
        raise UserError(
            f"{data}: its {len(clouds.classes)} classes are not the {len(facts['classes'])} of {facts['data']} that "
            f"{model} was trained on; expected the same class names"
        )
    with err.status("judging"):
        judgement = judge(
            network, torch.from_numpy(clouds.test.points), clouds.test.labels, len(clouds.classes), points
        )
    accuracies = metrics.class_accuracies(judgement.confusion)
    if as_json:
        _print_json(
            {
                "dataset": clouds.name,
                "epoch": facts["epoch"],
                "clouds": len(clouds.test),
                "oa": judgement.overall,
                "macc": judgement.mean_class,
                "entropy": judgement.entropy,
                "class_accuracy": {c: float(a) for c, a in zip(clouds.classes, accuracies, strict=True) if a == a},
                "confusion": judgement.confusion.tolist(),
            }
        )
        return
    table = Table(title=f"{clouds.name}: {len(clouds.test)} test clouds, epoch {facts['epoch']}")
    for name in ("class", "clouds", "accuracy", "most often taken for"):
        table.add_column(name, justify="right" if name in ("clouds", "accuracy") else "left")
    for i, name in enumerate(clouds.classes):
        row = judgement.confusion[i].copy()
        total, row[i] = int(row.sum()), 0
        other = f"{clouds.classes[row.argmax()]} ({row.max()})" if row.any() else ""
        table.add_row(name, str(total), f"{accuracies[i]:.1f} %" if total else "-", other)
    out.print(table)
    out.print(f"overall {judgement.overall:.2f} %   mean class {judgement.mean_class:.2f} %")


@app.command()
def predict(
    model: Path = typer.Argument(help="Run folder (its last epoch) or checkpoint file."),
    files: list[Path] = typer.Argument(help="Clouds or meshes: ply, off, obj, stl, xyz, npy, pcd, las, ..."),
    as_json: bool = AS_JSON,
) -> None:
    """Name what is in each FILE. Larger clouds are thinned to the number of points the network was trained with."""
    _need_torch()
    import numpy as np
    import torch

    from bipointnet import checkpoint, clouds
    from bipointnet.tasks import classify

    network, facts = checkpoint.load_model(model)
    if facts["channels"] != 3:
        raise UserError(
            f"{model}: it reads {facts['channels']} numbers a point; expected 3, all that predict takes from a file"
        )
    rows = []
    for path in track(files, description="predicting", console=err, transient=True, disable=len(files) == 1):
        cloud = clouds.read(path)
        count = facts["config"]["points"]
        if cloud.faces is None:
            count = min(count, len(cloud.points))
        points = clouds.sample(cloud, count, np.random.default_rng(0), str(path))
        logits, _ = classify(network, torch.from_numpy(points)[None], count)
        p = logits.softmax(dim=1)[0]
        best = int(p.argmax())
        rows.append(
            {"file": str(path), "label": facts["classes"][best], "probability": float(p[best]), "points": count}
        )
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        out.print(
            f"{_plain(row['file'])}  {row['label']}  {100 * row['probability']:.1f} %", highlight=False, soft_wrap=True
        )
