"""Names of methods and pools, resolved to objects: "lsr" is METHODS["lsr"], "ema-max" is POOLS["ema-max"]()."""

import difflib
from collections.abc import Iterable
from typing import Any

from torch import nn

from bipointnet.errors import UserError
from bipointnet.nn.methods import METHODS, Method
from bipointnet.nn.pools import POOLS


def as_method(method: Method | str, caller: str) -> Method:
    """The method itself, or the method of this name; `caller` starts the error message."""
    if isinstance(method, Method):
        return method
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]
    raise unknown(caller, "method", method, "a Method such as LSR()", METHODS)


def as_pool(pool: nn.Module | str, caller: str) -> nn.Module:
    """The pool itself, or a new pool of this name; `caller` starts the error message."""
    if isinstance(pool, nn.Module):
        return pool
    if isinstance(pool, str) and pool in POOLS:
        return POOLS[pool]()
    raise unknown(caller, "pool", pool, "a pool of bipointnet.nn such as EntropyMax()", POOLS)


def unknown(caller: str, argument: str, found: Any, example: str, names: Iterable[str]) -> UserError:
    """An error that says what was found, what is expected, and which name is closest."""
    close = difflib.get_close_matches(str(found), list(names), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return UserError(f"{caller}: {argument} is {found!r}, expected {example} or one of {', '.join(names)}{hint}")
