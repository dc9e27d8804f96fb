"""Binarization methods: how a linear layer's weights and inputs become +-1, and how the product is scaled again.

A method is a small frozen dataclass. `BinaryLinear` calls its hooks in this order:

    a = method.binarize_input(x, layer)        # (..., K) of +-1, differentiable
    w = method.binarize_weight(layer)          # (M, K) of +-1, differentiable
    z = method.scale(layer) * (a . w^T)        # (..., M)
    z = method.point_scale(x) * z              # if the method has one
    z = z + layer.bias                         # if the method has one

In the formulas below A is the input, W the weight, S(x) = [|x| <= 1] the clipped straight-through slope and g_Z the
incoming gradient; m is the index of an output, k of an input, i of a point. A constant scale has no gradient. A new
method is one class below and one row in METHODS; the tests that run over METHODS then cover it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from bipointnet.nn.sign import Slope, clipped, hard_sign, narrowing, polynomial, sign, straight

if TYPE_CHECKING:
    from bipointnet.nn.linear import BinaryLinear


@dataclass(frozen=True, repr=False)
class Method:
    """Base class of all methods: sign(A) . sign(W)^T without a scale.

    bias: whether layers have a bias. scales_points: whether there is a scale per point.

    Args:
        slope: gradient of sign for the inputs. The weights use the clipped straight-through gradient.

    Examples:
        >>> BinaryLinear(64, 128, LSR(slope=polynomial))
        BinaryLinear(64, 128, LSR(slope=polynomial))
    """

    slope: Slope = clipped
    bias: ClassVar[bool] = True
    scales_points: ClassVar[bool] = False

    def learned(self, weight: Tensor) -> dict[str, nn.Parameter]:
        """Initial values of learned scales by name; they become parameters of the layer."""
        return {}

    def scheduled(self) -> dict[str, Tensor]:
        """Values that `set_progress` sets, by name; they become buffers of the layer outside its state dict."""
        return {}

    def binarize_input(self, x: Tensor, layer: BinaryLinear) -> Tensor:
        """Inputs of +-1 of a layer, with the gradient of this method."""
        return sign(x, self.slope)

    def input_threshold(self, layer: BinaryLinear) -> Tensor:
        """The smallest input that becomes +1: a scalar, or one per input (K,) where the layer has a center."""
        return layer.weight.new_zeros(()) if layer.center is None else layer.center

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        """Weights of +-1 of a layer, with the gradient of this method."""
        return sign(layer.weight)

    def scale(self, layer: BinaryLinear) -> Tensor:
        """A scalar, or one scale per output channel (M,)."""
        return layer.weight.new_ones(())

    def point_scale(self, x: Tensor) -> Tensor | None:
        """One scale per row of the input (..., 1), for methods with `scales_points`."""
        return None

    def scale_count(self, outputs: int) -> int:
        """Number of scales of a layer, without the scales of points."""
        return 0

    def calibrate(self, layer: BinaryLinear, x: Tensor) -> None:
        """Set the scales from the first real input of the layer, before training."""

    def set_progress(self, layer: BinaryLinear, fraction: float) -> None:
        """Update scheduled values; `fraction` of the training is complete, from 0 to 1."""

    def __repr__(self) -> str:
        """The expression that makes this method, with functions by name: LSR(slope=polynomial)."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        changed = (f"{f.name}={_name(values[f.name])}" for f in fields(self) if values[f.name] != f.default)
        return f"{type(self).__name__}({', '.join(changed)})"


@dataclass(frozen=True, repr=False)
class BNN(Method):
    """Binarized neural network (Hubara et al. 2016, arXiv:1602.02830).

        Forward:   Z = sign(A) . sign(W)^T + bias
        Gradient:  g_A = (g_Z . sign(W)) S(A),   g_W = (g_Z^T . sign(A)) S(W)

    Examples:
        >>> layer = BinaryLinear(64, 128, BNN())  # or "bnn"
    """


