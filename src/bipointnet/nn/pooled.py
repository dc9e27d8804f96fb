"""linear -> BatchNorm -> max over points, without normalising what the maximum throws away.

The layer in front of a max pool is the widest of a network, and of its R x M outputs the pool keeps one a cloud and
channel. BatchNorm is a rising or falling line in each channel, so it may be applied after the maximum, or, where it
falls, after the minimum. And the statistics it needs follow from the K inputs of the linear layer alone: for rows a of
mean m and covariance S, the output z = s w.a + b has

    mean(z) = s w.m + b        var(z) = s^2 w^T S w

so the forward pass is one product and one maximum, and the backward pass touches only the rows that won. The result is
that of the three layers one after the other, up to rounding in training, and exactly in evaluation.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.nn.aggregate import MaxPool
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.product import EXACT_IN_HALF

EXACT_IN_SINGLE = 2**24


def _peak(a: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The largest product of each cloud and channel, and the first point that attains it: two (B, M)."""
    return (a @ w.T).max(dim=1)


def _integer_peak(a: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The same for a and w of +-1, with the point's number in the low digits of one number.

    z N + (N - 1 - i) orders points by z, then by smallest i, and one more input computes it within the product. A
    maximum without indices is several times faster on a CPU.
    """
    points = a.shape[1]
    number = torch.arange(points - 1, -1, -1, dtype=a.dtype).reshape(1, -1, 1).expand(len(a), -1, 1)
    keys = torch.cat([a * points, number], dim=2) @ torch.cat([w, w.new_ones(len(w), 1)], dim=1).T  # (B, N, M)
    best = keys.amax(dim=1)
    values = (best / points).floor()
    return values, (points - 1 - (best - values * points)).long()


class _PeakProduct(torch.autograd.Function):
    """max over points of a . w^T: (B, N, K), (M, K) -> (B, M); the gradient goes to the first point at the maximum."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, w: Tensor, binary: bool) -> Tensor:
        if binary and a.is_cuda and a.shape[2] <= EXACT_IN_HALF:
            values, winners = _peak(a.half(), w.half())  # halves what a GPU has to move
        elif binary and not a.is_cuda and (a.shape[2] + 1) * a.shape[1] < EXACT_IN_SINGLE:
            values, winners = _integer_peak(a, w)
        else:
            values, winners = _peak(a, w)
        ctx.save_for_backward(a, w, winners)
        return values.to(a.dtype) * 1.0

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        # Both gradients are weighted sums of few rows: of the winning rows of a for each channel, and of the channels
        # that a row of a has won for that row. embedding_bag sums them without laying them out first.
        a, w, winners = ctx.saved_tensors
        clouds, points, inputs = a.shape
        g = grads[0]  # (B, M)
        rows = winners + torch.arange(0, clouds * points, points, device=a.device).unsqueeze(1)  # (B, M)
        grad_w = F.embedding_bag(rows.T, a.reshape(-1, inputs), per_sample_weights=g.T, mode="sum")
        won, order = rows.flatten().sort()
        starts = torch.searchsorted(won, torch.arange(clouds * points, device=a.device))
        grad_a = F.embedding_bag(order % len(w), w, starts, per_sample_weights=g.flatten()[order], mode="sum")
        return grad_a.reshape(a.shape), grad_w, None


class PooledLayer(nn.Module):
    """pool(activation(norm(linear(x)))): (B, N, K) -> (B, M).

    Args: linear; norm, a BatchNorm or None; activation, increasing, or None; pool.
    Set `fused` to False to have every step computed in full, as forward hooks on them need.
    """

    def __init__(
        self, linear: nn.Module, norm: nn.BatchNorm1d | None, activation: nn.Module | None, pool: nn.Module
    ) -> None:
        super().__init__()
        self.linear, self.norm, self.activation, self.pool = linear, norm, activation, pool
        self.fused = True

    def calibrate(self, x: Tensor) -> None:
        if isinstance(self.linear, BinaryLinear):
            self.linear.calibrate(x)

    def forward(self, x: Tensor) -> Tensor:
        # A scale a point makes the product a float: nothing is gained, and its bits would round otherwise.
        scaled = isinstance(self.linear, BinaryLinear) and self.linear.method.scales_points
        if self.fused and self.norm is not None and isinstance(self.pool, MaxPool) and not scaled:
            return self._after_maximum(x, self.norm, self.pool)
        z = self.linear(x)
        z = z if self.norm is None else self.norm(z)
        return self.pool(z if self.activation is None else self.activation(z))

    def _after_maximum(self, x: Tensor, norm: nn.BatchNorm1d, pool: MaxPool) -> Tensor:
        linear: Any = self.linear
        binary = isinstance(linear, BinaryLinear)
        a, w, scale = linear.factors(x) if binary else (x, linear.weight, x.new_ones(()))
        bias = 0.0 if linear.bias is None else linear.bias
        mean: Any = norm.running_mean
        variance: Any = norm.running_var
        if self.training:
            mean, variance = self._statistics(norm, a, w, scale, bias)
        slope = norm.weight * torch.rsqrt(variance + norm.eps)  # (M,)
        rising = torch.where(slope * scale >= 0, 1.0, -1.0).to(x.dtype).unsqueeze(1)  # (M, 1)
        peak = _PeakProduct.apply(a, w * rising, binary) * rising.squeeze(1)  # pyright: ignore
        y = (peak * scale + bias - mean) * slope + norm.bias
        return (y if self.activation is None else self.activation(y)) - pool.shift(x.shape[-2])

    @staticmethod
    def _statistics(norm: nn.BatchNorm1d, a: Tensor, w: Tensor, scale: Tensor, bias: Any) -> tuple[Tensor, Tensor]:
        """Mean and variance of the layer's output over the batch; the running ones move towards them."""
        rows = a.reshape(-1, a.shape[-1])
        middle = rows.mean(dim=0)  # (K,)
        centred = rows - middle
        covariance = centred.T @ centred / len(rows)  # (K, K)
        mean = scale * (w @ middle) + bias  # (M,)
        variance = scale**2 * ((w @ covariance) * w).sum(dim=1)
        with torch.no_grad():
            norm.running_mean.lerp_(mean, norm.momentum)  # pyright: ignore
            norm.running_var.lerp_(variance * (len(rows) / max(len(rows) - 1, 1)), norm.momentum)  # pyright: ignore
            norm.num_batches_tracked.add_(1)  # pyright: ignore
        return mean, variance
