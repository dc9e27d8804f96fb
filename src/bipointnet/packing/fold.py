"""Folding: a 1-bit layer, with all that stands between its product and the next sign, becomes integer thresholds.

A row of weights w of +-1 meets K inputs of +-1. Let c be the number of
columns where they agree; then their product is c agreements less K - c disagreements,

    z = 2 c - K,    c in 0 ... K

Everything up to the next sign is a line in z. With the method's scale s and bias b, and BatchNorm's mean m, variance v,
weight g and bias h, so slope t = g / sqrt(v + eps),

    y = t (s z + b - m) + h = p z + q,    p = t s,    q = t (b - m) + h

(without BatchNorm t = 1, m = h = 0). Hardtanh does not move a sign and falls away. The bit is [y >= d], with d = 0
after a plain layer, and d the shift of the pool after a pooled one, as max_i y_i - d >= 0 just where some y_i >= d.
Where the layer that reads the bit compares with e instead of 0 (ABC-Net's 1/2 - v), d + e stands for d.

- p > 0: the bit is [c >= T] with p (2 T - K) + q >= d, that is T(d) = ceil(a + b d),
  a = (K - q / p) / 2 and b = 1 / (2 p).
- p < 0: negating the row turns z into -z and c into K - c, and p into -p: the case above, with the row flipped.
  A maximum stays a maximum: y is the same number, only its line is written in the other count.
- p = 0: the bit is [q >= d] whatever c is: T = 0 (always) or T = K + 1 (never).

A mean over n points compares mean y_i = p (2 sum c_i / n - K) + q with 0: sum c_i >= n a, with the same a.

Rounding. The bits must be those of PyTorch in float64 even where p z + q meets d exactly, and the algebra above rounds
otherwise than PyTorch does. But c takes only K + 1 values, and y rises with c in floating point too, as every step of
its computation does. So the layer's own arithmetic is evaluated at every c, and T is the number of counts whose y is
below d: exact by construction. Where d = delta(n) moves with n, a line (a, b) is written that gives this T for every n
up to MOST_POINTS; `_fit_line` finds one in float32 or, failing that, float64.

Where floats are needed (a float layer reads the value, it is a T-Net's matrix, or the next layer takes the mean size of
its inputs, as XNOR does), p and q are written as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.delta import delta
from bipointnet.errors import UserError
from bipointnet.nn import BinaryLinear
from bipointnet.runtime.reference import pack_bits

MOST_POINTS = 16384  # up to here every threshold T(delta(n)) is PyTorch's


@dataclass(frozen=True)
class Stage:
    """linear -> norm -> activation -> pool, each of the last three None where there is none; `name` is for errors."""

    name: str
    linear: nn.Module
    norm: nn.BatchNorm1d | None = None
    activation: nn.Module | None = None
    pool: nn.Module | None = None

    @property
    def binary(self) -> bool:
        return isinstance(self.linear, BinaryLinear)

    @property
    def scales_points(self) -> bool:
        return isinstance(self.linear, BinaryLinear) and self.linear.method.scales_points

    @property
    def input_threshold(self) -> float:
        """The number from which on an input of this 1-bit layer counts as +1."""
        layer: Any = self.linear
        return float(layer.method.input_threshold(layer))

    def takes(self, x: np.ndarray) -> np.ndarray:
        """The bits that this 1-bit layer makes of its inputs, by its own arithmetic."""
        layer: Any = self.linear
        return (layer.method.binarize_input(torch.from_numpy(x), layer) > 0).numpy()

    def refuse(self, why: str) -> UserError:
        return UserError(f"{self.name}: {why}")


def norm_line(stage: Stage) -> tuple[Tensor, Tensor]:
    """t and h - t m: BatchNorm as a line, or 1 and 0; two (M,)."""
    norm: Any = stage.norm
    if norm is None:
        ones = torch.ones(len(stage.linear.weight), dtype=torch.float64)  # pyright: ignore
        return ones, torch.zeros_like(ones)
    slope = torch.rsqrt(norm.running_var + norm.eps)
    slope = slope if norm.weight is None else norm.weight * slope
    offset = -norm.running_mean * slope
    return slope, offset if norm.bias is None else offset + norm.bias


def line(stage: Stage) -> tuple[Tensor, Tensor]:
    """p and q of y = p z + q; two (M,)."""
    layer: Any = stage.linear
    slope, offset = norm_line(stage)
    bias = 0.0 if layer.bias is None else layer.bias
    return slope * layer.method.scale(layer), slope * bias + offset


def weight_bits(stage: Stage) -> np.ndarray:
    layer: Any = stage.linear
    return (layer.method.binarize_weight(layer) > 0).numpy()  # (M, K)


def fold(stage: Stage) -> "Folded":
    """The layer with its falling rows flipped."""
    layer: Any = stage.linear
    bits = weight_bits(stage)
    columns = bits.shape[1]
    p, q = (part.numpy() for part in line(stage))
    rising = np.where(p < 0, -1.0, 1.0)  # (M,)
    z = torch.from_numpy((2.0 * np.arange(columns + 1) - columns)[:, None] * rising)  # (K + 1, M)
    # The layer's own arithmetic from the product on.
    y = z * layer.method.scale(layer)
    y = y if layer.bias is None else y + layer.bias
    values = (y if stage.norm is None else stage.norm(y)).numpy()
    if not np.isfinite(values).all():
        raise stage.refuse("its outputs are not finite; expected BatchNorm with a variance of at least 0")
    return Folded(stage, pack_bits(bits ^ (rising < 0)[:, None]), values, np.abs(p), q)


@dataclass(frozen=True)
class Folded:
    """A 1-bit layer whose rows all rise with the count.

    words: its weights, (M, ceil(K / 64)). values: y at every count c, (K + 1, M). p, q: the line y = p z + q, p >= 0.
    """

    stage: Stage
    words: np.ndarray
    values: np.ndarray
    p: np.ndarray
    q: np.ndarray

    def less(self, e: float) -> "Folded":
        """The layer with e taken off its outputs."""
        return replace(self, values=self.values - e, q=self.q - e)

    def thresholds(self, takes: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """T, from 0 to K + 1: the number of counts at whose value the bit is not taken; (M,)."""
        bits = takes(self.values)
        threshold = len(bits) - bits.sum(axis=0)
        assert (bits == (np.arange(len(bits))[:, None] >= threshold)).all(), (
            f"{self.stage.name}: y falls with the count"
        )
        return threshold

    def fixed_line(self, takes: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """A line that is T, whatever the number of points: (M, 2)."""
        threshold = self.thresholds(takes)
        return np.stack([threshold, np.zeros_like(threshold)], axis=1).astype(np.float32)

    def mean_line(self) -> np.ndarray:
        """(a, 0), float64. Where a is all but an integer, y there says on which side of it the layer's own zero is."""
        columns = len(self.values) - 1
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            a = np.clip((columns - self.q / self.p) / 2, 0, columns + 1)
        a = np.where(self.values[0] >= 0, 0.0, np.where(self.values[-1] < 0, columns + 1.0, a))
        whole = np.rint(a)
        reached = self.values[np.minimum(whole, columns).astype(int), np.arange(len(a))] >= 0
        sided = np.where(reached, whole, np.nextafter(whole, np.inf))
        near = (np.abs(a - whole) < 1e-9) & (whole <= columns)
        return np.stack([np.where(near, sided, a), np.zeros_like(a)], axis=1)

    def moving_line(self) -> np.ndarray:
        """(a, b) with ceil(a + b delta(n)) the right threshold for every n up to MOST_POINTS: (M, 2)."""
        columns = len(self.values) - 1
        # A count c is enough for n points just where delta(n) <= y(c): for the first reach[c] of all n.
        reach = np.searchsorted(_deltas(), self.values, side="right")  # (K + 1, M)
        for dtype in (np.float32, np.float64):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                b = 1 / (2 * self.p)
                line = np.stack([columns / 2 - self.q * b, b], axis=1).astype(dtype)  # (M, 2)
            for row in np.flatnonzero(~_holds(line, reach)):
                line[row] = _fit_line(line[row], reach[:, row], float(self.q[row]))
            if _holds(line, reach).all():
                return line
        raise self.stage.refuse("thresholds that no line in float64 gives; expected p z + q of ordinary size")


