"""One point cloud or mesh: read it from a file of any format, and sample its points."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data import solids
from bipointnet.data.mesh_files import read_off, read_with_trimesh
from bipointnet.data.parsed import Parsed
from bipointnet.data.scan_files import read_las, read_numpy, read_pcd
from bipointnet.data.shuffle import Ranks
from bipointnet.data.text_files import read_text
from bipointnet.errors import UserError

_PARSERS: dict[str, Callable[[Path], Parsed]] = {
    ".ply": read_with_trimesh,
    ".off": read_off,
    ".obj": read_with_trimesh,
    ".stl": read_with_trimesh,
    ".glb": read_with_trimesh,
    ".gltf": read_with_trimesh,
    ".xyz": read_text,
    ".txt": read_text,
    ".csv": read_text,
    ".pts": read_text,
    ".npy": read_numpy,
    ".npz": read_numpy,
    ".pcd": read_pcd,
    ".las": read_las,
    ".laz": read_las,
}

SUFFIXES = tuple(_PARSERS)


@dataclass(frozen=True)
class Cloud:
    """The content of a file.

    Attributes:
        points: (N, 3) float32, finite; the vertices if the file is a mesh.
        colors: (N, 3) float32 in [0, 1], or None.
        faces: (F, 3) int64 indices into points, or None if the file holds points only.
        origin: the offset that was subtracted from the file's coordinates. It is not zero only for clouds whose
            distance from zero is so large for their size (georeferenced scans) that float32 would flatten them.

    >>> Cloud(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32), faces=np.array([[0, 1, 2]])).origin
    (0.0, 0.0, 0.0)
    """

    points: np.ndarray
    colors: np.ndarray | None = None
    faces: np.ndarray | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)


def read(path: str | Path) -> Cloud:
    """Read the cloud or mesh in a file; the suffix (one of SUFFIXES) determines the format.

    Raises a UserError if the file cannot be read or holds no points.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "triangle.xyz"
    >>> _ = path.write_text("0 0 0\\n1 0 0\\n0 1 0\\n")
    >>> read(path).points.tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: there is no such file; check the path")
    if path.is_dir():
        raise UserError(f"{path}: is a folder, expected a file with one cloud; choose a file in it")
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise UserError(f"{path}: unknown suffix '{path.suffix}'; expected one of {' '.join(SUFFIXES)}")
    try:
        if path.stat().st_size == 0:
            raise UserError(f"{path}: the file is empty; copy it again from its source")
        parsed = parse(path)
    except UserError:
        raise
    except Exception as error:  # other libraries parse the file: what they raise for a broken one is not documented
        raise UserError(f"{path}: {_why_unreadable(path, error)}") from error
    return _checked(path, parsed)


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
            f"{source}: holds {found} points, expected at least {wanted}; pass --points {found} or fewer, or leave"
            " this cloud out"
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


def _checked(path: Path, parsed: Parsed) -> Cloud:
    xyz = _numeric(path, parsed.xyz)
    if len(xyz) == 0:
        raise UserError(f"{path}: holds no points, expected at least one; export it again from its source")
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
        raise UserError(f"{path}: holds an array of shape {xyz.shape}, expected (points, 3); reshape it")
    if xyz.dtype.kind not in "fiu":
        raise UserError(f"{path}: holds values of type {xyz.dtype}, expected numbers like float32; convert it")
    with np.errstate(invalid="ignore"):  # a signaling NaN; require_finite reports it
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
            f"{path}: face {outside[0]} has the vertices {faces[outside[0]].tolist()}, expected 0 to {len(points) - 1};"
            " export the mesh again from its source"
        )
    if not _surface(points, faces).areas().sum() > 0:
        raise UserError(f"{path}: the {len(faces)} faces have no area, so no point can be sampled; repair the mesh")


def _why_unreadable(path: Path, error: Exception) -> str:
    # trimesh guesses the encoding of a text it cannot decode with a package that may not be installed.
    reason = "" if isinstance(error, ImportError) else " ".join(str(error).split())[:120]
    found = f" ({reason})" if reason else ""
    return f"is not a whole {path.suffix.lower()} file{found}; check that its suffix is right, or export it again"
