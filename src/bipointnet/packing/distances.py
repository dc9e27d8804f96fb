"""Whether recorded neighbors are those of a search, by exact distances on the grid of docs/format.md.

A network computes distances in floating point, the runtime on the grid. Both are off by some rounding, so two points
whose squared distances are closer than the sum of both errors may change places. A recorded neighbor is accepted if
it differs from the neighbor of the search by no more than that:

    (K + 3) 2^-22 max |x|^2    for |a|^2 + |b|^2 - 2 <a, b> of K channels in float32, the least accurate formula in use
    2 K e step                 for coordinates that the grid moves by up to half a step, of a cloud with extent e
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np


class Groups(NamedTuple):
    """Recorded neighbors: indices (M, k) int64, and counts (M,), the true neighbors of each center; then come copies.

    padded: whether the copies were recorded, or stand for edges that do not exist.
    """

    indices: np.ndarray
    counts: np.ndarray
    padded: bool = True

    def members(self) -> np.ndarray:
        """(M, k): whether a slot is a true neighbor."""
        return np.arange(self.indices.shape[1]) < self.counts[:, None]


def grid(*arrays: np.ndarray) -> tuple[list[np.ndarray], float, float]:
    """Places of the arrays (., K) on one grid, its step, and the rounding of squared distances, in steps^2."""
    channels = arrays[0].shape[1]
    low = np.min([x.min(axis=0) for x in arrays], axis=0)
    raised = [x - low for x in arrays]
    extent = max(float(np.finfo(np.float32).tiny), *(float(x.max()) for x in raised))
    scale = math.ldexp(1.0, (52 - math.ceil(math.log2(channels))) // 2 - math.frexp(extent)[1])
    largest = max(float(np.square(x).sum(axis=1).max()) for x in arrays)
    rounding = (channels + 3) * 2.0**-22 * largest * scale**2 + 2 * channels * extent * scale
    return [np.rint(x * scale) for x in raised], 1 / scale, rounding


class Pair:
    """Squared distances of centers from points, in steps of the grid: squares (M, N), exact integers in float64.

    rows: compute them for these centers only.
    """

    def __init__(self, centers: np.ndarray, points: np.ndarray, rows: np.ndarray | None = None) -> None:
        (around, cloud), self.step, self.rounding = grid(centers, points)
        around = around if rows is None else around[rows]
        sizes = np.square(around).sum(axis=1)[:, None] + np.square(cloud).sum(axis=1)
        self.squares = sizes - 2 * (around @ cloud.T)

    def of(self, groups: Groups) -> np.ndarray:
        """The squares of recorded neighbors, (M, k)."""
        return np.take_along_axis(self.squares, groups.indices, axis=1)

    def ties(self, groups: Groups) -> float:
        """The share of all points, from 0 to 1, that are as far as a recorded neighbor, within rounding: the median.

        If it is large, many indices fit; if it is 1, any.
        """
        found = self.of(groups)[:, : groups.counts.min()]
        slots = np.linspace(0, found.shape[1] - 1, min(found.shape[1], 8)).astype(int)
        equal = np.abs(self.squares[:, None, :] - found[:, slots, None]) <= self.rounding
        others = np.maximum(0, equal.sum(axis=2) - 2)
        return float(np.median(others)) / max(1, self.squares.shape[1] - 2)

    def ranks(self, groups: Groups) -> np.ndarray:
        """How many points are certainly nearer than each recorded neighbor, (M, k)."""
        found = self.of(groups)
        ordered = np.sort(self.squares, axis=1)
        return np.stack([np.searchsorted(o, f - self.rounding) for o, f in zip(ordered, found, strict=True)])

    def sorted_by(self, groups: Groups, order: str) -> tuple[Groups, np.ndarray | None]:
        """The groups in the order of a search, "nearest" or "index", and the slot (M, k) that each one moves to.

        The slots are None if the recorded order is the order of the search, up to rounding.
        """
        true = groups.members()
        value = np.where(true, self.of(groups) if order == "nearest" else groups.indices, np.inf)
        slack = self.rounding if order == "nearest" else 0
        ascends = np.all(value[:, 1:] >= value[:, :-1] - slack, axis=1)
        if np.all(ascends):
            return groups, None
        place = np.where(
            np.expand_dims(ascends, 1), np.arange(value.shape[1]), np.argsort(value, axis=1, kind="stable")
        )
        index = np.take_along_axis(groups.indices, place, axis=1)
        return groups._replace(indices=np.where(true, index, index[:, :1])), np.argsort(place, axis=1)

    def fits_nearest(self, groups: Groups, dilation: int) -> bool:
        """Whether sorted groups are number 0, d, 2 d, ... of the nearest points."""
        k, total = groups.indices.shape[1], self.squares.shape[1]
        if (groups.counts != math.ceil(min(k * dilation, total) / dilation)).any():
            return False
        expected = np.sort(self.squares, axis=1)[:, ::dilation][:, : groups.counts[0]]
        return bool((np.abs(self.of(groups)[:, : groups.counts[0]] - expected) <= self.rounding).all())

    def fits_ball(self, groups: Groups, radius: float, order: str) -> bool:
        """Whether sorted groups are the first points inside the ball, or the nearest point if it is empty.

        No point that is certainly inside is missing, and no neighbor is certainly outside.
        """
        limit = (radius / self.step) ** 2
        slack = self.rounding + limit * 2.0**-22
        inside = np.where(groups.members(), self.of(groups), 0) <= limit + slack
        inside |= self.of(groups) <= self.squares.min(axis=1, keepdims=True) + self.rounding
        missing = ~self._members(groups) & (self.squares < limit - slack) & self._known(groups, order)
        return bool(inside.all()) and not missing.any()

    def radii(self, groups: Groups, order: str) -> tuple[float, float]:
        """The largest distance that is inside of a ball, and the smallest that is outside."""
        inside = float(np.where(groups.members(), self.of(groups), 0).max())
        outside = ~self._members(groups) & self._known(groups, order)
        least = float(self.squares[outside].min()) if outside.any() else math.inf
        return math.sqrt(inside) * self.step, math.sqrt(least) * self.step

    def _members(self, groups: Groups) -> np.ndarray:
        """(M, N): whether a point is a recorded neighbor."""
        members = np.zeros(self.squares.shape, bool)
        np.put_along_axis(members, groups.indices, True, axis=1)
        return members

    def _known(self, groups: Groups, order: str) -> np.ndarray:
        """(M, N): whether a point would be a neighbor if it were inside: always, unless a full group ends before it."""
        last = groups.indices[np.arange(len(groups.indices)), groups.counts - 1][:, None]
        if order == "index":
            earlier = np.arange(self.squares.shape[1]) < last
        else:
            earlier = self.squares < np.take_along_axis(self.squares, last, axis=1) - self.rounding
        return earlier | (groups.counts < groups.indices.shape[1])[:, None]

    def equal_squares(self, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of points (first, second) that stand next to each other in a group, at exactly the same distance."""
        found = self.of(groups)
        equal = (found[:, 1:] == found[:, :-1]) & groups.members()[:, 1:]
        return groups.indices[:, :-1][equal], groups.indices[:, 1:][equal]


