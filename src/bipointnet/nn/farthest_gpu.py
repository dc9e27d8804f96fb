"""Farthest point sampling on a GPU: one program per cloud, which keeps the cloud in registers for all steps.

Each step depends on the previous one. As separate kernels the steps take 20 ms for 512 of 1024 points, mostly launch
time; as one kernel they take about 1 ms. Distances are sums of squares on the grid of `geometry`: integers that are
exact in float64, so neither the order of a sum nor a fused multiply-add can change them.
"""

import triton  # pyright: ignore[reportMissingImports]  it comes with PyTorch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from bipointnet.nn.gpu import launch

MAX_POINTS = 8192  # that fit in registers


@triton.jit
def _sample(cloud, start, picks, gaps, total, count, SLOTS: tl.constexpr):
    row = tl.program_id(0)
    slot = tl.arange(0, SLOTS)
    here = slot < total
    xs = cloud + row * 3 * total
    x = tl.load(xs + slot, mask=here, other=0.0)
    y = tl.load(xs + total + slot, mask=here, other=0.0)
    z = tl.load(xs + 2 * total + slot, mask=here, other=0.0)
    gap = tl.where(here, x * 0.0 + float("inf"), -1.0)
    last = tl.load(start + row).to(tl.int32)
    for step in range(1, count):
        dx = x - tl.load(xs + last)
        dy = y - tl.load(xs + total + last)
        dz = z - tl.load(xs + 2 * total + last)
        gap = tl.minimum(gap, dx * dx + dy * dy + dz * dz)
        far, last = tl.max(gap, 0, return_indices=True)  # of equal values the first
        tl.store(picks + row * count + step, last)
        tl.store(gaps + row * count + step, far)


def sample(cloud: Tensor, start: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The steps after the first: indices of the chosen points, and their distances from the points chosen before.

    Shapes: cloud (B, N, 3) float64, start (B,) int64 -> picks (B, count) int64, gaps (B, count) float64
    """
    clouds, total, _ = cloud.shape
    picks, gaps = start.repeat(count, 1).T.contiguous(), cloud.new_full((clouds, count), float("inf"))
    slots = triton.next_power_of_2(total)
    warps = min(max(slots // 256, 1), 16)
    planes = cloud.mT.contiguous()
    launch(_sample, (clouds,), planes, start, picks, gaps, total, count, SLOTS=slots, num_warps=warps)
    return picks, gaps


def supports(cloud: Tensor) -> bool:
    return cloud.shape[2] == 3 and cloud.shape[1] <= MAX_POINTS
