"""The header of a model file, read in one place: packed models and checkpoints are both safetensors files.

A file starts with the length of its header (8 bytes, little endian) and the header, a JSON object. It has one entry per
tensor, and under `__metadata__` a string that is JSON again: the manifest of a packed model or the facts of a training
run. The bytes of the tensors follow. docs/format.md has the details.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from bipointnet.errors import FormatError, UserError

LONGEST_HEADER = 2**24  # bytes
MOST_LEVELS = 64  # of nested lists and objects
LARGEST = 2**53  # integer of JSON that every reader holds exactly


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


def parse_header(content: bytes, *, strict: bool = False) -> Header:
    """The header of a model file, given its bytes. FormatError if it is damaged.

    strict: refuse JSON that docs/format.md forbids and the standard library reads, such as duplicate keys. It takes
    longer, and the core has done it for a file that it loads.
    """
    size = header_size(content)
    if len(content) < size:
        raise FormatError(f"file: cut short after {len(content)} bytes, expected at least {size}")
    entries = _object(_parse_json(content[8:size], "header", strict), "header")
    metadata = _object(entries.pop("__metadata__", None), "__metadata__")
    described = metadata.get("bipointnet")
    if not isinstance(described, str):
        raise FormatError("__metadata__: no string bipointnet, expected this key")
    manifest = _object(_parse_json(described, "manifest", strict), "manifest")
    return Header(manifest, {name: _tensor(name, entry) for name, entry in entries.items()}, size)


def header_size(start: bytes) -> int:
    """The number of bytes in front of the first tensor, given the first 8 bytes of a file."""
    if len(start) < 8:
        raise FormatError(f"file: cut short after {len(start)} bytes, expected at least 8")
    length = int.from_bytes(start[:8], "little")
    if length > LONGEST_HEADER:
        raise FormatError(f"header: length {length}, expected at most {LONGEST_HEADER}")
    return 8 + length


def _parse_json(text: bytes | str, what: str, strict: bool) -> Any:
    try:
        text = text.decode() if isinstance(text, bytes) else text
        if not strict:
            return json.loads(text, parse_int=_integer)
        hooks: dict[str, Any] = {"parse_constant": _refuse_constant, "object_pairs_hook": _without_duplicates}
        value = json.loads(text, parse_int=_integer, **hooks)
        _check_values(value, 0)
    except RecursionError as error:
        raise FormatError(f"{what}: too many nested lists and objects, expected at most {MOST_LEVELS}") from error
    except ValueError as error:  # also of decode() and of encode()
        raise FormatError(f"{what}: {error}, expected valid JSON") from error
    return value


def peek(path: Path) -> dict[str, Any] | None:
    """The manifest of a packed model or the facts of a checkpoint, unchecked; None for any other file.

    Reads only the header. "program" is a key of packed models only, "config" of checkpoints only. UserError if the file
    cannot be read.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            start = file.read(8) or b""
            return parse_header(start + (file.read(header_size(start) - 8) or b"")).metadata
    except FormatError:
        return None
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); expected a packed model or a checkpoint; check its name and "
            "permissions"
        ) from error


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{what}: {type(value).__name__}, expected an object")
    return value


def _tensor(name: str, entry: Any) -> Tensor:
    entry = _object(entry, name)
    if set(entry) != {"dtype", "shape", "data_offsets"} or not isinstance(entry["dtype"], str):
        raise FormatError(f"{name}: keys {', '.join(entry)}, expected dtype, shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n <= LARGEST for n in numbers):
            raise FormatError(f"{name}: {numbers}, expected a list of integers from 0 to {LARGEST}")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise FormatError(f"{name}: data_offsets {offsets}, expected an ascending range")
    return Tensor(entry["dtype"], tuple(shape), offsets[0], offsets[1] - offsets[0])


def _integer(digits: str) -> int | float:
    """An integer of JSON. Python refuses one of thousands of digits; it becomes a float (infinity)."""
    return int(digits) if len(digits) < 1000 else float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"found {name}")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("found a key twice")
    return members


def _check_values(value: Any, depth: int) -> None:
    """Limit the nesting, and refuse strings with half of a surrogate pair, which have no UTF-8."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, (dict, list)):
        if depth == MOST_LEVELS:
            raise ValueError(f"found more than {MOST_LEVELS} nested lists and objects")
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            _check_values(item, depth + 1)
