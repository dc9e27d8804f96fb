"""Latency, memory and accuracy of a packed model against the number of points per cloud.

The clouds are objects of the built-in test split with more or fewer points, normalized as the model says: on a surface,
many points have the same 1-bit features, and the time depends on how many. Every runtime computes the logits of the
same clouds. ONNX Runtime executes the float twin (float_twin.py), if there is one.

For each size every runtime runs in a process of its own (timed_process.py), and they take turns. Of a quick call, a
turn has two, and only the second counts: the first one finds the caches full of the other runtime's data. Slow calls
have fewer rounds. The memory is what the first call needs beyond the network and the clouds. A runtime that needs too
much time or memory for one size is not tried on larger ones.
"""

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet.data.shapes import CLASSES, held_out
from bipointnet.errors import UserError
from bipointnet.extras import installed
from bipointnet.runtime.bench import as_input, machine, versions
from bipointnet.runtime.float_twin import float_twin
from bipointnet.runtime.model import MOST_THREADS, Model, load
from bipointnet.runtime.progress import Progress, no_progress
from bipointnet.runtime.timed_process import NotMeasuredError, TimedProcess, Turn

POINTS = (32, 128, 512, 1024, 4096, 16_384, 65_536, 262_144, 1_000_000)
MOST_POINTS = 2**24
TIMED_CLOUDS = 3
TEST_CLOUDS = 200
EVALUATED_POINTS = 16_384  # larger clouds are not evaluated
SECONDS = 1.0  # of calls per runtime and size
MOST_SECONDS = 20.0  # of one call
QUICK_SECONDS = 0.01
LEAST_ROUNDS = 3
PROGRESS_OF_SIZE = 20  # the progress that a size makes; a test cloud makes 1


class Measured(NamedTuple):
    """One runtime on clouds of one size.

    us: median of `rounds` calls in microseconds; None if it was not measured, and then `reason` says why. peak_bytes:
    memory of a call; None if the system does not say.
    """

    us: float | None
    rounds: int
    peak_bytes: int | None
    reason: str | None = None


