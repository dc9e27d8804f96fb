"""Accuracy over latency of every method in one runtime, as in the paper's figure 5c, from the runs of methods.py.

    python benchmarks/latency.py RUNS [--points 1024] [--rounds 100]

All packed networks and ONNX Runtime with the float network take turns in one process, on one thread. Writes
benchmarks/results/latency-methods.json and docs/latency.png.
"""

import argparse
import io
import json
import tempfile
from pathlib import Path
from statistics import mean

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from bipointnet import _core
from bipointnet.config import CHOICES
from bipointnet.files import write_beside
from bipointnet.packing import pack
from bipointnet.runtime import bench
from bipointnet.runtime.float_twin import float_twin
from bipointnet.runtime.model import load
from bipointnet.runtime.operations import float_bytes

HERE = Path(__file__).parent
ACCURACY = HERE / "results" / "methods-shapes.json"
RESULT = HERE / "results" / "latency-methods.json"
PICTURE = HERE.parent / "docs" / "latency.png"
POOL = "ema-max"


def measure(runs: Path, points: int, rounds: int) -> dict:
    """Median microseconds, bytes and accuracy of every method, and of the float network in ONNX Runtime."""
    cloud = np.random.default_rng(0).standard_normal((points, 3), np.float32)
    cloud /= np.linalg.norm(cloud, axis=1).max()
    calls, sizes = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for method in CHOICES["method"]:
            if method == "fp":
                continue
            path = Path(folder) / f"{method}.bpn"
            pack.export_run(runs / "pointnet-vanilla" / f"{method}-{POOL}-seed0", path)
            model = load(path)
            sizes[method] = model.bytes
            calls[method] = lambda model=model: model.logits(cloud, normalize=False)
        packed = load(Path(folder) / "lsr.bpn")
        steps = float_twin(packed)
        assert steps is not None, "a PointNet has a float twin"
        calls["fp"] = bench.installed_peers(steps, cloud, 1)["onnxruntime"]
        sizes["fp"] = float_bytes(packed.operations())
        times = bench.take_turns(calls, rounds, lambda done, of: None)
    accuracy = {}
    for method in calls:
        pool = "max" if method == "fp" else POOL
        wanted = ("pointnet-vanilla", method, pool)
        own_runs = [r for r in json.loads(ACCURACY.read_text()) if (r["model"], r["method"], r["pool"]) == wanted]
        accuracy[method] = mean(r["last_oa"] for r in own_runs)
    return {
        "points": points,
        "rounds": rounds,
        "isa": _core.default_isa(),
        "cpu": bench.cpu_name(),
        "pool": POOL,
        "methods": {
            name: {
                "us": round(1e6 * float(np.median(times[name].repeated)), 1),
                "bytes": sizes[name],
                "shapes_oa": round(accuracy[name], 2),
            }
            for name in calls
        },
    }


def draw(report: dict) -> None:
    """Draw accuracy over latency, one dot per method."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    ordered = sorted(report["methods"].items(), key=lambda item: item[1]["us"])
    groups: list[list[tuple[str, dict]]] = []
    for name, facts in ordered:
        color = {"fp": "#444444", "lsr": "#1f5fa8", "xnor": "#c0392b"}.get(name, "#7f9fbf")
        axes.scatter(facts["us"], facts["shapes_oa"], s=46, color=color, zorder=3)
        # Methods whose packed layers are of the same kind take the same time: one label for all of them.
        if not groups or facts["us"] > 1.2 * groups[-1][0][1]["us"]:
            groups.append([])
        groups[-1].append((name, facts))
    for group in groups:
        best_first = sorted(group, key=lambda item: -item[1]["shapes_oa"])
        names = ["float32, ONNX Runtime" if name == "fp" else name for name, _ in best_first]
        place = (group[-1][1]["us"], max(facts["shapes_oa"] for _, facts in group))
        left = group[-1][0] == "fp"
        axes.annotate(
            "\n".join(names),
            place,
            xytext=(-8 if left else 8, 4),
            textcoords="offset points",
            fontsize=9,
            va="top" if len(group) > 1 else "bottom",
            ha="right" if left else "left",
        )
    axes.set_xscale("log")
    axes.set_xlabel(f"microseconds per cloud of {report['points']} points, one thread, {report['isa']}")
    axes.set_ylabel("accuracy on shapes, %")
    axes.grid(alpha=0.25)
    axes.margins(0.15, 0.3)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    write_beside(PICTURE, buffer.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    report = measure(given.runs, given.points, given.rounds)
    table = Table(title=f"{report['points']} points, one thread, {report['isa']}, pool {POOL}")
    for name in ("method", "us", "bytes", "accuracy on shapes, %"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for name, facts in report["methods"].items():
        table.add_row(name, f"{facts['us']:,.0f}", f"{facts['bytes']:,}", f"{facts['shapes_oa']:.1f}")
    Console().print(table)
    write_beside(RESULT, json.dumps(report, indent=1).encode())
    draw(report)


if __name__ == "__main__":
    main()
