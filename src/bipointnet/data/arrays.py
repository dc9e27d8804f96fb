"""Arrays in .npy and .npz files, which NumPy reads in one thread at a time.

NumPy parses their headers as Python source. In CPython 3.11 and early 3.12 this fails now and then while another thread
parses too: SystemError, "AST constructor recursion depth mismatch" (python/cpython#106905).
"""

import threading
from pathlib import Path
from typing import Literal

import numpy as np

_parsing = threading.Lock()


def load_array(path: Path, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """The array in a .npy file; mmap_mode "r": not yet read. ValueError for an archive.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(path, np.arange(3))
    >>> load_array(path).tolist()
    [0, 1, 2]
    """
    with _parsing:
        found = np.load(path, mmap_mode, allow_pickle=False)
    if not isinstance(found, np.ndarray):
        found.close()
        raise ValueError("an archive")
    return found


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays in a .npz file, by name."""
    with _parsing, np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
