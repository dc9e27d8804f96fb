"""Handmade programs with logits per point: the compiled core equals the reference, bit by bit."""

import json
from typing import Any

import numpy as np
import pytest

from bipointnet import _core
from bipointnet.packing.bits import pack_bits
from bipointnet.packing.container import file_bytes
from bipointnet.runtime import reference
from bipointnet.runtime.reference import Packed, run_program

CATEGORIES = ["mug", "lamp", "chair"]


class Program:
    """Operations with random tensors; thresholds are chosen so that bits vary."""

    def __init__(self, seed: int, channels: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.channels = channels
        self.width = 0
        self.ops: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.kept: list[int] = []

    def add(self, op: str, tensors: dict[str, np.ndarray] | None = None, **fields: Any) -> None:
        for name, tensor in (tensors or {}).items():
            self.tensors[f"{len(self.ops)}.{name}"] = tensor
        self.ops.append({"op": op, **fields})
        self.width = fields.get("outputs", self.width)

    def points(self) -> None:
        self.add("points")
        self.width = self.channels

    def keep(self) -> None:
        self.kept.append(self.width)
        self.add("keep")

    def category(self) -> None:
        self.add("category")
        self.width = len(CATEGORIES)

    def join(self, *kept: int) -> None:
        self.add("join", kept=list(kept))
        self.width = sum(self.kept[number] for number in kept)

    def dense(self, outputs: int, twin: int | None = None) -> None:
        """twin: index of an operation to copy the weights from."""
        weight = self.rng.normal(size=(outputs, self.width)).astype(np.float32)
        bias = self.rng.normal(size=outputs).astype(np.float32)
        tensors = {"weight": weight, "bias": bias}
        if twin is not None:
            tensors = {name: self.tensors[f"{twin}.{name}"] for name in tensors}
        self.add("dense", tensors, outputs=outputs, activation="none")

    def _weight(self, outputs: int) -> np.ndarray:
        return pack_bits(self.rng.random((outputs, self.width)) < 0.5)

    def _threshold(self, outputs: int) -> np.ndarray:
        near = self.width / 2 + self.rng.normal(size=outputs) * np.sqrt(self.width) / 2
        return np.clip(np.round(near), 0, self.width + 1).astype(np.int16)

    def bilinear(self, outputs: int) -> None:
        tensors = {"weight": self._weight(outputs), "threshold": self._threshold(outputs)}
        self.add("bilinear", tensors, outputs=outputs)

    def bilinear_pool(self, outputs: int, pool: str = "max", keeps: bool = False) -> None:
        slope = np.sqrt(self.width) / 2 * (pool == "max")
        line = np.stack([self.width / 2 + self.rng.normal(size=outputs), np.full(outputs, slope)], axis=1)
        tensors = {"weight": self._weight(outputs), "line": line}
        if keeps:
            self.kept.append(outputs)
            tensors["threshold"] = self._threshold(outputs)
        shift = "delta" if pool == "max" else "none"
        self.add("bilinear_pool", tensors, outputs=outputs, pool=pool, shift=shift)

    def bilinear_float(self, outputs: int, activation: str = "hardtanh", op: str = "bilinear_float") -> None:
        line = self.rng.normal(size=(outputs, 2)).astype(np.float32) * np.float32(0.1)
        self.add(op, {"weight": self._weight(outputs), "line": line}, outputs=outputs, activation=activation)

    def packed(self, classes: int, points: int = 7) -> Packed:
        manifest = {
            "format": 1,
            "model": "made up",
            "classes": [f"part {i}" for i in range(classes)],
            "channels": self.channels,
            "normalize": "none",
            "program": self.ops,
            "golden": {"seed": 3, "points": points, "tolerance": 0.0},
            "training": {},
        }
        if any(op["op"] == "category" for op in self.ops):
            manifest["categories"] = CATEGORIES
        golden = reference.golden_logits(Packed(manifest, self.tensors))
        manifest["task"] = "classify" if golden.ndim == 1 else "part" if "categories" in manifest else "semantic"
        return Packed(manifest, self.tensors | {"golden": golden})


def content(packed: Packed) -> bytes:
    return file_bytes(json.dumps(packed.manifest), packed.tensors)


def matrix(program: Program, size: int) -> None:
    program.bilinear_float(size * size, "none")
    program.add("matrix", size=size)
    program.width = 0


def part_segmentation() -> Packed:
    """The structure of PointNet for parts: T-Nets, five kept layers, the global feature, the category."""
    program = Program(0)
    program.points()
    program.dense(20)
    program.add("sign")
    program.bilinear_pool(40)
    matrix(program, 3)
    second_pass = len(program.ops)
    program.points()
    program.add("transform", matrix=0)
    program.dense(20)
    program.add("sign")
    program.bilinear(31)
    program.bilinear_pool(50)
    matrix(program, 24)
    program.points()
    program.add("transform", matrix=0)
    program.dense(20, twin=second_pass + 2)
    program.add("sign")
    program.keep()
    program.bilinear(31)
    program.keep()
    program.bilinear_float(24)
    program.keep()
    program.add("transform", matrix=1)
    program.add("sign")
    program.bilinear(70)
    program.keep()
    program.bilinear_pool(150, keeps=True)
    program.keep()
    program.category()
    program.keep()
    program.join(0, 1, 2, 3, 4, 5, 6)
    program.bilinear(90)
    program.bilinear(64)
    program.bilinear_float(33)
    program.dense(6)
    return program.packed(6)


def semantic_segmentation() -> Packed:
    """Nine channels, one kept layer, and the global feature, which is joined first."""
    program = Program(1, channels=9)
    program.points()
    program.dense(64)
    program.add("sign")
    program.keep()
    program.bilinear(130)
    program.bilinear_pool(200)
    program.keep()
    program.join(1, 0)
    program.bilinear(100)
    program.bilinear_float(40)
    program.dense(13)
    return program.packed(13)


def mixed_passes() -> Packed:
    """Kept values of two passes with different codes, of means and of floats; a join that is kept as a whole."""
    program = Program(2)
    program.category()
    program.keep()
    program.points()
    program.dense(9)
    program.keep()
    program.add("sign")
    program.bilinear_pool(30, "mean", keeps=True)
    program.keep()
    program.points()
    program.dense(12)
    program.add("sign_scaled")
    program.bilinear_float(11, op="bilinear_scaled")
    program.keep()
    program.add("compare", at=0.25)
    program.bilinear_pool(30)
    program.keep()
    program.join(3, 0, 2, 1)
    program.keep()
    program.bilinear(20)
    program.bilinear_pool(25)
    program.keep()
    program.join(6, 5, 4)
    program.bilinear_float(4, "none")
    return program.packed(4)


def cloud_from_joined() -> Packed:
    """A join that is pooled again: logits per cloud."""
    program = Program(3)
    program.points()
    program.dense(40)
    program.add("sign")
    program.bilinear_pool(300, keeps=True)
    program.keep()
    program.join(1, 0)
    program.bilinear_float(50)
    program.add("pool", pool="max")
    program.dense(5)
    return program.packed(5)


def no_pool() -> Packed:
    """No pool: each point by itself."""
    program = Program(4)
    program.points()
    program.dense(60)
    program.add("sign")
    program.bilinear(300)
    program.bilinear(70)
    program.bilinear_float(3, "none")
    return program.packed(3)


MODELS = {f.__name__: f for f in (part_segmentation, semantic_segmentation, mixed_passes, cloud_from_joined, no_pool)}
SIZES = (1, 2, 65, 513, 1030)


def cloud(points: int, channels: int, coarse: bool) -> np.ndarray:
    numbers = np.random.default_rng(points).normal(size=(points, channels)).astype(np.float32)
    return np.round(numbers) / 2 if coarse else numbers  # coarse clouds have equal points and equal codes


@pytest.mark.parametrize("name", MODELS)
def test_the_core_equals_the_reference_bit_by_bit(name):
    packed = MODELS[name]()
    category = 1 if "categories" in packed.manifest else None
    models = [_core.Model(content(packed), isa) for isa in _core.isas()]
    for points in SIZES:
        numbers = cloud(points, packed.manifest["channels"], coarse=points % 2 == 0)
        logits, values = run_program(packed, numbers, category=category)
        for model in models:
            number = -1 if category is None else category
            for value, found in zip(values, model.trace(numbers, False, number), strict=True):
                assert np.array_equal(np.asarray(value, found.dtype), found)
            for threads in (1, 2, 5):
                found = model.predict(numbers[None], False, threads, number)
                assert np.array_equal(found[0], logits), (model.isa, points, threads)


def test_a_batch_gives_the_logits_of_its_clouds():
    packed = part_segmentation()
    model = _core.Model(content(packed))
    clouds = np.random.default_rng(5).normal(size=(5, 77, 3)).astype(np.float32)
    found = model.predict(clouds, False, 2, 2)
    assert found.shape == (5, 77, 6)
    for logits, numbers in zip(found, clouds, strict=True):
        assert np.array_equal(logits, run_program(packed, numbers, category=2)[0])
    assert not np.array_equal(found, model.predict(clouds, False, 2, 0))


def test_categories_and_segments():
    parts, blocks = (_core.Model(content(make())) for make in (part_segmentation, semantic_segmentation))
    assert parts.segments
    assert blocks.segments
    assert parts.categories == CATEGORIES
    assert blocks.categories == []
    assert not _core.Model(content(cloud_from_joined())).segments


def test_the_category_is_required_exactly_where_it_is_used():
    parts, blocks = (_core.Model(content(make())) for make in (part_segmentation, semantic_segmentation))
    cloud_of_3, cloud_of_9 = np.zeros((1, 4, 3), np.float32), np.zeros((1, 4, 9), np.float32)
    for category, words in {-1: "no category", 3: "category 3, expected one from 0 to 2", -2: "category -2"}.items():
        with pytest.raises(_core.InputError, match=words):
            parts.predict(cloud_of_3, False, 1, category)
        with pytest.raises(_core.InputError, match=words):
            parts.trace(cloud_of_3[0], False, category)
    with pytest.raises(_core.InputError, match="category 0, expected none"):
        blocks.predict(cloud_of_9, False, 1, 0)
    for packed, category in ((part_segmentation(), None), (part_segmentation(), 3), (semantic_segmentation(), 0)):
        with pytest.raises(ValueError, match="category"):
            run_program(packed, np.zeros((4, packed.manifest["channels"])), category=category)


def test_a_golden_vector_per_point_is_checked():
    packed = semantic_segmentation()
    wrong = packed.tensors["golden"].copy()
    wrong[-1, -1] += 0.5
    with pytest.raises(_core.FormatError, match="golden: logit 90 is"):
        _core.Model(content(Packed(packed.manifest, packed.tensors | {"golden": wrong})))
    with pytest.raises(_core.FormatError, match=r"golden: shape \[13\], expected \[7, 13\]"):
        _core.Model(content(Packed(packed.manifest, packed.tensors | {"golden": wrong[0].copy()})))
