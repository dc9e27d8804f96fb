"""The command train."""

import dataclasses
import inspect
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bipointnet.cli.common import (
    AS_JSON,
    DATA,
    SKIP_BAD,
    column_names,
    empty_table,
    epoch_bar,
    epoch_progress,
    err,
    out,
    plain,
    print_json,
    print_line,
    print_summary,
)
from bipointnet.config import POINTNETS, Config, from_mapping, read_toml
from bipointnet.errors import UserError
from bipointnet.evaluation.model_file import identify
from bipointnet.extras import import_whole, require
from bipointnet.training.recipes import default, picks, sentence
from bipointnet.training.repeat import as_words
from bipointnet.training.resume_options import STATE, is_run, started_config

if TYPE_CHECKING:
    from bipointnet.data.dataset import PointClouds
    from bipointnet.data.scan_choices import ScanOptions

# Where --help lists the fields of Config.
PANELS = {
    "Network": ("task", "model", "method", "gradient", "pool", "first_width", "init_bias_std"),
    "Data": ("category", "fold", "points", "center", "up"),
    "Labeled scans": ("block", "channels", "columns", "labels", "classes", "split", "unit"),
    "Schedule": ("recipe", "epochs", "batch", "optimizer", "lr", "warmup", "weight_decay", "clip", "seed", "device"),
    "Loss": ("label_smoothing", "transform_penalty", "teacher", "teacher_weight", "feature_weight", "temperature"),
    "Augmentation": ("rotate", "scale", "shift", "jitter", "drop"),
    "Layers and compilation": ("binary_first", "binary_last", "norm", "precise_norm", "compile", "capture"),
}


def config_help(field: "dataclasses.Field[Any]") -> str:
    """The help of an option with its default value, if there is one and the text does not name it already."""
    text: str = field.metadata["help"]
    if field.default is None or field.default is False or field.name == "recipe":
        return text
    if field.default is True:
        return text.removesuffix(".") + " (on by default)."
    default = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
    return f"{text.removesuffix('.')} (default: {default})."


