"""A linear layer on concatenated features of points and of their cloud, without the concatenation.

    Z = [x_1, x_2, ...] . W^T = x_1 . W_1^T + x_2 . W_2^T + ...,   W_i the columns of W that read x_i

Features of the cloud are the same at all of its points. Their product is computed once per cloud and added to the
products of the points; no row is copied to every point. Sums of +-1 are integers, so a 1-bit layer gives the same bits
as the plain layer.
"""

from collections.abc import Iterable
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.nn.calibrate import Calibrated
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.product import binary_product


class ConcatLinear(nn.Module, Calibrated):
    """linear(concat([x_1, x_2, ...])): a list of inputs -> (B, N, M).

    Args:
        linear: nn.Linear or BinaryLinear; its inputs are the channels of all parts together.
    Shapes: the first part is (B, N, K_1); the others are (B, N, K_i), or (B, 1, K_i) for features of the cloud.

    Set `fused` to False to run `linear` on the concatenation, which forward hooks on it need.

    Examples:
        >>> layer = ConcatLinear(BinaryLinear(64 + 1024, 512, "lsr"))
        >>> layer([torch.randn(2, 100, 64), torch.randn(2, 1, 1024)]).shape
        torch.Size([2, 100, 512])
    """

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self.linear = linear
        self.fused = True

    def calibrate(self, x: list[Tensor]) -> None:
        """Set the values that depend on the first input."""
        if isinstance(self.linear, BinaryLinear):
            self.linear.calibrate(concatenate(x))

    def forward(self, parts: list[Tensor]) -> Tensor:
        linear = self.linear
        sizes = [part.shape[-1] for part in parts]
        if self.fused and isinstance(linear, nn.Linear):
            z = _sum(F.linear(x, w) for x, w in zip(parts, linear.weight.split(sizes, dim=1), strict=True))
            return z if linear.bias is None else z + linear.bias
        # A scale per point is a mean over all parts, and a center is one vector for them: splitting gains nothing.
        whole = isinstance(linear, BinaryLinear) and (linear.method.scales_points or linear.center is not None)
        if not self.fused or not isinstance(linear, BinaryLinear) or whole:
            return linear(concatenate(parts))
        weights = linear.method.binarize_weight(linear).split(sizes, dim=1)
        one = linear.weight.new_ones(())
        z = _sum(
            binary_product(linear.method.binarize_input(x, linear), w, one) for x, w in zip(parts, weights, strict=True)
        )
        z = z * linear.method.scale(linear)
        return z if linear.bias is None else z + linear.bias


def concatenate(parts: list[Tensor]) -> Tensor:
    """The parts as one tensor (B, N, sum of K_i), with features of the cloud repeated at each point."""
    return torch.cat([part.expand(-1, parts[0].shape[1], -1) for part in parts], dim=-1)


def _sum(terms: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, terms)
