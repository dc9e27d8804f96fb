"""For networks that cannot be traced: a record of one run on an example.

Its graph is valid for that run. It shows the data flow, but cannot replace the network.
"""

import operator
from typing import Any

from torch import Tensor, fx, nn
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from bipointnet.convert.trace import TracedNetwork, Untraceable, copy_unfused, leaf_modules, output_tensors, trace
from bipointnet.errors import UserError
from bipointnet.nn.hooks import preserved_modes


def trace_or_record(model: nn.Module, example: tuple[Any, ...] | None) -> TracedNetwork:
    """Trace `model`, or record its run on the `example` if tracing fails. The model is not modified."""
    try:
        return trace(copy_unfused(model), example)
    except Untraceable as obstacle:
        if example is None:
            raise UserError(
                f"binarize: {type(model).__name__} cannot be traced without data, because {obstacle}; "
                "expected a forward that takes the same branch for all inputs; give a batch as example="
            ) from obstacle.__cause__
        return record(copy_unfused(model), example, str(obstacle))


class _Recorder(TorchFunctionMode):
    """Records the calls of torch functions and leaf modules; identifies tensors by id()."""

    def __init__(self, root: nn.Module, inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.graph, self.leaves = fx.Graph(), leaf_modules(root)
        self.names = {module: name for name, module in root.named_modules()}
        self.stack: list[str] = []
        self.running: nn.Module | None = None  # the leaf module that is running
        self.nodes: dict[int, fx.Node] = {}
        self.alive: list[Tensor] = []  # id() is unique among living objects only
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


def record(root: nn.Module, example: tuple[Any, ...], obstacle: str) -> TracedNetwork:
    recorder = _Recorder(root, example)
    hooks = [module.register_forward_pre_hook(recorder.enter) for module in root.modules()]
    hooks += [module.register_forward_hook(recorder.leave, with_kwargs=True) for module in root.modules()]
    try:
        with preserved_modes(root):
            root.eval()
            with recorder:
                outputs = output_tensors(root, example)
    finally:
        for hook in hooks:
            hook.remove()
    recorder.graph.output([recorder.nodes.get(id(tensor)) for tensor in outputs])
    return TracedNetwork(root, recorder.graph, obstacle)
