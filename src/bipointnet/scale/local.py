"""The local engine: worker processes of this machine, each with a model of its own.

A worker is a program of its own (`python -m bipointnet.scale.worker`), so a script needs no guard around its main part,
and a worker that is killed, or that a library aborts, takes nothing else with it. Its files are then given to a new
worker, one by one; a file with which workers died several times becomes a row with an error. The actors of the engine
Ray have such workers, too.
"""

import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any

from bipointnet.errors import UserError
from bipointnet.scale.work import Row, Work

_LENGTH = struct.Struct("<Q")
_DEATHS = 5  # of workers with the same file, until the file is to blame
_STARTS = 10  # workers that end before they are ready, one after the other, until the job gives up


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message to a pipe."""
    send_bytes(stream, pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def send_bytes(stream: IO[bytes], message: bytes) -> None:
    """Write one message that is pickled already."""
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one message from a pipe; EOFError if the other process has ended."""
    return pickle.loads(receive_bytes(stream))


def receive_bytes(stream: IO[bytes]) -> bytes:
    """Read one message from a pipe, which is still pickled."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


class Closed(Exception):
    """A worker was closed while it was asked for rows."""


class Worker:
    """A worker process, started when it is needed, and anew if it dies.

    work: what it does. pickled: the same for the process, which must be able to import its class.
    """

    def __init__(self, work: Work, pickled: bytes) -> None:
        self._work, self._pickled = work, pickled
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._end = "was not started"  # how the last process ended

    def answers(self, paths: list[str]) -> Iterator[bytes]:
        """The rows of these files as pickled lists: of all at once, or one by one if the process dies with them.

        UserError if no process starts, Closed if the worker is closed meanwhile.
        """
        answer = self._answer(paths) if len(paths) > 1 else None
        if answer is not None:
            yield answer
            return
        for path in paths:
            tries = (self._answer([path]) for _ in range(_DEATHS))
            yield next(filter(None, tries), None) or pickle.dumps([self._lost(path)])

    def _answer(self, paths: list[str]) -> bytes | None:
        """The rows of these files, pickled; None if the process dies."""
        process = self._ready()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, paths)
            return receive_bytes(process.stdout)
        except (OSError, ValueError, EOFError):  # a pipe that is closed
            self._finish()
            return None

    def _ready(self) -> "subprocess.Popen[bytes]":
        """The process, once it has its work."""
        for _ in range(_STARTS):
            try:
                return self._started()
            except (OSError, ValueError, EOFError):
                self._finish()
        raise UserError(
            f"{_STARTS} worker processes ended before they could read a file (the last one {self._end}); expected one "
            "to start; free memory, or use fewer workers"
        )

    def _started(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise Closed
            if self._process is not None:
                return self._process
            # -P: files in the current folder must not be imported instead of modules of the standard library.
            command = [sys.executable, "-P", "-m", "bipointnet.scale.worker"]
            # In a session of its own, so that Ctrl-C reaches only the process that started the job.
            process = self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        assert process.stdin is not None
        assert process.stdout is not None
        send_bytes(process.stdin, self._pickled)
        receive(process.stdout)
        return process

    def close(self) -> None:
        """End the process, and start no other."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process is not None:
            _end(process)

    def _finish(self) -> None:
        """Clean up after a process that is dying; Closed if it was ended by `close`."""
        with self._lock:
            process, self._process = self._process, None
            if self._closed:
                raise Closed
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)  # its own status says why
            self._end = _end(process)

    def _lost(self, path: str) -> Row:
        """The row of a file with which workers died."""
        sentence = (
            f"{path}: {_DEATHS} worker processes ended while they read it (the last one {self._end}); check the file"
        )
        return {
            "path": path,
            "size": 0,
            "time": 0,
            "content": "",
            **self._work.empty,
            "error": sentence,
            "seconds": 0.0,
        }


def _end(process: "subprocess.Popen[bytes]") -> str:
    """End a process; says how it ended."""
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):  # what could not be sent to a dead process
                stream.close()
    code = process.wait()
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


class Failure:
    """An error of a worker that is not about one file, to be raised where the rows are read."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def run_local(work: Work, chunks: Sequence[list[str]], workers: int) -> Iterator[list[Row]]:
    """The rows of all files, chunk by chunk, in the order in which they are finished."""
    tasks: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
    for chunk in chunks:
        tasks.put(chunk)
    found: queue.Queue[bytes | Failure] = queue.Queue(maxsize=2 * workers)
    pickled = pickle.dumps(work)
    crew = [Worker(work, pickled) for _ in range(workers)]
    threads = [threading.Thread(target=_serve, args=(worker, tasks, found), daemon=True) for worker in crew]
    for thread in threads:
        thread.start()
    left = sum(map(len, chunks))
    try:
        while left:
            answer = found.get()
            if isinstance(answer, Failure):
                raise answer.error
            rows: list[Row] = pickle.loads(answer)  # here, so that a worker does not wait for it
            left -= len(rows)
            yield rows
    finally:
        for worker in crew:
            tasks.put(None)
            worker.close()
        with suppress(queue.Empty):  # room for what threads still put, so that they can end
            while True:
                found.get_nowait()


def _serve(worker: Worker, tasks: "queue.SimpleQueue[list[str] | None]", found: "queue.Queue[bytes | Failure]") -> None:
    """Give files to one worker until there are no more; runs in a thread."""
    try:
        while (paths := tasks.get()) is not None:
            for answer in worker.answers(paths):
                found.put(answer)
    except Closed:
        return
    except BaseException as error:
        found.put(Failure(error))
