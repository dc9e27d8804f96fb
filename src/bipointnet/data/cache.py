"""A cache on disk for arrays that take seconds or minutes to compute."""

import contextlib
import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bipointnet.files import write_beside


def cache_folder() -> Path:
    """The folder BIPOINTNET_CACHE if that is set, otherwise bipointnet/ in the user's cache folder."""
    chosen = os.environ.get("BIPOINTNET_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bipointnet"


def cached(name: str, key: object, make: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays that `make()` returns, from the cache if it holds this `key`.

    The repr of `key` must contain everything that the arrays depend on. A cached file that cannot be read is computed
    again. A folder that cannot be written is no error; the arrays are then computed again next time.

    >>> cached("squares", ("squares", 1, 4), lambda: {"x": np.arange(4) ** 2})["x"].tolist()
    [0, 1, 4, 9]
    """
    path = cache_folder() / f"{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {k: stored[k] for k in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        pass
    arrays = dict(make())
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    with contextlib.suppress(OSError):
        write_beside(path, buffer.getvalue())
    return arrays
