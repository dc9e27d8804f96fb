"""Indices of points: which search of docs/format.md gives them.

A search of `bipointnet.nn.geometry` was recorded as such. Indices that the network computes in any other way are
compared with all searches in all arrays that they were computed from (`neighbors.recognize`).
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from bipointnet.packing.axes import Atom, Axis, CannotLower, Sizes, Sym, regroup
from bipointnet.packing.graph import Domain, Node
from bipointnet.packing.neighbors import Candidate, Unknown, recognize, recognize_edges
from bipointnet.packing.reading import Failure, Reading
from bipointnet.packing.record import Call, Value, leaves
from bipointnet.packing.runs import DifferentBranch
from bipointnet.packing.sizes import SizeRule, fit

MOST_PASSES = 8  # of a loop, such as farthest point sampling, that are looked at
MOST_NEIGHBORS = 4096


@dataclass(frozen=True)
class Indices:
    """What indices mean. search: the node that computes them; None if they name every element of the source in order.

    target: whether they are the centers of edges, whose neighbors `search` finds.
    """

    search: Node | None
    axes: tuple[Axis, ...]
    target: bool = False


def size_rule(r: Reading, sources: Sizes, sizes: Sizes, most: int, what: str) -> SizeRule:
    pairs = list(zip(sources, sizes, strict=True))
    rule = fit(pairs[:-1], most)  # the last run is the check
    if rule is None or rule(pairs[-1][0]) != pairs[-1][1]:
        rule = fit(pairs, most)
        # A limit that one run alone reaches may hide that its size follows another rule.
        if rule is not None and any(sizes.count(limit) == 1 for limit in {rule.least, rule.most} - {1}):
            rule = None
    if rule is None:
        shown = ", ".join(f"{size} of {n}" for n, size in sorted(set(zip(sources, sizes, strict=True))))
        raise CannotLower(
            f"the number of {what} is no min(most, max(least, round(factor n))): {shown}; expected such a rule"
        )
    return rule


def made_search(r: Reading, op: str, inputs: tuple[Node, ...], sizes: Sizes, **fields: Any) -> Node:
    """The node of a search, and its new domain; equal searches are one."""
    source = inputs[-1].domain if op == "farthest" else inputs[1].domain
    if source.kind != "set":
        raise CannotLower("neighbors are searched among something else than a set of points")
    what, most = ("chosen points", 2**32 - 1) if op == "farthest" else ("neighbors", MOST_NEIGHBORS)
    rule = size_rule(r, source.sizes, sizes, most, what)
    key = (op, inputs, rule, tuple(sorted(fields.items())))
    known = r.searches
    if key not in known:
        parent = r.graph.cloud if op == "farthest" else inputs[0].domain
        domain = Domain("set" if op == "farthest" else "groups", parent, sizes)
        known[key] = r.graph.make(op, inputs, domain, 1, count=rule, **fields)
        domain.search = known[key]
    return known[key]


def set_node(r: Reading, value: Value) -> tuple[Node, Sym]:
    """Coordinates (1, N, C) as a node with one row per point."""
    sym = r.spread(_read(r, value))
    if any(atom.role == "channel" for axis in sym.axes[:-1] for atom in axis):
        raise CannotLower("coordinates whose channels are not the last axis")
    return r.ordered(sym, tuple(atom for atom in sym.axes[-1])), sym


def _read(r: Reading, value: Value) -> Sym:
    found = r.read(value)
    if isinstance(found, Failure):
        raise CannotLower(found.reason)
    return found


# Searches of bipointnet.nn.geometry


def geometry_search(r: Reading, call: Call) -> tuple[Node, Axis]:
    """The node of a recorded search, and the axis of its centers."""
    name = call.name.removeprefix("geometry.")
    order = {
        "farthest_points": ("points", "count"),
        "nearest": ("centers", "points", "k", "dilation", "ties"),
        "ball": ("centers", "points", "radius", "limit"),
        "three_nearest": ("centers", "points"),
    }[name]
    given = dict(zip(order, call.args, strict=False)) | call.kwargs
    sizes = r.sizes(call.outputs[0])[-1]
    points, sym = set_node(r, given["points"])
    if name == "farthest_points":
        return made_search(r, "farthest", (points,), sizes, order="coordinates"), ()
    centers, sym = set_node(r, given["centers"])
    if name == "ball":
        node = made_search(r, "ball", (centers, points, points), sizes, radius=float(given["radius"]), order="nearest")
    else:
        ties = given.get("ties")
        ties = points if ties is None else set_node(r, ties)[0]
        node = made_search(r, "nearest", (centers, points, ties), sizes, dilation=int(given.get("dilation", 1)))
    return node, sym.axes[1]


# Any indices


def indices_of(
    r: Reading, arrays: list[np.ndarray], sizes: tuple[Sizes, ...], origin: Value, source: Domain
) -> Indices:
    """What indices into a set mean: arrays per kept run, sizes of their axes in all runs, and where they come from."""
    key = (origin, source, tuple(array.shape for array in arrays))
    if key not in r.indices:
        saved = r.graph.name, r.graph.origin, r.graph.leaf
        r.indices[key] = _indices_of(r, arrays, sizes, origin, source)
        r.graph.name, r.graph.origin, r.graph.leaf = saved
        _note_seen(r.indices[key], origin)
    return r.indices[key]


def _note_seen(found: Indices, origin: Value) -> None:
    """The indices of the network are those of the search, for comparisons with PyTorch."""
    search = found.search
    if search is not None and search.seen is None and not found.target and len(found.axes) == len(origin.shape):
        search.seen = (origin, Sym(search, (), found.axes))


def _indices_of(
    r: Reading, arrays: list[np.ndarray], sizes: tuple[Sizes, ...], origin: Value, source: Domain
) -> Indices:
    total = product_of(sizes, r.runs)
    whole = [np.arange(n) for n in source.sizes[: len(arrays)]]
    if total == source.sizes and all(np.array_equal(a.ravel(), w) for a, w in zip(arrays, whole, strict=True)):
        return Indices(None, _arranged((source.atom,), sizes, r.runs))
    _refuse_random(origin)
    roots = list(_roots(r, origin, arrays))
    for root in roots:
        call = root.call
        if call is not None and call.name.startswith("geometry.") and root.output == 0:
            search, centers = geometry_search(r, call)
            return Indices(search, _arranged((*centers, search.domain.atom), sizes, r.runs))
    if len([size for size in sizes if set(size) != {1}]) <= 1:
        edges = edges_of(r, origin, arrays)
        if edges is not None:
            return edges
    return _recognized(r, roots, arrays, sizes, origin, source)


def product_of(sizes: tuple[Sizes, ...], runs: int) -> Sizes:
    total = (1,) * runs
    for size in sizes:
        total = tuple(a * b for a, b in zip(total, size, strict=True))
    return total


def _arranged(atoms: Axis, sizes: tuple[Sizes, ...], runs: int) -> tuple[Axis, ...]:
    shown = tuple(atom for atom in atoms if set(atom.sizes) != {1})
    return regroup(Sym(None, (), (shown,)), sizes, runs).axes


def _ancestors(origin: Value, most: float = MOST_PASSES) -> Iterator[Value]:
    """Values that this one was computed from, the nearest first; of loops, some passes only."""
    seen, passes, waiting = {origin}, Counter[Any](), [origin]
    for value in waiting:
        yield value
        for one in () if value.call is None else value.call.inputs:
            key = one if one.call is None else (one.call.key, one.output, one.shape)
            if one not in seen and passes[key] < most:
                seen.add(one)
                passes[key] += 1
                waiting.append(one)


def _roots(r: Reading, origin: Value, arrays: list[np.ndarray]) -> Iterator[Value]:
    """Integers with the same numbers in the same order, in another shape."""
    for value in _ancestors(origin):
        if not value.integer or value.data is None or value.data.numel() != arrays[0].size:
            continue
        data = _kept(r, value)
        same = (
            d is not None and np.array_equal(d.numpy().ravel(), a.ravel()) for d, a in zip(data, arrays, strict=False)
        )
        if data and all(same):
            yield value


def _kept(r: Reading, value: Value) -> list[Tensor | None]:
    """A value in all runs that keep their tensors; nothing if it is in a loop whose length depends on the cloud."""
    try:
        return [one.data for one in r.recording.across(value)[: r.recording.kept]]
    except DifferentBranch:
        return []


def _refuse_random(origin: Value) -> None:
    for value in _ancestors(origin, math.inf):  # the start is in the first pass of a loop
        if value.call is not None and value.call.random:
            raise RandomStart(value.call)


class RandomStart(CannotLower):
    """Indices that depend on random numbers; `call` draws them."""

    def __init__(self, call: Call) -> None:
        super().__init__(
            "points are chosen with random numbers; expected the same choice in every run; start farthest point "
            "sampling at point 0"
        )
        self.call = call


def _candidates(r: Reading, origin: Value) -> dict[str, tuple[Candidate, Node]]:
    """The arrays (n, C) that indices were computed from, by name."""
    found: dict[str, tuple[Candidate, Node]] = {}
    nodes: set[Node] = set()
    values = [v for v in _ancestors(origin) if not v.integer and v.depends and v.data is not None and 0 not in v.shape]
    values = [r.recording.runs[0].inputs[0], *values]
    for value in values:
        try:
            varying = [size for size in r.sizes(value) if len(set(size)) > 1]
            if len(varying) > 1 or len(value.shape) > 4:
                continue
            sym = r.read(value)
        except DifferentBranch:  # inside a search, the number of selected points may depend on the cloud
            continue
        if isinstance(sym, Failure) or sym.node is None or not sym.channels:
            continue
        node = sym.node
        if node in nodes or node.domain.kind == "groups" or node.seen is None:
            continue
        nodes.add(node)
        data = [one.data for one in r.recording.across(node.seen[0])[: r.recording.kept]]
        arrays = tuple(recorded(d.double().numpy(), node.seen[1], i) for i, d in enumerate(data) if d is not None)
        found[f"{node.name}#{len(found)}"] = (Candidate(f"{node.name}#{len(found)}", arrays), node)
    return found


def recorded(data: np.ndarray, sym: Sym, run: int) -> np.ndarray:
    """A tensor of a recorded run as (elements, channels) of its node."""
    return canonical(data, sym, [atom.sizes[run] for atom in sym.atoms()])


def canonical(data: np.ndarray, sym: Sym, sizes: list[int]) -> np.ndarray:
    """A tensor as (elements, channels) of its node; the atoms of the symbol have these sizes."""
    assert sym.node is not None
    atoms = sym.atoms()
    array = data.reshape(sizes)
    wanted = [domain.atom for domain in sym.node.domain.chain if domain.atom in atoms]
    wanted += list(sym.channels)
    extra = [i for i, atom in enumerate(atoms) if atom not in wanted]
    array = array.transpose([*extra, *(atoms.index(atom) for atom in wanted)])
    array = array[(0,) * len(extra)]
    return np.ascontiguousarray(array).reshape(-1, sym.node.channels)


def _constants(origin: Value) -> list[float]:
    numbers: set[float] = set()
    for value in _ancestors(origin):
        if value.call is not None:
            given = leaves((value.call.args, value.call.kwargs))
            numbers |= {float(x) for x in given if isinstance(x, (int, float)) and not isinstance(x, bool)}
        if value.call is None and not value.depends and value.data is not None and value.data.numel() == 1:
            numbers.add(float(value.data))
    return sorted(number for number in numbers if np.isfinite(number))


def _only(origin: Value) -> tuple[str | None, Value]:
    """The operation that the user named for the function that made the indices, and its result."""
    for value in _ancestors(origin):
        if value.call is not None and value.call.name.startswith("replaced."):
            return value.call.name.removeprefix("replaced."), value
    return None, origin


def _recognized(
    r: Reading,
    roots: list[Value],
    arrays: list[np.ndarray],
    sizes: tuple[Sizes, ...],
    origin: Value,
    source: Domain,
) -> Indices:
    only, _ = _only(origin)
    shapes = [[size for size in r.sizes(root) if set(size) != {1}] for root in roots]
    shapes = [shape for shape in shapes if len(shape) == 2] or [[size for size in sizes if set(size) != {1}]]
    dims = shapes[0] if len(shapes[0]) <= 2 else [product_of(tuple(shapes[0]), r.runs)]
    if not dims:
        dims = [(1,) * r.runs]
    index = [a.reshape([size[i] for size in dims]) for i, a in enumerate(arrays)]
    candidates = _candidates(r, origin)
    own = sorted(candidates.values(), key=lambda pair: pair[1].domain is not source)
    sources = list(source.sizes[: len(arrays)])
    found = recognize(index, sources, [candidate for candidate, _ in own], _constants(origin), only)
    if isinstance(found, Unknown):
        raise CannotLower(
            f"indices of points that no search of the runtime gives: {found.reason}; name the function that computes "
            "them with replace={function: 'ball'}, or use bipointnet.nn.geometry"
        )
    return _from_search(r, found, candidates, dims, sizes, source)


def _from_search(
    r: Reading,
    found: Any,
    candidates: dict[str, tuple[Candidate, Node]],
    dims: list[Sizes],
    sizes: tuple[Sizes, ...],
    source: Domain,
) -> Indices:
    if found.op in ("identity", "all"):
        return Indices(None, _arranged((source.atom,), sizes, r.runs))
    nodes = [candidates[name][1] for name in (found.centers, found.points, found.ties) if name is not None]
    if found.op == "farthest":
        search = made_search(r, "farthest", tuple(nodes), dims[0], **found.fields)
        return Indices(search, _arranged((search.domain.atom,), sizes, r.runs))
    centers = nodes[0].domain
    slots = dims[1] if len(dims) == 2 else _divided(product_of(tuple(dims), r.runs), centers.sizes)
    search = made_search(r, found.op, tuple(nodes), slots, **found.fields)
    search.domain.unordered |= found.slots is not None
    atoms = (centers.atom, search.domain.atom) if centers.kind != "cloud" else (search.domain.atom,)
    return Indices(search, _arranged(atoms, sizes, r.runs))


def _divided(total: Sizes, by: Sizes) -> Sizes:
    if any(a % b for a, b in zip(total, by, strict=True)):
        raise CannotLower("neighbors whose number differs between centers; expected the same number for all")
    return tuple(a // b for a, b in zip(total, by, strict=True))


def edges_of(r: Reading, origin: Value, arrays: list[np.ndarray]) -> Indices | None:
    """What indices mean that are one row of the edges (2, E) of a graph; None if they are not."""
    for value in _ancestors(origin):
        if not value.integer or len(value.shape) != 2 or value.shape[0] != 2 or value.data is None:
            continue
        if value.shape[1] != arrays[0].size:
            continue
        pairs = [d.numpy() for d in _kept(r, value) if d is not None]
        if len(pairs) < len(arrays):
            continue
        for row in (0, 1):
            if all(np.array_equal(p[row], a.ravel()) for p, a in zip(pairs, arrays, strict=True)):
                return _edge_indices(r, value, pairs, row)
    return None


def _edge_indices(r: Reading, value: Value, pairs: list[np.ndarray], row: int) -> Indices | None:
    """A row of edges: their centers, or their neighbors."""
    if value not in r.edges:
        candidates = _candidates(r, value)
        kept = len(pairs)
        for centers in {node.domain for _, node in candidates.values()}:
            for points in {node.domain for _, node in candidates.values()}:
                if centers.kind != "set" or points.kind != "set" or value in r.edges:
                    continue
                found = recognize_edges(
                    pairs,
                    list(centers.sizes[:kept]),
                    list(points.sizes[:kept]),
                    [candidate for candidate, _ in candidates.values()],
                    _constants(value),
                    _only(value)[0],
                )
                if not isinstance(found, Unknown):
                    r.edges[value] = _edge_search(r, value, found, candidates, pairs)
    if value not in r.edges:
        return None
    search, atom, targets = r.edges[value]
    return Indices(search, ((atom,),), target=row == targets)


def _edge_search(
    r: Reading, value: Value, found: Any, candidates: dict[str, tuple[Candidate, Node]], pairs: list[np.ndarray]
) -> tuple[Node, Atom, int]:
    result, numbers = found
    nodes = [candidates[name][1] for name in (result.centers, result.points, result.ties) if name is not None]
    slots = _edge_slots(r, result, nodes[1].domain.sizes, len(pairs))
    targets = [
        row
        for row in (1, 0)
        if all((n // k == p[row]).all() for n, p, (_, k) in zip(numbers, pairs, result.sizes, strict=True))
    ]
    if not targets:
        raise CannotLower("edges whose centers are in neither row")
    if all((n % k != 0).all() for n, (_, k) in zip(numbers, result.sizes, strict=True)):
        raise CannotLower("a graph without the points themselves as neighbors; expected edges to the point itself too")
    search = made_search(r, result.op, tuple(nodes), slots, **result.fields)
    search.domain.unordered = True
    return search, Atom("edges", r.sizes(value)[1], search.domain), targets[0]


def _edge_slots(r: Reading, result: Any, sources: Sizes, kept: int) -> Sizes:
    rule = fit(list(result.sizes))
    if rule is None:
        raise CannotLower("neighbors whose number follows no rule")
    return tuple(rule(n) for n in sources)