def _with_config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace **given in the signature of `command` by one option per field of Config."""
    signature = inspect.signature(command)
    parameters = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    panels = {name: panel for panel, names in PANELS.items() for name in names}
    fields = {field.name: field for field in dataclasses.fields(Config)}
    for name in sorted(fields, key=list(panels).index):
        flag = name.replace("_", "-")
        kind = Config.__annotations__[name]
        kind = kind if kind in (int, float, bool) else {float | None: float, int | None: int}.get(kind, str)
        names = f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}"
        option = typer.Option(
            None, names, help=config_help(fields[name]), show_default=False, rich_help_panel=panels[name]
        )
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)
        )
    command.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


@_with_config_options
def train(
    data: str = DATA,
    config: Path | None = typer.Option(None, "--config", help="TOML file with options of the groups below."),
    folder: Path | None = typer.Option(None, "-o", "--out", help="Run folder (default: a new one in runs/)."),
    resume: bool = typer.Option(False, "--resume", help="Continue an interrupted run in the run folder."),
    init: Path | None = typer.Option(None, "--init", help="Start from the weights of another run, where they fit."),
    skip_bad: bool = SKIP_BAD,
    as_json: bool = AS_JSON,
    **given: Any,
) -> None:
    """Train a network on DATA.

    DATA is `shapes`, `rooms` or `outdoors` (built in), a folder in a known layout
    (ModelNet40, ScanObjectNN, ShapeNet Part, S3DIS), a folder with one subfolder
    per class, or a manifest (CSV or JSON). With --task semantic it may also be a
    folder of labeled scans: LAS with classification, PLY with labels, ...

    The backbone is pointnet-vanilla for classification, pointnet for labels of
    points, and pointnet2 for labeled scans, unless --model names another one.

    Options override the TOML file, which overrides the recipe. The recipe is auto
    for your own files and built-in data: it chooses many options by the number of
    files. The defaults below are those of tuned, the recipe for published data.

    `--category each` and `--fold each` train one network per category or fold.

    Example: bipointnet train data/chairs -o runs/chairs
    """
    options = {name: value for name, value in given.items() if value is not None}
    values = (read_toml(config) if config else {}) | options
    source = f"{config} and the options" if config else "options"
    settings = from_mapping(source, values)
    each = "each" in (settings.category, settings.fold)
    if each and values.get("recipe") == "auto":
        raise UserError("--recipe auto is for one network; found it with `each`; leave one of the two out")
    _check_init(init, each)
    if settings.teacher is not None and identify(Path(settings.teacher)).packed:
        raise UserError(f"{settings.teacher}: a packed model; expected a run folder or a checkpoint for --teacher")
    if skip_bad and each:
        raise UserError("--skip-bad is for files of your own; found it with `each`; leave one of the two out")
    folder = folder or _default_folder(data, settings)
    if each:
        _check_series(folder, resume)
    else:
        settings = _check_run(folder, resume, settings, values)
    require("training", "torch", "safetensors")
    # Threads that wait for each other sleep instead of spinning, which on a busy machine takes ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if each:
        _train_each(values, settings, data, folder, as_json)
    else:
        _train_one(source, values, settings, data, folder, resume, init, skip_bad, as_json)


def _check_init(init: Path | None, each: bool) -> None:
    if init is None:
        return
    if each:
        raise UserError("--init is for one network; found it with `each`; leave one of the two out")
    if identify(init).packed:
        raise UserError(f"{init}: a packed model; expected a run folder or a checkpoint for --init")


def _check_run(folder: Path, resume: bool, settings: Config, given: dict[str, Any]) -> Config:
    """The settings to train with: with --resume, those the run in the folder was started with."""
    if resume and not is_run(folder):
        raise UserError(f"{folder}: holds no run to resume; leave --resume out to start one, or name the run with -o")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a file; expected a folder for the run; choose another with -o")
    if not resume and (folder / STATE).exists():
        raise UserError(f"{folder}: holds a run already; add --resume to continue it, or choose another with -o")
    return started_config(folder, given) if resume else settings


def _check_series(folder: Path, resume: bool) -> None:
    runs = [path.parent for path in folder.glob(f"*/{STATE}")]
    if resume and not runs:
        raise UserError(f"{folder}: holds no runs to resume; leave --resume out to start them, or name them with -o")
    if runs and not resume:
        raise UserError(f"{folder}: holds runs already; add --resume to continue them, or choose another with -o")


def _train_one(
    source: str,
    given: dict[str, Any],
    settings: Config,
    data: str,
    folder: Path,
    resume: bool,
    init: Path | None,
    skip_bad: bool,
    as_json: bool,
) -> None:
    from bipointnet.data import open_dataset

    # Scans of one's own have as many points per block as suits them, unless the number is given.
    points = settings.points if resume or "points" in given else None
    # Without a backbone, the recipe picks one for scans.
    picked_model = (
        None if not resume and "model" not in given and given.get("recipe", "auto") == "auto" else settings.model
    )
    scans = _scan_options(settings, picked_model, points)
    clouds = open_dataset(data, points or settings.points, fold=settings.fold, skip_bad=skip_bad, scans=scans)
    clouds = clouds.only(settings.category) if settings.category else clouds
    picked = ""
    if not resume:
        settings, picked = _picked(source, given, clouds)

    def on_start() -> None:
        print_summary(clouds)
        if picked:
            err.print(plain(picked), highlight=False, soft_wrap=True)

    import_whole("torch")
    from bipointnet.training.loop import train as run_training

    with epoch_bar() as bars, _resumable(data, folder, *as_words({"skip_bad": True} if skip_bad else {})):
        on_progress = epoch_progress(bars, " ".join(_network(settings)), settings.epochs)
        figures = run_training(
            settings,
            clouds,
            folder,
            resume=resume,
            init=init,
            data_path=data,
            on_start=on_start,
            on_progress=on_progress,
        )
    if figures["last_oa"] is None:  # one of several processes that torchrun started; the first one evaluates
        return
    if as_json:
        print_json(figures)
        return
    if "last_miou" in figures:
        last = f"{figures['last_miou']:.2f} % mIoU, {figures['last_oa']:.2f} % point accuracy"
        best = f"{figures['best_miou']:.2f} % mIoU"
    else:
        last = f"{figures['last_oa']:.2f} % overall accuracy, {figures['last_macc']:.2f} % mean class accuracy"
        best = f"{figures['best_oa']:.2f} %"
    part = clouds.name.partition("/")[2]  # the category or the fold
    print_line(
        f"{plain(f'{data}/{part}' if part else data)}: last epoch {last}; best epoch {best}; {figures['seconds']:.0f} s"
    )
    print_line(f"Run: {plain(folder)}")
    print_line(f"Report: {plain(folder / 'report.html')}")


def _scan_options(settings: Config, model: str | None, points: int | None) -> "ScanOptions | None":
    """How labeled scans are read; None for other tasks."""
    if settings.task != "semantic":
        return None
    if settings.up not in (None, "z"):
        raise UserError(f"up is {settings.up!r} with task 'semantic'; expected z; rotate the scans first")
    from bipointnet.data.scan_choices import ScanOptions

    return ScanOptions(
        points=points,
        block=settings.block,
        wide_block=10.0 if model in POINTNETS else 20.0,  # neighborhoods need more points
        channels=None if settings.channels is None else tuple(filter(None, column_names(settings.channels))),
        columns=tuple(column_names(settings.columns)),
        labels=settings.labels,
        classes=None if settings.classes is None else Path(settings.classes),
        split=settings.split,
        unit=settings.unit,
    )


def _picked(source: str, given: dict[str, Any], clouds: "PointClouds") -> tuple[Config, str]:
    """The settings for these data, options that are given or else from the recipe; and what the recipe picked."""
    if given.get("recipe", default(clouds.name)) != "auto":
        points = {} if clouds.scans is None else {"points": clouds.train.points.shape[1]}
        return from_mapping(source, points | given), ""
    settings = from_mapping(source, given)  # for the defaults of task and model
    count, task = len(clouds.train), settings.task
    values = picks(clouds, settings, given.get("epochs"), given.get("model"))
    classes = len(clouds.classes if task == "classify" else clouds.point_classes)
    return from_mapping(source, values | given), sentence(values, given, count, classes)


@contextmanager
def _resumable(data: str, folder: Path, *options: str) -> Iterator[None]:
    """Say how to continue: after Ctrl-C or SIGTERM, with exit code 128 plus its number, or if a disk is full."""
    from bipointnet.training.interrupts import Interrupted

    try:
        yield
    except OSError as error:
        raise UserError(
            f"{error.filename or folder}: cannot be written ({error.strerror or error}); free disk space or check the "
            "permissions, then continue with --resume, or choose another folder with -o"
        ) from error
    except Interrupted as stopped:
        command = shlex.join(["bipointnet", "train", data, *options, "-o", str(folder), "--resume"])
        err.print(
            f"Stopped in epoch {stopped.epoch} of {stopped.epochs}; the state is saved. To continue: {plain(command)}",
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(128 + stopped.number) from stopped


def _train_each(given: dict[str, Any], settings: Config, data: str, folder: Path, as_json: bool) -> None:
    """Train one network per category of objects or per fold of rooms, and print their scores together."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(
            "`each` trains one network after another; found torchrun; start it without torchrun, or name one category "
            "or fold"
        )
    from bipointnet.data import fold_names, open_dataset, require_no_fold

    clouds = open_dataset(data, settings.points) if settings.category else None
    if clouds is not None:
        print_summary(clouds)
    folds = [] if settings.category else fold_names(data)
    if clouds is None and not folds:
        require_no_fold(data, settings.fold)
    import_whole("torch")
    from bipointnet.training.cross_validation import every_category, every_fold

    with epoch_bar() as bars, _resumable(data, folder, *as_words(given)):

        def on_progress(name: str) -> Callable[[Any], None]:
            return epoch_progress(bars, name, settings.epochs)

        if clouds is not None:
            totals = every_category(settings, clouds, folder, on_progress, data)
        else:
            # As for a single fold: options for scans of one's own are refused.
            scans = _scan_options(settings, settings.model, settings.points)
            totals = every_fold(
                settings,
                folds,
                lambda name: open_dataset(data, settings.points, fold=name, scans=scans),
                folder,
                on_progress,
                data,
            )
    if as_json:
        print_json(totals)
        return
    parts = "categories" if settings.category else "folds"
    columns = {parts: "left", "mIoU": "right", "best epoch": "right", "point accuracy": "right"}
    table = empty_table(f"{plain(totals['dataset'])}: {settings.method}, last epoch", columns)
    for name, line in totals[parts].items():
        cells = (line["last_miou"], line["best_miou"], line["last_oa"])
        table.add_row(plain(name), *(f"{cell:.1f} %" for cell in cells))
    out.print(table)
    named = {
        "paper_miou": "mIoU weighted as in the paper",
        "category_miou": "mean over categories",
        "instance_miou": "mean over shapes",
        "miou": "mIoU of all folds",
        "oa": "point accuracy",
    }
    print_line("   ".join(f"{text} {totals[key]:.2f} %" for key, text in named.items() if key in totals))
    print_line(f"Runs: {plain(folder)}")


def _network(settings: Config) -> list[str]:
    task = [] if settings.task == "classify" else [settings.task]
    return [*task, settings.model, settings.method, *([settings.pool] if settings.pool else [])]


def _default_folder(data: str, settings: Config) -> Path:
    return Path("runs") / "-".join([Path(data).resolve().name, *_network(settings), f"seed{settings.seed}"])
