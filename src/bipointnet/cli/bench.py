"""The command bench."""

from pathlib import Path
from typing import Any

import typer

from bipointnet.cli.common import (
    AS_JSON,
    PACKED,
    counting_bar,
    empty_table,
    out,
    plain,
    print_json,
    print_line,
    require_packed,
)
from bipointnet.cli.sweep import bench_sweep, parse_sizes
from bipointnet.errors import UserError
from bipointnet.extras import install_hint, installed

SWEEP = "Sweep over the number of points"


def bench(
    path: Path = PACKED,
    points: str | None = typer.Option(
        None,
        "--points",
        metavar="N",
        help="Points per cloud (default: as in training; 1024 if the file does not say). With --sweep a list, such as "
        "32,1024 (default: nine sizes).",
    ),
    threads: int = typer.Option(1, "--threads", help="Threads of every runtime."),
    rounds: int = typer.Option(
        200,
        "--rounds",
        help="Rounds; in each, every runtime is called four times. With --sweep, large clouds have fewer.",
    ),
    as_json: bool = AS_JSON,
    sweep: bool = typer.Option(
        False,
        "--sweep",
        metavar="",
        rich_help_panel=SWEEP,
        help="Time, memory and accuracy on clouds of 32 to 1,000,000 points; takes a minute or two.",
    ),
    clouds: int | None = typer.Option(
        None, "--clouds", rich_help_panel=SWEEP, help="Built-in test clouds for the accuracy (default: 200)."
    ),
    report_file: Path | None = typer.Option(
        None, "-o", "--out", rich_help_panel=SWEEP, help="Write the result to this file, such as sweep.json."
    ),
    picture: Path | None = typer.Option(
        None, "--picture", rich_help_panel=SWEEP, help="Draw the result into this file, such as sweep.png."
    ),
) -> None:
    """Benchmark a packed model against the same network in float32.

    Compares with ONNX Runtime, OpenVINO and PyTorch, if they are installed
    and if the network pools over all points: PointNets, segmentation networks.
    With --sweep, compares with ONNX Runtime only.
    """
    require_packed(path)
    if sweep:
        bench_sweep(
            path,
            points=points,
            threads=threads,
            rounds=rounds,
            clouds=clouds,
            report_file=report_file,
            picture=picture,
            as_json=as_json,
        )
        return
    for name, value in (("--clouds", clouds), ("--out", report_file), ("--picture", picture)):
        if value is not None:
            raise UserError(f"{name} is {str(value)!r} without --sweep; expected both, or neither; add --sweep")
    bench_size(path, None if points is None else parse_size(points), threads, rounds, as_json)


def parse_size(text: str) -> int:
    """The value of --points without --sweep: one integer."""
    sizes = parse_sizes(text)
    if len(sizes) > 1:
        raise UserError(f"--points is '{text}' without --sweep; expected one integer; add --sweep to measure them all")
    return sizes[0]


def bench_size(path: Path, points: int | None, threads: int, rounds: int, as_json: bool) -> None:
    """Benchmark one cloud of one size, and a batch."""
    if installed("torch"):
        from bipointnet.evaluation.bench_torch import bench as measure
    else:
        from bipointnet.runtime.bench import bench as measure

    with counting_bar("benchmarking") as progress:
        report = measure(path, points=points, threads=threads, rounds=rounds, progress=progress)
    if as_json:
        print_json(report)
        return
    print_benchmark(report)
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    out.print(versions, highlight=False, style="dim")
    if not report["float_twin"]:
        print_line(
            "No comparison: bench has no float32 version of some operations of this network, such as neighbor searches."
        )
    elif "onnxruntime" not in report["peers_us"]:
        hint = plain(install_hint("onnx", "onnxruntime"))
        print_line(f"ONNX Runtime is not installed; to compare with it: {hint}")


def print_benchmark(report: dict[str, Any]) -> None:
    """A table of all runtimes, and the figures that do not fit into it."""
    threads = report["threads"]
    table = empty_table(
        f"One cloud of {report['points']} points, {threads} thread{'s' if threads > 1 else ''}",
        {"runtime": "left"} | dict.fromkeys(("p50", "p99", "first call", f"{report['isa']} is faster"), "right"),
    )
    packed = report["packed_us"]
    for name, us in report["isas_us"].items():
        here = name == report["isa"]
        p99, first = (f"{report[key]['packed']:,.0f} us" if here else "" for key in ("p99_us", "first_call_us"))
        table.add_row(f"1-bit, {name}", f"{us:,.0f} us", p99, first, "" if here else f"{us / packed:.1f} x")
    for name, us in report["peers_us"].items():
        kind = "int8" if name.endswith("_int8") else "float32"
        p99, first = (f"{report[key][name]:,.0f} us" for key in ("p99_us", "first_call_us"))
        runtime = f"{kind}, {name.removesuffix('_int8')}"
        table.add_row(runtime, f"{us:,.0f} us", p99, first, f"{report['speedup'][name]:.1f} x")
    out.print(table)
    batch = report["batch"]
    times = batch["us_per_cloud"]
    several = f", {times['all_threads']:,.0f} us on {batch['threads']} threads ({batch['speedup']:.2f} x)"
    out.print(
        f"With normalization and probabilities: {report['predict_us']:,.0f} us. A batch of {batch['clouds']} clouds: "
        f"{times['one_thread']:,.0f} us per cloud on one thread{several if batch['threads'] > 1 else ''}. "
        f"{report['bytes']['ratio']:.1f} times smaller than float32. {report['machine']['cpu']}",
        highlight=False,
    )
