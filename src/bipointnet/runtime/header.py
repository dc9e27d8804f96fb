"""The header of a model file, read in one place: packed models and checkpoints are both safetensors files.

A file starts with the length of its header (8 bytes, little endian) and the header, a JSON object. It has one entry per
tensor, and under `__metadata__` a string that is JSON again: the manifest of a packed model or the facts of a training
run. The bytes of the tensors follow. docs/format.md has the details.
"""

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

LONGEST_HEADER = 2**24  # bytes


class Tensor(NamedTuple):
    """Where a tensor is stored in a file. start: its first byte, counted from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    bytes: int


class Header(NamedTuple):
    """The header of a model file. metadata: the manifest or the facts. size: bytes in front of the first tensor."""

    metadata: dict[str, Any]
    tensors: dict[str, Tensor]
    size: int


def parse_header(content: bytes) -> Header:
    """The header of a valid model file, given its bytes."""
    size = 8 + struct.unpack_from("<Q", content)[0]
    entries = json.loads(content[8:size])
    metadata = json.loads(entries.pop("__metadata__")["bipointnet"], parse_int=_integer)
    tensors = {}
    for name, entry in entries.items():
        start, end = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), start, end - start)
    return Header(metadata, tensors, size)


def peek(path: Path) -> dict[str, Any] | None:
    """The manifest of a packed model or the facts of a checkpoint, unchecked; None for any other file.

    Reads only the header. "program" is a key of packed models only, "config" of checkpoints only.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(8)
            (length,) = struct.unpack("<Q", start)
            if length > LONGEST_HEADER:
                return None
            metadata = parse_header(start + file.read(length)).metadata
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return metadata if isinstance(metadata, dict) else None


def _integer(digits: str) -> int | float:
    """An integer of JSON. Python refuses one of thousands of digits; it becomes a float (infinity)."""
    return int(digits) if len(digits) < 1000 else float(digits)