def lexicographic_ranks(points: np.ndarray) -> np.ndarray:
    """The place of each point when sorted by the first channel, then the second, ..., then by index: (N, K) -> (N,)."""
    return np.argsort(np.lexsort((points + 0.0).T[::-1]))


def farthest_starts(points: np.ndarray, chosen: np.ndarray) -> set[str] | None:
    """Start rules with which farthest point sampling of the points (N, K) gives the indices (m,); None: it does not.

    "index": point 0; "coordinates": the point farthest from the centroid; the set is empty for any other start. Each
    step is checked with the points that were recorded before it, so that one rounding does not hide all later steps.
    """
    (cloud,), _, rounding = grid(points)
    gap, widths = np.full(len(cloud), math.inf), []
    for last, pick in pairwise(chosen):
        np.minimum(gap, np.square(cloud - cloud[last]).sum(axis=1), out=gap)
        far = gap.max() - rounding
        if gap[pick] < far:
            return None
        widths.append(int((gap >= far).sum()))
    if widths and np.median(widths) > max(2, len(cloud) / 8):
        return None  # most points are equally far: any indices fit
    squares = np.square(cloud - np.rint(cloud.sum(axis=0) / len(cloud))).sum(axis=1)
    far = len(chosen) <= len(cloud) and squares[chosen[0]] >= squares.max() - rounding
    return ({"index"} if chosen[0] == 0 else set()) | ({"coordinates"} if far else set())