@lru_cache(maxsize=1)
def _deltas() -> np.ndarray:
    """delta(n) for n = 1 ... MOST_POINTS, rising."""
    return np.array([delta(n) for n in range(1, MOST_POINTS + 1)])


def _holds(line: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Which rows of lines (..., 2) give thresholds T(n) with c >= T(n) for the first reach[c] numbers n and no other.

    As T rises with n, that is T <= c at the last of them and T > c at the next. reach: (K + 1, ...).
    """
    deltas = _deltas()
    a, b = line[..., 0].astype(np.float64), line[..., 1].astype(np.float64)
    count = np.arange(len(reach)).reshape(-1, *[1] * a.ndim)
    with np.errstate(invalid="ignore", over="ignore"):
        inside = np.ceil(a + b * deltas[np.maximum(reach - 1, 0)]) <= count
        outside = np.ceil(a + b * deltas[np.minimum(reach, MOST_POINTS - 1)]) > count
    good = ((reach == 0) | inside) & ((reach == MOST_POINTS) | outside)
    return good.all(axis=0) & np.isfinite(a) & np.isfinite(b)


def _fit_line(line: np.ndarray, reach: np.ndarray, q: float) -> np.ndarray:
    """A line (2,) of the dtype of `line`, and near it, that holds for reach (K + 1,); `line` itself if none is found.

    For a given a, the conditions a + b delta(last reached) <= c < a + b delta(next) bound b from both sides; the
    numbers around a are tried, each with b in the middle.
    """
    deltas, count = _deltas(), np.arange(len(reach))
    some, more = reach > 1, (reach > 0) & (reach < MOST_POINTS)  # delta(1) = 0 says nothing of b
    for ulps in (0, 1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 8, -8):
        a = line[0] + ulps * np.spacing(line[0])
        if not np.isfinite(a):
            break
        most = np.min((count[some] - float(a)) / deltas[reach[some] - 1], initial=np.inf)
        least = np.max((count[more] - float(a)) / deltas[reach[more]], initial=-np.inf)
        bounded = np.isfinite(most) and np.isfinite(least)
        b = (most + least) / 2 if bounded else np.clip(float(line[1]), least, most)
        tried = np.array([a, b]).astype(line.dtype)
        if _holds(tried, reach):
            return tried
    step = _step_line(reach, q).astype(line.dtype)
    return step if _holds(step, reach) else line


def _step_line(reach: np.ndarray, q: float) -> np.ndarray:
    """For a channel all but constant in c: a line so steep that T goes from under 0 to over K where delta passes q."""
    deltas, columns, last = _deltas(), len(reach) - 1, int(reach[0])
    if last == 0:
        return np.array([columns + 1.0, 0.0])
    below = deltas[last - 1]
    above = deltas[last] if last < MOST_POINTS else max(2 * q - below, below + 1e-5)
    b = 4 * columns / (above - below)
    return np.array([-b * (below + above) / 2, b])
