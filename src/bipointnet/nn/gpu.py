"""Where the kernels of the modules *_gpu run: on a GPU, if Triton is installed."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def runs_kernels(x: Tensor) -> bool:
    """Whether kernels can run on x. torch.compile has kernels of its own."""
    return not torch.compiler.is_compiling() and x.is_cuda and _has_triton()
