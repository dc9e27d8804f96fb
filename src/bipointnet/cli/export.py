"""Commands about packed models: export, inspect, verify and bench."""

import importlib.util
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from bipointnet.cli.common import (
    AS_JSON,
    MODEL,
    PACKED,
    app,
    counting_bar,
    empty_table,
    err,
    is_packed,
    need_torch,
    out,
    plain,
    print_json,
)
from bipointnet.errors import UserError


@app.command()
def export(
    run: Path = typer.Argument(help="Run folder (its last epoch) or checkpoint file."),
    path: Path = typer.Option(..., "-o", "--out", help="The packed model to write, for example chairs.bpn."),
    last: str = typer.Option("f16", "--last", help="Weights of a float last layer: f16 or f32."),
    as_json: bool = AS_JSON,
) -> None:
    """Pack a trained network into one small file that runs without PyTorch."""
    need_torch()
    if run.is_file() and is_packed(run):
        raise UserError(f"{run}: a packed model already; expected a run folder or a checkpoint")
    if path.is_dir():
        raise UserError(f"{path}: a folder where the file to write is expected; name a file in it")
    from bipointnet.packing import pack
    from bipointnet.runtime import float_twin
    from bipointnet.runtime import model as runtime

    try:
        with err.status("packing"):
            pack.export_run(run, path, last)
            model = runtime.load(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another place with -o") from error
    fp32 = float_twin.float_bytes(float_twin.float_twin(model))
    if as_json:
        print_json({"file": str(path), "bytes": model.bytes, "fp32": fp32, "ratio": round(fp32 / model.bytes, 2)})
        return
    out.print(
        f"{plain(path)}: {model.bytes:,} bytes, {fp32 / model.bytes:.1f} times smaller than the same network in "
        f"float32 ({fp32:,})",
        highlight=False,
        soft_wrap=True,
    )


def _inspect_packed(path: Path) -> tuple[dict[str, Any], Table]:
    """Facts of a packed model, and its operations as a table."""
    from bipointnet.runtime import model as runtime

    model = runtime.load(path)
    operations = model.operations()
    right = dict.fromkeys(("in", "out", "multiply-adds", "bytes"), "right")
    table = empty_table(path.name, {"#": "right", "operation": "left"} | right | {"weights": "left"})
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
        "task": model.task,
        "classes": model.classes,
        "categories": model.categories,
        "channels": model.channels,
        "normalize": model.manifest["normalize"],
        "operations": [{**o.fields, **o._asdict(), "fields": None} for o in operations],
        "multiply_adds": {"points": model.points, "one_bit": products_of(True), "float": products_of(False)},
        "bytes": {"file": model.bytes, "tensors": tensors, "header": model.bytes - tensors},
        "training": model.manifest["training"],
    }, table


def _inspect_run(run: Path) -> tuple[dict[str, Any], Table]:
    """Facts of a trained network, and its layers as a table."""
    need_torch()
    from torch import nn

    from bipointnet.models import checkpoint
    from bipointnet.nn import BinaryLinear, deployed_bytes, operations

    network, facts = checkpoint.load_run(run)
    points = facts["config"]["points"]
    counted = operations(network, points, facts["channels"])
    right = dict.fromkeys(("parameters", "scales", "multiply-adds"), "right")
    table = empty_table(str(run.name), {"layer": "left", "kind": "left", "shape": "left"} | right)
    layers = []
    for name, module in network.named_modules():
        count = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        if not count:
            continue
        kind = "1 bit" if isinstance(module, BinaryLinear) else "float" if isinstance(module, nn.Linear) else "norm"
        shape = " x ".join(str(size) for size in next(module.parameters(recurse=False)).shape)
        scales = module.method.scale_count(module.out_features) if isinstance(module, BinaryLinear) else 0
        products = counted.layers.get(name, 0)
        layers.append(
            {"layer": name, "kind": kind, "shape": shape, "parameters": count, "scales": scales}
            | {"multiply_adds": products}
        )
        shown_scales = f"{scales:,}" if kind == "1 bit" else ""
        table.add_row(name, kind, shape, f"{count:,}", shown_scales, f"{products:,}" if products else "")
    return {
        "model": facts["config"]["model"],
        "classes": facts["classes"],
        "channels": facts["channels"],
        "layers": layers,
        "parameters": sum(layer["parameters"] for layer in layers),
        "scales": sum(layer["scales"] for layer in layers),
        "multiply_adds": {
            "points": points,
            "one_bit": counted.one_bit,
            "float": counted.float,
            "distances": counted.distances,
        },
        "bytes": {"deployed": deployed_bytes(network)},
        "training": {"data": facts["data"], "epoch": facts["epoch"], **facts["config"]},
    }, table


