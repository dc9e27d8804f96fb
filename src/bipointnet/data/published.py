"""The files in which data sets are published: lists of names, text with numbers, and HDF5, all checked."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bipointnet.data.clouds import require_finite, require_points
from bipointnet.data.dataset import Split
from bipointnet.data.parsed import unreadable
from bipointnet.errors import UserError
from bipointnet.extras import install_hint


def text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such file, but this layout needs it; unpack the data again") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not a readable list of names; unpack the data again") from error


def lines(path: Path) -> list[str]:
    """The lines of a list without the empty ones; at least one."""
    found = [stripped for line in text(path).splitlines() if (stripped := line.strip())]
    if not found:
        raise UserError(f"{path}: the list is empty, expected one name per line; unpack the data again")
    return found


def require_listed(file: Path, listing: Path) -> None:
    if not file.is_file():
        raise UserError(f"{file}: there is no such file, but {listing.name} names it; unpack the data again")


def listed_files(listing: Path) -> list[Path]:
    """The files of a list. Its lines are paths on the machine that wrote it; only the last component counts."""
    files = [listing.parent / Path(line).name for line in lines(listing)]
    for file in files:
        require_listed(file, listing)
    return files


def numbers(file: Path, columns: Sequence[str]) -> np.ndarray:
    """(N, len(columns)) float64: a text file with these numbers in every line; the names are used in errors."""
    # One published line of S3DIS has a control character instead of a space (Area_5, hallway_6).
    content = _bytes(file).replace(b"\x10", b" ")
    if not content.strip():
        raise UserError(f"{file}: the file is empty; unpack the data again")
    try:
        found = np.loadtxt(io.BytesIO(content), comments=None, ndmin=2)
    except ValueError:
        found = None
    if found is None or found.shape[1] != len(columns):
        rows = list(enumerate(content.decode("latin-1").split("\n"), 1))
        number, row = next((each for each in rows if not _is_row(each[1], len(columns))), rows[0])
        raise UserError(
            f"{file}: line {number} is {row.strip()[:60]!r}, expected the {len(columns)} numbers {' '.join(columns)};"
            " correct or remove the line, or unpack the data again"
        )
    return found


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise unreadable(file, error) from error


def _is_row(row: str, columns: int) -> bool:
    fields = row.split()
    try:
        return len([float(field) for field in fields]) in (columns, 0)
    except ValueError:
        return False


def hdf5_arrays(file: Path, names: Sequence[str]) -> list[np.ndarray]:
    """The arrays with these names, as stored."""
    try:
        import h5py
    except ImportError as error:
        raise UserError(f"{file}: reading HDF5 needs h5py; install it with: {install_hint('h5py')}") from error
    try:
        with h5py.File(file, "r") as stored:
            found = ", ".join(stored) or "nothing"
            parts = {name: stored[name] for name in names if name in stored}
            arrays = {name: part[()] for name, part in parts.items() if isinstance(part, h5py.Dataset)}
    except Exception as error:  # h5py has no error type of its own: a truncated file raises OSError, RuntimeError, ...
        raise UserError(
            f"{file}: is not a whole HDF5 file; it may be cut short, unpack or download it again"
        ) from error
    for name in names:
        if not isinstance(arrays.get(name), np.ndarray):
            raise UserError(f"{file}: has no array '{name}' (it holds {found}); unpack the data again")
    return [arrays[name] for name in names]


def checked_clouds(file: Path, data: np.ndarray, channels: int, points: int) -> np.ndarray:
    """The array `data` of a file as (M, P, channels) float32: finite, with at least one cloud and `points` points."""
    if data.ndim != 3 or data.shape[2] != channels or data.dtype.kind != "f" or len(data) == 0:
        raise UserError(
            f"{file}: 'data' is {data.dtype} of shape {data.shape}, expected float32 of shape (clouds, points,"
            f" {channels}); unpack the data again"
        )
    require_points(data.shape[1], points, file)
    data = data.astype(np.float32, copy=False)
    broken = np.flatnonzero(~np.isfinite(data).all(axis=(1, 2)))
    if len(broken):
        require_finite(data[broken[0]], f"{file}, cloud {broken[0]}")
    return data


def cloud_labels(file: Path, label: np.ndarray, count: int, classes: int, named_in: str) -> np.ndarray:
    """The array `label` of a file with `count` clouds as (count,) int64; `named_in` is the file with the classes."""
    if label.shape not in ((len(label),), (len(label), 1)) or label.dtype.kind not in "iu":
        raise UserError(
            f"{file}: 'label' is {label.dtype} of shape {label.shape}, expected whole numbers of shape (clouds, 1);"
            " unpack the data again"
        )
    if len(label) != count:
        raise UserError(f"{file}: has {len(label)} labels for {count} clouds; unpack the data again")
    labels = label.reshape(-1).astype(np.int64)
    beyond = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(beyond):
        raise UserError(
            f"{file}: cloud {beyond[0]} has the label {labels[beyond[0]]}, expected 0 to {classes - 1} for the"
            f" {classes} classes of {named_in}; restore the published {named_in}"
        )
    return labels


def point_labels(file: Path, name: str, label: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The array `name` of a file, one label per point of its clouds, as int64 of shape (M, P)."""
    if label.shape != shape or label.dtype.kind not in "iu":
        raise UserError(
            f"{file}: '{name}' is {label.dtype} of shape {label.shape}, expected whole numbers of shape {shape}, one"
            " per point; unpack the data again"
        )
    return label.astype(np.int64)


def join(parts: Sequence[tuple[Path, Split]]) -> Split:
    """Concatenate the clouds of several files, which must have one size."""
    first_file, first = parts[0]
    for file, part in parts:
        if part.points.shape[1] != first.points.shape[1]:
            raise UserError(
                f"{file}: has clouds of {part.points.shape[1]} points, expected {first.points.shape[1]} as in"
                f" {first_file.name}; keep files of one size in a folder"
            )
    labeled = [part.point_labels for _, part in parts if part.point_labels is not None]
    return Split(
        np.concatenate([part.points for _, part in parts]),
        np.concatenate([part.labels for _, part in parts]),
        np.concatenate(labeled) if labeled else None,
    )
