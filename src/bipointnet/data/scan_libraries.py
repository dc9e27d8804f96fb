"""LAZ with lazrs and E57 with pye57. Runs in a child process: see `child_process`.

A parser yields the bytes of the content and then a description: {"suffix": ...} of a file that the core reads, or the
format, names, bits and notes of columns in float64.
"""

import importlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.errors import UserError

Content = Iterator[bytes | dict[str, Any]]
_AT_ONCE = 50_000  # points of a LAZ file


def parser_of(suffix: str) -> Callable[[Path], Content]:
    """The parser for a suffix, with its library imported."""
    package, parse = {".laz": ("lazrs", read_laz), ".e57": ("pye57", read_e57)}[suffix]
    importlib.import_module(package)
    return parse


# LAZ


def read_laz(path: Path) -> Content:
    """A LAZ file as LAS: the core then reads both by the same rules."""
    lazrs: Any = importlib.import_module("lazrs")
    data = path.read_bytes()
    laz = LazHeader(data)
    head = bytearray(data[: laz.points_at])
    head[104] &= 0x3F  # the point format without the marks of compression
    if head[25] >= 4 and len(head) >= 255:
        struct.pack_into("<QI", head, 235, 0, 0)  # extended records follow the points; they are left out
    if head[25] >= 3 and len(head) >= 235:
        struct.pack_into("<Q", head, 227, 0)  # likewise waveforms
    yield bytes(head)
    with open(path, "rb") as file:
        file.seek(laz.points_at)
        decompressor = lazrs.LasZipDecompressor(file, laz.record)
        for start in range(0, laz.count, _AT_ONCE):
            part = bytearray(min(_AT_ONCE, laz.count - start) * laz.point_bytes)
            decompressor.decompress_many(part)
            yield bytes(part)
    yield {"suffix": ".las"}


