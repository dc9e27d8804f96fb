"""The command line: parses, calls, prints."""

import dataclasses
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn, track
from rich.table import Table

from bipointnet import __version__
from bipointnet.config import Config, from_mapping, read_toml
from bipointnet.errors import UserError

if TYPE_CHECKING:
    import numpy as np

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


def _is_packed(path: Path) -> bool:
    """Whether a model is a packed file or a run, by its content; UserError where it is neither."""
    from bipointnet import runtime

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


def _table(title: str, columns: dict[str, str]) -> Table:
    """An empty table; columns: their names, each with its side."""
    table = Table(title=title)
    for name, side in columns.items():
        table.add_column(name, justify="right" if side == "right" else "left")
    return table


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


@contextmanager
def _counting(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work that tells how much of it is done; it goes when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=err, transient=True) as progress:
        task = progress.add_task(title)
        yield lambda done, of: progress.update(task, completed=done, total=of)


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
    folder: Path = typer.Option(Path("demo"), "-o", "--out", help="Where runs, packed model and picture go."),
    as_json: bool = AS_JSON,
) -> None:
    """Train a 1-bit PointNet, its float twin and a naive 1-bit network on built-in shapes, in minutes on a CPU.

    Then pack the first for the torch-free runtime, check it bit by bit, and race it against others.
    """
    _need_torch()
    from bipointnet.demo import NETWORKS, ship
    from bipointnet.demo import demo as run_demo

    with _bar() as progress:
        watchers = {name: _watcher(progress, name, config.epochs) for name, config in NETWORKS.items()}
        contestants = run_demo(folder, lambda name, moment: watchers[name](moment))
    with _counting("packing") as watch:
        shipped = ship(folder, contestants[0], watch)
    if as_json:
        networks = [{"name": c.name, "bytes": c.bytes, **c.figures} for c in contestants]
        _print_json({"networks": networks, "packed": shipped})
        return
    right = dict.fromkeys(("accuracy", "mean class", "entropy", "size", "time"), "right")
    table = _table("Held-out shapes, last epoch", {"network": "left"} | right)
    for c in contestants:
        table.add_row(
            c.name,
            f"{c.judgement.overall:.1f} %",
            f"{c.judgement.mean_class:.1f} %",
            "-" if c.figures["method"] == "fp" else f"{c.judgement.entropy:.2f}",
            f"{c.bytes / 1000:,.0f} kB",
            f"{c.figures['seconds']:.0f} s",
        )
    out.print(table)
    one, float_twin = contestants[0], contestants[1]
    out.print(
        f"The 1-bit network is {float_twin.bytes / one.bytes:.1f} times smaller than its float twin and "
        f"{float_twin.judgement.overall - one.judgement.overall:.1f} points behind it. Plain max pooling leaves the "
        f"naive one {contestants[2].judgement.entropy:.2f} bits of entropy a pooled feature to work with.\n"
    )
    out.print(f"Packed: {folder / 'demo.bpn'}, {shipped['bench']['bytes']['packed']:,} bytes", highlight=False)
    _print_verification(shipped["verify"])
    out.print(
        f"It names {shipped['as_torch']} of {shipped['clouds']} held-out shapes as PyTorch does: "
        f"{shipped['accuracy']:.1f} % right. The first shows {shipped['truth']}; it says {shipped['name']}, "
        f"{100 * shipped['probability']:.1f} %."
    )
    _print_race(shipped["bench"])
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


def _judge_run(model: Path, data: str) -> tuple[Any, "np.ndarray", dict[str, Any]]:
    """The data set, the confusion of a trained network on its test split, and facts for the report."""
    _need_torch()
    import torch

    from bipointnet import checkpoint
    from bipointnet.data import open_dataset
    from bipointnet.tasks import judge

    network, facts = checkpoint.load_model(model)
    points = facts["config"]["points"]
    clouds = open_dataset(data, points)
    _require_same_classes(data, clouds.classes, model, facts["classes"], facts["data"])
    with err.status("judging"):
        judgement = judge(
            network, torch.from_numpy(clouds.test.points), clouds.test.labels, len(clouds.classes), points
        )
    return clouds, judgement.confusion, {"epoch": facts["epoch"], "entropy": judgement.entropy}


