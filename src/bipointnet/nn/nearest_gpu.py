"""The nearest points in space on a GPU: one kernel that measures distances and keeps the smallest, in registers.

As separate operations, the distances of 256 clouds of 1024 points from 512 centers fill 1 GB, and choosing the 64
nearest passes over them many times. A program of this kernel has some centers of one cloud. Distances are sums of
squares on the grid of `geometry`, exact in float64; the position of a point replaces their last bits, so keys are
distinct and the result is that of the separate operations, bit for bit.
"""
# pyright: reportOperatorIssue=false
# In a kernel, functions of Triton return tensors; their annotations allow for more.

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]  it comes with PyTorch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

MAX_POINTS = 4096
PAIRS = 4096  # centers times points of a program: 16 for each thread


@triton.jit
def _smallest(centers, cloud, keys, total, count, k, keep, ROWS: tl.constexpr, SLOTS: tl.constexpr, K: tl.constexpr):
    batch = tl.program_id(0)
    slot = tl.arange(0, SLOTS)
    here = slot < total
    xs = cloud + batch * 3 * total
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = row < count
    cs = centers + batch * 3 * count
    dx = tl.load(xs + slot, mask=here, other=0.0)[None, :] - tl.load(cs + row, mask=inside, other=0.0)[:, None]
    xs, cs = xs + total, cs + count
    dy = tl.load(xs + slot, mask=here, other=0.0)[None, :] - tl.load(cs + row, mask=inside, other=0.0)[:, None]
    xs, cs = xs + total, cs + count
    dz = tl.load(xs + slot, mask=here, other=0.0)[None, :] - tl.load(cs + row, mask=inside, other=0.0)[:, None]
    square = dx * dx + dy * dy + dz * dz
    key = (square.to(tl.int64, bitcast=True) & keep) | slot[None, :]
    key = tl.where(here[None, :], key, 0x7FFFFFFFFFFFFFFF)
    nearest = ~tl.topk(~key, K)  # topk takes the largest, the largest first
    place = tl.arange(0, K)
    out = keys + (batch * count + row[:, None]) * k + place[None, :]
    tl.store(out, nearest, mask=inside[:, None] & (place < k)[None, :])


def smallest_keys(centers: Tensor, cloud: Tensor, k: int, room: int) -> Tensor:
    """The k smallest keys of each center, sorted: bits of the squared distance, with the position in the bits `room`.

    Shapes: centers (B, M, 3) float64, cloud (B, N, 3) float64 -> (B, M, k) int64
    """
    clouds, count, _ = centers.shape
    total = cloud.shape[1]
    keys = cloud.new_empty((clouds, count, k), dtype=torch.int64)
    most = triton.next_power_of_2(k)
    slots = max(triton.next_power_of_2(total), most)
    rows = max(1, PAIRS // slots)
    kernel: Any = _smallest
    grid = clouds, triton.cdiv(count, rows)
    around, points = centers.mT.contiguous(), cloud.mT.contiguous()
    kernel[grid](around, points, keys, total, count, k, ~room, ROWS=rows, SLOTS=slots, K=most, num_warps=8)
    return keys


def supports(cloud: Tensor) -> bool:
    return cloud.shape[2] == 3 and cloud.shape[1] <= MAX_POINTS
