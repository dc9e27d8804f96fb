"""The reference implementation of packed models: docs/format.md, line by line, in numpy.

It is the independent oracle that export, the tests and `verify` compare the compiled core with. It is slow, and needs
neither PyTorch nor the core. It shares no code with `packing`, which writes the files. It checks the container and the
checksum of a file, and trusts the manifest.
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.delta import delta
from bipointnet.errors import FormatError
from bipointnet.runtime.header import Header, parse_header

SIGNS = ("sign", "compare", "sign_scaled")  # operations that turn floats into bits
DTYPES = {"U64": "<u8", "I16": "<i2", "F16": "<f2", "F32": "<f4", "F64": "<f8"}


@dataclass(frozen=True)
class Packed:
    """A packed model: its manifest, and its tensors by name."""

    manifest: dict[str, Any]
    tensors: dict[str, np.ndarray]


def parse(content: bytes) -> Packed:
    """The model in the bytes of a packed file, without its checksum. FormatError if the file is damaged."""
    header = parse_header(content, strict=True)
    _check_file(content, header)
    tensors = {}
    for name, tensor in header.tensors.items():
        start = header.size + tensor.start
        numbers = np.frombuffer(content[start : start + tensor.bytes], DTYPES[tensor.dtype])
        tensors[name] = numbers.reshape(tensor.shape)
    del tensors["checksum"]
    return Packed(header.metadata, tensors)


def _check_file(content: bytes, header: Header) -> None:
    """Check the tensors in the header, then the size of the file, then the checksum."""
    end, last = 0, ""
    for name, tensor in sorted(header.tensors.items(), key=lambda item: (item[1].start, item[1].bytes)):
        if tensor.dtype not in DTYPES:
            raise FormatError(f"{name}: dtype {tensor.dtype}, expected one of {', '.join(DTYPES)}")
        if len(tensor.shape) not in (1, 2):
            raise FormatError(f"{name}: shape {tensor.shape}, expected 1 or 2 numbers")
        if tensor.start != end:
            raise FormatError(f"{name}: begins at byte {tensor.start}, expected {end}")
        if math.prod(tensor.shape) * np.dtype(DTYPES[tensor.dtype]).itemsize != tensor.bytes:
            raise FormatError(f"{name}: {tensor.bytes} bytes, expected another number for shape {tensor.shape}")
        end, last = end + tensor.bytes, name
    if content[8:9] != b"{" or header.size % 8:
        raise FormatError(f"header: {header.size} bytes, expected an object and a multiple of 8 bytes")
    if last != "checksum" or (header.tensors[last].dtype, header.tensors[last].shape) != ("U64", (1,)):
        raise FormatError(f"checksum: the last tensor is {last}, expected checksum, U64 of shape [1]")
    if len(content) != header.size + end:
        cut = "cut short after " if len(content) < header.size + end else ""
        raise FormatError(f"file: {cut}{len(content)} bytes, expected {header.size + end}")
    found, expected = zlib.crc32(content[:-8]), int.from_bytes(content[-8:], "little")
    if found != expected:
        raise FormatError(f"checksum: {found:#x} over the bytes of the file, expected {expected:#x}")


def read(path: str | Path) -> Packed:
    """The model in a packed file."""
    return parse(Path(path).read_bytes())


def unpack_bits(words: np.ndarray, columns: int) -> np.ndarray:
    """The first `columns` bits of each row, column k in bit k mod 64 of word k div 64: (M, words) -> (M, columns)."""
    word, bit = np.divmod(np.arange(columns), 64)
    return (words[:, word] >> bit.astype(np.uint64) & np.uint64(1)).astype(bool)


def golden_cloud(seed: int, points: int, channels: int) -> np.ndarray:
    """The random cloud of a golden vector (SplitMix64), not normalized: (points, channels) float32."""
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


def sphere(cloud: np.ndarray) -> np.ndarray:
    """The cloud with its mean point at 0 and its farthest point at distance 1: (N, channels) float32 -> the same."""
    xyz = cloud[:, :3].astype(np.float64)
    xyz = xyz - eight_sums(xyz.T) / len(xyz)
    farthest = np.max(sum(column * column for column in xyz.T))
    scale = 1 / np.sqrt(farthest) if farthest > 0 else 1.0
    return np.concatenate([(xyz * scale).astype(np.float32), cloud[:, 3:]], axis=1)


def product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x . weight^T in float32, each sum in the order of the inputs: (..., K), (M, K) -> (..., M)."""
    total = x[..., :1] * weight[:, 0]
    for k in range(1, weight.shape[1]):
        total = total + x[..., k : k + 1] * weight[:, k]
    return total


