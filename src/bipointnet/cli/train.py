"""Commands that train: demo and train."""

import dataclasses
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from bipointnet.cli.common import (
    AS_JSON,
    app,
    counting_bar,
    empty_table,
    epoch_bar,
    need_torch,
    out,
    plain,
    print_json,
    watcher,
)
from bipointnet.cli.export import print_race, print_verification
from bipointnet.config import Config, from_mapping, read_toml
from bipointnet.errors import UserError


@app.command()
def demo(
    folder: Path = typer.Option(Path("demo"), "-o", "--out", help="Where runs, packed model and picture go."),
    as_json: bool = AS_JSON,
) -> None:
    """Train a 1-bit PointNet, its float twin and a naive 1-bit network on built-in shapes, in minutes on a CPU.

    Then pack the first for the torch-free runtime, check it bit by bit, and race it against others.
    """
    need_torch()
    from bipointnet.demo import NETWORKS, deploy
    from bipointnet.demo import demo as run_demo

    with epoch_bar() as progress:
        watchers = {name: watcher(progress, name, config.epochs) for name, config in NETWORKS.items()}
        data, contestants = run_demo(folder, lambda name, moment: watchers[name](moment))
    with counting_bar("packing") as watch:
        shipped = deploy(folder, data, contestants[0], watch)
    if as_json:
        networks = [{"name": c.name, "bytes": c.bytes, **c.figures} for c in contestants]
        print_json({"networks": networks, "packed": shipped})
        return
    right = dict.fromkeys(("accuracy", "mean class", "entropy", "size", "time"), "right")
    table = empty_table("Held-out shapes, last epoch", {"network": "left"} | right)
    for c in contestants:
        table.add_row(
            c.name,
            f"{c.evaluation.overall:.1f} %",
            f"{c.evaluation.mean_class:.1f} %",
            "-" if c.figures["method"] == "fp" else f"{c.evaluation.entropy:.2f}",
            f"{c.bytes / 1000:,.0f} kB",
            f"{c.figures['seconds']:.0f} s",
        )
    out.print(table)
    one, float_twin = contestants[0], contestants[1]
    out.print(
        f"The 1-bit network is {float_twin.bytes / one.bytes:.1f} times smaller than its float twin and "
        f"{float_twin.evaluation.overall - one.evaluation.overall:.1f} points behind it. Plain max pooling leaves the "
        f"naive one {contestants[2].evaluation.entropy:.2f} bits of entropy a pooled feature to work with.\n"
    )
    out.print(f"Packed: {folder / 'demo.bpn'}, {shipped['bench']['bytes']['packed']:,} bytes", highlight=False)
    print_verification(shipped["verify"])
    out.print(
        f"It names {shipped['as_torch']} of {shipped['clouds']} held-out shapes as PyTorch does: "
        f"{shipped['accuracy']:.1f} % right. The first shows {shipped['truth']}; it says {shipped['name']}, "
        f"{100 * shipped['probability']:.1f} %."
    )
    print_race(shipped["bench"])
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
    data: str = typer.Argument(help="shapes, rooms, or a folder."),
    config: Path | None = typer.Option(None, "--config", help="TOML file with any of the options below."),
    folder: Path | None = typer.Option(None, "-o", "--out", help="Run folder (default: a name under runs/)."),
    resume: bool = typer.Option(False, "--resume", help="Go on where the run in the folder was cut off."),
    init: Path | None = typer.Option(None, "--init", help="Start from the weights of another run, where they fit."),
    as_json: bool = AS_JSON,
    **given: Any,
) -> None:
    """Train a network on DATA: `shapes` or `rooms` (built in), a folder in a known layout or with a sub-folder a class.

    Options override the TOML file, which overrides the paper's recipe. A run that was cut off goes on with --resume.
    `--category each` and `--fold each` train a network for every one, and go on where they were cut off.
    """
    need_torch()
    options = {name: value for name, value in given.items() if value is not None}
    values = (read_toml(config) if config else {}) | options
    settings = from_mapping(f"{config} and the options" if config else "options", values)

    from bipointnet.data import open_dataset
    from bipointnet.training.loop import train as run_training

    if "each" in (settings.category, settings.fold):
        _train_each(settings, data, folder, resume, init, as_json)
        return
    clouds = open_dataset(data, settings.points, fold=settings.fold)
    clouds = clouds.only(settings.category) if settings.category else clouds
    network = _network_name(settings)
    folder = folder or Path("runs") / "-".join([clouds.name, *network, f"seed{settings.seed}"])
    with epoch_bar() as progress:
        title = " ".join(network)
        figures = run_training(
            settings,
            clouds,
            folder,
            resume=resume,
            init=init,
            data_path=data,
            on_progress=watcher(progress, title, settings.epochs),
        )
    if figures["last_oa"] is None:  # a process that torchrun started beside the first, which evaluates and tells
        return
    if as_json:
        print_json(figures)
        return
    if "last_miou" in figures:
        said = f"{figures['last_miou']:.2f} % mIoU, {figures['last_oa']:.2f} % of all points; "
        best = f"best epoch {figures['best_miou']:.2f} % mIoU"
    else:
        said = f"{figures['last_oa']:.2f} % overall, {figures['last_macc']:.2f} % mean class; "
        best = f"best epoch {figures['best_oa']:.2f} %"
    out.print(f"{clouds.name}: last epoch {said}{best}; {figures['seconds']:.0f} s")
    out.print(f"Run: {folder}", highlight=False)


