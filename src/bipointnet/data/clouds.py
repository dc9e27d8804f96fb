"""One point cloud or mesh: read it from a file of any format, and sample its points.

The compiled core parses most formats. `library_files` reads those that need other libraries.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data import library_files, solids
from bipointnet.data.parsed import unreadable
from bipointnet.data.shuffle import Ranks
from bipointnet.errors import UserError

# The suffixes of the core, as `_core.cloud_suffixes()` gives them: data sets are listed without the compiled core.
_CORE = ".ply .pcd .las .off .obj .stl .xyz .txt .csv .pts .asc .xyzn .xyzrgb .ptx .npy .bin .f32 .raw"

SUFFIXES = (*_CORE.split(), *library_files.SUFFIXES)
LIBRARY_SUFFIXES = library_files.SUFFIXES  # of formats that the core does not parse alone
LAS = (".las", ".laz")
# Formats whose columns may have no names.
UNNAMED = (".xyz", ".txt", ".csv", ".pts", ".asc", ".xyzn", ".xyzrgb", ".npy", ".npz", ".bin", ".f32", ".raw")


@dataclass(frozen=True)
class Cloud:
    """The content of a file.

    Attributes:
        points: (N, 3) float32, finite, in the order of the file; the vertices if the file is a mesh.
        colors: (N, 3) float32 in [0, 1], or None.
        faces: (F, 3) int64 indices into points, or None if the file holds points only.
        origin: the offset that was subtracted from the file's coordinates. It is not zero only for clouds whose
            distance from zero is so large for their size (georeferenced scans) that float32 would flatten them.
        fields: the other columns of the file, such as intensity, classification or nx: name -> (N,) float64.
        format: the format in words, such as "PLY, binary little-endian".
        columns: the names of all columns of the file; "?" for a column without a name.
        dropped: the number of points that were left out because a coordinate is NaN or infinite.
        kept: (N,) int64, the index in the file of each point; None if no point was left out.
        color_scale: what the file's colors were divided by: 1, 255 or 65535; 0 without colors.
        notes: what a person should know about the file, one sentence each.

    >>> Cloud(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32), faces=np.array([[0, 1, 2]])).origin
    (0.0, 0.0, 0.0)
    """

    points: np.ndarray
    colors: np.ndarray | None = None
    faces: np.ndarray | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    fields: dict[str, np.ndarray] = field(default_factory=dict)
    format: str = ""
    columns: tuple[str, ...] = ()
    dropped: int = 0
    kept: np.ndarray | None = None
    color_scale: float = 0.0
    notes: tuple[str, ...] = ()


def read(path: str | Path, *, columns: Sequence[str] = (), strict: bool = False) -> Cloud:
    """Read the cloud or mesh in a file; the suffix (one of SUFFIXES) determines the format.

    Points with a NaN or infinite coordinate, which scanners write for "no return", are left out; see `Cloud.dropped`.
    Raises a UserError if the file cannot be read or holds no points. Several threads may call it at once.

    Args:
        columns: the names of the columns of a text, .bin or .npy file, "-" for a column to ignore.
        strict: raise a UserError if a coordinate is NaN or infinite.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "scan.xyz"
    >>> _ = path.write_text("0 0 0 7\\n1 0 0 8\\nnan nan nan 9\\n0 1 0 5\\n")
    >>> cloud = read(path, columns=["x", "y", "z", "intensity"])
    >>> cloud.points.tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    >>> cloud.fields["intensity"].tolist(), cloud.dropped
    ([7.0, 8.0, 5.0], 1)
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: there is no such file; check the path")
    if path.is_dir():
        raise UserError(f"{path}: is a folder, expected a file with one cloud; choose a file in it")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{path}: unknown suffix '{path.suffix}'; expected one of {' '.join(SUFFIXES)}")
    if columns and suffix in library_files.NAMED:
        raise UserError(f"{path}: --columns is for formats that do not name their columns; leave it out for {suffix}")
    try:
        if path.stat().st_size == 0:
            raise UserError(f"{path}: the file is empty; copy it again from its source")
        return _cloud(_parsed(path, suffix, columns, strict))
    except OSError as error:
        raise unreadable(path, error) from error
    except MemoryError as error:
        raise UserError(f"{path}: needs more memory than there is; read it on a larger machine or cut it") from error


def read_bytes(
    data: bytes, suffix: str, source: str | Path, *, columns: Sequence[str] = (), strict: bool = False
) -> Cloud:
    """Read the bytes of a file with this suffix, of a format that the core parses; `source` names it in errors.

    >>> read_bytes(b"0 0 0\\n1 0 0\\n0 1 0\\n", ".xyz", "a string").points.shape
    (3, 3)
    """
    return _cloud(_core_parsed(data, f"points{suffix}", source, columns, strict))


