"""One point cloud or mesh: read it from any file, sample points of it, bring it to the unit ball."""

import logging
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.errors import UserError


@dataclass(frozen=True)
class Cloud:
    """What a file holds.

    points: (N, 3) float32, finite; the vertices where the file is a mesh.
    colors: (N, 3) float32 in [0, 1], or None.
    faces: (F, 3) int64 indices into points, or None where the file holds points alone.
    origin: what was subtracted from the file's coordinates; not zero only for clouds so far from zero for their size
        (georeferenced scans) that float32 would flatten their shape.
    """

    points: np.ndarray
    colors: np.ndarray | None = None
    faces: np.ndarray | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class _Parsed:
    """A file's content before it is checked: xyz (N, 3) of any real type, colors in [0, 1], faces (F, 3)."""

    xyz: np.ndarray
    colors: np.ndarray | None = None
    faces: np.ndarray | None = None


def read(path: str | Path) -> Cloud:
    """The cloud or mesh in a file, whose suffix says the format; UserError for a file that holds none."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: there is no such file; check the path")
    if path.is_dir():
        raise UserError(f"{path}: is a folder where a file with one cloud is expected; name a file in it")
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise UserError(f"{path}: the suffix '{path.suffix}' is not known; the known ones are {' '.join(SUFFIXES)}")
    try:
        if path.stat().st_size == 0:
            raise UserError(f"{path}: the file is empty; copy it again from its source")
        parsed = parse(path)
    except UserError:
        raise
    except Exception as error:  # the parsers are not ours: what a broken file makes them raise is anyone's guess
        raise UserError(f"{path}: {_why_unreadable(path, error)}") from error
    return _checked(path, parsed)


def sample(cloud: Cloud, count: int, rng: np.random.Generator, source: str | Path) -> np.ndarray:
    """(count, 3) float32: uniform by area on a mesh's surface, or points of the cloud in random order, none twice.

    `source` names the cloud in the error for a cloud with fewer points than asked.
    """
    if cloud.faces is not None:
        return _on_surface(cloud.points, cloud.faces, count, rng)
    require_points(len(cloud.points), count, source)
    return cloud.points[rng.permutation(len(cloud.points))[:count]]


def require_points(found: int, wanted: int, source: str | Path) -> None:
    if found < wanted:
        raise UserError(
            f"{source}: holds {found} points where {wanted} are asked for; pass --points {found} or fewer, or leave"
            " this cloud out"
        )


def require_finite(xyz: np.ndarray, source: str | Path) -> None:
    """UserError that says how many of the points (N, 3) are NaN or infinite and which is the first."""
    bad = np.flatnonzero(~np.isfinite(xyz).all(axis=1))
    if len(bad):
        raise UserError(
            f"{source}: {len(bad)} of {len(xyz)} points have a NaN or infinite coordinate, the first is point {bad[0]}"
            " (counted from 0); remove these points from the file"
        )


def _triangle_areas(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = points[faces.T].astype(np.float64)  # each (F, 3)
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


def _on_surface(points: np.ndarray, faces: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    cumulative = np.cumsum(_triangle_areas(points, faces))  # (F,)
    chosen = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    a, b, c = points[faces[np.minimum(chosen, len(faces) - 1)].T]  # each (count, 3)
    # The root makes the density uniform: the share of a triangle nearer to `a` than a fraction t grows as t squared.
    root, along = np.sqrt(rng.random((count, 1))), rng.random((count, 1))
    return (a * (1 - root) + b * (root * (1 - along)) + c * (root * along)).astype(np.float32)


def _checked(path: Path, parsed: _Parsed) -> Cloud:
    xyz = _numeric(path, parsed.xyz)
    if len(xyz) == 0:
        raise UserError(f"{path}: holds no points where at least one is expected; export it again from its source")
    require_finite(xyz, path)
    points, origin = _to_float32(path, xyz)
    faces = None
    if parsed.faces is not None and len(parsed.faces):
        faces = np.asarray(parsed.faces, np.int64)
        _check_faces(path, points, faces)
    colors = None if parsed.colors is None else np.clip(parsed.colors, 0, 1).astype(np.float32)
    return Cloud(points, colors, faces, origin)


def _numeric(path: Path, xyz: np.ndarray) -> np.ndarray:
    """(N, 3) float64 of an array (N, 3 or more) of real numbers."""
    if xyz.ndim != 2 or xyz.shape[1] < 3:
        raise UserError(f"{path}: holds an array of shape {xyz.shape} where (points, 3) is expected; reshape it")
    if xyz.dtype.kind not in "fiu":
        raise UserError(f"{path}: holds values of type {xyz.dtype} where numbers like float32 are expected; convert it")
    with np.errstate(invalid="ignore"):  # a signalling NaN; the check for finite points tells of it
        return xyz[:, :3].astype(np.float64)


def _to_float32(path: Path, xyz: np.ndarray) -> tuple[np.ndarray, tuple[float, float, float]]:
    extent = np.ptp(xyz, axis=0).max()
    if max(extent, np.abs(xyz).max()) > np.finfo(np.float32).max:
        raise UserError(f"{path}: holds coordinates too large for float32; scale them down")
    points = xyz.astype(np.float32)
    if np.abs(points - xyz).max() <= 1e-5 * extent or extent == 0:
        return points, (0.0, 0.0, 0.0)
    x, y, z = np.floor(xyz.min(axis=0))
    return (xyz - (x, y, z)).astype(np.float32), (float(x), float(y), float(z))


def _check_faces(path: Path, points: np.ndarray, faces: np.ndarray) -> None:
    outside = np.flatnonzero(((faces < 0) | (faces >= len(points))).any(axis=1))
    if len(outside):
        raise UserError(
            f"{path}: face {outside[0]} names the vertices {faces[outside[0]].tolist()} where 0 to {len(points) - 1}"
            " are expected; export the mesh again from its source"
        )
    if not _triangle_areas(points, faces).sum() > 0:
        raise UserError(f"{path}: the {len(faces)} faces have no area, so no point can be drawn; repair the mesh")


def _require_whole(path: Path, what: str, found: int, declared: int) -> None:
    if found < declared:
        raise UserError(f"{path}: declares {declared} {what} but holds {found}; the file is cut short, copy it again")


def _why_unreadable(path: Path, error: Exception) -> str:
    # trimesh guesses the encoding of a text it cannot decode with a package that need not be there.
    reason = "" if isinstance(error, ImportError) else " ".join(str(error).split())[:120]
    found = f" ({reason})" if reason else ""
    return f"is not a whole {path.suffix.lower()} file{found}; check that its suffix is right, or export it again"


def _needs(package: str, path: Path, install: str) -> UserError:
    return UserError(f"{path}: reading {path.suffix.lower()} needs {package}; install it with: {install}")


def _meaningful_lines(path: Path) -> list[str]:
    """The stripped lines of a text file that are neither empty nor comments."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    return [line for raw in text.splitlines() if (line := raw.strip()) and not line.startswith(("#", "//"))]


