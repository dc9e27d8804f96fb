"""Distances of neighbors, which networks weight them by, and the interpolation that is written with them.

A search in PyTorch gives distances together with indices. Numbers that equal the distances (or their squares) of a
search that was recognized are written as what they are: the norm of the difference of a neighbor and its center.
"""

import numpy as np

from bipointnet.packing.axes import CannotLower, Sym
from bipointnet.packing.graph import Graph, Node
from bipointnet.packing.read_gather import arrays_of
from bipointnet.packing.read_views import VIEWS
from bipointnet.packing.reading import Failure, Reading
from bipointnet.packing.record import Value
from bipointnet.packing.searches import Indices, indices_of, recorded

GATHERING = ("aten.index", "aten.gather", "aten.index_select")
CHOOSING = ("aten.sort", "aten.topk", "aten.min", "aten.gather", "aten.index")  # what gives distances of neighbors
CLOSE = 1e-6  # of the largest squared distance


def distances(r: Reading, value: Value) -> Sym | None:
    """Distances of the neighbors whose indices have the same shape, or their squares; None if the numbers differ."""
    if value.integer or value.data is None or not _chosen(value):
        return None
    saved = r.graph.name, r.graph.origin, r.graph.leaf
    try:
        for index in _alike(r, value):
            found = _matching(r, value, index)
            if found is not None:
                return found
    finally:
        r.graph.name, r.graph.origin, r.graph.leaf = saved
    return None


def _chosen(value: Value) -> bool:
    """Whether a value is some of the numbers of a matrix, such as the smallest ones."""
    call = value.call
    while call is not None and call.name.removeprefix("aten.") in VIEWS and isinstance(call.args[0], Value):
        call = call.args[0].call
    return call is not None and call.name in CHOOSING


def _before_views(value: Value) -> list[Value]:
    """A value and those that it is a view of."""
    found, call = [value], value.call
    while call is not None and call.name.removeprefix("aten.") in VIEWS and isinstance(call.args[0], Value):
        found, call = [*found, call.args[0]], call.args[0].call
    return found


def _alike(r: Reading, value: Value) -> list[Indices]:
    """What indices of this shape are gathered with."""
    found: list[Indices] = []
    for call in r.recording.runs[0].calls:
        if call.name not in GATHERING:
            continue
        given = (v for one in call.inputs[1:] for v in _before_views(one))  # torch.gather has them for each channel
        for index in (v for v in given if v.integer and v.shape == value.shape and v.depends):
            source = r.read(call.inputs[0])
            if isinstance(source, Failure):
                continue
            domains = [atom.domain for atom in source.atoms("elements") if atom.domain is not None]
            try:
                if len(domains) == 1 and r.sizes(index) == r.sizes(value):
                    found.append(indices_of(r, arrays_of(r, index), r.sizes(index), index, domains[0]))
            except CannotLower:
                continue
    return found


def _matching(r: Reading, value: Value, index: Indices) -> Sym | None:
    search = index.search
    if search is None or search.op == "farthest" or search.domain.unordered:
        return None
    centers, points = search.inputs[:2]
    if centers.seen is None or points.seen is None:
        return None
    kinds = {"square", "root"}
    for run, one in enumerate(r.recording.across(value)[: r.recording.kept]):
        around, cloud = (_numbers(r, node, run) for node in (centers, points))
        assert one.data is not None
        found = one.data.double().numpy().reshape(len(around), -1)
        every = ((around[:, None] - cloud) ** 2).sum(axis=2)
        nearest = np.sort(every, axis=1)[:, : found.shape[1]]
        if nearest.shape != found.shape:
            return None
        room = CLOSE * max(float(every.max()), 1e-30)
        kinds -= set() if np.abs(found - nearest).max() <= room else {"square"}
        kinds -= set() if np.abs(found**2 - nearest).max() <= room else {"root"}
    if not kinds or search.op != "nearest":
        return None
    graph, domain = r.graph, search.domain
    gathered = graph.make("gather", (points, search), domain, points.channels)
    offset = graph.arithmetic("subtract", gathered, graph.broadcast(centers, domain))
    node = graph.linear(graph.function(offset, "square"), np.ones((1, points.channels)))
    return Sym(node if "square" in kinds else graph.function(node, "sqrt"), (), index.axes)


def _numbers(r: Reading, node: Node, run: int) -> np.ndarray:
    assert node.seen is not None
    data = r.recording.across(node.seen[0])[run].data
    assert data is not None
    return recorded(data.double().numpy(), node.seen[1], run)


def interpolated(graph: Graph, node: Node) -> Node | None:
    """`interpolate`, if a node is the sum over three nearest neighbors of values times weights w_i / (w_1 + w_2 + w_3).

    The weights are 1 / (d + epsilon) of squared distances d, or 1 / max(d, epsilon).
    """
    if node.op != "pool" or node.fields["pool"] != "sum" or node.inputs[0].op != "multiply":
        return None
    for values, weights in (node.inputs[0].inputs, node.inputs[0].inputs[::-1]):
        if values.op != "gather" or weights.op != "divide" or weights.channels != 1:
            continue
        search, (inverse, total) = values.inputs[1], weights.inputs
        count = search.fields["count"]
        if search.op != "nearest" or count.least != 3 or count.most != 3 or search.fields["dilation"] != 1:
            continue
        if total.op != "broadcast" or total.inputs[0].op != "pool" or total.inputs[0].inputs[0] is not inverse:
            continue
        guard = _guard(inverse, search)
        if total.inputs[0].fields["pool"] == "sum" and guard is not None and values.inputs[0].domain.kind == "set":
            inputs = (*search.inputs[:2], values.inputs[0])
            kind, epsilon = guard
            made = graph.make("interpolate", inputs, node.domain, node.channels, guard=kind, epsilon=epsilon)
            made.seen = node.seen
            return made
    return None


def _plain(node: Node) -> Node:
    """Without multiplications by 1."""
    while node.op == "affine" and (node.tensors["slope"] == 1).all() and (node.tensors["offset"] == 0).all():
        node = node.inputs[0]
    return node


def _guard(inverse: Node, search: Node) -> tuple[str, float] | None:
    inverse = _plain(inverse)
    if inverse.op != "function" or inverse.fields["function"] != "reciprocal":
        return None
    guarded = _plain(inverse.inputs[0])
    if _is_square(guarded, search):
        return "add", 0.0
    if guarded.op != "affine" or guarded.channels != 1 or guarded.tensors["slope"][0] != 1:
        return None
    epsilon = float(np.float32(guarded.tensors["offset"][0]))
    inner = _plain(guarded.inputs[0])
    if epsilon >= 0 and _is_square(inner, search):
        return "add", epsilon
    clamped = inner.op == "function" and inner.fields["function"] == "relu" and inner.inputs[0].op == "affine"
    if epsilon >= 0 and clamped and _is_square(inner.inputs[0].inputs[0], search):
        return "clamp", epsilon
    return None


def _is_square(node: Node, search: Node) -> bool:
    """Whether a node is the squared distance of the neighbors of a search."""
    if node.op != "linear" or not (node.tensors["weight"] == 1).all() or node.channels != 1:
        return False
    square = node.inputs[0]
    if square.op != "function" or square.fields["function"] != "square" or square.inputs[0].op != "subtract":
        return False
    a, b = square.inputs[0].inputs
    return a.op == "gather" and a.inputs == (search.inputs[1], search) and b.inputs[:1] == (search.inputs[0],)
