"""The nearest points in space on a GPU: one kernel that measures distances and keeps the smallest, in registers.

As separate operations, the distances of 256 clouds of 1024 points from 512 centers fill 1 GB, and choosing the 64
nearest passes over them many times. A program of this kernel has some centers of one cloud. Distances are sums of
squares on the grid of `geometry`, exact in float64; the position of a point replaces their last bits, so keys are
distinct and the result is that of the separate operations, bit for bit.

Sorting all keys would take most of the time. A bisection first finds a bound with k to 2 k keys below it; only these
are sorted.
"""
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportArgumentType=false
# In a kernel, functions of Triton return tensors; their annotations allow for more.

import torch
import triton  # pyright: ignore[reportMissingImports]  it comes with PyTorch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from bipointnet.nn.gpu import launch

MAX_POINTS = 4096
PAIRS = 4096  # centers times points of a program: 16 for each thread
ONE = tl.constexpr(0x3FF0000000000000)  # the bits of 1.0
LARGEST_KEY = tl.constexpr(0x7FFFFFFFFFFFFFFF)


@triton.jit
def _smallest(
    centers,
    cloud,
    space,
    keys,
    total,
    count,
    k,
    keep,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,
    K: tl.constexpr,
    KEPT: tl.constexpr,
):
    batch = tl.program_id(1).to(tl.int64)
    slot = tl.arange(0, SLOTS)
    here = slot < total
    xs = cloud + batch * 3 * total
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < count
    cs = centers + batch * 3 * count
    dx = tl.load(xs + slot, mask=here, other=0.0)[None, :] - tl.load(cs + row, mask=inside, other=0.0)[:, None]
    xs, cs = xs + total, cs + count
    dy = tl.load(xs + slot, mask=here, other=0.0)[None, :] - tl.load(cs + row, mask=inside, other=0.0)[:, None]
    xs, cs = xs + total, cs + count
    dz = tl.load(xs + slot, mask=here, other=0.0)[None, :] - tl.load(cs + row, mask=inside, other=0.0)[:, None]
    square = dx * dx + dy * dy + dz * dz
    # A NaN may have its sign bit set; without it the bisection ends for NaN, too.
    key = (square.to(tl.int64, bitcast=True) & keep & LARGEST_KEY) | slot[None, :]
    key = tl.where(here[None, :], key, LARGEST_KEY)
    line = batch * count + row
    if KEPT < SLOTS:
        # At most k - 1 keys are below `low`, at least k are not above `high`. Distances are integers: 0, or 1 and more.
        few = tl.sum((key < ONE).to(tl.int32), 1) < k
        low = tl.where(few, ONE, 0).to(tl.int64)
        high = tl.max(tl.where(here[None, :], key, 0), 1)
        found = tl.sum((key <= high[:, None]).to(tl.int32), 1)
        while tl.max(found, 0) > KEPT:
            middle = low + (high - low) // 2
            below = tl.sum((key <= middle[:, None]).to(tl.int32), 1)
            enough = below >= k
            wide = found > KEPT  # a row that has its bound keeps it
            low = tl.where(wide & (below < k), middle + 1, low)
            high = tl.where(wide & enough, middle, high)
            found = tl.where(wide & enough, below, found)
        # Through memory, the keys below the bound come together.
        chosen = key <= high[:, None]
        place = tl.cumsum(chosen.to(tl.int32), 1) - 1
        free = tl.arange(0, KEPT)
        own = space + line[:, None] * KEPT
        rest = (free[None, :] >= found[:, None]) & inside[:, None]
        tl.store(own + free[None, :], tl.full([ROWS, KEPT], LARGEST_KEY, tl.int64), mask=rest)
        tl.store(own + place, key, mask=chosen & inside[:, None])
        tl.debug_barrier()
        key = tl.load(own + free[None, :], mask=inside[:, None], other=LARGEST_KEY)
    nearest = ~tl.topk(~key, K)  # topk takes the largest, the largest first
    rank = tl.arange(0, K)
    tl.store(keys + line[:, None] * k + rank[None, :], nearest, mask=inside[:, None] & (rank < k)[None, :])


def smallest_keys(centers: Tensor, cloud: Tensor, k: int, room: int) -> Tensor:
    """The k smallest keys of each center, sorted: bits of the squared distance, with the position in the bits `room`.

    Shapes: centers (B, M, 3) float64, cloud (B, N, 3) float64 -> (B, M, k) int64
    """
    clouds, count, _ = centers.shape
    total = cloud.shape[1]
    most = triton.next_power_of_2(k)
    slots = max(triton.next_power_of_2(total), most)
    rows, kept = max(1, PAIRS // slots), 2 * most
    keys = cloud.new_empty((clouds, count, k), dtype=torch.int64)
    space = cloud.new_empty((clouds, count, kept) if kept < slots else 1, dtype=torch.int64)
    grid = triton.cdiv(count, rows), clouds
    around, points = centers.mT.contiguous(), cloud.mT.contiguous()
    sizes = {"ROWS": rows, "SLOTS": slots, "K": most, "KEPT": kept, "num_warps": 8}
    launch(_smallest, grid, around, points, space, keys, total, count, k, ~room, **sizes)
    return keys


def supports(cloud: Tensor) -> bool:
    return cloud.shape[2] == 3 and cloud.shape[1] <= MAX_POINTS
