"""Copies of LAS and LAZ files with another classification.

A copy takes over the bytes of the header, all records and the points, so that nothing is lost that we do not know.
"""

import importlib
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedRandom, BufferedReader, FileIO
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet import extras, files
from bipointnet.data.las_header import (
    EXTENDED,
    FORMAT,
    POINTS_AT,
    WAVEFORMS,
    Layout,
    decompressor_of,
    open_las,
    read_layout,
)
from bipointnet.data.parsed import not_whole, unreadable
from bipointnet.errors import UserError

_SIZES = (20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67)  # bytes per point of the formats 0 to 10
_AT_ONCE = 1_000_000  # points
_COPY_AT_ONCE = 1 << 24  # bytes


def write_classification(source: Path, target: Path, codes: np.ndarray) -> None:
    """The copy of `classified_copy`.

    >>> write_classification(Path("scan.laz"), Path("labeled.laz"), codes)  # doctest: +SKIP
    """
    with classified_copy(source, target, codes):
        pass


@contextmanager
def classified_copy(source: Path, target: Path, codes: np.ndarray) -> Iterator[None]:
    """Copy a LAS or LAZ file with the classification of each point replaced by codes (N,); all else is kept.

    The copy is compressed if the target's suffix is .laz. Of a COPC file it is a plain LAZ file: the index of a COPC
    file holds places of points, which change. The target is replaced at the end of the block, if that raises no error;
    it may be the source.

    Raises a UserError for another number of codes than points, for codes that do not fit into the source's point
    format, and for a damaged source; an OSError, which names the target, if that cannot be written.

    >>> with classified_copy(Path("scan.laz"), Path("labeled.laz"), codes):  # doctest: +SKIP
    ...     write_other_files()
    """
    suffix = target.suffix.lower()
    if suffix not in (".las", ".laz"):
        raise UserError(f"{target}: the suffix '{target.suffix}', expected .las or .laz; choose another name")
    with open_las(source) as file:
        layout = _checked(source, file)
        _check_codes(source, layout, codes)
        if suffix == ".laz":
            extras.require(f"{target}: writing .laz", "lazrs")
        if layout.point_format in (9, 10) and (layout.compressed or suffix == ".laz"):
            raise UserError(
                f"{source}: its points have waveforms (point format {layout.point_format}), which lazrs does not keep "
                "in .laz; expected .las for the file and its copy; convert it, or choose another name"
            )
        if target.exists() and not target.is_file():
            raise UserError(f"{target}: is not a file; expected the name of a file to write; choose another path")
        with files.replacing(target) as temporary:
            with _Output(FileIO(temporary, "r+")) as out:
                _Copy(source, file, layout).write(out, codes, compress=suffix == ".laz")
            yield


def require_codes(source: Path, codes: Sequence[int]) -> None:
    """UserError unless a LAS or LAZ file can hold these codes as the classification of its points."""
    with open_las(source) as file:
        layout = _checked(source, file)
    most, wrong = _most(layout), [code for code in codes if code > _most(layout)]
    if wrong:
        raise UserError(
            f"{source}: a class has the code {wrong[0]}, expected 0 to {most} in point format {layout.point_format}; "
            "convert the file to point format 6, which holds 0 to 255"
        )


def _most(layout: Layout) -> int:
    """The highest code that a point of this layout can have."""
    return 255 if layout.point_format >= 6 else 31


def _checked(source: Path, file: BufferedReader) -> Layout:
    """The layout of a file of which the points can be copied."""
    try:
        layout = read_layout(file)
        if layout.point_format >= len(_SIZES) or layout.point_bytes < _SIZES[layout.point_format]:
            raise UserError(
                f"declares {layout.point_bytes} bytes per point of the point format {layout.point_format}, expected a "
                "point format from 0 to 10 and its bytes; copy it again"
            )
        if layout.compressed:
            extras.require("reading .laz", "lazrs")
            return layout
        held = (file.seek(0, os.SEEK_END) - layout.points_at) // layout.point_bytes
        if held < layout.count:
            raise UserError(f"holds {held} points, expected {layout.count} as in its header; copy it again")
        return layout
    except OSError as error:
        raise unreadable(source, error) from error
    except UserError as error:
        raise UserError(f"{source}: {error}") from None


def _check_codes(source: Path, layout: Layout, codes: np.ndarray) -> None:
    if codes.shape != (layout.count,) or codes.dtype.kind not in "iu":
        raise UserError(
            f"{source}: {codes.dtype} codes of shape {codes.shape} for {layout.count} points, expected one integer per "
            "point; label the points of this file"
        )
    most = _most(layout)
    if len(codes) and (codes.min() < 0 or codes.max() > most):
        first = int(np.argmax((codes < 0) | (codes > most)))
        raise UserError(
            f"{source}: the code {codes[first]} for point {first} (counted from 0), expected 0 to {most} in the "
            f"point format {layout.point_format}; "
            + ("choose smaller codes" if most == 255 else "convert the file to point format 6, which holds 0 to 255")
        )


