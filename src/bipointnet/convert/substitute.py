"""A network whose own forward runs unchanged, while some of the functions and modules that it calls are substituted.

`substitute` gives the modules that make such calls a subclass of their class. Its forward runs the forward of the class
and lets a torch function mode replace the result of each call whose site is in a table. So the network keeps its class,
methods, branches and hooks; it can be copied and pickled, because the table holds plain data; and it works for forwards
that torch.fx cannot trace.
"""

import functools
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bipointnet.convert.sites import Chain, called_name, chain_to, in_checkpoint
from bipointnet.errors import UserError
from bipointnet.nn.scatter import ScatterPool

TABLE = "_substituted_calls"  # the attribute of a module that holds its table


@dataclass(frozen=True)
class Change:
    """What becomes of one call.

    kind: "keep", "identity", "hardtanh" or "pool". module: for a pool, the name of a module in the owner of the site;
    for a call of a module, the name of the alternative in its PerCall. inplace: of Hardtanh. indices: whether the
    network reads the indices of a maximum.
    """

    kind: str
    module: str = ""
    inplace: bool = False
    indices: bool = False


@dataclass(frozen=True)
class CallTable:
    """The changes of one module's calls, by the name of what is called and the chain of its site, in their order.

    A site in a loop is called several times. If all its changes are equal, the loop may have any length.
    """

    changes: dict[tuple[str, Chain], tuple[Change, ...]]

    @functools.cached_property
    def names(self) -> set[str]:
        return {name for name, _ in self.changes}

    @functools.cached_property
    def digests(self) -> dict[str, set[str]]:
        """The digests of each function on a chain."""
        found: dict[str, set[str]] = {}
        for _, chain in self.changes:
            for step in chain:
                found.setdefault(step.function, set()).add(step.digest)
        return found


class _Run:
    """One run of the forward of a module with a table."""

    def __init__(self, owner: nn.Module, table: CallTable) -> None:
        self.owner, self.table = owner, table
        self.calls: Counter[tuple[str, Chain]] = Counter()

    def next_change(self, name: str) -> Change | None:
        """The change of the call that is being made; None if its site is not in the table."""
        chain = chain_to(_is_substituted_forward)
        changes = self.table.changes.get((name, chain))
        if changes is None:
            self._require_known_code(chain)
            return None
        if in_checkpoint(_is_substituted_forward):  # backward computes it again, outside of this forward
            raise UserError(
                f"binarized network: {type(self.owner).__name__} calls {name} in a function that torch.utils."
                "checkpoint runs, expected a module, because gradients of the function would be wrong; checkpoint a "
                "module instead"
            )
        number = self.calls[name, chain]
        self.calls[name, chain] += 1
        if len(set(changes)) == 1:
            return changes[0]
        if number >= len(changes):
            raise self._unlike_example(name, changes, number + 1)
        return changes[number]

    def require_complete(self) -> None:
        """Raise UserError if a loop ended before the call that has a change of its own."""
        for (name, chain), count in self.calls.items():
            changes = self.table.changes[name, chain]
            if len(set(changes)) > 1 and count != len(changes):
                raise self._unlike_example(name, changes, count)

    def _unlike_example(self, name: str, changes: tuple[Change, ...], found: int) -> UserError:
        return UserError(
            f"binarized network: {type(self.owner).__name__} calls {name} {found} times in a loop, expected "
            f"{len(changes)} as when it was binarized; binarize again with this batch as example="
        )

    def _require_known_code(self, chain: Chain) -> None:
        for step in chain:
            known = self.table.digests.get(step.function)
            if known is not None and step.digest not in known:
                raise UserError(
                    f"binarized network: the code of {step.function} is not the code that was binarized; load the "
                    "network with that code, or binarize again and load the state_dict()"
                )


class _Running(threading.local):
    def __init__(self) -> None:
        self.runs: list[_Run] = []


_running = _Running()