@dataclass(frozen=True, repr=False)
class XNOR(Method):
    """XNOR-Net (Rastegari et al. 2016, arXiv:1603.05279) on points: one scale per output and one per point.

        Forward:   Z_im = b_i a_m (sign(A) . sign(W')^T)_im + bias_m,   W' = W - mean over k of each row,
                   a_m = mean over k of |W'|,   b_i = mean over k of |A|, both constant
        Gradient:  g_A = ((b g_Z a) . sign(W')) S(A);   g_W = g' - row mean of g',   g' = ((b g_Z a)^T . sign(A)) S(W')

    Examples:
        >>> layer = BinaryLinear(64, 128, XNOR())  # or "xnor"
    """

    scales_points: ClassVar[bool] = True

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(_centered_rows(layer.weight))

    def scale(self, layer: BinaryLinear) -> Tensor:
        return _centered_rows(layer.weight.detach()).abs().mean(dim=1)

    def point_scale(self, x: Tensor) -> Tensor:
        return x.detach().abs().mean(dim=-1, keepdim=True)

    def scale_count(self, outputs: int) -> int:
        return outputs


@dataclass(frozen=True, repr=False)
class XNORPlusPlus(Method):
    """XNOR-Net++ (Bulat and Tzimiropoulos 2019, arXiv:1909.13863), case 1: one learned scale per layer.

        Forward:   Z = alpha (sign(A) . sign(W)^T), no bias;   alpha starts at mean |W|
        Gradient:  as BNN times alpha;   g_alpha = sum(g_Z * (sign(A) . sign(W)^T))

    Examples:
        >>> layer = BinaryLinear(64, 128, XNORPlusPlus())  # or "xnor++"
    """

    bias: ClassVar[bool] = False

    def learned(self, weight: Tensor) -> dict[str, nn.Parameter]:
        return {"alpha": nn.Parameter(weight.detach().abs().mean())}

    def scale(self, layer: BinaryLinear) -> Tensor:
        return layer.alpha

    def scale_count(self, outputs: int) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class BiReal(Method):
    """Bi-Real Net (Liu et al. 2018, arXiv:1808.00278).

        Forward:   Z = a_m (sign(A) . sign(W)^T), no bias;   a_m = mean over k of |W|, constant
        Gradient:  g_A = ((g_Z a) . sign(W)) P(A),   P(x) = 2 - 2|x| inside (-1, 1), else 0;
                   g_W = (g_Z^T . sign(A)) S(W), without the scale

    The product multiplies the gradient of the weights by the scale, so their slope divides by it; a_m must not be 0.

    Examples:
        >>> layer = BinaryLinear(64, 128, BiReal())  # or "bi-real"
    """

    slope: Slope = polynomial
    bias: ClassVar[bool] = False

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(layer.weight, _unscaled, self.scale(layer).unsqueeze(1))

    def scale(self, layer: BinaryLinear) -> Tensor:
        return layer.weight.detach().abs().mean(dim=1).clamp(min=1e-12)

    def scale_count(self, outputs: int) -> int:
        return outputs


@dataclass(frozen=True, repr=False)
class ABCNet(Method):
    """ABC-Net (Lin et al. 2017, arXiv:1711.11294) with one base for the weights and one for the inputs.

        Forward:   Z = a b (H(A) . B^T), no bias;   H(x) = sign(clip(x + v, 0, 1) - 1/2),   B = sign(W - mean W),
                   a = <W, B> / <B, B>, constant;   b and v learned, one each per layer, from 1 and 1/2
        Gradient:  g_A = a b (g_Z . B) [0 <= A + v <= 1],   g_v = its sum;   g_b = a sum(g_Z * (H(A) . B^T));
                   g_W = g' - mean g',   g' = a b (g_Z^T . H(A))

    Examples:
        >>> layer = BinaryLinear(64, 128, ABCNet())  # or "abc-net"
    """

    slope: Slope = straight
    bias: ClassVar[bool] = False

    def learned(self, weight: Tensor) -> dict[str, nn.Parameter]:
        return {"beta": nn.Parameter(weight.new_ones(())), "offset": nn.Parameter(weight.new_full((), 0.5))}

    def binarize_input(self, x: Tensor, layer: BinaryLinear) -> Tensor:
        return sign((x + layer.offset).clamp(0, 1) - 0.5, self.slope)

    def input_threshold(self, layer: BinaryLinear) -> Tensor:
        return super().input_threshold(layer) + 0.5 - layer.offset

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(layer.weight - layer.weight.mean(), straight)

    def scale(self, layer: BinaryLinear) -> Tensor:
        weight = layer.weight.detach()
        return layer.beta * (weight * hard_sign(weight - weight.mean())).mean()

    def scale_count(self, outputs: int) -> int:
        return 3


