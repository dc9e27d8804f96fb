"""Label every point of a file of any size: objects in samples, rooms and scans in blocks.

A network reads as many points at once as it was trained with. The points of an object are divided into random samples
of that size, so each sample covers the whole object. A scan is covered with overlapping blocks, and the logits of a
point are summed over the blocks that contain it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bipointnet.data.blocks import BlockLayout, Columns, add_votes, cover, cover_size
from bipointnet.data.clouds import Cloud, read, require_finite
from bipointnet.data.las_units import UNITS
from bipointnet.data.scan_facts import ScanFacts, recorded_facts, training_columns
from bipointnet.data.scan_files import in_meters, require_unit
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
    unit: str | None = None,
    threads: int = 1,
    progress: Progress = no_progress,
) -> np.ndarray:
    """Label every point of a file, or of a Cloud, of any size: class indices (N,) int64.

    Args:
        model: a packed model that labels points. A model of the task semantic expects rooms and scans in meters, z up.
        cloud: the file, or a Cloud.
        category: name or index of the object's category, for a model with a category input.
        unit: of the coordinates of a scan: "m", "ft" or "us-ft"; default: as in training, and an error if a LAS file
            declares another. Of a Cloud: meters.
        threads: number of threads; the result does not depend on it.
        progress: called with (done, total) samples or blocks.

    Examples:
        >>> labels = bipointnet.label(bipointnet.load("rooms.bpn"), "office.ply", threads=4)  # doctest: +SKIP
        >>> labels.shape  # doctest: +SKIP
        (1047554,)
    """
    if not isinstance(model, Model):
        raise UserError(f"model is {model!r}; expected a packed model; pass bipointnet.load(...)")
    if not isinstance(cloud, (Cloud, str, Path)):
        raise UserError(
            f"cloud is of the type {type(cloud).__name__}; expected the name of a file, or a Cloud; pass "
            "bipointnet.data.clouds.Cloud(points)"
        )
    if unit is not None and unit not in UNITS:
        raise UserError(f"unit is {unit!r}; expected one of {', '.join(UNITS)}")
    model.require_segments()
    source = "the cloud" if isinstance(cloud, Cloud) else cloud
    if model.task == "semantic" and not isinstance(cloud, Cloud):
        unit = unit or training_unit(model)
        require_unit(Path(cloud), unit)
    whole = cloud if isinstance(cloud, Cloud) else read(cloud, columns=training_columns(_facts(model), Path(cloud)))
    if model.task == "semantic":
        whole = replace(whole, points=in_meters(whole.points, unit))

    def logits(samples: np.ndarray) -> np.ndarray:
        return model.logits(samples, category=category, threads=threads)

    network = Network(logits, model.accepted_classes(category), model.task, model.points, model.blocks)
    return label_by(network, whole, source, progress)


def training_unit(model: Model) -> str | None:
    """The unit of the scans that a model was trained on; None: meters."""
    facts = _facts(model)
    return None if facts is None else facts.unit


def _facts(model: Model) -> ScanFacts | None:
    return recorded_facts(model.manifest["training"], "the model")


class Network(NamedTuple):
    """A network that labels points, packed or not.

    logits: of clouds (B, P, C). accepted: the classes that its points can have, ascending. task: part or semantic.
    points: points per cloud in training. blocks: how scans are cut, for task semantic.
    """

    logits: Logits
    accepted: np.ndarray
    task: str
    points: int
    blocks: BlockLayout | None


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
    """The class of each point of a room or scan in meters, z up, (N,)."""
    if network.blocks is None:
        raise UserError(
            "the model does not say how scans are cut into blocks; expected one with `blocks`; export it with them"
        )
    columns = Columns.of(network.blocks, cloud.points, network.blocks.read(cloud, source), source)
    blocks_done, blocks = 0, cover_size(columns, network.points)
    votes = np.zeros((len(cloud.points), len(network.accepted)), np.float32)
    for part in cover(columns, network.points, BATCH):
        add_votes(votes, part, network.logits(part.points)[..., network.accepted])
        blocks_done += len(part)
        progress(blocks_done, blocks)
    return network.accepted[votes.argmax(axis=1)]
