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
from bipointnet.training.resume_options import STATE, is_run

SAME_FIGURES = ("device", "compile", "capture")  # options that change how a run computes, not what
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
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error}); delete it to run it again") from error


def is_done(job: Job, results: Path) -> bool:
    """Whether the results hold this run; UserError if they hold one of this name with another configuration."""
    path = results / f"{job.name}.json"
    found = read_result(path)
    if found is None:
        return False
    before = dataclasses.asdict(from_mapping(str(path), found["config"]))
    for name, value in dataclasses.asdict(job.config).items():
        if name not in SAME_FIGURES and before[name] != value:
            raise UserError(
                f"{path}: holds a run with {name} = {before[name]!r}, found {value!r} now; choose another folder for "
                "the results with -o, or delete the file"
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
    """A process that trains a job into runs/NAME, with its output in runs/NAME.log."""

    def __init__(self, job: Job, runs: Path, lock: IO[bytes]) -> None:
        self.job, self.folder, self.log = job, runs / job.name, runs / f"{job.name}.log"
        options = runs / f"{job.name}.toml"
        write_beside(options, job.toml.encode())
        started = is_run(self.folder) or any(self.folder.glob(f"*/{STATE}"))
        command = [sys.executable, "-m", "bipointnet", "train", job.data, "--config", str(options)]
        command += ["-o", str(self.folder), *(["--resume"] if started else [])]
        with self.log.open("ab") as log:
            # In a session of its own, so that Ctrl-C in the terminal reaches it once, through `stop`.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock.fileno()],
                start_new_session=True,
            )

    def stop(self) -> None:
        """Let the run save its state and end."""
        self.process.send_signal(signal.SIGINT)

    def why(self) -> str:
        """The last line of the log."""
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
                for training in [each for each in running if each.process.poll() is not None]:
                    running.remove(training)
                    on_end(training.job, _finish(training, results))
        finally:
            for training in running:
                training.stop()
            for training in running:
                training.process.wait()
        return interrupts.number


def _finish(training: _Training, results: Path) -> str | None:
    """Copy the result of a training that has ended; returns the reason if there is none."""
    found = None if training.process.returncode else read_result(training.folder / "result.json")
    if found is None:
        return training.why()
    found["data"] = Path(training.job.data).name  # not the path on this machine
    if training.job.corrupted:
        command = [sys.executable, "-m", "bipointnet", "eval", str(training.folder), training.job.data]
        done = subprocess.run([*command, "--corruptions", "--json"], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1]
        measured = json.loads(done.stdout)
        found |= {"corrupted_oa": measured["mean"], "corruptions": measured["corruptions"]}
    write_beside(results / f"{training.job.name}.json", (json.dumps(found, indent=2) + "\n").encode())
    return None
