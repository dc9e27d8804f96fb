"""Measure a shipped model on test clouds as they are, rotated, cut in half and corrupted; the figures go into its card.

    python benchmarks/model_limits.py pointnet-vanilla-shapes --data shapes
    python benchmarks/model_limits.py pointnet-vanilla-modelnet40 --data modelnet40_ply_hdf5_2048
    python benchmarks/model_limits.py pointnet2-shapenet-part --data hdf5_data
    python benchmarks/model_limits.py pointnet2-s3dis --data indoor3d_sem_seg_hdf5_data --fold Area_6_rooms_1

Needs no PyTorch. A test cloud consists of its first n points, as many as in training. A cloud that is cut in half has
n points too: of its first 2n points, those on one side of a vertical plane with a random direction. (Networks that
label points get half of n.) Corruptions are those of `bipointnet eval --corruptions`, for classifiers of 1024 points.
Networks that label points are measured by their mIoU. The time is the median of one call with one thread. Then write
docs/models.md: python benchmarks/model_cards.py.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from bipointnet import shipped
from bipointnet.data import open_dataset
from bipointnet.data.corruptions import POINTS
from bipointnet.data.up_axis import AXES, rotate_up
from bipointnet.evaluation import segmentation as scores
from bipointnet.evaluation.robustness import robustness
from bipointnet.files import write_beside
from bipointnet.runtime.bench import cpu_name
from bipointnet.runtime.model import Model, load

SEED = 0
CALLS, WARM_UP = 400, 50
ONE_SIDE = "only one side: half of the points removed"


def rotated(clouds: np.ndarray, angles: np.ndarray, up: str) -> np.ndarray:
    """Clouds (B, N, 3), each rotated by its angle (B,) in radians about the up axis."""
    first, second = ((AXES.index(up) + step) % 3 for step in (1, 2))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    result = clouds.copy()
    result[..., first] = cos * clouds[..., first] - sin * clouds[..., second]
    result[..., second] = sin * clouds[..., first] + cos * clouds[..., second]
    return result


def one_side(clouds: np.ndarray, angles: np.ndarray, up: str) -> np.ndarray:
    """The indices (B, n) of half of the points of each cloud (B, 2n, 3): the farthest along a horizontal direction."""
    along = rotated(clouds, -angles, up)[..., (AXES.index(up) + 1) % 3]  # (B, 2n)
    return np.sort(np.argsort(-along, axis=1, kind="stable")[:, : clouds.shape[1] // 2], axis=1)


def rotations(clouds: np.ndarray, angles: np.ndarray, up: str) -> dict[str, np.ndarray]:
    """Clouds rotated about the up axis, by random angles and by others, under the names of the limits."""
    quarter = np.full(len(clouds), np.pi / 2)
    return {
        "rotated about the up axis by a random angle": rotated(clouds, angles, up),
        "rotated about the up axis by 90 degrees": rotated(clouds, quarter, up),
        "rotated about the up axis by 180 degrees": rotated(clouds, 2 * quarter, up),
    }


def other_axes(clouds: np.ndarray, up: str) -> dict[str, np.ndarray]:
    """Clouds with other axes up."""
    return {f"{axis} points up instead of {up}": rotate_up(clouds, up, axis) for axis in AXES if axis != up}


def random_angles(clouds: np.ndarray) -> np.ndarray:
    return np.random.default_rng(SEED).uniform(0, 2 * np.pi, len(clouds))


def measure(model: Model, data: str, fold: str | None) -> dict[str, Any]:
    """The measured fields of a card: accuracy on the test split and on changed clouds in percent, bytes, and time."""
    return (measure_segmenter if model.segments else measure_classifier)(model, data, fold) | {"bytes": model.bytes}


def measure_classifier(model: Model, data: str, fold: str | None) -> dict[str, Any]:
    up, points = model.manifest["training"]["up"], model.points
    test = open_dataset(data, 2 * points, fold=fold).test
    clouds, labels = test.points[:, :points], test.labels
    angles, twice = random_angles(clouds), test.points[:, : 2 * points]
    half = np.take_along_axis(twice, one_side(twice, angles, up)[..., None], axis=1)
    changed = rotations(clouds, angles, up) | other_axes(clouds, up) | {ONE_SIDE: half}

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
        "latency": latency(model, clouds, model.predict),
        "limits": limits,
    }


def measure_segmenter(model: Model, data: str, fold: str | None) -> dict[str, Any]:
    up, points = model.manifest["training"]["up"], model.points
    found = open_dataset(data, points, fold=fold)
    clouds, truth = found.test.points[:, :points], found.test.point_labels
    assert truth is not None
    truth, angles = truth[:, :points], random_angles(clouds)
    half = one_side(clouds, angles, up)
    # Blocks of rooms have their place in the room, too, which stays.
    kind = "" if model.task == "part" else "each block "
    changed = {f"{kind}{text}": (inputs, truth) for text, inputs in rotations(clouds, angles, up).items()}
    if model.task == "part":
        changed |= {text: (inputs, truth) for text, inputs in other_axes(clouds, up).items()}
    else:
        gray = clouds.copy()
        gray[..., 3:6] = 0.5
        changed |= {"without colors: all points gray": (gray, truth)}
    changed |= {"half of the points, drawn at random": (clouds[:, : points // 2], truth[:, : points // 2])}
    cut = np.take_along_axis(clouds, half[..., None], axis=1), np.take_along_axis(truth, half, axis=1)
    changed |= {ONE_SIDE: cut} if model.task == "part" else {}
    categories = found.test.labels if model.categories else np.full(len(clouds), -1)

    def miou(inputs: np.ndarray, labels: np.ndarray) -> float:
        predictions = np.empty(labels.shape, np.int64)
        for category in np.unique(categories):
            rows = categories == category
            given: dict[str, Any] = {} if category < 0 else {"category": int(category)}
            predictions[rows] = model.segment(inputs[rows], **given)
        split = replace(found.test, points=inputs, point_labels=labels)
        scored = scores.of_parts if model.task == "part" else scores.of_blocks
        return round(scored(replace(found, test=split), predictions).figures["miou"], 2)

    first: dict[str, Any] = {"category": int(categories[0])} if model.categories else {}
    return {
        "accuracy": {"file": miou(clouds, truth), "test_clouds": len(clouds)},
        "latency": latency(model, clouds, partial(model.segment, **first)),
        "limits": [{"clouds": text, "accuracy": miou(*each)} for text, each in changed.items()],
    }


def latency(model: Model, clouds: np.ndarray, call: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """The median time of a prediction, over many clouds."""
    seconds = []
    for i in range(WARM_UP + CALLS):
        start = time.perf_counter()
        call(clouds[i % len(clouds)])
        seconds.append(time.perf_counter() - start)
    machine = f"{cpu_name()}, {model.isa}, one thread"
    return {"microseconds": round(1e6 * median(seconds[WARM_UP:])), "points": clouds.shape[1], "machine": machine}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=shipped.names())
    parser.add_argument("--data", required=True, help="shapes, rooms, or the folder of the data set")
    parser.add_argument("--fold", help="the fold of S3DIS that the model was not trained on")
    given = parser.parse_args()
    found, card = measure(load(given.name), given.data, given.fold), shipped.card(given.name)
    card |= found | {"accuracy": card["accuracy"] | found["accuracy"]}
    write_beside(shipped.FOLDER / f"{given.name}.json", (json.dumps(card, indent=2) + "\n").encode())
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
