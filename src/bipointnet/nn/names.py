"""Names of methods and pools, resolved to objects: "lsr" is METHODS["lsr"], "ema-max" is POOLS["ema-max"]().

"package.module:Class" is a method of your own.
"""

import difflib
import importlib
from collections.abc import Iterable
from typing import Any

from torch import nn

from bipointnet.errors import UserError
from bipointnet.nn.methods import METHODS, Method
from bipointnet.nn.pools import POOLS


def as_method(method: Method | str, caller: str) -> Method:
    """The method itself, the method of this name, or of this class; `caller` starts the error message."""
    if isinstance(method, Method):
        return method
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]
    if isinstance(method, str) and ":" in method:
        return _imported_method(method, caller)
    raise unknown(caller, "method", method, "a Method such as LSR()", METHODS)


def _imported_method(name: str, caller: str) -> Method:
    """The method `package.module:Class`, made without arguments."""
    module_name, _, class_name = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except ModuleNotFoundError as error:
        raise UserError(
            f"{caller}: method is {name!r}, but there is no module {error.name!r}; expected package.module:Class; add "
            "the folder of the package to PYTHONPATH"
        ) from error
    except AttributeError as error:
        raise UserError(
            f"{caller}: method is {name!r}, but the module {module_name!r} has no {class_name!r}; expected a class"
        ) from error
    except (ImportError, ValueError, TypeError, SyntaxError) as error:
        raise UserError(
            f"{caller}: method is {name!r}, which cannot be imported ({error}); correct the module"
        ) from error
    try:
        made = found() if isinstance(found, type) else found
    except TypeError as error:
        raise UserError(
            f"{caller}: method is {name!r}, which cannot be created without arguments ({error}); give all its "
            "arguments default values"
        ) from error
    if not isinstance(made, Method):
        raise UserError(
            f"{caller}: method is {name!r}, found {type(made).__name__}; expected a subclass of bipointnet.Method"
        )
    return made


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
