"""The command bench."""

from pathlib import Path
from typing import Any

import typer

from bipointnet.cli.common import AS_JSON, PACKED, counting_bar, empty_table, out, plain, print_json, print_line
from bipointnet.extras import install_hint


def bench(
    path: Path = PACKED,
    points: int | None = typer.Option(
        None, "--points", help="Points per cloud (default: 1024; as in training if the model labels points)."
    ),
    threads: int = typer.Option(1, "--threads", help="Threads of every runtime."),
    rounds: int = typer.Option(200, "--rounds", help="Rounds; in each, every runtime is called four times."),
    as_json: bool = AS_JSON,
) -> None:
    """Benchmark a packed model against the same network in float32.

    Compares with ONNX Runtime, OpenVINO and PyTorch, if they are installed.
    """
    from bipointnet.runtime.bench import bench as measure

    with counting_bar("benchmarking") as progress:
        report = measure(path, points=points, threads=threads, rounds=rounds, watch=progress)
    if as_json:
        print_json(report)
        return
    print_benchmark(report)
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    out.print(versions, highlight=False, style="dim")
    if "onnxruntime" not in report["peers_us"]:
        hint = plain(install_hint("onnx", "onnxruntime"))
        print_line(f"ONNX Runtime is not installed; to compare with it: {hint}")


def print_benchmark(report: dict[str, Any]) -> None:
    """A table of all runtimes, and the figures that do not fit into it."""
    threads = report["threads"]
    table = empty_table(
        f"One cloud of {report['points']} points, {threads} thread{'s' if threads > 1 else ''}",
        {"runtime": "left", "p50": "right", "p99": "right", "cold": "right", f"{report['isa']} is faster": "right"},
    )
    ours = report["ours_us"]
    for name, us in report["isas"].items():
        here = name == report["isa"]
        p99, cold = (f"{report[key]['ours']:,.0f} us" if here else "" for key in ("p99_us", "cold_us"))
        table.add_row(f"1-bit, {name}", f"{us:,.0f} us", p99, cold, "" if here else f"{us / ours:.1f} x")
    for name, us in report["peers_us"].items():
        kind = "int8" if name.endswith("_int8") else "float32"
        p99, cold = (f"{report[key][name]:,.0f} us" for key in ("p99_us", "cold_us"))
        runtime = f"{kind}, {name.removesuffix('_int8')}"
        table.add_row(runtime, f"{us:,.0f} us", p99, cold, f"{report['ratio'][name]:.1f} x")
    out.print(table)
    batch = report["batch"]
    times = batch["us_a_cloud"]
    out.print(
        f"All of `predict` or `segment`, with normalization and probabilities: {report['predict_us']:,.0f} us. "
        f"A batch of {batch['clouds']} clouds: {times['one_thread']:,.0f} us per cloud on one thread, "
        f"{times['threads']:,.0f} us on {batch['threads']} ({batch['speedup']:.2f} x). "
        f"{report['bytes']['ratio']:.1f} times smaller than float32. {report['machine']['cpu']}",
        highlight=False,
    )
