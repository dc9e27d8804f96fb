"""The call graph of a foreign network: the kind of each call, and the layers before and after it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor, fx, nn

from bipointnet.convert.trace import TracedNetwork, call_name, scope

# Tensors that are made like another one hold none of its values.
FACTORIES = {f"new_{name}" for name in ("zeros", "ones", "empty", "full", "tensor")} | {
    f"{name}_like" for name in ("zeros", "ones", "empty", "full", "rand", "randn")
}
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
        {
            *("sigmoid", "hardsigmoid", "logsigmoid", "softmax", "log_softmax"),
            *("exp", "abs", "square", "sqrt", "norm", "std", "var"),
        },
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
            *("squeeze", "unsqueeze", "contiguous", "clone", "to", "float", "double", "type_as", "expand", "repeat"),
        },
    ),
    "size": ((), {"size", "dim", "numel", "len", "get_device", *FACTORIES}),
    "layer": ((), {"linear", "conv1d", "conv2d", "conv3d", "bilinear", "embedding"}),
}
ACTIVATIONS = ("rectifier", "bounded")
TRANSPARENT = (*ACTIVATIONS, "view", "dropout")  # allowed between a pool and its BatchNorm
MIXING = {"matmul", "bmm", "baddbmm", "einsum", "add", "sub", "radd", "rsub"}  # coordinates stay coordinates
RANKING = {"topk", "sort", "max", "min", "kthvalue", "cummax", "cummin"}  # return values and indices
SELECTING = {"getitem", "gather", "index_select", "take_along_dim", "topk", "sort"}  # elements of the first argument


def has_matrix(module: nn.Module, recurse: bool = False) -> bool:
    """Whether the module is a layer in the widest sense: it has more than one parameter per channel."""
    per_channel = any(isinstance(module, KINDS[kind][0]) for kind in ("norm", "other norm", "rectifier"))
    return not per_channel and any(p.dim() >= 2 for p in module.parameters(recurse))


class CallGraph:
    """The calls of a traced network, and the data flow between them."""

    def __init__(self, traced: TracedNetwork) -> None:
        self.traced, self.root, self.fx_graph = traced, traced.root, traced.graph
        self.modules = dict(self.root.named_modules())
        self.nodes = list(self.fx_graph.nodes)  # in execution order
        self.calls_of: defaultdict[str, list[fx.Node]] = defaultdict(list)  # the calls of a module
        for node in self.nodes:
            if node.op == "call_module":
                self.calls_of[str(node.target)].append(node)
        self.kinds = {node: self._kind(node) for node in self.nodes}
        self._follow_inplace()

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

    def inplace(self, node: fx.Node) -> bool:
        """Whether the call of an activation or dropout changes its input, as relu_(x) does."""
        spelled = str(getattr(node.target, "__name__", node.target))
        return bool(self.option(node, "inplace", node.op != "call_module" and spelled.endswith("_"), 1))

    def _follow_inplace(self) -> None:
        """After an in-place call such as relu_(x), readers of x read its result."""
        when = {node: i for i, node in enumerate(self.nodes)}
        for node in self.nodes:
            if self.kinds[node] in (*ACTIVATIONS, "dropout") and node.all_input_nodes and self.inplace(node):
                source = node.all_input_nodes[0]
                for user in [user for user in source.users if when[user] > when[node]]:
                    user.replace_input_with(source, node)

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

    def preceding(self, value: fx.Node, kinds: Sequence[str]) -> tuple[list[fx.Node], fx.Node]:
        """The calls of these kinds that lead to `value`, last first, and the node before them."""
        passed = []
        while self.kinds[value] in kinds and value.all_input_nodes:
            passed.append(value)
            value = value.all_input_nodes[0]
        return passed, value

    def reached(self, node: fx.Node, through: Callable[[fx.Node], bool]) -> set[fx.Node]:
        """The nodes behind `node`, up to and including the first on each path that `through` rejects."""
        seen, todo = set(), [node]
        while todo:
            for user in todo.pop().users:
                if user not in seen and self.kinds[user] != "size":
                    seen.add(user)
                    if through(user):
                        todo.append(user)
        return seen

    def concatenated(self, call: fx.Node) -> set[fx.Node]:
        """The parts of the input of a call, before views, concatenations and one-hot encodings."""
        parts, todo = set(), [call.all_input_nodes[0]]
        while todo:
            node = todo.pop()
            passed = self.kinds[node] == "view" or call_name(node) in ("cat", "concat", "concatenate", "one_hot")
            (todo.extend(node.all_input_nodes) if passed else parts.add(node))
        return parts

    def coordinates(self, opaque_returns_them: bool = False) -> dict[fx.Node, bool | None]:
        """Whether the input of a layer, or the result of another call, is coordinates; None for constants and indices.

        opaque_returns_them: whether an opaque function that reads coordinates and features returns coordinates.
        """
        state: dict[fx.Node, bool | None] = {}
        for node in self.nodes:
            inputs = (False if self.kinds[n] == "layer" else state[n] for n in node.all_input_nodes)
            known = [s for s in inputs if s is not None]
            if node.op == "placeholder":
                state[node] = True
            elif not known or self.kinds[node] == "size" or self.is_index(node):
                state[node] = None
            elif call_name(node) in SELECTING:
                state[node] = (
                    state[node.all_input_nodes[0]] if self.kinds[node.all_input_nodes[0]] != "layer" else False
                )
            else:
                mixing = call_name(node) in MIXING or (opaque_returns_them and "opaque" in node.meta)
                state[node] = any(known) if mixing else all(known)
        return state

    def is_index(self, node: fx.Node) -> bool:
        """Whether the call returns positions of elements instead of their values."""
        name = call_name(node)
        if name in ("getitem", "getattr") and isinstance(node.args[0], fx.Node):
            return call_name(node.args[0]) in RANKING and node.args[1] in (1, "indices")
        return name.startswith("arg") or name in ("randperm", "multinomial", "searchsorted", "bucketize", "nonzero")

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
