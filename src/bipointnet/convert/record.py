"""The record of one run of a network on an example: its calls, their order and their inputs, as a torch.fx graph.

It is valid for the branches that the run took. Unlike a trace it sees inside every function, and has the values.
"""

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from bipointnet.convert.generators import preserved_generators, seed_generators
from bipointnet.convert.sites import Site, called_name, chain_to, runs_forward
from bipointnet.convert.trace import TracedNetwork, leaf_modules
from bipointnet.errors import UserError
from bipointnet.nn.hooks import preserved_modes


class _Recorder(TorchFunctionMode):
    """Records the calls of torch functions and leaf modules; identifies tensors by id()."""

    def __init__(self, root: nn.Module, inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.graph, self.leaves = fx.Graph(), leaf_modules(root)
        self.names = {module: name for name, module in root.named_modules()}
        self.stack: list[tuple[nn.Module, int]] = []  # the modules that are running, and the number of the run
        self.runs = 0
        self.running: nn.Module | None = None  # the leaf module that is running
        self.nodes: dict[int, fx.Node] = {}
        self.alive: list[Tensor] = []  # id() is unique among living objects only
        for i, tensor in enumerate(tensors_in(inputs)):
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
        if self.running is None and module in self.leaves:
            self.running = module
        elif self.running is None:
            self.stack.append((module, self.runs))
            self.runs += 1

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if self.running is module:
            self._record("call_module", self.names[module], args, kwargs, output)
            self.running = None
        elif self.running is None:
            self.stack.pop()
            unseen = any(id(tensor) not in self.nodes for tensor in tensors_in(output))
            if unseen and self.stack and not [*module.parameters()]:  # the result of a torch.autograd.Function
                self._record("call_module", self.names[module], args, kwargs, output)

    def _name(self, tensor: Tensor, node: fx.Node) -> None:
        self.nodes[id(tensor)] = node
        node.meta["rank"] = tensor.dim()
        self.alive.append(tensor)

    def _record(self, op: str, target: Any, args: Any, kwargs: Any, output: Any) -> None:
        if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(output)):
            return

        def lowered(value: Any) -> Any:
            return map_aggregate(value, lambda v: self.nodes.get(id(v)) if isinstance(v, Tensor) else v)

        node = self.graph.create_node(op, target, lowered(tuple(args)), lowered(dict(kwargs)))
        (owner, run), called = self.stack[-1], target if op == "call_module" else called_name(target)
        node.meta["nn_module_stack"] = dict.fromkeys(self.names[module] for module, _ in self.stack)
        node.meta["site"] = Site(self.names[owner], run, called, chain_to(runs_forward(owner)))
        if isinstance(output, Tensor):
            self._name(output, node)
        else:
            for i, leaf in enumerate(tree_leaves(output)):
                if isinstance(leaf, Tensor):
                    self._name(leaf, self.graph.call_function(operator.getitem, (node, i)))


def record(root: nn.Module, example: tuple[Any, ...]) -> TracedNetwork:
    """Record a run of `root` in eval mode."""
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
    return TracedNetwork(root, recorder.graph, recorded=True)


@torch.no_grad()
def output_tensors(network: nn.Module, example: tuple[Any, ...]) -> list[Tensor]:
    """All tensors in the output of the network for the example, in a fixed order."""
    try:
        with preserved_generators():
            seed_generators()
            output = network(*example)
    except Exception as error:
        raise UserError(
            f"binarize: {type(network).__name__} does not run on the example ({type(error).__name__}: {error}); "
            "expected its inputs, as a tensor or a tuple"
        ) from error
    return tensors_in(output)


def tensors_in(output: Any) -> list[Tensor]:
    """The tensors of inputs or outputs: tensors, tuples, dictionaries, objects with tensors as attributes, graphs."""
    leaves = tree_leaves(output)
    attributes = (
        leaf.to_dict() if hasattr(leaf, "to_dict") else vars(leaf) for leaf in leaves if hasattr(leaf, "__dict__")
    )
    inside = (value for found in attributes for value in tree_leaves(found))
    return [leaf for leaf in (*leaves, *inside) if isinstance(leaf, Tensor)]
