"""Block-diagonal linear layers: G small layers in parallel, as in grouped and depthwise convolutions.

    Z[..., g, m] = sum over k of A[..., g, k] W[g, m, k]

The weight is a matrix (G M, K) as in a grouped convolution, so methods binarize it like any other weight. A convolution
over K neighbors with G groups is this layer on (..., G channels, K neighbors).
"""

from typing import Any

import torch
from torch import Tensor, nn

from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.methods import Method
from bipointnet.nn.product import cast, exact_type, without_autocast


class _GroupedProduct(torch.autograd.Function):
    """(R, G, K), (G, M, K) -> (R, G, M).

    On a GPU these K x M products are too small for matrix units: torch.compile fuses them with the code around them.
    The gradient of w is a sum over all rows. There the full product of all groups with all groups is many times
    faster, although only its diagonal blocks are used.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, w: Tensor, binary: bool) -> Tensor:
        kind, ctx.given = torch.promote_types(a.dtype, w.dtype), a.dtype
        exact = exact_type(a, w)
        a, w = cast(a, exact), cast(w, exact)
        ctx.save_for_backward(a, w)
        ctx.small = torch.bfloat16 if binary else a.dtype  # as in nn.product
        with without_autocast(a):
            z = (a.unsqueeze(2) * w).sum(dim=3) if a.is_cuda else torch.einsum("rgk,gmk->rgm", a, w)
            return cast(z, kind)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        a, w = ctx.saved_tensors
        g = cast(grads[0], a.dtype)
        with without_autocast(a):
            if a.is_cuda:
                grad_w = cast(_diagonal_blocks(cast(a, ctx.small), cast(g, ctx.small)), w.dtype)
                return cast((g.unsqueeze(3) * w).sum(dim=2), ctx.given), grad_w, None
            grad_a = cast(torch.einsum("rgm,gmk->rgk", g, w), ctx.given)
            return grad_a, torch.einsum("rgm,rgk->gmk", g, a), None


def _diagonal_blocks(a: Tensor, g: Tensor) -> Tensor:
    """sum over r of g[r, g, m] a[r, g, k]: (R, G, K), (R, G, M) -> (G, M, K)"""
    groups = a.shape[1]
    every = g.flatten(1).T @ a.flatten(1)  # (G M, G K)
    return every.view(groups, -1, groups, a.shape[2]).diagonal(dim1=0, dim2=2).permute(2, 0, 1)


def grouped_product(a: Tensor, w: Tensor, binary: bool) -> Tensor:
    """a (..., G, K) and w (G M, K) -> (..., G M); exact for +-1, as float32 holds sums of up to 2^24 of them."""
    z: Any = _GroupedProduct.apply(a.flatten(0, -3), w.reshape(a.shape[-2], -1, a.shape[-1]), binary)
    return z.reshape(*a.shape[:-2], len(w))


class GroupedLinear(nn.Linear):
    """The block-diagonal linear layer: (..., groups, inputs) -> (..., groups * outputs).

    Examples:
        >>> GroupedLinear(8, 4, 3)(torch.randn(2, 100, 8, 4)).shape
        torch.Size([2, 100, 24])
    """

    def __init__(self, groups: int, inputs: int, outputs: int) -> None:
        super().__init__(inputs, groups * outputs)

    def forward(self, input: Tensor) -> Tensor:
        return grouped_product(input, self.weight, binary=False) + self.bias


class BinaryGrouped(BinaryLinear):
    """GroupedLinear with 1-bit weights and inputs: (..., groups, inputs) -> (..., groups * outputs).

    A method with a scale per point has one per group and point.

    Examples:
        >>> BinaryGrouped(8, 4, 3, "lsr")(torch.randn(2, 100, 8, 4)).shape
        torch.Size([2, 100, 24])
    """

    def __init__(self, groups: int, inputs: int, outputs: int, method: Method | str) -> None:
        super().__init__(inputs, groups * outputs, method)
        self.groups = groups

    def product(self, a: Tensor, w: Tensor) -> Tensor:
        return grouped_product(a, w, binary=False)

    def product_of_signs(self, a: Tensor, w: Tensor, scale: Tensor) -> Tensor:
        return grouped_product(a, w, binary=True) * scale

    def point_scale(self, x: Tensor) -> Tensor | None:
        scale = super().point_scale(x)  # (..., G, 1)
        return None if scale is None else scale.repeat_interleave(self.out_features // self.groups, dim=-2).squeeze(-1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, groups={self.groups}"
