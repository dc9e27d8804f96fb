"""Context managers that observe a network while it runs, or change its state for a while."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def hooked(modules: Mapping[str, nn.Module], see: Callable[[str, nn.Module, Tensor, Tensor], Any]) -> Iterator[None]:
    """Call see(name, module, input, output) after every run of one of `modules`.

    If `see` returns a tensor, it replaces the output.
    """

    def hook(name: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Any:
        return see(name, module, inputs[0], output)

    hooks = [module.register_forward_hook(functools.partial(hook, name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


@contextmanager
def preserved_modes(model: nn.Module) -> Iterator[None]:
    """Give every module its own mode (train or eval) back at the end.

    `model.train(mode)` would put frozen layers, which are in eval mode inside a training network, into train mode.
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
