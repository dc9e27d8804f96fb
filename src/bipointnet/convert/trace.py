"""Following a foreign network: which calls it makes, in which order, and who reads whose result, as a torch.fx graph.

A trace runs the network on symbols. The graph then holds for every input and can be run in place of the network.
torch.fx makes it; what real networks need beside is added here:

- `self.training` is a symbol of its own, so that F.dropout(x, training=self.training) stays what it is;
- tensors made for a symbol's size or device (torch.eye(3, device=x.device)) are recorded;
- a function without layers that cannot be traced (a neighbour search, say) is recorded as one call;
- arguments that have a default keep it, and `if x.is_cuda` is answered no: tensors made in a forward become buffers;
- with an example, a branch on a shape goes the example's way, and the network refuses inputs that would go another.
"""

import copy
import inspect
import linecache
import random
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute, TraceError
from torch.utils._pytree import tree_leaves

from bipointnet.errors import UserError
from bipointnet.nn.fused_pool import fused_layers

RECTIFIERS = ("elu", "silu", "mish", "hardswish", "softplus")
MAKERS = ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros")


@dataclass
class Followed:
    """What is known of a network.

    root: a copy of the network, whose modules `graph` names. obstacle: why the graph cannot be run in its place, or
    None. unseen: functions whose inside is not in the graph.
    """

    root: nn.Module
    graph: fx.Graph
    obstacle: str | None = None
    unseen: list[str] = field(default_factory=list)


class Untraceable(Exception):
    """Why a network cannot be traced, in words that end a sentence."""


def is_linear(module: nn.Module) -> bool:
    """Whether the module computes F.linear(x, weight, bias) or a plain convolution, and nothing else.

    Asked of its behaviour, not of its class: torch_geometric's Linear is one, a masked nn.Linear is none.
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
    except Exception:  # whatever it is, it does not take what a linear layer takes
        return False


def call_name(node: fx.Node) -> str:
    """What a node calls, the same for torch.relu, F.relu and x.relu_(): "relu"; "" for modules and opaque functions."""
    if node.op == "call_method":
        return str(node.target).strip("_")
    if node.op == "call_function" and "opaque" not in node.meta:
        return getattr(node.target, "__name__", "").strip("_")
    return ""


def scope(node: fx.Node) -> str:
    """The name of the module whose forward makes the call; "" for the network itself."""
    return next(reversed(node.meta.get("nn_module_stack") or [""]))


def same_way(condition: Any, expected: bool, place: str) -> None:
    """Stands in a traced network for a branch that was taken on the example's shape."""
    if bool(condition) != expected:
        raise UserError(
            f"binarized network: this input takes another way at {place} than the example did; "
            "expected inputs of the same kind; binarize again with such a batch as example="
        )


def copied(model: nn.Module) -> nn.Module:
    try:
        model = copy.deepcopy(model)
    except Exception as error:
        raise UserError(
            f"binarize: {type(model).__name__} cannot be copied ({error}); expected a network that copy.deepcopy "
            "takes; clear tensors that a forward has left on its modules"
        ) from error
    for layer in fused_layers(model):
        layer.fused = False  # its parts are to be seen
    return model


def leaf_modules(root: nn.Module) -> set[nn.Module]:
    """Modules that are one call: PyTorch's own but for containers, those derived from them, and linear layers."""

    def known(base: type) -> bool:
        home = base.__module__
        return home.startswith(("torch.nn.modules.", "bipointnet.nn.")) and not home.endswith(
            (".module", ".container", ".fused_pool", ".concat_linear")
        )

    return {m for m in root.modules() if m is not root and (any(map(known, type(m).__mro__)) or is_linear(m))}