def dropped_notes(dropped: int, used: int) -> list[str]:
    """What to say about points that were left out, if there are any.

    >>> dropped_notes(9, 91), dropped_notes(0, 100)
    (['9 of 100 points have no finite coordinates and were left out'], [])
    """
    return [f"{dropped} of {dropped + used} points have no finite coordinates and were left out"] * (dropped > 0)


def _parsed(path: Path, suffix: str, columns: Sequence[str], strict: bool) -> dict[str, Any]:
    """The content of a file as the core returns it."""
    if suffix not in library_files.SUFFIXES:
        return _core_parsed(path.read_bytes(), _text_of_name(path), path, columns, strict)
    parsed = library_files.read(path)
    if isinstance(parsed, library_files.CoreFile):
        found = _core_parsed(parsed.data, f"points{parsed.suffix}", path, columns, strict)
        return found | {"format": found["format"].replace(parsed.suffix[1:].upper(), suffix[1:].upper(), 1)}
    from bipointnet import _core

    try:
        found = _core.finish_cloud(parsed.format, parsed.names, parsed.bits, parsed.columns, parsed.faces, strict)
    except _core.CloudError as error:
        raise UserError(f"{path}: {error}") from None
    return found | {"notes": [*parsed.notes, *found["notes"]]}


def _core_parsed(data: bytes, name: str, source: str | Path, columns: Sequence[str], strict: bool) -> dict[str, Any]:
    """What the core finds in the bytes of a file. It is imported here: data sets in HDF5 work without it."""
    from bipointnet import _core

    try:
        return _core.read_cloud(data, name, list(columns), strict)
    except _core.CloudError as error:  # its sentence begins with the name
        raise UserError(f"{source}: {str(error).removeprefix(f'{name}: ')}") from None


def _text_of_name(path: Path) -> str:
    """The file's name as text: any bytes are a name for the operating system, but not for the core."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def _cloud(parsed: dict[str, Any]) -> Cloud:
    fields: dict[str, np.ndarray] = {}
    for name, values in parsed["fields"]:
        free = name
        while free in fields:  # a file may give two columns one name
            free += "'"
        fields[free] = values
    kept = parsed["kept"]
    return Cloud(
        points=parsed["points"],
        colors=parsed["colors"],
        faces=parsed["faces"],
        origin=parsed["origin"],
        fields=fields,
        format=parsed["format"],
        columns=tuple(parsed["columns"]),
        dropped=parsed["dropped"],
        kept=None if kept is None else kept.astype(np.int64),
        color_scale=parsed["color_scale"],
        notes=tuple(parsed["notes"]),
    )


def sample(cloud: Cloud, count: int, rng: np.random.Generator | Ranks, source: str | Path) -> np.ndarray:
    """Draw (count, 3) float32: uniform by area on a mesh's surface, or points of the cloud without repetition.

    `source` names the cloud in the error for a cloud with fewer points than `count`.

    >>> cloud = Cloud(np.arange(300, dtype=np.float32).reshape(100, 3))
    >>> sample(cloud, 64, np.random.default_rng(0), "a cloud").shape
    (64, 3)
    """
    if cloud.faces is not None:
        xyz, _ = solids.sample([(_surface(cloud.points, cloud.faces), 0)], count, rng)
        return xyz.astype(np.float32)
    require_points(len(cloud.points), count, source)
    return cloud.points[rng.permutation(len(cloud.points))[:count]]


def require_points(found: int, wanted: int, source: str | Path) -> None:
    """UserError for a cloud with fewer points than wanted."""
    if found < wanted:
        raise UserError(
            f"{source}: holds {found} points, expected at least {wanted}; train with --points {found} or fewer, or "
            "leave this cloud out"
        )


def require_finite(xyz: np.ndarray, source: str | Path) -> None:
    """UserError that counts the points (N, 3) that are NaN or infinite and names the first."""
    bad = np.flatnonzero(~np.isfinite(xyz).all(axis=1))
    if len(bad):
        raise UserError(
            f"{source}: {len(bad)} of {len(xyz)} points have a NaN or infinite coordinate, the first is point {bad[0]}"
            " (counted from 0); remove these points from the file"
        )


def _surface(points: np.ndarray, faces: np.ndarray) -> solids.Surface:
    return solids.Surface(points[faces].astype(np.float64))
