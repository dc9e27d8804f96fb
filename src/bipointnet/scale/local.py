"""The local engine: worker processes of this machine, each with a model of its own.

A worker is a program of its own (`python -m bipointnet.scale.worker`), so a script needs no guard around its main part,
and a worker that is killed, or that a library aborts, takes nothing else with it. Its files are then given to a new
worker, one by one; a file with which workers died several times becomes a row with an error.
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
Task = tuple[list[str], int]  # files, and how many workers died with them


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message to a pipe."""
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
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


class NotReady(EOFError):
    """A worker process ended before it could read a file."""


class Worker:
    """A worker process, started when it is needed."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def rows(self, paths: list[str]) -> bytes:
        """The rows of these files, pickled; EOFError if the process dies, NotReady if it does before it reads them."""
        try:
            process = self._started()
        except (OSError, ValueError, EOFError) as error:
            raise NotReady from error
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            send(process.stdin, paths)
            return receive_bytes(process.stdout)
        except (OSError, ValueError) as error:  # a pipe that is closed
            raise EOFError from error

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._process is not None:
                return self._process
            if self._closed:
                raise NotReady
            command = [sys.executable, "-m", "bipointnet.scale.worker"]
            # In a session of its own, so that Ctrl-C reaches only the process that started the job.
            process = self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin, self._work)
        receive(process.stdout)
        return process

    def close(self) -> None:
        """End the process, and start no other."""
        with self._lock:
            self._closed = True
        self.end()

    def end(self) -> str:
        """End the process; says how it ended."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return "was not started"
        if not self._closed:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)  # it may be dying; its own status says why
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
    tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    for chunk in chunks:
        tasks.put((chunk, 0))
    found: queue.Queue[bytes | Failure] = queue.Queue(maxsize=2 * workers)
    crew = [Worker(work) for _ in range(workers)]
    stopping = threading.Event()
    threads = [
        threading.Thread(target=_serve, args=(worker, tasks, found, work, stopping), daemon=True) for worker in crew
    ]
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
        stopping.set()
        for worker in crew:
            tasks.put(None)
            worker.close()
        with suppress(queue.Empty):  # room for what threads still put, so that they can end
            while True:
                found.get_nowait()


def _serve(
    worker: Worker,
    tasks: "queue.SimpleQueue[Task | None]",
    found: "queue.Queue[bytes | Failure]",
    work: Work,
    stopping: threading.Event,
) -> None:
    """Give tasks to one worker until there are no more; runs in a thread."""
    failed_starts = 0
    while (task := tasks.get()) is not None and not stopping.is_set():
        paths, deaths = task
        try:
            found.put(worker.rows(paths))
            failed_starts = 0
        except NotReady:
            how = worker.end()
            failed_starts += 1
            tasks.put(task)
            if failed_starts == _STARTS:
                found.put(
                    Failure(
                        UserError(
                            f"{_STARTS} worker processes ended before they could read a file (the last one {how}); "
                            "expected one to start; free memory, or use fewer workers"
                        )
                    )
                )
                return
        except EOFError:
            how = worker.end()
            failed_starts = 0
            if stopping.is_set():
                return
            if len(paths) > 1:
                for path in paths:
                    tasks.put(([path], deaths))
            elif deaths + 1 < _DEATHS:
                tasks.put((paths, deaths + 1))
            else:
                found.put(pickle.dumps([_lost(work, paths[0], how)]))
        except BaseException as error:
            found.put(Failure(error))
            return


def _lost(work: Work, path: str, how: str) -> Row:
    """The row of a file with which workers died."""
    sentence = f"{path}: {_DEATHS} worker processes ended while they read it (the last one {how}); check the file"
    return {"path": path, "size": 0, "time": 0, "content": "", **work.empty, "error": sentence, "seconds": 0.0}