class _Output(BufferedRandom):
    """A file that remembers why it could not be written: lazrs hides it."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


class _Copy:
    """The copy of a file with other codes."""

    def __init__(self, source: Path, file: BufferedReader, layout: Layout) -> None:
        self._source = source
        self._file = file
        self._layout = layout

    def write(self, out: _Output, codes: np.ndarray, *, compress: bool) -> None:
        vlr = self._new_laz_record() if compress else None
        head = self._write_records(out, vlr)
        self._write_points(out, codes, vlr)
        self._write_extended(out, head)
        out.seek(0)
        out.write(head)

    def _new_laz_record(self) -> Any:
        lazrs: Any = importlib.import_module("lazrs")
        extra_bytes = self._layout.point_bytes - _SIZES[self._layout.point_format]
        with _library_errors(self._source):
            return lazrs.LazVlr.new_for_compression(self._layout.point_format, extra_bytes)

    def _write_records(self, out: _Output, vlr: Any) -> bytearray:
        """Write all before the points; returns the header, which is written again at the end."""
        layout = self._layout
        head = bytearray(layout.head)
        out.write(head)
        kept = [record for record in layout.records if not record.is_of_compression]
        for record in kept:
            self._copy_bytes(out, record.at, record.size)
        if vlr is not None:
            data = bytes(vlr.record_data())
            out.write(struct.pack("<2x16sHH32s", b"laszip encoded", 22204, len(data), b"http://laszip.org") + data)
        # LAS 1.0 has two bytes between the records and the points.
        end = layout.records[-1].at + layout.records[-1].size if layout.records else len(head)
        self._copy_bytes(out, end, layout.points_at - end)
        struct.pack_into("<II", head, POINTS_AT, out.tell(), len(kept) + (vlr is not None))
        head[FORMAT] = layout.point_format | (0x80 if vlr is not None else 0)
        return head

    def _write_points(self, out: _Output, codes: np.ndarray, vlr: Any) -> None:
        """Compressed as `vlr` says, or as they are if it is None."""
        done = 0
        compressor = None
        if vlr is not None:
            with _library_errors(self._source, out):
                compressor = importlib.import_module("lazrs").LasZipCompressor(out, vlr)
        for part in self._parts():
            points = np.frombuffer(part, np.uint8).reshape(-1, self._layout.point_bytes)
            self._set_codes(points, codes[done : done + len(points)])
            done += len(points)
            if compressor is None:
                out.write(part)
                continue
            with _library_errors(self._source, out):
                compressor.compress_many(part)
        if compressor is not None:
            with _library_errors(self._source, out):
                compressor.done()
        out.seek(0, os.SEEK_END)

    def _set_codes(self, points: np.ndarray, codes: np.ndarray) -> None:
        """Set the codes of points (P, bytes) in place."""
        if self._layout.point_format >= 6:
            points[:, 16] = codes
        else:  # the flags synthetic, key point and withheld share the byte
            points[:, 15] = points[:, 15] & 0xE0 | codes.astype(np.uint8)

    def _parts(self) -> Iterator[bytearray]:
        """The bytes of the points, in the file's order."""
        layout = self._layout
        decompressor = None
        if layout.compressed and layout.count:
            with _library_errors(self._source):
                decompressor = decompressor_of(self._source, self._file, layout)
        for start in range(0, layout.count, _AT_ONCE):
            part = bytearray(min(_AT_ONCE, layout.count - start) * layout.point_bytes)
            if decompressor is not None:
                with _library_errors(self._source):
                    decompressor.decompress_many(part)
            else:
                self._read_into(part, layout.points_at + start * layout.point_bytes)
            yield part

    def _write_extended(self, out: _Output, head: bytearray) -> None:
        """Write the EVLRs and set their places in the header."""
        places: dict[int, int] = {}  # in the source -> in the copy
        kept = [record for record in self._layout.extended if not record.is_of_compression]
        waveforms = self._layout.waveforms
        alone = [] if waveforms is None or waveforms in kept else [waveforms]  # LAS 1.3 has no list of EVLRs
        for record in (*kept, *alone):
            places[record.at] = out.tell()
            self._copy_bytes(out, record.at, record.size)
        if waveforms is not None:
            struct.pack_into("<Q", head, WAVEFORMS, places[waveforms.at])
        if head[25] >= 4:
            struct.pack_into("<QI", head, EXTENDED, places[kept[0].at] if kept else 0, len(kept))

    def _copy_bytes(self, out: _Output, at: int, count: int) -> None:
        for start in range(at, at + count, _COPY_AT_ONCE):
            part = bytearray(min(_COPY_AT_ONCE, at + count - start))
            self._read_into(part, start)
            out.write(part)

    def _read_into(self, part: bytearray, at: int) -> None:
        try:
            self._file.seek(at)
            found = self._file.readinto(part)
        except OSError as error:
            raise unreadable(self._source, error) from error
        if found < len(part):
            raise UserError(f"{self._source}: was cut short while it was copied; label the whole file again")


@contextmanager
def _library_errors(source: Path, out: _Output | None = None) -> Iterator[None]:
    """UserError for what lazrs raises; the OSError if `out` cannot be written."""
    try:
        yield
    except (UserError, OSError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a library in Rust is no Exception
        if out is not None and out.failure is not None:
            raise out.failure from error
        raise UserError(f"{source}: {not_whole(source, error)}") from error
