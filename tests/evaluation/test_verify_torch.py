"""verify with PyTorch: bits equal those of the exported network in float64, up to the rounding of float32."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from handmade_programs import Program, always, at_most, share

from bipointnet.evaluation.rounding import error_bound
from bipointnet.evaluation.verify_torch import TorchComparison
from bipointnet.runtime import reference
from bipointnet.runtime.reference_ops import Domain, Value


class Exact(NamedTuple):
    """A value of a program in float64, in the place of PyTorch's."""

    numbers: np.ndarray
    at: float | None


def in_float64(packed: reference.Packed, cloud: np.ndarray) -> tuple[dict[str, Exact], dict[str, Value]]:
    """The program in float64: numbers and thresholds as PyTorch would give them, and the values."""
    values: dict[str, Value] = {}
    found: dict[str, Exact] = {}
    for op in packed.manifest["program"]:
        operands = [values[name] for name in op["in"]]
        tensors = tensors_of(packed, op)
        wide = {name: x.astype(np.float64) if x.dtype.kind == "f" else x for name, x in tensors.items()}
        if op["op"] == "points":
            results = (Value(cloud.astype(np.float64), Domain(Domain(), len(cloud))),)
        else:
            results = reference.OPERATIONS[op["op"]](op, wide, *operands)
        for name, result in zip(op["out"], results, strict=True):
            values[name] = result
            kind = result.array.dtype.kind
            if op["op"] == "sign":
                found[name] = Exact(operands[0].array, op["at"])
            elif kind == "b":
                found[name] = Exact(np.where(result.array, 1.0, -1.0), 0.0)
            else:
                found[name] = Exact(result.array, None)
    return found, values


def tensors_of(packed: reference.Packed, op: dict[str, Any]) -> dict[str, np.ndarray]:
    start = op["out"][0] + "."
    return {n.removeprefix(start): t for n, t in packed.tensors.items() if n.startswith(start)}


def with_groups(seed: int = 0) -> reference.Packed:
    """Sampled centers, neighbors, 1-bit layers, pools by delta, interpolation back to the points."""
    program = Program(seed)
    chosen = program.farthest(program.points, share(0.3))
    centers = program.gather(program.points, chosen)
    near = program.ball(centers, program.points, program.points, count=at_most(6), radius=0.7, order="index")
    offset = program.add("subtract", program.gather(program.points, near), program.broadcast(centers, near))
    bits = program.sign(program.dense(offset, 32))
    pooled = program.bilinear_pool(program.bilinear(bits, 40), 24, over="neighbors", each="each")
    scale = program.add("mean_abs", program.dense(centers, 24), width=1, groups=1)
    features = program.bilinear_float(pooled, 16, activation="hardtanh", scale=scale)
    features = program.add("add", features, program.pool(program.function(offset_of(program, offset), "tanh"), "mean"))
    spread = program.interpolate(program.points, centers, features)
    again = program.nearest(program.points, program.points, count=always(4))
    edge = program.add("divide", program.gather(spread, again), program.function(program.gather(spread, again), "exp"))
    program.bilinear_float(program.sign(program.pool(edge, shift="delta"), at=0.25), 5)
    return program.packed()


def offset_of(program: Program, offset: str) -> str:
    return program.affine(program.dense(offset, 16, activation="relu"))


def cloud(points: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, points)).uniform(-1, 1, (points, 3)).astype(np.float32)


def compared(packed: reference.Packed, exact: dict[str, Exact], points: np.ndarray, trace=None) -> dict[str, Any]:
    comparison = TorchComparison(packed, lambda *_: exact)
    comparison.compare("cloud", points, None, trace or reference.run_program(packed, points, raw=True)[1])
    return comparison.facts()


@pytest.mark.parametrize("seed", range(3))
def test_the_program_itself_differs_only_by_rounding(seed):
    packed, points = with_groups(seed), cloud(seed=seed)
    facts = compared(packed, in_float64(packed, points)[0], points)
    assert facts["bits_compared"] > 1000
    assert facts["floats_compared"] > 1000
    assert facts["indices_compared"] > 100
    for what in ("bits", "floats", "indices", "labels"):
        assert facts[f"{what}_unexplained"] == 0, facts
    assert facts["bits_different"] == facts["bits_within_rounding"] + facts["bits_that_follow"]


