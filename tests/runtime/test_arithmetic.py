"""What docs/format.md says about rounding, zeros, overflow and NaN: the core and the reference give the same bits."""

import json
from typing import Any

import numpy as np
import pytest

from bipointnet import _core
from bipointnet.packing.bits import pack_bits
from bipointnet.packing.container import file_bytes
from bipointnet.runtime import reference

NUMBERS = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1e-38, -3e-39, 1e-20, -1e-20, 1.0, -2.5, 1e30, -1e30, 3.4e38, -3.4e38], np.float32
)


class Program:
    """A program on clouds of three channels, with random or given tensors."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.ops: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.width = 0
        self.points()

    def add(self, op: str, width: int, tensors: dict[str, np.ndarray] | None = None, **fields: Any) -> None:
        self.tensors |= {f"{len(self.ops)}.{name}": tensor for name, tensor in (tensors or {}).items()}
        self.ops.append({"op": op, **fields})
        self.width = width

    def points(self) -> None:
        self.add("points", 3)

    def dense(self, outputs: int, activation: str = "none", size: float = 1.0) -> None:
        weight = (size * self.rng.normal(size=(outputs, self.width))).astype(np.float32)
        weight[self.rng.random(weight.shape) < 0.2] = -0.0
        bias = self.rng.choice(np.array([0.0, -0.0, 0.5], np.float32), outputs)
        self.add("dense", outputs, {"weight": weight, "bias": bias}, outputs=outputs, activation=activation)

    def pool(self, kind: str) -> None:
        self.add("pool", self.width, pool=kind)

    def bits(self, op: str, outputs: int, activation: str = "none") -> None:
        """`sign` or `sign_scaled`, and the layer after it."""
        self.add(op, self.width)
        tensors = {
            "weight": pack_bits(self.rng.random((outputs, self.width)) < 0.5),
            "line": self.rng.normal(size=(outputs, 2)).astype(np.float32),
        }
        layer = "bilinear_scaled" if op == "sign_scaled" else "bilinear_float"
        self.add(layer, outputs, tensors, outputs=outputs, activation=activation)

    def content(self, normalize: str = "none") -> bytes:
        manifest = {
            "format": 1,
            "model": "made up",
            "task": "classify",
            "classes": [f"class {i}" for i in range(self.width)],
            "channels": 3,
            "normalize": normalize,
            "program": self.ops,
            "golden": {"seed": 3, "points": 9, "tolerance": 0.0},
            "training": {},
        }
        golden = reference.golden_logits(reference.Packed(manifest, self.tensors))
        return file_bytes(json.dumps(manifest), self.tensors | {"golden": golden})


def assert_same_bits(found: np.ndarray, expected: np.ndarray, what: object) -> None:
    """Equal bits; all NaN are equal."""
    if expected.dtype == bool:
        assert np.array_equal(found, expected.astype(np.uint8)), what
        return
    assert found.dtype == expected.dtype == np.float32
    same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), f"{what}: {found[~same][:3]} instead of {expected[~same][:3]}"


def assert_same_values(content: bytes, cloud: np.ndarray, raw: bool = True) -> list[np.ndarray]:
    """The value after every operation, on every instruction set."""
    _, expected = reference.run_program(reference.parse(content), cloud, raw=raw)
    for isa in _core.isas():
        found = _core.Model(content, isa).trace(cloud, raw)
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same_bits(one, other, f"{isa}, operation {i}")
    return expected


def everything(kind: str, scaled: bool) -> bytes:
    """All operations on floats. Their bits at the end keep the logits finite."""
    program = Program()
    program.dense(20)
    program.dense(24, "relu", size=1e10)
    program.dense(17, "hardtanh")
    if scaled:
        program.bits("sign_scaled", 31, "relu")
    program.dense(9)
    program.pool(kind)
    program.add("shift", 9)
    program.add("matrix", 0, size=3)
    program.points()
    program.add("transform", 3, matrix=0)
    program.dense(21, size=1e-10)
    program.pool(kind)
    program.bits("sign", 4)
    return program.content()


@pytest.mark.parametrize("kind", ["max", "mean"])
@pytest.mark.parametrize("scaled", [False, True])
def test_overflow_nan_zeros_and_subnormal_numbers_have_defined_bits(kind, scaled):
    content, rng, seen = everything(kind, scaled), np.random.default_rng(1), []
    for points in (1, 2, 9, 64, 130, 600):
        for choice in (NUMBERS[:2], NUMBERS[:8], NUMBERS):
            seen += assert_same_values(content, rng.choice(choice, (points, 3)))
    floats = np.concatenate([value.ravel() for value in seen if value.dtype == np.float32])
    assert np.isnan(floats).any()
    assert np.isinf(floats).any()
    assert ((floats != 0) & (np.abs(floats) < np.finfo(np.float32).tiny)).any()
    assert (np.signbit(floats) & (floats == 0)).any()


def pooled(kind: str, values: list[float]) -> np.ndarray:
    """The pool of one channel."""
    program = Program()
    program.pool(kind)
    cloud = np.zeros((len(values), 3), np.float32)
    cloud[:, 1] = values
    return assert_same_values(program.content(), cloud)[-1][1:2]


def test_a_pool_of_zeros_is_positive_zero():
    for kind in ("max", "mean"):
        for values in ([-0.0], [-0.0] * 70, [0.0, -0.0], [-0.0, 0.0]):
            assert pooled(kind, values).view(np.uint32).tolist() == [0]
    assert pooled("max", [-1.0, -0.0, -2.0]).view(np.uint32).tolist() == [0]


def test_a_maximum_skips_nan_and_relu_turns_it_into_zero():
    """inf - inf is NaN: the weights overflow at some of the points."""
    nan, largest = np.float32(np.nan), np.float32(3e38)
    for activation, expected in {"none": nan, "relu": np.float32(0), "hardtanh": nan}.items():
        program = Program()
        large = {"weight": np.array([[10, 0, 0], [10, 0, 0]], np.float32), "bias": np.zeros(2, np.float32)}
        program.add("dense", 2, large, outputs=2, activation="none")
        difference = {"weight": np.array([[1, -1]], np.float32), "bias": np.zeros(1, np.float32)}
        program.add("dense", 1, difference, outputs=1, activation=activation)
        program.pool("max")
        program.bits("sign", 2)
        content = program.content()
        values = assert_same_values(content, np.array([[largest, 0, 0], [-0.5, 0, 0]], np.float32))
        assert np.array_equal(values[2][:, 0], np.array([expected, 0], np.float32), equal_nan=True)
        assert values[3].tolist() == [0.0]
        alone = assert_same_values(content, np.array([[largest, 0, 0]], np.float32))
        assert alone[3].tolist() == ([0.0] if activation == "relu" else [-np.inf])


def test_a_matrix_adds_one_on_its_diagonal_only():
    program = Program()
    zeros = {"weight": np.full((9, 3), -0.0, np.float32), "bias": np.full(9, -0.0, np.float32)}
    program.add("dense", 9, zeros, outputs=9, activation="none")
    program.pool("mean")
    program.dense(9)
    program.ops[-1]["activation"] = "none"
    program.tensors["3.weight"][:] = -0.0
    program.tensors["3.bias"][:] = -0.0
    program.add("matrix", 0, size=3)
    program.points()
    program.add("transform", 3, matrix=0)
    program.pool("max")
    matrix = assert_same_values(program.content(), np.ones((5, 3), np.float32))[4]
    assert np.array_equal(matrix, np.eye(3))
    assert np.signbit(matrix).sum() == 6


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
    program.pool("max")
    content = program.content(normalize="sphere")
    for points in (1, 2, 3, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1025, 3000):
        cloud = CLOUDS[kind](np.random.default_rng(points), points).astype(np.float32)
        normalized = assert_same_values(content, cloud, raw=False)[0]
        radius = np.sqrt((normalized.astype(np.float64) ** 2).sum(axis=1).max())
        assert radius == pytest.approx(1 if (cloud != cloud[0]).any() else 0, abs=1e-6)


def test_a_cloud_in_one_place_becomes_zeros():
    program = Program()
    program.pool("max")
    content = program.content(normalize="sphere")
    rng = np.random.default_rng(0)
    for points in (1, 2, 3, 7, 100, 5000):
        for place in [*rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-40, 38, (20, 1)), [0, -0.0, 3.4e38]]:
            cloud = np.tile(np.array(place, np.float32), (points, 1))
            assert not assert_same_values(content, cloud, raw=False)[0].any()


def test_a_golden_vector_made_by_the_reference_is_exact():
    """Normalization included: its tolerance is 0 in these files."""
    for seed in range(20):
        program = Program(seed)
        program.dense(13, "hardtanh")
        program.bits("sign_scaled", 11)
        program.pool("max")
        program.dense(4)
        assert _core.Model(program.content(normalize="sphere")).isa