def _separator(line: str) -> str | None:
    return next((mark for mark in ";," if mark in line), None)


def _fields(line: str, separator: str | None) -> list[str]:
    return [field.strip().strip('"') for field in line.split(separator)]


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _read_text(path: Path) -> _Parsed:
    """Rows of numbers, xyz first unless a header says otherwise; of the columns past xyz only colors are read."""
    rows, declared, columns, past = _without_lead(_meaningful_lines(path), path.suffix.lower() == ".pts")
    if not rows:
        return _Parsed(np.empty((0, 3)))
    separator = _separator(rows[0])
    try:
        xyz = np.loadtxt(rows, delimiter=separator, usecols=columns, comments=None, quotechar='"', ndmin=2)
    except ValueError as error:
        raise UserError(_bad_row(path, rows, separator, columns)) from error
    if len(_fields(rows[-1], separator)) < len(_fields(rows[0], separator)):
        raise UserError(f"{path}: the last line has fewer columns than the first; the file is cut short, copy it again")
    if declared is not None:
        _require_whole(path, "points", len(xyz), declared)
    if past is None:
        return _Parsed(xyz)
    try:
        colors = np.loadtxt(rows, delimiter=separator, usecols=past, comments=None, quotechar='"', ndmin=2)
    except ValueError:
        return _Parsed(xyz)
    return _Parsed(xyz, _as_colors(colors))


def _as_colors(columns: np.ndarray) -> np.ndarray | None:
    """Three columns as colors in [0, 1]: whole numbers up to 255, or others up to 1. Numbers below 0, such as those of
    normals, are not, nor nothing but 0 and 1, which may be either.
    """
    if columns.ndim != 2 or columns.shape[1] != 3 or columns.dtype.kind not in "fiu" or not len(columns):
        return None
    least, most, whole = columns.min(), columns.max(), bool((columns == np.floor(columns)).all())
    if least >= 0 and most <= 1:
        return None if whole else columns.astype(np.float64)
    return columns / 255 if least >= 0 and most <= 255 and whole else None


