"""Arrays that take seconds or minutes to make are made once and kept."""

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
    """BIPOINTNET_CACHE if set, else bipointnet/ in the user's cache folder."""
    chosen = os.environ.get("BIPOINTNET_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bipointnet"


def cached(name: str, key: object, make: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays `make()` returns, read back from the cache when `key` was made before.

    `key` is anything whose repr names all that the arrays depend on. A file that cannot be read is made anew; a folder
    that cannot be written costs only the time next time.
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
