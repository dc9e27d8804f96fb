"""A label for every point of a file, however many there are: objects in samples, rooms and scans block by block.

A network is asked about as many points at once as it was trained with. An object is dealt out into samples of that
size, each spread over the whole object; a scan is covered with overlapping blocks whose answers are added.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bipointnet.data.blocks import Columns, add_votes, cover, cover_size
from bipointnet.data.clouds import Cloud, read, require_finite
from bipointnet.errors import UserError
from bipointnet.runtime.model import Model

BATCH = 8  # samples or blocks at once

Logits = Callable[[np.ndarray], np.ndarray]  # of clouds (B, P, C): (B, P, classes)
Watch = Callable[[int, int], None]  # how many samples or blocks are done, of how many


def label(
    model: Model,
    cloud: Cloud | str | Path,
    *,
    category: str | int | None = None,
    threads: int = 1,
    watch: Watch = lambda done, of: None,
) -> np.ndarray:
    """What a packed model says of every point of a file, or of a Cloud, however large: its class, (N,) int64.

    A model that takes numbers as they are is one of rooms and scans, in metres and with z up. category: the object's,
    where the model has categories. threads: they never change an answer. watch: told as the work goes on.
    """
    model.require_segments()
    source = "the cloud" if isinstance(cloud, Cloud) else cloud
    whole = cloud if isinstance(cloud, Cloud) else read(cloud)

    def logits(samples: np.ndarray) -> np.ndarray:
        return model.logits(samples, category=category, threads=threads)

    network = Network(logits, model.parts(category), model.task, model.points, model.channels)
    return label_by(network, whole, source, watch)


class Network(NamedTuple):
    """What labels points: logits of clouds; `own`, the classes that its points can have, ascending; what it reads."""

    logits: Logits
    own: np.ndarray
    task: str
    points: int
    channels: int


def label_by(network: Network, cloud: Cloud, source: str | Path, watch: Watch) -> np.ndarray:
    """The class of every point of a cloud, (N,)."""
    own, points = network.own, network.points

    def logits(samples: np.ndarray) -> np.ndarray:
        return network.logits(samples)[..., own]

    if network.task == "semantic":
        return own[label_scene(cloud, source, points, network.channels, len(own), logits, watch)]
    return own[label_object(cloud, source, points, logits, watch)]


def label_object(cloud: Cloud, source: str | Path, points: int, logits: Logits, watch: Watch) -> np.ndarray:
    """The part of each point of an object, (N,)."""
    require_finite(cloud.points, source)
    labels = np.empty(len(cloud.points), np.int64)
    samples = list(_samples(len(labels), points))
    for start in range(0, len(samples), BATCH):
        index = np.stack(samples[start : start + BATCH])  # (B, P)
        labels[index] = logits(cloud.points[index]).argmax(axis=-1)
        watch(start + len(index), len(samples))
    return labels


def _samples(count: int, points: int) -> Iterator[np.ndarray]:
    """All numbers below `count`, shuffled, `points` at a time; what the last lacks comes from the first."""
    shuffled = np.random.default_rng(0).permutation(count)
    if count <= points:
        yield shuffled
        return
    for start in range(0, count, points):
        yield np.take(shuffled, np.arange(start, start + points), mode="wrap")


def label_scene(
    cloud: Cloud, source: str | Path, points: int, channels: int, classes: int, logits: Logits, watch: Watch
) -> np.ndarray:
    """The class of each point of a room or scan in metres, z up, (N,); a network of 9 channels reads colors too."""
    if channels == 9 and cloud.colors is None:
        raise UserError(f"{source}: holds no colors, which the network reads; name a file with red, green and blue")
    scan = np.hstack([cloud.points, cloud.colors]) if channels == 9 and cloud.colors is not None else cloud.points
    columns = Columns.of(scan, source)
    votes, blocks_done, blocks = np.zeros((len(scan), classes), np.float32), 0, cover_size(columns, points)
    for part in cover(columns, points, BATCH):
        add_votes(votes, part, logits(part.points))
        blocks_done += len(part)
        watch(blocks_done, blocks)
    return votes.argmax(axis=1)


def read_labels(path: Path, points: int, classes: int) -> np.ndarray:
    """The true labels of `points` points: a whole number below `classes` each, in NumPy's format or one a line."""
    try:
        found = np.load(path) if path.suffix == ".npy" else np.array(path.read_text().split(), dtype=np.int64)
    except Exception as error:  # what a broken file makes numpy raise is anyone's guess
        reason = "it is not there" if not path.exists() else " ".join(str(error).split())
        raise UserError(f"{path}: no labels can be read ({reason}); expected .npy, or text with one a line") from error
    if not isinstance(found, np.ndarray) or found.shape != (points,):
        shape = getattr(found, "shape", "of an archive")
        raise UserError(f"{path}: holds labels of shape {shape}; expected {points}, one for each point")
    if found.dtype.kind not in "iu":
        raise UserError(f"{path}: holds {found.dtype} labels; expected whole numbers from 0 to {classes - 1}")
    if found.min(initial=0) < 0 or found.max(initial=0) >= classes:
        raise UserError(
            f"{path}: holds labels from {found.min()} to {found.max()}; expected whole numbers from 0 to {classes - 1}"
        )
    return found.astype(np.int64)