class _Tracer(fx.Tracer):
    def __init__(self, leaves: set[nn.Module], example: tuple[Any, ...] | None) -> None:
        super().__init__()
        self.leaves, self.example = leaves, example
        self.values: dict[fx.Node, Any] = {}  # of the example
        self.unsure: set[fx.Node] = set()  # whose value the next run may change: training flags, numbers from data
        self.computing = False  # values, for which modules have to be themselves

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return m in self.leaves

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        return forward(*args, **kwargs) if self.computing else super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Any) -> Any:
        return attr_val if self.computing else super().getattr(attr, attr_val, parameter_proxy_cache)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        if not torch.is_grad_enabled():
            raise TraceError("torch.no_grad() would get lost")
        return super().create_node(*args, **kwargs)

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        made = super().create_args_for_root(root_fn, is_module, concrete_args)
        given = iter(self.example or ())
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(given, node.args[0] if node.args else None)
        inside = {child for leaf in self.leaves for child in leaf.modules()}
        for name, module in self.root.named_modules():
            if module not in inside:
                flag = self.create_proxy("get_attr", f"{name}.training".lstrip("."), (), {})
                module.__dict__["training"] = flag
                self.unsure.add(flag.node)
                self.values[flag.node] = False
        return made

    def to_bool(self, obj: fx.Proxy) -> bool:
        if isinstance(obj, Attribute) and obj.attr == "is_cuda":
            return False
        if self.example is None:
            return super().to_bool(obj)
        value = self._value(obj.node)
        if isinstance(value, Tensor) or obj.node in self.unsure:
            return super().to_bool(obj)
        frame, line = _of_the_user(traceback.walk_stack(None))[0]
        place = f"{frame.f_code.co_filename}:{line}"
        self.create_proxy("call_function", same_way, (obj, bool(value), place), {})
        return bool(value)

    @torch.no_grad()
    def _value(self, wanted: fx.Node) -> Any:
        """The value of a node on the example."""
        self.computing = True
        with torch.random.fork_rng(devices=[]):
            for node in [node for node in self.graph.nodes if node not in self.values]:
                self.values[node] = self._run(node)
                of_data = call_name(node) in ("item", "tolist")
                if of_data or (not isinstance(self.values[node], Tensor) and self.unsure & {*node.all_input_nodes}):
                    self.unsure.add(node)
        self.computing = False
        return self.values[wanted]

    def _run(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
        if node.op == "get_attr":
            owner, _, name = str(node.target).rpartition(".")
            return getattr(self.root.get_submodule(owner), name)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        target: Any = self.root.get_submodule(str(node.target)) if node.op == "call_module" else node.target
        return target(*args, **kwargs)


Place = tuple[dict[str, Any], str]  # a namespace and a name in it


@contextmanager
def _recording(tracer: _Tracer, places: list[Place]) -> Iterator[None]:
    """Functions at these places become one call of the graph when they are given a symbol."""

    def recorder(function: Callable[..., Any], opaque: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not any(isinstance(leaf, fx.Proxy) for leaf in tree_leaves((args, kwargs))):
                return function(*args, **kwargs)
            proxy = tracer.create_proxy("call_function", function, args, kwargs)
            if opaque:
                proxy.node.meta["opaque"] = True
            return proxy

        return call

    makers = [(torch.__dict__, name) for name in MAKERS]
    originals = [(space, name, space[name]) for space, name in (*makers, *places)]
    with ExitStack() as stack:
        for i, (space, name, function) in enumerate(originals):
            stack.callback(space.__setitem__, name, function)
            space[name] = recorder(function, opaque=i >= len(makers))
        yield


def trace(root: nn.Module, example: tuple[Any, ...] | None) -> Followed:
    """Trace `root`, which is then left in a state of its own; raise Untraceable where that fails."""
    modes = {module: module.training for module in root.modules()}
    versions = {name: buffer._version for name, buffer in root.named_buffers()}
    root.eval()
    leaves, places, unseen = leaf_modules(root), [], []
    parameters = list(inspect.signature(root.forward).parameters.values())[len(example or ()) :]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty and not isinstance(p.default, Tensor)}
    while True:
        tracer, drawn = _Tracer(leaves, example), _random_state()
        try:
            with torch.enable_grad(), _recording(tracer, places):
                graph = tracer.trace(root, defaults)
            break
        except Exception as error:
            name = _take_for_one_call(error, root, leaves, places)
            if name is None:
                raise Untraceable(_reason(error)) from error
            unseen.append(name)
        finally:
            for module in modes:
                module.__dict__["training"] = False
    if drawn != _random_state():
        raise Untraceable("it draws random numbers that a trace would freeze")
    stored = [f"self.{k}" for m in root.modules() for k, v in vars(m).items() if isinstance(v, fx.Proxy)]
    stored += [name for name, buffer in root.named_buffers() if buffer._version != versions.get(name)]
    for node in graph.nodes:
        if node.op == "placeholder" and str(node.target).removesuffix("_1") in defaults:
            node.target = str(node.target).removesuffix("_1")  # torch.fx renames arguments that keep their default
    if example is not None and not _agree(root, graph, example):
        raise Untraceable("its trace computes something else on the example than the network does")
    for module, mode in modes.items():
        module.training = mode
    return Followed(root, graph, f"its forward changes {stored[0]}" if stored else None, unseen)


def _random_state() -> tuple[Any, ...]:
    _, key, position, *_ = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().numpy().tobytes(), np.asarray(key).tobytes(), position, random.getstate()


@torch.no_grad()
def tensors(network: nn.Module, example: tuple[Any, ...]) -> list[Tensor]:
    """All tensors that the network returns for the example, in an order of their own."""
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            leaves = tree_leaves(network(*example))
    except Exception as error:
        raise UserError(
            f"binarize: {type(network).__name__} does not run on the example ({type(error).__name__}: {error}); "
            "expected its inputs, a tensor or a tuple of them"
        ) from error
    inside = (value for leaf in leaves if hasattr(leaf, "__dict__") for value in tree_leaves(vars(leaf)))
    return [leaf for leaf in (*leaves, *inside) if isinstance(leaf, Tensor)]


def _agree(root: nn.Module, graph: fx.Graph, example: tuple[Any, ...]) -> bool:
    expected = tensors(root, example)
    try:
        found = tensors(fx.GraphModule(root, graph).eval(), example)
    except UserError:
        return False
    return len(found) == len(expected) and all(map(partial(torch.allclose, equal_nan=True), found, expected))


def _of_the_user(frames: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Frames outside PyTorch and this file, with the lines they are at."""
    homes = ((frame, line, frame.f_globals.get("__name__", "")) for frame, line in frames)
    return [(frame, line) for frame, line, home in homes if home != __name__ and home.split(".")[0] != "torch"]


def _reason(error: BaseException) -> str:
    said = re.split(r"\.\s|\n", str(error).strip())[0] or type(error).__name__  # its first sentence
    frames = _of_the_user(traceback.walk_tb(error.__traceback__))
    if not frames:
        return f"torch.fx stops ({said})"
    file, line = frames[-1][0].f_code.co_filename, frames[-1][1]
    return f"torch.fx stops at {file}:{line}, `{linecache.getline(file, line).strip()}` ({said})"


def _take_for_one_call(
    error: BaseException, root: nn.Module, leaves: set[nn.Module], places: list[Place]
) -> str | None:
    """Find the function or module in which a trace failed and have it recorded as one call; return its name.

    It is the innermost one of the user's own package, or the first one of a foreign package that is called from there.
    None if it has layers or calls a rectifier, which must not go unseen, or if that has been tried already.
    """
    culprit: Any = None
    package = ""
    frames = [frame for frame, _ in _of_the_user(traceback.walk_tb(error.__traceback__))]
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
    known = {(id(space), name) for space, name in places}
    spaces = {id(frame.f_globals): frame.f_globals for frame in frames}.values()
    found = [(space, name) for space in spaces for name, value in space.items() if value is culprit]
    found = [(space, name) for space, name in found if (id(space), name) not in known]
    places.extend(found)
    return culprit.__name__ if found else None