def _without_lead(
    lines: list[str], intensity: bool
) -> tuple[list[str], int | None, Sequence[int], Sequence[int] | None]:
    """The rows of numbers, the count declared above them, the columns of x, y and z, and those that may be colors.

    intensity: whether one stands in front of the colors of seven columns without names.
    """
    declared, columns, past = None, (0, 1, 2), (3, 4, 5)
    if lines and lines[0].isdecimal():
        declared, lines = int(lines[0]), lines[1:]
    if lines:
        names = [name.lower() for name in _fields(lines[0], _separator(lines[0]))]
        if not any(_is_number(name) or re.match(r"[-+.\d]", name) for name in names):
            lines = lines[1:]
            if {"x", "y", "z"} <= set(names):
                columns = tuple(names.index(axis) for axis in "xyz")
            colors = next((c for c in (("red", "green", "blue"), ("r", "g", "b")) if set(c) <= set(names)), None)
            past = None if colors is None else tuple(names.index(color) for color in colors)
        elif intensity and len(names) == 7:
            past = (4, 5, 6)
    return lines, declared, columns, past


def _bad_row(path: Path, rows: list[str], separator: str | None, columns: Sequence[int]) -> str:
    def is_bad(row: str) -> bool:
        fields = _fields(row, separator)
        return len(fields) <= max(columns) or not all(_is_number(fields[column]) for column in columns)

    bad = next(filter(is_bad, rows), rows[0])
    raw = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    number = 1 + next(index for index, line in enumerate(raw) if line.strip() == bad)
    return f"{path}: line {number} is {bad[:60]!r} where numbers x, y and z are expected; correct or remove the line"


def _read_off(path: Path) -> _Parsed:
    """Object File Format, also with the counts on the header's line as in ModelNet ("OFF123 456 0")."""
    lines = _meaningful_lines(path)
    header = re.fullmatch(r"(?:ST)?C?N?OFF(.*)", lines[0]) if lines else None
    if header is None:
        raise UserError(f"{path}: does not begin with OFF as an OFF file does; check that its suffix is right")
    joined = header[1].strip()
    counts, body = (joined, lines[1:]) if joined else (lines[1], lines[2:])
    vertex_count, face_count = map(int, counts.split()[:2])
    _require_whole(path, "vertices and faces", len(body), vertex_count + face_count)
    if vertex_count == 0:
        return _Parsed(np.empty((0, 3)))
    xyz = np.loadtxt(body[:vertex_count], usecols=(0, 1, 2), ndmin=2)  # (V, 3)
    return _Parsed(xyz, faces=_triangles(body[vertex_count : vertex_count + face_count]))


def _triangles(lines: list[str]) -> np.ndarray | None:
    """(F, 3): the faces "n i j k ..." with polygons cut into fans; None without faces."""
    if not lines:
        return None
    if all(line.startswith(("3 ", "3\t")) for line in lines):
        return np.loadtxt(lines, dtype=np.int64, usecols=(1, 2, 3), ndmin=2)
    triangles = []
    for line in lines:
        size, *rest = map(int, line.split("#")[0].split()[: 1 + int(line.split()[0])])
        if len(rest) < size:
            raise ValueError(f"a face declares {size} vertices but names {len(rest)}")
        triangles += [(rest[0], rest[i], rest[i + 1]) for i in range(1, size - 1)]
    return np.array(triangles, np.int64).reshape(-1, 3)


def _read_with_trimesh(path: Path) -> _Parsed:
    try:
        import trimesh
    except ImportError as error:
        raise _needs("trimesh", path, "pip install trimesh") from error
    log = logging.getLogger("trimesh")
    if not log.handlers:  # else Python prints the tracebacks trimesh logs of broken files to stderr
        log.addHandler(logging.NullHandler())
    scene: Any = trimesh.load(path, force="scene", process=False)
    points, colors, faces, offset = [], [], [], 0
    for node in scene.graph.nodes_geometry:
        transform, name = scene.graph[node]
        geometry = scene.geometry[name]
        points.append(trimesh.transform_points(geometry.vertices, transform))
        colors.append(_trimesh_colors(geometry))
        faces.append(offset + np.asarray(getattr(geometry, "faces", np.empty((0, 3), np.int64))))
        offset += len(points[-1])
    if not points:
        return _Parsed(np.empty((0, 3)))
    parsed = _Parsed(
        np.concatenate(points),
        None if any(part is None for part in colors) else np.concatenate(colors),
        np.concatenate(faces),
    )
    if path.suffix.lower() == ".ply":
        _check_ply_counts(path, parsed)
    return parsed


def _trimesh_colors(geometry: Any) -> np.ndarray | None:
    colors = getattr(geometry, "colors", None)
    if colors is None and geometry.visual.kind == "vertex":
        colors = geometry.visual.vertex_colors
    if colors is None or len(colors) != len(geometry.vertices):
        return None
    return np.asarray(colors)[:, :3] / 255


