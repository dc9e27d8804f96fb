"""Where to center a cloud whose density is uneven: its mean point, the center of its box, or that of occupied voxels.

    python benchmarks/normalization.py RUNS [--seeds 2]

For each rule, networks are trained on built-in shapes and tested on the 800 held-out shapes: with points that are
uniform on the surface, and with one half of each object, behind a random plane through its middle, eight times denser.
After centering, every rule scales the farthest point to distance 1. Writes benchmarks/results/normalization.json.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from bipointnet.config import Config
from bipointnet.data import open_dataset
from bipointnet.data.shapes import held_out
from bipointnet.evaluation import networks
from bipointnet.files import write_beside
from bipointnet.models import checkpoint
from bipointnet.runtime import bench
from bipointnet.training import tasks
from bipointnet.training.loop import train

RESULT = Path(__file__).parent / "results" / "normalization.json"
SHAPES = 800  # the test split
STORED = 8192  # points of which the test clouds are drawn
RATIO = 8
CELLS = 16  # voxels along the longest side of a cloud
SIZES = (128, 512)
RECIPE: dict[str, Any] = {"points": 128, "epochs": 18, "batch": 32, "lr": 0.01, "warmup": 1.0, "clip": 1.0}
RECIPE |= {"label_smoothing": 0.1, "device": "cpu", "pool": "ema-max"}


def mean_point(clouds: Tensor) -> Tensor:  # (B, N, 3) -> (B, 1, 3)
    return clouds.mean(dim=1, keepdim=True)


def box_center(clouds: Tensor) -> Tensor:
    return (clouds.amin(dim=1, keepdim=True) + clouds.amax(dim=1, keepdim=True)) / 2


def voxel_center(clouds: Tensor) -> Tensor:
    """The mean of the mean points of all occupied voxels."""
    low = clouds.amin(dim=1, keepdim=True)
    side = (clouds - low).amax(dim=(1, 2), keepdim=True).clamp(min=1e-9) / CELLS
    places = ((clouds - low) / side).floor().clamp(max=CELLS - 1).long()  # (B, N, 3)
    cell = (places[..., 0] * CELLS + places[..., 1]) * CELLS + places[..., 2]  # (B, N)
    sums = clouds.new_zeros(len(clouds), CELLS**3, 4)
    ones = torch.cat([clouds, torch.ones_like(clouds[..., :1])], dim=2)
    sums.scatter_add_(1, cell.unsqueeze(2).expand(-1, -1, 4), ones)
    counts = sums[..., 3:]
    means = sums[..., :3] / counts.clamp(min=1)
    return means.sum(dim=1, keepdim=True) / (counts > 0).sum(dim=1, keepdim=True)


CENTERS = {"mean point": mean_point, "box": box_center, "voxels": voxel_center}


def normalizer(center: Callable[[Tensor], Tensor]) -> Callable[[Tensor, str], Tensor]:
    def normalize(clouds: Tensor, _: str) -> Tensor:
        moved = clouds - center(clouds)
        return moved / moved.norm(dim=2).amax(dim=1).reshape(-1, 1, 1).clamp(min=1e-9)

    return normalize


def uneven(cloud: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The points of a cloud (N, 3) in front of a random plane, and one in RATIO of those behind it."""
    direction = rng.standard_normal(3)
    height = (cloud - (cloud.min(axis=0) + cloud.max(axis=0)) / 2) @ direction
    return cloud[(height > 0) | (rng.random(len(cloud)) < 1 / RATIO)]


def test_clouds() -> tuple[dict[str, Tensor], np.ndarray]:
    """Even and uneven clouds by name, (M, max(SIZES), 3) each, and the labels (M,)."""
    rng, most = np.random.default_rng(0), max(SIZES)
    found = [held_out(number, STORED) for number in range(SHAPES)]
    even = np.stack([cloud[:most] for cloud, _ in found])
    denser = np.stack([uneven(cloud, rng)[:most] for cloud, _ in found])
    labels = np.array([label for _, label in found])
    return {"even": torch.from_numpy(even), "uneven": torch.from_numpy(denser)}, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    clouds, labels = test_clouds()
    results: list[dict[str, Any]] = []
    for seed in range(given.seeds):
        for name, center in CENTERS.items():
            normalize = normalizer(center)
            tasks.normalize = normalize  # what the training loop calls
            place = given.runs / f"{name.replace(' ', '-')}-{seed}"
            config = Config(seed=seed, **RECIPE)
            if not (place / "result.json").exists():
                train(config, open_dataset("shapes", config.points), place, resume=True)
            network = checkpoint.load_run(place)[0]
            networks.normalize = normalize
            accuracy = {
                f"{kind}, {size} points": round(networks.evaluate(network, points, labels, 20, size).overall, 2)
                for kind, points in clouds.items()
                for size in SIZES
            }
            results.append({"center": name, "seed": seed, "accuracy": accuracy})
            print(json.dumps(results[-1]), flush=True)
    table = Table(title=f"Accuracy in percent, {SHAPES} shapes, mean of {given.seeds} seeds")
    for column in ("center", *results[0]["accuracy"]):
        table.add_column(column)
    means = {
        name: {
            column: round(mean(run["accuracy"][column] for run in results if run["center"] == name), 2)
            for column in results[0]["accuracy"]
        }
        for name in CENTERS
    }
    for name, row in means.items():
        table.add_row(name, *(f"{value:.1f}" for value in row.values()))
    Console().print(table)
    report = {"cpu": bench.cpu_name(), "density_ratio": RATIO, "recipe": RECIPE, "runs": results, "means": means}
    write_beside(RESULT, (json.dumps(report, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
