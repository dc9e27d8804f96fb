"""The reference implementation of packed models: docs/format.md, line by line, in numpy.

It is the independent oracle that export, the tests and `verify` compare the compiled core with. It is slow, and needs
neither PyTorch nor the core. It shares no code with `packing`, which writes the files. It checks the container and the
checksum of a file, and trusts the manifest. This module reads the file and runs its program; `reference_ops` and
`reference_search` have the operations.
"""

import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.errors import FormatError
from bipointnet.runtime import reference_ops, reference_search
from bipointnet.runtime.header import Header, parse_header
from bipointnet.runtime.reference_ops import Domain, Value, eight_sums

OPERATIONS = reference_ops.OPERATIONS | reference_search.OPERATIONS
TENSORS = ("weight", "bias", "line", "threshold")
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


def normalized(cloud: np.ndarray, how: str) -> np.ndarray:
    """The cloud with its center at 0 and its farthest point at distance 1: (N, channels) float32 -> the same.

    how: "sphere": the center is the mean point; "box": the middle of the box; "none": the cloud is not changed.
    """
    if how == "none":
        return cloud
    xyz = cloud[:, :3].astype(np.float64)
    xyz = xyz - (eight_sums(xyz.T) / len(xyz) if how == "sphere" else (xyz.min(axis=0) + xyz.max(axis=0)) / 2 + 0.0)
    farthest = np.max(sum(column * column for column in xyz.T))
    scale = 1 / np.sqrt(farthest) if farthest > 0 else 1.0
    return np.concatenate([(xyz * scale).astype(np.float32), cloud[:, 3:]], axis=1)


def distinct_points(cloud: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points that equal no earlier point in all channels, and for each point the number of the one that it equals.

    Shapes: (N, channels) -> (M, channels), (N,) int64. -0 equals +0.

    >>> distinct_points(np.float32([[1, 2], [0, 1], [1, 2]]))[1]
    array([0, 1, 0])
    """
    _, first, place = np.unique(cloud + np.float32(0), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return cloud[first[order]], number[place.reshape(-1)]


def thinned(cloud: np.ndarray, most: int) -> np.ndarray:
    """The `most` points of a cloud without copies (N, channels) that have the lowest ranks, in their order."""
    rank = np.zeros(len(cloud), np.uint64)
    for column in (cloud + np.float32(0)).T:
        rank = (rank ^ np.ascontiguousarray(column).view(np.uint32)) * np.uint64(0x9E3779B97F4A7C15)
        rank ^= rank >> np.uint64(32)
    return cloud[np.sort(np.argsort(rank, kind="stable")[:most])]


def run_program(
    packed: Packed, cloud: np.ndarray, raw: bool = False, category: int | None = None
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Logits (classes,) of a cloud (N, channels), or (N, classes) of its points, and all values by name.

    For the logits, copies of points are dropped, and a copy has the logits of the point that it equals; a cloud with
    more points than the manifest allows is thinned. The values are those of all points.

    raw: do not normalize the cloud, even if the manifest says so. category: index of the cloud's category, for a model
    with a category input.

    Values have the shape (K,) of the cloud, (n, K) of a set, (m, k, K) of groups of a set, (k, K) of groups of the
    cloud. Bits are bool, floats are float32. Indices are int64 and have no channels: (n,), (m, k), (k,). ValueError
    for a cloud that gives neighbor searches numbers without a place on their grid.
    """
    cloud = np.asarray(cloud, np.float32)
    distinct, place = distinct_points(cloud)
    kept = thinned(distinct, packed.manifest.get("max_points", len(distinct)))
    values = _run(packed, cloud, raw, category)
    last = packed.manifest["program"][-1]["out"][0]
    logits = values[last] if len(kept) == len(cloud) else _run(packed, kept, raw, category)[last]
    return logits if logits.ndim == 1 else logits[place], values


def _run(packed: Packed, cloud: np.ndarray, raw: bool, category: int | None) -> dict[str, np.ndarray]:
    cloud = normalized(cloud, "none" if raw else packed.manifest["normalize"])
    whole = Domain()
    sources = {
        "points": Value(cloud, Domain(whole, len(cloud))),
        "category": Value(_chosen(packed, category), whole),
    }
    values: dict[str, Value] = {}
    for op in packed.manifest["program"]:
        if op["op"] in sources:
            results = (sources[op["op"]],)
        else:
            with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
                results = OPERATIONS[op["op"]](op, _tensors(packed, op), *(values[name] for name in op["in"]))
        values |= zip(op["out"], results, strict=True)
    return {name: value.array for name, value in values.items()}


def _tensors(packed: Packed, op: dict[str, Any]) -> dict[str, np.ndarray]:
    """The tensors of an operation; their names begin with its first result."""
    named = {name: f"{op['out'][0]}.{name}" for name in TENSORS}
    return {name: packed.tensors[tensor] for name, tensor in named.items() if tensor in packed.tensors}


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