class _Substitution(TorchFunctionMode):
    """Replaces function calls while modules with tables run."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, run, name = kwargs or {}, _running.runs[-1], called_name(func)
        change = run.next_change(name) if name in run.table.names else None
        if change is None or change.kind == "keep":
            return func(*args, **kwargs)
        if change.kind == "identity":
            return args[0]
        if change.kind == "hardtanh":
            return F.hardtanh(args[0], inplace=change.inplace)
        return _pooled(func, run.owner.get_submodule(change.module), change, args, kwargs)


def _pooled(func: Any, pool: nn.Module, change: Change, args: Any, kwargs: Any) -> Any:
    if isinstance(pool, ScatterPool):
        return pool.reduce(func, args, kwargs)
    name, x = called_name(func), args[0] if args else kwargs["input"]
    if name == "max":  # returns values and indices
        return _Maximum(pool(x), func(*args, **kwargs).indices if change.indices else None)
    if name.startswith(("max_pool", "avg_pool")):  # the windows may depend on the input
        window = args[1] if len(args) > 1 else kwargs["kernel_size"]
        rank = int(name[-2])
        return pool(x, tuple(window) if isinstance(window, (tuple, list)) else (window,) * rank)
    return pool(x)


class _Maximum(tuple[Tensor, Tensor | None]):
    """Values and indices, as torch.max returns them."""

    values: Tensor = property(lambda self: self[0])  # pyright: ignore
    indices: Tensor | None = property(lambda self: self[1])  # pyright: ignore

    def __new__(cls, values: Tensor, indices: Tensor | None) -> "_Maximum":
        return super().__new__(cls, (values, indices))


class PerCall(nn.Module):
    """A module that the network calls at several places, and that became different modules there."""

    def __init__(self, name: str, original: nn.Module, alternatives: dict[str, nn.Module]) -> None:
        super().__init__()
        self.name, self.original = name, original
        for key, module in alternatives.items():
            self.add_module(key, module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        change = _running.runs[-1].next_change(self.name) if _running.runs else None
        module = self.original if change is None or change.kind == "keep" else self.get_submodule(change.module)
        return module(*args, **kwargs)


class Substituted:
    """Base of the subclasses that `substitute` makes."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        make, (_, *arguments), *rest = super().__reduce_ex__(protocol)  # copyreg.__newobj__, (class, ...), state
        return _remade, (type(self).__mro__[2], make, *arguments), *rest


def _remade(base: type[nn.Module], make: Any, *arguments: Any) -> Any:
    return make(substituted_class(base), *arguments)


@functools.cache
def substituted_class(base: type[nn.Module]) -> type[nn.Module]:
    """The subclass of `base` that substitutes calls; it has the same name."""

    @functools.wraps(base.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        run = _never_compiled() if "torch._dynamo" in sys.modules else _forward
        return run(functools.partial(base.forward, self), self, self.__dict__.get(TABLE), args, kwargs)

    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    metaclass: Any = type(base)
    return metaclass(base.__name__, (Substituted, base), {**names, "forward": forward})


def _forward(plain: Any, owner: nn.Module, table: CallTable | None, args: Any, kwargs: Any) -> Any:
    if table is None:  # such as a slice of an nn.Sequential
        return plain(*args, **kwargs)
    run = _Run(owner, table)
    outermost = not _running.runs
    _running.runs.append(run)
    try:
        if outermost:
            with _Substitution():
                output = plain(*args, **kwargs)
        else:
            output = plain(*args, **kwargs)
    finally:
        _running.runs.pop()
    run.require_complete()
    return output


_uncompiled: list[Any] = []


def _never_compiled() -> Any:
    """`_forward` outside of torch.compile, which replaces frames, and so the sites.

    Importing torch._dynamo takes seconds, so this is called only where it is there already.
    """
    if not _uncompiled:
        _uncompiled.append(torch.compiler.disable(_forward))
    return _uncompiled[0]


def _is_substituted_forward(frame: FrameType) -> bool:
    return frame.f_code is _forward.__code__


def substitute(module: nn.Module, table: CallTable) -> None:
    """Let `module` substitute calls from now on."""
    if "forward" in vars(module):
        raise UserError(
            f"binarize: the forward of {type(module).__name__} was replaced on the instance, expected the forward of "
            "its class; define a subclass"
        )
    vars(module)[TABLE] = table
    module.__class__ = substituted_class(type(module))
