"""The largest product per set of points and channel on a GPU, and its gradients, without storing products.

max over points of a . w^T for signs a and w. A program multiplies the points of one set by some channels on the matrix
units, a block of points at a time, and keeps the largest value and the first point that attains it. As two operations,
the products of a network over neighborhoods are gigabytes that are written and read once.

The gradient of the products is zero except at the maxima. For sets of few points its blocks are made in registers from
the maxima (`gradients`); for sets of many points, sums of few rows are faster (nn/fused_pool.py).
"""
# pyright: reportOperatorIssue=false
# In a kernel, functions of Triton return tensors; their annotations allow for more.

import torch
import triton  # pyright: ignore[reportMissingImports]  it comes with PyTorch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from bipointnet.nn.gpu import HALF_AS_BFLOAT, launch
from bipointnet.nn.norm_gpu import SLOPES, slope_of
from bipointnet.nn.sign import Slope

POINTS, CHANNELS, INPUTS = 64, 128, 64  # of a block
PROGRAMS = 1024  # that share the sets in the gradient of w


@triton.jit
def _peak(
    a,
    w,
    values,
    winners,
    points,
    channels,
    inputs,
    blocks,
    pieces,
    POINTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    INPUTS: tl.constexpr,
):
    batch = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    best = tl.full([CHANNELS], float("-inf"), tl.float32)
    winner = tl.zeros([CHANNELS], tl.int32)
    backwards = POINTS - 1 - tl.arange(0, POINTS)
    for block in range(blocks):
        point = block * POINTS + tl.arange(0, POINTS)
        product = tl.zeros([POINTS, CHANNELS], tl.float32)
        for piece in range(pieces):
            k = piece * INPUTS + tl.arange(0, INPUTS)
            left = tl.load(
                a + (batch * points + point)[:, None] * inputs + k[None, :],
                mask=(point < points)[:, None] & (k < inputs)[None, :],
                other=0.0,
            )
            right = tl.load(
                w + channel[None, :] * inputs + k[:, None],
                mask=(channel < channels)[None, :] & (k < inputs)[:, None],
                other=0.0,
            )
            product = tl.dot(left, right, product)
        # The product and, in the low digits, the point: of equal products the first is the largest. A sum of up to 2048
        # terms times 64 is an integer of 18 bits. A maximum of pairs would take longer.
        key = tl.where((point < points)[:, None], product * POINTS + backwards[:, None], float("-inf"))
        largest = tl.max(key, 0)
        here = tl.floor(largest / POINTS)
        place = POINTS - 1 - (largest - here * POINTS).to(tl.int32)
        winner = tl.where(here > best, block * POINTS + place, winner)
        best = tl.maximum(best, here)
    out = batch * channels + channel
    tl.store(values + out, best, mask=channel < channels)
    tl.store(winners + out, winner.to(tl.int64), mask=channel < channels)