def agreements(bits: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """In how many columns bits and weights are equal: (..., K), (M, K), both bool -> (..., M) int64."""
    ones = bits.astype(np.float32) @ weight.T.astype(np.float32)  # integers, exact far beyond K = 32766
    zeros = (~bits).astype(np.float32) @ (~weight).T.astype(np.float32)
    return (ones + zeros).astype(np.int64)


def activate(x: np.ndarray, activation: str) -> np.ndarray:
    """relu, hardtanh or none."""
    if activation == "relu":
        return np.where(x > 0, x, np.float32(0))
    return np.clip(x, np.float32(-1), np.float32(1)) if activation == "hardtanh" else x


def mean(x: np.ndarray) -> np.ndarray:
    """Mean over points, summed as the format says: float64, in order, in groups of 64; (N, K) -> (K,) float32."""
    groups = [x[start : start + 64].astype(np.float64) for start in range(0, len(x), 64)]
    sums = np.stack([np.add.accumulate(group, axis=0)[-1] for group in groups])
    total = np.add.accumulate(sums, axis=0)[-1] + 0.0  # sums start with +0: a sum of -0 is +0
    return (total / len(x)).astype(np.float32)


def eight_sums(x: np.ndarray) -> np.ndarray:
    """Sum over the last axis as the format says: eight sums of every eighth value; (..., K) float64 -> (...)."""
    sums = [np.add.accumulate(x[..., j::8], axis=-1)[..., -1:] for j in range(min(8, x.shape[-1]))]
    return np.add.accumulate(np.concatenate(sums, axis=-1), axis=-1)[..., -1] + 0.0  # sums start with +0


def mean_size(x: np.ndarray) -> np.ndarray:
    """Mean of |x|, in float64, rounded once: (..., K) -> (...) float32."""
    return (eight_sums(np.abs(x.astype(np.float64))) / x.shape[-1]).astype(np.float32)


@dataclass
class Machine:
    """The state of one run of a program; each method executes the operation of the same name.

    cloud: (N, channels), normalized if the model normalizes. value: the current value. scale: of scaled bits, one per
    point (N,) or one in all. matrices: those computed so far. chosen: one bit per category, 1 for the category of the
    cloud. kept: bits kept so far, (N, K) per point or (K,) per cloud.
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
        transformed = product(self.value[:, : len(matrix)], matrix.T)
        return np.concatenate([transformed, self.value[:, len(matrix) :]], axis=1)

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
        if op["pool"] == "mean":
            return mean(self.value)
        # NaN is skipped, and a maximum of -0 becomes +0.
        return np.fmax.reduce(self.value, axis=0, initial=np.float32(-np.inf)) + np.float32(0)

    def shift(self, op: dict, tensors: dict) -> np.ndarray:
        return self.value - np.float32(delta(len(self.cloud)))

    def matrix(self, op: dict, tensors: dict) -> np.ndarray:
        matrix = self.value.reshape(op["size"], op["size"]).copy()
        matrix[np.diag_indices_from(matrix)] += np.float32(1)
        self.matrices.append(matrix)
        return matrix

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
    """Logits (classes,) of a cloud (N, channels), or (N, classes) of its points, and the value after each operation.

    raw: do not normalize the cloud, even if the manifest says so. category: index of the cloud's category, for a model
    with a category input. Bits are bool arrays, floats are float32; the value of `matrix` is the matrix it keeps.
    """
    cloud = np.asarray(cloud, np.float32)
    if packed.manifest["normalize"] == "sphere" and not raw:
        cloud = sphere(cloud)
    machine, values = Machine(cloud, chosen=_chosen(packed, category)), []
    for i, op in enumerate(packed.manifest["program"]):
        prefix = f"{i}."
        tensors = {name.removeprefix(prefix): t for name, t in packed.tensors.items() if name.startswith(prefix)}
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            machine.value = OPERATIONS[op["op"]](machine, op, tensors)
        values.append(machine.value)
    return machine.value, values


def _chosen(packed: Packed, category: int | None) -> np.ndarray:
    """One bit per category, 1 for index `category`; empty for a model without a category input."""
    count = len(packed.manifest.get("categories", []))
    if (category is None) != (count == 0) or (category is not None and not 0 <= category < count):
        expected = f"0 to {count - 1}" if count else "None, as the model has no category input"
        raise ValueError(f"category {category}; expected {expected}")
    return np.arange(count) == category


def golden_logits(packed: Packed) -> np.ndarray:
    """Logits of the cloud of the model's golden vector: (classes,), or (points, classes) if it labels points."""
    golden = packed.manifest["golden"]
    cloud = golden_cloud(golden["seed"], golden["points"], packed.manifest["channels"])
    return run_program(packed, cloud, category=0 if "categories" in packed.manifest else None)[0]
