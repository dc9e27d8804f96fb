"""The obviously right evaluation of a packed model: docs/format.md, line by line, in numpy.

It is the oracle that the exporter, the tests and `verify` hold the compiled core against. It is slow, it believes its
file, and it needs neither PyTorch nor the core.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data.normalize import normalize
from bipointnet.delta import delta

SIGNS = ("sign", "compare", "sign_scaled")  # operations that take bits of floats
DTYPES = {"U64": "<u8", "I16": "<i2", "F16": "<f2", "F32": "<f4", "F64": "<f8"}


@dataclass(frozen=True)
class Packed:
    """A packed model: its manifest, and its tensors by name."""

    manifest: dict[str, Any]
    tensors: dict[str, np.ndarray]


def parse(content: bytes) -> Packed:
    """The model in the bytes of a packed file that is known to be sound."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    manifest = json.loads(header.pop("__metadata__")["bipointnet"])
    tensors = {}
    for name, entry in header.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(content[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return Packed(manifest, tensors)


def read(path: str | Path) -> Packed:
    """The model in a packed file that is known to be sound."""
    return parse(Path(path).read_bytes())


def pack_bits(bits: np.ndarray) -> np.ndarray:
    """Rows of bits as words, column k in bit k mod 64 of word k div 64: (M, K) of bool -> (M, ceil(K / 64))."""
    rows, columns = bits.shape
    padded = np.zeros((rows, -(-columns // 64) * 64), bool)
    padded[:, :columns] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8")


def unpack_bits(words: np.ndarray, columns: int) -> np.ndarray:
    """The first `columns` bits of each row: (M, words) -> (M, columns) of bool."""
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :columns].astype(bool)


def golden_cloud(seed: int, points: int, channels: int) -> np.ndarray:
    """The made-up cloud of a golden vector, not normalised: (points, channels) float32."""
    mask = 2**64 - 1
    state, numbers = seed, []
    for _ in range(points * channels):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        z ^= z >> 31
        numbers.append((z >> 40) * 2.0**-23 - 1)
    return np.array(numbers, np.float32).reshape(points, channels)


def product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x . weight^T in float32, each sum taken in the order of the inputs: (..., K), (M, K) -> (..., M)."""
    total = x[..., :1] * weight[:, 0]
    for k in range(1, weight.shape[1]):
        total = total + x[..., k : k + 1] * weight[:, k]
    return total


def agreements(bits: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """In how many columns a row of `bits` is that of the weights: (..., K), (M, K), both of bool -> (..., M) int64."""
    ones = bits.astype(np.float32) @ weight.T.astype(np.float32)  # integers, exact far beyond K = 32766
    zeros = (~bits).astype(np.float32) @ (~weight).T.astype(np.float32)
    return (ones + zeros).astype(np.int64)


def activate(x: np.ndarray, activation: str) -> np.ndarray:
    if activation == "relu":
        return np.maximum(x, np.float32(0))
    return np.clip(x, np.float32(-1), np.float32(1)) if activation == "hardtanh" else x


def mean(x: np.ndarray) -> np.ndarray:
    """Mean over points as the format sums it: float64, in order, in groups of 64; (N, K) -> (K,) float32."""
    groups = [x[start : start + 64].astype(np.float64) for start in range(0, len(x), 64)]
    sums = np.stack([np.add.accumulate(group, axis=0)[-1] for group in groups])
    return (np.add.accumulate(sums, axis=0)[-1] / len(x)).astype(np.float32)


def mean_size(x: np.ndarray) -> np.ndarray:
    """Mean of |x| as the format sums it: float64, in eight sums of every eighth number; (..., K) -> (...) float32."""
    sizes = np.abs(x.astype(np.float64))
    sums = [np.add.accumulate(sizes[..., j::8], axis=-1)[..., -1:] for j in range(min(8, x.shape[-1]))]
    total = np.add.accumulate(np.concatenate(sums, axis=-1), axis=-1)[..., -1]
    return (total / x.shape[-1]).astype(np.float32)


@dataclass
class Machine:
    """One run of a program: the cloud (N, channels) as the network sees it, the current value, what was kept so far.

    scale: of scaled bits, a number a point (N,) or one. chosen: a bit a category, 1 for that of the cloud.
    kept: bits, of points (N, K) or of a vector (K,).
    """

    cloud: np.ndarray
    value: np.ndarray = field(default_factory=lambda: np.empty(0))
    scale: np.ndarray = field(default_factory=lambda: np.ones((), np.float32))
    matrices: list[np.ndarray] = field(default_factory=list)
    chosen: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    kept: list[np.ndarray] = field(default_factory=list)

    def points(self, op: dict, tensors: dict) -> np.ndarray:
        return self.cloud

    def transform(self, op: dict, tensors: dict) -> np.ndarray:
        matrix = self.matrices[op["matrix"]]  # (D, D)
        turned = product(self.value[:, : len(matrix)], matrix.T)
        return np.concatenate([turned, self.value[:, len(matrix) :]], axis=1)

    def dense(self, op: dict, tensors: dict) -> np.ndarray:
        return activate(product(self.value, tensors["weight"].astype(np.float32)) + tensors["bias"], op["activation"])

    def sign(self, op: dict, tensors: dict) -> np.ndarray:
        return self.value >= 0

    def compare(self, op: dict, tensors: dict) -> np.ndarray:
        return self.value >= np.float32(op["at"])

    def sign_scaled(self, op: dict, tensors: dict) -> np.ndarray:
        self.scale = mean_size(self.value)
        return self.value >= 0

    def _agreements(self, tensors: dict) -> np.ndarray:
        return agreements(self.value, unpack_bits(tensors["weight"], self.value.shape[-1]))

    def bilinear(self, op: dict, tensors: dict) -> np.ndarray:
        return self._agreements(tensors) >= tensors["threshold"]

    def bilinear_pool(self, op: dict, tensors: dict) -> np.ndarray:
        n, counts, line = len(self.value), self._agreements(tensors), tensors["line"].astype(np.float64)
        if "threshold" in tensors:
            self.kept.append(counts >= tensors["threshold"])
        if op["pool"] == "mean":
            return counts.sum(axis=0) >= np.ceil(n * line[:, 0])
        d = delta(n) if op["shift"] == "delta" else 0.0
        return (counts >= np.ceil(line[:, 0] + line[:, 1] * d)).any(axis=0)

    def bilinear_float(self, op: dict, tensors: dict) -> np.ndarray:
        return self._line(op, tensors, np.ones((), np.float32))

    def bilinear_scaled(self, op: dict, tensors: dict) -> np.ndarray:
        return self._line(op, tensors, self.scale)

    def _line(self, op: dict, tensors: dict, scale: np.ndarray) -> np.ndarray:
        z = (2 * self._agreements(tensors) - self.value.shape[-1]).astype(np.float32)
        a, b = tensors["line"].T
        return activate(a * (scale[..., None] * z) + b, op["activation"])

    def pool(self, op: dict, tensors: dict) -> np.ndarray:
        return mean(self.value) if op["pool"] == "mean" else self.value.max(axis=0)

    def shift(self, op: dict, tensors: dict) -> np.ndarray:
        return self.value - np.float32(delta(len(self.cloud)))

    def matrix(self, op: dict, tensors: dict) -> np.ndarray:
        size = op["size"]
        self.matrices.append(self.value.reshape(size, size) + np.eye(size, dtype=np.float32))
        return self.matrices[-1]

    def keep(self, op: dict, tensors: dict) -> np.ndarray:
        self.kept.append(self.value if self.value.dtype == bool else self.value >= 0)
        return self.value

    def category(self, op: dict, tensors: dict) -> np.ndarray:
        return self.chosen

    def join(self, op: dict, tensors: dict) -> np.ndarray:
        parts = [self.kept[number] for number in op["kept"]]
        return np.concatenate([np.broadcast_to(part, (len(self.cloud), part.shape[-1])) for part in parts], axis=1)


OPERATIONS: dict[str, Callable[[Machine, dict, dict], np.ndarray]] = {
    "points": Machine.points,
    "transform": Machine.transform,
    "dense": Machine.dense,
    "sign": Machine.sign,
    "compare": Machine.compare,
    "sign_scaled": Machine.sign_scaled,
    "bilinear": Machine.bilinear,
    "bilinear_pool": Machine.bilinear_pool,
    "bilinear_float": Machine.bilinear_float,
    "bilinear_scaled": Machine.bilinear_scaled,
    "pool": Machine.pool,
    "shift": Machine.shift,
    "matrix": Machine.matrix,
    "keep": Machine.keep,
    "category": Machine.category,
    "join": Machine.join,
}


def run_program(
    packed: Packed, cloud: np.ndarray, raw: bool = False, category: int | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Logits (classes,) of one cloud (N, channels), or (N, classes) of its points, and the value each operation leaves.

    raw: take the cloud as it is, instead of normalised as the manifest says. category: the number of the cloud's, where
    the model has categories. Bits are arrays of bool, floats float32; the value of `matrix` is the matrix it keeps.
    """
    cloud = np.asarray(cloud, np.float32)
    if packed.manifest["normalize"] == "sphere" and not raw:
        cloud = normalize(cloud)
    machine, values = Machine(cloud, chosen=_chosen(packed, category)), []
    for i, op in enumerate(packed.manifest["program"]):
        prefix = f"{i}."
        tensors = {name.removeprefix(prefix): t for name, t in packed.tensors.items() if name.startswith(prefix)}
        machine.value = OPERATIONS[op["op"]](machine, op, tensors)
        values.append(machine.value)
    return machine.value, values


def _chosen(packed: Packed, category: int | None) -> np.ndarray:
    """A bit a category, 1 for number `category`; none for a model without categories."""
    count = len(packed.manifest.get("categories", []))
    if (category is None) != (count == 0) or (category is not None and not 0 <= category < count):
        raise ValueError(f"category {category}; expected {f'0 to {count - 1}' if count else 'None, as there are none'}")
    return np.arange(count) == category


def golden_logits(packed: Packed) -> np.ndarray:
    """Logits (classes,) of the cloud of the model's golden vector, or (points, classes) of its points."""
    golden = packed.manifest["golden"]
    cloud = golden_cloud(golden["seed"], golden["points"], packed.manifest["channels"])
    return run_program(packed, cloud, category=0 if "categories" in packed.manifest else None)[0]
