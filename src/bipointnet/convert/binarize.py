"""Convert any PyTorch network of linear layers and 1x1 convolutions to 1 bit.

The changes follow from the data flow between layers, which convert/trace.py, record.py and graph.py find:

- A layer becomes 1-bit unless it is *first*, *last*, excluded by name, or not supported. A first layer reads
  coordinates: the network's input, or a function of it without a layer between, such as x @ T. A concatenation of
  coordinates and features does not count as coordinates. A last layer is one whose output no other layer reads.
- sign(ReLU(x)) is always +1, so a rectifier before or after a 1-bit layer becomes Hardtanh. Rectifiers are ReLU and
  similar functions (LeakyReLU, PReLU, ELU, GELU, SiLU and so on). Tanh and Hardtanh stay, and so does every
  activation between float layers.
- A max over points becomes max - delta(n), a mean stays a mean. Both then read the output of BatchNorm, without the
  activation between. Without BatchNorm in front, `calibrate` measures the shift (MeasuredMax).
- Dropout in front of a 1-bit layer is removed: sign turns a dropped 0 into +1.
"""

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.parametrize import is_parametrized

from bipointnet.convert.graph import ACTIVATIONS, TRANSPARENT, CallGraph, Pool, has_matrix
from bipointnet.convert.layers import describe, to_binary, why_unsupported
from bipointnet.convert.record import trace_or_record
from bipointnet.convert.report import Report, Row, bits
from bipointnet.convert.trace import call_name, scope
from bipointnet.errors import UserError
from bipointnet.nn.conv import PointPool
from bipointnet.nn.methods import Method
from bipointnet.nn.names import as_method, as_pool
from bipointnet.nn.pools import EntropyMax, EntropyMean, MaxPool, MeanPool, MeasuredMax

Network = TypeVar("Network", bound=nn.Module)


