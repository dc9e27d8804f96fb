"""Recognize neighbor searches by their values, however a network computes them.

Indices that a network gathers with were recorded for several clouds, together with the float arrays that existed
before them. They are compared with the searches of docs/format.md ("Neighbors") in these arrays. `distances` says when
indices are equal up to rounding, `group_search` finds arrays and fields.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from bipointnet.packing.distances import Groups, farthest_starts
from bipointnet.packing.group_search import Candidate, Recording, Search, Unknown, find, with_lengths

__all__ = ["OPERATIONS", "Candidate", "Search", "Unknown", "recognize", "recognize_edges"]

OPERATIONS = ("identity", "all", "farthest", "nearest", "ball")


def recognize(
    indices: Sequence[np.ndarray],
    sources: Sequence[int],
    candidates: Sequence[Candidate],
    constants: Sequence[float],
    only: str | None = None,
) -> Search | Unknown:
    """The search that gives the recorded indices.

    Args:
        indices: one int64 array per recorded cloud, (m,) or (m, k). If no sampling gives (m,), it is also read as
            groups of all neighbors of each center, one after another.
        sources: the number of elements that the indices point into, per cloud.
        candidates: the float arrays that existed before; the coordinates of the source come first.
        constants: numbers in the calls that computed the indices, such as a radius or its square.
        only: the operation, if the user named it.

    Examples:
        >>> points = Candidate("xyz", (np.array([[0.0, 0, 0], [1, 0, 0], [0, 3, 0], [4, 4, 0]]),))
        >>> found = recognize([np.array([[0, 1], [1, 0], [2, 0], [3, 2]])], [4], [points], [])
        >>> found.op, found.centers, found.points, found.fields, found.sizes
        ('nearest', 'xyz', 'xyz', {'dilation': 1}, ((4, 2),))
    """
    operations = OPERATIONS if only is None else (only,)
    problem = _out_of_range(indices, sources)
    if problem:
        return Unknown(problem)
    whole = tuple((n, n) for n in sources)
    if "identity" in operations and _are_ranges(indices, sources):
        return Search("identity", None, None, None, {}, whole)
    if "all" in operations and all(len(i) == 1 for i in indices) and _are_ranges([i.ravel() for i in indices], sources):
        return Search("all", None, None, None, {}, whole)
    sampling = "farthest" in operations and indices[0].ndim == 1
    sampled = _farthest(indices, sources, candidates) if sampling else None
    if sampled:
        return sampled
    grouping = bool({"nearest", "ball"} & {*operations})
    found = _neighbors(indices, sources, candidates, constants, operations) if grouping else None
    if isinstance(found, Search):
        return found
    tried = ["they are not the farthest points of any array"] * sampling + ([found.reason] if found else [])
    problem = _random(indices, candidates) or "; ".join(tried)
    return Unknown(problem or f"indices of shape {indices[0].shape} are not of the operation {only!r}")


def recognize_edges(
    edges: Sequence[np.ndarray],
    targets: Sequence[int],
    sources: Sequence[int],
    candidates: Sequence[Candidate],
    constants: Sequence[float],
    only: str | None = None,
) -> tuple[Search, list[np.ndarray]] | Unknown:
    """The search that gives the edges of a graph, and for each edge the number (center * k + slot) of its neighbor.

    The search of a graph without self loops finds one neighbor more, the center itself; no edge has its number.

    Args:
        edges: one int64 array (2, E) per recorded cloud, with sources in row 0 and targets in row 1, or the other way
            around; in any order.
        targets, sources: the number of elements of either, per cloud.
        candidates, constants, only: as for `recognize`.
    """
    operations = OPERATIONS if only is None else (only,)
    reasons: list[Unknown] = []
    for flow in (1, 0):
        lists = [EdgeList.of(e[flow], e[1 - flow], m, n) for e, m, n in zip(edges, targets, sources, strict=True)]
        inside = [e for e in lists if e is not None]
        if len(inside) < len(lists):
            continue
        found = _edge_search(inside, sources, candidates, constants, operations)
        if not isinstance(found, Unknown):
            return found
        reasons += [found]
    return reasons[0] if reasons else Unknown(f"not edges from {sources[0]} elements to {targets[0]} elements")


def _out_of_range(indices: Sequence[np.ndarray], sources: Sequence[int]) -> str | None:
    """Why the indices cannot be those of one cloud."""
    for index, n in zip(indices, sources, strict=True):
        if index.size == 0:
            return "there are no indices"
        if index.min() < 0:
            return f"index {index.min()} stands for a missing neighbor; repeat the first one of the group instead"
        if index.max() >= n:
            flattened = f"they point into clouds that follow one another (index + b * {n})"
            return f"index {index.max()} of {n} elements: {flattened}; gather from each cloud with its own indices"
    return None


def _are_ranges(indices: Sequence[np.ndarray], sources: Sequence[int]) -> bool:
    return all(np.array_equal(i, np.arange(n)) for i, n in zip(indices, sources, strict=True))


def _random(indices: Sequence[np.ndarray], candidates: Sequence[Candidate]) -> str | None:
    """Two recordings of the same cloud with different indices."""
    for a, b in combinations(range(len(indices)), 2):
        same = candidates and all(np.array_equal(c.values[a], c.values[b]) for c in candidates)
        if same and not np.array_equal(indices[a], indices[b]):
            return "they are chosen at random: they differ between two runs on the same cloud"
    return None


def _farthest(
    indices: Sequence[np.ndarray], sources: Sequence[int], candidates: Sequence[Candidate]
) -> Search | Unknown | None:
    """Farthest point sampling; unknown if every step fits, but no start rule; None if a step does not fit."""
    for points in with_lengths(candidates, sources):
        rules: set[str] = {"index", "coordinates"}
        for values, index in zip(points.values, indices, strict=True):
            found = farthest_starts(values, index)
            if found is None:
                break
            rules &= found
        else:
            if rules:
                order = "index" if "index" in rules else "coordinates"
                sizes = tuple((n, len(i)) for i, n in zip(indices, sources, strict=True))
                return Search("farthest", None, points.name, None, {"order": order}, sizes)
            if len(indices[0]) > 1:
                starts = ", ".join(str(i[0]) for i in indices[:3])
                why = f"farthest points of {points.name} from a random start (points {starts}, ...)"
                return Unknown(f"{why}; start at point 0")
    return None


def _neighbors(
    indices: Sequence[np.ndarray],
    sources: Sequence[int],
    candidates: Sequence[Candidate],
    constants: Sequence[float],
    operations: Sequence[str],
) -> Search | Unknown:
    """Groups of neighbors; (m k,) is cut into groups for the numbers of elements m of the candidates."""
    unknown = Unknown(f"{len(indices[0])} indices belong to the elements of no array")
    if indices[0].ndim == 2:
        numbers = [tuple(len(i) for i in indices)]
    else:
        numbers = sorted({tuple(len(x) for x in c.values) for c in candidates}, reverse=True)
    for centers in numbers:
        if any(len(i) % m for i, m in zip(indices, centers, strict=True)):
            continue
        groups = [recorded_groups(i.reshape(m, -1)) for i, m in zip(indices, centers, strict=True)]
        recording = Recording(groups, sources, candidates, constants)
        found = find(recording, operations)
        if isinstance(found, Search):
            return found
        unknown = found
        if recording.without_self() and isinstance(find(recording.with_self(), operations), Search):
            return Unknown("the point itself is left out of its neighbors; search for one more, itself included")
    return unknown


def recorded_groups(index: np.ndarray) -> Groups:
    """Groups of recorded indices (m, k): after the true neighbors, the first one is repeated up to the end."""
    other = index != index[:, :1]
    counts = index.shape[1] - np.argmax(other[:, ::-1], axis=1)
    return Groups(index, np.where(other.any(axis=1), counts, 1))


class EdgeList(NamedTuple):
    """Edges of one cloud: target (E,), column (E,), the place of an edge among those of its target; and the groups."""

    target: np.ndarray
    column: np.ndarray
    groups: Groups

    @classmethod
    def of(cls, target: np.ndarray, source: np.ndarray, targets: int, sources: int) -> "EdgeList | None":
        """None if the edges are not between these numbers of elements."""
        if not target.size or min(target.min(), source.min()) < 0:
            return None
        if target.max() >= targets or source.max() >= sources:
            return None
        counts = np.bincount(target, minlength=targets)
        order = np.argsort(target, kind="stable")
        column = np.empty_like(target)
        column[order] = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts)
        indices = np.full((targets, int(counts.max())), -1)
        indices[target, column] = source
        return cls(target, column, Groups(np.where(indices < 0, indices[:, :1], indices), counts, padded=False))


def _edge_search(
    lists: list[EdgeList],
    sources: Sequence[int],
    candidates: Sequence[Candidate],
    constants: Sequence[float],
    operations: Sequence[str],
) -> tuple[Search, list[np.ndarray]] | Unknown:
    """Edges without self loops if the edges alone fit no search: then the center itself becomes a neighbor."""
    recording = Recording([e.groups for e in lists], sources, candidates, constants)
    found: Search | Unknown = Unknown("a target has no edge, but a group has at least one neighbor")
    if all(e.groups.counts.all() for e in lists):
        found = _edge_groups(recording, operations, 0)
    reason, added = found, isinstance(found, Unknown) and recording.without_self()
    if added:
        found = _edge_groups(recording.with_self(), operations, 1)
    if isinstance(found, Unknown):
        return found if isinstance(reason, Search) else reason
    numbers = []
    for i, (edges, (_, k)) in enumerate(zip(lists, found.sizes, strict=True)):
        column = edges.column + added
        slot = column if found.slots is None else found.slots[i][edges.target, column]
        numbers += [edges.target * k + slot]
    return replace(found, slots=None), numbers


def _edge_groups(recording: Recording, operations: Sequence[str], added: int) -> Search | Unknown:
    """The nearest points, or all points in a ball, or the first k of them."""
    found: Search | Unknown = Unknown(f"edges are not {' or '.join(operations)}")
    if "nearest" in operations:
        found = find(recording, ["nearest"])
    if isinstance(found, Search) or "ball" not in operations:
        return found
    most = max(int(g.counts.max()) for g in recording.groups)
    ball = find(recording.widened(most + 1), ["ball"])
    if isinstance(ball, Search):  # no ball is full: k is a constant, or as large as the cloud
        limits = [int(c) + added for c in recording.constants if c == int(c) and c + added >= most]
        return replace(ball, sizes=tuple((n, min(limits, default=n)) for n, _ in ball.sizes))
    ball = find(recording.widened(most), ["ball"])
    return ball if isinstance(ball, Search) or "nearest" not in operations else found
