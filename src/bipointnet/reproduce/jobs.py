"""The runs of a table: which are missing, and training them, several side by side.

A run is a process `bipointnet train`, with a run folder and a log of its own. Its result.json is copied to the results
when it is finished, for some rows with the accuracy on corrupted clouds; then it counts as done. A run that was killed
continues at its last checkpoint. A lock on the folder of the runs, which the processes inherit, keeps a second call
away for as long as one of them lives.
"""

import dataclasses
import fcntl
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bipointnet.config import Config, from_mapping
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.reproduce.tables import Row
from bipointnet.training.interrupts import Interrupts
from bipointnet.training.resume_options import MAY_CHANGE, STATE, is_run, other_option

SAME_FIGURES = (*MAY_CHANGE, "compile")
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Job:
    """One run: a row of a table with a seed."""

    name: str
    data: str
    config: Config
    corrupted: bool = False

    @staticmethod
    def of(row: Row, seed: int, data: str, changes: dict[str, Any]) -> "Job":
        """The run of a row; `changes` are options that replace those of the row."""
        config = from_mapping(row.name, row.options | changes | {"seed": seed})
        return Job(f"{row.name}-seed{seed}", data, config, row.corrupted)

    @property
    def toml(self) -> str:
        """The configuration as a TOML file."""
        values = {name: value for name, value in dataclasses.asdict(self.config).items() if value is not None}
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


def read_result(path: Path) -> dict[str, Any] | None:
    """The content of a result file; None if there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error}); delete it to run it again") from error
    if not isinstance(found, dict) or "config" not in found:
        raise UserError(f"{path}: not a result of `bipointnet train`; delete it to run it again")
    return found


def is_done(job: Job, results: Path) -> bool:
    """Whether the results hold this run; UserError if they hold one of this name with another configuration."""
    path = results / f"{job.name}.json"
    found = read_result(path)
    if found is None:
        return False
    before = from_mapping(str(path), found["config"])
    if other := other_option(before, dataclasses.asdict(job.config), SAME_FIGURES):
        raise UserError(
            f"{path}: holds a run with {other}; choose another folder for the results with -o, or delete the file"
        )
    return "corrupted_oa" in found or not job.corrupted


@contextmanager
def _locked(folder: Path) -> Iterator[IO[bytes]]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"{folder}: trainings of another `reproduce` are running there; wait for them, or choose another "
                "folder with --runs"
            ) from error
        yield lock


class _Training:
    """The processes of a job, one after the other: train it into runs/NAME and, for some, evaluate corrupted clouds.

    Their messages go to runs/NAME.log.
    """

    def __init__(self, job: Job, runs: Path, lock: IO[bytes]) -> None:
        self.job, self.folder, self.log, self.lock = job, runs / job.name, runs / f"{job.name}.log", lock
        self.corruptions = runs / f"{job.name}-corruptions.json"
        options = runs / f"{job.name}.toml"
        write_beside(options, job.toml.encode())
        started = is_run(self.folder) or any(self.folder.glob(f"*/{STATE}"))
        train = ["train", job.data, "--config", str(options), "-o", str(self.folder)]
        evaluate = ["eval", str(self.folder), job.data, "--corruptions", "--json"]
        self.waiting = [(evaluate, self.corruptions)] if job.corrupted else []
        self.process = self._start([*train, "--resume"] if started else train, self.log)

    def _start(self, words: list[str], output: Path) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log, output.open("ab" if output == self.log else "wb") as out:
            # In a session of its own, so that Ctrl-C in the terminal does not reach it, but `stop` does.
            return subprocess.Popen(
                [sys.executable, "-m", "bipointnet", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                pass_fds=[self.lock.fileno()],
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        """Whether all processes have ended, or one has failed; starts the next one."""
        if self.process.poll() is None:
            return False
        if self.process.returncode or not self.waiting:
            return True
        self.process = self._start(*self.waiting.pop(0))
        return False

    def stop(self) -> None:
        """Let the run save its state and end."""
        self.process.send_signal(signal.SIGTERM)

    def result(self) -> dict[str, Any] | None:
        """The content of the result file; None if a process failed."""
        found = None if self.process.returncode else read_result(self.folder / "result.json")
        if found is None:
            return None
        found["data"] = Path(self.job.data).name  # not the path on this machine
        if self.job.corrupted:
            measured = json.loads(self.corruptions.read_text(encoding="utf-8"))
            found |= {"corrupted_oa": measured["mean"], "corruptions": measured["corruptions"]}
        return found

    def why(self) -> str:
        """Why a process failed: the signal that killed it, or the last line of the log."""
        if self.process.returncode < 0:
            return f"killed by {signal.Signals(-self.process.returncode).name}"
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.process.returncode}"


def train_jobs(
    jobs: Sequence[Job], results: Path, runs: Path, at_once: int, on_end: Callable[[Job, str | None], None]
) -> int | None:
    """Train `jobs`, at most `at_once` side by side, and copy their results.

    `on_end` is called after each, with the reason if it failed; the others continue. Ctrl-C or SIGTERM lets all of them
    save their states and end; the number of the signal is returned, and the next call continues them.
    """
    waiting, running = list(jobs), list[_Training]()
    with _locked(runs) as lock, Interrupts() as interrupts:
        try:
            while (waiting or running) and interrupts.number is None:
                while waiting and len(running) < at_once:
                    running.append(_Training(waiting.pop(0), runs, lock))
                time.sleep(POLL_SECONDS)
                for training in [each for each in running if each.has_ended()]:
                    running.remove(training)
                    found = training.result()
                    if found is not None:
                        content = (json.dumps(found, indent=2) + "\n").encode()
                        write_beside(results / f"{training.job.name}.json", content)
                    on_end(training.job, training.why() if found is None else None)
        finally:
            for training in running:
                training.stop()
            for training in running:
                training.process.wait()
        return interrupts.number
