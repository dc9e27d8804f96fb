"""Where the kernels of the modules *_gpu run: on GPUs for which Triton can compile.

BIPOINTNET_KERNELS=0 in the environment switches them off.
"""

import os
import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

# The bits of +-1 in float16 are those of +-2^-7 in bfloat16: signs need no second copy for gradients.
HALF_AS_BFLOAT = 2.0**7


def runs_kernels(x: Tensor) -> bool:
    """Whether kernels can run on x: not under torch.compile and function transforms, which must see all operations."""
    if torch.compiler.is_compiling() or not x.is_cuda:
        return False
    observed = torch._C._len_torch_dispatch_stack() > 0 or torch._C._are_functorch_transforms_active()
    return not observed and _works(x.device)


@cache
def _works(device: torch.device) -> bool:
    """Whether Triton is there and can compile, for which it needs a C compiler and a GPU that it knows."""
    if os.environ.get("BIPOINTNET_KERNELS") == "0" or find_spec("triton") is None:
        return False
    try:
        from bipointnet.nn import nearest_gpu

        cloud = torch.zeros(1, 1, 3, dtype=torch.float64, device=device)
        return nearest_gpu.smallest_keys(cloud, cloud, 1, 0).item() == 0
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        warnings.warn(f"Triton cannot run kernels on {device} ({reason}); training there is slower", stacklevel=2)
        return False


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Run a kernel on the device of its first argument, a tensor. (Triton takes the current device.)"""
    if not all(grid):
        return
    device = arguments[0].device
    if device.type == "cuda":
        with torch.cuda.device(device):
            kernel[grid](*arguments, **constants)
    else:  # interpreted
        kernel[grid](*arguments, **constants)
