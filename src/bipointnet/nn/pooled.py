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
from torch import Tensor, nn

from bipointnet.nn.aggregate import MaxPool
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.product import EXACT_IN_HALF


class _PeakProduct(torch.autograd.Function):
    """max over points of a . w^T: (B, N, K), (M, K) -> (B, M); the gradient goes to the first point at the maximum."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, w: Tensor, binary: bool) -> Tensor:
        # Integers below 2048 are exact in float16, which halves what a GPU has to move.
        half = binary and a.is_cuda and a.shape[-1] <= EXACT_IN_HALF
        z = a.half() @ w.half().T if half else a @ w.T  # (B, N, M)
        values, winners = z.max(dim=1)
        ctx.save_for_backward(a, w, winners)
        return values.to(a.dtype) * 1.0

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        a, w, winners = ctx.saved_tensors
        clouds, points, inputs = a.shape
        g = grads[0].unsqueeze(-1)  # (B, M, 1)
        first = torch.arange(0, clouds * points, points, device=a.device).unsqueeze(1)
        rows = (winners + first).flatten()  # (B * M,)
        won = a.reshape(-1, inputs).index_select(0, rows).reshape(clouds, -1, inputs)
        grad_a = torch.zeros_like(a).reshape(-1, inputs).index_add(0, rows, (g * w).reshape(-1, inputs))
        return grad_a.reshape(a.shape), (g * won).sum(dim=0), None


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
        if self.fused and self.norm is not None and isinstance(self.pool, MaxPool):
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
