"""Files that are never half-written: the bytes go to temporary files beside the targets, which then replace them.

A process that is killed leaves its temporary file behind; the next write to the same target removes it. A process that
is still writing holds a lock on its temporary file, so no other process removes it.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: leftovers stay, since a lock would keep the file from being renamed
    fcntl = None

_PREFIX = ".bipointnet-"


def write_beside(path: Path, content: bytes) -> None:
    """Replace `path` with `content` atomically: if the process is killed, the old file or the new one remains.

    An OSError names `path`. A device or a pipe is written to directly.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new" / "a.txt"
    >>> write_beside(path, b"hello")
    >>> path.read_text()
    'hello'
    """
    write_all({path: content})


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Replace several files, each atomically, once all of them are on disk: if one cannot be written, none changes.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_all({folder / "a.txt": b"1", folder / "b.txt": b"2"})
    >>> sorted(path.name for path in folder.iterdir())
    ['a.txt', 'b.txt']
    """
    with ExitStack() as stack:
        written: list[tuple[Path, Path]] = []
        for path, content in contents.items():
            try:
                target = Path(os.path.realpath(path))  # a link stays a link
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.exists() and not target.is_file():
                    target.write_bytes(content)
                else:
                    written.append((_write_temporary(target, content, stack), target))
            except OSError as error:
                raise _naming(path, error) from error
        for temporary, target in written:
            try:
                os.replace(temporary, target)
            except OSError as error:
                raise _naming(target, error) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it replaces `path` if the block ends without an error.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(path) as temporary:
    ...     _ = temporary.write_text("hello")
    >>> path.read_text()
    'hello'
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    with ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = _write_temporary(target, b"", stack)
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, target)
        except OSError as error:
            raise _naming(path, error) from error


def lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed; False if it is locked already. True where there are no locks."""
    if fcntl is not None:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that processes left in a folder when they were killed.

    >>> remove_leftovers(Path("no such folder"))
    """
    _remove_leftovers(folder, _PREFIX)


def _write_temporary(target: Path, content: bytes, stack: ExitStack) -> Path:
    """Write a temporary file beside the target; the stack closes it, and removes it if it is still there."""
    # A hash, since the name of the target may be as long as a name can be.
    prefix = f"{_PREFIX}{hashlib.blake2b(os.fsencode(target.name), digest_size=6).hexdigest()}-"
    _remove_leftovers(target.parent, prefix)
    while True:
        temporary = target.with_name(f"{prefix}{secrets.token_hex(4)}.part")
        stack.callback(temporary.unlink, missing_ok=True)
        file = stack.enter_context(FileIO(temporary, "x"))
        _lock(file)
        if temporary.exists():  # else another process took it for a leftover before it was locked
            break
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())
    if fcntl is None:
        file.close()
    return temporary


def _lock(file: FileIO) -> None:
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks, on which no other process gets one either
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)


def _remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove the temporary files of processes that have ended: those that can be locked."""
    if fcntl is None:
        return
    with suppress(OSError):  # a folder that may be written but not listed
        for name in os.listdir(folder):
            if name.startswith(prefix):
                with suppress(OSError), open(folder / name, "rb") as file:  # locked, or gone by now
                    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(folder / name)


def _naming(path: Path, error: OSError) -> OSError:
    """The same error with the name of the target; OSError chooses the subclass by the number."""
    return OSError(error.errno, error.strerror, os.fspath(path))
