"""The largest product per set of points and channel on a GPU, without storing the products.

max over points of a . w^T for signs a and w. A program multiplies the points of one set by some channels on the matrix
units, a block of points at a time, and keeps the largest value and the first point that attains it. As two operations,
the products of a network over neighborhoods are gigabytes that are written and read once.
"""
# pyright: reportOperatorIssue=false
# In a kernel, functions of Triton return tensors; their annotations allow for more.

from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]  it comes with PyTorch for GPUs
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

POINTS, CHANNELS, INPUTS = 64, 128, 64  # of a block


@triton.jit
def _peak(
    a,
    w,
    values,
    winners,
    points,
    channels,
    inputs,
    BLOCKS: tl.constexpr,
    PIECES: tl.constexpr,
    POINTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    INPUTS: tl.constexpr,
):
    batch = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    best = tl.full([CHANNELS], float("-inf"), tl.float32)
    winner = tl.zeros([CHANNELS], tl.int32)
    for block in range(BLOCKS):
        point = block * POINTS + tl.arange(0, POINTS)
        product = tl.zeros([POINTS, CHANNELS], tl.float32)
        for piece in range(PIECES):
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
        product = tl.where((point < points)[:, None], product, float("-inf"))
        here, place = tl.max(product, 0, return_indices=True)  # of equal values the first
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
    kernel: Any = _peak
    grid = sets, triton.cdiv(len(w), CHANNELS)
    kernel[grid](a, w, values, winners, points, len(w), inputs, BLOCKS=blocks, PIECES=pieces, **sizes)
    return values, winners
