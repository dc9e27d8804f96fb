"""The operations of the reference that compute with values: docs/format.md, "Operations" and "Arithmetic", in numpy.

An operation is a function of its fields, its tensors and its operands; it returns its results. Vectors run over the
elements of a domain; loops run where docs/format.md fixes an order of sums.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bipointnet.delta import delta

Array = np.ndarray
Fields = dict[str, Any]
Tensors = dict[str, Array]

RUN = 64  # elements of one partial sum of a pool
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")


@dataclass(frozen=True, eq=False)
class Domain:
    """What the elements of a value are: `size` for each element of `parent`.

    parent: None of the cloud, the cloud of a set, the domain of the centers of groups. counts: the true neighbors of
    each group, of the shape of the parent; None of the cloud and of a set.
    """

    parent: "Domain | None" = None
    size: int = 1
    counts: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """() of the cloud, (n,) of a set, (m, k) of groups of a set, (k,) of groups of the cloud."""
        return () if self.parent is None else (*self.parent.shape, self.size)

    def above(self) -> "Domain":
        """The parent."""
        assert self.parent is not None, "the cloud has no parent"
        return self.parent

    def number(self, over: str) -> Array:
        """How many elements belong to each element of the parent; of the shape of the parent, int64."""
        if over == "neighbors" and self.counts is not None:
            return self.counts
        return np.full(self.above().shape, self.size, np.int64)


class Value(NamedTuple):
    """A named value. array: (*domain.shape, K), bool or float32; of indices: domain.shape, int64."""

    array: Array
    domain: Domain


Operation = Callable[..., tuple[Value, ...]]


def unpack_bits(words: Array, columns: int) -> Array:
    """The first `columns` bits of each row, column k in bit k mod 64 of word k div 64: (M, words) -> (M, columns)."""
    word, bit = np.divmod(np.arange(columns), 64)
    return (words[:, word] >> bit.astype(np.uint64) & np.uint64(1)).astype(bool)


def eight_sums(x: Array) -> Array:
    """Sum over the last axis as the format says: eight sums of every eighth value; (..., K) float64 -> (...)."""
    sums = [np.add.accumulate(x[..., j::8], axis=-1)[..., -1:] for j in range(min(8, x.shape[-1]))]
    return np.add.accumulate(np.concatenate(sums, axis=-1), axis=-1)[..., -1] + 0.0  # sums start with +0


def activate(x: Array, activation: str) -> Array:
    """relu, hardtanh or none."""
    if activation == "relu":
        return np.where(x > 0, x, np.float32(0))
    if activation == "hardtanh":
        return np.where(x < -1, np.float32(-1), np.where(x > 1, np.float32(1), x))
    return x


def exp(x: Array) -> Array:
    """exp in float64, with the operations that the format names."""
    inside = (x >= -708) & (x <= 709)
    y = np.where(inside, x, 0.0)
    k = np.rint(y * LOG2_E)
    r = (y - k * LN2_HIGH) - k * LN2_LOW
    p = np.full_like(y, 1 / math.factorial(13))
    for i in range(12, -1, -1):
        p = p * r + 1 / math.factorial(i)
    outside = np.where(x > 709, np.inf, np.where(x < -708, 0.0, np.nan))
    return np.where(inside, np.ldexp(p, k.astype(np.int64)), outside)


def sum_in_runs(x: Array, counts: Array) -> Array:
    """Sum over the first `counts` elements, in runs: (..., n, K) float32, (...) -> (..., K) float64."""
    total = np.zeros((*x.shape[:-2], x.shape[-1]))
    for start in range(0, x.shape[-2], RUN):
        run = np.zeros_like(total)
        for j in range(start, min(start + RUN, x.shape[-2])):
            run += np.where(j < counts[..., None], x[..., j, :], np.float32(0))
        total += run
    return total


def deltas(counts: Array) -> Array:
    """delta of each count, float64."""
    distinct, place = np.unique(counts, return_inverse=True)
    return np.array([delta(int(n)) for n in distinct])[place].reshape(counts.shape)


def beside(a: Value, d: Domain, *channels: int) -> Array:
    """The value of an ancestor of `d` with axes of length 1 for the elements of `d`, and `channels` as last axes."""
    missing = len(d.shape) - len(a.domain.shape)
    return a.array.reshape(*a.domain.shape, *[1] * missing, *channels)


# Moving values between domains.


def gather(fields: Fields, tensors: Tensors, a: Value, indices: Value) -> tuple[Value, ...]:
    return (Value(a.array[indices.array], indices.domain),)


def broadcast(fields: Fields, tensors: Tensors, a: Value, like: Value) -> tuple[Value, ...]:
    channels = a.array.shape[-1]
    array = np.broadcast_to(beside(a, like.domain, channels), (*like.domain.shape, channels))
    return (Value(array, like.domain),)


def flatten(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    array = x.array if fields["order"] == "slots" else np.swapaxes(x.array, -1, -2)
    parent = x.domain.above()
    return (Value(array.reshape(*parent.shape, -1), parent),)


def size(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    return (Value(x.domain.number(fields["over"])[..., None].astype(np.float32), x.domain.above()),)


# Channels.


def concat(fields: Fields, tensors: Tensors, *parts: Value) -> tuple[Value, ...]:
    return (Value(np.concatenate([part.array for part in parts], axis=-1), parts[0].domain),)


def slice_(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    return (Value(x.array[..., fields["from"] : fields["to"]], x.domain),)


# Float arithmetic.


def arithmetic(operation: Callable[[Array, Array], Array]) -> Operation:
    """One float32 operation per channel; a single channel is used for all."""

    def run(fields: Fields, tensors: Tensors, a: Value, b: Value) -> tuple[Value, ...]:
        return (Value(operation(a.array, b.array), a.domain),)

    return run


def affine(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    a, b = tensors["line"].T
    return (Value(activate(a * x.array + b, fields["activation"]), x.domain),)


def function(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    name, array, wide = fields["function"], x.array, x.array.astype(np.float64)
    functions: dict[str, Callable[[], Array]] = {
        "relu": lambda: activate(array, "relu"),
        "hardtanh": lambda: activate(array, "hardtanh"),
        "leaky_relu": lambda: np.where(array > 0, array, np.float32(fields["slope"]) * array),
        "abs": lambda: np.abs(array),
        "square": lambda: array * array,
        "sqrt": lambda: np.sqrt(array),
        "reciprocal": lambda: np.float32(1) / array,
        "exp": lambda: exp(wide).astype(np.float32),
        "sigmoid": lambda: (1 / (1 + exp(-wide))).astype(np.float32),
        "tanh": lambda: (1 - 2 / (exp(2 * wide) + 1)).astype(np.float32),
    }
    return (Value(functions[name](), x.domain),)


def product(x: Array, matrix: Array) -> Array:
    """x . matrix in float32, each sum in the order of the inputs: (..., K), (..., K, M) -> (..., M)."""
    total = x[..., :1] * matrix[..., 0, :]
    for k in range(1, x.shape[-1]):
        total += x[..., k : k + 1] * matrix[..., k, :]
    return total


def dense(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    inputs = np.split(x.array, fields["groups"], axis=-1)
    weights = np.split(tensors["weight"].astype(np.float32), fields["groups"])
    total = np.concatenate([product(i, w.T) for i, w in zip(inputs, weights, strict=True)], axis=-1)
    return (Value(activate(total + tensors["bias"], fields["activation"]), x.domain),)


def transform(fields: Fields, tensors: Tensors, x: Value, matrix: Value) -> tuple[Value, ...]:
    rows = beside(matrix, x.domain, x.array.shape[-1], fields["outputs"])
    return (Value(product(x.array, rows), x.domain),)


def mix(fields: Fields, tensors: Tensors, matrix: Value, x: Value) -> tuple[Value, ...]:
    k = x.domain.size
    weights = matrix.array.reshape(*x.domain.above().shape, k, k)
    total = weights[..., 0, None] * x.array[..., :1, :]
    for j in range(1, k):
        total += weights[..., j, None] * x.array[..., j : j + 1, :]
    return (Value(total, x.domain),)


def outer(fields: Fields, tensors: Tensors, w: Value, x: Value) -> tuple[Value, ...]:
    total = w.array[..., 0, :, None] * x.array[..., 0, None, :]
    for j in range(1, x.domain.size):
        total += w.array[..., j, :, None] * x.array[..., j, None, :]
    parent = x.domain.above()
    return (Value(total.reshape(*parent.shape, -1), parent),)


def pool(fields: Fields, tensors: Tensors, x: Value, codes: Value | None = None) -> tuple[Value, ...]:
    counts, parent = x.domain.number(fields["over"]) if codes is None else distinct_rows(codes), x.domain.above()
    if fields["pool"] == "max":
        # NaN is skipped, and a maximum of -0 becomes +0.
        found = np.fmax.reduce(x.array, axis=-2, initial=np.float32(-np.inf)) + np.float32(0)
        if fields["shift"] == "delta":
            found = found - deltas(counts)[..., None].astype(np.float32)
        return (Value(found, parent),)
    total = sum_in_runs(x.array, counts)
    return (Value((total / counts[..., None] if fields["pool"] == "mean" else total).astype(np.float32), parent),)


# Bits.


def sign(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    return (Value(x.array >= np.float32(fields["at"]), x.domain),)


def mean_abs(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    blocks = np.abs(x.array.astype(np.float64)).reshape(*x.domain.shape, fields["groups"], -1)
    return (Value((eight_sums(blocks) / blocks.shape[-1]).astype(np.float32), x.domain),)


def agreements(bits: Array, weight: Array, groups: int) -> Array:
    """In how many columns bits and weights are equal: (..., K) bool, packed weights -> (..., M) int32."""
    columns = bits.shape[-1] // groups
    signs = np.where(unpack_bits(weight, columns), np.float32(1), np.float32(-1))
    flat = np.where(bits, np.float32(1), np.float32(-1)).reshape(-1, bits.shape[-1])  # one large product is fast
    # Products of +-1 are integers, exact in float32 far beyond K = 32766.
    inputs = np.split(flat, groups, axis=-1)
    z = np.concatenate([i @ rows.T for i, rows in zip(inputs, np.split(signs, groups), strict=True)], axis=-1)
    return (z.astype(np.int32).reshape(*bits.shape[:-1], -1) + columns) // 2


def bilinear(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    counts = agreements(x.array, tensors["weight"], fields["groups"])
    return (Value(counts >= tensors["threshold"], x.domain),)


def bilinear_float(fields: Fields, tensors: Tensors, x: Value, scale: Value | None = None) -> tuple[Value, ...]:
    columns = x.array.shape[-1] // fields["groups"]
    z = (2 * agreements(x.array, tensors["weight"], fields["groups"]) - columns).astype(np.float32)
    if scale is not None:
        z = np.repeat(scale.array, fields["outputs"] // fields["groups"], axis=-1) * z
    a, b = tensors["line"].T
    return (Value(activate(a * z + b, fields["activation"]), x.domain),)


def bilinear_pool(fields: Fields, tensors: Tensors, x: Value) -> tuple[Value, ...]:
    counts, line = agreements(x.array, tensors["weight"], 1), tensors["line"].astype(np.float64)
    a, b = line.T
    over, parent = fields["over"], x.domain.above()
    n = (distinct_rows(x) if over == "distinct" else x.domain.number(over))[..., None]  # (*parent, 1)
    if fields["pool"] == "mean":
        slots = np.arange(x.domain.size)[:, None]
        total = np.sum(counts, axis=-2, where=slots < n[..., None], dtype=np.int64)
        pooled = total >= np.ceil(n * a)
    else:
        d = deltas(n) if fields["shift"] == "delta" else np.zeros(n.shape)
        pooled = (counts >= np.ceil(a + b * d)[..., None, :]).any(axis=-2)
    results = (Value(pooled, parent),)
    if "threshold" in tensors:
        results += (Value(counts >= tensors["threshold"], x.domain),)
    return results


def distinct_rows(x: Value) -> Array:
    """The number of distinct rows of bits in each group: (..., n, K) bool -> (...) int64."""
    packed = np.packbits(x.array, axis=-1)
    groups = packed.reshape(-1, *packed.shape[-2:])
    found = [len({row.tobytes() for row in group}) for group in groups]
    return np.array(found, np.int64).reshape(x.domain.above().shape)


OPERATIONS: dict[str, Operation] = {
    "gather": gather,
    "broadcast": broadcast,
    "flatten": flatten,
    "size": size,
    "concat": concat,
    "slice": slice_,
    "add": arithmetic(np.add),
    "subtract": arithmetic(np.subtract),
    "multiply": arithmetic(np.multiply),
    "divide": arithmetic(np.divide),
    "affine": affine,
    "function": function,
    "dense": dense,
    "transform": transform,
    "mix": mix,
    "outer": outer,
    "pool": pool,
    "sign": sign,
    "mean_abs": mean_abs,
    "bilinear": bilinear,
    "bilinear_float": bilinear_float,
    "bilinear_pool": bilinear_pool,
}
