"""Programs made by hand, for the tests of the runtime: operations with given or random tensors."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from bipointnet import _core
from bipointnet.packing.bits import pack_bits
from bipointnet.packing.container import file_bytes
from bipointnet.runtime import reference
from bipointnet.runtime.reference import Packed

CATEGORIES = ["mug", "lamp", "chair"]
NO_TENSORS: Mapping[str, np.ndarray] = {}


def always(count: int) -> dict[str, Any]:
    """The size rule of a fixed number."""
    return {"factor": 0.0, "round": "floor", "least": count, "most": count}


def at_most(count: int) -> dict[str, Any]:
    """The size rule of `count` elements, or all of a smaller set."""
    return {"factor": 1.0, "round": "floor", "least": 1, "most": count}


def share(factor: float, rounding: str = "ceil", least: int = 1, most: int = 4096) -> dict[str, Any]:
    """The size rule of a part of a set."""
    return {"factor": factor, "round": rounding, "least": least, "most": most}


class Program:
    """A program that grows by one operation at a time; each method returns the name of the first result.

    Random thresholds are chosen so that bits vary. `width` has the channels of every value.
    """

    def __init__(self, seed: int = 0, channels: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.channels = channels
        self.ops: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.width: dict[str, int] = {}
        self.points = self.add("points", out=["points"], width=channels)

    def add(
        self,
        op: str,
        *operands: str,
        out: list[str] | None = None,
        width: int | None = None,
        tensors: Mapping[str, np.ndarray] = NO_TENSORS,
        **fields: Any,
    ) -> str:
        """Append an operation. width: channels of its results; default: `outputs`, or those of the first operand."""
        names = out or [f"{op}{len(self.ops)}"]
        self.tensors |= {f"{names[0]}.{name}": tensor for name, tensor in tensors.items()}
        self.ops.append({"op": op, "in": list(operands), "out": names, **fields})
        channels = width if width is not None else fields["outputs"] if "outputs" in fields else self.width[operands[0]]
        self.width |= dict.fromkeys(names, channels)
        return names[0]

    def category(self) -> str:
        return self.add("category", width=len(CATEGORIES))

    def slice(self, x: str, start: int, stop: int) -> str:
        bounds: dict[str, Any] = {"from": start, "to": stop}
        return self.add("slice", x, width=stop - start, **bounds)

    def concat(self, *parts: str) -> str:
        return self.add("concat", *parts, width=sum(self.width[part] for part in parts))

    def broadcast(self, x: str, like: str) -> str:
        return self.add("broadcast", x, like)

    def gather(self, x: str, indices: str) -> str:
        return self.add("gather", x, indices)

    def farthest(self, x: str, count: dict[str, Any], order: str = "coordinates") -> str:
        return self.add("farthest", x, width=1, count=count, order=order)

    def nearest(self, centers: str, points: str, *ties: str, count: dict[str, Any], dilation: int = 1) -> str:
        return self.add("nearest", centers, points, *ties, width=1, count=count, dilation=dilation)

    def ball(
        self, centers: str, points: str, *ties: str, count: dict[str, Any], radius: float, order: str = "nearest"
    ) -> str:
        return self.add("ball", centers, points, *ties, width=1, count=count, radius=radius, order=order)

    def interpolate(self, centers: str, points: str, values: str, guard: str = "limit", epsilon: float = 0.0) -> str:
        width = self.width[values]
        return self.add("interpolate", centers, points, values, width=width, guard=guard, epsilon=epsilon)

    def pool(self, x: str, pool: str = "max", over: str = "points", shift: str = "none") -> str:
        return self.add("pool", x, pool=pool, over=over, shift=shift)

    def sign(self, x: str, at: float = 0.0) -> str:
        return self.add("sign", x, at=at)

    def function(self, x: str, function: str, slope: float = 0.0) -> str:
        return self.add("function", x, function=function, slope=slope)

    def affine(self, x: str, line: np.ndarray | None = None, activation: str = "none") -> str:
        line = self.rng.normal(size=(self.width[x], 2)) if line is None else line
        return self.add("affine", x, tensors={"line": np.asarray(line, np.float32)}, activation=activation)

    def dense(
        self,
        x: str,
        outputs: int,
        activation: str = "none",
        groups: int = 1,
        weight: Any = None,
        bias: Any = None,
    ) -> str:
        weight = self.rng.normal(size=(outputs, self.width[x] // groups)) if weight is None else weight
        bias = self.rng.normal(size=outputs) if bias is None else bias
        tensors = {"weight": np.asarray(weight, np.float32), "bias": np.asarray(bias, np.float32)}
        return self.add("dense", x, tensors=tensors, outputs=outputs, activation=activation, groups=groups)

    def _weight(self, outputs: int, columns: int) -> np.ndarray:
        return pack_bits(self.rng.random((outputs, columns)) < 0.5)

    def _threshold(self, outputs: int, columns: int) -> np.ndarray:
        near = columns / 2 + self.rng.normal(size=outputs) * np.sqrt(columns) / 2
        return np.clip(np.round(near), 0, columns + 1).astype(np.int16)

    def bilinear(self, x: str, outputs: int, groups: int = 1) -> str:
        columns = self.width[x] // groups
        tensors = {"weight": self._weight(outputs, columns), "threshold": self._threshold(outputs, columns)}
        return self.add("bilinear", x, tensors=tensors, outputs=outputs, groups=groups)

    def bilinear_float(
        self, x: str, outputs: int, activation: str = "none", groups: int = 1, scale: str | None = None
    ) -> str:
        line = self.rng.normal(size=(outputs, 2)).astype(np.float32) * np.float32(0.1)
        tensors = {"weight": self._weight(outputs, self.width[x] // groups), "line": line}
        operands = (x,) if scale is None else (x, scale)
        fields = {"outputs": outputs, "activation": activation, "groups": groups}
        return self.add("bilinear_float", *operands, tensors=tensors, **fields)

    def bilinear_pool(
        self,
        x: str,
        outputs: int,
        pool: str = "max",
        over: str = "points",
        shift: str | None = None,
        each: str | None = None,
    ) -> str:
        """each: the name of the second result. shift: by default, delta for a maximum."""
        columns = self.width[x]
        shift = ("delta" if pool == "max" else "none") if shift is None else shift
        slope = np.sqrt(columns) / 2 * (shift == "delta")
        line = np.stack([columns / 2 + self.rng.normal(size=outputs), np.full(outputs, slope)], axis=1)
        tensors = {"weight": self._weight(outputs, columns), "line": line}
        out = [f"bilinear_pool{len(self.ops)}"]
        if each is not None:
            out.append(each)
            tensors["threshold"] = self._threshold(outputs, columns)
        fields = {"outputs": outputs, "pool": pool, "over": over, "shift": shift}
        return self.add("bilinear_pool", x, out=out, tensors=tensors, **fields)

    def finish(self, classes: int = 4, normalize: str = "none", points: int = 7) -> Packed:
        """The model with logits that read, as bits of the cloud, all values that nothing has read: finite logits."""
        read = {name for op in self.ops for name in op["in"]}
        _, values = reference.run_program(*self._trial(points))
        bits = [self._bits_of_the_cloud(name, value) for name, value in values.items() if name not in read]
        self.bilinear_float(self.concat(*bits) if len(bits) > 1 else bits[0], classes)
        return self.packed(normalize, points)

    def _trial(self, points: int) -> tuple[Packed, np.ndarray]:
        """The program so far, and a cloud for it."""
        cloud = reference.golden_cloud(0, points, self.channels)
        return Packed({"normalize": "none", "program": self.ops}, self.tensors), cloud

    def _bits_of_the_cloud(self, name: str, value: np.ndarray) -> str:
        """value: of a small cloud; its shape and type say what the value is."""
        pools = value.ndim - (value.dtype != np.int64)
        if value.dtype == np.int64:
            name, pools = self.add("size", name, width=1, over="neighbors"), pools - 1
        for _ in range(pools):
            name = self.bilinear_pool(name, 5) if value.dtype == bool else self.pool(name)
        return name if value.dtype == bool else self.sign(name)

    def packed(self, normalize: str = "none", points: int = 7) -> Packed:
        """The model whose logits are the last value. Its golden vector, by the reference, has tolerance 0."""
        last = self.ops[-1]["out"][0]
        manifest = {
            "format": 2,
            "model": "made up",
            "classes": [f"class {i}" for i in range(self.width[last])],
            "channels": self.channels,
            "normalize": normalize,
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
    """The bytes of the packed file."""
    return file_bytes(json.dumps(packed.manifest), packed.tensors)


def assert_same_bits(found: np.ndarray, expected: np.ndarray, what: object) -> None:
    """Equal bits, in arrays of the core and of the reference; all NaN are equal."""
    assert found.shape == expected.shape, f"{what}: shape {found.shape} instead of {expected.shape}"
    if expected.dtype == bool:
        assert found.dtype == np.uint8
        assert np.array_equal(found, expected.astype(np.uint8)), what
        return
    assert found.dtype == expected.dtype, what
    if expected.dtype == np.int64:
        assert np.array_equal(found, expected), what
        return
    assert expected.dtype == np.float32
    same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), f"{what}: {found[~same][:3]} instead of {expected[~same][:3]}"


def same_values(
    packed: Packed, cloud: np.ndarray, raw: bool = True, category: int | None = None
) -> dict[str, np.ndarray]:
    """The values of the reference, which are those of the core on every instruction set.

    A prediction keeps only the values that a later pass reads, so its logits are compared as well.
    """
    cloud = np.ascontiguousarray(cloud, np.float32)
    logits, expected = reference.run_program(packed, cloud, raw=raw, category=category)
    number = -1 if category is None else category
    for isa in _core.isas():
        model = _core.Model(content(packed), isa)
        for threads in (1, 3):
            predicted = model.predict(cloud[None], raw, threads, number)[0]
            assert_same_bits(predicted, logits, f"{isa}, logits, {threads} threads, cloud of {len(cloud)}")
        found = model.trace(cloud, raw, number)
        assert found.keys() == expected.keys(), isa
        for name, value in expected.items():
            assert_same_bits(found[name], value, f"{isa}, {name}, cloud of {len(cloud)}")
    return expected
