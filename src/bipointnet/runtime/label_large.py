"""Label the points of a LAS, LAZ or PLY tile of any size in little memory, with the labels of `bipointnet.label`.

The file is read twice, in parts: first to find how the core reads its points (`las_parts`, `ply_parts`), then to sort
the points of each part by rows of cells, along x, into a temporary file. A block has points of two rows. The blocks of
a few rows, a band, are cut and labeled at once; the votes for the last row of a band are kept until the next band has
added its own. Thus a point gets the same votes in the same order as in `label`.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np

from bipointnet import extras
from bipointnet.data.blocks import BlockLayout, Columns, add_votes, cover
from bipointnet.data.clouds import LAS, Cloud
from bipointnet.data.las_files import write_classification
from bipointnet.data.las_parts import LasParts, open_parts
from bipointnet.data.las_units import UNITS
from bipointnet.data.ply_files import write_labels
from bipointnet.data.ply_parts import PlyParts, open_ply
from bipointnet.data.scan_files import in_meters, require_unit
from bipointnet.data.shuffle import ranks
from bipointnet.errors import UserError
from bipointnet.runtime.label import BATCH, training_unit
from bipointnet.runtime.model import Model
from bipointnet.runtime.progress import Progress, no_progress

_File = Any  # a temporary file: its type depends on the operating system
_WHILE_READING = 600  # bytes per point of a part, beside its own: the core has 8 per column
_FEWEST_AT_ONCE, _MOST_AT_ONCE = 1000, 250_000  # points of a part
_WHILE_VOTING = 150  # bytes per point of a band, beside features and votes
_MOST_IN_BAND = 100_000  # points: more do not fit into the caches of a processor, which makes it slower
_BEFORE, _BEHIND = 2, 3  # the rows around a block in which its ground is sought, as in `blocks`
_WINDOW = 1 << 26  # points whose codes are in memory at once
_CODE = np.dtype(np.int32)
_NO_CODE = -1  # of a point without finite coordinates


class Labeled(NamedTuple):
    """What `label_tile` found.

    counts: (classes,) points per class. dropped: vertices of a PLY tile without finite coordinates, which have no
    class. density: points per square meter, the median over cells with points.
    """

    counts: np.ndarray
    dropped: int
    density: float


def label_tile(
    model: Model,
    source: Path,
    target: Path,
    *,
    codes: Sequence[int] | None = None,
    unit: str | None = None,
    threads: int = 1,
    memory: int = 1 << 30,
    progress: Progress = no_progress,
) -> Labeled:
    """Copy a tile with the label of each point.

    The label is the classification of a point of a LAS or LAZ tile, and the property `label` of a vertex of a PLY tile;
    there, a vertex without finite coordinates has the label -1. The labels are those of `bipointnet.label`. Temporary
    files beside the target take 36 bytes per point and 4 more per feature that the model reads; they vanish with the
    process.

    Args:
        model: a packed model of the task semantic.
        source: the tile; a COPC file is a LAZ file. Of PLY, binary files are read; see `is_tile`.
        target: the copy, .las or .laz, or .ply for a PLY tile; it may be the source.
        codes: the number of each class in the copy; default: 0, 1, 2, ...
        unit: of the coordinates, m, ft or us-ft; default: as in training, and an error if the tile declares another.
        threads: number of threads; the result does not depend on it.
        memory: bytes to use, beside those of Python and of the model. It is exceeded only if the points of two rows
            of cells, each half the side of a block wide, need more.
        progress: called with (done, total) blocks.

    Examples:
        >>> model = bipointnet.load("aerial.bpn")  # doctest: +SKIP
        >>> label_tile(model, Path("tile.laz"), Path("labeled.laz"), codes=(2, 5, 6)).counts  # doctest: +SKIP
        array([10423771,  5230118,  4346111])
    """
    layout = _require_blocks(model)
    codes = range(len(model.classes)) if codes is None else codes
    unit = unit or training_unit(model)
    with _open(source) as parts:
        _check_target(parts, target, codes, model)
        _check_unit(source, unit)
        reader = _Reader(parts, layout, unit)
        folder = next(parent for parent in Path(os.path.realpath(target)).parents if parent.is_dir())
        try:
            with TemporaryFile(dir=folder) as sorted_points, TemporaryFile(dir=folder) as written:
                _fill(written, parts.count)
                tile = _sort(reader, sorted_points, memory)
                counts = np.zeros(len(model.classes), np.int64)
                for index, labels in _labels(model, tile, threads, memory, progress):
                    counts += np.bincount(labels, minlength=len(counts))
                    _write_codes(written, parts.count, index, np.array(codes, _CODE)[labels])
                found = np.memmap(written, _CODE, "r", shape=(parts.count,))
                if isinstance(parts, PlyParts):
                    write_labels(parts, target, found, dict(zip(codes, model.classes, strict=True)))
                else:
                    write_classification(source, target, found)
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(target)) from error
        density = float(np.median(tile.counts[tile.counts > 0])) / (layout.side / 2) ** 2
        return Labeled(counts, parts.count - int(counts.sum()), density)


def is_tile(file: Path) -> bool:
    """Whether `label_tile` reads a file. Text, for example, has to be read whole, with `label`."""
    if file.suffix.lower() != ".ply":
        return file.suffix.lower() in LAS
    with open_ply(file) as parts:
        return parts is not None


@contextmanager
def _open(source: Path) -> Iterator[LasParts | PlyParts]:
    if source.suffix.lower() != ".ply":
        with open_parts(source) as parts:
            yield parts
        return
    with open_ply(source) as found:
        if found is None:
            raise UserError(
                f"{source}: cannot be read in parts, expected a binary PLY file whose vertices have numbers only; use "
                "label, which reads it whole"
            )
        yield found


# The checks


def _require_blocks(model: Model) -> BlockLayout:
    model.require_segments()
    if model.task != "semantic":
        raise UserError(
            f"the model labels the parts of objects ({model.manifest['model']}); expected one of the task semantic; "
            "use label instead of label_tile"
        )
    if model.blocks is None:
        raise UserError(
            "the model does not say how scans are cut into blocks; expected one with `blocks`; export it with them"
        )
    return model.blocks


def _check_target(parts: LasParts | PlyParts, target: Path, codes: Sequence[int], model: Model) -> None:
    """What could not be written once all points are labeled."""
    suffix, suffixes = target.suffix.lower(), (".ply",) if isinstance(parts, PlyParts) else LAS
    if suffix not in suffixes:
        raise UserError(
            f"{target}: the suffix '{target.suffix}', expected {' or '.join(suffixes)}; choose another name"
        )
    if target.exists() and not target.is_file():
        raise UserError(f"{target}: is not a file; expected the name of a file to write; choose another path")
    if len(codes) != len(model.classes):
        raise UserError(f"codes: {len(codes)} codes for {len(model.classes)} classes; expected one code per class")
    if isinstance(parts, PlyParts):
        _require_range(parts.source, codes, int(np.iinfo(_CODE).max), "", "choose smaller codes")
        return
    point_format = parts.layout.point_format
    if suffix == ".laz":
        extras.require(f"{target}: writing .laz", "lazrs")
    if point_format in (9, 10) and (parts.layout.compressed or suffix == ".laz"):
        raise UserError(
            f"{parts.source}: its points have waveforms (point format {point_format}), which lazrs does not keep in "
            ".laz; expected .las for the file and its copy; convert it, or choose another name"
        )
    most = 255 if point_format >= 6 else 31
    remedy = "choose smaller codes" if most == 255 else "convert the file to point format 6, which holds 0 to 255"
    _require_range(parts.source, codes, most, f" in the point format {point_format}", remedy)


def _require_range(source: Path, codes: Sequence[int], most: int, where: str, remedy: str) -> None:
    wrong = [code for code in codes if not 0 <= code <= most]
    if wrong:
        raise UserError(f"{source}: the code {wrong[0]}, expected 0 to {most}{where}; {remedy}")


def _check_unit(source: Path, unit: str | None) -> None:
    if unit is not None and unit not in UNITS:
        raise UserError(f"unit is {unit!r}; expected one of {', '.join(UNITS)}")
    require_unit(source, unit)


# From the file to rows of cells


class _Reader:
    """Reads parts of a tile as `Columns`, with the origin, the size and the cells of the whole tile."""

    def __init__(self, parts: LasParts | PlyParts, layout: BlockLayout, unit: str | None) -> None:
        self._parts, self._layout, self._unit = parts, layout, unit
        self._check_columns()
        self._extremes = parts.extremes()
        cloud = parts.cloud(self._extremes)
        if cloud.dropped:
            raise UserError(f"{parts.source}: has points without finite coordinates, expected none; remove them")
        self.outline = self._columns(cloud)

    def _check_columns(self) -> None:
        """What the header says, before the points are read."""
        cloud = self._parts.cloud(self._parts.empty_point())
        self._layout.read(cloud, self._parts.source)
        in_extra_bytes = cloud.colors is not None or any("not colors" in note for note in cloud.notes)
        if (
            self._layout.features
            and in_extra_bytes
            and isinstance(self._parts, LasParts)
            and not self._parts.has_colors
        ):
            raise UserError(
                f"{self._parts.source}: has colors in extra bytes, expected them in a point format with colors such as "
                "7; convert it, or use label, which reads it whole"
            )

    def read(self, memory: int) -> Iterator[tuple[Columns, np.ndarray]]:
        """Parts of the tile behind the extremes, and the index in the tile of each point; negative for extremes."""
        at_once, done = memory // (_WHILE_READING + 3 * self._parts.point_bytes), 0
        for points in self._parts.read(min(max(at_once, _FEWEST_AT_ONCE), _MOST_AT_ONCE)):
            cloud = self._parts.cloud(np.concatenate([self._extremes, points]))
            index = np.arange(len(cloud.points)) if cloud.kept is None else cloud.kept
            index = index - len(self._extremes)
            columns = self._columns(cloud)
            if columns.shape != self.outline.shape or (columns.size != self.outline.size).any():
                raise UserError(f"{self._parts.source}: changed while it was read; label it again")
            yield columns, np.where(index < 0, index, index + done)
            done += len(points)

    def _columns(self, cloud: Cloud) -> Columns:
        source = self._parts.source
        return Columns.of(self._layout, in_meters(cloud.points, self._unit), self._layout.read(cloud, source), source)


class _Tile:
    """The points of a tile in a file, those of each part sorted by rows of cells.

    Attributes:
        layout, size, shape: as in the `Columns` of the whole tile.
        counts: (shape) int64, the number of points per cell.
    """

    def __init__(self, outline: Columns, file: _File) -> None:
        self.layout, self.size, self.shape = outline.layout, outline.size, outline.shape
        self.counts = np.zeros(self.shape, np.int64)
        self._file = file
        self._kind = np.dtype(
            [
                ("index", np.int64),  # in the tile
                ("rank", np.uint64),
                ("cell", np.int32),
                ("xyz", np.float32, (3,)),
                ("features", np.float32, outline.features.shape[1:]),
            ]
        )
        self._starts: list[np.ndarray] = []  # per part: where each row of cells begins in the file, and its end
        self._count = 0

    def add(self, columns: Columns, index: np.ndarray) -> None:
        """Write the next part without the extremes in front; index: of each point in the tile, as `_Reader` has it."""
        skipped = int((index < 0).sum())
        mine = columns.order >= skipped
        order, cells = columns.order[mine], columns.cells[mine]
        records = np.empty(len(order), self._kind)
        records["index"] = index[order]
        records["rank"] = ranks(len(order), self._count)[order - skipped]
        records["cell"] = cells
        records["xyz"] = columns.xyz[order]
        records["features"] = columns.features[order]
        self._file.write(records.view(np.uint8).data)
        rows = np.arange(self.shape[0] + 1) * self.shape[1]
        self._starts.append(self._count + np.searchsorted(cells, rows))
        numbers, counts = np.unique(cells, return_counts=True)
        self.counts.flat[numbers] += counts
        self._count += len(order)

    def read(self, first: int, last: int) -> np.ndarray:
        """The points in the rows of cells from `first` to `last`, both inclusive, sorted by cell, always alike."""
        spans = [(starts[first], starts[last + 1]) for starts in self._starts]
        records = np.empty(sum(end - begin for begin, end in spans), self._kind)
        done = 0
        for begin, end in spans:
            if begin < end:
                self._file.seek(begin * self._kind.itemsize)
                part = records[done : done + end - begin].view(np.uint8).data
                if self._file.readinto(part) < len(part):
                    raise OSError(errno.EIO, "a temporary file was cut short")
                done += end - begin
        return records[np.argsort(records["cell"], kind="stable")]

    def columns(self, records: np.ndarray, first: int, last: int) -> Columns:
        """Some rows of cells as a scan of their own."""
        along = self.shape[1]
        xyz, features = records["xyz"].copy(), records["features"].copy()
        cells = records["cell"].astype(np.int64) - first * along
        shape = (last - first + 1, along)
        return Columns(self.layout, xyz, features, self.size, shape, np.arange(len(records)), cells)

    def bands(self, most: int) -> Iterator[tuple[int, int]]:
        """The first and the last row of bands with at most so many points if possible; two bands share a row."""
        rows, first = self.counts.sum(axis=1), 0
        while True:
            last = min(first + 1, len(rows) - 1)
            while last + 1 < len(rows) and rows[first : last + 2].sum() <= most:
                last += 1
            yield first, last
            if last == len(rows) - 1:
                return
            first = last

    def ground(self) -> np.ndarray:
        """`Columns.ground` of the whole tile: minima of those of single rows."""
        across, along = self.shape
        padded = np.full((_BEFORE + across + _BEHIND, along), np.inf, np.float32)
        for row in range(across):
            records = self.read(row, row)
            padded[_BEFORE + row] = self.columns(records, row, row).ground
        ground = padded[:across].copy()
        for start in range(1, 1 + _BEFORE + _BEHIND):
            np.minimum(ground, padded[start : start + across], out=ground)
        return ground

    def blocks(self, points: int) -> int:
        """The number of blocks in which the whole tile is cut, as `cover_size` gives it."""
        sizes = self.counts
        for axis in (0, 1):
            if self.shape[axis] > 1:
                before, behind = (np.delete(sizes, at, axis) for at in (-1, 0))
                sizes = before + behind
        return int((-(-sizes // points)).sum())


def _sort(reader: _Reader, file: _File, memory: int) -> _Tile:
    """Read a tile into a file."""
    tile = _Tile(reader.outline, file)
    for columns, index in reader.read(memory):
        tile.add(columns, index)
    return tile


# From rows of cells to labels


def _labels(
    model: Model, tile: _Tile, threads: int, memory: int, progress: Progress
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The indices of some points and their classes, until all points are labeled."""
    accepted = model.accepted_classes(None)
    ground = tile.ground() if "height" in tile.layout.channels else None
    most = memory // (_WHILE_VOTING + 8 * len(tile.layout.features) + 4 * len(accepted))
    done, total = 0, tile.blocks(model.points)
    kept = np.empty((0, len(accepted)), np.float32)  # the votes for the first row of the next band
    for first, last in tile.bands(min(most, _MOST_IN_BAND)):
        records = tile.read(first, last)
        if len(records) == 0:
            continue
        rows, rank = records["cell"] // tile.shape[1], records["rank"].copy()
        columns = tile.columns(records, first, last)
        if ground is not None:
            vars(columns)["ground"] = ground[first : last + 1]  # the rows around count too
        index = records["index"].copy()
        del records
        votes = np.zeros((len(rows), len(accepted)), np.float32)
        if first > 0:
            votes[rows == first] = kept
        for blocks in cover(columns, model.points, BATCH, rank):
            add_votes(votes, blocks, model.logits(blocks.points, threads=threads)[..., accepted])
            done += len(blocks)
            progress(done, total)
        final = rows <= last if last + 1 == tile.shape[0] else rows < last
        kept = votes[~final]
        yield index[final], accepted[votes[final].argmax(axis=1)]


def _fill(file: _File, count: int) -> None:
    """Write _NO_CODE for each point: a full disk raises an OSError here, where a mapped file would end the process."""
    for start in range(0, count, 1 << 20):
        file.write(np.full(min(1 << 20, count - start), _NO_CODE, _CODE).data)
    file.flush()


def _write_codes(file: _File, count: int, index: np.ndarray, codes: np.ndarray) -> None:
    """Set the codes of some of the points in a file that has one code per point."""
    for start in range(0, count, _WINDOW):
        window: Any = np.memmap(file, _CODE, "r+", start * _CODE.itemsize, (min(_WINDOW, count - start),))
        inside = (index >= start) & (index < start + len(window))
        window[index[inside] - start] = codes[inside]
