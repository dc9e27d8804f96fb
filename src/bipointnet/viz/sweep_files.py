"""The files of a sweep over the number of points: its report as JSON, and a picture of it (PNG)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bipointnet.files import write_all
from bipointnet.viz.picture import PLAIN, check_file, png_of
from bipointnet.viz.viewer import on_one_line

# For each runtime: its name in the legend, and a color of Okabe and Ito (2008).
LINES = {
    "packed": ("1-bit", "#0072B2"),
    "plain": ("1-bit, every point", "#56B4E9"),
    "onnxruntime": ("float32, ONNX Runtime", "#D55E00"),
}
Line = list[tuple[int, float]]  # (points, value)


def check_files(report: Path | None, picture: Path | None, model: Path) -> None:
    """Raise UserError for files that cannot be written, before minutes are spent on measuring."""
    for option, path, suffix in (("--out", report, ".json"), ("--picture", picture, ".png")):
        if path is not None:
            check_file(option, path, suffix, model)


def write_sweep(sweep: Mapping[str, Any], report: Path | None, picture: Path | None) -> list[Path]:
    """Write the files that have a name, all or none; returns them."""
    contents: dict[Path, bytes] = {}
    if report is not None:
        contents[report] = (json.dumps(sweep, indent=2) + "\n").encode()
    if picture is not None:
        contents[picture] = png_bytes(sweep)
    write_all(contents)
    return list(contents)


def png_bytes(sweep: Mapping[str, Any]) -> bytes:
    """A picture of latency, memory and accuracy against the number of points; without those that are unknown."""
    from matplotlib.figure import Figure

    panels = {
        "time per cloud (ms)": runtime_lines(sweep, "us", 1e-3),
        "memory of a call (MB)": runtime_lines(sweep, "peak_bytes", 1e-6),
        "accuracy (%)": accuracy_line(sweep),
    }
    shown = {label: lines for label, lines in panels.items() if lines} or {"time per cloud (ms)": {}}
    figure = Figure(figsize=(max(4.2 * len(shown), 5), 3.8), layout="constrained")
    for axes, (label, lines) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown.items(), strict=True):
        _draw(axes, lines, label)
    threads = sweep["threads"]
    title = f"{sweep['model']}, {sweep['isa']}, {threads} thread{'s' if threads > 1 else ''}"
    figure.suptitle(on_one_line(title), fontsize=10.5, **PLAIN)
    return png_of(figure, 110)


def runtime_lines(sweep: Mapping[str, Any], key: str, scale: float) -> dict[str, Line]:
    """One line per runtime, through the sizes for which the value is known."""
    lines: dict[str, Line] = {name: [] for name in LINES}
    for row in sweep["sizes"]:
        for name, found in row["runtimes"].items():
            if found[key] is not None:
                lines[name].append((row["points"], scale * found[key]))
    return {name: line for name, line in lines.items() if line}


def accuracy_line(sweep: Mapping[str, Any]) -> dict[str, Line]:
    line = [(row["points"], row["accuracy"]) for row in sweep["sizes"] if row["accuracy"] is not None]
    return {"packed": line} if line else {}


def _draw(axes: Any, lines: Mapping[str, Line], label: str) -> None:
    for name, line in lines.items():
        title, color = LINES[name]
        above = 3 if name == "packed" else 2
        points, values = zip(*line, strict=True)
        axes.plot(points, values, color=color, marker="o", markersize=4, linewidth=1.6, label=title, zorder=above)
    axes.set_xscale("log")
    if label.startswith("time"):
        axes.set_yscale("log")
        if lines:
            axes.legend(fontsize=8.5, frameon=False)
    elif label.startswith("memory"):
        axes.set_yscale("symlog", linthresh=0.1)  # small clouds need no memory beside that of the loaded network
        axes.set_ylim(bottom=0)
    else:
        axes.set_ylim(0, 102)
    axes.set_xlabel("points per cloud")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
