"""Looking at what layers read and leave while a network runs."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def hooked(modules: Mapping[str, nn.Module], see: Callable[[str, nn.Module, Tensor, Tensor], Any]) -> Iterator[None]:
    """Call see(name, module, input, output) whenever one of `modules` has run; what it returns replaces the output."""

    def hook(name: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Any:
        return see(name, module, inputs[0], output)

    hooks = [module.register_forward_hook(functools.partial(hook, name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()
