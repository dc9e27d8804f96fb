"""What docs/format.md says about rounding, zeros, overflow and NaN: the core and the reference give the same bits."""

import math

import numpy as np
import pytest
from handmade_programs import Program, content, same_values

from bipointnet import _core
from bipointnet.runtime.reference import Packed

NUMBERS = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1e-38, -3e-39, 1e-20, -1e-20, 1.0, -2.5, 1e30, -1e30, 3.4e38, -3.4e38], np.float32
)


def dense(program: Program, x: str, outputs: int, activation: str = "none", size: float = 1.0) -> str:
    """A layer with zeros of both signs in its tensors."""
    weight = (size * program.rng.normal(size=(outputs, program.width[x]))).astype(np.float32)
    weight[program.rng.random(weight.shape) < 0.2] = -0.0
    bias = program.rng.choice(np.array([0.0, -0.0, 0.5], np.float32), outputs)
    return program.dense(x, outputs, activation, weight=weight, bias=bias)


def everything(kind: str, scaled: bool) -> Packed:
    """All operations on floats of points and of the cloud."""
    program = Program()
    x = dense(program, program.points, 20)
    x = dense(program, x, 24, "relu", size=1e10)
    x = dense(program, x, 17, "hardtanh")
    if scaled:
        scale = program.add("mean_abs", x, width=1, groups=1)
        x = program.bilinear_float(program.sign(x), 31, "relu", scale=scale)
    x = program.pool(dense(program, x, 9), kind, shift="delta" if kind == "max" else "none")
    matrix = program.affine(x, np.stack([np.ones(9), np.eye(3).ravel()], axis=1))
    x = program.add("transform", program.points, matrix, outputs=3)
    x = dense(program, x, 21, size=1e-10)
    for op in ("add", "subtract", "multiply", "divide"):
        program.add(op, x, program.slice(x, 3, 4), width=21)
    for name in ("relu", "hardtanh", "leaky_relu", "abs", "square", "sqrt", "reciprocal", "exp", "sigmoid", "tanh"):
        program.function(program.points, name, 0.25 if name == "leaky_relu" else 0.0)
    program.add("outer", program.points, x, width=63)
    program.pool(x, kind)
    return program.finish()


@pytest.mark.parametrize("kind", ["max", "mean", "sum"])
@pytest.mark.parametrize("scaled", [False, True])
def test_overflow_nan_zeros_and_subnormal_numbers_have_defined_bits(kind, scaled):
    packed, rng, seen = everything(kind, scaled), np.random.default_rng(1), []
    for points in (1, 2, 9, 64, 130, 600):
        for choice in (NUMBERS[:2], NUMBERS[:8], NUMBERS):
            seen += same_values(packed, rng.choice(choice, (points, 3))).values()
    floats = np.concatenate([value.ravel() for value in seen if value.dtype == np.float32])
    assert np.isnan(floats).any()
    assert np.isinf(floats).any()
    assert ((floats != 0) & (np.abs(floats) < np.finfo(np.float32).tiny)).any()
    assert (np.signbit(floats) & (floats == 0)).any()


def pooled(kind: str, values: list[float]) -> np.ndarray:
    """The pool of one channel."""
    program = Program()
    name = program.pool(program.points, kind)
    cloud = np.zeros((len(values), 3), np.float32)
    cloud[:, 1] = values
    return same_values(program.finish(), cloud)[name][1:2]


def test_a_pool_of_zeros_is_positive_zero():
    for kind in ("max", "mean", "sum"):
        for values in ([-0.0], [-0.0] * 70, [0.0, -0.0], [-0.0, 0.0]):
            assert pooled(kind, values).view(np.uint32).tolist() == [0]
    assert pooled("max", [-1.0, -0.0, -2.0]).view(np.uint32).tolist() == [0]


@pytest.mark.parametrize("kind", ["mean", "sum"])
def test_a_pool_sums_runs_of_64_in_float64(kind):
    """1 is lost beside 2^53, but not in a run of its own; the sums of the runs are added in order."""
    values = [2.0**53, *[1.0] * 63, *[1.0] * 64, -(2.0**53)]
    total = {"mean": np.float32(64 / 129), "sum": np.float32(64)}[kind]
    assert pooled(kind, values).tolist() == [total]


def test_a_maximum_skips_nan_and_relu_turns_it_into_zero():
    """inf - inf is NaN: the weights overflow at some of the points."""
    nan, largest = np.float32(np.nan), np.float32(3e38)
    for activation, expected in {"none": nan, "relu": np.float32(0), "hardtanh": nan}.items():
        program = Program()
        large = program.dense(program.points, 2, weight=[[10, 0, 0], [10, 0, 0]], bias=[0, 0])
        difference = program.dense(large, 1, activation, weight=[[1, -1]], bias=[0])
        maximum = program.pool(difference)
        packed = program.finish()
        values = same_values(packed, np.array([[largest, 0, 0], [-0.5, 0, 0]], np.float32))
        assert np.array_equal(values[difference][:, 0], np.array([expected, 0], np.float32), equal_nan=True)
        assert values[maximum].tolist() == [0.0]
        alone = same_values(packed, np.array([[largest, 0, 0]], np.float32))
        assert alone[maximum].tolist() == ([0.0] if activation == "relu" else [-np.inf])


