"""Measure a shipped model on test clouds as they are, turned, cut in half and corrupted; the figures go into its card.

    python benchmarks/model_limits.py pointnet-vanilla-shapes --data shapes
    python benchmarks/model_limits.py pointnet-vanilla-modelnet40 --data modelnet40_ply_hdf5_2048

Needs no PyTorch. A test cloud consists of its first n points, as many as in training. A cloud that is cut in half has
n points too: of its first 2n points, those on one side of a vertical plane with a random direction. Corruptions are
those of `bipointnet eval --corruptions`, for models of 1024 points. The time is the median of one call with one thread.
Then write docs/models.md: python benchmarks/model_cards.py.
"""

import argparse
import json
import time
from statistics import median
from typing import Any

import numpy as np

from bipointnet import shipped
from bipointnet.data import open_dataset
from bipointnet.data.corruptions import POINTS
from bipointnet.data.up_axis import AXES, rotate_up
from bipointnet.evaluation.robustness import robustness
from bipointnet.files import write_beside
from bipointnet.runtime.bench import cpu_name
from bipointnet.runtime.model import Model, load

SEED = 0
CALLS, WARM_UP = 400, 50


def turned(clouds: np.ndarray, angles: np.ndarray, up: str) -> np.ndarray:
    """Clouds (B, N, 3), each rotated by its angle (B,) in radians about the up axis."""
    first, second = ((AXES.index(up) + step) % 3 for step in (1, 2))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    result = clouds.copy()
    result[..., first] = cos * clouds[..., first] - sin * clouds[..., second]
    result[..., second] = sin * clouds[..., first] + cos * clouds[..., second]
    return result


def one_side(clouds: np.ndarray, angles: np.ndarray, up: str) -> np.ndarray:
    """Half of the points of each cloud (B, 2n, 3): those farthest along a horizontal direction; (B, n, 3)."""
    along = turned(clouds, -angles, up)[..., (AXES.index(up) + 1) % 3]  # (B, 2n)
    half = np.sort(np.argsort(-along, axis=1, kind="stable")[:, : clouds.shape[1] // 2], axis=1)
    return np.take_along_axis(clouds, half[..., None], axis=1)


def measure(name: str, data: str) -> dict[str, Any]:
    """The measured fields of a card: accuracy on the test split and on changed clouds in percent, bytes, and time."""
    model = load(name)
    up, points = model.manifest["training"]["up"], model.points
    test = open_dataset(data, 2 * points).test
    clouds, labels = test.points[:, :points], test.labels
    angles = np.random.default_rng(SEED).uniform(0, 2 * np.pi, len(clouds))
    quarter = np.full(len(clouds), np.pi / 2)
    others = [axis for axis in AXES if axis != up]
    changed = {
        "turned about the up axis by a random angle": turned(clouds, angles, up),
        "turned about the up axis by 90 degrees": turned(clouds, quarter, up),
        "turned about the up axis by 180 degrees": turned(clouds, 2 * quarter, up),
        **{f"{axis} points up instead of {up}": rotate_up(clouds, up, axis) for axis in others},
        "only one side: half of the points removed": one_side(test.points[:, : 2 * points], angles, up),
    }

    def accuracy(inputs: np.ndarray) -> float:
        return round(100 * float((model.predict(inputs).labels == labels).mean()), 2)

    limits = [{"clouds": text, "accuracy": accuracy(inputs)} for text, inputs in changed.items()]
    if points == POINTS:
        found = robustness(lambda batch: model.predict(batch).labels, clouds, labels)
        limits += [
            {"clouds": f"ModelNet-C: {kind}, mean of five severities", "accuracy": round(found.mean_of(kind), 2)}
            for kind in found.corrupted
        ]
    return {
        "accuracy": {"file": accuracy(clouds), "test_clouds": len(clouds)},
        "bytes": model.bytes,
        "latency": latency(model, clouds),
        "limits": limits,
    }


def latency(model: Model, clouds: np.ndarray) -> dict[str, Any]:
    """The median time of a prediction, over many clouds."""
    seconds = []
    for i in range(WARM_UP + CALLS):
        start = time.perf_counter()
        model.predict(clouds[i % len(clouds)])
        seconds.append(time.perf_counter() - start)
    machine = f"{cpu_name()}, {model.isa}, one thread"
    return {"microseconds": round(1e6 * median(seconds[WARM_UP:])), "points": clouds.shape[1], "machine": machine}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=shipped.names())
    parser.add_argument("--data", required=True, help="shapes, or the folder of the data set")
    given = parser.parse_args()
    found, card = measure(given.name, given.data), shipped.card(given.name)
    card |= found | {"accuracy": card["accuracy"] | found["accuracy"]}
    write_beside(shipped.FOLDER / f"{given.name}.json", (json.dumps(card, indent=2) + "\n").encode())
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
