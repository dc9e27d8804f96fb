"""Lower a graph to a program: which values become bits, and which stay floats.

A 1-bit layer reads signs. The sign is moved up towards where its operand is computed: through gathers, broadcasts,
concatenations, slices and flattenings, which cost less on bits, and through activations that do not change it. If it
reaches a 1-bit layer, everything between becomes an integer threshold (fold.py), and the floats never exist. A pool
between becomes part of the layer. Everything else is computed in floats, with BatchNorm folded into layers.

A value that is needed in floats anyway gives its bits too. To know them, the program is written several times: each
time with the set of values that the last time needed in floats, until it stays the same.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bipointnet.errors import UserError
from bipointnet.packing.bits import pack_bits
from bipointnet.packing.fold import BinaryRows, FoldedLayer, NoLine, apply_chain, fold_thresholds, is_monotonic
from bipointnet.packing.graph import Graph, Node
from bipointnet.packing.interpolation import interpolated
from bipointnet.packing.methods import Threshold, require_signs
from bipointnet.packing.program import Program, rounded

STRUCTURE = ("gather", "broadcast", "flatten", "slice", "concat")
ROUNDS = 6
LAST = {"f16": np.float16, "f32": np.float32}  # types of the weights of a float last layer


def lower(graph: Graph, output: Node, last: type[np.floating]) -> Program:
    """The program that computes `output`; the weights of a float last layer have the type `last`."""
    needs = Needs(set(), {}, {})
    while True:
        lowering = Lowering(graph, output, last, needs)
        lowering.write()
        if lowering.needs == needs or lowering.needs.round == ROUNDS:
            graph.notes.clear()
            return lowering.program
        needs = lowering.needs


@dataclass
class Needs:
    """What one round asked for. floats: nodes. elements, pooled: of a 1-bit layer, bits at its elements, and pooled."""

    floats: set[Node]
    elements: dict[Node, list[tuple[Node, Threshold]]]
    pooled: dict[Node, list[tuple[Node, Threshold]]]
    round: int = field(default=0, compare=False)

    def both(self, layer: Node) -> bool:
        """Whether the layer is read in two ways, which one operation does."""
        return len(self.elements.get(layer, ())) == len(self.pooled.get(layer, ())) == 1


class Lowering:
    """Writes one program; `known` are the needs of the last round."""

    def __init__(self, graph: Graph, output: Node, last: type[np.floating], known: Needs) -> None:
        self.graph, self.output, self.last = graph, output, last
        self.last_round, self.known = known, known.floats
        self.program = Program()
        self.needs = Needs(set(), {}, {}, known.round + 1)
        self.made: dict[Any, str] = {}
        self.seconds: dict[Any, Node] = {}  # bits that are the second result of the operation of a layer

    def write(self) -> None:
        self.floats(self.graph.points)  # the first operation
        self.floats(self.output)

    # Bits

    def bits(self, node: Node, at: Threshold) -> str:
        """The name of the bits [node >= at]."""
        key = (node, at.value)
        if key not in self.made:
            self.made[key] = self._bits(node, at)
        elif key in self.seconds:
            self.needs.elements[self.seconds.pop(key)] = [(node, at)]
        return self.made[key]

    def _bits(self, node: Node, at: Threshold) -> str:
        if node.op in STRUCTURE:
            return self._structure(node, at)
        if node in self.known:
            return self._sign(node, at)
        layer, chain = self.unwound(node)
        if layer.op == "category" and _is_category(layer, chain, at):
            return self._category(layer)
        if layer.op == "layer" and not _scaled(layer) and (layer is node or layer not in self.known):
            return self._bilinear(node, layer, chain, at)
        if node.op == "pool" or layer.op == "pool":
            pooled = self._pooled_bits(node, layer, chain, at)
            if pooled is not None:
                return pooled
        if is_monotonic(node) and node.inputs[0].op in STRUCTURE:
            return self.bits(self._inside(node), at)
        if node.op == "function":
            return self._bits_of_function(node, at)
        return self._sign(node, at)

    def _sign(self, node: Node, at: Threshold) -> str:
        made = self._made_floats(node)
        value = float(np.float32(at.value))
        return self.program.add("sign", f"{made}.sign", [made], node, value, at=value)

    def _structure(self, node: Node, at: Threshold | None) -> str:
        """gather, broadcast, flatten, slice or concat of bits, or of floats if `at` is None."""

        def operand(x: Node) -> str:
            return self.floats(x) if at is None else self.bits(x, at)

        fields = dict(node.fields)
        if node.op == "gather":
            inputs = [operand(node.inputs[0]), self.search(node.inputs[1])]
        elif node.op == "broadcast":
            inputs = [operand(node.inputs[0]), self.like(node)]
        else:
            inputs = [operand(x) for x in node.inputs]
        suffix = "" if at is None else ".bits"
        value = None if at is None else float(np.float32(at.value))
        return self.program.add(node.op, f"{node.name}{suffix}", inputs, node, value, **fields)

    def _inside(self, node: Node) -> Node:
        """An affine or a function of a gather, broadcast, ..., as a gather, broadcast, ... of it."""
        inner, graph = node.inputs[0], self.graph

        def applied(x: Node, channels: np.ndarray) -> Node:
            return graph.function(x, **node.fields) if node.op == "function" else graph.affine_on(x, node, channels)

        if inner.op == "concat":
            ends = np.cumsum([0, *(x.channels for x in inner.inputs)])
            parts = [applied(x, np.arange(a, b)) for x, a, b in zip(inner.inputs, ends[:-1], ends[1:], strict=True)]
            return graph.concat(parts)
        if inner.op in ("gather", "broadcast"):
            x = applied(inner.inputs[0], np.arange(node.channels))
            return graph.make(inner.op, (x, *inner.inputs[1:]), inner.domain, inner.channels, **inner.fields)
        # The affine of a slice, or of a flattened group, differs between channels that are one channel before.
        return graph.make("floats", (node,), node.domain, node.channels)

    def _bits_of_function(self, node: Node, at: Threshold) -> str:
        function, value = node.fields["function"], at.value
        if function == "relu" and value <= 0:
            raise rectified(node)
        same = (
            (function == "hardtanh" and -1 < value <= 1)
            or (function == "relu" and value > 0)
            or (function in ("leaky_relu", "tanh") and value == 0)
        )
        return self.bits(node.inputs[0], at) if same else self._sign(node, at)

    def _bilinear(self, node: Node, layer: Node, chain: list[Node], at: Threshold) -> str:
        if any(x.op == "function" and x.fields["function"] == "relu" for x in chain[-1:]) and at.value <= 0:
            raise rectified(node)
        if self.last_round.both(layer):
            self.bits(*self.last_round.pooled[layer][0])
            if (node, at.value) in self.made:
                return self.bits(node, at)
        self.needs.elements.setdefault(layer, []).append((node, at))
        folded = self.folded(layer, chain)
        tensors = {"weight": folded.words, "threshold": folded.thresholds(at.bits).astype(np.int16)}
        fields = {"outputs": node.channels, "groups": layer.fields["groups"]}
        read = self.read_bits(layer)
        return self.program.add("bilinear", layer.name, [read], node, at.value, tensors, **fields)

    def _pooled_bits(self, node: Node, pool: Node, after: list[Node], at: Threshold) -> str | None:
        """bilinear_pool, if a 1-bit layer is pooled and its threshold can be written."""
        layer, chain = self.unwound(pool.inputs[0])
        if pool.op != "pool" or pool in self.known or pool.inputs[0] in self.known or pool.fields["pool"] == "sum":
            return None
        if layer.op != "layer" or _scaled(layer) or layer.fields["groups"] > 1 or layer in self.known:
            return None
        try:
            line, folded = self._line(pool, layer, chain, after, at)
        except NoLine:
            return None
        self.needs.pooled.setdefault(layer, []).append((node, at))
        read = self.read_bits(layer)
        fields = {"outputs": node.channels, **{key: pool.fields[key] for key in ("pool", "over", "shift")}}
        tensors = {"weight": folded.words, "line": line}
        second = self._second(layer, folded)
        tensors |= {} if second is None else {"threshold": second[2]}
        made = self.program.add("bilinear_pool", layer.name, [read], node, at.value, tensors, **fields)
        if second is not None:
            inner, other, _ = second
            self.seconds[inner, other.value] = layer
            self.made[inner, other.value] = self.program.add_result(f"{layer.name}.elements", inner, other.value)
        return made

    def _second(self, layer: Node, folded: FoldedLayer) -> tuple[Node, Threshold, np.ndarray] | None:
        """Bits at every element of a layer that is pooled: the node, its threshold, and the counts to compare with."""
        if not self.last_round.both(layer):
            return None
        node, at = self.last_round.elements[layer][0]
        same = self.folded(layer, self.unwound(node)[1])
        if not np.array_equal(same.words, folded.words):
            return None
        return node, at, same.thresholds(at.bits).astype(np.int16)

    def _line(
        self, pool: Node, layer: Node, chain: list[Node], after: list[Node], at: Threshold
    ) -> tuple[np.ndarray, FoldedLayer]:
        """The line of a pooled layer. `after`: what follows the pool, before the sign."""
        if pool.fields["pool"] == "max" and pool.fields["shift"] == "none":
            rising = all((x.tensors["slope"] >= 0).all() for x in after if x.op == "affine")
            if not rising:
                raise NoLine(layer.name)
            folded = self.folded(layer, chain)
            return folded.fixed_line(lambda y: at.bits(apply_chain(after, np.ascontiguousarray(y)))), folded
        shift = _moved_threshold(after, at.value)
        folded = self.folded(layer, chain)
        moved = folded.minus(shift)
        return moved.mean_line() if pool.fields["pool"] == "mean" else moved.moving_line(), folded

    def folded(self, layer: Node, chain: list[Node]) -> FoldedLayer:
        key = ("folded", layer, tuple(chain))
        if key not in self.graph.notes:
            self.graph.notes[key] = fold_thresholds(layer.name, BinaryRows.of(layer), chain)
        return self.graph.notes[key]

    def read_bits(self, layer: Node) -> str:
        """The bits that a 1-bit layer reads."""
        require_signs(layer)
        return self.bits(layer.inputs[0], Threshold.of(layer))

    def unwound(self, node: Node) -> tuple[Node, list[Node]]:
        """What a chain of monotonic calls starts from, and the chain, the first call first."""
        chain: list[Node] = []
        while is_monotonic(node) and (not chain or node not in self.known):
            chain.insert(0, node)
            node = node.inputs[0]
        return node, chain

    # Floats

    def floats(self, node: Node) -> str:
        """The name of a node's floats."""
        self.needs.floats.add(node)
        return self._made_floats(node)

    def _made_floats(self, node: Node) -> str:
        if node not in self.made:
            self.made[node] = self._floats(node)
        return self.made[node]

    def _floats(self, node: Node) -> str:
        if node.op in STRUCTURE:
            return self._structure(node, None)
        if node.op in ("linear", "layer", "affine", "function"):
            return self._layer(node)
        if node.op == "points":
            return self.program.add("points", "points", [], node)
        if node.op == "category":
            return self._category_floats(node)
        if node.op == "floats":
            return self.floats(node.inputs[0])
        node = interpolated(self.graph, node) or node
        fields = dict(node.fields)
        if node.op == "pool" and fields["over"] == "distinct":
            values, layer = node.inputs
            return self.program.add("pool", node.name, [self.floats(values), self.read_bits(layer)], node, **fields)
        return self.program.add(node.op, node.name, [self.floats(x) for x in node.inputs], node, **fields)

    def _layer(self, node: Node) -> str:
        """A float or 1-bit layer with the affine maps and the activation that follow it."""
        activation, top = "none", node
        if node.op == "function" and node.fields["function"] in ("relu", "hardtanh") and self._foldable(node.inputs[0]):
            activation, top = node.fields["function"], node.inputs[0]
        slope, offset = np.ones(top.channels), np.zeros(top.channels)
        while top.op == "affine" and (top is node or top not in self.known):
            slope, offset = slope * top.tensors["slope"], slope * top.tensors["offset"] + offset
            top = top.inputs[0]
        inside = top is node or top not in self.known
        if top.op == "linear" and inside:
            return self._dense(node, top, slope, offset, activation)
        if top.op == "layer" and inside:
            return self._bilinear_float(node, top, slope, offset, activation)
        if top is node:  # a function that is no activation of a layer
            made = self.floats(node.inputs[0])
            function, leak = node.fields["function"], float(node.fields["slope"])
            return self.program.add("function", node.name, [made], node, function=function, slope=leak)
        if activation != "none" and (slope == 1).all() and (offset == 0).all():
            made = self.floats(top)
            return self.program.add("function", node.name, [made], node, function=activation, slope=0.0)
        line = rounded(node.name, np.stack([slope, offset], axis=1), np.float32)
        return self.program.add(
            "affine", node.name, [self.floats(top)], node, None, {"line": line}, activation=activation
        )

    def _foldable(self, node: Node) -> bool:
        return node.op in ("linear", "layer", "affine") and node not in self.known

    def _dense(self, node: Node, layer: Node, slope: np.ndarray, offset: np.ndarray, activation: str) -> str:
        read = self.floats(layer.inputs[0])
        dtype = self.last if node is self.output else np.float32
        tensors = {
            "weight": rounded(layer.name, slope[:, None] * layer.tensors["weight"], dtype),
            "bias": rounded(layer.name, slope * layer.tensors["bias"] + offset, np.float32),
        }
        fields = {"outputs": node.channels, "activation": activation, "groups": layer.fields["groups"]}
        return self.program.add("dense", layer.name, [read], node, None, tensors, **fields)

    def _bilinear_float(self, node: Node, layer: Node, slope: np.ndarray, offset: np.ndarray, activation: str) -> str:
        inputs = [self.read_bits(layer)]
        groups = layer.fields["groups"]
        if _scaled(layer):
            source = layer.inputs[0]
            name = f"{layer.name}.scale"
            inputs.append(self.program.add("mean_abs", name, [self.floats(source)], source, None, groups=groups))
            self.program.meaning.pop(inputs[-1])
        rows = BinaryRows.of(layer)
        p, q = rows.line([])
        p, q = slope * p, slope * q + offset
        falling = p < 0  # the engine joins layers that rise with a maximum that follows
        line = rounded(layer.name, np.stack([np.abs(p), q], axis=1), np.float32)
        tensors = {"weight": pack_bits(rows.bits ^ falling[:, None]), "line": line}
        fields = {"outputs": node.channels, "activation": activation, "groups": groups}
        return self.program.add("bilinear_float", layer.name, inputs, node, None, tensors, **fields)

    # Sources

    def search(self, node: Node) -> str:
        """The name of the indices of a search."""
        if node not in self.made:
            inputs = [self.floats(x) for x in node.inputs]
            fields = {key: value for key, value in node.fields.items() if key != "count"}
            self.made[node] = self.program.add(
                node.op, node.name, inputs, node, None, count=node.fields["count"].as_json(), **fields
            )
        return self.made[node]

    def like(self, node: Node) -> str:
        """A value over the domain of the node."""
        search = node.domain.search
        return self.floats(self.graph.points) if search is None else self.search(search)

    def _category(self, node: Node) -> str:
        if "category" not in self.made:
            self.made["category"] = self.program.add("category", "category", [], node, 0.5)
        return self.made["category"]

    def _category_floats(self, node: Node) -> str:
        """0 and 1 from bits: a row with +1 at m and -1 elsewhere gives z = K at category m and K - 4 at others."""
        count = node.channels
        bits, other = (np.eye(count, dtype=bool), count - 4.0) if count > 1 else (np.ones((1, 1), bool), -1.0)
        step = count - other
        line = np.tile(np.array([[1 / step, -other / step]], np.float32), (count, 1))
        tensors = {"weight": pack_bits(bits), "line": line}
        fields = {"outputs": count, "activation": "none", "groups": 1}
        return self.program.add(
            "bilinear_float", "category.floats", [self._category(node)], node, None, tensors, **fields
        )


