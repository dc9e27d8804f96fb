"""linear -> BatchNorm -> activation as one step of training on a GPU.

The layer computes what its three parts compute, up to rounding, in a fraction of the memory traffic: signs and products
of +-1 are stored in float16, where they are exact, and nothing is stored twice. On a CPU, in eval mode, with hooks on
the parts or under torch.compile, the parts run one after the other.

For a 1-bit layer with outputs u = s z, z = sign(x) . w^T, and R rows, BatchNorm and its gradient are

    y = f(gamma (u - mean) r + beta),   r = 1 / sqrt(s^2 var(z) + eps)
    g_u = gamma r (g' - mean of g' - uhat mean of (g' uhat)),   g' = g_y f',   uhat = s (z - mean(z)) r

A float layer that reads points p in space, and has no gradient for them, needs no u at all: BatchNorm makes y an affine
function of p, its statistics follow from mean and covariance of p, and the gradient of the weights from sums of g' and
g' p.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bipointnet.nn.gpu import HALF_AS_BFLOAT, runs_kernels
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.methods import Method
from bipointnet.nn.product import EXACT_IN_HALF
from bipointnet.nn.sign import Slope, clipped, polynomial, straight


def plain_signs(layer: nn.Module) -> bool:
    """Whether a layer reads sign(x), with a slope that the kernels know, and multiplies it by a matrix of +-1."""
    return (
        type(layer) is BinaryLinear
        and type(layer.method).binarize_input is Method.binarize_input
        and layer.method.slope in (clipped, polynomial, straight)
        and not layer.method.scales_points
        and layer.center is None
        and layer.last_input is None
        and layer.in_features <= EXACT_IN_HALF
    )


def _reads_points(layer: nn.Module, x: Tensor) -> bool:
    """Whether a float layer reads points in space that need no gradient."""
    return type(layer) is nn.Linear and layer.bias is not None and x.shape[-1] == 3 and not x.requires_grad


def on_gpu(x: Tensor) -> bool:
    """Whether the kernels of norm_gpu can run on x."""
    return runs_kernels(x) and x.dtype == torch.float32 and x.numel() > 0 and not torch.is_autocast_enabled("cuda")


def _has_hooks(module: nn.Module) -> bool:
    """Whether hooks would not be called if the module is a part of a fused layer."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, kind) for kind in kinds)


def tracks_statistics(norm: nn.Module, x: Tensor) -> bool:
    """Whether a module is a BatchNorm in training whose statistics `track` can update, with parameters as x."""
    return (
        isinstance(norm, nn.BatchNorm1d)
        and norm.training
        and norm.affine
        and norm.track_running_stats
        and norm.weight.device == x.device
        and norm.weight.dtype == torch.float32
    )


def _activation(module: nn.Module) -> str | None:
    """The name of an activation in norm_gpu."""
    if type(module) is nn.ReLU:
        return "relu"
    return "clip" if type(module) is nn.Hardtanh and (module.min_val, module.max_val) == (-1, 1) else None


@torch.no_grad()
def track(norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, rows: int) -> None:
    """Update the running statistics as nn.BatchNorm1d does; the variance is divided by `rows`."""
    running: Any = norm.running_mean, norm.running_var
    batches: Any = norm.num_batches_tracked
    batches.add_(1)
    share = norm.momentum
    if share is None:  # the mean over all batches
        share = batches.to(mean.dtype).reciprocal()
    running[0].lerp_(mean, share)
    running[1].lerp_(variance * (rows / max(rows - 1, 1)), share)


