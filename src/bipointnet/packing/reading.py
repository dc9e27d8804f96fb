"""Read a recording: every recorded tensor that the output needs becomes a value of the graph (graph.py).

Only what the output needs is read, from the first call to the last. Indices of points are not read call by call: where
they are used, `searches` finds out what they are. A call that has no counterpart fails; the failure is raised if the
output needs it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bipointnet.errors import UserError
from bipointnet.packing.axes import Atom, Axis, CannotLower, Sizes, Sym, channel, merged_axes, unify
from bipointnet.packing.graph import Domain, Graph, Node
from bipointnet.packing.record import Call, Value
from bipointnet.packing.runs import Recording


@dataclass(eq=False)
class Failure:
    """A call that cannot be lowered, and why."""

    call: Call | None
    reason: str

    def error(self) -> UserError:
        where = "the network" if self.call is None else self.call.where()
        return UserError(f"export: {where}: {self.reason}")


Handler = Callable[["Reading", Call], "Sym | list[Sym | None]"]


class Reading:
    """Turns recorded values into symbols.

    handlers: how each kind of call is read. rescue: recognizes a value by its numbers, if its call cannot be read.
    """

    def __init__(
        self,
        recording: Recording,
        handlers: dict[str, Handler],
        rescue: Callable[["Reading", Value], Sym | None] = lambda reading, value: None,
    ) -> None:
        self.recording, self.handlers, self.rescue = recording, handlers, rescue
        self.tried: set[Value] = set()
        self.runs = len(recording.runs)
        self.leaves = {
            name for name, module in recording.root.named_modules() if not any(True for _ in module.children())
        }
        self.graph = Graph(self.runs)
        self.known: dict[Value, Sym | Failure] = {}
        self.dropped: set[Call] = set()  # a softmax at the end
        self.searches: dict[Any, Node] = {}  # by operands and fields
        self.indices: dict[Any, Any] = {}  # what integers mean
        self.edges: dict[Value, Any] = {}  # what the edges of a graph are
        self.graph.points = self._input()

    def _input(self) -> Node:
        inputs = self.recording.inputs
        sizes = tuple(run.points for run in self.recording.runs)
        points = Domain("set", self.graph.cloud, sizes)
        node = self.graph.make("points", (), points, inputs.channels)
        channels = channel(inputs.channels, self.runs)
        axes = {
            "points": ((), (points.atom,), (channels,)),
            "channels": ((), (channels,), (points.atom,)),
            "rows": ((points.atom,), (channels,)),
        }[inputs.layout]
        value = self.recording.runs[0].inputs[0]
        node.seen = (value, Sym(node, (channels,), axes))
        self.known[value] = node.seen[1]
        return node

    # Values

    def sizes(self, value: Value) -> tuple[Sizes, ...]:
        """The size of each axis in every run."""
        return tuple(zip(*(one.shape for one in self.recording.across(value)), strict=True))

    def sym(self, value: Value) -> Sym:
        """The symbol of a value; raises CannotLower."""
        if value not in self.known and self._of_category(value):
            self.known[value] = self._from_category(value)
        found = self.known[value] if value in self.known else self._constant(value)
        if isinstance(found, Failure):
            rescued = self._rescued(value)
            if rescued is None:
                raise CannotLower(found.reason)
            self.known[value] = found = rescued
        return found

    def _rescued(self, value: Value) -> Sym | None:
        """What a value is that no handler can read, by its numbers; tried once."""
        if value in self.tried:
            return None
        self.tried.add(value)
        return self.rescue(self, value)

    def read(self, value: Value) -> Sym | Failure:
        """The symbol of a value, after reading all that it needs."""
        for call in self._needed(value):
            self._read_call(call)
        try:
            return self.sym(value)
        except CannotLower as error:
            found = self.known.get(value)
            return found if isinstance(found, Failure) else Failure(value.call, str(error))

    def _needed(self, value: Value) -> list[Call]:
        """The calls that a value depends on and that are not read yet, in order."""
        calls: set[Call] = set()
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if one in self.known or one.call is None or not one.depends or one.integer or one.call in calls:
                continue
            if self._of_category(one):
                continue
            calls.add(one.call)
            waiting += one.call.inputs
        return sorted(calls, key=lambda call: call.order)

    def _read_call(self, call: Call) -> None:
        self.graph.name, self.graph.origin, self.graph.leaf = call.module, call, call.module in self.leaves
        try:
            results = self._results(call)
        except CannotLower as error:
            failed = [found for v in call.inputs if isinstance(found := self.known.get(v), Failure)]
            first = min(failed, key=lambda one: one.call.order if one.call else 0, default=None)
            failure = first or Failure(getattr(error, "call", call), str(error))
            results = [failure] * len(call.outputs)
        for value, result in zip(call.outputs, results, strict=False):
            if result is not None:
                self.known[value] = result
                if isinstance(result, Sym) and result.node is not None and result.node.seen is None:
                    result.node.seen = (value, result)

    def _results(self, call: Call) -> Any:
        self.recording.match(call)
        if any(0 in value.shape for value in call.outputs[:1]):
            raise CannotLower("a tensor without elements is used")
        handler = self.handlers.get(call.name)
        if handler is None:
            raise CannotLower(
                f"{call.name.replace('aten.', '')} has no counterpart in a packed file; expected linear layers, 1x1 "
                "convolutions, BatchNorm, activations, pools, arithmetic and neighbor searches"
            )
        result = handler(self, call)
        return result if isinstance(result, list) else [result]

    def _of_category(self, value: Value) -> bool:
        """Whether a value depends on the category alone."""
        number = self.recording.inputs.category_input
        if number is None or value.sources != {number} or value.integer:
            return False
        return all(len(set(size)) == 1 for size in self.sizes(value))

    def _from_category(self, value: Value) -> Sym:
        """A function of the category: its values for all categories are the weights of a layer on 0 and 1."""
        found = self.recording.for_categories(value)
        table = np.stack([data.detach().double().numpy().ravel() for data in found])  # (categories, channels)
        count, width = table.shape
        node = self.graph.make("category", (), self.graph.cloud, count)
        if not np.array_equal(table, np.eye(count)):
            if count == width and np.array_equal(table, 2 * np.eye(count) - 1):
                node = self.graph.affine(node, np.array(2.0), np.array(-1.0))
            else:
                node = self.graph.linear(node, table.T)
        axes = tuple((channel(size, self.runs),) if size > 1 else () for size in value.shape)
        return Sym(node, tuple(atom for axis in axes for atom in axis), axes)

    def _constant(self, value: Value) -> Sym:
        """A tensor that does not depend on the input. Where its numbers are equal along an axis, the axis is free."""
        if value.depends:
            raise CannotLower("integers are used as numbers; expected indices of points")
        waiting, seen = [value], {value}
        for one in waiting:
            if one.call is not None and one.call.random:
                raise CannotLower("random numbers are used; expected the same result in every run")
            new = [v for v in (() if one.call is None else one.call.inputs) if v not in seen]
            seen.update(new)
            waiting += new
        every = self.recording.across(value)
        data = every[0].data
        assert data is not None
        numbers = data.detach().double().numpy()
        axes: list[Axis] = []
        channels: list[Atom] = []
        for axis, sizes in enumerate(self.sizes(value)):
            if set(sizes) == {1}:
                axes.append(())
                continue
            first = np.take(numbers, [0], axis)
            if (numbers == first).all():
                numbers = first
                axes.append((Atom("free", sizes),))
            elif len(set(sizes)) > 1:
                raise CannotLower("a constant tensor whose size depends on the cloud; expected one number per channel")
            else:
                channels.append(channel(sizes[0], self.runs))
                axes.append((channels[-1],))
        self._require_equal(value, numbers)
        return Sym(None, tuple(channels), tuple(axes), numbers.reshape(-1))

    def _require_equal(self, value: Value, numbers: np.ndarray) -> None:
        """The constant is the same in every run that keeps tensors; `numbers` has size 1 along its free axes."""
        for other in self.recording.across(value)[1 : self.recording.kept]:
            if other.data is None or other.data.numel() == 0:
                continue
            data = other.data.detach().double().numpy()
            if not np.array_equal(data, np.broadcast_to(numbers, data.shape), equal_nan=True):
                raise CannotLower("a number that depends on the number of points; expected the same for all clouds")

    def number(self, call: Call, value: Any, place: Callable[[Call], Any]) -> float:
        """A Python number among the arguments, which must be the same in every run."""
        if any(place(other) != value for other in self.recording.match(call)):
            raise CannotLower("a number that depends on the cloud or its size; expected the same for all clouds")
        return float(value)

    # Arrangement

    def spread(self, sym: Sym) -> Sym:
        """A symbol whose node has all domains that its axes have."""
        if sym.node is None:
            raise CannotLower("a constant where a value of the cloud is expected")
        domains = [atom.domain for atom in sym.atoms() if atom.domain is not None]
        domain = self.graph.lowest([sym.node.domain, *domains])
        node = self.graph.broadcast(sym.node, domain)
        return Sym(node, sym.channels, sym.axes)

    def ordered(self, sym: Sym, channels: tuple[Atom, ...]) -> Node:
        """The node with exactly these channels in order; missing ones are repeated."""
        assert sym.node is not None
        return self.graph.take(sym.node, chosen_channels(sym.channels, channels))

    def align(self, syms: list[Sym]) -> tuple[list[Node | np.ndarray], tuple[Atom, ...], tuple[Axis, ...], list[Sym]]:
        """Bring values that are combined element by element to one domain and one order of channels.

        Returns nodes (with all channels, or one) and numbers (all channels, or one), the channels and axes of the
        result, and the unified symbols.
        """
        syms = unify(syms)
        axes = merged_axes(syms)
        atoms = [atom for axis in axes for atom in axis]
        channels = tuple(atom for atom in atoms if atom.role == "channel")
        domains = [sym.node.domain for sym in syms if sym.node is not None]
        domain = self.graph.lowest([*domains, *(atom.domain for atom in atoms if atom.domain is not None)])
        operands: list[Node | np.ndarray] = []
        for sym in syms:
            if sym.node is None:
                assert sym.numbers is not None
                operands.append(sym.numbers[chosen_channels(sym.channels, channels if sym.channels else ())])
            else:
                node = self.ordered(sym, channels) if sym.channels else sym.node
                operands.append(self.graph.broadcast(node, domain))
        return operands, channels, axes, syms

    def as_channels(self, sym: Sym, atoms: tuple[Atom, ...]) -> tuple[Sym, tuple[Atom, ...]]:
        """The symbol with these atoms as channels: copies are repeated, the slots of groups are flattened."""
        names: dict[Atom, tuple[Atom, ...]] = {}
        for atom in atoms:
            if atom.role == "elements":
                raise CannotLower(
                    "a layer reads all points at once, so it works for one number of points only; expected a layer on "
                    "the channels of each point"
                )
            if atom.role == "free":
                if len(set(atom.sizes)) > 1:
                    raise CannotLower("copies whose number depends on the cloud are read as channels")
                names[atom] = (channel(atom.size, self.runs),)
                sym = Sym(sym.node, sym.channels, sym.axes, sym.numbers).renamed({atom: names[atom]})
            if atom.role == "slots":
                sym, made = self._flattened(self.spread(sym), atom, atoms)
                names[atom] = (made,)
        return sym, tuple(names[atom][0] if atom in names else atom for atom in atoms)

    def _flattened(self, sym: Sym, slots: Atom, atoms: tuple[Atom, ...]) -> tuple[Sym, Atom]:
        node, domain = sym.node, slots.domain
        assert node is not None
        assert domain is not None
        if node.domain is not domain or domain.parent is None:
            raise CannotLower("neighbors are read as channels, but the value has neighbors of its own")
        if len(set(slots.sizes)) > 1:
            raise CannotLower(
                "a layer reads all neighbors at once, but their number depends on the cloud; expected a fixed number"
            )
        made = channel(slots.size, self.runs)
        first = not sym.channels or atoms.index(slots) == 0
        order = "slots" if first else "channels"
        flat = self.graph.make("flatten", (node,), domain.parent, slots.size * node.channels, order=order)
        channels = (made, *sym.channels) if first else (*sym.channels, made)
        return Sym(flat, channels, sym.renamed({slots: (made,)}).axes), made


def chosen_channels(source: tuple[Atom, ...], target: tuple[Atom, ...]) -> np.ndarray:
    """For each channel of the target, its number in the source; atoms that the source lacks repeat it."""
    if any(atom not in target for atom in source):
        raise CannotLower("channels of different values are mixed; expected the same channels")
    if len({*target}) < len(target):
        raise CannotLower("a value is combined with itself over pairs of its channels; expected one axis of channels")
    numbers = np.arange(int(np.prod([atom.size for atom in source], dtype=np.int64)))
    numbers = numbers.reshape([atom.size for atom in source])
    numbers = numbers.transpose([source.index(atom) for atom in target if atom in source])
    numbers = numbers.reshape([atom.size if atom in source else 1 for atom in target])
    return np.broadcast_to(numbers, [atom.size for atom in target]).reshape(-1)
