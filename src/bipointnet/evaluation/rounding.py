"""How far rounding can move the floats of a packed program: running error analysis, one operation at a time.

Let F be an operation and e a bound on the errors of its operands. If F is a sum of products of operands and tensors,
let |F| be F with absolute tensors and sums for differences. Then its exact result moves by at most

    |F|(|x| + e) - |F|(|x|)

and its n additions and multiplications in float32 add at most n EPSILON / 2 times |F|(|x| + e); the bound here is twice
that. A tensor that was rounded to float32 counts as one more operation; weights in float16 are rounded by 2^-11.
Activations move no number apart.
"""

from typing import Any

import numpy as np

from bipointnet.packing.distances import Pair
from bipointnet.runtime.reference import OPERATIONS
from bipointnet.runtime.reference_ops import Value, agreements

EPSILON = float(np.finfo(np.float32).eps)
MOVES = ("gather", "broadcast", "flatten", "concat", "slice")

Tensors = dict[str, np.ndarray]


def error_bound(op: dict[str, Any], tensors: Tensors, operands: list[Value], errors: list[np.ndarray]) -> np.ndarray:
    """A bound on the error of the first result of an operation; the result must be floats.

    operands: as the operation reads them. errors: bounds on their errors, of their shapes; 0 for bits and indices.
    """
    if op["op"] in MOVES:
        return _run(op, tensors, [_floats(x, e) for x, e in zip(operands, errors, strict=True)])
    if op["op"] in SPECIAL:
        return SPECIAL[op["op"]](op, tensors, operands, errors)
    if op["op"] == "pool" and op["pool"] == "max":
        shift = EPSILON * 8 if op["shift"] == "delta" else 0.0  # delta is below 8
        largest = np.max(np.abs(operands[0].array) * EPSILON + errors[0], axis=-2)
        return largest + shift
    return _sum_of_products(op, tensors, operands, errors)


def _floats(x: Value, array: np.ndarray) -> Value:
    """Another array in place of floats; bits and indices stay."""
    return x._replace(array=array) if x.array.dtype.kind == "f" else x


def _run(op: dict[str, Any], tensors: Tensors, operands: list[Value]) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return OPERATIONS[op["op"]](op, tensors, *operands)[0].array.astype(np.float64)


def _sum_of_products(
    op: dict[str, Any], tensors: Tensors, operands: list[Value], errors: list[np.ndarray]
) -> np.ndarray:
    absolute = op | {"op": "add" if op["op"] == "subtract" else op["op"], "activation": "none", "shift": "none"}
    sizes = {name: np.abs(tensor.astype(np.float64)) for name, tensor in tensors.items()}
    size = [np.abs(x.array.astype(np.float64)) for x in operands]
    before = _run(absolute, sizes, [_floats(x, s) for x, s in zip(operands, size, strict=True)])
    moved = _run(absolute, sizes, [_floats(x, s + e) for x, s, e in zip(operands, size, errors, strict=True)])
    error = moved - before + (_terms(op, operands) + 4) * EPSILON * moved
    if any(tensor.dtype == np.float16 for tensor in tensors.values()):  # normal and subnormal weights, rounded
        error += 2.0**-11 * moved + 2.0**-25 * size[0].sum(axis=-1, keepdims=True)
    return error


def _terms(op: dict[str, Any], operands: list[Value]) -> int:
    """How many products are added in float32; pools add in float64."""
    if op["op"] in ("dense", "transform"):
        return operands[0].array.shape[-1] // op.get("groups", 1)
    return operands[1].domain.size if op["op"] in ("mix", "outer") else 1


def _divide(op: dict[str, Any], tensors: Tensors, operands: list[Value], errors: list[np.ndarray]) -> np.ndarray:
    (a, b), (e, f) = (np.abs(x.array.astype(np.float64)) for x in operands), errors
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(b > f, (a + e) / (b - f) - a / b, np.inf)
        return moved + EPSILON * np.abs(a / b)


