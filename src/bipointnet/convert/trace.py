"""Tracing a foreign network without data: its calls, their order and their inputs, as a torch.fx graph.

A trace runs the network on symbols. Its graph shows the data flow; the network keeps its own forward. torch.fx makes
the trace; real networks need some additions:

- `self.training` is a symbol of its own, so that F.dropout(x, training=self.training) can be traced;
- tensors made for the size or device of a symbol (torch.eye(3, device=x.device)) are recorded;
- a function without layers that cannot be traced, such as a neighbor search, is recorded as one opaque call;
- arguments with a default keep it, `x.is_cuda` is False, and a symbol has no `keys`: it stands for a tensor.
"""

import copy
import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType, FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute
from torch.utils._pytree import tree_leaves

from bipointnet.convert.sites import Site, called_name, chain_to, runs_forward
from bipointnet.errors import UserError
from bipointnet.nn.concat_linear import ConcatLinear
from bipointnet.nn.fused_layer import NormalizedLayer
from bipointnet.nn.fused_pool import PooledLayer, fused_layers

RECTIFIERS = ("elu", "silu", "mish", "hardswish", "softplus")
MAKERS = ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros")


@dataclass
class TracedNetwork:
    """A traced or recorded network.

    root: a copy of the network; `graph` refers to its modules. opaque: functions that the graph contains as one call.
    recorded: whether the graph shows one run on an example.
    """

    root: nn.Module
    graph: fx.Graph
    opaque: list[str] = field(default_factory=list)
    recorded: bool = False


class Untraceable(Exception):
    """Why a network cannot be traced, as the end of a sentence."""


def is_linear(module: nn.Module) -> bool:
    """Whether the module computes F.linear(x, weight, bias) or a plain convolution, and nothing else.

    This depends on its behavior, not on its class: torch_geometric's Linear is linear, a masked nn.Linear is not.
    """
    if type(module) in (nn.Linear, nn.Conv1d, nn.Conv2d):
        return True
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    owned = {id(p) for p in (*module.parameters(), *module.buffers())}
    if not isinstance(weight, nn.Parameter) or owned != {id(p) for p in (weight, bias) if p is not None}:
        return False
    places = weight.dim() - 2
    function: Any = (F.linear, F.conv1d, F.conv2d)[places] if 0 <= places <= 2 else None
    try:
        with torch.no_grad():
            x = torch.arange(2.0 * weight.shape[1]).cos().to(weight).reshape(2, -1, *[1] * places)
            return torch.equal(module(x), function(x, weight, bias))
    except Exception:  # it does not accept the input of a linear layer
        return False


def call_name(node: fx.Node) -> str:
    """The called function, "relu" for torch.relu, F.relu and x.relu_() alike; "" for modules and opaque functions."""
    if node.op == "call_method":
        return str(node.target).strip("_")
    if node.op == "call_function" and "opaque" not in node.meta:
        return called_name(node.target)
    return ""


def scope(node: fx.Node) -> str:
    """The name of the module whose forward makes the call; "" for the network itself."""
    return next(reversed(node.meta.get("nn_module_stack") or [""]))


def copy_unfused(model: nn.Module) -> nn.Module:
    """A copy of the network without fused layers, so that their parts are visible."""
    try:
        model = copy.deepcopy(model)
    except Exception as error:
        raise UserError(
            f"binarize: {type(model).__name__} cannot be copied ({error}), expected a network that copy.deepcopy "
            "accepts; delete tensors that a forward has stored on its modules"
        ) from error
    for layer in fused_layers(model):
        layer.fused = False
    return model


def leaf_modules(root: nn.Module) -> set[nn.Module]:
    """Modules that are one call: modules of PyTorch and this library, classes derived from them, and linear layers.

    Containers and fused layers are no leaves: their parts are visible.
    """

    def known(base: type) -> bool:
        home = base.__module__
        return home.startswith(("torch.nn.modules.", "bipointnet.nn.")) and not home.endswith((".module", ".container"))

    def leaf(module: nn.Module) -> bool:
        fused = isinstance(module, (PooledLayer, ConcatLinear, NormalizedLayer))
        return not fused and (any(map(known, type(module).__mro__)) or is_linear(module))

    return {module for module in root.modules() if module is not root and leaf(module)}