def binarize(
    model: Network,
    method: Method | str = "lsr",
    pool: nn.Module | str = "ema-max",
    exclude: str | Sequence[str] = (),
    example: Any = None,
) -> tuple[Network, Report]:
    """Convert `model` to 1 bit: returns the new network and a report of what changed, what did not, and why.

    The new layers start from the old weights; the rest of the network is copied. Train the result. Before training,
    `bipointnet.calibrate(network, batch)` sets LSR's scales and the measured shifts from the first real batch; with
    "ir-net", call `bipointnet.set_progress(network, fraction)` before every epoch.

    The new network is a copy of the old one with modules replaced, if that is sufficient. If functions called by a
    forward must change (F.relu, torch.max), it is a torch.fx.GraphModule with the same layer names.

    Args:
        model: any network; it is not modified.
        method: a Method, or its name in METHODS. A method without bias, such as LSR, drops the biases of its layers.
        pool: the replacement of a max over points, or its name in POOLS; "max" keeps it a plain max. A mean becomes
            EntropyMean.
        exclude: names of further layers that stay float, or patterns such as "encoder.*".
        example: an input, or a tuple of inputs; needed if a forward depends on the shape or the values of its input.
            Copies of the network run on it, also to check that the traced network computes the same.

    Example:
        >>> model = PointNet(num_classes=40)  # or any other torch.nn.Module
        >>> network, report = binarize(model, method="lsr", pool="ema-max", exclude="head.*")
        >>> print(str(report).splitlines()[-1])  # print(report) shows every layer
        13 of 18 layers in 1 bit; 111,087,136 bits before, 24,506,272 after (4.5 times fewer)
        >>> calibrate(network, torch.rand(8, 256, 3))
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"binarize: model is {model!r}, expected a torch.nn.Module")
    wrappers = (torch.jit.ScriptModule, nn.DataParallel, nn.parallel.DistributedDataParallel)
    if isinstance(model, wrappers) or hasattr(model, "_orig_mod"):  # _orig_mod: torch.compile
        raise UserError(
            f"binarize: model is a {type(model).__name__}, expected a network that is not compiled or wrapped; "
            "give the network inside, and wrap the result"
        )
    method, pool = as_method(method, "binarize"), as_pool(pool, "binarize")
    if not isinstance(pool, (MaxPool, MeanPool, MeasuredMax)):
        raise UserError(f"binarize: pool is {pool!r}, expected a pool of bipointnet.nn; give one such as EntropyMax()")
    lazy = [name for name, p in model.named_parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    if lazy:
        raise UserError(f"binarize: {lazy[0]} has no shape yet, expected a built network; run a batch through it first")
    inputs = example if example is None or isinstance(example, tuple) else (example,)
    network, report = _Conversion(
        model, method, pool, (exclude,) if isinstance(exclude, str) else tuple(exclude), inputs
    ).run()
    return cast(Network, network), report


class _Conversion:
    """The conversion of one network: replacements of its modules, and the rows of its report."""

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        pool: nn.Module,
        exclude: tuple[str, ...],
        example: tuple[Any, ...] | None,
    ) -> None:
        self.model, self.method, self.pool, self.exclude = model, method, pool, exclude
        traced = trace_or_record(model, example)
        self.obstacle, self.opaque = traced.obstacle, traced.opaque
        self.graph = CallGraph(traced)
        self.replacements: defaultdict[str, dict[fx.Node, nn.Module]] = defaultdict(dict)  # by module and call
        self.rewrite_reasons: list[str] = []  # why replacing modules is not sufficient
        self.rows: dict[fx.Node | str, Row] = {}

    def run(self) -> tuple[nn.Module, Report]:
        self._replace_layers()
        passed = self._replace_pools() | self._remove_dropouts()
        for node in reversed(self.graph.nodes):
            if node in passed and not node.users:
                self.graph.fx_graph.erase_node(node)
        self._replace_activations(passed)
        for name, by_call in self.replacements.items():
            if (
                len(by_call) < len(self.graph.calls_of[name])
                or len({_equivalence_key(m) for m in by_call.values()}) > 1
            ):
                self.rewrite_reasons.append(f"{name} must become different modules at different calls")
        if not self.rewrite_reasons:
            network = self._swap_modules()
        elif self.obstacle is None:
            network = self._rewrite_forward()
        else:
            raise UserError(
                f"binarize: the forward of {type(self.model).__name__} must change, because {self.rewrite_reasons[0]}, "
                f"and cannot be rewritten, because {self.obstacle}; expected a module for every activation; use "
                "nn.ReLU() instead of F.relu"
            )
        return network, self._report(network)

    def _only_float_layers_around(self, node: fx.Node) -> bool:
        writers, readers = self.graph.adjacent_layers(node)
        return not any(str(layer.target) in self.replacements for layer in writers | readers)

    def _replace_layers(self) -> None:
        graph = self.graph
        layers = {
            name: module
            for name, module in graph.modules.items()
            if has_matrix(module, recurse=is_parametrized(module)) and ".parametrizations." not in f".{name}."
        }
        for pattern in self.exclude:
            if not any(fnmatchcase(name, pattern) for name in layers):
                raise UserError(
                    f"binarize: exclude={pattern!r} names no layer, expected one of {', '.join(layers) or 'none'}; "
                    'give a name or a pattern such as "encoder.*"'
                )
        coordinates, shared = graph.coordinates(), graph.shared_parameters()
        counted: set[Tensor] = set()
        for name, module in layers.items():
            uses, size = graph.calls_of[name], bits(module, counted)
            now, why, size_after = "float", self._why_float(name, module, coordinates, shared), size
            if why is None:
                new = to_binary(module, self.method)
                self.replacements[name] = dict.fromkeys(uses, new)
                dropped = getattr(module, "bias", None) is not None and new.bias is None
                notes = [f"called {len(uses)} times"] * (len(uses) > 1) + ["its bias is dropped"] * dropped
                now, why, size_after = type(new).__name__, "; ".join(notes), bits(new, set())
            self.rows[uses[0] if uses else name] = Row(name, "layer", describe(module), now, why, size, size_after)
        for node in graph.nodes:
            if graph.kinds[node] == "layer" and node.op != "call_module":
                why = "called as a function; only modules become 1-bit"
                self.rows[node] = Row(graph.name(node), "layer", call_name(node), "float", why)
        if not self.replacements:
            found = "; ".join(f"{row.name or row.was}: {row.why}" for row in self.rows.values())
            raise UserError(
                f"binarize: no layer of {type(self.model).__name__} can become 1-bit ({found or 'it has none'}); "
                "expected a linear or 1x1 convolution layer between the first and the last"
            )

    def _why_float(
        self, name: str, module: nn.Module, coordinates: dict[fx.Node, bool | None], shared: set[Tensor]
    ) -> str | None:
        uses = self.graph.calls_of[name]
        if not uses:
            return "never called as a layer"
        if any(fnmatchcase(name, pattern) for pattern in self.exclude):
            return "excluded by name"
        if any(coordinates[call] is not False for call in uses):
            return "first: reads the network's input"
        if any(not self.graph.adjacent_layers(call)[1] for call in uses):
            return "last: no other layer reads it"
        if shared & {*module.parameters()}:
            return "shares its weights with another layer, or a forward reads them directly"
        if any(self.graph.kinds[self.graph.preceding(call, ("view", "dropout"))[1]] == "one sign" for call in uses):
            return "reads values of one sign: all its input bits would be equal"
        return why_unsupported(module)

    def _replace_pools(self) -> set[fx.Node]:
        """Replace the pools over points; return the calls that are now bypassed."""
        graph, passed = self.graph, set()
        for node in graph.nodes:
            pool = graph.pool(node)
            if pool is None or not all(graph.adjacent_layers(node)) or self._only_float_layers_around(node):
                continue
            if isinstance(pool, Pool) and self.obstacle is not None and node.op != "call_module":
                pool = "is a function, in a forward that cannot be rewritten"
            if isinstance(pool, str):
                self.rows[node] = Row(graph.name(node), "pool", graph.label(node), "kept", pool)
                continue
            normed = graph.kinds[graph.preceding(node, TRANSPARENT)[1]] == "norm"
            new = copy.deepcopy(self.pool) if pool.kind == "max" else EntropyMean()
            why = "after BatchNorm" if normed else "no BatchNorm in front"
            if isinstance(new, EntropyMax) and not normed:
                new, why = MeasuredMax(), f"{why}: calibrate measures its shift"
            self.rows[node] = Row(graph.name(node), "pool", str(pool), type(new).__name__, why)
            passed |= graph.bypass(node, TRANSPARENT, ACTIVATIONS)
            self._insert_pool(new, pool)
        return passed

    def _insert_pool(self, new: nn.Module, pool: Pool) -> None:
        node, graph = pool.call, self.graph.fx_graph
        dynamic = any(isinstance(size, fx.Node) for size in pool.window)
        if pool.dims != (-2,) or pool.keepdim:
            new = PointPool(new, pool.dims, pool.keepdim, () if dynamic else pool.window, pool.stride)
        new.to(next(self.model.parameters()))  # its device and dtype
        if node.op == "call_module":
            self.replacements[str(node.target)][node] = new
            return
        self.rewrite_reasons.append(f"{self.graph.name(node)} is a function")
        name = self._add_module(f"{scope(node)}.pool".lstrip("."), new)
        with graph.inserting_before(node):
            sizes = [list(pool.window)] if dynamic else []
            put = graph.create_node("call_module", name, (node.all_input_nodes[0], *sizes))
        self.graph.kinds[put] = "other"
        pool.result.replace_all_uses_with(put)
        for gone in dict.fromkeys([*node.users, node]):
            graph.erase_node(gone)

    def _add_module(self, name: str, module: nn.Module) -> str:
        """Add a module to the traced network under this name, or under this name and a number; return its name."""
        place, _, attribute = name.rpartition(".")
        parent, free, number = self.graph.root.get_submodule(place), attribute, 0
        while hasattr(parent, free):
            number += 1
            free = f"{attribute}_{number}"
        setattr(parent, free, module)
        full = f"{place}.{free}".lstrip(".")
        self.graph.modules[full] = module
        return full

    def _remove_dropouts(self) -> set[fx.Node]:
        """Remove dropout in front of 1-bit layers; return the calls that are now bypassed."""
        graph, passed = self.graph, set()
        for node in [n for n in graph.nodes if graph.kinds[n] == "layer" and str(n.target) in self.replacements]:
            drops = [p for p in graph.preceding(node, ("view", "dropout"))[0] if graph.kinds[p] == "dropout"]
            stuck = self.obstacle is not None and any(p.op != "call_module" for p in drops)
            why = "in front of a 1-bit layer, where sign turns a dropped 0 into +1"
            for drop in drops:
                now = "kept" if stuck else "removed"
                reason = f"{why}, but the forward cannot be rewritten" if stuck else why
                self.rows[drop] = Row(graph.name(drop), "dropout", graph.label(drop), now, reason)
            if drops and not stuck:
                passed |= graph.bypass(node, ("view", "dropout"), ("dropout",))
        return passed

    def _replace_activations(self, passed: set[fx.Node]) -> None:
        """Replace rectifiers by Hardtanh, and bypassed calls that nothing reads anymore by nn.Identity."""
        graph, alive = self.graph, {*self.graph.fx_graph.nodes}
        for node in graph.nodes:
            kind = graph.kinds[node]
            if kind not in (*ACTIVATIONS, "dropout"):
                continue
            row = Row(graph.name(node), "activation", graph.label(node), "removed", "in front of a pool")
            if node not in alive:
                self.rows.setdefault(node, row)
                self._replace_call(node, nn.Identity())
                continue
            if node in passed:
                self.rewrite_reasons.append(f"{graph.name(node)} is removed on some paths and kept on others")
            if kind == "rectifier" and not self._only_float_layers_around(node):
                self.rows[node] = replace(row, now="Hardtanh", why="")
                self._replace_call(node, nn.Hardtanh())
            elif kind == "rectifier":
                self.rows[node] = replace(row, now="kept", why="between float layers")

    def _replace_call(self, node: fx.Node, module: nn.Module) -> None:
        if node.op == "call_module":
            self.replacements[str(node.target)][node] = module
            return
        self.rewrite_reasons.append(f"{self.graph.name(node)} is a function")
        if isinstance(module, nn.Hardtanh):
            node.op, node.target = "call_function", F.hardtanh
            node.args, node.kwargs = (node.all_input_nodes[0],), {}

    def _swap_modules(self) -> nn.Module:
        network = copy.deepcopy(self.model)
        news = {}
        for name, by_call in self.replacements.items():
            old, new = network.get_submodule(name), next(iter(by_call.values()))
            if isinstance(new, nn.Hardtanh):
                new.inplace = getattr(old, "inplace", False)
            news[old] = new.train(old.training)
        for parent in network.modules():
            for key, child in parent._modules.items():  # named_children() omits the second name of a module
                if child in news:
                    setattr(parent, key, news[child])
        return network

    def _rewrite_forward(self) -> nn.Module:
        root, graph = self.graph.root, self.graph.fx_graph
        modes = {name: module.training for name, module in self.model.named_modules()}
        alive = {*graph.nodes}
        for name, by_call in self.replacements.items():
            left = {node: new for node, new in by_call.items() if node in alive}
            everywhere = all(node in left for node in self.graph.calls_of[name] if node in alive)
            if everywhere and len({_equivalence_key(new) for new in left.values()}) == 1:
                root.set_submodule(name, next(iter(left.values())))
            else:
                for node, new in left.items():
                    node.target = self._add_module(name, new)
        for node in reversed(graph.nodes):
            if not node.users and (node.op == "get_attr" or call_name(node) in ("getattr", "getitem", "size")):
                graph.erase_node(node)
        network = _RewrittenNetwork(root, graph, class_name=type(self.model).__name__)
        for name, module in network.named_modules():
            module.training = modes.get(name, self.model.training)
        return network

    def _report(self, network: nn.Module) -> Report:
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        rows = [self.rows[key] for key in sorted(self.rows, key=lambda key: order.get(key, len(order)))]
        there = dict(network.named_modules())  # a rewritten network has only the modules it calls
        gone = {row: row.bits_before > 0 and row.name not in there for row in rows}
        rows = [replace(row, now="left out", bits_after=0) if gone[row] else row for row in rows]
        before, after = (
            sum(bits(module, counted) for module in model.modules())
            for model, counted in ((self.model, set()), (network, set()))
        )
        before -= sum(row.bits_before for row in rows)
        after -= sum(row.bits_after for row in rows)
        if before or after:
            rows.append(Row("(the rest)", "rest", "", "float", "such as BatchNorm", before, after))
        notes = [f"not inspected: {', '.join(self.opaque)}"] if self.opaque else []
        if self.obstacle is not None:
            notes.append(f"recorded on the example only, because {self.obstacle}")
        return Report(tuple(rows), tuple(notes))


class _RewrittenNetwork(fx.GraphModule):
    """A network whose forward was rewritten."""

    def __reduce__(self) -> Any:
        # On loading, torch.fx would trace the code again and freeze the value of `training`.
        raise UserError(
            f"{type(self).__name__} was rewritten by binarize and cannot be pickled; save its state_dict(), binarize "
            "the float network again, and load the state_dict() into the result"
        )


def _equivalence_key(module: nn.Module) -> Any:
    """Equal for modules that can replace each other: modules without state and with the same repr."""
    return id(module) if [*module.parameters(), *module.buffers()] else repr(module)
