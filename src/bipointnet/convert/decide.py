"""What becomes of each layer, activation, pool and dropout of a network, and why.

The decisions follow from the data flow between layers; the rules are listed in convert/binarize.py.
"""

import copy
from dataclasses import dataclass, field, replace

from torch import Tensor, fx, nn
from torch.nn.utils.parametrize import is_parametrized

from bipointnet.convert.graph import ACTIVATIONS, TRANSPARENT, CallGraph, has_matrix
from bipointnet.convert.layers import describe, to_binary, why_unsupported
from bipointnet.convert.methods import Methods, excluded, method_of_each
from bipointnet.convert.pools import OWN_INPUT, Pool, find_pool, indexed_by_input
from bipointnet.convert.report import Row, bits
from bipointnet.convert.trace import call_name
from bipointnet.errors import UserError
from bipointnet.nn.conv import PointPool
from bipointnet.nn.grouped import BinaryGrouped
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.methods import Method
from bipointnet.nn.pools import EntropyMax, EntropyMean, MaxPool, MeanPool, MeasuredMax
from bipointnet.nn.scatter import ScatterPool

FIRST = "first: reads the network's input"
UNCHANGED = {"getitem", "getattr", "neg", "cat", "concat", "concatenate", "stack"}  # pass values on, or minus them
FEW_CHANNELS = 9  # xyz with normals, colors or positions: a layer on so few may read coordinates


@dataclass
class NewCall:
    """A call that changes. kind: "identity", "hardtanh" or "pool"; module: what computes it from now on."""

    kind: str
    module: nn.Module
    inplace: bool = False
    indices: bool = False


@dataclass
class Decisions:
    """layers: the new 1-bit layers by name. calls: the calls that change. rows, warnings: of the report."""

    layers: dict[str, BinaryLinear] = field(default_factory=dict)
    calls: dict[fx.Node, NewCall] = field(default_factory=dict)
    rows: dict[fx.Node | str, Row] = field(default_factory=dict)  # by call, or by the name of a layer without a call
    warnings: list[str] = field(default_factory=list)


def decide(graph: CallGraph, methods: Methods, pool: nn.Module, exclude: tuple[str, ...]) -> Decisions:
    """Decide about everything."""
    made = _Decider(graph, pool)
    made.decide_layers(methods, exclude)
    if not graph.traced.recorded:
        made.warn_of_inputs_among_features()
    made.decide_pools()
    made.decide_dropouts()
    made.decide_activations()
    return made.found


