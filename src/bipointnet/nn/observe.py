"""Functions whose meaning export knows: while it records a network, it sees each of their calls as one."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Observer = Callable[[Any, Any, Any], Any]
_observers: list[Observer] = []
Function = TypeVar("Function", bound=Callable)


def observed(function: Function) -> Function:
    """Let the innermost observer make the calls of a function."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _observers[-1](function, args, kwargs) if _observers else function(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call observer(function, args, kwargs) instead of each observed function."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.pop()
