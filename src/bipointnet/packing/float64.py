"""Runs of a network in float64, in which every number of the program is compared with PyTorch's."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Wider(TorchDispatchMode):
    """`x.float()` and dtype=torch.float32 in a forward give float64 too."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("dtype") is torch.float32:
            kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


@contextlib.contextmanager
def _one_distance() -> Iterator[None]:
    """torch.cdist makes other calls for more than 25 points; here it makes the same for all."""
    functions: Any = torch.functional._VF  # pyright: ignore[reportPrivateImportUsage]
    original = functions.cdist
    functions.cdist = lambda a, b, p, mode: original(a, b, p, 2 if mode is None else mode)
    try:
        yield
    finally:
        functions.cdist = original


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Tensors that a forward makes are float64, such as torch.eye(3) and torch.ones(n)."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _one_distance(), _Wider():
            yield
    finally:
        torch.set_default_dtype(before)
