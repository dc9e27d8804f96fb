"""Record what a network does on one cloud: every operation, its tensors, and the line of code that called it.

A dispatch mode sees PyTorch's own operations ("aten"), below all layers, functions and methods, so it does not matter
in which style a network is written. Three things are recorded as one call each, because their meaning is known: 1-bit
layers, pools of `bipointnet.nn`, and the neighbor searches of `bipointnet.nn.geometry`.

A tensor that changes in place is a new value afterwards. If it changes through a view of it, the call that reads it
next gets a value that stands for "what is in this memory now".
"""

import contextlib
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from bipointnet.nn import BinaryLinear, MaxPool, MeanPool, MeasuredMax, ScatterPool
from bipointnet.nn.observe import observing
from bipointnet.packing.float64 import in_float64

# Make tensors of the size and type of another, whose numbers do not matter.
MAKERS = {f"aten.{kind}_like" for kind in ("zeros", "ones", "full", "empty", "rand", "randn")}
MAKERS |= {f"aten.new_{kind}" for kind in ("zeros", "ones", "full", "empty")}
POOL_FORWARDS = (MaxPool.forward, MeanPool.forward, MeasuredMax.forward)


def leaves(tree: Any) -> list[Any]:
    """What tuples, lists and dictionaries hold, in order. (PyTorch's function for any tree takes ten times as long.)"""
    if isinstance(tree, (tuple, list)):
        return [leaf for one in tree for leaf in leaves(one)]
    if isinstance(tree, dict):
        return [leaf for one in tree.values() for leaf in leaves(one)]
    return [tree]


