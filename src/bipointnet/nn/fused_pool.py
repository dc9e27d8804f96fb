"""linear -> BatchNorm -> max over points, without normalizing values that the maximum discards.

The layer in front of a max pool is the widest of a network, and the pool keeps one of its outputs per cloud and
channel. BatchNorm is a rising or falling line in each channel, so it may be applied after the maximum, or after the
minimum if it falls. Its statistics follow from the K inputs of the linear layer alone: for rows a with mean m and
covariance S, the output z = s w.a + b has

    mean(z) = s w.m + b        var(z) = s^2 w^T S w

So the forward pass is one product and one maximum, and the backward pass reads only the rows with a maximum. The result
is the result of the three separate layers up to rounding.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bipointnet.nn.calibrate import Calibrated
from bipointnet.nn.concat_linear import ConcatLinear
from bipointnet.nn.distinct import distinct_codes
from bipointnet.nn.fused_layer import NormalizedLayer, on_gpu, plain_signs, track, tracks_statistics
from bipointnet.nn.gpu import HALF_AS_BFLOAT
from bipointnet.nn.hooks import preserved_modes
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.pools import EntropyMax, MaxPool
from bipointnet.nn.product import EXACT_IN_HALF, without_autocast

EXACT_IN_SINGLE = 2**24
MANY_WINNERS = 128  # among so few points nearly each has a maximum: on a GPU a product is faster than sums of rows


def _peak(a: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The largest product per cloud and channel, and the first point that attains it: two (B, M)."""
    return (a @ w.T).max(dim=1)


