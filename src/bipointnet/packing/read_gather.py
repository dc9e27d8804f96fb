"""How gathers, scatters and the functions of `bipointnet.nn.geometry` are read."""

from typing import Any

import numpy as np

from bipointnet.packing.axes import Atom, Axis, CannotLower, Sizes, Sym
from bipointnet.packing.graph import Domain
from bipointnet.packing.reading import Handler, Reading
from bipointnet.packing.record import Call, Value
from bipointnet.packing.searches import Indices, geometry_search, indices_of, set_node


def index_select(r: Reading, call: Call) -> Sym:
    x, dim, index = call.args
    sym = r.sym(x)
    dim %= len(sym.axes)
    return gathered(r, sym, dim, dim, arrays_of(r, index), r.sizes(index), index)


def index(r: Reading, call: Call) -> Sym:
    """x[..., i, ...] with tensors of integers; on axes of size 1 they are all 0."""
    sym = r.sym(call.args[0])
    given = {dim: value for dim, value in enumerate(call.args[1]) if value is not None}
    if any(str(value.dtype) == "torch.bool" for value in given.values()):
        raise CannotLower(
            "points are chosen by a mask, so their number depends on the data; expected a neighbor search"
        )
    real = [dim for dim in given if sym.axes[dim]]
    if len(real) > 1:
        raise CannotLower("two axes are indexed at once; expected the indices of points only")
    rank = max(len(value.shape) for value in given.values())
    shape: list[Sizes] = [(1,) * r.runs] * rank
    for value in given.values():
        for place, sizes in enumerate(r.sizes(value), rank - len(value.shape)):
            shape[place] = sizes if set(sizes) != {1} else shape[place]
    dims = sorted(given)
    together = dims == list(range(dims[0], dims[-1] + 1))
    start = dims[0] if together else 0
    rest = [axis for dim, axis in enumerate(sym.axes) if dim not in given]
    if not real:
        copies = [(Atom("free", sizes),) if set(sizes) != {1} else () for sizes in shape]
        return sym.with_axes((*rest[:start], *copies, *rest[start:]))
    value = given[real[0]]
    bare = sym.with_axes(axis for dim, axis in enumerate(sym.axes) if dim not in given or dim == real[0])
    place = next(i for i, axis in enumerate(bare.axes) if axis is sym.axes[real[0]])
    made = gathered(r, bare, place, start, arrays_of(r, value), r.sizes(value), value)
    axes, own = list(made.axes), len(value.shape)
    for i, sizes in enumerate(shape):
        if i < rank - own:
            axes.insert(start + i, (Atom("free", sizes),) if set(sizes) != {1} else ())
        elif not axes[start + i] and set(sizes) != {1}:
            axes[start + i] = (Atom("free", sizes),)
    return made.with_axes(axes)


def gather(r: Reading, call: Call) -> Sym:
    """torch.gather: the indices are the same for all channels."""
    x, dim, value = call.args[:3]
    sym = r.sym(x)
    dim %= len(sym.axes)
    arrays, sizes = arrays_of(r, value), r.sizes(value)
    channels = [i for i, axis in enumerate(sym.axes) if i != dim and any(atom.role == "channel" for atom in axis)]
    for axis in channels:
        if any((array != np.take(array, [0], axis)).any() for array in arrays):
            raise CannotLower("torch.gather with other indices for each channel; expected the same for all channels")
        if r.sizes(x)[axis] != sizes[axis]:
            raise CannotLower("torch.gather of some channels; expected all channels")
    for i, axis in enumerate(sym.axes):
        if i != dim and i not in channels and axis and axis[0].role != "free":
            raise CannotLower("torch.gather from other elements for each point; expected indices into one set")
    kept = [i for i in range(len(sizes)) if i not in channels]
    small = [
        np.squeeze(
            array[tuple(slice(0, 1) if i in channels else slice(None) for i in range(array.ndim))], tuple(channels)
        )
        for array in arrays
    ]
    bare = sym.with_axes(axis for i, axis in enumerate(sym.axes) if i == dim or i in channels)
    place = [i for i in range(len(sizes)) if i == dim or i in channels].index(dim)
    found = _meaning(r, bare, place, small, tuple(sizes[i] for i in kept), value)
    axes = [found.axes[kept.index(i)] if i in kept else sym.axes[i] for i in range(len(sizes))]
    return Sym(_moved(r, bare, place, found), sym.channels, tuple(axes))


