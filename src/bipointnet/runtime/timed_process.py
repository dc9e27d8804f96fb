"""A runtime in a process of its own: the times of its calls, and the memory that the first one needs.

Several runtimes can take turns, each in its process, so that what one of them allocates does not count for another, and
one that runs out of memory or time ends only itself.

Parent and child exchange lines of JSON. The child first says that it is ready. Then each request has the index of a
cloud and a number of calls, and the reply has the seconds of each call and the peak memory.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet.errors import UserError
from bipointnet.runtime.bench import Call, logits_call, onnxruntime_calls
from bipointnet.runtime.float_twin import float_twin, onnx_twin, random_weights
from bipointnet.runtime.model import load

START_SECONDS = 60.0  # to import the libraries and to build the network
SHARE_OF_MEMORY = 0.9  # of the available memory, which a child may use

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from bipointnet.runtime.timed_process import serve; serve(json.loads(sys.argv[2]))"
)


class NotMeasuredError(Exception):
    """Why a runtime gave no answer."""


class Turn(NamedTuple):
    """The seconds of each call, and the most bytes that the process has used beyond the network and the clouds.

    peak_bytes is None where the system does not say (without /proc).
    """

    seconds: list[float]
    peak_bytes: int | None


# The parent's side


class TimedProcess:
    """One of the RUNTIMES with a packed model, or its float twin, and the clouds (M, N, C) of an NPY file."""

    def __init__(self, runtime: str, model: Path, clouds: Path, threads: int) -> None:
        work = {"runtime": runtime, "model": str(model), "clouds": str(clouds), "threads": threads}
        command = [sys.executable, "-c", _START, json.dumps(sys.path), json.dumps(work)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C in a terminal reaches the parent only, which then ends the child
            )
        except OSError as error:
            raise UserError(
                f"cannot start {sys.executable} ({error.strerror}) for a runtime; check its permissions"
            ) from error
        self._started = False

    def __enter__(self) -> "TimedProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def turn(self, cloud: int, calls: int, limit: float) -> Turn:
        """Run a cloud `calls` times; NotMeasuredError if that takes more than `limit` seconds, or fails."""
        if not self._started:
            self._answer(START_SECONDS)
            self._started = True
        return Turn(**self._answer(limit, {"cloud": cloud, "calls": calls}))

    def _answer(self, limit: float, request: dict[str, int] | None = None) -> dict[str, Any]:
        """The next line of the child, which is killed after `limit` seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(limit, stop)
        timer.start()
        try:
            if request is not None:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            reason = f"no answer within {limit:g} s" if late.is_set() else "the process ended, perhaps for memory"
            raise NotMeasuredError(reason)
        answer = json.loads(line)
        if "error" in answer:
            raise NotMeasuredError(answer["error"])
        return answer


# The child's side


def packed_calls(model: Path, clouds: np.ndarray, threads: int) -> list[Call]:
    """This runtime."""
    loaded = load(model)
    return [logits_call(loaded, cloud, threads) for cloud in clouds]


def plain_calls(model: Path, clouds: np.ndarray, threads: int) -> list[Call]:
    """This runtime, with every point through every layer."""
    loaded = load(model, plain=True)
    return [logits_call(loaded, cloud, threads) for cloud in clouds]


def onnx_calls(model: Path, clouds: np.ndarray, threads: int) -> list[Call]:
    """ONNX Runtime with the float twin."""
    steps = float_twin(load(model))
    assert steps is not None, "the caller has checked that there is a twin"
    return onnxruntime_calls(onnx_twin(steps, random_weights(steps), *clouds.shape[1:]), list(clouds), threads)


# Name -> the function that prepares one call per cloud.
RUNTIMES: dict[str, Callable[[Path, np.ndarray, int], list[Call]]] = {
    "packed": packed_calls,
    "plain": plain_calls,
    "onnxruntime": onnx_calls,
}


def serve(work: dict[str, Any]) -> None:
    """Do what the parent asks on standard input, until it closes it or kills this process."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not get into the replies
    try:
        _limit_memory()
        calls = RUNTIMES[work["runtime"]](Path(work["model"]), np.load(work["clouds"]), work["threads"])
        _reply(replies, {})
        before = _restart_peak()
        for line in sys.stdin:
            request = json.loads(line)
            seconds = [_seconds(calls[request["cloud"]]) for _ in range(request["calls"])]
            peak = None if before is None else max((_status("VmHWM") or 0) - before, 0)
            _reply(replies, {"seconds": seconds, "peak_bytes": peak})
    except Exception as error:
        _reply(replies, {"error": _reason(error)})


def _reply(replies: Any, answer: dict[str, Any]) -> None:
    replies.write(json.dumps(answer) + "\n")


def _seconds(call: Call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _reason(error: Exception) -> str:
    """Why a runtime failed; libraries report a lack of memory in their own ways."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or any(sign in text.lower() for sign in ("bad_alloc", "allocate memory")):
        return "not enough memory"
    return f"failed ({text or type(error).__name__})"


def _status(name: str, file: str = "/proc/self/status") -> int | None:
    """A number of bytes that Linux reports in a file of lines like `VmHWM: 1234 kB`; None on other systems."""
    try:
        lines = Path(file).read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
    except (OSError, StopIteration):
        return None


def _restart_peak() -> int | None:
    """Let Linux forget the peak memory so far; the memory now, or None where the system cannot do this."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmHWM")


def _limit_memory() -> None:
    """Let allocations fail before the system has to end processes, where the system says how much there is."""
    used, available = _status("VmSize"), _status("MemAvailable", "/proc/meminfo")
    if used is None or available is None:
        return
    import resource

    most = used + int(SHARE_OF_MEMORY * available)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