def _judge_packed(path: Path, data: str) -> tuple[Any, "np.ndarray", dict[str, Any]]:
    """The same of a packed model, without PyTorch."""
    import numpy as np

    from bipointnet import metrics, runtime
    from bipointnet.data import open_dataset

    model = runtime.load(path)
    training = model.manifest["training"]
    clouds = open_dataset(data, model.points)
    _require_same_classes(data, clouds.classes, path, model.classes, training.get("data", "the data"))
    points, step = clouds.test.points[:, : model.points], 64
    parts = track(
        range(0, len(points), step), description="judging", console=err, transient=True, disable=len(points) <= step
    )
    labels = [model.predict(points[i : i + step], threads=os.cpu_count() or 1).labels for i in parts]
    confusion = metrics.confusion_matrix(clouds.test.labels, np.concatenate(labels), len(clouds.classes))
    return clouds, confusion, {"epoch": training.get("epochs"), "isa": model.isa}


def _require_same_classes(data: str, found: Any, model: Path, expected: list[str], trained_on: str) -> None:
    if list(found) != expected:
        raise UserError(
            f"{data}: its {len(found)} classes are not the {len(expected)} of {trained_on} that {model} was trained "
            "on; expected the same class names"
        )


@app.command("eval")
def evaluate(
    model: Path = MODEL, data: str = typer.Argument(help="shapes, or a folder."), as_json: bool = AS_JSON
) -> None:
    """Judge a trained or packed network on the test split of DATA."""
    from bipointnet import metrics

    clouds, confusion, facts = (_judge_packed if _is_packed(model) else _judge_run)(model, data)
    overall, mean_class = metrics.overall_accuracy(confusion), metrics.mean_class_accuracy(confusion)
    accuracies = metrics.class_accuracies(confusion)
    if as_json:
        _print_json(
            {
                "dataset": clouds.name,
                "clouds": len(clouds.test),
                "oa": overall,
                "macc": mean_class,
                **facts,
                "class_accuracy": {c: float(a) for c, a in zip(clouds.classes, accuracies, strict=True) if a == a},
                "confusion": confusion.tolist(),
            }
        )
        return
    table = _table(
        f"{clouds.name}: {len(clouds.test)} test clouds, epoch {facts['epoch']}",
        {"class": "left", "clouds": "right", "accuracy": "right", "most often taken for": "left"},
    )
    for i, name in enumerate(clouds.classes):
        row = confusion[i].copy()
        total, row[i] = int(row.sum()), 0
        other = f"{clouds.classes[row.argmax()]} ({row.max()})" if row.any() else ""
        table.add_row(name, str(total), f"{accuracies[i]:.1f} %" if total else "-", other)
    out.print(table)
    out.print(f"overall {overall:.2f} %   mean class {mean_class:.2f} %")


def _run_namer(model: Path) -> tuple[Callable[["np.ndarray"], tuple[str, float]], int, int]:
    """What names a cloud (N, 3), the points a cloud it was trained with, and the numbers a point."""
    _need_torch()
    import torch

    from bipointnet import checkpoint
    from bipointnet.tasks import classify

    network, facts = checkpoint.load_model(model)

    def name(points: "np.ndarray") -> tuple[str, float]:
        logits, _ = classify(network, torch.from_numpy(points)[None], len(points))
        p = logits.softmax(dim=1)[0]
        best = int(p.argmax())
        return facts["classes"][best], float(p[best])

    return name, facts["config"]["points"], facts["channels"]


def _packed_namer(path: Path) -> tuple[Callable[["np.ndarray"], tuple[str, float]], int, int]:
    """The same of a packed model, without PyTorch."""
    from bipointnet import runtime

    model = runtime.load(path)

    def name(points: "np.ndarray") -> tuple[str, float]:
        said = model.predict(points)
        return said.names, float(said.probabilities[said.labels])

    return name, model.points, model.channels


