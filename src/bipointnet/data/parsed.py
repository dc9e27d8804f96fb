"""What the readers of files share: the unchecked content of a file, and errors that several of them raise."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.errors import UserError


@dataclass(frozen=True)
class Parsed:
    """The content of a file before it is checked: xyz (N, 3) of any real type, colors in [0, 1], faces (F, 3)."""

    xyz: np.ndarray
    colors: np.ndarray | None = None
    faces: np.ndarray | None = None

    @classmethod
    def nothing(cls) -> "Parsed":
        """The content of a file without points."""
        return cls(np.empty((0, 3)))


def as_colors(columns: np.ndarray) -> np.ndarray | None:
    """Three columns of a table as colors in [0, 1], or None if they are something else.

    Colors are whole numbers up to 255, or other numbers up to 1. Columns with negative numbers are not colors: they may
    be normals. Columns of only 0 and 1 are ambiguous and not taken for colors.
    """
    if columns.ndim != 2 or columns.shape[1] != 3 or columns.dtype.kind not in "fiu" or not len(columns):
        return None
    least, most, whole = columns.min(), columns.max(), bool((columns == np.floor(columns)).all())
    if least >= 0 and most <= 1:
        return None if whole else columns.astype(np.float64)
    return columns / 255 if least >= 0 and most <= 255 and whole else None


def require_whole(path: Path, what: str, found: int, declared: int) -> None:
    """UserError for a file that holds fewer points, vertices or faces than its header declares."""
    if found < declared:
        raise UserError(f"{path}: declares {declared} {what} but holds {found}; the file is cut short, copy it again")


def missing_package(package: str, path: Path, install: str) -> UserError:
    return UserError(f"{path}: reading {path.suffix.lower()} needs {package}; install it with: {install}")


def unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be read ({error.strerror}); check the file and its permissions")


def is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
