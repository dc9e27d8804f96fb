"""Binarization methods: how a linear layer's weights and inputs become +-1, and how the product is scaled again.

A method is a small frozen dataclass; `BinaryLinear` calls its hooks in this order:

    a = method.binarize_input(x, layer)        # (..., K) of +-1, differentiable
    w = method.binarize_weight(layer.weight)   # (M, K) of +-1, differentiable
    z = method.scale(layer) * (a . w^T)        # (..., M)

A new method is one class below and one row in METHODS; the tests that run over METHODS then cover it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from bipointnet.nn.product import binary_product
from bipointnet.nn.sign import Slope, clipped, hard_sign, sign

if TYPE_CHECKING:
    from bipointnet.nn.linear import BinaryLinear


@dataclass(frozen=True)
class Method:
    """What methods have in common: sign(A) . sign(W)^T, with no scale.

    slope: gradient of sign for the inputs; the weights always take the clipped straight-through gradient.
    """

    slope: Slope = clipped
    bias: ClassVar[bool] = True

    def learned(self, weight: Tensor) -> dict[str, nn.Parameter]:
        """Learned scales by name, made when a layer is built; they are parameters of the layer from then on."""
        return {}

    def binarize_input(self, x: Tensor, layer: BinaryLinear) -> Tensor:
        return sign(x, self.slope)

    def binarize_weight(self, weight: Tensor) -> Tensor:
        return sign(weight)

    def scale(self, layer: BinaryLinear) -> Tensor:
        """A scalar, or one number an output channel (M,)."""
        return layer.weight.new_ones(())

    def calibrate(self, layer: BinaryLinear, x: Tensor) -> None:
        """Set the scales from the first real input of the layer, before training."""


@dataclass(frozen=True)
class BNN(Method):
    """Binarized neural network (Hubara et al. 2016).

    Forward:   Z = sign(A) . sign(W)^T + bias
    Gradient:  g_A = (g_Z . sign(W)) [|A| <= 1],   g_W = (g_Z^T . sign(A)) [|W| <= 1]
    """


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

    def binarize_weight(self, weight: Tensor) -> Tensor:
        return sign(weight - weight.mean())

    def scale(self, layer: BinaryLinear) -> Tensor:
        return layer.alpha

    @torch.no_grad()
    def calibrate(self, layer: BinaryLinear, x: Tensor) -> None:
        centred = layer.weight - layer.weight.mean()
        product = binary_product(hard_sign(x), hard_sign(centred), x.new_ones(()))
        ratio = (x @ centred.T).std(unbiased=False) / product.std(unbiased=False)
        layer.alpha.copy_(ratio if ratio.isfinite() else self._weight_ratio(layer.weight))

    @staticmethod
    def _weight_ratio(weight: Tensor) -> Tensor:
        centred = weight.detach() - weight.detach().mean()
        ratio = centred.std(unbiased=False) / hard_sign(centred).std(unbiased=False)
        return torch.where(ratio.isfinite(), ratio, torch.ones_like(ratio))


METHODS: dict[str, Method] = {"bnn": BNN(), "lsr": LSR()}
