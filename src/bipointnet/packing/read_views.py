"""How calls that only rearrange tensors are read: views, transposes, copies, slices, concatenations."""

from itertools import pairwise
from typing import Any

import numpy as np

from bipointnet.packing.axes import Atom, CannotLower, Sizes, Sym, channel, merged_axes, regroup, unify
from bipointnet.packing.reading import Handler, Reading
from bipointnet.packing.record import Call


def same(r: Reading, call: Call) -> Sym:
    return r.sym(call.args[0])


def copy(r: Reading, call: Call) -> Sym:
    """x.copy_(y): y in the shape of x."""
    sym, sizes = r.sym(call.args[1]), r.sizes(call.outputs[0])
    return grown(sym, sizes)


def view(r: Reading, call: Call) -> Sym:
    return regroup(r.sym(call.args[0]), r.sizes(call.outputs[0]), r.runs)


def permute(r: Reading, call: Call) -> Sym:
    sym = r.sym(call.args[0])
    return sym.with_axes(sym.axes[dim] for dim in call.args[1])


def transpose(r: Reading, call: Call) -> Sym:
    sym = r.sym(call.args[0])
    axes = list(sym.axes)
    if len(axes) > 1:
        one, other = call.args[1:] or (0, 1)
        axes[one], axes[other] = axes[other], axes[one]
    return sym.with_axes(axes)


def unsqueeze(r: Reading, call: Call) -> Sym:
    sym, dim = r.sym(call.args[0]), call.args[1]
    axes = list(sym.axes)
    axes.insert(dim if dim >= 0 else len(axes) + 1 + dim, ())
    return sym.with_axes(axes)


def expand(r: Reading, call: Call) -> Sym:
    """Axes of size 1 become free."""
    return grown(r.sym(call.args[0]), r.sizes(call.outputs[0]))


def grown(sym: Sym, sizes: tuple[Sizes, ...]) -> Sym:
    axes = [()] * (len(sizes) - len(sym.axes)) + list(sym.axes)
    pairs = zip(axes, sizes, strict=True)
    return sym.with_axes((Atom("free", size),) if not axis and set(size) != {1} else axis for axis, size in pairs)


def repeat(r: Reading, call: Call) -> Sym:
    sym = r.sym(call.args[0])
    lists = [other.args[1] for other in r.recording.match(call)]
    axes: list[tuple[Atom, ...]] = []
    before = [()] * (len(lists[0]) - len(sym.axes)) + list(sym.axes)
    for axis, times in zip(before, zip(*lists, strict=True), strict=True):
        copies = () if set(times) == {1} else (Atom("free", tuple(times)),)
        axes.append((*copies, *axis))
    return sym.with_axes(axes)


def repeat_interleave(r: Reading, call: Call) -> Sym:
    sym = r.sym(call.args[0])
    dim = call.argument(2, "dim")
    times = tuple(other.args[1] for other in r.recording.match(call))
    if dim is None or not all(isinstance(t, int) for t in times):
        raise CannotLower("repeat_interleave with other numbers than one for all; expected expand or repeat")
    axes = list(sym.axes)
    axes[dim] = (*axes[dim], *([] if set(times) == {1} else [Atom("free", times)]))
    return sym.with_axes(axes)


def select(r: Reading, call: Call) -> Sym:
    """x[..., i, ...]: one channel, or the only element of an axis of size 1."""
    sym, dim, index = r.sym(call.args[0]), call.args[1], call.args[2]
    dim %= len(sym.axes)
    if any(other.args[2] != index for other in r.recording.match(call)):
        raise CannotLower("an element is selected by a number that depends on the cloud; expected a fixed one")
    if sym.axes[dim] and sym.axes[dim][0].role != "free":
        sym = cut(r, sym, dim, index, index + 1)
    return sym.with_axes(axis for place, axis in enumerate(sym.axes) if place != dim)