@dataclass(frozen=True, repr=False)
class IRNet(Method):
    """IR-Net (Qin et al. 2020, arXiv:1909.10788): balanced weights, power-of-two scales, a slope that narrows.

    Call `set_progress` before every epoch: it narrows the slope.

        Forward:   Z = 2^s_m (sign(A) . sign(W')^T) + bias;   W' = (W - row mean) / row std, unbiased, or 1 if it is 0;
                   s_m = round(log2 mean over k of |W'|), constant
        Gradient:  g_A = ((g_Z 2^s) . sign(W')) T(A),   T(x) = k t (1 - tanh(t x)^2),   k = max(1 / t, 1);
                   through W' = (W - mean) / std to W from g' = ((g_Z 2^s)^T . sign(A)) T(W')
        Schedule:  t rises from 1/1000 to 10, evenly in its logarithm, over the epochs

    Examples:
        >>> layer = BinaryLinear(64, 128, IRNet())  # or "ir-net"
    """

    slope: Slope = narrowing

    def scheduled(self) -> dict[str, Tensor]:
        return {"narrowness": torch.tensor(1e-3)}

    def binarize_input(self, x: Tensor, layer: BinaryLinear) -> Tensor:
        return sign(x, self.slope, layer.narrowness.to(x.dtype))

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(self._standardized(layer.weight), self.slope, layer.narrowness.to(layer.weight.dtype))

    def scale(self, layer: BinaryLinear) -> Tensor:
        return torch.exp2(self._standardized(layer.weight.detach()).abs().mean(dim=1).log2().round())

    def scale_count(self, outputs: int) -> int:
        return outputs

    def set_progress(self, layer: BinaryLinear, fraction: float) -> None:
        layer.narrowness.fill_(math.exp(math.log(1e-3) + fraction * (math.log(10) - math.log(1e-3))))

    @staticmethod
    def _standardized(weight: Tensor) -> Tensor:
        centered = _centered_rows(weight)
        variance = (centered**2).sum(dim=1, keepdim=True) / max(weight.shape[1] - 1, 1)
        return centered / torch.where(variance > 0, variance, 1).sqrt()


@dataclass(frozen=True, repr=False)
class LSR(Method):
    """Layer-wise scale recovery, the method of BiPointNet (Qin et al. 2021, arXiv:2010.05501).

        Forward:   Z = alpha * (sign(A) . sign(W')^T),   W' = W - mean(W) over the whole matrix, no bias
        Gradient:  as BNN with W' for W, through the mean;  g_alpha = sum(g_Z * (sign(A) . sign(W')^T))

    alpha is one scalar per layer. `calibrate` sets it to std(A . W'^T) / std(sign(A) . sign(W')^T) on the first real
    batch, or to std(W') / std(sign(W')) if that is 0 or not finite: with alpha = 0 no weight would have a gradient.

    Examples:
        >>> layer = BinaryLinear(64, 128, LSR())  # or "lsr"
    """

    bias: ClassVar[bool] = False

    def learned(self, weight: Tensor) -> dict[str, nn.Parameter]:
        return {"alpha": nn.Parameter(self._weight_ratio(weight))}

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(layer.weight - layer.weight.mean())

    def scale(self, layer: BinaryLinear) -> Tensor:
        return layer.alpha

    def scale_count(self, outputs: int) -> int:
        return 1

    @torch.no_grad()
    def calibrate(self, layer: BinaryLinear, x: Tensor) -> None:
        centered = layer.weight - layer.weight.mean()
        product = layer.product(hard_sign(x), hard_sign(centered))
        ratio = layer.product(x, centered).std(unbiased=False) / product.std(unbiased=False)
        layer.alpha.copy_(ratio if ratio.isfinite() and ratio > 0 else self._weight_ratio(layer.weight))

    @staticmethod
    def _weight_ratio(weight: Tensor) -> Tensor:
        centered = weight.detach() - weight.detach().mean()
        ratio = centered.std(unbiased=False) / hard_sign(centered).std(unbiased=False)
        return torch.where(ratio.isfinite() & (ratio > 0), ratio, torch.ones_like(ratio))


def _centered_rows(weight: Tensor) -> Tensor:
    return weight - weight.mean(dim=1, keepdim=True)


def _unscaled(x: Tensor, scale: Tensor) -> Tensor:
    return clipped(x) / scale


def _name(value: object) -> str:
    return getattr(value, "__name__", None) or repr(value)


METHODS: dict[str, Method] = {
    "bnn": BNN(),
    "xnor": XNOR(),
    "xnor++": XNORPlusPlus(),
    "bi-real": BiReal(),
    "abc-net": ABCNet(),
    "ir-net": IRNet(),
    "lsr": LSR(),
}
