"""linear -> BatchNorm -> max over points, without normalising what the maximum throws away.

The layer in front of a max pool is the widest of a network, and of its R x M outputs the pool keeps one a cloud and
channel. BatchNorm is a rising or falling line in each channel, so it may be applied after the maximum, or, where it
falls, after the minimum. And the statistics it needs follow from the K inputs of the linear layer alone: for rows a of
mean m and covariance S, the output z = s w.a + b has

    mean(z) = s w.m + b        var(z) = s^2 w^T S w

so the forward pass is one product and one maximum, and the backward pass touches only the rows that won. The result is
that of the three layers one after the other, up to rounding in training, and exactly in evaluation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.nn.concat_linear import ConcatLinear
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.pools import MaxPool
from bipointnet.nn.product import EXACT_IN_HALF

EXACT_IN_SINGLE = 2**24
MANY_WINNERS = 128  # of so few points nearly each wins a channel: on a GPU a product is faster than sums of rows


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


def _gather_gradients(a: Tensor, w: Tensor, winners: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of a and w as weighted sums of few rows: of the channels that a row of a has won, for that row, and of
    the winning rows of a, for each channel. embedding_bag sums them without laying them out first.
    """
    clouds, points, inputs = a.shape
    rows = winners + torch.arange(0, clouds * points, points, device=a.device).unsqueeze(1)  # (B, M)
    grad_w = F.embedding_bag(rows.T, a.reshape(-1, inputs), per_sample_weights=g.T, mode="sum")
    won, order = rows.flatten().sort()
    starts = torch.searchsorted(won, torch.arange(clouds * points, device=a.device))
    grad_a = F.embedding_bag(order % len(w), w, starts, per_sample_weights=g.flatten()[order], mode="sum")
    return grad_a.reshape(a.shape), grad_w


def _multiply_gradients(a: Tensor, w: Tensor, winners: Tensor, g: Tensor, small: torch.dtype) -> tuple[Tensor, Tensor]:
    """The same as products with the gradient of all a . w^T, which is zero but for the winners."""
    spread = g.new_zeros(*a.shape[:2], len(w), dtype=small)
    spread.scatter_(1, winners.unsqueeze(1), g.unsqueeze(1).to(small))  # (B, N, M)
    grad_w = spread.flatten(0, 1).T @ a.flatten(0, 1).to(small)
    return (spread @ w.to(small)).to(a.dtype), grad_w.to(w.dtype)


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
        ctx.small = torch.bfloat16 if binary else a.dtype  # as in nn.product
        return values.to(a.dtype) * 1.0

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        a, w, winners = ctx.saved_tensors
        if a.is_cuda and a.shape[1] <= MANY_WINNERS:
            return *_multiply_gradients(a, w, winners, grads[0], ctx.small), None
        return *_gather_gradients(a, w, winners, grads[0]), None


class _SecondMoment(torch.autograd.Function):
    """a^T . a of rows of +-1, as exact integers from float16 matrix units: (R, K) -> (K, K)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        small = a.half()
        ctx.save_for_backward(small)
        whole = len(a) // EXACT_IN_HALF * EXACT_IN_HALF
        blocks, rest = small[:whole].reshape(-1, EXACT_IN_HALF, a.shape[1]), small[whole:]
        return (blocks.mT @ blocks).sum(dim=0, dtype=a.dtype) + (rest.T @ rest).to(a.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (a,) = ctx.saved_tensors
        g = (grads[0] + grads[0].T).to(torch.bfloat16)  # as in nn.product
        return (a.to(torch.bfloat16) @ g).to(grads[0].dtype)


class PooledLayer(nn.Module):
    """pool(activation(norm(linear(x)))): (..., N, K) -> (..., M), of points or of the neighbours of each point.

    Args: linear; norm, a BatchNorm or None; activation, increasing, or None; pool.
    `forward` also takes how many of the N are true neighbours (...), where not all are.
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

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        # A scale a point makes the product a float: nothing is gained, and its bits would round otherwise.
        scaled = isinstance(self.linear, BinaryLinear) and self.linear.method.scales_points
        if self.fused and self.norm is not None and isinstance(self.pool, MaxPool) and not scaled:
            return self._after_maximum(x, self.norm) - self.pool.shift(x, counts)
        z = self.linear(x)
        z = z if self.norm is None else self.norm(z)
        return self.pool(z if self.activation is None else self.activation(z), counts)

    def _after_maximum(self, x: Tensor, norm: nn.BatchNorm1d) -> Tensor:
        linear: Any = self.linear
        binary = isinstance(linear, BinaryLinear)
        a, w, scale = linear.factors(x) if binary else (x, linear.weight, x.new_ones(()))
        bias = 0.0 if linear.bias is None else linear.bias
        mean: Any = norm.running_mean
        variance: Any = norm.running_var
        if norm.training:
            mean, variance = self._statistics(norm, a, w, scale, bias, binary)
        slope = norm.weight * torch.rsqrt(variance + norm.eps)  # (M,)
        rising = torch.where(slope * scale >= 0, 1.0, -1.0).to(x.dtype).unsqueeze(1)  # (M, 1)
        peak: Any = _PeakProduct.apply(a.reshape(-1, *a.shape[-2:]), w * rising, binary)
        y = (peak * rising.squeeze(1) * scale + bias - mean) * slope + norm.bias
        y = y.reshape(*x.shape[:-2], -1)
        return y if self.activation is None else self.activation(y)

    @staticmethod
    def _statistics(
        norm: nn.BatchNorm1d, a: Tensor, w: Tensor, scale: Tensor, bias: Any, binary: bool
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of the layer's output over the batch; the running ones move towards them."""
        rows = a.reshape(-1, a.shape[-1])
        middle = rows.mean(dim=0)  # (K,)
        if binary and rows.is_cuda:
            moment: Any = _SecondMoment.apply(rows)
            covariance = moment / len(rows) - middle.outer(middle)
        else:
            centred = rows - middle
            covariance = centred.T @ centred / len(rows)  # (K, K)
        mean = scale * (w @ middle) + bias  # (M,)
        variance = scale**2 * ((w @ covariance) * w).sum(dim=1)
        with torch.no_grad():
            norm.running_mean.lerp_(mean, norm.momentum)  # pyright: ignore
            norm.running_var.lerp_(variance * (len(rows) / max(len(rows) - 1, 1)), norm.momentum)  # pyright: ignore
            norm.num_batches_tracked.add_(1)  # pyright: ignore
        return mean, variance


def fused_layers(model: nn.Module) -> list[PooledLayer | ConcatLinear]:
    """Those that are computed step by step, where hooks on their parts are called, once `fused` is False."""
    return [module for module in model.modules() if isinstance(module, (PooledLayer, ConcatLinear))]


@contextmanager
def in_full(model: nn.Module) -> Iterator[None]:
    """Evaluating mode, with every fused layer computed step by step so that hooks see its parts; then all as before."""
    layers = fused_layers(model)
    before, training = [layer.fused for layer in layers], model.training
    for layer in layers:
        layer.fused = False
    model.eval()
    try:
        yield
    finally:
        for layer, fused in zip(layers, before, strict=True):
            layer.fused = fused
        model.train(training)