class _Symbol(fx.Proxy):
    """A symbol for a tensor: `hasattr(x, "keys")` is False, by which networks tell tensors from dictionaries."""

    @property
    def keys(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise AttributeError("keys")


class _Tracer(fx.Tracer):
    def __init__(self, leaves: set[nn.Module]) -> None:
        super().__init__()
        self.leaves = leaves
        self.running: list[
            tuple[nn.Module, int]
        ] = []  # the modules whose forward is running, and the number of the run
        self.runs = 0

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return m in self.leaves

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Symbol(node, self)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        if m in self.leaves:
            return super().call_module(m, forward, args, kwargs)
        self.runs += 1
        self.running.append((m, self.runs))
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.running.pop()

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        if node.op.startswith("call"):
            owner, run = self.running[-1] if self.running else (self.root, 0)
            stop = runs_forward(owner) if self.running else self._is_trace
            called = call_name(node) or str(node.target)
            node.meta["site"] = Site(self.path_of_module(owner) if self.running else "", run, called, chain_to(stop))
        return node

    def _is_trace(self, frame: FrameType) -> bool:
        return frame.f_code.co_name == "trace" and frame.f_locals.get("self") is self

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        made = super().create_args_for_root(root_fn, is_module, concrete_args)
        inside = {child for leaf in self.leaves for child in leaf.modules()}
        for name, module in self.root.named_modules():
            if module not in inside:
                flag = self.create_proxy("get_attr", f"{name}.training".lstrip("."), (), {})
                module.__dict__["training"] = flag
        return made

    def to_bool(self, obj: fx.Proxy) -> bool:
        if isinstance(obj, Attribute) and obj.attr == "is_cuda":
            return False
        return super().to_bool(obj)


Location = tuple[dict[str, Any], str]  # a namespace and a name in it


@contextmanager
def _functions_recorded(tracer: _Tracer, locations: list[Location]) -> Iterator[None]:
    """Functions at these locations are recorded as one call if an argument is a symbol."""

    def recorder(function: Callable[..., Any], opaque: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not any(isinstance(leaf, fx.Proxy) for leaf in tree_leaves((args, kwargs))):
                return function(*args, **kwargs)
            proxy = tracer.create_proxy("call_function", function, args, kwargs)
            if opaque:
                proxy.node.meta["opaque"] = inspect.unwrap(function).__code__.co_names
            return proxy

        return call

    makers = [(torch.__dict__, name) for name in MAKERS]
    originals = [(space, name, space[name]) for space, name in (*makers, *locations)]
    with ExitStack() as stack:
        for i, (space, name, function) in enumerate(originals):
            stack.callback(space.__setitem__, name, function)
            space[name] = recorder(function, opaque=i >= len(makers))
        yield


def trace(root: nn.Module) -> TracedNetwork:
    """Trace `root`, which this modifies; raise Untraceable if it fails."""
    root.eval()
    leaves, locations, opaque = leaf_modules(root), [], []
    parameters = inspect.signature(root.forward).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty and not isinstance(p.default, Tensor)}
    while True:
        tracer = _Tracer(leaves)
        try:
            with torch.random.fork_rng(devices=[]), _functions_recorded(tracer, locations):
                graph = tracer.trace(root, defaults)
            break
        except Exception as error:
            name = _make_opaque(error, root, leaves, locations)
            if name is None:
                raise Untraceable(_reason(error)) from error
            opaque.append(name)
        finally:
            for module in root.modules():
                module.__dict__["training"] = False
    return TracedNetwork(root, graph, opaque)


def _user_frames(frames: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Frames outside PyTorch and this file, with their line numbers."""
    homes = ((frame, line, frame.f_globals.get("__name__", "")) for frame, line in frames)
    return [(frame, line) for frame, line, home in homes if home != __name__ and home.split(".")[0] != "torch"]


def _reason(error: BaseException) -> str:
    message = re.split(r"\.\s|\n", str(error).strip())[0] or type(error).__name__  # its first sentence
    frames = _user_frames(traceback.walk_tb(error.__traceback__))
    if not frames:
        return f"torch.fx stops ({message})"
    file, line = frames[-1][0].f_code.co_filename, frames[-1][1]
    return f"torch.fx stops at {file}:{line}, `{linecache.getline(file, line).strip()}` ({message})"


def _make_opaque(
    error: BaseException, root: nn.Module, leaves: set[nn.Module], locations: list[Location]
) -> str | None:
    """Find the function or module in which a trace failed and record it as one call from now on; return its name.

    It is the innermost one of the user's own package, or the first one of another package that is called from there.
    None if it has layers or calls a rectifier, which must stay visible, or if it has been tried before.
    """
    culprit: Any = None
    package = ""
    frames = [frame for frame, _ in _user_frames(traceback.walk_tb(error.__traceback__))]
    for frame in frames:
        home, name = frame.f_globals.get("__name__", "").split(".")[0], frame.f_code.co_name
        owner, function = frame.f_locals.get("self"), frame.f_globals.get(name)
        if isinstance(owner, nn.Module) and name == "forward":
            culprit = None if owner is root or [*owner.children(), *owner.parameters()] else owner
            package = home
        elif isinstance(function, FunctionType) and inspect.unwrap(function).__code__ is frame.f_code:
            culprit = function
            if home != package:
                break
    code = inspect.unwrap(culprit.forward if isinstance(culprit, nn.Module) else culprit).__code__ if culprit else None
    if code is None or any(name.lower().rstrip("_6").endswith(RECTIFIERS) for name in code.co_names):
        return None
    if isinstance(culprit, nn.Module):
        tried = culprit in leaves
        leaves.add(culprit)
        return None if tried else type(culprit).__name__
    known = {(id(space), name) for space, name in locations}
    spaces = {id(frame.f_globals): frame.f_globals for frame in frames}.values()
    found = [(space, name) for space in spaces for name, value in space.items() if value is culprit]
    found = [(space, name) for space, name in found if (id(space), name) not in known]
    locations.extend(found)
    return culprit.__name__ if found else None
