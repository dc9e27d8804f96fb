"""Write a COPC file: a LAZ file whose chunks are the nodes of an octree, with an index (copc.io, version 1.0).

laspy reads such files, but does not write them.
"""

import importlib
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np

laspy: Any = importlib.import_module("laspy")
lazrs: Any = importlib.import_module("lazrs")

_HEAD = 375  # bytes of the header of LAS 1.4
_RECORD = 54, 60  # bytes of the header of a VLR and of an EVLR


def write_copc(source: Path, target: Path) -> None:
    """Copy a LAS file of point format 6 without VLRs as a COPC file: a root with a fifth of the points, and children.

    The order of the points changes.
    """
    las = laspy.read(source)
    data, size = np.array(las.points.array), las.header.point_format.size
    rows = np.frombuffer(data.tobytes(), np.uint8).reshape(-1, size)
    xyz = np.stack([las.x, las.y, las.z], axis=1)
    center, half = (xyz.min(axis=0) + xyz.max(axis=0)) / 2, float(np.ptp(xyz, axis=0).max()) / 2 + 1
    keys = np.c_[np.ones(len(xyz), int), (xyz > center).astype(int)]
    keys[::5] = 0
    nodes = [(key, rows[(keys == key).all(axis=1)]) for key in np.unique(keys, axis=0)]
    vlr = lazrs.LazVlr.new_for_compression(6, size - 30, True)
    laz = bytes(vlr.record_data())
    points_at = _HEAD + _RECORD[0] + 160 + _RECORD[0] + len(laz)
    out = io.BytesIO(bytes(points_at))
    out.seek(points_at)
    compressor = lazrs.LasZipCompressor(out, vlr)
    compressor.compress_chunks([points.tobytes() for _, points in nodes])
    compressor.done()
    out.seek(points_at)
    table = lazrs.read_chunk_table(out, vlr)
    print(table, [len(p) for _, p in nodes])
    entries, at = b"", points_at + 8
    # lazrs ends with an empty chunk.
    for (key, points), (count, size_of_chunk) in zip(nodes, table, strict=False):
        assert count == len(points)
        entries += struct.pack("<4iQii", *key.tolist(), at, size_of_chunk, count)
        at += size_of_chunk
    index_at = out.seek(0, io.SEEK_END)
    out.write(_record(b"copc", 1000, entries, extended=True))
    info = struct.pack("<5dQQ2d", *center, half, 1.0, index_at + _RECORD[1], len(entries), 0, 0) + bytes(88)
    head = bytearray(source.read_bytes()[:_HEAD])
    head[104] |= 0x80
    struct.pack_into("<II", head, 96, points_at, 2)
    struct.pack_into("<QI", head, 235, index_at, 1)
    out.seek(0)
    out.write(head + _record(b"copc", 1, info) + _record(b"laszip encoded", 22204, laz))
    target.write_bytes(out.getvalue())


def _record(user: bytes, number: int, content: bytes, extended: bool = False) -> bytes:
    form = "<2x16sHQ32x" if extended else "<2x16sHH32x"
    return struct.pack(form, user, number, len(content)) + content
