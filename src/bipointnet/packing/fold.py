"""Fold a 1-bit layer, and everything between its product and the next sign, into integer thresholds.

A row of K weights of +-1 is multiplied with K inputs of +-1. Let c be the number of columns where they agree. The
product is c agreements minus K - c disagreements,

    z = 2 c - K,    c in 0 ... K

Everything up to the next sign is a *chain* of calls on z that are monotonic: scales, biases, BatchNorm, Hardtanh.
Without activations it is linear in z. With the method's scale s and bias b, BatchNorm's mean m, variance v, weight g
and bias h, and its slope t = g / sqrt(v + eps),

    y = t (s z + b - m) + h = p z + q,    p = t s,    q = t (b - m) + h

(without BatchNorm t = 1, m = h = 0). The bit is [y >= d]. After a
layer without a pool d = 0. After a pooled layer d is the shift of the pool, since max_i y_i - d >= 0 exactly if some
y_i >= d. If the layer that reads the bit compares with e instead of 0 (ABC-Net's 1/2 - v), replace d by d + e.

- p > 0: the bit is [c >= T] with the smallest T such that p (2 T - K) + q >= d, that is T(d) = ceil(a + b d) with
  a = (K - q / p) / 2 and b = 1 / (2 p).
- p < 0: negating the row turns z into -z, c into K - c and p into -p: the case above, with the row negated.
  A maximum stays a maximum, because y is the same number. (y at c = 0 and at c = K shows which case it is.)
- p = 0: the bit is [q >= d] for every c: T = 0 (always) or T = K + 1 (never).

A mean over n points compares mean y_i = p (2 sum c_i / n - K) + q with 0: sum c_i >= n a, with the same a.

Rounding. The bits must equal those of PyTorch in float64 even where p z + q equals d exactly, but the algebra above
rounds differently from PyTorch. However, c takes only K + 1 values, and y is monotonic in c in floating point too,
because every step of its computation is. So the recorded calls themselves are evaluated at every c, and T is the number
of counts whose y is below d: exact by construction. If d = delta(n) depends on the number of points n, the file holds a
line (a, b) that gives this T for every n up to MOST_POINTS; `_fit_line` finds one in float32 or, failing that, float64.

Where floats are needed (a float layer reads the value, it is a T-Net's matrix, or the next layer scales each point by
the mean |x| of its inputs, as XNOR does), p and q are written unchanged.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bipointnet.delta import delta
from bipointnet.errors import UserError
from bipointnet.packing.bits import pack_bits
from bipointnet.packing.graph import Node

MOST_POINTS = 16384  # up to this n every threshold T(delta(n)) equals that of PyTorch


class NoLine(Exception):
    """The threshold of a pool does not depend on n as ceil(a + b delta(n)), because an activation clips its values."""


# Monotonic functions of the format, by the arithmetic of PyTorch.
FUNCTIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "relu": lambda y, slope: y.relu(),
    "hardtanh": lambda y, slope: y.clamp(-1, 1),
    "leaky_relu": torch.nn.functional.leaky_relu,
    "tanh": lambda y, slope: y.tanh(),
    "sigmoid": lambda y, slope: y.sigmoid(),
    "exp": lambda y, slope: y.exp(),
}


def is_monotonic(node: Node) -> bool:
    return node.op == "affine" or (node.op == "function" and node.fields["function"] in FUNCTIONS)


def apply_chain(chain: list[Node], y: np.ndarray) -> np.ndarray:
    """The calls of a chain on rows (R, M), the first call first."""
    for node in chain:
        if node.op == "affine":
            assert node.run is not None
            y = node.run(y)
        else:
            y = FUNCTIONS[node.fields["function"]](torch.from_numpy(y), node.fields["slope"]).numpy()
    return y


def is_linear(chain: list[Node]) -> bool:
    return all(node.op == "affine" for node in chain)


@dataclass(frozen=True)
class BinaryRows:
    """The rows of a 1-bit layer: weights as bool (M, K), and scale and bias of each row."""

    bits: np.ndarray
    scale: np.ndarray
    bias: np.ndarray | None

    @classmethod
    def of(cls, node: Node) -> "BinaryRows":
        layer: Any = node.fields["module"]
        rows = node.tensors["rows"] % layer.out_features
        with torch.no_grad():
            bits = (layer.method.binarize_weight(layer) > 0).numpy()[rows]
            scale = layer.method.scale(layer).expand(layer.out_features).numpy()[rows]
            bias = None if layer.bias is None else layer.bias.numpy()[rows]
        return cls(bits, scale, bias)

    def line(self, chain: list[Node]) -> tuple[np.ndarray, np.ndarray]:
        """p and q in y = p z + q for a linear chain; two (M,)."""
        p, q = self.scale.copy(), np.zeros(len(self.scale)) if self.bias is None else self.bias.copy()
        for node in chain:
            if node.op == "affine":
                p, q = p * node.tensors["slope"], q * node.tensors["slope"] + node.tensors["offset"]
        return p, q


def fold_thresholds(name: str, rows: BinaryRows, chain: list[Node]) -> "FoldedLayer":
    """Evaluate a 1-bit layer and its chain at every count c, with the rows on which y falls negated."""
    columns = rows.bits.shape[1]
    z = (2.0 * np.arange(columns + 1) - columns)[:, None]
    y = z * rows.scale
    y = y if rows.bias is None else y + rows.bias
    with np.errstate(invalid="ignore"):
        values = apply_chain(chain, np.ascontiguousarray(y))  # (K + 1, M)
    if not np.isfinite(values).all():
        raise UserError(f"export: {name}: its outputs are not finite; expected BatchNorm with a variance >= 0")
    p, q = rows.line(chain)
    falling = values[-1] < values[0]
    values = np.where(falling, values[::-1], values)
    return FoldedLayer(name, pack_bits(rows.bits ^ falling[:, None]), values, np.abs(p), q, is_linear(chain))


@dataclass(frozen=True)
class FoldedLayer:
    """A 1-bit layer whose outputs y all increase with the count c.

    words: its packed weights, (M, ceil(K / 64)). values: y at every count c, (K + 1, M). p, q: of y = p z + q, p >= 0.
    linear: whether this line holds.
    """

    name: str
    words: np.ndarray
    values: np.ndarray
    p: np.ndarray
    q: np.ndarray
    linear: bool = True

    def minus(self, e: float) -> "FoldedLayer":
        """The layer with e subtracted from its outputs."""
        return replace(self, values=self.values - e, q=self.q - e)

    def thresholds(self, binarize: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """T from 0 to K + 1, the number of counts whose bit is 0; (M,). binarize: values y to bits."""
        bits = binarize(self.values)
        threshold = len(bits) - bits.sum(axis=0)
        assert (bits == (np.arange(len(bits))[:, None] >= threshold)).all(), f"{self.name}: y decreases with the count"
        return threshold

    def fixed_line(self, binarize: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The line (T, 0), for a threshold that does not depend on the number of points: (M, 2)."""
        threshold = self.thresholds(binarize)
        return np.stack([threshold, np.zeros_like(threshold)], axis=1).astype(np.float32)

    def mean_line(self) -> np.ndarray:
        """The line (a, 0) of a mean, float64: (M, 2). If a is almost an integer, y there decides its side."""
        if not self.linear:
            raise NoLine(self.name)
        columns = len(self.values) - 1
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            a = np.clip((columns - self.q / self.p) / 2, 0, columns + 1)
        a = np.where(self.values[0] >= 0, 0.0, np.where(self.values[-1] < 0, columns + 1.0, a))
        whole = np.rint(a)
        reached = self.values[np.minimum(whole, columns).astype(int), np.arange(len(a))] >= 0
        exact = np.where(reached, whole, np.nextafter(whole, np.inf))
        near = (np.abs(a - whole) < 1e-9) & (whole <= columns)
        return np.stack([np.where(near, exact, a), np.zeros_like(a)], axis=1)

    def moving_line(self) -> np.ndarray:
        """(a, b) such that ceil(a + b delta(n)) is the threshold for every n up to MOST_POINTS: (M, 2)."""
        columns = len(self.values) - 1
        # A count c gives bit 1 for n points if and only if delta(n) <= y(c): for n = 1 ... reach[c].
        reach = np.searchsorted(_deltas(), self.values, side="right")  # (K + 1, M)
        for dtype in (np.float32, np.float64):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                b = 1 / (2 * self.p)
                line = np.stack([columns / 2 - self.q * b, b], axis=1).astype(dtype)  # (M, 2)
            for row in np.flatnonzero(~_holds(line, reach)):
                line[row] = _fit_line(line[row], reach[:, row], float(self.q[row]))
            if _holds(line, reach).all():
                return line
        raise NoLine(self.name)


