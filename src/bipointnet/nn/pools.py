"""Pools over points, and the shift that keeps the entropy of a binarized max pool at its maximum.

Of n values drawn from N(0, 1), all lie below d with probability Phi(d)^n. A bit sign(max - d) carries the most
information when that is one half, so

    delta(n) = Phi^-1(2^(-1/n))

which is 0 for n = 1 and grows like sqrt(2 log n). A mean of symmetric values is symmetric already and needs no shift.

Pools over neighbours are told how many of them are true: the others repeat the nearest, see `nn.geometry`. These change
no maximum and are left out of n and of means.
"""

import math

import torch
from torch import Tensor, nn

from bipointnet.delta import delta


@torch.compiler.assume_constant_result
def _constant_delta(n: int) -> float:
    """delta(n), which torch.compile evaluates once per n."""
    return delta(n)


def deltas(counts: Tensor) -> Tensor:
    """delta(n) of each of `counts`, integers of at least 1, in float64."""
    return -torch.special.ndtri(-torch.expm1(-math.log(2) / counts.double()))


class MaxPool(nn.Module):
    """Y = max over points: (..., N, C) -> (..., C).

    The gradient goes to one point a channel, the first that attains the maximum. (amax would share it among ties,
    which 1-bit layers have by the hundred.)
    """

    def shift(self, x: Tensor, counts: Tensor | None) -> Tensor | float:
        """What is subtracted from the maxima of x (..., N, C), of which the first `counts` (...) count."""
        return 0.0

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        return x.max(dim=-2).values - self.shift(x, counts)


class MeanPool(nn.Module):
    """Y = mean over points: (..., N, C) -> (..., C); over the first `counts` of them where these are given."""

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        if counts is None:
            return x.mean(dim=-2)
        counts = counts.clamp(min=1).unsqueeze(-1)  # (..., 1); an empty ball has its nearest point
        true = torch.arange(x.shape[-2], device=x.device) < counts  # (..., N)
        return (x * true.unsqueeze(-1)).sum(dim=-2) / counts


class EntropyMax(MaxPool):
    """EMA-max: Y = max over points - delta(n), for X straight from BatchNorm: (..., N, C) -> (..., C)."""

    def shift(self, x: Tensor, counts: Tensor | None) -> Tensor | float:
        return _constant_delta(x.shape[-2]) if counts is None else deltas(counts.clamp(min=1)).to(x.dtype).unsqueeze(-1)


class EntropyMean(MeanPool):
    """EMA-avg: Y = mean over points: (..., N, C) -> (..., C). Its best shift is 0, so it equals MeanPool."""


class MeasuredMax(nn.Module):
    """Y = max over points - d, where d is the median of the pooled values of the first batch, then fixed.

    It stands in for EntropyMax in networks without BatchNorm.
    """

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(()))

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> None:
        self.shift.copy_(x.max(dim=-2).values.median())

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        return x.max(dim=-2).values - self.shift


POOLS: dict[str, type[nn.Module]] = {
    "max": MaxPool,
    "avg": MeanPool,
    "ema-max": EntropyMax,
    "ema-avg": EntropyMean,
}