@app.command("inspect")
def look_into(model: Path = MODEL, as_json: bool = AS_JSON) -> None:
    """Show what a model is made of: operations or layers, bits, bytes, multiply-adds, and how it was trained."""
    packed = is_packed(model)
    facts, table = (_inspect_packed if packed else _inspect_run)(model)
    if as_json:
        print_json(facts)
        return
    out.print(table)
    bytes_, training, products = facts["bytes"], facts["training"], facts["multiply_adds"]
    if packed:
        size = f"{bytes_['file']:,} bytes ({bytes_['header']:,} of them the header)."
    else:
        size = (
            f"{facts['parameters']:,} parameters, {facts['scales']:,} scaling factors; {bytes_['deployed']:,} bytes "
            "with BatchNorm merged and bits packed."
        )
    total = products["one_bit"] + products["float"]
    distances = products.get("distances", 0)
    out.print(
        f"{size} A cloud of {products['points']} points takes {total:,} multiply-adds, "
        f"{100 * products['one_bit'] / total:.1f} % of them with 1 bit"
        f"{f', and {distances:,} for distances between points' if distances else ''}."
    )
    out.print(f"{len(facts['classes'])} classes: {plain(', '.join(facts['classes']))}")
    shown = ", ".join(f"{name} {value}" for name, value in training.items() if value is not None)
    out.print(f"Training: {plain(shown) or 'the file does not say'}")


def print_verification(report: dict[str, Any]) -> None:
    from bipointnet.runtime.verify import failures, summary

    for name, result in summary(report):
        out.print(f"  {name:18}{result}", highlight=False, soft_wrap=True)
    for place in failures(report):
        out.print(f"  [red]wrong[/] {plain(place)}", highlight=False, soft_wrap=True)


@app.command()
def verify(
    path: Path = PACKED,
    run: Path | None = typer.Option(None, "--run", help="The run it was exported from: PyTorch joins in."),
    data: str | None = typer.Option(None, "--data", help="Test clouds too: shapes, rooms, or a folder."),
    as_json: bool = AS_JSON,
) -> None:
    """Check a packed model value by value: numpy, every instruction set here and, with --run, PyTorch.

    The exit code is 1 where anything differs that should not.
    """
    from bipointnet.runtime import model as runtime
    from bipointnet.runtime.verify import verify as compare

    model = runtime.load(path)
    if run is not None:
        need_torch()
    clouds = None
    if data is not None:
        from bipointnet.data import open_dataset

        clouds = open_dataset(data, model.points).test.points[:, : model.points]
        if clouds.shape[-1] != model.channels:
            raise UserError(
                f"{data}: {clouds.shape[-1]} numbers a point; expected the {model.channels} that {path} reads"
            )
    with counting_bar("verifying") as watch:
        if run is None:
            report = compare(path, data=clouds, progress=watch)
        else:
            from bipointnet.evaluation.verify_torch import verify_against_run

            report = verify_against_run(path, run, data=clouds, progress=watch)
    if as_json:
        print_json(report)
    else:
        print_verification(report)
        out.print("All is as it should be." if report["ok"] else "[bold red]Not as it should be.[/]")
    if not report["ok"]:
        raise typer.Exit(1)


def print_race(race: dict[str, Any]) -> None:
    table = empty_table(
        f"One cloud of {race['points']} points, {race['threads']} thread{'s' if race['threads'] > 1 else ''}",
        {"runtime": "left", "p50": "right", "p99": "right", "cold": "right", f"{race['isa']} is faster": "right"},
    )
    ours = race["packed_us"]
    for name, us in race["isas_us"].items():
        here = name == race["isa"]
        p99, cold = (f"{race[key]['packed']:,.0f} us" if here else "" for key in ("p99_us", "first_call_us"))
        table.add_row(f"1-bit, {name}", f"{us:,.0f} us", p99, cold, "" if here else f"{us / ours:.1f} x")
    for name, us in race["peers_us"].items():
        kind = "int8" if name.endswith("_int8") else "float32"
        p99, cold = (f"{race[key][name]:,.0f} us" for key in ("p99_us", "first_call_us"))
        runtime = f"{kind}, {name.removesuffix('_int8')}"
        table.add_row(runtime, f"{us:,.0f} us", p99, cold, f"{race['speedup'][name]:.1f} x")
    out.print(table)
    batch = race["batch"]
    out.print(
        f"The whole of `predict` or `segment`, from the cloud as it comes to the answer: {race['predict_us']:,.0f} us. "
        f"{batch['clouds']} clouds at once: {batch['us_per_cloud']['one_thread']:,.0f} us a cloud on one thread, "
        f"{batch['us_per_cloud']['all_threads']:,.0f} us on {batch['threads']} ({batch['speedup']:.2f} x). "
        f"{race['bytes']['ratio']:.1f} times smaller than float32. {race['machine']['cpu']}",
        highlight=False,
    )


@app.command()
def bench(
    path: Path = PACKED,
    points: int | None = typer.Option(
        None, "--points", help="Points of the cloud (default: 1024; to label points, as many as in training)."
    ),
    threads: int = typer.Option(1, "--threads", help="Threads of every contestant."),
    rounds: int = typer.Option(200, "--rounds", help="Turns of each contestant, four calls each."),
    as_json: bool = AS_JSON,
) -> None:
    """Race a packed model against ONNX Runtime, OpenVINO and PyTorch, whichever are installed, on the same network."""
    if importlib.util.find_spec("torch") is not None:
        from bipointnet.evaluation.bench_torch import bench as race
    else:
        from bipointnet.runtime.bench import bench as race

    with counting_bar("racing") as watch:
        report = race(path, points=points, threads=threads, rounds=rounds, progress=watch)
    if as_json:
        print_json(report)
        return
    print_race(report)
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    out.print(versions, highlight=False, style="dim")
    if "onnxruntime" not in report["peers_us"]:
        out.print("ONNX Runtime is not installed: pip install 'bipointnet\\[bench]' to have it race too.")
