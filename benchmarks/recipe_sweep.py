"""Measure settings of `bipointnet train` on data of several sizes: how the rules of training/recipes.py were found.

    python benchmarks/recipe_sweep.py JOBS.json RESULTS.jsonl --workers 8

A job is {"size": NAME in SIZES, "draws": [...], "settings": {...}}. RESULTS.jsonl has one line per job and draw.
The data are objects of the built-in classes: every second one sampled from a mesh, the others uneven scans. Accuracy
is measured on 40 new objects per class, which is more exact than on the few held-out files of a small folder.
"""

import argparse
import json
import multiprocessing
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bipointnet.config import Config
from bipointnet.data import open_dataset, shapes, solids
from bipointnet.data.cache import cached
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.training import loop
from bipointnet.training.devices import Workers, keep_freed_memory, pick_device
from bipointnet.training.progress import ignore

# Classes, training clouds per class, points per training cloud.
SIZES = {"50": (5, 10, 512), "500": (20, 25, 512), "8000": (20, 400, 512), "8000-128": (20, 400, 128)}
TESTED = 40  # per class


def cloud(name: str, seed: tuple[int, ...], points: int) -> np.ndarray:  # (points, 3)
    """An object as a scan with uneven density, or, every second one, as sampled from a mesh."""
    rng = np.random.default_rng(seed)
    if seed[-1] % 2:
        return shapes.make_object(name, rng, points)[0]
    surface = posed(name, rng)
    return solids.sample([(surface, 0)], points, rng)[0].astype(np.float32)


def posed(name: str, rng: np.random.Generator) -> solids.Surface:
    """The surface of an object in the proportions and pose of `shapes`."""
    surface = solids.joined([part for part, _ in shapes.build(name, rng)])
    lower, upper = surface.bounds()
    mirror = (rng.choice([-1.0, 1.0]), rng.choice([-1.0, 1.0]), 1.0)
    size = rng.uniform(0.7, 1.4) * np.exp(rng.uniform(-shapes.STRETCH, shapes.STRETCH, 3))
    tilt_x, tilt_y, yaw = rng.uniform(-1, 1, 3) * (shapes.TILT, shapes.TILT, shapes.YAW)
    turn = solids.rotation("x", tilt_x) @ solids.rotation("y", tilt_y) @ solids.rotation("z", yaw)
    return surface.mapped(turn * (mirror * size * (upper - lower) ** -shapes.EVENNESS))


def drawn_classes(draw: int, count: int) -> tuple[str, ...]:
    chosen = np.random.default_rng([draw, count]).permutation(len(shapes.CLASSES))[:count]
    return tuple(shapes.CLASSES[i] for i in sorted(chosen))


@lru_cache(maxsize=4)
def dataset(size: str, draw: int) -> PointClouds:
    if size not in SIZES:
        return open_dataset(size, 1024)
    classes, trained, points = SIZES[size]
    names = drawn_classes(draw, classes)

    def split(which: int, each: int) -> Split:
        labels = np.repeat(np.arange(classes), each).astype(np.int64)

        def make() -> dict[str, np.ndarray]:
            rows = [cloud(names[label], (draw, which, i), 2 * points) for i, label in enumerate(labels)]
            return {"points": np.stack(rows)}

        key = (shapes.VERSION, size, draw, which, each)
        return Split(cached("sweep", key, make)["points"], labels)

    return PointClouds("sweep", names, split(0, trained), split(1, TESTED))


def fill_cache(size: str, draw: int) -> None:
    dataset(size, draw)


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Train once; the mean accuracy of the last three epochs."""
    torch.set_num_threads(1)
    data = dataset(job["size"], job["draw"])
    points = SIZES[job["size"]][2] if job["size"] in SIZES else 1024
    config = Config(**{"points": points, "seed": job["draw"], **job["settings"]})
    device = pick_device(config.device)
    if device.type == "cpu":
        keep_freed_memory()
    loop.is_evaluated = lambda epoch, epochs: epoch > epochs - 3
    started = time.perf_counter()
    run = loop.Run(config, data, Workers(device), device)
    rows = [row for epoch in range(1, config.epochs + 1) if (row := run.run_epoch(epoch, ignore))]
    accuracy = [row["test_oa"] for row in rows[-3:]]
    return {
        **job,
        "oa": float(np.mean(accuracy)),
        "last_oa": accuracy[-1],
        "train_oa": rows[-1]["train_oa"],
        "steps": run.steps * config.epochs,
        "seconds": round(time.perf_counter() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    jobs = [{**job, "draw": draw} for job in json.loads(given.jobs.read_text()) for draw in job["draws"]]
    for job in jobs:
        del job["draws"]
    with multiprocessing.get_context("spawn").Pool(given.workers) as pool, given.results.open("a") as file:
        pool.starmap(fill_cache, {(job["size"], job["draw"]) for job in jobs}, chunksize=1)
        for done in pool.imap_unordered(measure, jobs, chunksize=1):
            file.write(json.dumps(done) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