def slice_(r: Reading, call: Call) -> Sym:
    sym = r.sym(call.args[0])
    dim = call.argument(1, "dim", 0) % len(sym.axes)
    before, after = r.sizes(call.args[0])[dim], r.sizes(call.outputs[0])[dim]
    if before == after:
        return sym
    axis = sym.axes[dim]
    if len(axis) == 1 and axis[0].role == "free":
        axes = list(sym.axes)
        axes[dim] = () if set(after) == {1} else (Atom("free", after),)
        return sym.with_axes(axes)
    start, step = call.argument(2, "start"), call.argument(4, "step", 1)
    if step != 1 or len(set(after)) > 1:
        raise CannotLower("a slice whose length depends on the cloud, or with a step; expected a slice of channels")
    total = before[0]
    start = 0 if start is None else min(max(start + (total if start < 0 else 0), 0), total)
    return cut(r, sym, dim, start, start + after[0])


def cut(r: Reading, sym: Sym, dim: int, start: int, stop: int) -> Sym:
    """Channels `start` to `stop` - 1 of an axis."""
    axis = sym.axes[dim]
    if any(atom.role in ("elements", "slots") for atom in axis):
        raise CannotLower(
            f"some {'neighbors' if axis[0].role == 'slots' else 'points'} are chosen by their place; "
            "expected a pool over all, or indices that a neighbor search computes"
        )
    sym, axis = r.as_channels(sym, axis)
    if axis:
        one = channel(int(np.prod([atom.size for atom in axis])), r.runs)
        rest = tuple(atom for atom in sym.channels if atom not in axis)
        kept = channel(stop - start, r.runs)
        if sym.node is None:
            raise CannotLower("a constant is sliced")
        node = r.ordered(Sym(sym.node, sym.channels, sym.axes), (*rest, *axis))
        width = int(np.prod([atom.size for atom in rest], dtype=np.int64))
        order = np.arange(width * one.size).reshape(width, one.size)[:, start:stop].reshape(-1)
        node = r.graph.take(node, order)
        channels = (*rest, *([kept] if stop - start > 1 else []))
        axes = [((kept,) if stop - start > 1 else ()) if i == dim else a for i, a in enumerate(sym.axes)]
        return Sym(node, channels, tuple(axes))
    return sym


def split(r: Reading, call: Call) -> list[Sym | None]:
    sym = r.sym(call.args[0])
    dim = call.argument(2, "dim", 0) % len(sym.axes)
    sizes = [r.sizes(output)[dim] for output in call.outputs]
    if any(len(set(size)) > 1 for size in sizes):
        raise CannotLower("points are split by their place; expected a split of channels")
    ends = np.cumsum([0, *(size[0] for size in sizes)]).tolist()
    return [cut(r, sym, dim, a, b) if a < b else None for a, b in pairwise(ends)]


def unbind(r: Reading, call: Call) -> list[Sym | None]:
    sym = r.sym(call.args[0])
    dim = call.argument(1, "dim", 0) % len(sym.axes)
    pieces = [cut(r, sym, dim, i, i + 1) for i in range(len(call.outputs))]
    return [piece.with_axes(a for i, a in enumerate(piece.axes) if i != dim) for piece in pieces]


def cat(r: Reading, call: Call) -> Sym:
    dim = call.argument(1, "dim", 0)
    values = [v for v in call.args[0] if 0 not in v.shape]  # no channels beside xyz, for example
    syms = [r.sym(value) for value in values]
    return concatenated(r, syms, dim % len(syms[0].axes))


def stack(r: Reading, call: Call) -> Sym:
    dim = call.argument(1, "dim", 0)
    syms = [r.sym(value) for value in call.args[0]]
    dim %= len(syms[0].axes) + 1
    return concatenated(r, [s.with_axes((*s.axes[:dim], (), *s.axes[dim:])) for s in syms], dim)


