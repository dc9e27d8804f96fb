"""Label every point of a file of any size: objects in samples, rooms and scans in blocks.

A network reads as many points at once as it was trained with. The points of an object are divided into random samples
of that size, so each sample covers the whole object. A scan is covered with overlapping blocks, and the logits of a
point are summed over the blocks that contain it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bipointnet.data.blocks import Columns, add_votes, cover, cover_size
from bipointnet.data.clouds import Cloud, read, require_finite
from bipointnet.data.shuffle import shuffled
from bipointnet.errors import UserError
from bipointnet.evaluation.metrics import argmax_among
from bipointnet.runtime.model import Model
from bipointnet.runtime.progress import Progress, no_progress

BATCH = 8  # samples or blocks at once

Logits = Callable[[np.ndarray], np.ndarray]  # clouds (B, P, C) -> (B, P, classes)


def label(
    model: Model,
    cloud: Cloud | str | Path,
    *,
    category: str | int | None = None,
    threads: int = 1,
    progress: Progress = no_progress,
) -> np.ndarray:
    """Label every point of a file, or of a Cloud, of any size: class indices (N,) int64.

    Args:
        model: a packed model that labels points. A model of the task semantic expects rooms and scans in meters, z up.
        cloud: the file, or a Cloud.
        category: name or index of the object's category, for a model with a category input.
        threads: number of threads; the result does not depend on it.
        progress: called with (done, total) samples or blocks.

    Example:
        >>> labels = bipointnet.label(bipointnet.load("rooms.bpn"), "office.ply", threads=4)  # doctest: +SKIP
        >>> labels.shape  # doctest: +SKIP
        (1047554,)
    """
    model.require_segments()
    source = "the cloud" if isinstance(cloud, Cloud) else cloud
    whole = cloud if isinstance(cloud, Cloud) else read(cloud)

    def logits(samples: np.ndarray) -> np.ndarray:
        return model.logits(samples, category=category, threads=threads)

    network = Network(logits, model.accepted_classes(category), model.task, model.points, model.channels)
    return label_by(network, whole, source, progress)


class Network(NamedTuple):
    """A network that labels points, packed or not.

    logits: of clouds (B, P, C). accepted: the classes that its points can have, ascending. task: part or semantic.
    points: points per cloud in training. channels: channels per point.
    """

    logits: Logits
    accepted: np.ndarray
    task: str
    points: int
    channels: int


def label_by(network: Network, cloud: Cloud, source: str | Path, progress: Progress) -> np.ndarray:
    """The class of every point of a cloud, (N,). source: the cloud's name in error messages."""
    label_points = label_scene if network.task == "semantic" else label_object
    return label_points(network, cloud, source, progress)


def label_object(network: Network, cloud: Cloud, source: str | Path, progress: Progress) -> np.ndarray:
    """The part of each point of an object, (N,)."""
    require_finite(cloud.points, source)
    labels = np.empty(len(cloud.points), np.int64)
    samples = list(_samples(len(labels), network.points))
    for start in range(0, len(samples), BATCH):
        index = np.stack(samples[start : start + BATCH])  # (B, P)
        labels[index] = argmax_among(network.logits(cloud.points[index]), network.accepted)
        progress(start + len(index), len(samples))
    return labels


def _samples(count: int, points: int) -> Iterator[np.ndarray]:
    """All indices below `count`, shuffled, `points` at a time; the last sample is filled up from the first."""
    order = shuffled(count)
    if count <= points:
        yield order
        return
    for start in range(0, count, points):
        yield np.take(order, np.arange(start, start + points), mode="wrap")


def label_scene(network: Network, cloud: Cloud, source: str | Path, progress: Progress) -> np.ndarray:
    """The class of each point of a room or scan in meters, z up, (N,). A network of 9 channels reads colors too."""
    colored = network.channels == 9
    if colored and cloud.colors is None:
        raise UserError(f"{source}: holds no colors, which the network reads; expected red, green and blue per point")
    scan = np.hstack([cloud.points, cloud.colors]) if colored and cloud.colors is not None else cloud.points
    columns = Columns.of(scan, source)
    blocks_done, blocks = 0, cover_size(columns, network.points)
    votes = np.zeros((len(scan), len(network.accepted)), np.float32)
    for part in cover(columns, network.points, BATCH):
        add_votes(votes, part, network.logits(part.points)[..., network.accepted])
        blocks_done += len(part)
        progress(blocks_done, blocks)
    return network.accepted[votes.argmax(axis=1)]


def read_labels(path: Path, points: int, accepted: np.ndarray) -> np.ndarray:
    """Read the true labels of `points` points from .npy, or from text with one per line; 13 may be written 13.000000.

    accepted: the labels that points can have, in ascending order.
    """
    try:
        found = np.load(path) if path.suffix == ".npy" else np.array(path.read_text().split(), dtype=np.float64)
    except Exception as error:  # numpy raises many types for broken files
        reason = "no such file" if not path.exists() else " ".join(str(error).split())
        raise UserError(f"{path}: cannot read labels ({reason}); expected .npy, or text with one per line") from error
    if not isinstance(found, np.ndarray) or found.shape != (points,):
        shape = getattr(found, "shape", "of an archive")
        raise UserError(f"{path}: holds labels of shape {shape}; expected {points}, one per point")
    if found.dtype.kind not in "iuf":
        raise UserError(f"{path}: holds {found.dtype} labels; expected integers, {_ranges(accepted)}")
    wrong = np.flatnonzero(~np.isin(found, accepted))  # also NaN and fractions
    if len(wrong):
        raise UserError(
            f"{path}: point {wrong[0]} (counted from 0) has label {found[wrong[0]]:g}; expected {_ranges(accepted)}, "
            "the labels that its points can have"
        )
    return found.astype(np.int64)


def _ranges(numbers: np.ndarray) -> str:
    """Ascending numbers in words.

    >>> _ranges(np.array([0, 1, 2, 5, 8, 9]))
    '0 to 2, 5, 8 to 9'
    """
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
