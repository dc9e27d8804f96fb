"""The container of a packed file: a safetensors file whose last tensor is the checksum of all bytes before it.

`runtime.reference` reads it with code of its own.
"""

import json
import zlib

import numpy as np

DTYPES = {"<u8": "U64", "<i2": "I16", "<f2": "F16", "<f4": "F32", "<f8": "F64"}
CHECKSUM_SIZE = 8  # bytes: one U64


def file_bytes(manifest: str, tensors: dict[str, np.ndarray]) -> bytes:
    """The bytes of a packed file: the manifest, the tensors, and the checksum (docs/format.md).

    >>> content = file_bytes("{}", {"golden": np.zeros(2, np.float32)})
    >>> content == signed(content), len(content)
    (True, 200)
    """
    header: dict[str, object] = {"__metadata__": {"bipointnet": manifest}}
    parts, end = [], 0
    # The widest types first, so that every tensor is aligned to its type.
    for name in sorted(tensors, key=lambda name: (-tensors[name].itemsize, name)):
        tensor = tensors[name]
        parts.append(np.ascontiguousarray(tensor).tobytes())
        offsets = [end, end := end + len(parts[-1])]
        header[name] = {"dtype": DTYPES[tensor.dtype.str], "shape": list(tensor.shape), "data_offsets": offsets}
    header["checksum"] = {"dtype": "U64", "shape": [1], "data_offsets": [end, end + CHECKSUM_SIZE]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return signed(b"".join([len(text).to_bytes(8, "little"), text, *parts, bytes(CHECKSUM_SIZE)]))


def signed(content: bytes) -> bytes:
    """The bytes of a packed file with the right checksum in its last 8 bytes."""
    rest = content[:-CHECKSUM_SIZE]
    return rest + zlib.crc32(rest).to_bytes(CHECKSUM_SIZE, "little")