def sweep(
    path: str | Path,
    *,
    points: Sequence[int] = POINTS,
    threads: int = 1,
    rounds: int = 200,
    clouds: int = TEST_CLOUDS,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Measure the packed model in `path` on clouds of several sizes; what `bench --sweep --json` prints.

    Args:
        path: the packed model.
        points: the numbers of points per cloud, in any order.
        threads: threads of every runtime.
        rounds: most calls that are timed per runtime and size. Slow calls have fewer.
        clouds: test clouds for the accuracy, which is known for models that classify the built-in shapes.
        progress: called with (done, total).

    Examples:
        >>> for row in sweep("shapes.bpn", points=[1024, 65536])["sizes"]:  # doctest: +SKIP
        ...     print(row["points"], row["runtimes"]["packed"]["us"], row["speedup"], row["accuracy"])
        1024 73.9 {'plain': 1.4, 'onnxruntime': 36.2} 84.5
        65536 2391.1 {'plain': 1.9, 'onnxruntime': 236.4} None
    """
    sizes = sorted(set(points))
    check_options(sizes, threads, rounds, clouds)
    model = load(path)
    has_twin = float_twin(model) is not None
    peers = ["onnxruntime"] if has_twin and installed("onnx") and installed("onnxruntime") else []
    clouds = clouds if classifies_shapes(model) else 0
    evaluated = [size for size in sizes if size <= EVALUATED_POINTS] if clouds else []
    total = PROGRESS_OF_SIZE * len(sizes) + (clouds if evaluated else 0)
    objects = [held_out(i, sizes[-1])[0] for i in range(TIMED_CLOUDS)]
    measured: list[dict[str, Measured]] = []
    for size in sizes:
        before = dict(zip(sizes, measured, strict=False))
        batch = np.stack([as_input(model, cloud[:size]) for cloud in objects])  # (M, N, C)
        measured.append(measure_size(Path(path), ["packed", "plain", *peers], batch, threads, rounds, before))
        progress(PROGRESS_OF_SIZE * len(measured), total)
    accuracy = evaluate_sizes(model, evaluated, clouds, threads, lambda done, of: progress(total - of + done, total))
    return {
        "model": model.manifest["model"],
        "isa": model.isa,
        "threads": threads,
        "rounds": rounds,
        "float_twin": has_twin,
        "timed_clouds": TIMED_CLOUDS,
        "test_clouds": clouds if evaluated else 0,
        "sizes": [
            {
                "points": size,
                "runtimes": {name: found._asdict() for name, found in runtimes.items()},
                "speedup": speedups(runtimes),
                "accuracy": accuracy.get(size),
            }
            for size, runtimes in zip(sizes, measured, strict=True)
        ],
        "machine": machine(),
        "versions": versions(peers),
    }


def check_options(sizes: Sequence[int], threads: int, rounds: int, clouds: int) -> None:
    """Raise UserError for options that cannot be measured."""
    if not sizes:
        raise UserError("points: no sizes; expected at least one; name them, such as 32,1024")
    for name, value, least in (("rounds", rounds, 1), ("clouds", clouds, 0)):
        if value < least:
            raise UserError(f"{name} is {value}; expected at least {least}")
    if not 1 <= threads <= MOST_THREADS:
        raise UserError(f"threads is {threads}; expected an integer from 1 to {MOST_THREADS}")
    for size in sizes:
        if not 1 <= size <= MOST_POINTS:
            raise UserError(f"points is {size}; expected an integer from 1 to {MOST_POINTS}")


def classifies_shapes(model: Model) -> bool:
    """Whether the classes are those of the built-in shapes, in any order."""
    return model.task == "classify" and model.channels == 3 and sorted(model.classes) == sorted(CLASSES)


def measure_size(
    path: Path,
    runtimes: Sequence[str],
    clouds: np.ndarray,
    threads: int,
    rounds: int,
    before: Mapping[int, Mapping[str, Measured]],
) -> dict[str, Measured]:
    """Let the runtimes take turns on clouds (M, N, C). `before` has what was measured for smaller sizes, ascending."""
    turns = {name: Turns(refusal(clouds.shape[1], {n: row[name] for n, row in before.items()})) for name in runtimes}
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "clouds.npy"
        np.save(file, clouds)
        for name, each in turns.items():
            if each.reason is None:
                each.start(stack.enter_context(TimedProcess(name, path, file, threads)), rounds)
        take_turns(list(turns.values()), len(clouds))
    return {name: each.result() for name, each in turns.items()}


def refusal(points: int, before: Mapping[int, Measured]) -> str | None:
    """Why a runtime is not tried on clouds of this size; None if it is."""
    if not before:
        return None
    size, last = list(before.items())[-1]
    if last.us is None:
        return last.reason
    expected = last.us / 1e6 * points / size
    if expected <= MOST_SECONDS:
        return None
    return f"a call would take {expected:.0f} s, more than {MOST_SECONDS:.0f} s"


@dataclass
class Turns:
    """The turns of one runtime: `rounds` of them, each of `calls` calls, of which the last is timed."""

    reason: str | None  # why it is not measured
    process: TimedProcess | None = None
    rounds: int = 0
    calls: int = 1
    peak_bytes: int | None = None
    seconds: list[float] = field(default_factory=list)

    def start(self, process: TimedProcess, most_rounds: int) -> None:
        """Run the first cloud once, for the memory and to plan the rounds."""
        self.process = process
        first = self._turn(0, 1, MOST_SECONDS)
        if first is not None:
            self.calls = 2 if first.seconds[0] < QUICK_SECONDS else 1
            wanted = max(LEAST_ROUNDS, int(SECONDS / (self.calls * first.seconds[0])))
            self.rounds, self.peak_bytes = min(most_rounds, wanted), first.peak_bytes

    def take(self, cloud: int) -> None:
        turn = self._turn(cloud, self.calls, 2 * self.calls * MOST_SECONDS)
        if turn is not None:
            self.seconds.append(turn.seconds[-1])

    def result(self) -> Measured:
        if self.reason is not None:
            return Measured(None, 0, None, self.reason)
        return Measured(round(1e6 * statistics.median(self.seconds), 1), self.rounds, self.peak_bytes)

    def _turn(self, cloud: int, calls: int, limit: float) -> Turn | None:
        if self.process is None or self.reason is not None:
            return None
        try:
            return self.process.turn(cloud, calls, limit)
        except NotMeasuredError as error:
            self.reason = str(error)
            return None


def take_turns(runtimes: Sequence[Turns], clouds: int) -> None:
    """Let each runtime take its rounds. Those of a runtime with fewer rounds are spread evenly."""
    total = max((each.rounds for each in runtimes), default=0)
    for number in range(total):
        for each in runtimes:
            if number * each.rounds % total < each.rounds:
                each.take(number % clouds)


def speedups(runtimes: Mapping[str, Measured]) -> dict[str, float | None]:
    """How many times faster than each other runtime the packed model is; None where one of them was not measured."""
    packed = runtimes["packed"].us
    peers = {name: found.us for name, found in runtimes.items() if name != "packed"}
    return {name: None if us is None or packed is None else round(us / packed, 2) for name, us in peers.items()}


def evaluate_sizes(
    model: Model, sizes: Sequence[int], clouds: int, threads: int, progress: Progress
) -> dict[int, float]:
    """The right answers in percent for each size, on the same objects with more or fewer points."""
    right = dict.fromkeys(sizes, 0)
    for number in range(clouds if sizes else 0):
        cloud, label = held_out(number, max(sizes))
        for size in sizes:
            right[size] += model.predict(cloud[:size], threads=threads).names == CLASSES[label]
        progress(number + 1, clouds)
    return {size: round(100 * count / clouds, 2) for size, count in right.items()}
