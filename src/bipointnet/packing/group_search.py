"""Find the search that gives recorded groups of neighbors: the arrays that it reads and its fields."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bipointnet.packing.distances import Groups, Pair, lexicographic_ranks

PROBES = 8  # centers of the first cloud that are compared before all others
MOST_TIED = 1 / 8  # pairs of arrays in which more points are equally far are tried last
UNBOUNDED = 1e15  # the radius of a ball that has no outside; larger coordinates are refused

Fields = dict[str, str | int | float]


class Candidate(NamedTuple):
    """A float array of the recording: values are float64 (n, C), one per recorded cloud."""

    name: str
    values: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Search:
    """A search that gives the recorded indices.

    op: "farthest", "nearest" or "ball" with its fields; "identity": 0, ..., n - 1; "all": every point for one center.
    centers, points, ties: names of candidates, or None where the operation has no such operand.
    sizes: for each cloud the number n of points and the number of chosen points, or of neighbors per center.
    slots: None if neighbors were recorded in the order of the search. Otherwise, for each cloud, the slot (m, k) of the
        search that holds each recorded neighbor; a pool over a group does not depend on it.
    """

    op: str
    centers: str | None
    points: str | None
    ties: str | None
    fields: Fields
    sizes: tuple[tuple[int, int], ...]
    slots: tuple[np.ndarray, ...] | None = None


@dataclass(frozen=True)
class Unknown:
    """reason: what was tried and what did not fit, in one clause."""

    reason: str


@dataclass
class Recording:
    """Groups of neighbors for each cloud, the arrays that existed before, and numbers that may be a radius."""

    groups: list[Groups]
    sources: Sequence[int]
    candidates: Sequence[Candidate]
    constants: Sequence[float]

    def pairs(self) -> Iterator[tuple[Candidate, Candidate]]:
        """(centers, points) with the right numbers of elements and the same channels; the same array first."""
        centers = with_lengths(self.candidates, [len(g.indices) for g in self.groups])
        for points in with_lengths(self.candidates, self.sources):
            channels = points.values[0].shape[1]
            alike = [c for c in centers if c.values[0].shape[1] == channels]
            yield from ((c, points) for c in sorted(alike, key=lambda c: c.name != points.name))

    def with_self(self) -> "Recording":
        """Each center is its own first neighbor too; centers and points are the same elements."""
        added = []
        for index, counts, padded in self.groups:
            center = np.arange(len(index))[:, None]
            copies = np.arange(index.shape[1]) >= counts[:, None]
            added += [Groups(np.hstack([center, np.where(copies, center, index)]), counts + 1, padded)]
        return Recording(added, self.sources, self.candidates, self.constants)

    def widened(self, slots: int) -> "Recording":
        """Every group has at least this many slots; the new ones are copies of the first neighbor."""
        groups = []
        for index, counts, padded in self.groups:
            copies = np.repeat(index[:, :1], max(0, slots - index.shape[1]), axis=1)
            groups += [Groups(np.hstack([index, copies]), counts, padded)]
        return Recording(groups, self.sources, self.candidates, self.constants)

    def without_self(self) -> bool:
        """Whether centers may be the points, and no center is among its own neighbors."""
        alike = [len(g.indices) for g in self.groups] == list(self.sources)
        return alike and not any((g.indices == np.arange(len(g.indices))[:, None]).any() for g in self.groups)


def with_lengths(candidates: Sequence[Candidate], lengths: Sequence[int]) -> list[Candidate]:
    """The candidates with these numbers of elements, whose values are all finite."""
    alike = [c for c in candidates if [len(x) for x in c.values] == list(lengths)]
    return [c for c in alike if all(x.shape[1] > 0 and np.isfinite(x).all() for x in c.values)]


class Trial:
    """One pair of arrays: a few centers of the first cloud are compared first, then all centers of all clouds."""

    def __init__(self, recording: Recording, centers: Candidate, points: Candidate) -> None:
        self.recording, self.centers, self.points = recording, centers, points
        first = recording.groups[0]
        rows = np.unique(np.linspace(0, len(first.indices) - 1, PROBES).astype(int))
        self.few = Groups(first.indices[rows], first.counts[rows], first.padded)
        self.probe = Pair(centers.values[0], points.values[0], rows)
        self.tied = self.probe.ties(self.few)
        self.ranks = np.where(self.few.members(), self.probe.ranks(self.few), 0)

    @cached_property
    def pairs(self) -> list[Pair]:
        return [Pair(c, p) for c, p in zip(self.centers.values, self.points.values, strict=True)]

    @property
    def share(self) -> float:
        """How many neighbors are among the nearest."""
        return float((self.ranks < self.few.indices.shape[1])[self.few.members()].mean())

    def search(self, operations: Sequence[str]) -> Search | None:
        """The nearest points or a ball; one that gives the recorded order is preferred."""
        found = self.nearest() if "nearest" in operations else None
        if "ball" in operations and (found is None or found.slots):
            ball = self.ball()
            found = ball if ball and (found is None or ball.slots is None) else found
        return found

    def nearest(self) -> Search | None:
        places = int(self.few.counts.max()) - 1
        last = float(np.median(self.ranks.max(axis=1)))
        return self.fit("nearest", {"dilation": max(1, round(last / places)) if places else 1})

    def ball(self) -> Search | None:
        """A radius among the constants and their roots, the smallest; otherwise the shortest number that fits."""
        by_index = self.probe.sorted_by(self.few, "index")[1] is None
        for order in ("index", "nearest") if by_index else ("nearest", "index"):
            low, high = self.probe.radii(self.probe.sorted_by(self.few, order)[0], order)
            if low > high:
                continue
            positive = [float(c) for c in self.recording.constants if 0 < c < math.inf]
            for radius in sorted({*positive, *map(math.sqrt, positive)}):
                found = self.fit("ball", {"radius": radius, "order": order})
                if found:
                    return found
            ordered = zip(self.pairs, self.recording.groups, strict=True)
            bounds = [pair.radii(pair.sorted_by(groups, order)[0], order) for pair, groups in ordered]
            radius = shortest_decimal(max(b[0] for b in bounds), min(b[1] for b in bounds))
            found = self.fit("ball", {"radius": radius, "order": order}) if radius else None
            if found:
                return found
        return None

    def fit(self, op: str, fields: Fields) -> Search | None:
        """The search, if its neighbors are the recorded ones."""
        if fit(self.probe, self.few, op, fields) is None:
            return None
        fits = [fit(pair, g, op, fields) for pair, g in zip(self.pairs, self.recording.groups, strict=True)]
        slots = [found for found in fits if found is not None]
        if len(slots) < len(fits):
            return None
        sizes = tuple((n, s.shape[1]) for n, s in zip(self.recording.sources, slots, strict=True))
        moved = any((s != np.arange(s.shape[1])).any() for s in slots)
        ties = self.ties() if fields.get("order") != "index" else None
        return Search(op, self.centers.name, self.points.name, ties, fields, sizes, tuple(slots) if moved else None)

    def ties(self) -> str | None:
        """The points themselves if equal distances are ordered by them, and not by index."""
        by_index = by_rank = True
        for pair, groups, values in zip(self.pairs, self.recording.groups, self.points.values, strict=True):
            first, second = pair.equal_squares(groups)
            rank = lexicographic_ranks(values)
            by_index &= bool((first < second).all())
            by_rank &= bool((rank[first] < rank[second]).all())
        return self.points.name if by_rank and not by_index else None


def fit(pair: Pair, groups: Groups, op: str, fields: Fields) -> np.ndarray | None:
    """The slot (M, k) of the search that holds each recorded neighbor; None if a neighbor does not fit."""
    order = str(fields.get("order", "nearest"))
    ordered, slots = pair.sorted_by(groups, order)
    copied = groups.counts < groups.indices.shape[1]
    if groups.padded and (ordered.indices[copied, 0] != groups.indices[copied, 0]).any():
        return None  # another neighbor is repeated than by the search
    if op == "nearest":
        fits = pair.fits_nearest(ordered, int(fields["dilation"]))
    else:
        fits = pair.fits_ball(ordered, float(fields["radius"]), order)
    if not fits:
        return None
    return np.broadcast_to(np.arange(groups.indices.shape[1]), groups.indices.shape) if slots is None else slots


def shortest_decimal(low: float, high: float) -> float | None:
    """The number with the fewest digits from low up to, but not including, high; None if there is none."""
    if not high > low:
        return None
    if math.isinf(high):
        return UNBOUNDED
    for digits in range(1, 18):
        unit = 10.0 ** (math.floor(math.log10(high)) + 1 - digits)
        number = float(f"{math.ceil(low / unit) * unit:.{digits}g}")
        if low <= number < high and number > 0:
            return number
    return None


def find(recording: Recording, operations: Sequence[str]) -> Search | Unknown:
    """The search that gives the groups: the nearest points or the points in a ball, recorded in any order."""
    for index, counts, _ in recording.groups:
        distinct = np.sort(np.where(np.arange(index.shape[1]) < counts[:, None], index, -1 - np.arange(index.shape[1])))
        if (distinct[:, 1:] == distinct[:, :-1]).any():
            return Unknown("a neighbor appears twice in a group before its end")
    trials: list[Trial] = []
    for centers, points in recording.pairs():
        trials.append(Trial(recording, centers, points))
        found = trials[-1].search(operations) if trials[-1].tied <= MOST_TIED else None
        if found:
            return found
    for trial in trials:
        found = trial.search(operations) if MOST_TIED < trial.tied < 1 else None
        if found:
            return found
    best = max(trials, key=lambda t: t.share, default=None)
    names = " or ".join(name for name in ("nearest", "ball") if name in operations)
    shown = f" (in {best.points.name}, {best.share:.0%} of them are among the nearest)" if best else ""
    return Unknown(f"the neighbors fit no {names} in any of {len(trials)} pairs of arrays{shown}")
