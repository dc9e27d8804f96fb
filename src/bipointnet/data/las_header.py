"""The header and the records of LAS and LAZ files.

ASPRS, "LAS specification 1.4", R15, 2019. A file is a header, variable length records (VLRs), the points, and extended
records (EVLRs).
"""

import importlib
import mmap
import os
import struct
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, cast

from bipointnet.data.parsed import unreadable
from bipointnet.data.scan_libraries import LazHeader
from bipointnet.errors import UserError

# Positions in the header.
_ENCODING, POINTS_AT, FORMAT, WAVEFORMS, EXTENDED, _END = 6, 96, 104, 227, 235, 375
_MOST_RECORDS = 10_000  # a file has at most hundreds; the count of a damaged one would be followed for minutes


class Record(NamedTuple):
    """A VLR or EVLR: who wrote it and its number; where it begins, its bytes with its header, where its data begins."""

    user: bytes
    number: int
    at: int
    size: int
    data_at: int

    @property
    def is_of_compression(self) -> bool:
        """Whether it describes compressed points or their places, which a copy does not have."""
        return self.user == b"copc" or (self.user, self.number) == (b"laszip encoded", 22204)


@dataclass(frozen=True)
class Layout:
    """What the header of a LAS or LAZ file declares, checked against the file's size.

    head: the bytes before the records. waveforms: the record at the place that the header gives for waveforms; it may
    be one of `extended`.
    """

    head: bytes
    points_at: int
    point_format: int
    compressed: bool
    point_bytes: int
    count: int
    records: tuple[Record, ...]
    extended: tuple[Record, ...]
    waveforms: Record | None

    @property
    def declares_wkt(self) -> bool:
        return bool(self.head[_ENCODING] & 16)


def read_layout(file: BufferedReader) -> Layout:
    """Read the layout of a file; UserError, without the file's name, if it cannot be as its header says."""
    size = file.seek(0, os.SEEK_END)
    head = read_bytes(file, 0, min(size, _END))
    if len(head) < WAVEFORMS or not head.startswith(b"LASF"):
        raise UserError("does not begin as a LAS file does; check that its suffix is right, or copy it again")
    header_bytes, points_at, records = struct.unpack_from("<HII", head, 94)
    format_byte, point_bytes, count = struct.unpack_from("<BHI", head, FORMAT)
    minor = head[25]
    least = {3: EXTENDED, 4: _END}.get(minor, WAVEFORMS)
    if head[24] != 1 or minor > 4 or not least <= header_bytes <= points_at <= size:
        raise UserError(f"its header declares more than its {size} bytes can hold; copy it again")
    extended_at, extended = 0, 0
    if minor == 4:
        extended_at, extended, long_count = struct.unpack_from("<QIQ", head, EXTENDED)
        count = long_count or count
    waveforms = None
    if minor >= 3 and head[_ENCODING] & 2:  # in this file, not in another one
        (waveforms_at,) = struct.unpack_from("<Q", head, WAVEFORMS)
        waveforms = _records(file, waveforms_at, 1, size, extended=True)[0] if waveforms_at else None
    return Layout(
        head=read_bytes(file, 0, header_bytes),
        points_at=points_at,
        point_format=format_byte & 0x3F,
        compressed=bool(format_byte & 0xC0),
        point_bytes=point_bytes,
        count=count,
        records=_records(file, header_bytes, records, points_at, extended=False),
        extended=_records(file, extended_at, extended, size, extended=True),
        waveforms=waveforms,
    )


def _records(file: BufferedReader, at: int, count: int, end: int, *, extended: bool) -> tuple[Record, ...]:
    """The VLRs or EVLRs from `at` on, none of which may pass `end`."""
    form = "<2x16sHQ32x" if extended else "<2x16sHH32x"
    header = struct.calcsize(form)
    if count > _MOST_RECORDS:
        raise UserError(f"its header declares {count} records, expected at most {_MOST_RECORDS}; copy it again")
    found: list[Record] = []
    for _ in range(count):
        if at + header > end:
            raise UserError("its records pass the place where its header ends them; the file is damaged, copy it again")
        user, number, length = struct.unpack(form, read_bytes(file, at, header))
        record = Record(user.split(b"\0")[0], number, at, header + length, at + header)
        at += record.size
        if at > end:
            raise UserError("its records pass the place where its header ends them; the file is damaged, copy it again")
        found.append(record)
    return tuple(found)


def read_bytes(file: BufferedReader, at: int, count: int) -> bytes:
    """`count` bytes from `at` on; UserError, without the file's name, if there are fewer."""
    file.seek(at)
    data = file.read(count)
    if len(data) < count:
        raise UserError("is cut short; copy it again")
    return data


def open_las(source: Path) -> BufferedReader:
    """A LAS or LAZ file, opened; UserError if that is not possible."""
    if not source.is_file():
        raise UserError(f"{source}: is not a file; expected a .las or .laz file; check the path")
    try:
        return open(source, "rb")
    except OSError as error:
        raise unreadable(source, error) from error


def decompressor_of(source: Path, file: BufferedReader, layout: Layout) -> Any:
    """What decompresses the points of a LAZ file from the first one on. lazrs may raise anything for a damaged file."""
    lazrs: Any = importlib.import_module("lazrs")
    with _Mapped(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            record = LazHeader(cast("bytes", data)).record
        except UserError as error:
            raise UserError(f"{source}: {error}") from None
    file.seek(layout.points_at)
    return lazrs.LasZipDecompressor(file, record)


class _Mapped(mmap.mmap):
    """The bytes of a file without reading all of them, with the one method of bytes that LazHeader needs."""

    def startswith(self, prefix: bytes) -> bool:
        return self[: len(prefix)] == prefix