def _scaled(layer: Node) -> bool:
    return layer.fields["module"].method.scales_points


def _is_category(node: Node, chain: list[Node], at: Threshold) -> bool:
    """Whether the bits of a function of 0 and 1 are those of the category itself."""
    numbers = np.zeros((2, node.channels))
    numbers[1] = 1
    zero, one = at.bits(apply_chain(chain, numbers))
    return bool(one.all() and not zero.any())


def _moved_threshold(after: list[Node], value: float) -> float:
    """The threshold of a pool's result, before the calls that follow it; NoLine if channels differ."""
    for node in reversed(after):
        if node.op == "affine":
            slope, offset = node.tensors["slope"], node.tensors["offset"]
            if (slope <= 0).any() or np.ptp(slope) > 0 or np.ptp(offset) > 0:
                raise NoLine(node.name)
            value = (value - float(offset[0])) / float(slope[0])
        elif not (node.fields["function"] == "hardtanh" and -1 < value <= 1):
            if node.fields["function"] == "relu" and value <= 0:
                raise rectified(node)
            if not (node.fields["function"] in ("relu", "leaky_relu") and value >= 0):
                raise NoLine(node.name)
    return value


def rectified(node: Node) -> UserError:
    where = node.name if node.origin is None else node.origin.where()
    return UserError(
        f"export: {where}: ReLU in front of a sign makes every bit 1; expected Hardtanh, which binarize puts there"
    )
