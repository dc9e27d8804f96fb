"""How scatters are read: pools over the edges of a graph or over a batch vector, as graph libraries compute them."""

from typing import Any

import numpy as np

from bipointnet.nn import EntropyMax, MaxPool, MeasuredMax, ScatterPool
from bipointnet.packing.axes import CannotLower, Sym
from bipointnet.packing.read_gather import arrays_of
from bipointnet.packing.read_layers import counted_layer, reduced
from bipointnet.packing.reading import Handler, Reading
from bipointnet.packing.record import Call, Value
from bipointnet.packing.searches import edges_of

KINDS = {"amax": "max", "max": "max", "mean": "mean", "sum": "sum", "add": "sum"}


def scatter_reduce(r: Reading, call: Call) -> Sym:
    """self.scatter_reduce(dim, index, src, reduce): elements with the same index are pooled."""
    given = dict(zip(("self", "dim", "index", "src", "reduce"), call.args, strict=False)) | call.kwargs
    kind = KINDS.get(given["reduce"])
    if kind is None or (given.get("include_self", True) and kind != "sum"):
        raise CannotLower(f"scatter_reduce with {given['reduce']} of the values before; expected amax, mean or sum")
    return scattered(r, call, r.sym(given["src"]), given["dim"], given["index"], kind)


def scatter_add(r: Reading, call: Call) -> Sym:
    """self.scatter_add(dim, index, src), where self is zero; a sum of ones is the number of elements."""
    before, dim, index, src = call.args[:4]
    numbers = None if before.depends else before.data
    if numbers is None or numbers.any():
        raise CannotLower("scatter_add to values; expected zeros")
    sym = r.sym(src)
    if sym.node is None:
        return _counts(r, sym, dim, index)
    return scattered(r, call, sym, dim, index, "sum")


def index_reduce(r: Reading, call: Call) -> Sym:
    given = dict(zip(("self", "dim", "index", "source", "reduce"), call.args, strict=False)) | call.kwargs
    kind = KINDS.get(given["reduce"])
    if kind is None or given.get("include_self", True):
        raise CannotLower(f"index_reduce with {given['reduce']} of the values before; expected amax or mean")
    return scattered(r, call, r.sym(given["source"]), given["dim"], given["index"], kind)


def scattered(r: Reading, call: Call, sym: Sym, dim: int, index: Value, kind: str) -> Sym:
    dim %= len(sym.axes)
    if set(r.sizes(call.outputs[0])[dim]) == {1}:
        return reduced(r, sym, [dim], kind, True)
    sym = r.spread(sym)
    axis = sym.axes[dim]
    node = sym.node
    assert node is not None
    arrays = _along(arrays_of(r, index), dim)
    if len(axis) == 1 and axis[0].role == "edges" and node.domain is axis[0].domain:
        found = edges_of(r, index, arrays)
        if found is not None and found.target and found.search is not None and found.search.domain is node.domain:
            centers = node.domain.parent
            assert centers is not None
            made = r.graph.pool(node, kind, "neighbors")
            return Sym(made, sym.channels, tuple((centers.atom,) if i == dim else a for i, a in enumerate(sym.axes)))
    raise CannotLower(
        "values are scattered to points; expected a pool over the edges of neighbors, or over a batch vector"
    )


def _along(arrays: list[np.ndarray], dim: int) -> list[np.ndarray]:
    """Indices along one axis, which are the same for all channels."""
    rows = []
    for array in arrays:
        moved = np.moveaxis(array, dim % array.ndim, 0).reshape(array.shape[dim % array.ndim], -1)
        if (moved != moved[:, :1]).any():
            raise CannotLower("a scatter with other indices for each channel; expected the same for all channels")
        rows.append(moved[:, 0])
    return rows


def _counts(r: Reading, sym: Sym, dim: int, index: Value) -> Sym:
    """The number of edges of each center, or of points of the cloud."""
    if sym.channels or sym.numbers is None or sym.numbers[0] != 1:
        raise CannotLower("constants are scattered; expected ones, to count elements")
    dim %= len(sym.axes)
    found = edges_of(r, index, _along(arrays_of(r, index), dim))
    if found is None or not found.target or found.search is None:
        if any((array != 0).any() for array in arrays_of(r, index)):
            raise CannotLower("elements are counted by indices that belong to no edges")
        node = r.graph.make("size", (r.graph.points,), r.graph.cloud, 1, over="points")
        return Sym(node, (), tuple(() if i == dim else axis for i, axis in enumerate(sym.axes)))
    centers = found.search.domain.parent
    assert centers is not None
    node = r.graph.make("size", (found.search,), centers, 1, over="neighbors")
    return Sym(node, (), tuple((centers.atom,) if i == dim else axis for i, axis in enumerate(sym.axes)))


def scatter_pool(r: Reading, call: Call) -> Sym:
    """The shift of a pool of bipointnet.nn after a scatter of maxima."""
    module: Any = call.function
    assert isinstance(module, ScatterPool)
    sym, pool = r.sym(call.args[0]), module.pool
    node = sym.node
    if node is None or node.op != "pool" or node.fields["pool"] != "max":
        raise CannotLower("the shift of a maximum that is no pool over points or edges")
    counts = call.args[1].call
    if isinstance(pool, EntropyMax) and counts is not None and counts.name == "distinct.distinct_codes_of_groups":
        layer = counted_layer(counts, node.inputs[0])
        return Sym(r.graph.pool(node.inputs[0], "max", "distinct", "delta", layer), sym.channels, sym.axes)
    if isinstance(pool, EntropyMax):
        return Sym(r.graph.pool(node.inputs[0], "max", node.fields["over"], "delta"), sym.channels, sym.axes)
    if isinstance(pool, MeasuredMax):
        shift = float(pool.shift)
        moved = r.graph.affine(node, np.array(1.0), np.array(-shift), lambda y: y - shift)
        return Sym(moved, sym.channels, sym.axes)
    if type(pool) is not MaxPool:
        raise CannotLower(f"{type(pool).__name__} as a pool; expected MaxPool, EntropyMax or MeasuredMax")
    return sym


GRAPHS: dict[str, Handler] = {
    "scatter_reduce": scatter_reduce,
    "scatter_add": scatter_add,
    "index_reduce": index_reduce,
}
