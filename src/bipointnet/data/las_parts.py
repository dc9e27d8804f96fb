"""The points of a LAS or LAZ file in parts, with the same numbers as `clouds.read` gives for the whole file.

The core decides by all points of a file whether coordinates become relative to an origin, and what colors are divided
by. A few points suffice for the same decisions: those with the lowest and the highest coordinates, with the largest
errors of rounding, and the brightest one. `LasParts.extremes` finds them; in front of any part of the file, they make
the core decide as it does for the whole file.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet import extras
from bipointnet.data import child_process, clouds
from bipointnet.data.las_header import (
    EXTENDED,
    FORMAT,
    POINTS_AT,
    WAVEFORMS,
    Layout,
    decompressor_of,
    open_las,
    read_bytes,
    read_layout,
)
from bipointnet.data.parsed import not_whole, unreadable
from bipointnet.errors import UserError

_COLORS_AT = {2: 20, 3: 28, 5: 28, 7: 30, 8: 30, 10: 30}  # point format -> the byte where red, green and blue begin
_COUNT, _LONG_COUNT, _SCALES = 107, 247, 131  # positions in the header
_SURVEYED = 250_000  # points at once when the extremes are sought


class LasParts:
    """An open LAS or LAZ file. `open_parts` makes one.

    Attributes:
        source: its path.
        layout: what its header declares.

    >>> with open_parts(Path("scan.laz")) as parts:  # doctest: +SKIP
    ...     extremes = parts.extremes()
    ...     for points in parts.read(1_000_000):
    ...         cloud = parts.cloud(np.concatenate([extremes, points]))
    """

    def __init__(self, source: Path, file: BufferedReader) -> None:
        self.source = source
        self._file = file
        with self._errors():
            self.layout = read_layout(file)
            self._head = _short_head(file, self.layout)
            held = (file.seek(0, os.SEEK_END) - self.layout.points_at) // max(self.layout.point_bytes, 1)
            if not self.layout.compressed and held < self.layout.count:
                raise UserError(f"holds {held} points, expected {self.layout.count} as in its header; copy it again")
        if self.layout.compressed:
            extras.require(f"{source}: reading .laz", "lazrs")

    @property
    def count(self) -> int:
        """The number of points."""
        return self.layout.count

    @property
    def point_bytes(self) -> int:
        """Bytes per point."""
        return self.layout.point_bytes

    @property
    def has_colors(self) -> bool:
        """Whether the point format has colors."""
        return self.layout.point_format in _COLORS_AT

    def read(self, at_once: int) -> Iterator[np.ndarray]:
        """The bytes of the points (at most `at_once`, bytes per point) uint8, in the file's order.

        Of a LAZ file, call `extremes` first: lazrs may abort the process on a damaged one.
        """
        layout = self.layout
        decompressor = None
        if layout.compressed and layout.count:
            with self._errors():
                decompressor = decompressor_of(self.source, self._file, layout)
        for start in range(0, layout.count, at_once):
            part = np.empty((min(at_once, layout.count - start), layout.point_bytes), np.uint8)
            with self._errors():
                if decompressor is not None:
                    decompressor.decompress_many(part)
                else:
                    self._file.seek(layout.points_at + start * layout.point_bytes)
                    if self._file.readinto(part.data) < part.nbytes:
                        raise UserError("was cut short while it was read; copy it again")
            yield part

    def cloud(self, points: np.ndarray) -> clouds.Cloud:
        """What the core makes of the bytes of points (P, bytes per point), as if the file held these only."""
        head = bytearray(self._head)
        struct.pack_into("<I", head, _COUNT, len(points))
        if len(head) >= _LONG_COUNT + 8 and head[25] >= 4:
            struct.pack_into("<Q", head, _LONG_COUNT, len(points))
        return clouds.read_bytes(b"".join((head, points.data)), ".las", self.source)

    def empty_point(self) -> np.ndarray:
        """The bytes of a point of zeros, (1, bytes): its cloud has the columns of the file."""
        return np.zeros((1, self.layout.point_bytes), np.uint8)

    def extremes(self) -> np.ndarray:
        """The bytes of the points (E, bytes per point) that decide how all are read."""
        if not self.layout.compressed:
            return self.find_extremes()
        # Decompress all points once where lazrs can do no harm.
        found = child_process.laz_extremes(self.source, self.layout.count)
        return np.frombuffer(found, np.uint8).reshape(-1, self.layout.point_bytes)

    def find_extremes(self) -> np.ndarray:
        """`extremes`, without a child process."""
        found = np.empty((0, self.layout.point_bytes), np.uint8)
        for part in self.read(_SURVEYED):
            found = self._extremes_of(np.concatenate([found, part]))
        return found

    def _extremes_of(self, points: np.ndarray) -> np.ndarray:
        numbers = struct.unpack_from("<6d", self._head, _SCALES)
        chosen: set[int] = set()
        for axis in range(3):
            whole = np.ascontiguousarray(points[:, 4 * axis : 4 * axis + 4]).view("<i4")[:, 0]
            with np.errstate(all="ignore"):  # the core refuses numbers that are too large
                exact = whole * numbers[axis] + numbers[3 + axis]
                error = np.abs(exact.astype(np.float32) - exact)
            chosen |= {int(exact.argmin()), int(exact.argmax()), int(error.argmax())}
        if self.has_colors:
            at = _COLORS_AT[self.layout.point_format]
            brightness = np.ascontiguousarray(points[:, at : at + 6]).view("<u2").max(axis=1)
            chosen.add(int(brightness.argmax()))
        return points[sorted(chosen)]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """UserError with the file's name for what reading it raises."""
        try:
            yield
        except UserError as error:
            raise UserError(f"{self.source}: {str(error).removeprefix(f'{self.source}: ')}") from None
        except OSError as error:
            raise unreadable(self.source, error) from error
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            raise UserError(f"{self.source}: {not_whole(self.source, error)}") from error


@contextmanager
def open_parts(source: Path) -> Iterator[LasParts]:
    """Open a LAS or LAZ file to read it in parts; UserError if its header is damaged."""
    if source.suffix.lower() not in (".las", ".laz"):
        raise UserError(f"{source}: the suffix '{source.suffix}', expected .las or .laz; convert it, or read it whole")
    with open_las(source) as file:
        yield LasParts(source, file)


def _short_head(file: BufferedReader, layout: Layout) -> bytes:
    """What the core needs in front of uncompressed points: the header and the description of extra bytes."""
    head = bytearray(layout.head)
    head[FORMAT] = layout.point_format
    if head[25] >= 3:
        struct.pack_into("<Q", head, WAVEFORMS, 0)
    if head[25] >= 4:
        struct.pack_into("<QI", head, EXTENDED, 0, 0)
    # As in the core: the first record of this kind, whatever follows in the name.
    kinds = [record for record in layout.records if record.user.startswith(b"LASF_Spec") and record.number == 4]
    kept = b"".join(read_bytes(file, record.at, record.size) for record in kinds[:1])
    struct.pack_into("<II", head, POINTS_AT, len(head) + len(kept), len(kinds[:1]))
    return bytes(head + kept)


def send_extremes(source: Path) -> Iterator[bytes | dict[str, Any]]:
    """The extremes of a file as a child process sends them."""
    with open_parts(source) as parts:
        yield parts.find_extremes().tobytes()
    yield {}
