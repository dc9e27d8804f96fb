"""Facts about the training data that a checkpoint keeps, so that unusual inputs can be noticed later."""

from collections.abc import Sequence

import numpy as np

from bipointnet.data.dataset import PointClouds, Split

BUILT_IN = ("shapes", "rooms", "outdoors", "scans")  # without units, or in blocks


def counts(data: PointClouds, classes: Sequence[str]) -> dict[str, int]:
    """The numbers of classes that a network predicts and of clouds, by their names in checkpoints and result.json."""
    return {
        "num_classes": len(classes),
        "train_clouds": len(data.train),
        "test_clouds": len(data.test),
    }


def cloud_points(data: PointClouds) -> list[int] | None:
    """The least and largest number of points per file; None where that is not known, as for meshes."""
    return [data.summary.points[0], data.summary.points[2]] if data.summary and data.summary.points else None


def layout(data: PointClouds) -> str:
    """The layout that was recognized, or the name of the data set."""
    return data.summary.layout if data.summary else data.name.partition("/")[0]


def extent(data: PointClouds) -> list[float] | None:
    """The 1st and 99th percentile of the largest side of a training cloud's bounding box, in the units of the files.

    None if the data have no units: built-in data, and clouds that are already in the unit sphere.
    """
    if data.name.partition("/")[0] in BUILT_IN or _is_normalized(data.train):
        return None
    xyz = data.train.points[..., :3]  # (M, P, 3)
    sides = (xyz.max(axis=1) - xyz.min(axis=1)).max(axis=1)  # (M,)
    low, high = np.percentile(sides, (1, 99))
    return [float(low), float(high)]


def _is_normalized(split: Split) -> bool:
    radius = np.sqrt((split.points[..., :3] ** 2).sum(axis=-1)).max(axis=1)  # (M,)
    return bool((abs(radius - 1) < 0.05).all())
