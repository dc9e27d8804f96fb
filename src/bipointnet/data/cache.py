"""Caches on disk: arrays that take seconds or minutes to compute, and one small entry per cloud file.

Every file is written beside its final place and renamed, so two processes may share a cache. A file that is damaged or
cut short is computed again; it is never an error. A folder that cannot be written is no error either.
"""

import contextlib
import hashlib
import io
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bipointnet.data.arrays import load_arrays
from bipointnet.files import write_beside

ENTRY_BYTES = 4 << 30  # the bound on all entries of cloud files together; ModelNet40 with 1024 points takes 0.3 GB
_DIGEST_BYTES = 16
_HEAD = struct.Struct("<16s8sQQI")  # digest of all that follows, fingerprint, points, points left out, columns
_STALE_SECONDS = 3600  # a temporary file that is older was left by a process that was killed


def cache_folder() -> Path:
    """The folder BIPOINTNET_CACHE if that is set, otherwise bipointnet/ in the user's cache folder."""
    chosen = os.environ.get("BIPOINTNET_CACHE")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bipointnet"
    except RuntimeError:  # a container whose user has no name and no home
        user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
        return Path(tempfile.gettempdir()) / f"bipointnet{user}"


def cached(
    name: str, key: object, make: Callable[[], Mapping[str, np.ndarray]], bound: int | None = None
) -> dict[str, np.ndarray]:
    """The arrays that `make()` returns, from the cache if it holds this `key`.

    The repr of `key` must contain everything that the arrays depend on. bound: the most bytes of all arrays of this
    `name`; those used longest ago are removed.

    >>> cached("squares", ("squares", 1, 4), lambda: {"x": np.arange(4) ** 2})["x"].tolist()
    [0, 1, 4, 9]
    """
    path = cache_folder() / f"{name}-{_digest(key)[:16]}.npz"
    stored = _load_whole(path)
    if stored is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
        return stored
    arrays = dict(make())
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    buffer.write(_checksum(buffer.getbuffer()))
    with contextlib.suppress(OSError):
        write_beside(path, buffer.getvalue())
        if bound is not None:
            _remove_oldest(path, bound)
    return arrays


def _load_whole(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file that ends with the digest of all before it; None if there is none or it is damaged.

    The checksums in an archive do not cover its list of arrays.
    """
    try:
        content = np.memmap(path, np.uint8, "r").data
        end = max(len(content) - _DIGEST_BYTES, 0)
        if content[end:] != _checksum(content[:end]):
            return None
        return load_arrays(path)
    except (OSError, ValueError):  # ValueError: an empty file
        return None


def _remove_oldest(newest: Path, bound: int) -> None:
    """Remove the arrays of the name of `newest` that were used longest ago, until all take at most `bound` bytes."""
    name = newest.name.rpartition("-")[0]
    found = [(path.stat().st_mtime, path.stat().st_size, path) for path in newest.parent.glob(f"{name}-*.npz")]
    excess = sum(size for _, size, _ in found) - bound
    for _, size, path in sorted(found):
        if excess > 0 and path != newest:
            path.unlink(missing_ok=True)
            excess -= size


class Entry(NamedTuple):
    """What is kept of one cloud file.

    rows: (P, C) float32, the points that were drawn. points: how many the file holds, 0 for a mesh. fingerprint: 8
    bytes that identify the file's content. dropped: points without finite coordinates, which were left out.
    """

    rows: np.ndarray
    points: int
    fingerprint: bytes
    dropped: int = 0


def load_entry(key: object) -> Entry | None:
    """The entry with this key, or None if there is none or it is damaged."""
    path = _entry_path(key)
    try:
        content = path.read_bytes()
        digest, fingerprint, points, dropped, columns = _HEAD.unpack_from(content)
        if digest != _checksum(content[16:]):
            return None
        rows = np.frombuffer(content, "<f4", offset=_HEAD.size).reshape(-1, columns)
    except (OSError, ValueError, struct.error):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # prune() removes the entries that were not used for the longest time
    return Entry(rows, points, fingerprint, dropped)


def save_entry(key: object, entry: Entry) -> None:
    """Keep an entry. There is no fsync: its cost is high for many small files, and the digest reveals lost bytes."""
    path = _entry_path(key)
    head = _HEAD.pack(b"", entry.fingerprint, entry.points, entry.dropped, entry.rows.shape[1])
    tail = head[16:] + entry.rows.astype("<f4").tobytes()
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(_checksum(tail) + tail)
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def prune(since: float, bound: int | None = None) -> None:
    """Remove the entries used longest ago until all together take at most `bound` bytes (default: ENTRY_BYTES).

    Entries used after the time `since` stay, also above the bound: a data set never removes its own entries.
    """
    found: list[tuple[float, int, Path]] = []
    for folder in _entry_folder().glob("*"):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for file in entries:
                status = file.stat()
                found.append((status.st_mtime, status.st_size, Path(file.path)))
    excess = sum(size for _, size, _ in found) - (ENTRY_BYTES if bound is None else bound)
    for used, size, path in sorted(found):
        stale = path.suffix == ".part" and used < time.time() - _STALE_SECONDS
        if stale or (excess > 0 and used < since and path.suffix != ".part"):
            with contextlib.suppress(OSError):
                path.unlink()
                excess -= size


def _entry_folder() -> Path:
    return cache_folder() / "clouds"


def _entry_path(key: object) -> Path:
    name = _digest(key)
    return _entry_folder() / name[:2] / name[2:40]


def _digest(key: object) -> str:
    return hashlib.sha256(repr(key).encode()).hexdigest()


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
