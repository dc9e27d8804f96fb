"""Labeled scans of your own: the list of files, and the points, features and labels of each.

SCANS/*                       files with one label per point; `point_labels` says where labels are found
SCANS/train/*, SCANS/test/*   the same, with a test split of your own
FILE                          one scan
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.blocks import COLORS
from bipointnet.data.cache import ENTRY_BYTES, cached
from bipointnet.data.gltf_files import buffer_files
from bipointnet.data.las_units import UNITS, declared_unit
from bipointnet.data.listing import JOB, entries, is_cloud, name_below, size_and_time, split_of, subfolders
from bipointnet.data.own import Found, Source
from bipointnet.data.point_labels import label_files, parallel_file, read_codes
from bipointnet.data.summary import Skipped
from bipointnet.errors import UserError

KIND = "scan"  # the class of every file: what differs is the labels of its points
_LABELS = "labels"  # a folder of this name holds the labels of the files in another one
_LABEL_SUFFIXES = (".label", ".labels", ".seg")
_COLUMN = "column "  # in front of the names of features in the cache
_CACHE_VERSION = 1
OUTPUT = "-labels"  # ends the names of the files that `segment` writes


@dataclass(frozen=True)
class Scan:
    """A scan in memory.

    Attributes:
        points: (N, 3) float32, in meters, z up, relative to the file's origin.
        codes: (N,) int64, the label of each point as the file has it.
        columns: the features by name, (N,) float32 each; colors from 0 to 1.
    """

    points: np.ndarray
    codes: np.ndarray
    columns: dict[str, np.ndarray]

    def features(self, names: Sequence[str]) -> np.ndarray:
        """(N, F) float32."""
        found = [self.columns[name] for name in names]
        return np.stack(found, axis=1) if found else np.empty((len(self.points), 0), np.float32)


def find_scans(data: Path) -> Found:
    """The files of a folder, or one file. UserError if there is none."""
    if data.is_file():
        return Found(data.parent, "one file", (Source(data.name, data, KIND),))
    if not data.is_dir():
        raise UserError(f"{data}: no such file or folder; expected a folder with labeled scans")
    splits = {sub: split_of(sub.name) for sub in subfolders(data) if split_of(sub.name)}
    places = [(sub, "test" if split == "val" else split) for sub, split in splits.items()] or [(data, None)]
    if "test" in splits.values():
        places = [(sub, split) for (sub, split) in places if splits[sub] != "val"]
    sources: list[Source] = []
    skipped: list[Skipped] = []
    if splits:
        used = {place for place, _ in places}
        others = [entry for entry in entries(data) if entry not in used]
        skipped = [Skipped(entry.name + "/" * entry.is_dir(), "beside the splits that are used") for entry in others]
    for place, split in places:
        own, others = _scans_in(data, place)
        sources += [Source(name_below(data, file), file, KIND, split) for file in own]
        skipped += others
    if not sources:
        raise UserError(
            f"{data}: holds no scans; expected files with one of the suffixes {' '.join(clouds.SUFFIXES)}, or train/ "
            "and test/ with such files"
        )
    layout = "train/* with test/*" if splits else "*"
    return Found(data, layout, tuple(sorted(sources, key=lambda source: source.name)), tuple(skipped))


def _scans_in(root: Path, folder: Path, above: frozenset[Path] = frozenset()) -> tuple[list[Path], list[Skipped]]:
    """The scans below a folder, at any depth, and what is left out. Labels and buffers of other files are neither.

    above: the folders that hold it. A link to one of them is not followed.
    """
    files: list[Path] = []
    skipped: list[Skipped] = []
    here = above | {folder.resolve()}
    for entry in entries(folder):
        if entry.is_dir():
            if entry.resolve() in here:
                skipped.append(Skipped(name_below(root, entry) + "/", "a link to a folder that holds it"))
            elif (entry / JOB).exists():
                skipped.append(Skipped(name_below(root, entry) + "/", "labels that `segment` wrote"))
            elif entry.name.lower() != _LABELS:
                inner, others = _scans_in(root, entry, here)
                files += inner
                skipped += others
        elif is_cloud(entry):
            files.append(entry)
        elif entry.suffix.lower() not in _LABEL_SUFFIXES:
            skipped.append(Skipped(name_below(root, entry), f"no reader for '{entry.suffix}'"))
    parts = label_files(files).union(buffer_files(files))
    own = {file.with_suffix("") for file in files if file.parent == folder}
    written = {file for file in files if file.parent == folder and is_written(file, own)}
    skipped += [Skipped(name_below(root, file), "labels that `segment` wrote") for file in sorted(written)]
    return [file for file in files if file not in parts | written], skipped


def is_written(file: Path, scans: Collection[Path]) -> bool:
    """Whether `segment` wrote a file by default: a-labels.laz beside a.laz."""
    scan = file.with_suffix("")
    return scan.name.endswith(OUTPUT) and scan.with_name(scan.name.removesuffix(OUTPUT)) in scans


@dataclass(frozen=True)
class ScanReader:
    """Reads labeled scans, and keeps them in the cache.

    Attributes:
        fields: the columns to read beside coordinates, colors and labels.
        labels: the column that holds the labels; default: see `point_labels.read_codes`.
        columns: the names of the columns of text and npy files, which have none.
        unit: of the coordinates, a key of UNITS; default: meters, and an error if a file declares another.
    """

    fields: tuple[str, ...] = ()
    labels: str | None = None
    columns: tuple[str, ...] = ()
    unit: str | None = None

    def read(self, file: Path) -> Scan:
        """The points, colors, labels and fields of a file. UserError if one of them is missing."""
        require_unit(file, self.unit)
        sources = [file, *buffer_files([file]), *filter(None, [parallel_file(file)])]
        stats = [(os.fspath(source.absolute()), *size_and_time(source)) for source in sources]
        stored = cached("scan", (stats, self, _CACHE_VERSION), lambda: self._read(file), ENTRY_BYTES)
        columns = {name.removeprefix(_COLUMN): stored[name] for name in stored if name.startswith(_COLUMN)}
        return Scan(stored["points"], stored["codes"].astype(np.int64), columns)

    def _read(self, file: Path) -> dict[str, np.ndarray]:
        named = file.suffix.lower() in clouds.UNNAMED
        cloud = clouds.read(file, columns=self.columns if named else ())
        stored = {
            "points": in_meters(cloud.points, self.unit),
            "codes": read_codes(file, cloud, self.labels).astype(np.uint16),
        }
        if cloud.colors is not None:
            stored |= {f"{_COLUMN}{name}": cloud.colors[:, channel] for channel, name in enumerate(COLORS)}
        for name in self.fields:
            if name not in cloud.fields:
                found = ", ".join(cloud.fields) or "none"
                raise UserError(f"{file}: has no column {name}; expected one of: {found}; leave it out of --channels")
            stored[f"{_COLUMN}{name}"] = cloud.fields[name].astype(np.float32)
        return stored


def in_meters(points: np.ndarray, unit: str | None) -> np.ndarray:
    """Points (N, 3) float32 of a file in this unit; None: meters."""
    return points if unit is None else points * np.float32(UNITS[unit].meters)


def require_unit(file: Path, unit: str | None) -> None:
    """UserError if a file declares another unit of length than `unit`, or than meters if that is None."""
    declared = declared_unit(file) if file.suffix.lower() in clouds.LAS else None
    if declared is None or declared == (unit or "m"):
        return
    raise UserError(
        f"{file}: its coordinate system is in {UNITS[declared].name}; expected {UNITS[unit or 'm'].name}; "
        f"pass --unit {declared}"
    )
