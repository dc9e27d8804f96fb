"""The operations of the reference that choose points and search neighbors: docs/format.md, "Neighbors", in numpy."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bipointnet.runtime.reference_ops import Array, Domain, Fields, Operation, Tensors, Value, exp

LARGEST = 1e15
PAIRS = 2**22  # distances in memory at once
SQRT_2_PI = 2.5066282746310002
ROUND = {"floor": math.floor, "ceil": math.ceil, "even": round}


def size_of(rule: Fields, n: int) -> int:
    """The number of elements that a size rule gives for a set of n."""
    return min(rule["most"], max(rule["least"], ROUND[rule["round"]](float(rule["factor"]) * n)))


def check(operation: str, **operands: Array) -> None:
    """ValueError for a number whose place on the grid is not defined."""
    for name, numbers in operands.items():
        bad = ~(np.abs(numbers) <= LARGEST)
        if bad.any():
            place = np.argwhere(bad)[0].tolist()
            raise ValueError(
                f"{operation}: {name}{place} is {numbers[tuple(place)]}; expected a number within +-{LARGEST:g}"
            )


def grid(*operands: Array) -> tuple[list[Array], float]:
    """The places of all numbers, integers in float64, and the step of the grid: each (n, K) -> (n, K)."""
    wide = [x.astype(np.float64) for x in operands]
    q = (52 - (wide[0].shape[-1] - 1).bit_length()) // 2  # ceil(log2 K) is the number of bits of K - 1
    low = np.min([x.min(axis=0) for x in wide], axis=0)
    extent = max(2.0**-126, *(float((x - low).max()) for x in wide))
    s = 2.0 ** math.frexp(extent)[1]
    return [np.rint((x - low) * (2.0**q / s)) for x in wide], s / 2.0**q


def distances(centers: Array, points: Array) -> Array:
    """D of each center and point: (m, K), (n, K) -> (m, n).

    |a|^2 + |b|^2 - 2 a.b: all terms and all partial sums are integers of at most 2 K 2^(2 q) <= 2^53, so each is exact.
    """
    square = (centers * centers).sum(axis=1)[:, None] + (points * points).sum(axis=1)
    return square - 2 * (centers @ points.T)


def sorted_by(ties: Array | None, n: int) -> Array:
    """The index of the point of each rank."""
    if ties is None:
        return np.arange(n)
    return np.lexsort((ties + np.float32(0)).T[::-1])  # the last key is the first to be compared; -0 + 0 is +0


class Search(NamedTuple):
    """One search. centers: places (m, K). cloud: places (n, K) of the points, by rank. order: their indices."""

    centers: Array
    cloud: Array
    step: float
    order: Array

    def key_blocks(self) -> Iterator[Array]:
        """Blocks (rows, n) of the keys of the centers; column r belongs to the point of rank r."""
        n = len(self.cloud)
        rows = max(1, PAIRS // n)
        for start in range(0, len(self.centers), rows):
            bits = distances(self.centers[start : start + rows], self.cloud).view(np.int64)
            yield (bits & ~self._mask) | np.arange(n)

    @property
    def _mask(self) -> int:
        return (1 << (len(self.cloud) - 1).bit_length()) - 1

    def indices(self, keys: Array) -> Array:
        """The index of the point of each key."""
        return self.order[keys & self._mask]

    def squares(self, keys: Array) -> Array:
        """The squared distance of each key: D' (step step), rounded to float32."""
        return ((keys & ~self._mask).view(np.float64) * (self.step * self.step)).astype(np.float32)


def search(name: str, centers: Value, points: Value, ties: Value | None) -> Search:
    """The search for neighbors of `centers` among `points`."""
    operands = {"centers": centers.array, "points": points.array}
    check(name, **operands, **({} if ties is None else {"ties": ties.array}))
    order = sorted_by(None if ties is None else ties.array, len(points.array))
    (around, cloud), step = grid(np.atleast_2d(centers.array), points.array[order])
    return Search(around, cloud, step, order)


def smallest(block: Array, count: int) -> Array:
    """The `count` smallest keys of each row, ascending."""
    if count < block.shape[1]:
        block = np.partition(block, count - 1, axis=1)[:, :count]
    return np.sort(block, axis=1)


def groups(centers: Domain, indices: Array, counts: Array, k: int) -> tuple[Value, ...]:
    """Indices (m, >= counts) as a value over new groups; the slots past the counts repeat the first."""
    slots = np.arange(k)
    padded = np.pad(indices, ((0, 0), (0, max(0, k - indices.shape[1]))))[:, :k]
    padded = np.where(slots < counts[:, None], padded, padded[:, :1])
    domain = Domain(centers, k, counts.reshape(centers.shape))
    return (Value(padded.reshape(domain.shape), domain),)