class LazHeader:
    """The header of a LAZ file, checked: lazrs allocates whatever a damaged one declares.

    points_at: where the points begin. count, point_bytes: the points, and the bytes of each. record: the description of
    the compression.
    """

    def __init__(self, data: bytes) -> None:
        size = len(data)
        if size < 227 or not data.startswith(b"LASF"):
            raise UserError("does not begin as a LAS file does; check that its suffix is right, or copy it again")
        header_bytes, self.points_at, records = struct.unpack_from("<HII", data, 94)
        point_format, self.point_bytes, self.count = struct.unpack_from("<BHI", data, 104)
        extended = 0
        if data[24:26] >= b"\x01\x04" and size >= 375:
            extended, long_count = struct.unpack_from("<IQ", data, 243)
            self.count = long_count or self.count
        # A record has 54 bytes, an extended one 60. LAZ stores one whole point (20 bytes or more) per chunk of 50,000.
        if (
            54 * records > self.points_at
            or self.points_at > size
            or 60 * extended > size
            or self.count > 2500 * size
            or not 227 <= header_bytes <= self.points_at
        ):
            raise UserError(f"its header declares more than its {size} bytes can hold; copy it again")
        if not point_format & 0xC0:
            raise UserError("its points are not compressed; rename it to .las")
        self.record = _laszip_record(data, header_bytes, self.points_at, records)
        self._check_items()
        self._check_chunks(data)

    def _check_items(self) -> None:
        if len(self.record) < 34:
            raise UserError("its record of the compression is cut short; copy it again")
        (items,) = struct.unpack_from("<H", self.record, 32)
        if len(self.record) < 34 + 6 * items:
            raise UserError("its record of the compression is cut short; copy it again")
        found = sum(struct.unpack_from("<H", self.record, 36 + 6 * item)[0] for item in range(items))
        if found != self.point_bytes or found < 20:
            raise UserError(
                f"compresses {found} bytes per point, expected {self.point_bytes} and at least 20; copy it again"
            )

    def _check_chunks(self, data: bytes) -> None:
        """The table of chunks: where it is, and how many chunks it declares."""
        compressor, chunk_points = struct.unpack_from("<H10xI", self.record)
        if compressor not in (1, 2, 3):
            raise UserError(f"the compression {compressor}, expected 1, 2 or 3; copy it again")
        if compressor == 1 or self.count == 0:  # not chunked
            return
        first = self.points_at + 8
        if len(data) < first + 8:
            raise UserError("ends before its points; the file is cut short, copy it again")
        (table_at,) = struct.unpack_from("<q", data, self.points_at)
        if table_at == -1:  # a stream: the place is at the end
            (table_at,) = struct.unpack_from("<q", data, len(data) - 8)
        if not first <= table_at <= len(data) - 8:
            raise UserError("its table of chunks is outside of the file; the file is cut short, copy it again")
        (chunks,) = struct.unpack_from("<I", data, table_at + 4)
        variable = chunk_points == 0xFFFFFFFF
        expected = chunks if variable or chunk_points == 0 else -(-self.count // chunk_points)
        if chunks != expected or chunks * self.point_bytes > table_at - first:
            raise UserError(
                f"its table declares {chunks} chunks for {self.count} points; the file is damaged, copy it again"
            )


def _laszip_record(data: bytes, at: int, end: int, records: int) -> bytes:
    for _ in range(records):
        if at + 54 > end:
            break
        user, number, length = struct.unpack_from("<16sHH", data, at + 2)
        if at + 54 + length > end:
            break
        if user.rstrip(b"\0") == b"laszip encoded" and number == 22204:
            return data[at + 54 : at + 54 + length]
        at += 54 + length
    raise UserError("has no record of its compression; the file is damaged, copy it again")


# E57

_CARTESIAN = ("cartesianX", "cartesianY", "cartesianZ")
_SPHERICAL = ("sphericalRange", "sphericalAzimuth", "sphericalElevation")
# name in E57 -> name, bits
_OTHERS = {"intensity": ("intensity", 0), "colorRed": ("red", 8), "colorGreen": ("green", 8), "colorBlue": ("blue", 8)}


def read_e57(path: Path) -> Content:
    """All scans of an E57 file in common coordinates: x, y, z, and what all scans have of intensity and colors."""
    pye57: Any = importlib.import_module("pye57")
    _check_e57(path.read_bytes())
    file: Any = pye57.E57(str(path))
    scans = [file.get_header(index) for index in range(file.scan_count)]
    if not scans:
        raise UserError("holds no scan, expected at least one; export it again from its source")
    others = [name for name in _OTHERS if all(name in scan.point_fields for scan in scans)]
    notes = [] if len(scans) == 1 else [f"{len(scans)} scans were joined"]
    try:
        parts = [_scan(file, scan, others) for scan in scans]
    except Exception:
        colors = [name for name in others if name.startswith("color")]
        if not colors:
            raise
        # pye57 reads colors of 8 bits only.
        others = [name for name in others if name not in colors]
        parts = [_scan(file, scan, others) for scan in scans]
        notes.append("the colors could not be read")
    for row in range(3 + len(others)):
        for part in parts:
            yield part[row].tobytes()
    yield {
        "format": "E57",
        "names": ["x", "y", "z", *(_OTHERS[name][0] for name in others)],
        "bits": [0, 0, 0, *(_OTHERS[name][1] for name in others)],
        "notes": notes,
    }


def _scan(file: Any, scan: Any, others: list[str]) -> list[np.ndarray]:
    """x, y, z in common coordinates and the other columns of a scan; NaN where the scanner had no return."""
    cartesian = set(_CARTESIAN) <= set(scan.point_fields)
    names = _CARTESIAN if cartesian else _SPHERICAL
    if not set(names) <= set(scan.point_fields):
        raise UserError(f"a scan has the fields {', '.join(scan.point_fields)}, expected {', '.join(_CARTESIAN)}")
    state = "cartesianInvalidState" if cartesian else "sphericalInvalidState"
    wanted = [*names, *others, *([state] if state in scan.point_fields else [])]
    data, buffers = file.make_buffers(wanted, scan.point_count)
    found = scan.points.reader(buffers).read()
    if found < scan.point_count:
        raise UserError(f"declares {scan.point_count} points but holds {found}; the file is cut short, copy it again")
    xyz = np.stack([data[name] for name in names]).astype(np.float64)  # (3, N)
    if not cartesian:
        distance, azimuth, elevation = xyz
        across = distance * np.cos(elevation)
        xyz = np.stack([across * np.cos(azimuth), across * np.sin(azimuth), distance * np.sin(elevation)])
    if scan.has_pose():
        xyz = np.asarray(scan.rotation_matrix) @ xyz + np.asarray(scan.translation, np.float64)[:, None]
    if state in data:
        xyz[:, data[state] != 0] = np.nan
    return [*xyz, *(data[name].astype(np.float64) for name in others)]


def _check_e57(data: bytes) -> None:
    """The header, and that its XML declares no entities: these may expand without bound or name other files."""
    if len(data) < 48 or not data.startswith(b"ASTM-E57"):
        raise UserError("does not begin as an E57 file does; check that its suffix is right, or copy it again")
    length, xml_at, xml_bytes, page = struct.unpack_from("<QQQQ", data, 16)
    if length != len(data) or page != 1024 or xml_at >= length or xml_bytes > length:
        raise UserError(
            f"its header declares {length} bytes but it has {len(data)}; the file is cut short, copy it again"
        )
    # Each page ends with a checksum of 4 bytes.
    text = b"".join(data[start : start + 1020] for start in range(xml_at - xml_at % 1024, length, 1024))
    if b"<!" in text[xml_at % 1024 :][:xml_bytes].replace(b"<!--", b"").replace(b"<![CDATA[", b""):
        raise UserError("its XML declares entities, expected none; export it again from its source")
