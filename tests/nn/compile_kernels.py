"""Compile every kernel, as large networks launch it, for a GPU that need not be there; test_gpu_kernels.py runs this.

    python tests/nn/compile_kernels.py 90

The argument is the compute capability. Prints the name of each kernel.
"""

import sys
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from bipointnet.nn import farthest_gpu, nearest_gpu, norm_gpu, peak_gpu, polynomial

TYPES = {
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int64: "*i64",
}
CLOUDS, CENTERS, NEIGHBORS = 256, 512, 64
ROWS = CLOUDS * CENTERS * NEIGHBORS  # of the first layers of PointNet++


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


class Compiler:
    """Compiles kernels instead of launching them."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def run(self, kernel: Any, *arguments: Any, num_warps: int, **constants: Any) -> None:
        names = kernel.arg_names
        signature = dict.fromkeys(names, "constexpr") | {
            name: TYPES[value.dtype] if isinstance(value, torch.Tensor) else "i64" if abs(value) >= 2**31 else "i32"
            for name, value in zip(names, arguments, strict=False)
        }
        # PyTorch allocates at multiples of 16 bytes.
        hints = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name].startswith("*")}
        values = {(names.index(name),): value for name, value in constants.items()}
        source = ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=hints)
        found = triton.compile(source, target=self.target, options={"num_warps": num_warps})
        assert found.asm["cubin"]
        print(kernel.__name__, flush=True)


def launch_all() -> None:
    half, double = torch.float16, torch.float64
    farthest_gpu.sample(empty(CLOUDS, 1024, 3, dtype=double), empty(CLOUDS, dtype=torch.int64), CENTERS)
    for points in (512, 1024, 4096):
        clouds = empty(CLOUDS, points, 3, dtype=double)
        nearest_gpu.smallest_keys(clouds, clouds, NEIGHBORS, points - 1)
    for channels in (64, 131, 512):
        z, y, vector = empty(ROWS, channels, dtype=half), empty(ROWS, channels), empty(channels)
        norm_gpu.moments(z)
        norm_gpu.apply(z, vector, vector, vector, "clip")
        norm_gpu.gradient_sums(y, z, vector, vector, vector, "relu")
        norm_gpu.apply_gradient(y, z, vector, vector, vector, (vector, vector, vector), "clip", torch.bfloat16)
        norm_gpu.first_layer(empty(ROWS, 3), empty(channels, 3), vector, "clip")
        norm_gpu.first_sums(y, y, empty(ROWS, 3), "clip")
        norm_gpu.signs(y)
        norm_gpu.sign_gradient(y, y, polynomial, vector)
    for sets, points, inputs, outputs in ((CLOUDS * CENTERS, NEIGHBORS, 64, 128), (CLOUDS, 128, 512, 1024)):
        a, w, x = empty(sets, points, inputs, dtype=half), empty(outputs, inputs), empty(sets, points, inputs)
        winners, g = empty(sets, outputs, dtype=torch.int64), empty(sets, outputs)
        peak_gpu.peak(a, w.half())
        peak_gpu.gradients(x, a, w, winners, g, empty(inputs, inputs), empty(inputs), polynomial)


def main() -> None:
    compiler = Compiler(int(sys.argv[1]))
    JITFunction.run = lambda self, *arguments, grid, warmup, **constants: compiler.run(self, *arguments, **constants)
    launch_all()


if __name__ == "__main__":
    main()
