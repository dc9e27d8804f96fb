"""The points of a binary PLY file in parts, with the same numbers as `clouds.read` gives for the whole file.

As in `las_parts`, a few points decide how the core reads all of them. Here they are, for each column, those with the
lowest and the highest number and with the largest rounding error, one that is not whole, and one that is not finite.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BufferedReader
from pathlib import Path

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.parsed import unreadable
from bipointnet.data.ply_header import PlyHeader, read_header
from bipointnet.errors import UserError

_SURVEYED = 250_000  # points at once when the extremes are sought
_SURVEYED_BYTES = 1 << 26  # at most


class PlyParts:
    """An open binary PLY file. `open_ply` makes one.

    Attributes:
        source: its path.
        header: its header.
        count: the number of points.
        point_bytes: bytes per point.

    >>> with open_ply(Path("scan.ply")) as parts:  # doctest: +SKIP
    ...     extremes = parts.extremes()
    ...     for points in parts.read(1_000_000):
    ...         cloud = parts.cloud(np.concatenate([extremes, points]))
    """

    def __init__(self, source: Path, file: BufferedReader, header: PlyHeader) -> None:
        self.source, self.file, self.header = source, file, header
        self.count, self.point_bytes = header.vertices.count, header.row.itemsize
        held = max(0, file.seek(0, os.SEEK_END) - header.vertices_at) // self.point_bytes
        if held < self.count:
            raise UserError(f"{source}: holds {held} points, expected {self.count} as in its header; copy it again")

    def read(self, at_once: int) -> Iterator[np.ndarray]:
        """The bytes of the points (at most `at_once`, bytes per point) uint8, in the file's order."""
        for start in range(0, self.count, at_once):
            part = np.empty((min(at_once, self.count - start), self.point_bytes), np.uint8)
            self.file.seek(self.header.vertices_at + start * self.point_bytes)
            try:
                found = self.file.readinto(part.data)
            except OSError as error:
                raise unreadable(self.source, error) from error
            if found < part.nbytes:
                raise UserError(f"{self.source}: was cut short while it was read; copy it again")
            yield part

    def records(self, points: np.ndarray) -> np.ndarray:
        """The bytes of points as records (P,), whose fields are called "0", "1" and so on."""
        return np.ascontiguousarray(points).view(self.header.row)[:, 0]

    def cloud(self, points: np.ndarray) -> clouds.Cloud:
        """What the core makes of the bytes of points (P, bytes per point), as if the file held these only."""
        return clouds.read_bytes(self.header.vertex_head(len(points)) + points.tobytes(), ".ply", self.source)

    def empty_point(self) -> np.ndarray:
        """The bytes of a point of zeros, (1, bytes): its cloud has the columns of the file."""
        return np.zeros((1, self.point_bytes), np.uint8)

    @cached_property
    def _coordinates(self) -> list[int]:
        """The columns that the core takes for x, y and z: those whose numbers it returns."""
        numbers = tuple(range(1, 1 + len(self.header.vertices.properties)))
        point = np.array([numbers], self.header.row).view(np.uint8)[None]
        return (self.cloud(point).points[0].astype(np.int64) - 1).tolist()

    def extremes(self) -> np.ndarray:
        """The bytes of the points (E, bytes per point) that decide how all are read; their coordinates are finite."""
        numbers_bytes = self.point_bytes + 16 * len(self.header.vertices.properties)
        found = np.empty((0, self.point_bytes), np.uint8)
        for part in self.read(max(1, min(_SURVEYED, _SURVEYED_BYTES // numbers_bytes))):
            points = np.concatenate([found, part])
            found = points[self._deciding(self.records(points))]
        if len(found) == 0:
            what = "no point with finite coordinates" if self.count else "0 points"
            raise UserError(f"{self.source}: holds {what}, expected at least 1; export the file again from its source")
        return found

    def _deciding(self, records: np.ndarray) -> list[int]:
        """The indices of the records (P,) that decide how all are read."""
        names = records.dtype.names or ()
        usable = np.ones(len(records), bool)
        for number in self._coordinates:
            usable &= np.isfinite(records[names[number]])
        chosen: set[int] = set()
        index = np.flatnonzero(usable)
        for name in names if len(index) else ():
            column = records[name][index].astype(np.float64)
            known = np.isfinite(column)
            with np.errstate(all="ignore"):
                error = np.abs(column.astype(np.float32) - column)
                odd = column != np.floor(column)
            if known.any():
                chosen |= {
                    int(np.where(known, column, np.inf).argmin()),
                    int(np.where(known, column, -np.inf).argmax()),
                    int(np.where(known, error, -np.inf).argmax()),
                    int((odd & known).argmax()),
                }
            chosen.add(int(known.argmin()))
        return index[sorted(chosen)].tolist()


@contextmanager
def open_ply(source: Path) -> Iterator[PlyParts | None]:
    """Open a PLY file to read it in parts; None if it has to be read whole: text, and what `read_header` refuses."""
    try:
        file = open(source, "rb")  # noqa: SIM115 - closed below; errors of the caller are not those of the file
    except OSError as error:
        raise unreadable(source, error) from error
    with file:
        try:
            header = read_header(file)
        except OSError as error:
            raise unreadable(source, error) from error
        yield None if header is None or header.is_text else PlyParts(source, file, header)