def nearest(
    fields: Fields, tensors: Tensors, centers: Value, points: Value, ties: Value | None = None
) -> tuple[Value, ...]:
    task, n, dilation = search("nearest", centers, points, ties), len(points.array), fields["dilation"]
    k = size_of(fields["count"], n)
    found = np.concatenate([smallest(block, min(k * dilation, n)) for block in task.key_blocks()])[:, ::dilation]
    counts = np.full(len(found), found.shape[1], np.int64)
    return groups(centers.domain, task.indices(found), counts, k)


def ball(
    fields: Fields, tensors: Tensors, centers: Value, points: Value, ties: Value | None = None
) -> tuple[Value, ...]:
    task, n = search("ball", centers, points, ties), len(points.array)
    k = size_of(fields["count"], n)
    limit = np.float32(fields["radius"] * fields["radius"])
    indices, counts = [], []
    for block in task.key_blocks():
        inside = task.squares(block) <= limit  # (rows, n), columns are ranks
        found = task.indices(smallest(block, min(k, n)))
        if fields["order"] == "index":
            by_index = np.empty_like(inside)
            by_index[:, task.order] = inside
            # A stable sort moves the points inside to the front, in the order of their indices.
            ascending = np.argsort(~by_index, axis=1, kind="stable")[:, : min(k, n)]
            found = np.where(inside.any(axis=1, keepdims=True), ascending, found)
        indices.append(found)
        counts.append(np.clip(inside.sum(axis=1), 1, k))
    return groups(centers.domain, np.concatenate(indices), np.concatenate(counts), k)


def farthest(fields: Fields, tensors: Tensors, points: Value) -> tuple[Value, ...]:
    check("farthest", points=points.array)
    n = len(points.array)
    wanted = size_of(fields["count"], n)
    by_coordinates = fields["order"] == "coordinates"
    order = sorted_by(points.array if by_coordinates else None, n)
    (cloud,), _ = grid(points.array[order])
    if by_coordinates:
        centroid = np.rint(cloud.sum(axis=0) / n)
        chosen = _spread(cloud, int(distances(centroid[None], cloud).argmax()), min(wanted, n), stop=True)
        rest = np.setdiff1d(np.arange(n), chosen)
        chosen = [*chosen, *rest[: min(wanted, n) - len(chosen)].tolist()]
    else:
        chosen = _spread(cloud, 0, wanted, stop=False)
    return (Value(order[chosen], Domain(Domain(), len(chosen))),)


def _spread(cloud: Array, first: int, count: int, stop: bool) -> list[int]:
    """Ranks of the chosen points, from `first`; stop: before the largest gap is 0. The first of equals is chosen."""
    chosen, gap = [first], np.full(len(cloud), np.inf)
    while len(chosen) < count:
        gap = np.minimum(gap, distances(cloud[chosen[-1:]], cloud)[0])
        last = int(gap.argmax())
        if stop and gap[last] == 0:
            break
        chosen.append(last)
    return chosen


def density(fields: Fields, tensors: Tensors, points: Value) -> tuple[Value, ...]:
    check("density", points=points.array)
    (cloud,), step = grid(points.array)
    n, h = len(cloud), float(fields["bandwidth"])
    t = ((step / h) * (step / h)) * -0.5
    rows = max(1, PAIRS // n)
    blocks = (distances(cloud[start : start + rows], cloud) for start in range(0, n, rows))
    sums = np.concatenate([np.rint(exp(block * t) * 2.0**30).sum(axis=1) for block in blocks])
    return (Value((sums / (((2.0**30 * n) * h) * SQRT_2_PI)).astype(np.float32)[:, None], points.domain),)


def interpolate(fields: Fields, tensors: Tensors, centers: Value, points: Value, values: Value) -> tuple[Value, ...]:
    task, n = search("interpolate", centers, points, points), len(points.array)
    found = np.concatenate([smallest(block, min(3, n)) for block in task.key_blocks()])
    found = found[:, [j if j < n else 0 for j in range(3)]]
    u = task.squares(found)  # (m, 3)
    one, epsilon = np.float32(1), np.float32(fields["epsilon"])
    w = {
        "limit": lambda: np.divide(u[:, :1], u, out=np.ones_like(u), where=u > 0),
        "add": lambda: one / (u + epsilon),
        "clamp": lambda: one / np.where(u < epsilon, epsilon, u),
    }[fields["guard"]]()
    w = np.where(np.arange(3) < n, w, np.float32(0))
    v = (w / ((w[:, 0] + w[:, 1]) + w[:, 2])[:, None])[..., None]  # (m, 3, 1)
    x = values.array[task.indices(found)]  # (m, 3, L)
    return (Value((v[:, 0] * x[:, 0] + v[:, 1] * x[:, 1]) + v[:, 2] * x[:, 2], centers.domain),)


OPERATIONS: dict[str, Operation] = {
    "farthest": farthest,
    "nearest": nearest,
    "ball": ball,
    "interpolate": interpolate,
    "density": density,
}
