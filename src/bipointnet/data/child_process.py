"""Libraries that may abort on a damaged file, in child processes with limits on memory and time.

A child is started for the first file and reused for the next ones; several threads have one each. If it dies, the file
is refused and the next file starts a new one. A request is a line of JSON. A reply is a sequence of parts, each after
its length in 8 bytes; a part of length 0 ends the data, and the last part describes it in JSON.
"""

import atexit
import contextlib
import importlib
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from bipointnet.data.parsed import CoreFile, Table, not_whole
from bipointnet.errors import UserError

_MEMORY = 256 << 20  # bytes of address space beside the libraries, plus 64 times the size of the file
_MEMORY_FOR_PARTS = 1 << 30  # the same for a file that is read in parts
_SECONDS = 4  # of processor time, plus one per megabyte of the file
_MOST_SECONDS = 3600  # for points that a file declares
_MOST_BYTES = 32 << 20  # of the content, plus 100 times the size of the file
_PART = 1 << 20

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from bipointnet.data.child_process import serve; serve()"
)
# One thread: each one more would reserve address space, which is limited.
_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
}


def read(path: Path) -> Table | CoreFile:
    """The content of a file that `scan_libraries` reads; UserError if the child refuses it or dies."""
    size = path.stat().st_size
    data, answer = _request(path, "content", _MEMORY + 64 * size, _MOST_BYTES + 100 * size)
    if "suffix" in answer:
        return CoreFile(answer["suffix"], bytes(data))
    columns = np.frombuffer(data, np.float64).reshape(len(answer["names"]), -1)
    return Table(answer["format"], answer["names"], answer["bits"], columns, None, tuple(answer["notes"]))