def peak(a: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The largest product per set and channel, and the first point that attains it.

    Shapes: a (B, N, K) and w (M, K) of +-1 in float16 -> (B, M) float32, (B, M) int64
    """
    sets, points, inputs = a.shape
    values = a.new_empty(sets, len(w), dtype=torch.float32)
    winners = a.new_empty(sets, len(w), dtype=torch.int64)
    blocks, pieces = triton.cdiv(points, POINTS), triton.cdiv(inputs, INPUTS)
    sizes = {"POINTS": POINTS, "CHANNELS": CHANNELS, "INPUTS": INPUTS, "num_warps": 8}
    grid = sets, triton.cdiv(len(w), CHANNELS)
    launch(_peak, grid, a, w, values, winners, points, len(w), inputs, blocks, pieces, **sizes)
    return values, winners


@triton.jit
def _input_gradient(
    x,
    a,
    w,
    winners,
    g,
    mixed,
    row,
    out,
    points,
    channels,
    inputs,
    blocks,
    pieces,
    SLOPE: tl.constexpr,
    POINTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    INPUTS: tl.constexpr,
    KIND: tl.constexpr,
):
    """(D . w + a . mixed + row) s(x) for one set and some inputs; D is the gradient of its products.

    Matrices come in the type of the products: a conversion between load and product would stop the pipeline.
    """
    batch = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * INPUTS + tl.arange(0, INPUTS)
    point = tl.arange(0, POINTS)
    total = tl.zeros([POINTS, INPUTS], tl.float32)
    for block in range(blocks):
        channel = block * CHANNELS + tl.arange(0, CHANNELS)
        there = channel < channels
        winner = tl.load(winners + batch * channels + channel, mask=there, other=-1)
        grad = tl.load(g + batch * channels + channel, mask=there, other=0.0)
        dense = tl.where(winner[None, :] == point[:, None], grad[None, :], 0.0).to(KIND)
        inside = there[:, None] & (k < inputs)[None, :]
        weight = tl.load(w + channel[:, None] * inputs + k[None, :], mask=inside, other=0.0)
        total = tl.dot(dense, weight, total)
    start = (batch * points + point)[:, None] * inputs
    here = (point < points)[:, None]
    for piece in range(pieces):
        j = piece * INPUTS + tl.arange(0, INPUTS)
        signs = tl.load(a + start + j[None, :], mask=here & (j < inputs)[None, :], other=0.0)
        inside = (j < inputs)[:, None] & (k < inputs)[None, :]
        matrix = tl.load(mixed + j[:, None] * inputs + k[None, :], mask=inside, other=0.0)
        total = tl.dot(signs, matrix, total)
    here = here & (k < inputs)[None, :]
    total += tl.load(row + k, mask=k < inputs, other=0.0)[None, :]
    value = tl.load(x + start + k[None, :], mask=here, other=0.0)
    tl.store(out + start + k[None, :], total * slope_of(value, SLOPE), mask=here)


@triton.jit
def _weight_gradient(
    a,
    winners,
    g,
    out,
    sets,
    points,
    channels,
    inputs,
    steps,
    POINTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    INPUTS: tl.constexpr,
    KIND: tl.constexpr,
):
    """a^T . D for some inputs and channels, summed over `steps` sets; D is made along its rows, where loads are few."""
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    k = tl.program_id(2) * INPUTS + tl.arange(0, INPUTS)
    point = tl.arange(0, POINTS)
    total = tl.zeros([INPUTS, CHANNELS], tl.float32)
    for step in range(steps):
        number = tl.program_id(0).to(tl.int64) * steps + step
        batch = tl.minimum(number, sets - 1)
        there = channel < tl.where(number < sets, channels, 0)
        winner = tl.load(winners + batch * channels + channel, mask=there, other=-1)
        grad = tl.load(g + batch * channels + channel, mask=there, other=0.0)
        dense = tl.where(winner[None, :] == point[:, None], grad[None, :], 0.0).to(KIND)
        here = (point < points)[:, None] & (k < inputs)[None, :]
        place = (batch * points + point)[:, None] * inputs + k[None, :]
        total = tl.dot(tl.trans(tl.load(a + place, mask=here, other=0.0)), dense, total)
    place = (tl.program_id(0) * inputs + k)[:, None] * channels + channel[None, :]
    tl.store(out + place, total, mask=(k < inputs)[:, None] & (channel < channels)[None, :])


def gradients(
    x: Tensor, a: Tensor, w: Tensor, winners: Tensor, g: Tensor, mixed: Tensor, row: Tensor, slope: Slope
) -> tuple[Tensor, Tensor]:
    """The gradients of x, through its signs a, and of w, from the gradient g of the maxima.

        g_x = (D . w + a . mixed + row) slope(x)        g_w = sum over sets of D^T . a

    D has the values of g at the points of `winners`, and is zero elsewhere. Products round g to bfloat16.

    Shapes: x (B, N, K), a (B, N, K) float16, w (M, K), winners and g (B, M), mixed (K, K), row (K,)
        -> (B, N, K), (M, K), float32
    """
    sets, points, inputs = a.shape
    channels = len(w)
    height = max(16, triton.next_power_of_2(points))
    blocks, pieces = triton.cdiv(channels, CHANNELS), triton.cdiv(inputs, INPUTS)
    if x.device.type == "cpu":  # Triton's interpreter has no products of bfloat16
        signs, unit, small, kind = a.float(), 1.0, torch.float32, tl.float32
    else:
        signs, unit, small, kind = a.view(torch.bfloat16), HALF_AS_BFLOAT, torch.bfloat16, tl.bfloat16
    sizes = {"POINTS": height, "CHANNELS": CHANNELS, "INPUTS": INPUTS, "KIND": kind, "num_warps": 8}
    grad_x = torch.empty_like(x)
    shape = points, channels, inputs
    given = x, signs, w.to(small), winners, g, (mixed * unit).to(small), row
    launch(_input_gradient, (sets, pieces), *given, grad_x, *shape, blocks, pieces, SLOPE=SLOPES[slope], **sizes)
    steps = triton.cdiv(sets, max(1, PROGRAMS // (blocks * pieces)))
    parts = triton.cdiv(sets, steps)
    sums = x.new_empty(parts, inputs, channels)
    launch(_weight_gradient, (parts, blocks, pieces), signs, winners, g, sums, sets, *shape, steps, **sizes)
    return grad_x, sums.sum(dim=0).T * unit
