"""Pools over points, and the shift that keeps the entropy of a binarized max pool at its maximum.

All of n values drawn from N(0, 1) are below d with probability Phi(d)^n. A bit sign(max - d) carries the most
information when this probability is one half, so

    delta(n) = Phi^-1(2^(-1/n))

which is 0 for n = 1 and grows like sqrt(2 log n). A mean of symmetric values is symmetric already and needs no shift.
(BiPointNet, Qin et al. 2021, arXiv:2010.05501.)

Pools over neighbors take the number of true neighbors as `counts`. The remaining ones repeat the nearest neighbor, see
`nn.geometry`: they change no maximum, and n and means leave them out.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from bipointnet.delta import delta
from bipointnet.nn.calibrate import Calibrated

Function = TypeVar("Function", bound=Callable)


def _constant_when_compiled(function: Function) -> Function:
    """torch.compiler.assume_constant_result, which sets this attribute but imports torch._dynamo (2 to 4 s) first."""
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


@_constant_when_compiled
def _constant_delta(n: int) -> float:
    """delta(n), which torch.compile evaluates once per n."""
    return delta(n)


@_constant_when_compiled
def _constant_deltas(most: int) -> list[float]:
    """delta(1), ..., delta(most), which torch.compile evaluates once."""
    return [delta(n) for n in range(1, most + 1)]


def deltas(counts: Tensor, most: int) -> Tensor:
    """delta(n) of each of `counts`, integers from 1 to `most`, in float64."""
    table = torch.tensor(_constant_deltas(most), dtype=torch.float64, device=counts.device)
    return table[counts - 1]


class MaxPool(nn.Module):
    """Y = max over points: (..., N, C) -> (..., C). Its name in POOLS is "max".

    The gradient goes to one point per channel, the first that attains the maximum. (amax would share it among ties,
    and 1-bit layers have hundreds of ties.)

    Example:
        >>> MaxPool()(torch.randn(2, 100, 64)).shape
        torch.Size([2, 64])
    """

    def shift(self, x: Tensor, counts: Tensor | None) -> Tensor | float:
        """The value to subtract from the maxima of x (..., N, C); the first `counts` (...) of N are true neighbors."""
        return 0.0

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        return x.max(dim=-2).values - self.shift(x, counts)


class MeanPool(nn.Module):
    """Y = mean over points: (..., N, C) -> (..., C), or over the first `counts` points. Its name in POOLS is "avg".

    Example:
        >>> MeanPool()(torch.randn(2, 100, 64)).shape
        torch.Size([2, 64])
    """

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        if counts is None:
            return x.mean(dim=-2)
        counts = counts.clamp(min=1).unsqueeze(-1)  # (..., 1); an empty ball holds the nearest point
        true = torch.arange(x.shape[-2], device=x.device) < counts  # (..., N)
        return (x * true.unsqueeze(-1)).sum(dim=-2) / counts


class EntropyMax(MaxPool):
    """EMA-max: Y = max over points - delta(n): (..., N, C) -> (..., C). Its name in POOLS is "ema-max".

    X is the output of a BatchNorm, without an activation between.

    Example:
        >>> bits = EntropyMax()(torch.randn(400, 512, 8)) >= 0  # about half of them are True; with MaxPool() all are
    """

    def shift(self, x: Tensor, counts: Tensor | None) -> Tensor | float:
        most = x.shape[-2]
        if counts is None:
            return _constant_delta(most)
        return deltas(counts.clamp(1, most), most).to(x.dtype).unsqueeze(-1)


class EntropyMean(MeanPool):
    """EMA-avg: Y = mean over points: (..., N, C) -> (..., C). Its name in POOLS is "ema-avg".

    Its best shift is 0, so it equals MeanPool.

    Example:
        >>> model = PointNet(num_classes=40, linear="lsr", pool=EntropyMean())  # or pool="ema-avg"
    """


class MeasuredMax(nn.Module, Calibrated):
    """Y = max over points - d: (..., N, C) -> (..., C). `calibrate` sets d to the median maximum of the first batch.

    It replaces EntropyMax in networks without BatchNorm.

    Example:
        >>> pool = MeasuredMax()
        >>> calibrate(pool, 7 * torch.randn(32, 100, 16) + 2)
    """

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(()))

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> None:
        """Set the values that depend on the first input."""
        self.shift.copy_(x.max(dim=-2).values.median())

    def forward(self, x: Tensor, counts: Tensor | None = None) -> Tensor:
        return x.max(dim=-2).values - self.shift


POOLS: dict[str, type[nn.Module]] = {
    "max": MaxPool,
    "avg": MeanPool,
    "ema-max": EntropyMax,
    "ema-avg": EntropyMean,
}
