"""The method of each layer: one for all, or by patterns of names."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from bipointnet.errors import UserError
from bipointnet.nn.methods import Method
from bipointnet.nn.names import as_method

Methods = Method | str | Mapping[str, Method | str]


def method_of_each(methods: Methods, names: Iterable[str]) -> dict[str, Method | str]:
    """The method of each layer, or the reason why it stays float.

    The first pattern that matches the name of a layer counts. "fp" is no binarization.
    """
    names = list(names)
    if not isinstance(methods, Mapping):
        method = as_method(methods, "binarize")
        return dict.fromkeys(names, method)
    chosen: dict[str, Method | str] = {}
    for pattern, method in methods.items():
        found = None if method == "fp" else as_method(method, f"binarize: method[{pattern!r}]")
        matched = [name for name in names if fnmatchcase(name, pattern)]
        if not matched:
            raise _no_layer(f"method has the pattern {pattern!r}, which", names)
        if pattern != "*" and all(name in chosen for name in matched):
            raise UserError(
                f"binarize: method has the pattern {pattern!r}, but earlier patterns match all of its layers, expected "
                "special patterns before general ones; move it to the front"
            )
        for name in matched:
            chosen.setdefault(name, found or f'method is "fp" for {pattern!r}')
    return {name: chosen.get(name, "no pattern of method matches it") for name in names}


def excluded(patterns: Iterable[str], names: Iterable[str]) -> set[str]:
    """The layers that `exclude` names."""
    names, found = list(names), set()
    for pattern in patterns:
        matched = {name for name in names if fnmatchcase(name, pattern)}
        if not matched:
            raise _no_layer(f"exclude={pattern!r}", names)
        found |= matched
    return found


def _no_layer(what: str, names: list[str]) -> UserError:
    return UserError(
        f"binarize: {what} names no layer, expected one of {', '.join(names) or 'none'}; "
        'give a name or a pattern such as "encoder.*"'
    )
