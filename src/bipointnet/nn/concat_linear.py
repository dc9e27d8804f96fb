"""A linear layer on features of a point beside features of its cloud, without laying them side by side.

    Z = [x_1, x_2, ...] . W^T = x_1 . W_1^T + x_2 . W_2^T + ...,   W_i the columns of W that read x_i

What the cloud says is the same at all of its points: its product is computed once a cloud and added to those of the
points, and no row is copied to every point. Sums of +-1 are integers, so that in 1 bit the result is that of the plain
layer bit for bit.
"""

from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.product import binary_product


class ConcatLinear(nn.Module):
    """linear([x_1, x_2, ...]), of parts (B, N, K_i), the first, or (B, 1, K_i), which all points share -> (B, N, M).

    Args: linear, nn.Linear or BinaryLinear, that reads the sum of all K_i.
    Set `fused` to False to have `linear` read the parts side by side, as forward hooks on it need.
    """

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self.linear = linear
        self.fused = True

    def calibrate(self, parts: list[Tensor]) -> None:
        if isinstance(self.linear, BinaryLinear):
            self.linear.calibrate(side_by_side(parts))

    def forward(self, parts: list[Tensor]) -> Tensor:
        linear = self.linear
        sizes = [part.shape[-1] for part in parts]
        if self.fused and isinstance(linear, nn.Linear):
            return (
                _sum(F.linear(x, w) for x, w in zip(parts, linear.weight.split(sizes, dim=1), strict=True))
                + linear.bias
            )
        # A scale a point is a mean over all parts: nothing is gained.
        if not self.fused or not isinstance(linear, BinaryLinear) or linear.method.scales_points:
            return linear(side_by_side(parts))
        weights = linear.method.binarize_weight(linear).split(sizes, dim=1)
        one = linear.weight.new_ones(())
        z = _sum(
            binary_product(linear.method.binarize_input(x, linear), w, one) for x, w in zip(parts, weights, strict=True)
        )
        z = z * linear.method.scale(linear)
        return z if linear.bias is None else z + linear.bias


def side_by_side(parts: list[Tensor]) -> Tensor:
    """The parts as rows of one tensor, those that points share repeated at each: (B, N, sum of K_i)."""
    return torch.cat([part.expand(-1, parts[0].shape[1], -1) for part in parts], dim=-1)


def _sum(terms: object) -> Tensor:
    return reduce(torch.add, terms)  # pyright: ignore
