"""Pools over points, and the shift that keeps the entropy of a binarized max pool at its maximum.

All of n values drawn from N(0, 1) are below d with probability Phi(d)^n. A bit sign(max - d) carries the most
information when this probability is one half, so

    delta(n) = Phi^-1(2^(-1/n))

which is 0 for n = 1 and grows like sqrt(2 log n). A mean of symmetric values is symmetric already and needs no shift.
(BiPointNet, Qin et al. 2021, arXiv:2010.05501.)

Points of a surface are not independent draws: where two points have the same code, the bits that the pooled layer
reads, the second one cannot raise the maximum. So n is the number of distinct codes; docs/theory.md has the figures.
The paper counts points: with more points than in training, its shift grows and the maxima do not.

Pools over neighbors take the number of true neighbors as `counts`. The remaining ones repeat the nearest neighbor, see
`nn.geometry`: they change no maximum, and n and means leave them out.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from bipointnet.delta import delta
from bipointnet.errors import UserError
from bipointnet.nn.calibrate import Calibrated

Function = TypeVar("Function", bound=Callable)
LONGEST_TABLE = 4096  # a longer table takes longer than the values that are needed


def _constant_when_compiled(function: Function) -> Function:
    """torch.compiler.assume_constant_result, which sets this attribute but imports torch._dynamo (2 to 4 s) first."""
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


@_constant_when_compiled
def _constant_delta(n: int) -> float:
    """delta(n), which torch.compile evaluates once per n."""
    return delta(n)


_tables: dict[torch.device, Tensor] = {}


@_constant_when_compiled
def _table(device: torch.device) -> Tensor:
    """delta(1), ..., delta(LONGEST_TABLE) in float64."""
    if device not in _tables:
        values = [delta(n) for n in range(1, LONGEST_TABLE + 1)]
        _tables[device] = torch.tensor(values, dtype=torch.float64, device=device)
    return _tables[device]


def deltas(counts: Tensor, most: int) -> Tensor:
    """delta(n) of each of `counts`, integers from 1 to `most`, in float64."""
    if most <= LONGEST_TABLE:
        return _table(counts.device)[counts - 1]
    values, places = counts.unique(return_inverse=True)
    return torch.tensor([delta(n) for n in values.tolist()], dtype=torch.float64, device=counts.device)[places]


class MaxPool(nn.Module):
    """Y = max over points: (..., N, C) -> (..., C). Its name in POOLS is "max".

    The gradient goes to one point per channel, the first that attains the maximum. (amax would share it among ties,
    and 1-bit layers have hundreds of ties.)

    Examples:
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

    Examples:
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

    Args:
        over: what n is. "distinct": the number of distinct codes of the 1-bit layer in front, if there is one and its
            codes are known, as in a PooledLayer. "points": the number of points, as in the paper; its name in POOLS is
            "ema-max-points".

    Examples:
        >>> bits = EntropyMax()(torch.randn(400, 512, 8)) >= 0  # about half of them are True; with MaxPool() all are
    """

    def __init__(self, over: str = "distinct") -> None:
        super().__init__()
        if over not in ("distinct", "points"):
            raise UserError(f"EntropyMax: over is {over!r}, expected 'distinct' or 'points'")
        self.over = over

    def extra_repr(self) -> str:
        return "" if self.over == "distinct" else f"over={self.over!r}"

    def shift(self, x: Tensor, counts: Tensor | None) -> Tensor | float:
        most = x.shape[-2]
        if counts is None:
            return _constant_delta(most)
        return deltas(counts.clamp(1, most), most).to(x.dtype).unsqueeze(-1)


class EntropyMean(MeanPool):
    """EMA-avg: Y = mean over points: (..., N, C) -> (..., C). Its name in POOLS is "ema-avg".

    Its best shift is 0, so it equals MeanPool.

    Examples:
        >>> model = PointNet(num_classes=40, linear="lsr", pool=EntropyMean())  # or pool="ema-avg"
    """


class MeasuredMax(nn.Module, Calibrated):
    """Y = max over points - d: (..., N, C) -> (..., C). `calibrate` sets d to the median maximum of the first batch.

    It replaces EntropyMax in networks without BatchNorm.

    Examples:
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


POOLS: dict[str, Callable[[], nn.Module]] = {
    "max": MaxPool,
    "avg": MeanPool,
    "ema-max": EntropyMax,
    "ema-max-points": partial(EntropyMax, over="points"),
    "ema-avg": EntropyMean,
}