def _function(op: dict[str, Any], tensors: Tensors, operands: list[Value], errors: list[np.ndarray]) -> np.ndarray:
    """Monotone functions, abs and square move most at the ends of x - e, ..., x + e."""
    x, e = operands[0], errors[0]
    exact = x.array.astype(np.float64)
    if op["function"] == "reciprocal":
        return np.where(np.abs(exact) > e, e / np.abs(exact) / np.maximum(np.abs(exact) - e, 1e-300), np.inf) + (
            2 * EPSILON / np.maximum(np.abs(exact), 1e-300)
        )
    low, middle, high = (_run(op, tensors, [x._replace(array=y)]) for y in (exact - e, exact, exact + e))
    moved = np.fmax(np.abs(low - middle), np.abs(high - middle))
    return moved + 2 * EPSILON * (np.abs(middle) + (1 if op["function"] in ("sigmoid", "tanh") else 0))


def _bilinear_float(
    op: dict[str, Any], tensors: Tensors, operands: list[Value], errors: list[np.ndarray]
) -> np.ndarray:
    a, b = np.abs(tensors["line"].astype(np.float64)).T
    groups = op["groups"]
    z = np.abs(2 * agreements(operands[0].array, tensors["weight"], groups) - operands[0].array.shape[-1] // groups)
    if len(operands) == 1:
        return 4 * EPSILON * (a * z + b)
    scale, error = (np.repeat(x, op["outputs"] // groups, axis=-1) for x in (np.abs(operands[1].array), errors[1]))
    return a * z * (error + 4 * EPSILON * scale) + 4 * EPSILON * b


def _interpolate(op: dict[str, Any], tensors: Tensors, operands: list[Value], errors: list[np.ndarray]) -> np.ndarray:
    """Each squared distance u moves by at most `slack`, so its weight is between two numbers, and the mean follows.

    A fourth point that is as near as the third may be taken instead of it.
    """
    centers, points, values = (x.array.astype(np.float64) for x in operands)
    pair = Pair(centers, points)
    near = np.argsort(pair.squares, axis=1, kind="stable")[:, :4]
    u = np.take_along_axis(pair.squares, near, axis=1) * pair.step**2
    moved = errors[0].max() + errors[1].max()
    slack = pair.rounding * pair.step**2 + 2 * np.sqrt(u * centers.shape[1]) * moved + centers.shape[1] * moved**2
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (1 / (np.maximum(x, 0) + op["epsilon"]) for x in ((u + slack)[:, :3], (u - slack)[:, :3]))
        others = [x.sum(axis=1, keepdims=True) - x for x in (low, np.where(np.isinf(high), 0, high))]
        infinite = np.isinf(high).sum(axis=1, keepdims=True) - np.isinf(high)  # other points that may coincide
        most = np.where(np.isinf(high), 1.0, high / (high + others[0]))
        least = np.where(infinite > 0, 0.0, low / (low + others[1]))
    size = np.abs(values)[near]  # (M, 4, channels)
    error = ((most - least)[..., None] * size[:, :3]).sum(axis=1) + 8 * EPSILON * size.max(axis=1) + errors[2].max()
    if near.shape[1] < 4:
        return error
    tied = (u[:, 3] - u[:, 2] <= slack[:, 2] + slack[:, 3]) * most[:, 2]
    return error + tied[:, None] * size[:, 2:].sum(axis=1)


def _density(op: dict[str, Any], tensors: Tensors, operands: list[Value], errors: list[np.ndarray]) -> np.ndarray:
    """exp(-u / (2 h^2)) moves by its share of the error of u; a term is rounded to a multiple of 2^-30."""
    points = operands[0].array.astype(np.float64)
    pair = Pair(points, points)
    slack = pair.rounding * pair.step**2 + 4 * errors[0].max() * np.sqrt(pair.squares.max()) * pair.step
    result = _run(op, tensors, operands)
    return result * (slack / op["bandwidth"] ** 2 + 4 * EPSILON) + 2.0**-30 / op["bandwidth"]


def _size(op: dict[str, Any], tensors: Tensors, operands: list[Value], errors: list[np.ndarray]) -> np.ndarray:
    return np.zeros(_run(op, tensors, operands).shape)


SPECIAL = {
    "divide": _divide,
    "function": _function,
    "bilinear_float": _bilinear_float,
    "interpolate": _interpolate,
    "density": _density,
    "size": _size,
}
