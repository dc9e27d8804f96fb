"""Binarization methods: how a linear layer's weights and inputs become +-1, and how the product is scaled again.

A method is a small frozen dataclass; `BinaryLinear` calls its hooks in this order:

    a = method.binarize_input(x, layer)        # (..., K) of +-1, differentiable
    w = method.binarize_weight(layer)          # (M, K) of +-1, differentiable
    z = method.scale(layer) * (a . w^T)        # (..., M)
    z = method.point_scale(x) * z              # where the method has one
    z = z + layer.bias                         # where the method has one

In the formulas below A is the input, W the weight, S(x) = [|x| <= 1] the clipped straight-through slope, g_Z the
incoming gradient, and `m` an output, `k` an input, `i` a point. A scale that is called constant takes no part in the
gradient. A new method is one class below and one row in METHODS; the tests that run over METHODS then cover it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from bipointnet.nn.sign import Slope, clipped, hard_sign, narrowing, polynomial, sign, straight

if TYPE_CHECKING:
    from bipointnet.nn.linear import BinaryLinear


@dataclass(frozen=True)
class Method:
    """What methods have in common: sign(A) . sign(W)^T, with no scale.

    slope: gradient of sign for the inputs; the weights take the clipped straight-through gradient.
    """

    slope: Slope = clipped
    bias: ClassVar[bool] = True
    scales_points: ClassVar[bool] = False

    def learned(self, weight: Tensor) -> dict[str, nn.Parameter]:
        """Learned scales by name, made when a layer is built; they are parameters of the layer from then on."""
        return {}

    def scheduled(self) -> dict[str, Tensor]:
        """What `set_progress` sets, by name: buffers of a layer that are no part of its state dict."""
        return {}

    def binarize_input(self, x: Tensor, layer: BinaryLinear) -> Tensor:
        return sign(x, self.slope)

    def input_threshold(self, layer: BinaryLinear) -> Tensor:
        """The number from which on an input becomes +1."""
        return layer.weight.new_zeros(())

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(layer.weight)

    def scale(self, layer: BinaryLinear) -> Tensor:
        """A scalar, or one number an output channel (M,)."""
        return layer.weight.new_ones(())

    def point_scale(self, x: Tensor) -> Tensor | None:
        """One number a row of the input (..., 1), for methods with `scales_points`."""
        return None

    def scale_count(self, outputs: int) -> int:
        """How many numbers the scales of a layer are, those of the points not counted."""
        return 0

    def calibrate(self, layer: BinaryLinear, x: Tensor) -> None:
        """Set the scales from the first real input of the layer, before training."""

    def set_progress(self, layer: BinaryLinear, done: float) -> None:
        """Told before every epoch which share of the training is done, from 0 up to 1."""


@dataclass(frozen=True)
class BNN(Method):
    """Binarized neural network (Hubara et al. 2016).

    Forward:   Z = sign(A) . sign(W)^T + bias
    Gradient:  g_A = (g_Z . sign(W)) S(A),   g_W = (g_Z^T . sign(A)) S(W)
    """


@dataclass(frozen=True)
class XNOR(Method):
    """XNOR-Net (Rastegari et al. 2016), on points: one scale an output and one a point.

    Forward:   Z_im = b_i a_m (sign(A) . sign(W')^T)_im + bias_m,   W' = W - mean over k of each row,
               a_m = mean over k of |W'|,   b_i = mean over k of |A|, both constant
    Gradient:  g_A = ((b g_Z a) . sign(W')) S(A);   g_W = g' - row mean of g',   g' = ((b g_Z a)^T . sign(A)) S(W')
    """

    scales_points: ClassVar[bool] = True

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(_centred_rows(layer.weight))

    def scale(self, layer: BinaryLinear) -> Tensor:
        return _centred_rows(layer.weight.detach()).abs().mean(dim=1)

    def point_scale(self, x: Tensor) -> Tensor:
        return x.detach().abs().mean(dim=-1, keepdim=True)

    def scale_count(self, outputs: int) -> int:
        return outputs


@dataclass(frozen=True)
class XNORPlusPlus(Method):
    """XNOR-Net++ (Bulat and Tzimiropoulos 2019), its case 1: one learned scale a layer.

    Forward:   Z = alpha (sign(A) . sign(W)^T), no bias;   alpha starts at mean |W|
    Gradient:  as BNN times alpha;   g_alpha = sum(g_Z * (sign(A) . sign(W)^T))
    """

    bias: ClassVar[bool] = False

    def learned(self, weight: Tensor) -> dict[str, nn.Parameter]:
        return {"alpha": nn.Parameter(weight.detach().abs().mean())}

    def scale(self, layer: BinaryLinear) -> Tensor:
        return layer.alpha

    def scale_count(self, outputs: int) -> int:
        return 1


@dataclass(frozen=True)
class BiReal(Method):
    """Bi-Real Net (Liu et al. 2018).

    Forward:   Z = a_m (sign(A) . sign(W)^T), no bias;   a_m = mean over k of |W|, constant
    Gradient:  g_A = ((g_Z a) . sign(W)) P(A),   P(x) = 2 - 2|x| inside (-1, 1), else 0;
               g_W = (g_Z^T . sign(A)) S(W), without the scale

    The weights' slope is divided by the scale that the product brings in; so a_m is kept off 0.
    """

    slope: Slope = polynomial
    bias: ClassVar[bool] = False

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(layer.weight, _unscaled, self.scale(layer).unsqueeze(1))

    def scale(self, layer: BinaryLinear) -> Tensor:
        return layer.weight.detach().abs().mean(dim=1).clamp(min=1e-12)

    def scale_count(self, outputs: int) -> int:
        return outputs


@dataclass(frozen=True)
class ABCNet(Method):
    """ABC-Net (Lin et al. 2017) with one base for the weights and one for the inputs.

    Forward:   Z = a b (H(A) . B^T), no bias;   H(x) = sign(clip(x + v, 0, 1) - 1/2),   B = sign(W - mean W),
               a = <W, B> / <B, B>, constant;   b and v learned, one each a layer, from 1 and 1/2
    Gradient:  g_A = a b (g_Z . B) [0 <= A + v <= 1],   g_v = its sum;   g_W = g' - mean g',   g' = a b (g_Z^T . H(A));
               g_b = a sum(g_Z * (H(A) . B^T))
    """

    slope: Slope = straight
    bias: ClassVar[bool] = False

    def learned(self, weight: Tensor) -> dict[str, nn.Parameter]:
        return {"beta": nn.Parameter(weight.new_ones(())), "offset": nn.Parameter(weight.new_full((), 0.5))}

    def binarize_input(self, x: Tensor, layer: BinaryLinear) -> Tensor:
        return sign((x + layer.offset).clamp(0, 1) - 0.5, self.slope)

    def input_threshold(self, layer: BinaryLinear) -> Tensor:
        return 0.5 - layer.offset

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        return sign(layer.weight - layer.weight.mean(), straight)

    def scale(self, layer: BinaryLinear) -> Tensor:
        weight = layer.weight.detach()
        return layer.beta * (weight * hard_sign(weight - weight.mean())).mean()

    def scale_count(self, outputs: int) -> int:
        return 3


@dataclass(frozen=True)
class IRNet(Method):
    """IR-Net (Qin et al. 2020): balanced weights, power-of-two scales, a slope that narrows as training goes on.

    Forward:   Z = 2^s_m (sign(A) . sign(W')^T) + bias;   W' = (W - row mean) / row std, unbiased, or 1 if it is 0;
               s_m = round(log2 mean over k of |W'|), constant
    Gradient:  g_A = ((g_Z 2^s) . sign(W')) T(A),   T(x) = k t (1 - tanh(t x)^2),   k = max(1 / t, 1);
               through W' = (W - mean) / std to W from g' = ((g_Z 2^s)^T . sign(A)) T(W')
    Schedule:  t rises from 1/1000 to 10, evenly in its logarithm, over the epochs
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

    def set_progress(self, layer: BinaryLinear, done: float) -> None:
        layer.narrowness.fill_(math.exp(math.log(1e-3) + done * (math.log(10) - math.log(1e-3))))

    @staticmethod
    def _standardized(weight: Tensor) -> Tensor:
        centred = _centred_rows(weight)
        variance = (centred**2).sum(dim=1, keepdim=True) / max(weight.shape[1] - 1, 1)
        return centred / torch.where(variance > 0, variance, 1).sqrt()


@dataclass(frozen=True)
class LSR(Method):
    """Layer-wise scale recovery, the paper's method (Qin et al. 2021).

    Forward:   Z = alpha * (sign(A) . sign(W')^T),   W' = W - mean(W) over the whole matrix, no bias
    Gradient:  as BNN with W' for W, through the mean;  g_alpha = sum(g_Z * (sign(A) . sign(W')^T))

    alpha is one scalar a layer. It starts at std(A . W'^T) / std(sign(A) . sign(W')^T) on the first real batch; where
    that is not finite, at std(W') / std(sign(W')).
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
        centred = layer.weight - layer.weight.mean()
        product = layer.product(hard_sign(x), hard_sign(centred))
        ratio = layer.product(x, centred).std(unbiased=False) / product.std(unbiased=False)
        layer.alpha.copy_(ratio if ratio.isfinite() else self._weight_ratio(layer.weight))

    @staticmethod
    def _weight_ratio(weight: Tensor) -> Tensor:
        centred = weight.detach() - weight.detach().mean()
        ratio = centred.std(unbiased=False) / hard_sign(centred).std(unbiased=False)
        return torch.where(ratio.isfinite(), ratio, torch.ones_like(ratio))


def _centred_rows(weight: Tensor) -> Tensor:
    return weight - weight.mean(dim=1, keepdim=True)


def _unscaled(x: Tensor, scale: Tensor) -> Tensor:
    return clipped(x) / scale


METHODS: dict[str, Method] = {
    "bnn": BNN(),
    "xnor": XNOR(),
    "xnor++": XNORPlusPlus(),
    "bi-real": BiReal(),
    "abc-net": ABCNet(),
    "ir-net": IRNet(),
    "lsr": LSR(),
}