@dataclass(eq=False)
class Value:
    """A tensor at one moment of a run.

    data: the tensor; None in runs that keep shapes only. call: the call that made it, None for inputs, parameters and
    constants. sources: numbers of the inputs that it depends on. changes: how often its memory was changed before.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    data: Tensor | None
    call: "Call | None" = None
    output: int = 0
    sources: frozenset[int] = frozenset()
    changes: int = 0
    name: str = ""

    def __repr__(self) -> str:  # values and calls refer to each other, so fields of fields would be endless
        maker = self.call.name if self.call else self.name or "constant"
        return f"<Value {tuple(self.shape)} of {maker}>"

    @property
    def depends(self) -> bool:
        """Whether it depends on the inputs."""
        return bool(self.sources)

    @property
    def integer(self) -> bool:
        return not self.dtype.is_floating_point


@dataclass(eq=False)
class Call:
    """One recorded operation. args and kwargs hold a Value for each tensor.

    name: "aten.relu", "geometry.nearest", "layer" (a 1-bit layer), "pool", "scatter_pool", "aliased" (memory that was
    changed through a view), or "replaced.ball" for a function of the user. function: what was called; a module for
    layers and pools. module: the name of the innermost module whose forward makes the call. place: file and line. key:
    identifies the same call in another run. order: its number.
    """

    name: str
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: str
    place: tuple[str, int]
    key: tuple[Any, ...]
    order: int
    outputs: list[Value] = field(default_factory=list)
    random: bool = False

    def __repr__(self) -> str:
        return f"<Call {self.order}: {self.name} at {self.place[0]}:{self.place[1]}>"

    @property
    def inputs(self) -> list[Value]:
        return [leaf for leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Value)]

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """An argument that may be given by place or by name."""
        args: Any = self.args
        return args[place] if place < len(args) else self.kwargs.get(name, default)

    def where(self) -> str:
        """The module, the line and its text, as the start of an error message."""
        file, line = self.place
        text = linecache.getline(file, line).strip()
        quoted = f", `{text}`" if text else ""
        at = f" ({file}:{line}{quoted})" if file else ""
        return f"{self.module or 'the network'}{at}"


@dataclass(eq=False)
class Run:
    """The calls of one run, in order; its inputs and its output."""

    points: int
    inputs: list[Value]
    calls: list[Call]
    output: Any = None  # the network's output, with a Value for each tensor

    def release(self) -> None:
        """Drop all tensors now: calls and values refer to each other, so they would wait for the garbage collector."""
        for call in self.calls:
            for value in call.outputs:
                value.data = None

    def by_key(self) -> dict[tuple[Any, ...], list[Call]]:
        found: dict[tuple[Any, ...], list[Call]] = {}
        for call in self.calls:
            found.setdefault(call.key, []).append(call)
        return found


class Recorder(TorchDispatchMode):
    """Records the calls of one run of `root`; `keep` says whether to keep the tensors, or only their shapes."""

    def __init__(self, root: nn.Module, inputs: list[Tensor], points: int, keep: bool) -> None:
        super().__init__()
        self.keep, self.suspended = keep, 0
        self.names = {module: name for name, module in root.named_modules()}
        self.stack: list[str] = [""]
        self.changes: dict[int, list[Call]] = {}  # by storage: the calls that changed it
        self.keepalive: list[Tensor] = []
        for name, tensor in (*root.named_parameters(), *root.named_buffers()):
            self._assign(tensor, Value(tuple(tensor.shape), tensor.dtype, tensor, name=name))
        given = [
            Value(tuple(x.shape), x.dtype, x, sources=frozenset([i]), name=f"input {i}") for i, x in enumerate(inputs)
        ]
        for tensor, value in zip(inputs, given, strict=True):
            self._assign(tensor, value)
        self.run = Run(points, given, [])

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, because skipping it imports torch._dynamo, which takes 2 to 4 s."""
        return False

    # Calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.suspended:
            return func(*args, **kwargs)
        name = func.name().split(".")[0].replace("::", ".")
        if name == "aten.detach":  # PyTorch calls it on its own, depending on who holds a tensor
            output = func(*args, **kwargs)
            self._assign(output, self._value(args[0]))
            return output
        lifted = self._lift((args, kwargs))
        written = _written(func, args)
        if self.keep:
            for tensor in written:
                self._value(tensor).data = tensor.clone()
        output = func(*args, **kwargs)
        call = self._call(name, func, lifted[0], lifted[1], leaves(output))
        call.random = torch.Tag.nondeterministic_seeded in func.tags
        for tensor in written:
            self.changes.setdefault(_memory(tensor), []).append(call)
            if any(tensor is leaf for leaf in leaves(output)):
                self._assign(tensor, tensor._recorded[1])  # pyright: ignore[reportAttributeAccessIssue]
            else:
                self._result(call, tensor)
        return output

    def observe(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a function and record it as one call."""
        if self.suspended:
            return function(*args, **kwargs)
        lifted = self._lift((args, kwargs))
        self.suspended += 1
        try:
            with _disable_current_modes():
                output = function(*args, **kwargs)
        finally:
            self.suspended -= 1
        self._call(name, function, lifted[0], lifted[1], leaves(output))
        return output

    def _call(self, name: str, function: Any, args: Any, kwargs: Any, results: list[Any]) -> Call:
        frames = _frames()
        place = next((frame[:2] for frame in frames if not frame[2]), frames[0][:2] if frames else ("", 0))
        key = (name, self.stack[-1], tuple(frame[:2] for frame in frames))
        call = Call(name, function, args, kwargs, self.stack[-1], place, key, len(self.run.calls))
        self.run.calls.append(call)
        for result in results:
            if isinstance(result, Tensor):
                self._result(call, result)
        return call

    def _result(self, call: Call, tensor: Tensor) -> None:
        inputs = [] if call.name in MAKERS else call.inputs
        sources = frozenset[int]().union(*(value.sources for value in inputs))
        data = tensor if self.keep else None
        value = Value(tuple(tensor.shape), tensor.dtype, data, call, len(call.outputs), sources)
        call.outputs.append(value)
        self._assign(tensor, value)

    # Modules

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.stack.append(self.names.get(module, ""))
        if _is_leaf(module):
            self.suspended += 1

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if _is_leaf(module):
            self.suspended -= 1
            if not self.suspended and output is not None:
                lifted = self._lift((args, kwargs))
                kinds = {"layer": BinaryLinear, "scatter_pool": ScatterPool}
                name = next((name for name, kind in kinds.items() if isinstance(module, kind)), "pool")
                self._call(name, module, lifted[0], lifted[1], leaves(output))
        self.stack.pop()

    # Values

    def _assign(self, tensor: Tensor, value: Value) -> None:
        value.changes = len(self.changes.get(_memory(tensor), ()))
        tensor._recorded = (self, value)  # pyright: ignore[reportAttributeAccessIssue]

    def _value(self, tensor: Tensor) -> Value:
        recorder, value = getattr(tensor, "_recorded", (None, None))
        if recorder is not self or value is None:  # made outside of the mode, for example by NumPy
            value = Value(tuple(tensor.shape), tensor.dtype, tensor, name="constant")
            self.keepalive.append(tensor)
            self._assign(tensor, value)
        elif value.changes != len(self.changes.get(_memory(tensor), ())):
            value = self._aliased(tensor, value)
        return value

    def _aliased(self, tensor: Tensor, before: Value) -> Value:
        """The value of a tensor whose memory was changed through a view."""
        changes = self.changes[_memory(tensor)][before.changes :]
        read = (before, *(value for change in changes for value in change.inputs))
        call = self._call("aliased", None, read, {}, [])
        call.place, call.module = changes[-1].place, changes[-1].module
        sources = frozenset[int]().union(*(value.sources for value in read))
        with _disable_current_modes():  # runs that keep shapes only do not copy, and all must record the same calls
            data = tensor.clone() if self.keep else None
        value = Value(tuple(tensor.shape), tensor.dtype, data, call, 0, sources)
        call.outputs.append(value)
        self._assign(tensor, value)
        return value

    def _lift(self, tree: Any) -> Any:
        """Arguments with a Value for each tensor."""
        if isinstance(tree, Tensor):
            return self._value(tree)
        kind = type(tree)
        if kind is tuple or kind is list:
            return kind([self._lift(one) for one in tree])
        if isinstance(tree, dict):
            return {name: self._lift(one) for name, one in tree.items()}
        if isinstance(tree, tuple):  # a named one
            return kind(*(self._lift(one) for one in tree))
        return tree

    def finish(self, output: Any) -> Run:
        """The complete run."""
        known = isinstance(output, (Tensor, tuple, list, dict))
        self.run.output = self._lift(output if known or not hasattr(output, "__dict__") else dict(vars(output)))
        return self.run


def _memory(tensor: Tensor) -> int:
    """Identifies the memory of a tensor, which its views share."""
    return tensor.untyped_storage()._cdata


def _is_leaf(module: nn.Module) -> bool:
    return isinstance(module, (BinaryLinear, ScatterPool)) or type(module).forward in POOL_FORWARDS


def _written(func: Any, args: tuple[Any, ...]) -> list[Tensor]:
    """The tensors that an operation changes in place."""
    if not func._schema.is_mutable:
        return []
    pairs = zip(func._schema.arguments, args, strict=False)
    return [a for s, a in pairs if s.alias_info is not None and s.alias_info.is_write and isinstance(a, Tensor)]


def _frames() -> list[tuple[str, int, bool]]:
    """File and line of the calling frames outside PyTorch and this file, the innermost first.

    The third entry says whether the frame belongs to this library.
    """
    found = []
    frame = sys._getframe(2)
    while frame is not None:
        home = frame.f_globals.get("__name__", "")
        package = home.split(".")[0]
        if home == "bipointnet.packing.runs":
            break
        if package not in ("torch", "contextlib") and home not in (__name__, in_float64.__module__):
            found.append((frame.f_code.co_filename, frame.f_lineno, package == "bipointnet"))
        frame = frame.f_back
    return found


@contextlib.contextmanager
def _replaced(recorder: Recorder, functions: Mapping[Callable[..., Any], str]) -> Iterator[None]:
    """Functions of the user, wherever a module refers to them, are recorded as one call."""
    with contextlib.ExitStack() as stack:
        for function, operation in functions.items():

            def call(*args: Any, _function: Any = function, _name: str = operation, **kwargs: Any) -> Any:
                return recorder.observe(f"replaced.{_name}", _function, args, kwargs)

            spaces = [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
            for space in spaces:
                for name in [name for name, value in list(space.items()) if value is function]:
                    stack.callback(space.__setitem__, name, function)
                    space[name] = call
        yield


def _without_product(layer: BinaryLinear) -> Callable[[Tensor], Tensor]:
    """The forward of a 1-bit layer in a run that keeps shapes only: zeros. Its product takes most of the time."""

    def forward(x: Tensor) -> Tensor:
        layer.keep_input(x)
        places = getattr(layer, "places", 0)
        z = layer.product(x.to("meta").movedim(-1 - places, -1), layer.weight.to("meta")).movedim(-1, -1 - places)
        return x.new_zeros(z.shape)

    return forward


@contextlib.contextmanager
def _fast(root: nn.Module, keep: bool) -> Iterator[None]:
    """Without the products of 1-bit layers, unless tensors are kept."""
    changed = [] if keep else [module for module in root.modules() if isinstance(module, BinaryLinear)]
    try:
        for layer in changed:
            layer.forward = _without_product(layer)  # pyright: ignore[reportAttributeAccessIssue]
        yield
    finally:
        for layer in changed:
            del layer.forward


def record(
    root: nn.Module, inputs: list[Tensor], points: int, keep: bool, replace: Mapping[Callable[..., Any], str]
) -> Run:
    """Run `root` on the inputs, one cloud with so many points, and record it."""
    recorder = Recorder(root, inputs, points, keep)
    hooks: list[Any] = []
    for module in root.modules():
        hooks.append(module.register_forward_pre_hook(recorder.enter, with_kwargs=True))
        hooks.append(module.register_forward_hook(recorder.leave, with_kwargs=True, always_call=True))

    def observe(function: Any, args: Any, kwargs: Any) -> Any:
        return recorder.observe(f"{function.__module__.rpartition('.')[2]}.{function.__name__}", function, args, kwargs)

    try:
        with (
            torch.no_grad(),
            in_float64(),
            _fast(root, keep),
            _replaced(recorder, replace),
            observing(observe),
            recorder,
        ):
            output = root(*inputs)
        return recorder.finish(output)
    finally:
        for hook in hooks:
            hook.remove()