def test_an_affine_operation_rounds_twice():
    """(1 + e)^2 - (1 + 2 e) is e^2, but the rounded square is 1 + 2 e."""
    program, e = Program(), 2.0**-23
    name = program.affine(program.points, np.array([[1 + e, -(1 + 2 * e)]] * 3))
    assert same_values(program.finish(), np.full((1, 3), 1 + e))[name].tolist() == [[0, 0, 0]]


def functions(name: str, x: np.ndarray, slope: float = 0.0) -> np.ndarray:
    """A function of many numbers."""
    program = Program()
    out = program.function(program.points, name, slope)
    cloud = np.zeros((-(-len(x) // 3), 3), np.float32)
    cloud.ravel()[: len(x)] = x
    return same_values(program.finish(), cloud)[out].ravel()[: len(x)]


FUNCTIONS = {
    "relu": lambda x: max(x, 0.0),
    "hardtanh": lambda x: min(1.0, max(-1.0, x)),
    "leaky_relu": lambda x: x if x > 0 else 0.25 * x,
    "abs": abs,
    "square": lambda x: x * x,
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "reciprocal": lambda x: 1 / x,
    "exp": math.exp,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_rounded_once(name):
    """In float64 the error of a function is far below half a unit of float32, so almost all results are the nearest."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=3000) * scale for scale in (1, 10, 1e-3)]).astype(np.float32)
    x = x[np.abs(x) < 80]
    found = functions(name, x, 0.25 if name == "leaky_relu" else 0.0)
    expected = np.array([FUNCTIONS[name](float(number)) for number in x]).astype(np.float32)
    exact = name not in ("exp", "sigmoid", "tanh")
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    assert same.mean() > 0.999 or same.all()
    assert same.all() if exact else np.allclose(found, expected, rtol=2e-7, atol=1e-12)


def test_functions_at_their_ends():
    largest = np.float32(3.4e38)
    assert functions("exp", np.array([0, -0.0, 89, 710, largest, -104, -709, -largest])).tolist() == [
        *(1, 1, np.inf, np.inf, np.inf, 0, 0, 0),
    ]
    assert functions("sigmoid", np.array([0, 1000, -1000])).tolist() == [0.5, 1, 0]
    assert functions("tanh", np.array([0, 1000, -1000])).tolist() == [0, 1, -1]
    assert functions("reciprocal", np.array([0, -0.0])).tolist() == [np.inf, -np.inf]
    zeros = functions("sqrt", np.array([0, -0.0]))
    assert np.signbit(zeros).tolist() == [False, True]
    assert np.signbit(functions("relu", np.array([-0.0, -1.0]))).tolist() == [False, False]
    assert np.signbit(functions("leaky_relu", np.array([-0.0, 0.0]), 0.5)).tolist() == [True, False]


CLOUDS = {
    "random": lambda rng, n: rng.normal(size=(n, 3)),
    "far away": lambda rng, n: rng.normal((691_000, 5_334_000, 500), size=(n, 3)),
    "flat": lambda rng, n: rng.normal(size=(n, 3)) * [1, 1, 0],
    "tiny": lambda rng, n: rng.normal(size=(n, 3)) * 1e-42,
    "huge": lambda rng, n: rng.uniform(-3.4e38, 3.4e38, size=(n, 3)),
    "zeros": lambda rng, n: rng.choice([0.0, -0.0], (n, 3)),
    "coarse": lambda rng, n: rng.integers(-2, 3, (n, 3)),
}


@pytest.mark.parametrize("kind", CLOUDS)
def test_the_sphere_has_the_same_bits(kind):
    program = Program()
    program.pool(program.points)
    packed = program.packed("sphere")
    for points in (1, 2, 3, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1025, 3000):
        cloud = CLOUDS[kind](np.random.default_rng(points), points).astype(np.float32)
        normalized = same_values(packed, cloud, raw=False)["points"]
        radius = np.sqrt((normalized.astype(np.float64) ** 2).sum(axis=1).max())
        assert radius == pytest.approx(1 if (cloud != cloud[0]).any() else 0, abs=1e-6)


def test_a_cloud_in_one_place_becomes_zeros():
    program = Program()
    program.pool(program.points)
    packed = program.packed("sphere")
    rng = np.random.default_rng(0)
    for points in (1, 2, 3, 7, 100, 5000):
        for place in [*rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-40, 38, (20, 1)), [0, -0.0, 3.4e38]]:
            cloud = np.tile(np.array(place, np.float32), (points, 1))
            assert not same_values(packed, cloud, raw=False)["points"].any()


def test_a_golden_vector_made_by_the_reference_is_exact():
    """Normalization included: its tolerance is 0 in these files."""
    for seed in range(20):
        program = Program(seed)
        x = program.dense(program.points, 13, "hardtanh")
        scale = program.add("mean_abs", x, width=1, groups=1)
        x = program.pool(program.bilinear_float(program.sign(x), 11, scale=scale))
        program.dense(x, 4)
        assert _core.Model(content(program.packed("sphere"))).isa
