"""Splits of clouds that a function generates, cached."""

from collections.abc import Callable, Hashable

import numpy as np

from bipointnet.data.cache import cached
from bipointnet.data.dataset import Split
from bipointnet.errors import UserError

# Makes a cloud of a class: (label, rng) -> points (P, C) float32, point labels (P,) int64.
Make = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def check_size(what: str, size: int, least: int) -> None:
    if size < least:
        raise UserError(f"{what} is {size}, expected a whole number of at least {least}")


def cloud_stream(seed: int, which: int, number: int) -> np.random.Generator:
    """The random numbers of one cloud of a split (0: train, 1: test), whatever the number of the others."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(which, number)))


def generated_splits(
    name: str,
    version: tuple[Hashable, ...],
    sizes: tuple[int, int],
    shape: tuple[int, int],
    seed: int,
    classes: int,
    make: Make,
) -> tuple[Split, Split]:
    """The train and the test split: `sizes` clouds of shape (points, channels), the classes taking turns.

    `version` changes whenever `make` returns other clouds for the same arguments.
    """
    points = shape[0]
    for what, size, least in (("train", sizes[0], 0), ("test", sizes[1], 0), ("points", points, 1), ("seed", seed, 0)):
        check_size(what, size, least)

    def split(which: int) -> Split:
        key = (*version, seed, which, sizes[which], points)
        stored = cached(name, key, lambda: _generate(seed, which, sizes[which], shape, classes, make))
        return Split(stored["points"], stored["labels"], stored.get("point_labels"))

    return split(0), split(1)


def _generate(
    seed: int, which: int, size: int, shape: tuple[int, int], classes: int, make: Make
) -> dict[str, np.ndarray]:
    points = np.empty((size, *shape), np.float32)
    point_labels = np.empty((size, shape[0]), np.int64)
    labels = np.arange(size, dtype=np.int64) % classes
    for i in range(size):
        points[i], point_labels[i] = make(int(labels[i]), cloud_stream(seed, which, i))
    return {"points": points, "labels": labels, "point_labels": point_labels}