def laz_extremes(path: Path, points: int) -> bytearray:
    """`LasParts.find_extremes` of a LAZ file, as bytes; UserError if the child refuses it or dies.

    points: how many the file declares.
    """
    return _request(path, "extremes", _MEMORY_FOR_PARTS, _MOST_BYTES, min(points // 1_000_000, _MOST_SECONDS))[0]


def _request(path: Path, what: str, memory: int, most: int, more_seconds: int = 0) -> tuple[bytearray, dict[str, Any]]:
    """What a child finds in a file: bytes, at most `most`, and their description."""
    seconds = _SECONDS + path.stat().st_size // 1_000_000 + more_seconds
    # A child stays in the folder in which it was started; this process may be in another one now.
    request = {"what": what, "path": str(path.absolute()), "memory": memory, "seconds": seconds}
    child = _idle_child(path)
    try:
        # A backstop: the child's own limit counts processor time only.
        timer = threading.Timer(60 + 10 * seconds, child.kill)
        timer.daemon = True
        timer.start()
        try:
            data, answer = _ask(child, request, most)
        finally:
            timer.cancel()
    except _Died:
        status = _stop(child, patience=5)  # it is ending; its own status says why
        raise UserError(f"{path}: {_why(status, path.suffix.lower(), seconds)}") from None
    except BaseException:
        _stop(child)
        raise
    with _lock:
        _idle.append(child)
    if "error" in answer:
        raise UserError(f"{path}: {answer['error']}")
    return data, answer


# The parent's side

_Child = subprocess.Popen[bytes]
_children: set[_Child] = set()  # all that run: an interrupt may come before a busy one is waited for
_idle: list[_Child] = []
_lock = threading.Lock()


class _Died(Exception):
    """The child ended before its reply did."""


def _idle_child(path: Path) -> _Child:
    with _lock:
        while _idle:
            child = _idle.pop()
            if child.poll() is None:
                return child
            _stop(child)
    command = [sys.executable, "-c", _START, json.dumps(sys.path)]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,  # Ctrl-C in a terminal reaches the parent only, which then stops the child
        )
    except OSError as error:
        raise UserError(
            f"{path}: cannot start {sys.executable} ({error.strerror}) to read this format; check its permissions"
        ) from error
    with _lock:
        _children.add(child)
    return child


def _ask(child: _Child, request: dict[str, Any], most: int) -> tuple[bytearray, dict[str, Any]]:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        # Past the buffer: a process that another thread forks now would write its copy of the buffer, too.
        rest = memoryview(json.dumps(request).encode() + b"\n")
        while rest:
            rest = rest[os.write(child.stdin.fileno(), rest) :]
    except OSError as error:  # a closed pipe
        raise _Died from error
    data = bytearray()
    while part := _read_part(child.stdout, most):
        data += part
        if len(data) > most:
            raise UserError(f"{request['path']}: expands to more than {most} bytes; the file is damaged, copy it again")
    return data, json.loads(_read_part(child.stdout, most))


def _read_part(pipe: IO[bytes], most: int) -> bytes:
    (length,) = struct.unpack("<Q", _exactly(pipe, 8))
    if length > max(most, _PART):
        raise _Died
    return _exactly(pipe, length)


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    found = pipe.read(count)
    if len(found) < count:
        raise _Died
    return found


def _why(status: int, suffix: str, seconds: int) -> str:
    import signal

    if status == -getattr(signal, "SIGXCPU", 0):
        return f"reading took more than {seconds} s of processor time; the file is damaged, copy it again"
    return f"the library that reads {suffix} crashed (status {status}); the file is damaged, copy it again"


def _stop(child: _Child, patience: float = 0.2) -> int:
    """Close its pipes, end a child after `patience` seconds, and return its status."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was not written yet does not matter
                pipe.close()
    status = child.poll()
    if status is None:
        try:
            status = child.wait(patience)
        except subprocess.TimeoutExpired:
            child.kill()
            status = child.wait()
    _children.discard(child)
    return status


def _stop_all() -> None:
    _idle.clear()
    for child in list(_children):
        child.kill()
        _stop(child)


def _forget_all() -> None:
    """In a forked process: the children belong to the process that started them."""
    global _lock
    _lock = threading.Lock()
    for child in _children:
        child.returncode = 0
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
    _idle.clear()
    _children.clear()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# The child's side


def serve() -> None:
    """Read the files that the parent names on standard input, until it closes it."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get into the replies
    for line in sys.stdin.buffer:
        request = json.loads(line)
        path = Path(request["path"])
        try:
            parse = _parser(request["what"], path)
            _limit(request["memory"], request["seconds"])
            answer = _send_all(replies, parse(path))
        except UserError as error:
            answer = {"error": str(error).removeprefix(f"{path}: ")}
        except MemoryError:
            answer = {"error": "declares more than fits into memory; the file is damaged, copy it again"}
        except BaseException as error:  # a panic of a library in Rust is no Exception
            answer = {"error": not_whole(path, error)}
        for part in (b"", json.dumps(answer).encode()):
            _send(replies, part)
        replies.flush()


def _parser(what: str, path: Path) -> Callable[[Path], Iterator[bytes | dict[str, Any]]]:
    """The function that reads what is asked for; the libraries that it needs are imported."""
    if what == "content":
        from bipointnet.data import scan_libraries

        return scan_libraries.parser_of(path.suffix.lower())
    from bipointnet.data import las_parts

    importlib.import_module("lazrs")
    return las_parts.send_extremes


def _send_all(replies: IO[bytes], content: Iterator[bytes | dict[str, Any]]) -> dict[str, Any]:
    """Send the bytes of a file's content; returns the description at its end."""
    for part in content:
        if isinstance(part, dict):
            return part
        for start in range(0, len(part), _PART):
            _send(replies, part[start : start + _PART])
    raise ValueError("the content has no end")


def _send(replies: IO[bytes], part: bytes) -> None:
    replies.write(struct.pack("<Q", len(part)))
    replies.write(part)


def _limit(memory: int, seconds: int) -> None:
    """Limit what the process may use from now on, where the operating system can."""
    try:
        import resource
    except ImportError:
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used_seconds = int(usage.ru_utime + usage.ru_stime) + 1
    _set_limit(resource.RLIMIT_CPU, used_seconds + seconds)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return
    _set_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)


def _set_limit(kind: int, value: int) -> None:
    import resource

    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    resource.setrlimit(kind, (value, most))
