"""What the axes of a tensor mean: which of them count points, neighbors or channels.

An axis is a product of *atoms*. An atom has a role and its size in every recorded run; sizes of one run alone could
agree by chance. The roles are

    elements    of a set of points
    slots       of groups of neighbors
    channel     of a feature; may be split and merged by views
    free        copies, made by expand or repeat; becomes the role of whatever it is combined with

Axes of size 1 have no atoms. Views and transposes move atoms between axes and change nothing else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bipointnet.packing.graph import Domain, Node

Sizes = tuple[int, ...]  # one per recorded run


class CannotLower(Exception):
    """Why a call has no counterpart in a packed file, as the end of a sentence, with a remedy."""


@dataclass(eq=False, frozen=True)
class Atom:
    role: str
    sizes: Sizes
    domain: "Domain | None" = None

    @property
    def size(self) -> int:
        """Of a channel, which has the same size in every run."""
        return self.sizes[0]

    def split(self, first: Sizes) -> tuple["Atom", "Atom"]:
        """Two atoms, the first with the given sizes."""
        if self.role not in ("channel", "free") or any(a % b for a, b in zip(self.sizes, first, strict=True)):
            raise CannotLower(f"an axis of {_shown(self.sizes)} {self.role} is divided into {_shown(first)}")
        rest = tuple(a // b for a, b in zip(self.sizes, first, strict=True))
        return Atom(self.role, first), Atom(self.role, rest)


Axis = tuple[Atom, ...]


@dataclass(eq=False, frozen=True)
class Sym:
    """A tensor as a value of the program: `node`, whose channels are `channels` in order, arranged in `axes`.

    Domain atoms in `axes` that the node lacks, and channels that it lacks, mean that it is repeated along them. A
    constant has no node but numbers, one per channel.
    """

    node: "Node | None"
    channels: tuple[Atom, ...]
    axes: tuple[Axis, ...]
    numbers: np.ndarray | None = None

    def with_axes(self, axes: Iterable[Iterable[Atom]]) -> "Sym":
        return replace(self, axes=tuple(tuple(axis) for axis in axes))

    def renamed(self, names: Mapping[Atom, tuple[Atom, ...]]) -> "Sym":
        """With atoms replaced by others, such as the two halves of one that was split."""
        if not names:
            return self

        def of(atoms: Iterable[Atom]) -> list[Atom]:
            return [inner for atom in atoms for inner in (of(names[atom]) if atom in names else [atom])]

        return replace(self, channels=tuple(of(self.channels)), axes=tuple(tuple(of(axis)) for axis in self.axes))

    def atoms(self, role: str | None = None) -> list[Atom]:
        return [atom for axis in self.axes for atom in axis if role in (None, atom.role)]


def product(atoms: Iterable[Atom], runs: int) -> Sizes:
    sizes = (1,) * runs
    for atom in atoms:
        sizes = tuple(a * b for a, b in zip(sizes, atom.sizes, strict=True))
    return sizes


def channel(size: int, runs: int) -> Atom:
    return Atom("channel", (size,) * runs)


def regroup(sym: Sym, targets: Sequence[Sizes], runs: int) -> Sym:
    """A view: the same atoms in the same order, in axes of the given sizes."""
    queue, names, axes = [atom for axis in sym.axes for atom in axis], {}, []
    for target in targets:
        axis: list[Atom] = []
        have = (1,) * runs
        while have != target:
            if not queue:
                raise CannotLower(f"a view of {_axes(sym)} as {' x '.join(map(_shown, targets))}")
            atom = queue.pop(0)
            grown = tuple(a * b for a, b in zip(have, atom.sizes, strict=True))
            if any(t % g for t, g in zip(target, grown, strict=True)):
                rest = tuple(t // h for t, h in zip(target, have, strict=True))
                names[atom] = atom.split(rest)
                atom, after = names[atom]
                queue.insert(0, after)
                grown = target
            axis.append(atom)
            have = grown
        axes.append(axis)
    if queue:
        raise CannotLower(f"a view of {_axes(sym)} as {' x '.join(map(_shown, targets))}")
    return sym.renamed(names).with_axes(axes)


def unify(syms: Sequence[Sym]) -> list[Sym]:
    """The tensors with the same atoms in each axis, where they are combined element by element. Axes of size 1 stay."""
    most = max(len(sym.axes) for sym in syms)
    syms = [sym.with_axes([()] * (most - len(sym.axes)) + list(sym.axes)) for sym in syms]
    for place in range(most):
        for i in range(1, len(syms)):
            for j in range(i):
                a, b = syms[j].axes[place], syms[i].axes[place]
                if a and b and a != b:
                    names_a, names_b = _matched(a, b)
                    syms = [sym.renamed(names_a if n < i else names_b) if n <= i else sym for n, sym in enumerate(syms)]
    return syms


def _matched(a: Axis, b: Axis) -> tuple[dict[Atom, tuple[Atom, ...]], dict[Atom, tuple[Atom, ...]]]:
    """New names for the atoms of two axes that make them equal."""
    left, right, names_a, names_b = list(a), list(b), {}, {}
    while left or right:
        if not left or not right:
            raise CannotLower(f"axes of {_axis(a)} and {_axis(b)} are combined; expected the same number")
        x, y = left.pop(0), right.pop(0)
        if x is y:
            continue
        if x.sizes == y.sizes:
            if x.role == "free":
                names_a[x] = (y,)
            elif y.role == "free" or x.role == y.role == "channel":
                names_b[y] = (x,)
            else:
                raise CannotLower(f"{_axis((x,))} and {_axis((y,))} of another kind are combined one by one")
        elif x.sizes[0] > y.sizes[0]:
            names_a[x] = x.split(y.sizes)
            left[:0], right[:0] = names_a[x], [y]
        else:
            names_b[y] = y.split(x.sizes)
            left[:0], right[:0] = [x], names_b[y]
    return names_a, names_b


def merged_axes(syms: Sequence[Sym]) -> tuple[Axis, ...]:
    """The axes of the result of combining unified tensors."""
    return tuple(max(axes, key=len) for axes in zip(*(sym.axes for sym in syms), strict=True))


def _shown(sizes: Any) -> str:
    return str(sizes[0])


def _axis(axis: Iterable[Atom]) -> str:
    return " x ".join(f"{_shown(atom.sizes)} {atom.role}" for atom in axis) or "1"


def _axes(sym: Sym) -> str:
    return "(" + ", ".join(_axis(axis) for axis in sym.axes) + ")"
