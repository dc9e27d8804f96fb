"""What the readers of files share: the content of a file before the core checks it, and errors."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bipointnet.errors import UserError


class Table(NamedTuple):
    """The columns of a file.

    format: the format in words. names: one per column. bits: of an unsigned integer type that the file declares, like 8
    for a byte; else 0. columns: (C, N) float64. faces: (F, 3) int64, or None.
    """

    format: str
    names: list[str]
    bits: list[int]
    columns: np.ndarray
    faces: np.ndarray | None = None
    notes: tuple[str, ...] = ()


class CoreFile(NamedTuple):
    """A file in a format that the core reads, once it is decompressed; suffix: of this format."""

    suffix: str
    data: bytes


def unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be read ({error.strerror}); check the file and its permissions")


def not_whole(path: Path, error: BaseException) -> str:
    """What is wrong with a file that a library could not parse; the library's own words are part of it."""
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return f"is not a whole {path.suffix.lower()} file ({reason}); check that its suffix is right, or export it again"