class _Norm(NamedTuple):
    """BatchNorm of u = s z as a line, y = slope (z - mean) + offset, each (M,) float32; inverse is r, in float64."""

    slope: Tensor
    offset: Tensor
    mean: Tensor
    inverse: Tensor

    @classmethod
    def of(
        cls, mean: Tensor, variance: Tensor, scale: Tensor | float, weight: Tensor, bias: Tensor, eps: float
    ) -> "_Norm":
        """From mean and variance of z in float64, and the parameters of the BatchNorm."""
        inverse = torch.rsqrt(scale**2 * variance + eps)
        return cls((weight * scale * inverse).float(), bias, mean.float(), inverse)

    def gradient(
        self, g: Tensor, z: Tensor, weight: Tensor, scale: Tensor | float, activation: str | None, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of u, in `dtype`, and of the weight and the bias of the BatchNorm."""
        from bipointnet.nn import norm_gpu

        line = self.slope, self.offset, self.mean
        total, product = norm_gpu.gradient_sums(g.contiguous(), z, *line, activation)
        uneven = scale * self.inverse * product  # sum of g' uhat
        factors = weight * self.inverse, total / len(z), scale * self.inverse * uneven / len(z)
        grad_u = norm_gpu.apply_gradient(g.contiguous(), z, *line, factors, activation, dtype)
        return grad_u, uneven.float(), total.float()


class _BinaryLayer(torch.autograd.Function):
    """A 1-bit layer, its BatchNorm and activation. Returns also mean and variance of u, for the running statistics.

    Shapes: x (R, K), w (M, K) of +-1, scale () or (M,), weight, bias and shift, the bias of the layer, (M,)
        -> (R, M), (M,), (M,)
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w: Tensor,
        scale: Tensor,
        weight: Tensor,
        bias: Tensor,
        shift: Tensor | None,
        eps: float,
        slope: Slope,
        activation: str | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        from bipointnet.nn import norm_gpu

        a = norm_gpu.signs(x)
        z = a @ w.half().T
        mean, variance = norm_gpu.moments(z)
        line = _Norm.of(mean, variance, scale.double(), weight, bias, eps)
        ctx.save_for_backward(x, a, w, z, scale, weight, *line)
        ctx.slope, ctx.activation = slope, activation
        statistics = (scale * mean + (0 if shift is None else shift)).float(), (scale**2 * variance).float()
        ctx.mark_non_differentiable(*statistics)
        return norm_gpu.apply(z, line.slope, line.offset, line.mean, activation), *statistics

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        from bipointnet.nn import norm_gpu

        x, a, w, z, scale, weight, *line = ctx.saved_tensors
        norm = _Norm(*line)
        grad_u, grad_weight, grad_bias = norm.gradient(
            grads[0], z, weight, scale.double(), ctx.activation, torch.bfloat16
        )
        column = scale.reshape(-1, 1)  # (M, 1) or (1, 1)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = norm_gpu.sign_gradient(grad_u @ (w * column).bfloat16(), x, ctx.slope)
        unscaled = (grad_u.T @ a.view(torch.bfloat16)).float() * HALF_AS_BFLOAT  # (M, K)
        grad_scale = (unscaled * w).sum(dim=1)
        grad_scale = grad_scale.sum() if scale.dim() == 0 else grad_scale
        grad_shift = torch.zeros_like(grad_bias) if ctx.needs_input_grad[5] else None  # BatchNorm cancels it
        return grad_x, unscaled * column, grad_scale, grad_weight, grad_bias, grad_shift, None, None, None


class _NormLayer(torch.autograd.Function):
    """BatchNorm and activation of z (R, M) in float32, and its mean and variance."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, weight: Tensor, bias: Tensor, eps: float, activation: str | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        from bipointnet.nn import norm_gpu

        mean, variance = norm_gpu.moments(z)
        line = _Norm.of(mean, variance, 1.0, weight, bias, eps)
        ctx.save_for_backward(z, weight, *line)
        ctx.activation = activation
        statistics = mean.float(), variance.float()
        ctx.mark_non_differentiable(*statistics)
        return norm_gpu.apply(z, line.slope, line.offset, line.mean, activation), *statistics

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        z, weight, *line = ctx.saved_tensors
        return *_Norm(*line).gradient(grads[0], z, weight, 1.0, ctx.activation, torch.float32), None, None


class _FirstLayer(torch.autograd.Function):
    """A float layer, its BatchNorm and activation of points in space (R, 3), which get no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        xyz: Tensor,
        w: Tensor,
        shift: Tensor,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        activation: str | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        from bipointnet.nn import norm_gpu

        weights = w.double()
        center = xyz.mean(dim=0, dtype=torch.float64)
        off = xyz.double() - center
        covariance = off.T @ off / len(xyz)
        mean = weights @ center  # without the shift, which BatchNorm cancels
        variance = ((weights @ covariance) * weights).sum(dim=1).clamp_min(0)
        inverse = torch.rsqrt(variance + eps)
        slope = weight * inverse
        y = norm_gpu.first_layer(xyz, (weights * slope.unsqueeze(1)).float(), (bias - slope * mean).float(), activation)
        ctx.save_for_backward(xyz, y, weights, weight, center, covariance, inverse)
        ctx.activation = activation
        statistics = (mean + shift).float(), variance.float()
        ctx.mark_non_differentiable(*statistics)
        return y, *statistics

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        from bipointnet.nn import norm_gpu

        xyz, y, weights, weight, center, covariance, inverse = ctx.saved_tensors
        sums = norm_gpu.first_sums(grads[0].contiguous(), y, xyz, ctx.activation)
        total, moved = sums[0], sums[1:].T - sums[0].unsqueeze(1) * center  # (M,), (M, 3): sums of g' (p - center)
        along = (moved * weights).sum(dim=1)  # sum of g' (u - mean)
        spread = weights @ covariance  # (M, 3): mean of (u - mean) (p - center)
        grad_w = (weight * inverse).unsqueeze(1) * (moved - (inverse.square() * along).unsqueeze(1) * spread)
        return None, grad_w.float(), torch.zeros_like(weight), (along * inverse).float(), total.float(), None, None


class NormalizedLayer(nn.Sequential):
    """activation(norm(linear(x))): (..., K) -> (..., M).

    Its parts, in this order: a layer over the last dimension, such as nn.Linear or BinaryLinear; a BatchNorm over all
    other dimensions; an activation or nothing. Only nn.ReLU and nn.Hardtanh, with limits -1 and 1, are fused.

    Examples:
        >>> layer = NormalizedLayer(BinaryLinear(64, 128, "lsr"), PointNorm(128), torch.nn.Hardtanh())
        >>> layer(torch.randn(8, 100, 64)).shape
        torch.Size([8, 100, 128])
    """

    fused = True  # False: the parts run one after the other

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        x = input[0] if isinstance(input, list) else input  # a ConcatLinear reads several tensors
        return self._fused(input) if self._can_fuse(x) else super().forward(input)  # pyright: ignore[reportArgumentType]

    def _can_fuse(self, x: Any) -> bool:
        if not self.fused or len(self) not in (2, 3) or not isinstance(x, Tensor):  # such as a symbol of a tracer
            return False
        if not on_gpu(x) or not tracks_statistics(self[1], x) or any(map(_has_hooks, self)):
            return False
        if type(self[1]) is nn.BatchNorm1d and x.dim() > 2:  # its channels are not the last dimension
            return False
        # One row has no variance; BatchNorm says so.
        return x.numel() > x.shape[-1] and (len(self) == 2 or _activation(self[2]) is not None)

    def _fused(self, x: Tensor | list[Tensor]) -> Tensor:
        linear, norm, *activation = self
        assert isinstance(norm, nn.BatchNorm1d)
        name = _activation(activation[0]) if activation else None
        last = norm.weight, norm.bias
        found: Any
        if isinstance(x, Tensor) and isinstance(linear, BinaryLinear) and plain_signs(linear):
            method, bias, shape = linear.method, linear.bias, x.shape
            factors = x.reshape(-1, x.shape[-1]).contiguous(), method.binarize_weight(linear), method.scale(linear)
            found = _BinaryLayer.apply(*factors, *last, bias, norm.eps, method.slope, name)
        elif isinstance(x, Tensor) and _reads_points(linear, x):
            rows, shape = x.reshape(-1, 3).contiguous(), x.shape
            found = _FirstLayer.apply(rows, linear.weight, linear.bias, *last, norm.eps, name)
        else:
            z = linear(x)
            if z.dtype != torch.float32 or z.numel() == z.shape[-1]:
                return nn.Sequential(norm, *activation)(z)
            found, shape = _NormLayer.apply(z.reshape(-1, z.shape[-1]).contiguous(), *last, norm.eps, name), z.shape
        y, mean, variance = found
        track(norm, mean, variance, len(y))
        return y.reshape(*shape[:-1], -1)