def concatenated(r: Reading, syms: list[Sym], dim: int) -> Sym:
    """Tensors one after another along an axis of channels."""
    if len(syms) == 1:
        return syms[0]
    inner: list[tuple[Atom, ...]] = []
    for i, sym in enumerate(syms):
        syms[i], atoms = r.as_channels(sym, sym.axes[dim])
        inner.append(atoms)
    # Aligned without the axis, so that only the other axes have to agree.
    bare = [s.with_axes(() if i == dim else axis for i, axis in enumerate(s.axes)) for s in syms]
    shared = _aligned_without(r, bare, inner)
    nodes, channels, axes = shared
    total = channel(sum(node.channels for node in nodes) // max(1, _width(channels)), r.runs)
    joined = r.graph.concat(nodes)
    if channels:  # other channels outside: [outer, inner] of each tensor becomes [outer, all]
        width, starts = _width(channels), np.cumsum([0, *(node.channels for node in nodes)])
        parts = [np.arange(a, b).reshape(width, -1) for a, b in pairwise(starts)]
        joined = r.graph.take(joined, np.concatenate(parts, axis=1).reshape(-1))
    axes = [(total,) if i == dim else axis for i, axis in enumerate(axes)]
    return Sym(joined, (*channels, total), tuple(axes))


def _width(atoms: Any) -> int:
    return int(np.prod([atom.size for atom in atoms], dtype=np.int64))


def _aligned_without(r: Reading, bare: list[Sym], inner: list[tuple[Atom, ...]]) -> tuple[list[Any], Any, Any]:
    """Nodes on one domain, each with the outer channels (in one order) and then its own inner ones."""
    outer_syms = [
        Sym(s.node, tuple(a for a in s.channels if a not in own), s.axes, s.numbers)
        for s, own in zip(bare, inner, strict=True)
    ]
    unified = unify(outer_syms)
    axes = merged_axes(unified)
    atoms = [atom for axis in axes for atom in axis]
    channels = tuple(atom for atom in atoms if atom.role == "channel")
    domains = [s.node.domain for s in unified if s.node is not None]
    domain = r.graph.lowest([*domains, *(a.domain for a in atoms if a.domain is not None)])
    nodes = []
    for s, before, own in zip(unified, bare, inner, strict=True):
        if s.node is None:
            raise CannotLower("a constant tensor is concatenated with values; expected values of the cloud only")
        outer = [a for a in before.channels if a not in own]
        if len(outer) != len(s.channels):
            raise CannotLower("tensors with channels in different arrangements are concatenated")
        names = dict(zip(outer, s.channels, strict=True))
        source = tuple(names.get(a, a) for a in before.channels)
        node = r.ordered(Sym(s.node, source, s.axes), (*channels, *own))
        nodes.append(r.graph.broadcast(node, domain))
    return nodes, channels, axes


def unfold(r: Reading, call: Call) -> Sym:
    """A window over the whole axis: the axis moves to the end. Windows of one element change nothing."""
    sym, dim, size, step = r.sym(call.args[0]), *call.args[1:4]
    dim %= len(sym.axes)
    if size == step == 1:
        return sym.with_axes((*sym.axes, ()))
    if tuple(other.args[2] for other in r.recording.match(call)) != r.sizes(call.args[0])[dim]:
        raise CannotLower("a pool over windows; expected a pool over all points or all neighbors")
    axes = list(sym.axes)
    axes.append(axes[dim])
    axes[dim] = ()
    return sym.with_axes(axes)


def aliased(r: Reading, call: Call) -> Sym:
    raise CannotLower("a tensor is changed through a view of it; expected a new tensor; use torch.cat or torch.stack")


VIEWS: dict[str, Handler] = {
    **dict.fromkeys(("alias", "clone", "detach", "_to_copy", "contiguous", "lift_fresh", "lift_fresh_copy"), same),
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "squeeze", "flatten", "unflatten", "_reshape_alias"), view),
    **dict.fromkeys(("transpose", "t"), transpose),
    "copy": copy,
    "permute": permute,
    "unsqueeze": unsqueeze,
    "expand": expand,
    "repeat": repeat,
    "repeat_interleave": repeat_interleave,
    "select": select,
    "slice": slice_,
    "split": split,
    "split_with_sizes": split,
    "unbind": unbind,
    "cat": cat,
    "stack": stack,
    "unfold": unfold,
}