def _integer_peak(a: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The same for a and w of +-1, with the index i of the point in the low digits of a key.

    The key z N + (N - 1 - i) orders points by z, then by smallest i. One additional input makes the product compute
    it. A maximum without indices is several times faster on a CPU.
    """
    points = a.shape[1]
    index = torch.arange(points - 1, -1, -1, dtype=a.dtype).reshape(1, -1, 1).expand(len(a), -1, 1)
    keys = torch.cat([a * points, index], dim=2) @ torch.cat([w, w.new_ones(len(w), 1)], dim=1).T  # (B, N, M)
    best = keys.amax(dim=1)
    values = (best / points).floor()
    return values, (points - 1 - (best - values * points)).long()


def _gather_gradients(a: Tensor, w: Tensor, winners: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of a and w as weighted sums of few rows.

    A row of a sums over the channels where it has the maximum; a channel of w sums over the rows with the maximum.
    embedding_bag sums without gathering the rows first.
    """
    clouds, points, inputs = a.shape
    rows = winners + torch.arange(0, clouds * points, points, device=a.device).unsqueeze(1)  # (B, M)
    grad_w = F.embedding_bag(rows.T, a.reshape(-1, inputs), per_sample_weights=g.T, mode="sum")
    won, order = rows.flatten().sort()
    starts = torch.searchsorted(won, torch.arange(clouds * points, device=a.device))
    grad_a = F.embedding_bag(order % len(w), w, starts, per_sample_weights=g.flatten()[order], mode="sum")
    return grad_a.reshape(a.shape), grad_w


def _multiply_gradients(a: Tensor, w: Tensor, winners: Tensor, g: Tensor, small: torch.dtype) -> tuple[Tensor, Tensor]:
    """The same as products with the gradient of a . w^T, which is zero except at the maxima."""
    dense = g.new_zeros(*a.shape[:2], len(w), dtype=small)
    dense.scatter_(1, winners.unsqueeze(1), g.unsqueeze(1).to(small))  # (B, N, M)
    grad_w = dense.flatten(0, 1).T @ a.flatten(0, 1).to(small)
    return (dense @ w.to(small)).to(a.dtype), grad_w.to(w.dtype)


class _PeakProduct(torch.autograd.Function):
    """max over points of a . w^T: (B, N, K), (M, K) -> (B, M); the gradient goes to the first point at the maximum."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, w: Tensor, binary: bool) -> Tensor:
        if binary and a.is_cuda and a.shape[2] <= EXACT_IN_HALF:
            values, winners = _peak(a.half(), w.half())  # half the memory traffic of a GPU
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
        return _second_moment(small).to(a.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (a,) = ctx.saved_tensors
        g = (grads[0] + grads[0].T).to(torch.bfloat16)  # as in nn.product
        return (a.to(torch.bfloat16) @ g).to(grads[0].dtype)


def _second_moment(signs: Tensor) -> Tensor:
    """a^T . a of rows of +-1 in float16, as exact integers: (R, K) -> (K, K) float32."""
    whole = len(signs) // EXACT_IN_HALF * EXACT_IN_HALF
    blocks, rest = signs[:whole].reshape(-1, EXACT_IN_HALF, signs.shape[1]), signs[whole:]
    return (blocks.mT @ blocks).sum(dim=0, dtype=torch.float32) + (rest.T @ rest).float()


class _PeakLayer(torch.autograd.Function):
    """sign, product, BatchNorm and maximum over points as one step, with the kernels of norm_gpu.

    Shapes: x (B, N, K), w (M, K) of +-1, scale () or (M,), weight and bias of the norm (M,) -> y (B, M), and mean and
    variance of the product with its scale, (M,) each.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, scale: Tensor, weight: Tensor, bias: Tensor, eps: float, slope: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        from bipointnet.nn import norm_gpu, peak_gpu

        a = norm_gpu.signs(x)
        rows = a.flatten(0, 1)
        middle = rows.sum(dim=0, dtype=torch.float32) / len(rows)  # (K,)
        covariance = _second_moment(rows) / len(rows) - middle.outer(middle)
        mean, variance = w @ middle, ((w @ covariance) * w).sum(dim=1).clamp_min(0)  # (M,)
        inverse = torch.rsqrt(scale**2 * variance + eps)
        factor = weight * scale * inverse
        rising = torch.where(factor >= 0, 1.0, -1.0)
        best, winners = peak_gpu.peak(a, (w * rising.unsqueeze(1)).half())
        peak = best * rising
        ctx.save_for_backward(x, a, w, scale, weight, winners, peak, middle, covariance, mean, variance, inverse)
        ctx.slope = slope
        found = scale * mean, scale**2 * variance
        ctx.mark_non_differentiable(*found)
        return (peak - mean) * factor + bias, *found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        x, a, w, scale, weight, winners, peak, middle, covariance, mean, variance, inverse = ctx.saved_tensors
        g, total = grads[0], grads[0].sum(dim=0)
        product = (g * (peak - mean)).sum(dim=0)  # (M,): the gradient of the factor
        factor = weight * scale * inverse
        grad_variance = product * weight * scale * -0.5 * inverse**3  # of the scaled product
        grad_scale = product * weight * inverse + grad_variance * 2 * scale * variance
        grad_mean, grad_variance = -total * factor, grad_variance * scale**2
        spread = w @ covariance  # (M, K)
        grad_w = grad_mean.outer(middle) + 2 * grad_variance.unsqueeze(1) * spread
        grad_covariance = w.T @ (grad_variance.unsqueeze(1) * w)  # (K, K)
        row = (w.T @ grad_mean - 2 * grad_covariance @ middle) / a.shape[:2].numel()
        mixed = 2 / a.shape[:2].numel() * grad_covariance
        grad_x, grad_peak = _sign_gradients(x, a, w, winners, g * factor, mixed, row, ctx.slope)
        grad_scale = grad_scale.sum() if scale.dim() == 0 else grad_scale
        return grad_x, grad_w + grad_peak, grad_scale, product * scale * inverse, total, None, None


def _sign_gradients(
    x: Tensor, a: Tensor, w: Tensor, winners: Tensor, g: Tensor, mixed: Tensor, row: Tensor, slope: Any
) -> tuple[Tensor, Tensor]:
    """What peak_gpu.gradients computes, in the faster of two ways."""
    from bipointnet.nn import norm_gpu, peak_gpu

    if a.shape[1] <= MANY_WINNERS:
        return peak_gpu.gradients(x, a, w, winners, g, mixed, row, slope)
    grad_a, grad_w = _gather_gradients(a.float(), w, winners, g)
    rest = a.flatten(0, 1).view(torch.bfloat16) @ (HALF_AS_BFLOAT * mixed).bfloat16()
    grad_x = norm_gpu.sign_gradient(grad_a.flatten(0, 1) + rest, x.flatten(0, 1), slope, row)
    return grad_x.view(x.shape), grad_w


def pool_counts(pool: nn.Module, linear: nn.Module, x: Tensor) -> Tensor | None:
    """The number of distinct codes that the layer in front of a pool reads in each cloud, if the pool counts them.

    Shapes: x (..., N, K) -> (...).
    """
    counted = isinstance(pool, EntropyMax) and pool.over == "distinct"
    if not counted or not isinstance(linear, BinaryLinear):
        return None
    return distinct_codes(linear, x, tuple(x.shape[:-2]))


class PooledLayer(nn.Module, Calibrated):
    """pool(activation(norm(linear(x)))): (..., N, K) -> (..., M), over points or over the neighbors of each point.

    Args:
        linear: nn.Linear or BinaryLinear.
        norm: a BatchNorm, or None.
        activation: an increasing function, or None.
        pool: a pool of `bipointnet.nn`.
    `forward` also takes `counts` (...), the number of true neighbors among the N.

    Set `fused` to False to run every step by itself, which forward hooks on them need.

    Examples:
        >>> layer = PooledLayer(BinaryLinear(128, 1024, "lsr"), PointNorm(1024), None, EntropyMax())
        >>> layer(torch.randn(8, 100, 128)).shape
        torch.Size([8, 1024])
    """

    def __init__(
        self, linear: nn.Module, norm: nn.BatchNorm1d | None, activation: nn.Module | None, pool: nn.Module
    ) -> None:
        super().__init__()
        self.linear, self.norm, self.activation, self.pool = linear, norm, activation, pool
        self.fused = True

    def calibrate(self, x: Tensor) -> None:
        """Set the values that depend on the first input."""
        if isinstance(self.linear, BinaryLinear):
            self.linear.calibrate(x)

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        if counts is None:
            counts = pool_counts(self.pool, self.linear, x)
        # A scale per point makes the product a float: fusing gains nothing, and rounding could change bits.
        scaled = isinstance(self.linear, BinaryLinear) and self.linear.method.scales_points
        if self.fused and self.norm is not None and isinstance(self.pool, MaxPool) and not scaled:
            usual = self.activation is None and plain_signs(self.linear) and tracks_statistics(self.norm, x)
            if usual and on_gpu(x) and x.shape[:-1].numel() > 1:
                return self._on_gpu(x, self.norm) - self.pool.shift(x, counts)
            with without_autocast(x):  # it would round the products
                x = x.to(torch.promote_types(x.dtype, self.norm.weight.dtype))
                return self._after_maximum(x, self.norm) - self.pool.shift(x, counts)
        z = self.linear(x)
        z = z if self.norm is None else self.norm(z)
        return self.pool(z if self.activation is None else self.activation(z), counts)

    def _on_gpu(self, x: Tensor, norm: nn.BatchNorm1d) -> Tensor:
        linear: Any = self.linear
        w, scale = linear.method.binarize_weight(linear), linear.method.scale(linear)
        clouds = x.reshape(-1, *x.shape[-2:]).contiguous()
        found: Any = _PeakLayer.apply(clouds, w, scale, norm.weight, norm.bias, norm.eps, linear.method.slope)
        y, mean, variance = found
        if linear.bias is not None:  # BatchNorm cancels it
            mean, y = mean + linear.bias.detach(), y + 0 * linear.bias
        track(norm, mean, variance, clouds.shape[:2].numel())
        return y.reshape(*x.shape[:-2], -1)

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
        """Mean and variance of the layer's output over the batch; updates the running statistics."""
        rows = a.reshape(-1, a.shape[-1])
        middle = rows.mean(dim=0)  # (K,)
        if binary and rows.is_cuda:
            moment: Any = _SecondMoment.apply(rows)
            covariance = moment / len(rows) - middle.outer(middle)
        else:
            centered = rows - middle
            covariance = centered.T @ centered / len(rows)  # (K, K)
        mean = scale * (w @ middle) + bias  # (M,)
        variance = scale**2 * ((w @ covariance) * w).sum(dim=1)
        track(norm, mean, variance, len(rows))
        return mean, variance


def fused_layers(model: nn.Module) -> list[PooledLayer | ConcatLinear | NormalizedLayer]:
    """The layers with an attribute `fused`. With `fused = False`, forward hooks on their parts are called."""
    return [module for module in model.modules() if isinstance(module, (PooledLayer, ConcatLinear, NormalizedLayer))]


@contextmanager
def in_full(model: nn.Module) -> Iterator[None]:
    """Eval mode, with every fused layer computed step by step so that hooks on its parts are called.

    At the end every module has its own mode back.

    Examples:
        >>> model = vanilla_pointnet(num_classes=40, linear="lsr", pool="ema-max")
        >>> with in_full(model), hooked({"head": model.head}, lambda name, module, x, output: print(x.shape)):
        ...     output = model(torch.rand(2, 100, 3))
        torch.Size([2, 1024])
    """
    layers = fused_layers(model)
    before = [layer.fused for layer in layers]
    try:
        with preserved_modes(model):
            for layer in layers:
                layer.fused = False
            model.eval()
            yield
    finally:
        for layer, fused in zip(layers, before, strict=True):
            layer.fused = fused