def arrays_of(r: Reading, value: Value) -> list[np.ndarray]:
    data = [one.data for one in r.recording.across(value)[: r.recording.kept]]
    return [d.numpy() for d in data if d is not None]


def gathered(
    r: Reading, sym: Sym, dim: int, start: int, arrays: list[np.ndarray], sizes: tuple[Sizes, ...], origin: Value
) -> Sym:
    """x with the axis `dim` replaced by the axes of the indices, which begin at `start`."""
    axis = sym.axes[dim]
    rest = [a for i, a in enumerate(sym.axes) if i != dim]
    if axis and all(atom.role == "channel" for atom in axis):
        return _chosen_channels(r, sym, dim, arrays, origin)
    found = _meaning(r, sym, dim, arrays, sizes, origin)
    return Sym(_moved(r, sym, dim, found), sym.channels, (*rest[:start], *found.axes, *rest[start:]))


def _meaning(
    r: Reading, sym: Sym, dim: int, arrays: list[np.ndarray], sizes: tuple[Sizes, ...], origin: Value
) -> Indices:
    return indices_of(r, arrays, sizes, origin, _source(sym, dim))


def _source(sym: Sym, dim: int) -> Domain:
    axis = sym.axes[dim]
    if len(axis) != 1 or axis[0].role != "elements" or axis[0].domain is None:
        raise CannotLower("elements of groups or channels are gathered; expected indices into a set of points")
    return axis[0].domain


def _moved(r: Reading, sym: Sym, dim: int, found: Indices) -> Any:
    sym = r.spread(sym)
    assert sym.node is not None
    if sym.node.domain is not _source(sym, dim):
        raise CannotLower("values of neighbors are gathered; expected values of points")
    if found.search is None:
        return sym.node
    if found.target:
        return r.graph.broadcast(sym.node, found.search.domain)
    return r.graph.make("gather", (sym.node, found.search), found.search.domain, sym.node.channels)


def _chosen_channels(r: Reading, sym: Sym, dim: int, arrays: list[np.ndarray], origin: Value) -> Sym:
    from bipointnet.packing.read_views import concatenated, cut

    if origin.depends or any(not np.array_equal(array, arrays[0]) for array in arrays) or arrays[0].ndim != 1:
        raise CannotLower("channels are chosen by the data; expected fixed channels")
    return concatenated(r, [cut(r, sym, dim, int(i), int(i) + 1) for i in arrays[0]], dim)


# nn.geometry


def density(r: Reading, call: Call) -> Sym:
    given = dict(zip(("points", "bandwidth"), call.args, strict=False)) | call.kwargs
    points, sym = set_node(r, given["points"])
    node = r.graph.make("density", (points,), points.domain, 1, bandwidth=float(given["bandwidth"]))
    return Sym(node, (), (sym.axes[0], sym.axes[1]))


def interpolate(r: Reading, call: Call) -> Sym:
    given = dict(zip(("features", "index", "weight"), call.args, strict=False)) | call.kwargs
    search_call = given["index"].call
    if search_call is None or search_call.name != "geometry.three_nearest" or given["weight"].call is not search_call:
        raise CannotLower("interpolate with other neighbors or weights than those of three_nearest")
    search, axis = geometry_search(r, search_call)
    features, sym = set_node(r, given["features"])
    centers, points = search.inputs[:2]
    node = r.graph.make(
        "interpolate", (centers, points, features), centers.domain, features.channels, guard="limit", epsilon=0.0
    )
    axes: tuple[Axis, ...] = ((), axis, sym.axes[-1])
    return Sym(node, sym.channels, axes)


def only_through(what: str) -> Handler:
    def read(r: Reading, call: Call) -> Sym:
        raise CannotLower(f"numbers of {call.name.removeprefix('geometry.')} are used; expected {what}")

    return read


GATHERS: dict[str, Handler] = {
    "index": index,
    "index_select": index_select,
    "gather": gather,
}
GEOMETRY: dict[str, Handler] = {
    "density": density,
    "interpolate": interpolate,
    "three_nearest": only_through("their use in interpolate"),
}
