"""Clouds for jobs, their results as rows, and kills of their processes."""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from bipointnet.data.shapes import held_out
from bipointnet.scale.work import Classify, Row

MODEL = Path(__file__).parents[1] / "golden" / "shapes.bpn"


def write_clouds(folder: Path, count: int, points: int = 128) -> list[Path]:
    """Built-in shapes as npy files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:04d}.npy" for number in range(count)]
    for number, file in enumerate(files):
        np.save(file, held_out(number % 100, points)[0].astype(np.float32) + np.float32(number))
    return files


def rows_of(out: Path) -> dict[str, dict[str, Any]]:
    """The rows of a folder with results by path, without what differs between runs; each path has one row."""
    rows = [row for part in sorted(out.glob("*.parquet")) for row in pyarrow.parquet.read_table(part).to_pylist()]
    found = {row["path"]: {name: row[name] for name in row if name not in ("seconds", "time")} for row in rows}
    assert len(found) == len(rows), "a file has two rows"
    return found


def run_with_kills(command: list[str], folder: Path, kills: int) -> list[Path]:
    """Run a job that is disturbed by `kills` kills in total: of its workers, or of its own process, at random moments.

    The job, `command` with a folder for its results added, is started again and again until it is done. If it is done
    before all kills, the same follows with another folder, so the number of kills does not depend on the speed of the
    machine. Returns the folders.
    """
    rng, done = random.Random(0), 0
    folders: list[Path] = []
    while done < kills:
        folders.append(folder / str(len(folders)))
        code = None
        while code != 0:
            driver = subprocess.Popen([*command, str(folders[-1])])
            while driver.poll() is None and done < kills:
                time.sleep(rng.uniform(0.05, 0.6))
                workers = [pid for pid in children(driver.pid) if is_worker(pid)]
                victim = driver.pid if rng.random() < 0.35 else rng.choice(workers or [driver.pid])
                if driver.poll() is None:
                    with suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
                        done += 1
            code = driver.wait()
            assert code in (0, -signal.SIGKILL), f"the job ended with code {code}"
    return folders


class Dying(Classify):
    """Kills its own process `deaths` times for each of some files; files in the folder `flags` remember how often."""

    def __init__(self, model: bytes, flags: str, deaths: int) -> None:
        super().__init__(model)
        self._flags, self._deaths = flags, deaths

    def use(self, file: Path) -> Row:
        flag = Path(self._flags) / file.name
        done = len(flag.read_text()) if flag.exists() else 0
        if int(file.stem) % 10 == 3 and done < self._deaths:
            flag.write_text("x" * (done + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().use(file)


def children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_worker(pid: int) -> bool:
    try:
        return b"bipointnet.scale.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
