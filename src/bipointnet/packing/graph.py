"""The computation of a network as a graph: what it computes, before a choice between bits and floats is made.

Nodes are like the operations of a packed file (docs/format.md), with these differences: `layer` is a 1-bit layer with
float outputs, `linear` a float layer, `affine` a line per channel with the arithmetic of the call it came from. Equal
nodes exist once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bipointnet.packing.axes import Atom, CannotLower, Sizes, Sym
from bipointnet.packing.record import Call, Value

OF_MODULES = ("layer", "linear", "affine", "function", "pool")  # what modules such as nn.Linear compute
MOST_PIECES = 16  # a choice of channels in more pieces is written as a layer of zeros and ones


@dataclass(eq=False)
class Domain:
    """What the elements of a value are: the cloud, a set of points, or groups of neighbors (docs/format.md).

    sizes: of a set its elements, of groups the slots of one group, in every run. search: the node that made it.
    unordered: whether the network has its neighbors in another order, which no pool notices.
    """

    kind: str
    parent: "Domain | None" = None
    sizes: Sizes = ()
    search: "Node | None" = None
    unordered: bool = False
    atom: Atom = field(init=False)

    def __post_init__(self) -> None:
        self.atom = Atom("slots" if self.kind == "groups" else "elements", self.sizes, self)

    @property
    def chain(self) -> tuple["Domain", ...]:
        """The domain and its ancestors, without the cloud; the outermost first."""
        return () if self.kind == "cloud" or self.parent is None else (*self.parent.chain, self)

    def above(self, other: "Domain") -> bool:
        """Whether it is an ancestor of the other, or the same."""
        return self is other or self.kind == "cloud" or self in other.chain


@dataclass(eq=False)
class Node:
    """One operation. name: of the module that computes it. origin: the call that it stands for.

    tensors: arrays in float64. run: for `affine`, the call's own arithmetic on rows (R, channels). seen: a recorded
    tensor with its value, for comparisons with PyTorch.
    """

    op: str
    inputs: tuple["Node", ...]
    domain: Domain
    channels: int
    fields: dict[str, Any]
    tensors: dict[str, np.ndarray]
    name: str
    origin: Call | None = None
    run: Callable[[np.ndarray], np.ndarray] | None = None
    seen: tuple[Value, Sym] | None = None


class Graph:
    """Makes nodes. `name`, `leaf` and `origin` describe the call that is being read: its module, whether this is a
    single layer, and the call.
    """

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.cloud = Domain("cloud")
        self.name, self.leaf = "", False
        self.origin: Call | None = None
        self.notes: dict[Any, Any] = {}  # results of costly functions of nodes
        self._made: dict[Any, Node] = {}
        self.points: Node

    def make(
        self,
        op: str,
        inputs: tuple[Node, ...],
        domain: Domain,
        channels: int,
        tensors: dict[str, np.ndarray] | None = None,
        run: Callable[[np.ndarray], np.ndarray] | None = None,
        **fields: Any,
    ) -> Node:
        tensors = tensors or {}
        arrays = tuple((name, array.shape, array.tobytes()) for name, array in tensors.items())
        key = (op, inputs, domain, channels, tuple(sorted(fields.items(), key=lambda item: item[0])), arrays)
        if key not in self._made:
            own = fields.get("function", op)
            label = self.name if self.leaf and op in OF_MODULES else f"{self.name}.{own}".lstrip(".")
            self._made[key] = Node(op, inputs, domain, channels, fields, tensors, label, self.origin, run)
        return self._made[key]

    # Domains

    def broadcast(self, node: Node, domain: Domain) -> Node:
        if node.domain is domain:
            return node
        if not node.domain.above(domain):
            raise CannotLower("values of unrelated sets of points are combined one by one")
        return self.make("broadcast", (node,), domain, node.channels)

    def lowest(self, domains: list[Domain]) -> Domain:
        """The domain of a combination: the one that all others are ancestors of."""
        for domain in domains:
            if all(other.above(domain) for other in domains):
                return domain
        raise CannotLower("values of unrelated sets of points are combined one by one")

    def pool(self, node: Node, pool: str, over: str = "points", shift: str = "none", layer: Node | None = None) -> Node:
        """`layer`: the 1-bit layer whose distinct codes are counted, for `over` "distinct"."""
        assert node.domain.parent is not None
        inputs = (node,) if layer is None else (node, layer)
        return self.make("pool", inputs, node.domain.parent, node.channels, pool=pool, over=over, shift=shift)

    # Channels

    def affine(
        self, node: Node, slope: np.ndarray, offset: np.ndarray, run: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> Node:
        slope, offset = (np.broadcast_to(np.asarray(x, np.float64), node.channels).copy() for x in (slope, offset))
        if run is None and (slope == 1).all() and (offset == 0).all():
            return node
        tensors = {"slope": slope, "offset": offset}
        return self.make("affine", (node,), node.domain, node.channels, tensors, run or (lambda y: y * slope + offset))

    def linear(self, node: Node, weight: np.ndarray, bias: np.ndarray | None = None, groups: int = 1) -> Node:
        """weight (M, K / groups)"""
        weight = np.ascontiguousarray(weight, np.float64)
        bias = np.zeros(len(weight)) if bias is None else np.asarray(bias, np.float64)
        tensors = {"weight": weight, "bias": bias.copy()}
        return self.make("linear", (node,), node.domain, len(weight), tensors, groups=groups)

    def function(self, node: Node, function: str, slope: float = 0.0) -> Node:
        return self.make("function", (node,), node.domain, node.channels, function=function, slope=slope)

    def arithmetic(self, op: str, a: Node, b: Node) -> Node:
        return self.make(op, (a, b), a.domain, max(a.channels, b.channels))

    def concat(self, nodes: list[Node]) -> Node:
        flat = [inner for node in nodes for inner in (node.inputs if node.op == "concat" else (node,))]
        if len(flat) == 1:
            return flat[0]
        return self.make("concat", tuple(flat), flat[0].domain, sum(node.channels for node in flat))

    def slice(self, node: Node, start: int, stop: int) -> Node:
        if (start, stop) == (0, node.channels):
            return node
        if node.op == "slice":
            first = node.fields["from"]
            return self.slice(node.inputs[0], first + start, first + stop)
        if node.op == "concat":
            ends = np.cumsum([0, *(part.channels for part in node.inputs)]).tolist()
            spans = [
                (part, max(start, first) - first, min(stop, last) - first)
                for part, first, last in zip(node.inputs, ends[:-1], ends[1:], strict=True)
            ]
            return self.concat([self.slice(part, a, b) for part, a, b in spans if a < b])
        span: dict[str, Any] = {"from": start, "to": stop}
        return self.make("slice", (node,), node.domain, stop - start, **span)

    def affine_on(self, x: Node, made: Node, channels: np.ndarray) -> Node:
        """What the affine `made` does to these of its channels, done to x."""

        def run(y: np.ndarray) -> np.ndarray:
            full = np.zeros((len(y), made.channels))
            full[:, channels] = y
            assert made.run is not None
            return made.run(full)[:, channels]

        return self.affine(x, made.tensors["slope"][channels], made.tensors["offset"][channels], run)

    def take(self, node: Node, order: np.ndarray) -> Node:
        """Channels in another order, or some of them, or some several times; moved into the layer that makes them."""
        order = np.asarray(order)
        if np.array_equal(order, np.arange(node.channels)):
            return node
        ends = np.flatnonzero(np.diff(order) != 1) + 1
        if len(ends) == 0:
            return self.slice(node, int(order[0]), int(order[-1]) + 1)
        op, inputs, fields, tensors = node.op, node.inputs, node.fields, node.tensors
        if op == "linear" and fields["groups"] == 1:
            return self.linear(inputs[0], tensors["weight"][order], tensors["bias"][order])
        if op == "layer" and fields["groups"] == 1:
            rows = {"rows": tensors["rows"][order]}
            return self.make("layer", inputs, node.domain, len(order), rows, **fields)
        if op == "affine":
            return self.affine_on(self.take(inputs[0], order), node, order)
        if op == "function":
            return self.function(self.take(inputs[0], order), **fields)
        if op in ("gather", "broadcast", "pool"):
            return self.make(op, (self.take(inputs[0], order), *inputs[1:]), node.domain, len(order), **fields)
        if op in ("add", "subtract", "multiply", "divide"):
            return self.arithmetic(op, *(self.take(x, order) if x.channels > 1 else x for x in inputs))
        if len(ends) + 1 <= MOST_PIECES:
            pieces = np.split(order, ends)
            return self.concat([self.slice(node, int(piece[0]), int(piece[-1]) + 1) for piece in pieces])
        return self.linear(node, np.eye(node.channels)[order])
