"""S3DIS (Armeni et al., CVPR 2016): six areas of office buildings with 13 classes, as PointNet's blocks or whole rooms.

indoor3d_sem_seg_hdf5_data/  all_files.txt, room_filelist.txt (the room of each block), *.h5 (`data`, `label`)
Stanford3dDataset_v1.2_Aligned_Version/  Area_N/ROOM/Annotations/CLASS_K.txt (x y z r g b)
stanford_indoor3d/  Area_N_ROOM.npy (x y z r g b class)

Rooms are cut into blocks as described in `blocks`; all blocks have 9 channels per point. A fold tests on one area and
trains on the others. If there is only one area, its rooms are distributed over four folds.

| area | 1 | 2 | 3 | 4 | 5 | 6 | all |
|---|---|---|---|---|---|---|---|
| rooms | 44 | 40 | 23 | 49 | 68 | 48 | 272 |
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data.arrays import load_array
from bipointnet.data.blocks import ROOM, Columns, grid_blocks
from bipointnet.data.cache import cached
from bipointnet.data.clouds import require_finite
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.listing import rng_of, size_and_time, subfolders
from bipointnet.data.published import checked_clouds, hdf5_arrays, lines, listed_files, numbers, point_labels
from bipointnet.data.reading import with_progress
from bipointnet.data.rooms import CLASSES
from bipointnet.errors import UserError

_AREA = r"Area_\d+"
_STORED = 4096  # points per block
_ROOM_FOLDS = 4
_COLUMNS = ("x", "y", "z", "r", "g", "b")
_CACHE_VERSION = 1


@dataclass(frozen=True)
class Fold:
    """The rooms to test on and never to train on, and a name for them: the area, or AREA_rooms_K."""

    name: str
    rooms: tuple[str, ...]


@dataclass(frozen=True)
class Room:
    """A whole room.

    Attributes:
        points: (N, 6) float32, xyz in meters and rgb in 0 to 1.
        labels: (N,) int64, the class of each point.
    """

    name: str
    points: np.ndarray
    labels: np.ndarray


def recognizes(folder: Path) -> bool:
    return _has_hdf5(folder) or bool(_room_sources(folder))


def s3dis(folder: Path, points: int, seed: int = 0, fold: str | None = None) -> PointClouds:
    """The blocks of a fold: by default Area 5, as is common, or the first fold if there is no Area 5.

    A block has 4096 points, or `points` if that is more and the folder holds whole rooms; `seed` chooses them. Whole
    rooms are cut into adjacent blocks, also for the test; `runtime.label.label_scene` labels every point of a room.
    """
    chosen = _chosen(folder, fold)
    if _has_hdf5(folder):
        train, test = _open_hdf5(folder, chosen, points)
    else:
        train, test = _open_rooms(folder, chosen, max(points, _STORED), seed)
    return PointClouds(f"s3dis/{chosen.name}", ("room",), train, test, CLASSES, blocks=ROOM)


def folds(folder: Path) -> tuple[Fold, ...]:
    """One fold per area; or, for a single area, four of about equal size, with every kind of room in each."""
    listing = _room_list(folder)
    names = set(lines(listing)) if _has_hdf5(folder) else _room_sources(folder).keys()
    rooms = sorted(names, key=_by_kind)
    areas = sorted({_area(room, listing if _has_hdf5(folder) else folder) for room in rooms})
    if len(areas) > 1:
        return tuple(Fold(area, tuple(room for room in rooms if room.startswith(f"{area}_"))) for area in areas)
    if len(rooms) < 2:
        raise UserError(
            f"{folder}: holds {len(rooms)} room, expected at least two, one to train and one to test; add another"
        )
    count = min(_ROOM_FOLDS, len(rooms))
    return tuple(Fold(f"{areas[0]}_rooms_{k + 1}", tuple(rooms[k::count])) for k in range(count))


def read_rooms(folder: Path, names: Iterable[str]) -> Iterator[Room]:
    """Yield whole rooms; text is read once and then kept in the cache."""
    if _has_hdf5(folder):
        raise UserError(
            f"{folder}: holds blocks, not whole rooms; name the folder with Area_N/ROOM/ or Area_N_ROOM.npy"
        )
    sources = _room_sources(folder)
    for name in names:
        if name not in sources:
            raise UserError(f"{folder}: has no room '{name}' among its {len(sources)}; name one that folds() lists")
        source = sources[name]
        points, labels = _read_array(source) if source.suffix == ".npy" else _read_annotations(source)
        yield Room(name, points, labels)


def _area(room: str, source: Path) -> str:
    match = re.match(rf"({_AREA})_.", room)
    if match is None:
        raise UserError(
            f"{source}: '{room}' is not the name of a room, expected a name like Area_1_office_1; unpack the data again"
        )
    return match[1]


def _by_kind(room: str) -> tuple[str, int]:
    """A sort key that groups rooms of one kind and puts office_2 before office_10."""
    kind = room.rstrip("0123456789")
    return kind, int(room[len(kind) :] or 0)


def _chosen(folder: Path, name: str | None) -> Fold:
    found = {fold.name: fold for fold in folds(folder)}
    if name is None:
        return found.get("Area_5") or next(iter(found.values()))
    if name not in found:
        raise UserError(f"{folder}: has no fold '{name}'; expected one of {', '.join(found)}")
    return found[name]


def _room_list(folder: Path) -> Path:
    return folder / "room_filelist.txt"


def _has_hdf5(folder: Path) -> bool:
    return _room_list(folder).is_file() or (folder / "all_files.txt").is_file()


def _open_hdf5(folder: Path, fold: Fold, points: int) -> tuple[Split, Split]:
    rooms = lines(_room_list(folder))
    tested = np.isin(rooms, fold.rooms)  # (M,)
    # All of S3DIS takes gigabytes: each file is copied to its final place, training blocks before test blocks.
    place = np.empty(len(rooms), np.int64)
    place[np.argsort(tested, kind="stable")] = np.arange(len(rooms))
    blocks = np.empty((len(rooms), _STORED, 9), np.float32)
    labels = np.empty((len(rooms), _STORED), np.int64)
    done = 0
    for file in listed_files(folder / "all_files.txt"):
        read, read_labels = _read_hdf5(file, points)
        if done + len(read) <= len(rooms):
            blocks[place[done : done + len(read)]] = read
            labels[place[done : done + len(read)]] = read_labels
        done += len(read)
    if done != len(rooms):
        raise UserError(
            f"{_room_list(folder)}: names the rooms of {len(rooms)} blocks where the files of all_files.txt hold"
            f" {done}; unpack the data again"
        )
    trained = len(rooms) - int(tested.sum())
    return _split(blocks[:trained], labels[:trained]), _split(blocks[trained:], labels[trained:])


def _split(blocks: np.ndarray, labels: np.ndarray) -> Split:
    return Split(blocks, np.zeros(len(blocks), np.int64), labels)


def _read_hdf5(file: Path, points: int) -> tuple[np.ndarray, np.ndarray]:  # (B, 4096, 9), (B, 4096)
    data, label = hdf5_arrays(file, ("data", "label"))
    data = checked_clouds(file, data, 9, points)
    if data.shape[1] != _STORED:
        raise UserError(f"{file}: has blocks of {data.shape[1]} points, expected {_STORED}; unpack the data again")
    labels = point_labels(file, "label", label, data.shape[:2])
    _require_classes(labels, file)
    return data, labels


def _require_classes(labels: np.ndarray, source: Path) -> None:
    beyond = labels[(labels < 0) | (labels >= len(CLASSES)) | (labels % 1 != 0)]
    if len(beyond):
        raise UserError(
            f"{source}: {len(beyond)} points have labels like {beyond[0]:g}, expected 0 to {len(CLASSES) - 1}, the"
            " classes of S3DIS; unpack the data again"
        )


def _room_sources(folder: Path) -> dict[str, Path]:
    """The file, or the folder of annotations, of each room; `folder` may itself be an area."""
    arrays = {file.stem: file for file in sorted(folder.glob("Area_*.npy")) if re.match(rf"{_AREA}_.", file.name)}
    if arrays:
        return arrays
    areas = [area for area in (folder.absolute(), *sorted(folder.glob("Area_*"))) if re.fullmatch(_AREA, area.name)]
    return {
        f"{area.name}_{room.name}": room / "Annotations"
        for area in areas
        if area.is_dir()
        for room in subfolders(area)
        if (room / "Annotations").is_dir()
    }


def _open_rooms(folder: Path, fold: Fold, points: int, seed: int) -> tuple[Split, Split]:
    tested = set(fold.rooms)
    cut: tuple[list[tuple[np.ndarray, np.ndarray]], ...] = ([], [])
    sources = _room_sources(folder)
    for source, room in zip(with_progress(list(sources.values())), read_rooms(folder, sources), strict=True):
        columns = Columns.of(ROOM, room.points[:, :3], room.points[:, 3:], source)
        # Seeded by the room's name: the blocks of a room are the same in every fold.
        blocks = grid_blocks(columns, points, rng_of(room.name, seed))
        cut[room.name in tested].append((blocks.points, room.labels[blocks.index]))
    train, test = (_split(*map(np.concatenate, zip(*half, strict=True))) for half in cut)
    return train, test


def _read_array(file: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        table = load_array(file)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{file}: is not a whole .npy file of numbers; copy it again from its source") from error
    expected = (*_COLUMNS, "class")
    if table.ndim != 2 or table.shape[1] != 7 or table.dtype.kind not in "fiu":
        raise UserError(
            f"{file}: is {table.dtype} of shape {table.shape}, expected numbers of shape (points, 7): "
            f"{' '.join(expected)}; write all seven columns"
        )
    _require_room(table, file)
    _require_classes(table[:, 6], file)
    return _with_unit_colors(table[:, :6]), table[:, 6].astype(np.int64)


def _read_annotations(annotations: Path) -> tuple[np.ndarray, np.ndarray]:
    """The objects of a room, one per file: chair_1.txt is a chair; objects of other classes (stairs) are clutter."""
    files = sorted(file for file in annotations.glob("*.txt") if not file.name.startswith("."))
    names = [file.name for file in files]
    key = (os.fspath(annotations.absolute()), names, [size_and_time(file) for file in files], _CACHE_VERSION)
    stored = cached("s3dis-room", key, lambda: _parse_annotations(annotations, files))
    return _with_unit_colors(np.hstack([stored["xyz"], stored["rgb"]])), stored["labels"].astype(np.int64)


def _parse_annotations(annotations: Path, files: Sequence[Path]) -> dict[str, np.ndarray]:
    """xyz (N, 3) float32, rgb (N, 3) uint8 and labels (N,) uint8: only 16 bytes per point, as buildings have many."""
    if not files:
        raise UserError(f"{annotations}: holds no CLASS_K.txt, expected one per object of the room; unpack it again")
    tables = []
    for file in files:
        tables.append(numbers(file, _COLUMNS))
        _require_room(tables[-1], file)
    kinds = [file.name.partition("_")[0].lower() for file in files]
    labels = [CLASSES.index(kind if kind in CLASSES else "clutter") for kind in kinds]
    table = np.concatenate(tables)  # (N, 6)
    return {
        "xyz": table[:, :3].astype(np.float32),
        "rgb": table[:, 3:].astype(np.uint8),
        "labels": np.repeat(np.array(labels, np.uint8), [len(table) for table in tables]),
    }


def _require_room(table: np.ndarray, source: Path) -> None:
    """UserError unless a table (N, 6 or more) has points, all finite, with colors from 0 to 255."""
    if len(table) == 0:
        raise UserError(f"{source}: the room is empty, expected at least one point; leave the file out")
    require_finite(table, source)
    rgb = table[:, 3:6]
    if rgb.min() < 0 or rgb.max() > 255:
        raise UserError(f"{source}: has colors from {rgb.min():g} to {rgb.max():g}, expected 0 to 255; unpack it again")


def _with_unit_colors(table: np.ndarray) -> np.ndarray:  # (N, 6) float32
    points = table.astype(np.float32)
    points[:, 3:] /= 255
    return points