@lru_cache(maxsize=1)
def _deltas() -> np.ndarray:
    """delta(n) for n = 1 ... MOST_POINTS, ascending."""
    return np.array([delta(n) for n in range(1, MOST_POINTS + 1)])


def _holds(line: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Which lines (..., 2) give thresholds T(n) with c >= T(n) for exactly n = 1 ... reach[c].

    As T increases with n, it suffices that T <= c at n = reach[c] and T > c at the next n. reach: (K + 1, ...).
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
    """A line (2,) close to `line`, of the same dtype, that holds for reach (K + 1,); `line` itself if none is found.

    For a given a, the conditions a + b delta(reach[c]) <= c < a + b delta(reach[c] + 1) bound b from both sides. The
    floats next to a are tried, each with b in the middle of its bounds.
    """
    deltas, count = _deltas(), np.arange(len(reach))
    some, more = reach > 1, (reach > 0) & (reach < MOST_POINTS)  # delta(1) = 0 does not bound b
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
    """For a channel almost constant in c: a line so steep that T goes from below 0 to above K where delta passes q."""
    deltas, columns, last = _deltas(), len(reach) - 1, int(reach[0])
    if last == 0:
        return np.array([columns + 1.0, 0.0])
    below = deltas[last - 1]
    above = deltas[last] if last < MOST_POINTS else max(2 * q - below, below + 1e-5)
    b = 4 * columns / (above - below)
    return np.array([-b * (below + above) / 2, b])
