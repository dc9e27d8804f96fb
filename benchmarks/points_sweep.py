"""Accuracy of packed models against the number of points: delta(n) of the paper, and delta(d) over distinct codes.

    python benchmarks/points_sweep.py RUN... --data shapes
    python benchmarks/points_sweep.py RUN... --data modelnet40_ply_hdf5_2048
    python benchmarks/points_sweep.py

Each run is exported, and the runtime classifies the test split with the first n points of each cloud, for several n:
with all n points, and with the sample of `max_points` of them that a prediction uses by default. The bits that the last
pooled layer reads and writes are counted on the first 100 clouds, with all points.

Then points are copied, at the number of points in training. The runtime leaves out exact copies (docs/format.md), so
there are also copies that are moved by up to 1e-6. Copies of some points move the mean of a cloud, so these are made
before and, in a second measurement, after the cloud is normalized. Only the second one compares the pools alone.

Writes benchmarks/results/points-sweep-DATA.json and draws docs/theory-points.png from these files. Without RUN it only
draws.
"""

import argparse
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bipointnet.data import open_dataset
from bipointnet.data.shapes import CLASSES, held_out
from bipointnet.files import write_beside
from bipointnet.packing import pack
from bipointnet.runtime import bench, reference
from bipointnet.runtime.model import Model, load

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parents[1] / "docs" / "theory-points.png"
SHAPES = 800  # the test split
POINTS = {"shapes": (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)}
STORED_POINTS = (64, 128, 256, 512, 1024, 2048)
COPIES = 8
MOVED = 1e-6  # largest distance per axis between a point and its moved copy; clouds have a radius of about 1
BATCH = 100
TRACED = 100  # clouds whose bits are counted

# For each pool and whether points were dropped in training: the name, color and style of a line.
LINES = {
    ("ema-max", False): ("delta(d): distinct codes", "#0072B2", "-", "o"),
    ("ema-max", True): ("delta(d), random number of points in training", "#009E73", ":", "^"),
    ("ema-max-points", False): ("delta(n): points, as in the paper", "#D55E00", "--", "s"),
}


class Clouds(NamedTuple):
    """A test split: points (M, N, 3) float32, and the name of the class of each cloud."""

    name: str
    points: np.ndarray
    classes: list[str]


def read_clouds(data: str, most: int) -> Clouds:
    if data == "shapes":
        found = [held_out(number, most) for number in range(SHAPES)]
        return Clouds("shapes", np.stack([xyz for xyz, _ in found]), [CLASSES[label] for _, label in found])
    opened = open_dataset(data, most)
    classes = [opened.classes[label] for label in opened.test.labels]
    return Clouds(opened.name, np.ascontiguousarray(opened.test.points[:, :most, :3], np.float32), classes)


def batches(clouds: Clouds, points: int) -> list[np.ndarray]:  # (B, N, 3) each
    return [clouds.points[i : i + BATCH, :points] for i in range(0, len(clouds.points), BATCH)]


def percent(names: Sequence[str], clouds: Clouds) -> float:
    right = sum(name == wanted for name, wanted in zip(names, clouds.classes, strict=True))
    return round(100 * right / len(clouds.classes), 2)


def accuracy(model: Model, clouds: Clouds, points: int, threads: int) -> float:
    names = [name for batch in batches(clouds, points) for name in model.predict(batch, threads=threads).names]
    return percent(names, clouds)


def pooled_bits(model: Model, clouds: Clouds, points: int) -> tuple[float, float]:
    """Means over clouds: distinct codes that the last pooled layer reads, and percent of ones that it writes."""
    layer = [op for op in model.manifest["program"] if op["op"] == "bilinear_pool"][-1]
    traces = [model.trace(cloud[:points]) for cloud in clouds.points[:TRACED]]
    codes = mean(len(np.unique(trace[layer["in"][0]], axis=0)) for trace in traces)
    return round(codes, 1), round(100 * mean(float(trace[layer["out"][0]].mean()) for trace in traces), 1)


def each_copied(batch: np.ndarray) -> np.ndarray:
    """Each point COPIES times: (B, N, 3) -> (B, COPIES N, 3)."""
    return np.repeat(batch, COPIES, axis=1)