def _check_ply_counts(path: Path, parsed: _Parsed) -> None:
    """trimesh takes a PLY text that ends early for a smaller cloud."""
    header = path.read_bytes().split(b"end_header", 1)[0]
    declared = {name: int(count) for name, count in re.findall(rb"(?m)^element\s+(vertex|face)\s+(\d+)", header)}
    _require_whole(path, "vertices", len(parsed.xyz), declared.get(b"vertex", 0))
    _require_whole(path, "faces", 0 if parsed.faces is None else len(parsed.faces), declared.get(b"face", 0))


def _read_numpy(path: Path) -> _Parsed:
    stored = np.load(path, allow_pickle=False)
    if isinstance(stored, np.ndarray):
        return _Parsed(stored, _as_colors(stored[..., 3:6]))
    with stored:
        names = stored.files
        if "points" not in names and len(names) != 1:
            raise UserError(
                f"{path}: holds the arrays {', '.join(names) or '(none)'} where one named 'points' is expected; rename"
                " the array with the coordinates"
            )
        points = stored["points" if "points" in names else names[0]]
        return _Parsed(points, _as_colors(points[..., 3:6]))


def _read_pcd(path: Path) -> _Parsed:
    try:
        from pypcd4 import PointCloud  # pyright: ignore[reportPrivateImportUsage]
    except ImportError as error:
        raise _needs("pypcd4", path, "pip install 'bipointnet[pcd]'") from error
    cloud = PointCloud.from_path(path)
    missing = {"x", "y", "z"} - set(cloud.fields)
    if missing:
        raise UserError(f"{path}: has the fields {' '.join(cloud.fields)} where x, y and z are expected; rename them")
    xyz = cloud.numpy(("x", "y", "z"))
    _require_whole(path, "points", len(xyz), cloud.points)
    if "rgb" not in cloud.fields or len(xyz) == 0:
        return _Parsed(xyz)
    packed = np.ascontiguousarray(cloud.pc_data["rgb"])
    return _Parsed(xyz, PointCloud.decode_rgb(packed) / 255)


def _read_las(path: Path) -> _Parsed:
    try:
        import laspy
    except ImportError as error:
        raise _needs("laspy", path, "pip install 'bipointnet[las]'") from error
    if path.suffix.lower() == ".laz" and not laspy.LazBackend.detect_available():
        raise _needs("a LAZ backend", path, "pip install 'bipointnet[las]'")
    _check_las_header(path)
    las: Any = laspy.read(path)
    xyz = np.asarray(las.xyz)
    _require_whole(path, "points", len(xyz), las.header.point_count)
    if not {"red", "green", "blue"} <= set(las.point_format.dimension_names):
        return _Parsed(xyz)
    colors = np.stack([las.red, las.green, las.blue], axis=1)  # (N, 3) uint16
    # The format asks for 16 bits a channel, many writers leave 8 bits in them.
    return _Parsed(xyz, colors / (255 if colors.max(initial=0) <= 255 else 65535))


def _check_las_header(path: Path) -> None:
    """laspy believes the counts of a damaged header, and reads on for hours and gigabytes after records not there."""
    with open(path, "rb") as file:
        header, size = file.read(375), path.stat().st_size
    if len(header) < 227 or not header.startswith(b"LASF"):
        raise UserError(f"{path}: does not begin as a LAS file does; check that its suffix is right, or copy it again")
    points_at, record_count = struct.unpack_from("<II", header, 96)
    point_count = struct.unpack_from("<I", header, 107)[0]
    extended_count = 0
    if header[24:26] >= b"\x01\x04" and len(header) == 375:
        extended_count, point_count = struct.unpack_from("<IQ", header, 243)
    # A record has 54 bytes, an extended one 60; LAZ stores one whole point (20 bytes or more) for some 50,000.
    if 54 * record_count > points_at or points_at > size or 60 * extended_count > size or point_count > 2500 * size:
        raise UserError(f"{path}: its header declares more than its {size} bytes can hold; copy it again")


_PARSERS: dict[str, Callable[[Path], _Parsed]] = {
    ".ply": _read_with_trimesh,
    ".off": _read_off,
    ".obj": _read_with_trimesh,
    ".stl": _read_with_trimesh,
    ".glb": _read_with_trimesh,
    ".gltf": _read_with_trimesh,
    ".xyz": _read_text,
    ".txt": _read_text,
    ".csv": _read_text,
    ".pts": _read_text,
    ".npy": _read_numpy,
    ".npz": _read_numpy,
    ".pcd": _read_pcd,
    ".las": _read_las,
    ".laz": _read_las,
}

SUFFIXES = tuple(_PARSERS)