def _network_name(settings: Config) -> list[str]:
    task = [] if settings.task == "classify" else [settings.task]
    return [*task, settings.model, settings.method, *([settings.pool] if settings.pool else [])]


def _train_each(
    settings: Config, data: str, folder: Path | None, resume: bool, init: Path | None, as_json: bool
) -> None:
    """A network for every category of objects or every fold of rooms, and their scores together."""
    from bipointnet.data import fold_names, open_dataset
    from bipointnet.training.cross_validation import every_category, every_fold

    if init is not None:
        raise UserError("--init is for one network; found it with `each`; leave it out")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("`each` trains one network after the other; found torchrun; start it without, or name one")
    folder = folder or Path("runs") / "-".join(
        [Path(data).resolve().name, *_network_name(settings), f"seed{settings.seed}"]
    )
    if not resume and any(folder.glob("*/resume.safetensors")):
        raise UserError(f"{folder}: holds runs already; add --resume to go on with them, or choose another with -o")
    with epoch_bar() as progress:

        def watch(name: str) -> Callable[[Any], None]:
            return watcher(progress, name, settings.epochs)

        if settings.category:
            totals = every_category(settings, open_dataset(data, settings.points), folder, watch, data)
        else:
            names = fold_names(data)
            if not names:
                raise UserError(f"{data}: has no folds; expected S3DIS; leave --fold out")
            totals = every_fold(
                settings, names, lambda name: open_dataset(data, settings.points, fold=name), folder, watch, data
            )
    if as_json:
        print_json(totals)
        return
    parts = "categories" if settings.category else "folds"
    columns = {parts: "left", "mIoU": "right", "best epoch": "right", "points right": "right"}
    table = empty_table(f"{totals['dataset']}: {settings.method}, last epoch", columns)
    for name, line in totals[parts].items():
        cells = (line["last_miou"], line["best_miou"], line["last_oa"])
        table.add_row(plain(name), *(f"{cell:.1f} %" for cell in cells))
    out.print(table)
    named = {
        "paper_miou": "weighted as in the paper",
        "category_miou": "mean of categories",
        "instance_miou": "of shapes",
    }
    named |= {"miou": "mIoU of all folds", "oa": "points right"}
    out.print(
        "   ".join(f"{text} {totals[key]:.2f} %" for key, text in named.items() if key in totals), highlight=False
    )
    out.print(f"Runs: {folder}", highlight=False)
