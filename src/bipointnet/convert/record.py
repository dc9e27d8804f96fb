"""Where a foreign network cannot be traced: a tape of one real run on an example.

Its graph is right for that run. It says what the network does, but cannot be run in its place.
"""

import operator
from typing import Any

from torch import Tensor, fx, nn
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from bipointnet.convert.trace import Followed, Untraceable, copied, leaf_modules, tensors, trace
from bipointnet.errors import UserError


def follow(model: nn.Module, example: tuple[Any, ...] | None) -> Followed:
    """Trace `model`, or, if that fails, tape its run on the `example`. The model is left as it is."""
    try:
        return trace(copied(model), example)
    except Untraceable as obstacle:
        if example is None:
            raise UserError(
                f"binarize: {type(model).__name__} cannot be followed without data, as {obstacle}; "
                "expected a forward that takes one way for all inputs; give a batch as example="
            ) from obstacle.__cause__
        return _tape(copied(model), example, str(obstacle))


class _Tape(TorchFunctionMode):
    """Writes down the calls of torch functions and leaf modules, with tensors told apart by identity."""

    def __init__(self, root: nn.Module, inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.graph, self.leaves = fx.Graph(), leaf_modules(root)
        self.names = {module: name for name, module in root.named_modules()}
        self.stack: list[str] = []
        self.running: nn.Module | None = None  # a leaf module
        self.nodes: dict[int, fx.Node] = {}
        self.alive: list[Tensor] = []  # an identity is only unique among living tensors
        for i, tensor in enumerate(leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)):
            self._name(tensor, self.graph.placeholder(f"input_{i}"))
        for name, parameter in root.named_parameters():
            self._name(parameter, self.graph.create_node("get_attr", name))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if self.running is None:
            changed = args[0] if getattr(func, "__name__", "") == "__setitem__" else output
            self._record("call_function", func, args, kwargs or {}, changed)
        return output

    def enter(self, module: nn.Module, args: Any) -> None:
        self.stack.append(self.names.get(module, ""))
        if self.running is None and module in self.leaves:
            self.running = module

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if self.running is module:
            self._record("call_module", self.names[module], args, kwargs, output)
            self.running = None
        self.stack.pop()

    def _name(self, tensor: Tensor, node: fx.Node) -> None:
        self.nodes[id(tensor)] = node
        self.alive.append(tensor)

    def _record(self, op: str, target: Any, args: Any, kwargs: Any, output: Any) -> None:
        if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(output)):
            return

        def lowered(value: Any) -> Any:
            return map_aggregate(value, lambda v: self.nodes.get(id(v)) if isinstance(v, Tensor) else v)

        node = self.graph.create_node(op, target, lowered(tuple(args)), lowered(dict(kwargs)))
        node.meta["nn_module_stack"] = dict.fromkeys(self.stack)
        if isinstance(output, Tensor):
            self._name(output, node)
        else:
            for i, leaf in enumerate(tree_leaves(output)):
                if isinstance(leaf, Tensor):
                    self._name(leaf, self.graph.call_function(operator.getitem, (node, i)))


def _tape(root: nn.Module, example: tuple[Any, ...], obstacle: str) -> Followed:
    modes = {module: module.training for module in root.modules()}
    root.eval()
    tape = _Tape(root, example)
    hooks = [module.register_forward_pre_hook(tape.enter) for module in root.modules()]
    hooks += [module.register_forward_hook(tape.leave, with_kwargs=True) for module in root.modules()]
    try:
        with tape:
            outputs = tensors(root, example)
    finally:
        for hook in hooks:
            hook.remove()
    tape.graph.output([tape.nodes.get(id(tensor)) for tensor in outputs])
    for module, mode in modes.items():
        module.training = mode
    return Followed(root, tape.graph, obstacle)