@pytest.mark.parametrize("op", ["bilinear", "sign", "bilinear_pool", "dense", "subtract", "pool", "farthest", "ball"])
def test_an_operation_with_another_result_is_found(op):
    """PyTorch's value of one operation is changed: this operation is named, and no operation before it."""
    packed, points = with_groups(), cloud()
    exact = in_float64(packed, points)[0]
    name = next(step["out"][0] for step in packed.manifest["program"] if step["op"] == op)
    numbers, at = exact[name]
    changed = numbers.copy().reshape(-1)
    if at is not None:
        largest = np.abs(changed).argmax()  # the float farthest from its threshold
        changed[largest] = -changed[largest]
    elif changed.dtype.kind == "f":
        changed[7] += 1e-4 * np.abs(changed).max()
    else:
        changed[7] = (changed[7] + 1) % len(points)
    facts = compared(packed, exact | {name: Exact(changed.reshape(numbers.shape), at)}, points)
    what = "bits" if at is not None else "floats" if changed.dtype.kind == "f" else "indices"
    assert facts[f"{what}_unexplained"] > 0
    assert facts["first_unexplained"][0].startswith(f"cloud, {name} ({op}): ")


def test_a_bit_of_the_core_is_within_rounding_or_follows():
    packed, points = with_groups(), cloud()
    exact = in_float64(packed, points)[0]
    trace = reference.run_program(packed, points, raw=True)[1]
    sign = next(step for step in packed.manifest["program"] if step["op"] == "sign")
    bits = trace[sign["out"][0]].copy()
    bits.flat[np.abs(exact[sign["out"][0]].numbers).argmin()] ^= True
    facts = compared(packed, exact, points, trace | {sign["out"][0]: bits})
    assert (facts["bits_different"], facts["bits_that_follow"]) == (1, 1)
    assert facts["bits_unexplained"] == 0  # every operation alone is right
    near = exact[sign["out"][0]].numbers.copy()
    near.flat[np.abs(near).argmin()] = -1e-12 if bits.flat[np.abs(near).argmin()] == 0 else 1e-12
    moved = exact | {sign["out"][0]: Exact(near, 0.0)}
    facts = compared(packed, moved, points, trace | {sign["out"][0]: bits})
    assert facts["bits_different"] == 0


def test_indices_of_equal_distances_are_no_difference():
    """Points on a lattice: the order of neighbors by index is another answer than the order by coordinates."""
    program = Program()
    near = program.nearest(program.points, program.points, program.points, count=always(5))
    program.bilinear_float(program.sign(program.pool(program.pool(program.gather(program.points, near)))), 3)
    packed = program.packed()
    points = np.random.default_rng(0).permutation(np.argwhere(np.ones((3, 3, 3)))).astype(np.float32)
    exact = in_float64(packed, points)[0]
    square = ((points[:, None] - points) ** 2).sum(axis=2)
    by_index = np.argsort(square, axis=1, kind="stable")[:, :5]
    facts = compared(packed, exact | {near: Exact(by_index, None)}, points)
    assert facts["indices_different"] > 0
    assert facts["indices_unexplained"] == 0
    wrong = np.argsort(square, axis=1, kind="stable")[:, 1:6]
    assert compared(packed, exact | {near: Exact(wrong, None)}, points)["indices_unexplained"] > 0


@pytest.mark.parametrize("seed", range(3))
def test_error_bounds_hold_and_are_small(seed):
    """Every operation on floats in float32, on inputs that are off by their bound, against float64."""
    packed, points = with_groups(seed), cloud(seed=seed)
    _, values = in_float64(packed, points)
    rng = np.random.default_rng(seed)
    checked = set()
    for op in packed.manifest["program"][1:]:
        exact = values[op["out"][0]].array
        if exact.dtype.kind != "f":
            continue
        tensors = tensors_of(packed, op)
        operands, errors = [], []
        for name in op["in"]:
            x = values[name]
            if x.array.dtype.kind == "f":
                errors.append(np.abs(x.array) * 1e-6)
                moved = x.array + errors[-1] * rng.uniform(-0.9, 0.9, x.array.shape)
                x = x._replace(array=moved.astype(np.float32))
            else:
                errors.append(np.zeros(x.array.shape))
            operands.append(x)
        found = reference.OPERATIONS[op["op"]](op, tensors, *operands)[0].array
        bound = error_bound(op, tensors, operands, errors)
        assert (np.abs(found - exact) <= bound).all(), op["op"]
        if op["op"] != "divide":
            assert bound.max() < 0.01 * np.abs(exact).max(), op["op"]
        checked.add(op["op"])
    assert len(checked) >= 12
