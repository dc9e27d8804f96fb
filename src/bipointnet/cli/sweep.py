"""The command bench with --sweep."""

from pathlib import Path
from typing import Any

from bipointnet.cli.common import counting_bar, empty_table, out, plain, print_json, print_line
from bipointnet.errors import UserError
from bipointnet.extras import install_hint


def parse_sizes(text: str) -> list[int]:
    """The value of --points: integers with commas between them.

    >>> parse_sizes("32,1024")
    [32, 1024]
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--points is '{text}'; expected integers with commas between them, such as 32,1024") from None


def bench_sweep(
    path: Path,
    *,
    points: str | None,
    threads: int,
    rounds: int,
    clouds: int | None,
    report_file: Path | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Measure clouds of several sizes, print the result and write the files."""
    from bipointnet.runtime import sweep
    from bipointnet.viz.sweep_files import check_files, write_sweep

    sizes = sweep.POINTS if points is None else parse_sizes(points)
    clouds = sweep.TEST_CLOUDS if clouds is None else clouds
    sweep.check_options(sizes, threads, rounds, clouds)
    check_files(report_file, picture, path)
    with counting_bar("benchmarking") as progress:
        report = sweep.sweep(path, points=sizes, threads=threads, rounds=rounds, clouds=clouds, progress=progress)
    if as_json:
        print_json(report)
    else:
        print_sweep(report)
    written = write_sweep(report, report_file, picture)
    if written and not as_json:
        print_line("Written: " + ", ".join(plain(file) for file in written))


def print_sweep(report: dict[str, Any]) -> None:
    """A table with one row per size, and what it does not show."""
    sizes, threads = report["sizes"], report["threads"]
    peers = [name for name in sizes[0]["speedup"] if name != "plain"]
    names = {"packed": f"1-bit, {report['isa']}", "plain": "every point"} | dict.fromkeys(
        peers, "float32, ONNX Runtime"
    )
    compared = ["faster", "memory, 1-bit", "memory, float32"] if peers else ["memory"]
    columns = ["points", *names.values(), *compared, *["accuracy"] * bool(report["test_clouds"])]
    range_of_sizes = " to ".join(f"{n:,}" for n in dict.fromkeys((sizes[0]["points"], sizes[-1]["points"])))
    table = empty_table(
        f"Clouds of {range_of_sizes} points, {threads} thread{'s' if threads > 1 else ''}",
        dict.fromkeys(columns, "right"),
    )
    for row in sizes:
        found = row["runtimes"]
        times = [_time(found[name]["us"]) for name in names]
        ratios = [row["speedup"][name] for name in peers]
        faster = ["-" if ratio is None else f"{ratio:.1f} x" for ratio in ratios]
        memory = [_memory(found[name]["peak_bytes"]) for name in names if name != "plain"]
        accuracy = ["-" if row["accuracy"] is None else f"{row['accuracy']:.1f} %"] * bool(report["test_clouds"])
        table.add_row(f"{row['points']:,}", *times, *faster, *memory, *accuracy)
    out.print(table)
    for name, (points, reason) in _gaps(report).items():
        print_line(f"{names[name]}, {points:,} points or more: {plain(reason)}.")
    _print_notes(report)


def _print_notes(report: dict[str, Any]) -> None:
    accuracy = f"Accuracy: {report['test_clouds']} built-in test clouds. " if report["test_clouds"] else ""
    print_line(
        f"Median times on {report['timed_clouds']} built-in shapes. Every point: the same without merging equal codes. "
        f"Memory: what a call needs beyond the loaded network and the cloud. {accuracy}"
        f"{plain(report['machine']['cpu'])}"
    )
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    out.print(versions, highlight=False, style="dim")
    if not report["float_twin"]:
        print_line(
            "No comparison: bench has no float32 version of some operations of this network, such as neighbor searches."
        )
    elif "onnxruntime" not in report["versions"]:
        print_line(f"ONNX Runtime is not installed; to compare with it: {plain(install_hint('onnx', 'onnxruntime'))}")


def _gaps(report: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """For each runtime that was not measured everywhere, the first size and the reason."""
    gaps: dict[str, tuple[int, str]] = {}
    for row in report["sizes"]:
        for name, found in row["runtimes"].items():
            if found["us"] is None:
                gaps.setdefault(name, (row["points"], found["reason"]))
    return gaps


def _time(us: float | None) -> str:
    """A time with a unit that suits its size."""
    if us is None:
        return "-"
    if us < 1e3:
        return f"{us:.0f} us"
    return f"{us / 1e3:.1f} ms" if us < 1e6 else f"{us / 1e6:.1f} s"


def _memory(size: int | None) -> str:
    """A number of bytes in megabytes."""
    if size is None:
        return "-"
    return "< 0.1 MB" if size < 50_000 else f"{size / 1e6:,.1f} MB"
