"""The call graph of a foreign network: the kind of each call, and the layers before and after it."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from bipointnet.convert.trace import TracedNetwork, call_name, scope
from bipointnet.nn.pools import MaxPool, MeanPool, MeasuredMax

# Kinds of calls, by the class of the module or the name of the function. The first match counts.
KINDS: dict[str, tuple[tuple[type[nn.Module], ...], set[str]]] = {
    "rectifier": (
        (
            *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ELU, nn.CELU, nn.SELU),
            *(nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Softplus),
        ),
        {
            *("relu", "relu6", "leaky_relu", "prelu", "rrelu", "elu", "celu", "selu"),
            *("gelu", "silu", "mish", "hardswish", "softplus"),
        },
    ),
    "bounded": ((nn.Hardtanh, nn.Tanh, nn.Softsign), {"hardtanh", "tanh", "softsign"}),
    "one sign": (
        (nn.Sigmoid, nn.Hardsigmoid, nn.LogSigmoid, nn.Softmax, nn.LogSoftmax),
        {"sigmoid", "hardsigmoid", "logsigmoid", "softmax", "log_softmax", "exp", "abs", "square", "sqrt", "norm"},
    ),
    "dropout": (
        (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout),
        {"dropout", "dropout1d", "dropout2d", "alpha_dropout"},
    ),
    "norm": ((nn.modules.batchnorm._NormBase,), {"batch_norm", "instance_norm"}),
    "other norm": ((nn.LayerNorm, nn.GroupNorm), {"layer_norm", "group_norm"}),
    "view": (
        (nn.Flatten, nn.Unflatten, nn.Identity),
        {
            *("view", "reshape", "flatten", "unflatten", "transpose", "permute", "movedim", "swapaxes", "t", "get"),
            *("squeeze", "unsqueeze", "contiguous", "clone", "to", "float"),
        },
    ),
    "size": ((), {"size", "dim", "numel", "len", "get_device", "require_same_branch"}),
    "layer": ((), {"linear", "conv1d", "conv2d", "conv3d", "bilinear", "embedding"}),
}
ACTIVATIONS = ("rectifier", "bounded")
TRANSPARENT = (*ACTIVATIONS, "view", "dropout")  # allowed between a pool and its BatchNorm
ARITHMETIC = {"add", "sub", "mul", "div", "truediv", "radd", "rsub"}
MIXING = {"matmul", "bmm", "baddbmm", "einsum", "add", "sub", "radd", "rsub"}  # coordinates stay coordinates


@dataclass
class Pool:
    """A pool of the network: the call, the node with its values, its kind (max or mean), and its dimensions."""

    call: fx.Node
    result: fx.Node
    kind: str
    dims: tuple[int, ...] = ()
    keepdim: bool = False
    window: tuple[Any, ...] = ()  # sizes may be nodes, known only at run time
    stride: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = f"windows of {list(self.window)}" if self.window else f"dim {', '.join(map(str, self.dims))}"
        return f"{self.kind} over {where}"


def has_matrix(module: nn.Module, recurse: bool = False) -> bool:
    """Whether the module is a layer in the widest sense: it has more than one parameter per channel."""
    per_channel = any(isinstance(module, KINDS[kind][0]) for kind in ("norm", "other norm", "rectifier"))
    return not per_channel and any(p.dim() >= 2 for p in module.parameters(recurse))


class CallGraph:
    """The calls of a traced network, and the data flow between them."""

    def __init__(self, traced: TracedNetwork) -> None:
        self.root, self.fx_graph = traced.root, traced.graph
        self.modules = dict(self.root.named_modules())
        self.nodes = list(self.fx_graph.nodes)  # in execution order
        self.calls_of: defaultdict[str, list[fx.Node]] = defaultdict(list)  # the calls of a module
        for node in self.nodes:
            if node.op == "call_module":
                self.calls_of[str(node.target)].append(node)
        self.kinds = {node: self._kind(node) for node in self.nodes}
        self._remove_inplace()

    def module(self, node: fx.Node) -> nn.Module | None:
        return self.modules[str(node.target)] if node.op == "call_module" else None

    def name(self, node: fx.Node) -> str:
        """The name of the module; for a function, the name of the calling module and of the function."""
        return str(node.target) if node.op == "call_module" else f"{scope(node)}.{call_name(node)}".lstrip(".")

    def label(self, node: fx.Node) -> str:
        return call_name(node) or type(self.module(node)).__name__

    def option(self, node: fx.Node, name: str, default: Any, position: int | None = None) -> Any:
        """An option of a module, or an argument of a function."""
        if node.op == "call_module":
            return getattr(self.module(node), name, default)
        if position is not None and position < len(node.args):
            return node.args[position]
        return node.kwargs.get(name, default)

    def _kind(self, node: fx.Node) -> str:
        name, module = call_name(node), self.module(node)
        if name in ("clamp", "clamp_min", "clip") and self.option(node, "min", None, 1) == 0:
            return "rectifier"
        for kind, (types, names) in KINDS.items():
            if isinstance(module, types) or name in names:
                return "view" if kind == "dropout" and self.option(node, "p", 0.5, 1) == 0 else kind
        if module is not None and has_matrix(module, recurse=True):
            return "layer"
        if name == "getattr":
            return {"T": "view", "mT": "view", "data": "view", "values": "other"}.get(str(node.args[1]), "size")
        return "other"

    def _remove_inplace(self) -> None:
        """Make in-place calls such as relu_(x) ordinary ones: later readers of x read the result instead."""
        when = {node: i for i, node in enumerate(self.nodes)}
        for node in self.nodes:
            spelled = str(getattr(node.target, "__name__", node.target))
            by_name = node.op != "call_module" and spelled.endswith("_")
            if self.kinds[node] not in (*ACTIVATIONS, "dropout") or not self.option(node, "inplace", by_name):
                continue
            source = node.all_input_nodes[0]
            for user in [user for user in source.users if when[user] > when[node]]:
                user.replace_input_with(source, node)
            if node.op == "call_module":
                setattr(self.module(node), "inplace", False)  # noqa: B010
            elif by_name:
                node.target = spelled.rstrip("_") if node.op == "call_method" else getattr(torch, spelled.rstrip("_"))
            else:
                node.update_kwarg("inplace", False)

    def adjacent_layers(self, node: fx.Node) -> tuple[set[fx.Node], set[fx.Node]]:
        """The nearest layers before this call, and the nearest layers after it."""

        def nearest(step: Callable[[fx.Node], Iterable[fx.Node]]) -> set[fx.Node]:
            found, seen, todo = set(), {node}, [node]
            while todo:
                for other in step(todo.pop()):
                    if other not in seen and self.kinds[other] != "size":
                        seen.add(other)
                        (found.add if self.kinds[other] == "layer" else todo.append)(other)
            return found

        return nearest(lambda n: n.all_input_nodes), nearest(lambda n: n.users)

    def preceding(self, node: fx.Node, kinds: Sequence[str]) -> tuple[list[fx.Node], fx.Node]:
        """The calls of these kinds directly before `node`, last first, and the node before them."""
        passed, before = [], node.all_input_nodes[0]
        while self.kinds[before] in kinds and before.all_input_nodes:
            passed.append(before)
            before = before.all_input_nodes[0]
        return passed, before

    def bypass(self, reader: fx.Node, kinds: Sequence[str], dropped: Sequence[str]) -> set[fx.Node]:
        """Let `reader` bypass the calls of the kinds `dropped` among the preceding calls of `kinds`; return these."""
        passed, value = self.preceding(reader, kinds)
        if not any(self.kinds[node] in dropped for node in passed):
            return set()
        with self.fx_graph.inserting_before(reader):
            for node in reversed(passed):
                if self.kinds[node] not in dropped:
                    swap = {node.all_input_nodes[0]: value}
                    value = self.fx_graph.node_copy(node, lambda n, swap=swap: swap.get(n, n))
                    self.kinds[value] = self.kinds[node]
        reader.replace_input_with(passed[0], value)
        return {*passed}

    def coordinates(self) -> dict[fx.Node, bool | None]:
        """Whether the input of a layer, or the result of another call, is coordinates; None for constants."""
        state: dict[fx.Node, bool | None] = {}
        for node in self.nodes:
            inputs = (False if self.kinds[n] == "layer" else state[n] for n in node.all_input_nodes)
            known = [s for s in inputs if s is not None]
            if node.op == "placeholder":
                state[node] = True
            elif not known or self.kinds[node] == "size":
                state[node] = None
            else:
                state[node] = any(known) if call_name(node) in MIXING else all(known)
        return state

    def shared_parameters(self) -> set[Tensor]:
        """Parameters of two modules, and parameters that a forward reads directly."""
        named = dict(self.root.named_parameters(remove_duplicate=False))
        read = [str(node.target) for node in self.nodes if node.op == "get_attr" and node.users]
        shared: set[Tensor] = {named[name] for name in read if name in named}
        owned: set[Tensor] = set()
        for module in self.root.modules():
            own = {*module.parameters(recurse=False)}
            shared |= own & owned
            owned |= own
        return shared

    def pool(self, node: fx.Node) -> Pool | str | None:
        """The pool over points that this call is; or the reason why it is another kind of pool; or None."""
        if isinstance(self.module(node), (MaxPool, MeasuredMax, MeanPool)):
            return Pool(node, node, "mean" if isinstance(self.module(node), MeanPool) else "max", (-2,))
        found: Pool | str | None = None
        if named := re.fullmatch(r"(adaptive_?)?(max|avg)_?pool([12])d", self.label(node).lower()):
            kind, rank = {"max": "max", "avg": "mean"}[named[2]], int(named[3])
            found = self._adaptive_pool(node, kind, rank) if named[1] else self._window_pool(node, kind, rank)
        elif call_name(node) in ("max", "amax", "mean"):
            found = self._reduction(node)
        elif call_name(node) in ("scatter_reduce", "index_reduce", "segment_reduce"):
            found = "pools groups of different sizes"
        return (self._not_over_points(found) or found) if isinstance(found, Pool) else found

    def _adaptive_pool(self, node: fx.Node, kind: str, rank: int) -> Pool | str:
        sizes = _tuple(self.option(node, "output_size", None, 1), rank)
        if any(size not in (None, 1) for size in sizes) or self.option(node, "return_indices", False, 2):
            return f"its output size is {sizes}, expected 1"
        return Pool(node, node, kind, tuple(i - rank for i, size in enumerate(sizes) if size == 1), keepdim=True)

    def _window_pool(self, node: fx.Node, kind: str, rank: int) -> Pool | str:
        plain = {"padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}
        plain = plain if kind == "max" else {"padding": 0, "ceil_mode": False, "divisor_override": None}
        for position, (option, value) in enumerate(plain.items(), start=3):
            if any(v != value for v in _tuple(self.option(node, option, value, position), rank)):
                return f"its windows have {option}"
        window = _tuple(self.option(node, "kernel_size", None, 1), rank)
        stride = self.option(node, "stride", None, 2)
        return Pool(node, node, kind, window=window, stride=() if stride in (None, []) else _tuple(stride, rank))

    def _reduction(self, node: fx.Node) -> Pool | str | None:
        dims = self.option(node, "dim", node.kwargs.get("axis"), 1)
        keepdim = bool(self.option(node, "keepdim", False, 2))
        if dims is None or isinstance(dims, fx.Node):  # of all elements, or of two tensors
            return None
        name, result = call_name(node), node
        if name == "max":  # returns values and indices
            taken = {user: user.args[1] if call_name(user) in ("getitem", "getattr") else None for user in node.users}
            values = [user for user, item in taken.items() if item in (0, "values")]
            if len(values) != 1 or any(
                user.users or item is None for user, item in taken.items() if user not in values
            ):
                return "its indices are used too"
            result = values[0]
        return Pool(node, result, "mean" if name == "mean" else "max", _tuple(dims), keepdim)

    def _not_over_points(self, pool: Pool) -> str | None:
        source = pool.call.all_input_nodes[0]
        if any(call_name(user) in ARITHMETIC and source in user.all_input_nodes for user in pool.result.users):
            return "combined with its own input, as in x - x.mean()"
        passed, base = self.preceding(pool.call, TRANSPARENT)
        layer = base.all_input_nodes[0] if self.kinds[base] == "norm" else base
        weight = getattr(self.module(layer), "weight", None)
        if isinstance(weight, Tensor) and not any(self.kinds[node] == "view" for node in passed):
            places = weight.dim() - 2  # channels are before these in a convolution, and last in a linear layer
            if {*pool.dims} & ({1, -1 - places} if places else {-1}):
                return "over channels"
        return None


def _tuple(value: Any, rank: int = 1) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