def half_copied(batch: np.ndarray) -> np.ndarray:
    """The first half of the points COPIES times, the others once."""
    return np.concatenate([batch, np.tile(batch[:, : batch.shape[1] // 2], (1, COPIES - 1, 1))], axis=1)


def moved_copies(batch: np.ndarray, copied: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The copies of a batch, each moved by random numbers."""
    points = copied(batch)
    return points + np.random.default_rng(0).uniform(-MOVED, MOVED, points.shape).astype(np.float32)


def with_copies(
    model: Model, clouds: Clouds, copied: Callable[[np.ndarray], np.ndarray], normalized: bool, threads: int
) -> dict[str, Any]:
    """Accuracy with copies of points, and the logits that differ in any bit from those without copies."""
    names, logits, differing_clouds = [], 0, 0
    for batch in batches(clouds, model.points):
        how = model.manifest["normalize"] if normalized else "none"
        points = np.stack([reference.normalized(cloud, how) for cloud in batch])
        plain = model.logits(points, normalize=not normalized, threads=threads)  # (B, classes)
        found = model.logits(copied(points), normalize=not normalized, threads=threads)
        differ = plain.view(np.uint32) != found.view(np.uint32)
        logits += int(differ.sum())
        differing_clouds += int(differ.any(axis=1).sum())
        names += [model.classes[label] for label in found.argmax(axis=1)]
    right = percent(names, clouds)
    return {"accuracy": right, "logits_that_differ": logits, "clouds_that_differ": differing_clouds}


def measure(run: Path, clouds: Clouds, sizes: Sequence[int], threads: int) -> dict[str, Any]:
    """All figures of one run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.bpn"
        pack.export_run(run, path)
        limited = load(path)
        pack.export_run(run, path, max_points=0)
        model = load(path)
    config = json.loads((run / "config.json").read_text())
    facts = model.manifest["training"]
    exact = {f"each point {COPIES} times": each_copied, f"half of the points {COPIES} times": half_copied}
    moved = {f"{name}, moved": partial(moved_copies, copied=copied) for name, copied in exact.items()}
    after = {f"{name}, normalized before": copied for name, copied in moved.items()}
    bits = {size: pooled_bits(model, clouds, size) for size in sizes}
    return {
        "run": run.name,
        **{key: config[key] for key in ("model", "pool", "drop", "seed", "points", "epochs")},
        "epoch": facts["epoch"],
        "max_points": limited.max_points,
        "accuracy": {size: accuracy(model, clouds, size, threads) for size in sizes},
        "accuracy_of_sample": {size: accuracy(limited, clouds, size, threads) for size in sizes},
        "distinct_codes": {size: codes for size, (codes, _) in bits.items()},
        "pooled_ones": {size: ones for size, (_, ones) in bits.items()},
        "copies": {
            name: with_copies(model, clouds, copied, name in after, threads)
            for name, copied in (exact | moved | after).items()
        },
    }


def means(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over seeds for each network, pool and whether points were dropped."""
    groups: dict[tuple[str, str, bool], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["model"], run["pool"], run["drop"] > 0), []).append(run)
    found = []
    for (model, pool, dropped), group in groups.items():
        row: dict[str, Any] = {"model": model, "pool": pool, "dropped": dropped, "seeds": [r["seed"] for r in group]}
        for key in ("accuracy", "accuracy_of_sample", "distinct_codes", "pooled_ones"):
            row[key] = {size: round(mean(run[key][size] for run in group), 2) for size in group[0][key]}
        row["copies"] = {
            kind: {key: round(mean(run["copies"][kind][key] for run in group), 2) for key in first}
            for kind, first in group[0]["copies"].items()
        }
        found.append(row)
    return found


def print_means(report: dict[str, Any]) -> None:
    table = Table(title=f"{report['data']}, {report['clouds']} clouds, right answers in percent")
    for name in ("model", "pool", "dropped", "seeds", *map(str, report["sizes"]), *report["means"][0]["copies"]):
        table.add_column(name)
    for row in report["means"]:
        right = [*row["accuracy"].values(), *(found["accuracy"] for found in row["copies"].values())]
        seeds = ",".join(map(str, row["seeds"]))
        table.add_row(row["model"], row["pool"], str(row["dropped"]), seeds, *(f"{value:.1f}" for value in right))
    Console(width=200).print(table)


def draw(reports: Sequence[dict[str, Any]]) -> None:
    """Accuracy against the number of points of the vanilla PointNets, one panel per data set."""
    figure = Figure(figsize=(10, 3.9), layout="constrained")
    panels = figure.subplots(1, len(reports), squeeze=False)[0]
    for axes, report in zip(panels, reports, strict=True):
        rows = [row for row in report["means"] if row["model"] == "pointnet-vanilla"]
        for row in rows:
            label, color, style, marker = LINES[row["pool"], row["dropped"]]
            seeds = len(row["seeds"])
            sizes = [int(size) for size in row["accuracy"]]
            label = f"{label} ({seeds} seed{'s' if seeds > 1 else ''})"
            values = list(row["accuracy"].values())
            axes.plot(sizes, values, color=color, linestyle=style, marker=marker, markersize=5, label=label)
        trained = report["runs"][0]["points"]
        axes.axvline(trained, color="#888888", linewidth=0.8, zorder=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(report["sizes"], [f"{size:,}" for size in report["sizes"]], rotation=30)
        axes.set_title(f"{report['data']}, trained with {trained} points (gray line)", fontsize=10.5)
        axes.set_ylim(0, 100)
        axes.set_xlabel("points per cloud")
        axes.set_ylabel("accuracy (%)")
        axes.legend(fontsize=8.5, frameon=False, loc="lower center")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    write_beside(PICTURE, buffer.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--data", default="shapes")
    parser.add_argument("--points", type=lambda text: tuple(map(int, text.split(","))))
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    if given.runs:
        sizes = given.points or POINTS.get(given.data, STORED_POINTS)
        clouds = read_clouds(given.data, max(sizes))
        progress = track(given.runs, console=Console(stderr=True), description=clouds.name)
        runs = [measure(run, clouds, sizes, given.threads) for run in progress]
        report = {
            "data": clouds.name,
            "clouds": len(clouds.points),
            "traced_clouds": TRACED,
            "cpu": bench.cpu_name(),
            "threads": given.threads,
            "sizes": sizes,
            "runs": runs,
            "means": means(runs),
        }
        print_means(report)
        write_beside(RESULTS / f"points-sweep-{clouds.name}.json", (json.dumps(report, indent=1) + "\n").encode())
    draw([json.loads(path.read_text()) for path in sorted(RESULTS.glob("points-sweep-*.json"), reverse=True)])


if __name__ == "__main__":
    main()