@app.command()
def predict(
    model: Path = MODEL,
    files: list[Path] = typer.Argument(help="Clouds or meshes: ply, off, obj, stl, xyz, npy, pcd, las, ..."),
    as_json: bool = AS_JSON,
) -> None:
    """Name what is in each FILE. Larger clouds are thinned to the number of points the network was trained with."""
    import numpy as np

    from bipointnet import clouds

    namer, most, channels = (_packed_namer if _is_packed(model) else _run_namer)(model)
    if channels != 3:
        raise UserError(f"{model}: it reads {channels} numbers a point; expected 3, all that predict takes from a file")
    rows = []
    for path in track(files, description="predicting", console=err, transient=True, disable=len(files) == 1):
        cloud = clouds.read(path)
        count = most if cloud.faces is not None else min(most, len(cloud.points))
        label, probability = namer(clouds.sample(cloud, count, np.random.default_rng(0), str(path)))
        rows.append({"file": str(path), "label": label, "probability": probability, "points": count})
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        out.print(
            f"{_plain(row['file'])}  {_plain(row['label'])}  {100 * row['probability']:.1f} %",
            highlight=False,
            soft_wrap=True,
        )


@app.command()
def export(
    run: Path = typer.Argument(help="Run folder (its last epoch) or checkpoint file."),
    path: Path = typer.Option(..., "-o", "--out", help="The packed model to write, for example chairs.bpn."),
    last: str = typer.Option("f16", "--last", help="Weights of a float last layer: f16 or f32."),
    as_json: bool = AS_JSON,
) -> None:
    """Pack a trained network into one small file that runs without PyTorch."""
    _need_torch()
    if run.is_file() and _is_packed(run):
        raise UserError(f"{run}: a packed model already; expected a run folder or a checkpoint")
    if path.is_dir():
        raise UserError(f"{path}: a folder where the file to write is expected; name a file in it")
    from bipointnet import bench, pack, runtime

    try:
        with err.status("packing"):
            pack.export_run(run, path, last)
            model = runtime.load(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another place with -o") from error
    fp32 = bench.float_bytes(bench.float_twin(model))
    if as_json:
        _print_json({"file": str(path), "bytes": model.bytes, "fp32": fp32, "ratio": round(fp32 / model.bytes, 2)})
        return
    out.print(
        f"{_plain(path)}: {model.bytes:,} bytes, {fp32 / model.bytes:.1f} times smaller than the same network in "
        f"float32 ({fp32:,})",
        highlight=False,
        soft_wrap=True,
    )


def _inspect_packed(path: Path) -> tuple[dict[str, Any], Table]:
    """Facts of a packed model, and its operations as a table."""
    from bipointnet import runtime

    model = runtime.load(path)
    operations = model.operations()
    right = dict.fromkeys(("in", "out", "multiply-adds", "bytes"), "right")
    table = _table(path.name, {"#": "right", "operation": "left"} | right | {"weights": "left"})
    for i, o in enumerate(operations):
        weights = model.tensors.get(f"{i}.weight")
        kind = "" if weights is None else {"U64": "1 bit", "F16": "float16"}.get(weights.dtype, "float32")
        details = [
            str(o.fields[key]) for key in ("pool", "activation", "matrix") if o.fields.get(key, "none") != "none"
        ]
        products = f"{o.multiply_adds:,} a {'point' if o.on_points else 'cloud'}" if o.multiply_adds else ""
        name = " ".join([o.op, *details])
        table.add_row(
            str(i), name, str(o.inputs or ""), str(o.outputs), products, f"{o.bytes:,}" if o.bytes else "", kind
        )

    def products_of(one_bit: bool) -> int:
        counted = (o for o in operations if o.one_bit == one_bit)
        return sum(o.multiply_adds * (model.points if o.on_points else 1) for o in counted)

    tensors = sum(t.bytes for t in model.tensors.values())
    return {
        "model": model.manifest["model"],
        "classes": model.classes,
        "channels": model.channels,
        "normalize": model.manifest["normalize"],
        "operations": [{**o.fields, **o._asdict(), "fields": None} for o in operations],
        "multiply_adds": {"points": model.points, "one_bit": products_of(True), "float": products_of(False)},
        "bytes": {"file": model.bytes, "tensors": tensors, "header": model.bytes - tensors},
        "training": model.manifest["training"],
    }, table


def _inspect_run(run: Path) -> tuple[dict[str, Any], Table]:
    """Facts of a trained network, and its layers as a table."""
    _need_torch()
    from torch import nn

    from bipointnet import checkpoint
    from bipointnet.nn import BinaryLinear, deployed_bytes

    network, facts = checkpoint.load_model(run)
    table = _table(str(run.name), {"layer": "left", "kind": "left", "shape": "left", "parameters": "right"})
    layers = []
    for name, module in network.named_modules():
        count = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        if not count:
            continue
        kind = "1 bit" if isinstance(module, BinaryLinear) else "float" if isinstance(module, nn.Linear) else "norm"
        shape = " x ".join(str(size) for size in next(module.parameters(recurse=False)).shape)
        layers.append({"layer": name, "kind": kind, "shape": shape, "parameters": count})
        table.add_row(name, kind, shape, f"{count:,}")
    return {
        "model": facts["config"]["model"],
        "classes": facts["classes"],
        "channels": facts["channels"],
        "layers": layers,
        "parameters": sum(layer["parameters"] for layer in layers),
        "bytes": {"deployed": deployed_bytes(network)},
        "training": {"data": facts["data"], "epoch": facts["epoch"], **facts["config"]},
    }, table


@app.command("inspect")
def look_into(model: Path = MODEL, as_json: bool = AS_JSON) -> None:
    """Show what a model is made of: operations or layers, bits, bytes, multiply-adds, and how it was trained."""
    packed = _is_packed(model)
    facts, table = (_inspect_packed if packed else _inspect_run)(model)
    if as_json:
        _print_json(facts)
        return
    out.print(table)
    bytes_, training = facts["bytes"], facts["training"]
    if packed:
        products = facts["multiply_adds"]
        total = products["one_bit"] + products["float"]
        out.print(
            f"{bytes_['file']:,} bytes ({bytes_['header']:,} of them the header). A cloud of {products['points']} "
            f"points takes {total:,} multiply-adds, {100 * products['one_bit'] / total:.1f} % of them with 1 bit."
        )
    else:
        out.print(
            f"{facts['parameters']:,} parameters; {bytes_['deployed']:,} bytes with BatchNorm merged and bits packed"
        )
    out.print(f"{len(facts['classes'])} classes: {_plain(', '.join(facts['classes']))}")
    shown = ", ".join(f"{name} {value}" for name, value in training.items() if value is not None)
    out.print(f"Training: {_plain(shown) or 'the file does not say'}")


def _differences(tally: dict[str, Any]) -> str:
    return f"{tally['values']:,} values, {tally['different']} differ"


def _print_verification(report: dict[str, Any]) -> None:
    rows = [("golden vector", f"{', '.join(report['golden']['isas'])}: all within {report['golden']['tolerance']:g}")]
    rows += [("numpy oracle", f"{_differences(report['oracle'])} from portable")]
    rows += [(name, f"{_differences(tally)} from portable") for name, tally in report["isas"].items()]
    torch = report["torch"]
    if torch:
        bits = f"{torch['bits']:,} bits, {torch['different']} differ"
        near = f" ({torch['near_zero']} float sums within rounding of 0)" if torch["different"] else ""
        rows += [
            ("PyTorch, float64", bits + near),
            ("", f"{torch['labels_different']} of {torch['clouds']} labels differ"),
        ]
    for name, said in rows:
        out.print(f"  {name:18}{said}", highlight=False, soft_wrap=True)
    tallies = [report["oracle"], *report["isas"].values(), *([torch] if torch else [])]
    for place in [place for tally in tallies for place in tally["places"]]:
        out.print(f"  [red]wrong[/] {_plain(place)}", highlight=False, soft_wrap=True)


@app.command()
def verify(
    path: Path = PACKED,
    run: Path | None = typer.Option(None, "--run", help="The run it was exported from: PyTorch joins in."),
    data: str | None = typer.Option(None, "--data", help="Test clouds too: shapes, or a folder."),
    as_json: bool = AS_JSON,
) -> None:
    """Check a packed model value by value: numpy, every instruction set here and, with --run, PyTorch.

    The exit code is 1 where anything differs that should not.
    """
    from bipointnet import runtime
    from bipointnet.verify import verify as compare

    model = runtime.load(path)
    if run is not None:
        _need_torch()
    clouds = None
    if data is not None:
        from bipointnet.data import open_dataset

        clouds = open_dataset(data, model.points).test.points[:, : model.points]
        if clouds.shape[-1] != model.channels:
            raise UserError(
                f"{data}: {clouds.shape[-1]} numbers a point; expected the {model.channels} that {path} reads"
            )
    with _counting("verifying") as watch:
        report = compare(path, data=clouds, run=run, watch=watch)
    if as_json:
        _print_json(report)
    else:
        _print_verification(report)
        out.print("All is as it should be." if report["ok"] else "[bold red]Not as it should be.[/]")
    if not report["ok"]:
        raise typer.Exit(1)


def _print_race(race: dict[str, Any]) -> None:
    table = _table(
        f"One cloud of {race['points']} points, {race['threads']} thread{'s' if race['threads'] > 1 else ''}",
        {"runtime": "left", "p50": "right", "p99": "right", "cold": "right", f"{race['isa']} is faster": "right"},
    )
    ours = race["ours_us"]
    for name, us in race["isas"].items():
        here = name == race["isa"]
        p99, cold = (f"{race[key]['ours']:,.0f} us" if here else "" for key in ("p99_us", "cold_us"))
        table.add_row(f"1-bit, {name}", f"{us:,.0f} us", p99, cold, "" if here else f"{us / ours:.1f} x")
    for name, us in race["peers_us"].items():
        kind = "int8" if name.endswith("_int8") else "float32"
        p99, cold = (f"{race[key][name]:,.0f} us" for key in ("p99_us", "cold_us"))
        runtime = f"{kind}, {name.removesuffix('_int8')}"
        table.add_row(runtime, f"{us:,.0f} us", p99, cold, f"{race['ratio'][name]:.1f} x")
    out.print(table)
    batch = race["batch"]
    out.print(
        f"{batch['clouds']} clouds at once: {batch['us_a_cloud']['one_thread']:,.0f} us a cloud on one thread, "
        f"{batch['us_a_cloud']['threads']:,.0f} us on {batch['threads']} ({batch['speedup']:.2f} x). "
        f"{race['bytes']['ratio']:.1f} times smaller than float32. {race['machine']['cpu']}",
        highlight=False,
    )


@app.command()
def bench(
    path: Path = PACKED,
    points: int = typer.Option(1024, "--points", help="Points of the cloud."),
    threads: int = typer.Option(1, "--threads", help="Threads of every contestant."),
    rounds: int = typer.Option(200, "--rounds", help="Turns of each contestant, four calls each."),
    as_json: bool = AS_JSON,
) -> None:
    """Race a packed model against ONNX Runtime, OpenVINO and PyTorch, whichever are installed, on the same network."""
    from bipointnet.bench import bench as race

    with _counting("racing") as watch:
        report = race(path, points=points, threads=threads, rounds=rounds, watch=watch)
    if as_json:
        _print_json(report)
        return
    _print_race(report)
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    out.print(versions, highlight=False, style="dim")
    if "onnxruntime" not in report["peers_us"]:
        out.print("ONNX Runtime is not installed: pip install 'bipointnet\\[bench]' to have it race too.")