class _Decider:
    def __init__(self, graph: CallGraph, pool: nn.Module) -> None:
        self.graph, self.pool = graph, pool
        self.found = Decisions()

    def _one_bit(self, node: fx.Node) -> bool:
        return self.graph.kinds[node] == "layer" and str(node.target) in self.found.layers

    def _only_float_layers_around(self, node: fx.Node) -> bool:
        writers, readers = self.graph.adjacent_layers(node)
        return not any(map(self._one_bit, writers | readers))

    # Layers

    def decide_layers(self, methods: Methods, exclude: tuple[str, ...]) -> None:
        graph, found = self.graph, self.found
        layers = {
            name: module
            for name, module in graph.modules.items()
            if has_matrix(module, recurse=is_parametrized(module)) and ".parametrizations." not in f".{name}."
        }
        without, method_of = excluded(exclude, layers), method_of_each(methods, layers)
        shared = graph.shared_parameters()
        self.coordinates, self.perhaps_coordinates = graph.coordinates(), graph.coordinates(opaque_returns_them=True)
        counted: set[Tensor] = set()
        for name, module in layers.items():
            uses, size, method = graph.calls_of[name], bits(module, counted), method_of[name]
            now, size_after = "float", size
            why = self._why_float(name, module, shared, name in without)
            why = method if why is None and isinstance(method, str) else why
            if why is None and isinstance(method, Method):
                new, notes = to_binary(module, method, bias_matters=not all(map(self._is_normalized, uses)))
                found.layers[name] = new
                notes = [f"called {len(uses)} times"] * (len(uses) > 1) + notes
                now, why, size_after = type(new).__name__, "; ".join(notes), bits(new, set())
            row = Row(name, "layer", describe(module), now, why or "", size, size_after)
            found.rows[uses[0] if uses else name] = row
        for node in graph.nodes:
            if graph.kinds[node] == "layer" and node.op != "call_module":
                why = "called as a function; only modules become 1-bit"
                found.rows[node] = Row(graph.name(node), "layer", call_name(node), "float", why)
        if not found.layers:
            reasons = "; ".join(f"{row.name or row.was}: {row.why}" for row in found.rows.values())
            raise UserError(
                f"binarize: no layer of {type(graph.root).__name__} can become 1-bit ({reasons or 'it has none'}); "
                "expected a linear or 1x1 convolution layer between the first and the last"
            )

    def _why_float(self, name: str, module: nn.Module, shared: set[Tensor], without: bool) -> str | None:
        uses, graph = self.graph.calls_of[name], self.graph
        if not uses:
            return "never called as a layer"
        if without:
            return "excluded by name"
        if any(self.coordinates[call] is not False for call in uses):
            return FIRST
        weight = getattr(module, "weight", None)
        few = isinstance(weight, Tensor) and weight.dim() >= 2 and weight.shape[1] <= FEW_CHANNELS
        if few and any(self.perhaps_coordinates[call] is not False for call in uses):
            return f"{FIRST}, perhaps through {', '.join(self.graph.traced.opaque)}; give an example"
        if any(not graph.adjacent_layers(call)[1] for call in uses):
            return "last: no other layer reads it"
        if shared & {*module.parameters()}:
            return "shares its weights with another layer, or a forward reads them directly"
        before = [graph.preceding(call.all_input_nodes[0], ("view", "dropout"))[1] for call in uses]
        if any(graph.kinds[node] == "one sign" for node in before):
            return "reads values of one sign: all its input bits would be equal"
        return why_unsupported(module)

    def warn_of_inputs_among_features(self) -> None:
        """A 1-bit layer may read 0 and 1 of the network's input; only an example shows that."""
        graph = self.graph
        for name in self.found.layers:
            read = {node for call in graph.calls_of[name] for node in graph.concatenated(call)}
            inputs = sorted(str(node.target) for node in read if node.op == "placeholder")
            if inputs:
                self.found.warnings.append(
                    f"the 1-bit layer {name} reads the input {', '.join(inputs)}; if it holds 0 and 1, such as one-hot "
                    "categories, give an example: without, their signs are equal"
                )

    def _is_normalized(self, call: fx.Node) -> bool:
        """Whether a BatchNorm, and nothing else, reads the output: it subtracts any bias."""
        ends = self.graph.reached(call, lambda node: self.graph.kinds[node] == "view")
        ends = {node for node in ends if self.graph.kinds[node] != "view"}
        return bool(ends) and all(self.graph.kinds[node] == "norm" for node in ends)

    # Pools

    def decide_pools(self) -> None:
        graph = self.graph
        for node in graph.nodes:
            pool = find_pool(graph, node)
            if pool is None or not all(graph.adjacent_layers(node)) or self._only_float_layers_around(node):
                continue
            if pool.obstacle is not None:
                self._refuse_blind_max(pool)
                self.found.rows[node] = Row(graph.name(node), "pool", graph.label(node), "kept", pool.obstacle)
                continue
            if pool.scattered and pool.kind == "mean":
                continue
            self._replace_pool(pool)

    def _refuse_blind_max(self, pool: Pool) -> None:
        """Raise UserError for a max that stays in front of a 1-bit layer, where nearly all bits would be equal."""
        if pool.kind != "max" or pool.obstacle == OWN_INPUT or type(self.pool) is MaxPool:
            return
        graph = self.graph

        def through(node: fx.Node) -> bool:
            if graph.is_index(node):
                return False
            if pool.extreme:  # perhaps a weight, a score or a rank, unless a layer reads the values as they are
                return graph.kinds[node] in TRANSPARENT or call_name(node) in UNCHANGED
            return graph.kinds[node] not in ("layer", "norm")

        readers = [str(node.target) for node in graph.reached(pool.call, through) if self._one_bit(node)]
        if readers:
            extreme = "an extreme" if pool.extreme else "a maximum"
            raise UserError(
                f"binarize: {graph.name(pool.call)} takes {extreme} in front of the 1-bit layer {readers[0]} and "
                f"cannot become an entropy-maximizing pool ({pool.obstacle}), expected a maximum over points; nearly "
                f'all bits would be equal; use exclude="{readers[0]}", or accept it with pool="max"'
            )

    def _replace_pool(self, pool: Pool) -> None:
        graph = self.graph
        passed, base = graph.preceding(pool.source, TRANSPARENT)
        normed = graph.kinds[base] == "norm"
        new = copy.deepcopy(self.pool) if pool.kind == "max" else EntropyMean()
        why = "after BatchNorm" if normed else "no BatchNorm in front"
        if isinstance(new, EntropyMax) and not normed:
            new, why = MeasuredMax(), f"{why}: calibrate measures its shift"
        self.found.rows[pool.call] = Row(graph.name(pool.call), "pool", str(pool), type(new).__name__, why)
        for node in passed:
            if graph.kinds[node] in ACTIVATIONS:
                self._remove(node, "activation", "in front of a pool")
        dynamic = any(isinstance(size, fx.Node) for size in pool.window)
        layer = self._layer_with_codes(pool, new, base)
        if pool.scattered:
            new = ScatterPool(new)
        elif pool.dims != (-2,) or pool.keepdim or pool.window or layer is not None:
            new = PointPool(new, pool.dims, pool.keepdim, () if dynamic else pool.window, pool.stride)
        if layer is not None and isinstance(new, (PointPool, ScatterPool)):
            new.codes.count(layer)
        new.to(next(graph.root.parameters()))  # its device and dtype
        if pool.call.op == "call_module" and isinstance(graph.module(pool.call), (MaxPool, MeanPool, MeasuredMax)):
            new.train(graph.module(pool.call).training)  # pyright: ignore[reportOptionalMemberAccess]
        self.found.calls[pool.call] = NewCall("pool", new, indices=pool.indices)

    def _layer_with_codes(self, pool: Pool, new: nn.Module, norm: fx.Node) -> BinaryLinear | None:
        """The 1-bit layer in front of the BatchNorm in front of a pool, if the pool counts its distinct codes."""
        if not isinstance(new, EntropyMax) or new.over != "distinct":
            return None
        if isinstance(self.graph.module(pool.call), MaxPool):
            return None  # a pool of this library, which gets its counts, as in a PooledLayer
        if pool.scattered and not indexed_by_input(self.graph, pool):
            return None  # over the edges of a graph: it counts neighbors
        layer = self.graph.preceding(norm.all_input_nodes[0], ("view",))[1]
        found = self.found.layers.get(str(layer.target)) if self._one_bit(layer) else None
        return None if isinstance(found, BinaryGrouped) else found

    # Dropouts and activations

    def _remove(self, node: fx.Node, kind: str, why: str) -> None:
        graph = self.graph
        self.found.rows[node] = Row(graph.name(node), kind, graph.label(node), "removed", why)
        self.found.calls[node] = NewCall("identity", nn.Identity())

    def decide_dropouts(self) -> None:
        graph, why = self.graph, "in front of a 1-bit layer, where sign turns a dropped 0 into +1"
        for layer in filter(self._one_bit, graph.nodes):
            for node in graph.preceding(layer.all_input_nodes[0], ("view", "dropout"))[0]:
                if graph.kinds[node] == "dropout":
                    self._remove(node, "dropout", why)

    def decide_activations(self) -> None:
        """Replace rectifiers beside 1-bit layers by Hardtanh."""
        graph = self.graph
        for node in graph.nodes:
            if graph.kinds[node] != "rectifier" or node in self.found.calls:
                continue
            row = Row(graph.name(node), "activation", graph.label(node), "kept", "between float layers")
            if not self._only_float_layers_around(node):
                row = replace(row, now="Hardtanh", why="")
                inplace = graph.inplace(node)
                self.found.calls[node] = NewCall("hardtanh", nn.Hardtanh(inplace=inplace), inplace=inplace)
            self.found.rows[node] = row
