"""Throughput and memory of jobs over many files: a plain loop, the local engine and Ray, on the same clouds.

    python benchmarks/scale.py WORK [--clouds 100000]

Writes clouds of 1024 points as npy once, then classifies them with local-small-modelnet40: part by part, the kinds
taking turns, so that other work on the machine disturbs all of them alike. Writes benchmarks/results/scale.json and the
picture docs/scale-memory.png.
"""

import argparse
import json
import shutil
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from bipointnet import load, scale
from bipointnet.data.clouds import read
from bipointnet.data.shapes import held_out
from bipointnet.files import write_beside
from bipointnet.shipped import locate

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parents[1] / "docs" / "scale-memory.png"
MODEL = "local-small-modelnet40"
POINTS = 1024
ROUNDS = 3
PART = 20_000  # clouds per worker and measurement, so that it takes seconds


def write_clouds(folder: Path, count: int) -> list[Path]:
    """Copies of 200 shapes, each scaled and shifted by its number."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number // 1000:04d}" / f"{number:07d}.npy" for number in range(count)]
    shapes = [held_out(number, POINTS)[0].astype(np.float32) for number in range(200)]
    for number, file in enumerate(files):
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            np.save(file, shapes[number % 200] + np.float32(number / 1e6))
    return files


def plain_loop(files: list[Path]) -> float:
    """Clouds per second of one process that reads and classifies file by file."""
    model = load(MODEL)
    begun = time.perf_counter()
    for file in files:
        model.predict(read(file).points)
    return len(files) / (time.perf_counter() - begun)


def runtime_loop(clouds: np.ndarray, batch: int = 256) -> float:
    """Clouds per second of the runtime alone, on arrays (B, N, 3)."""
    model = load(MODEL)
    begun = time.perf_counter()
    for start in range(0, len(clouds), batch):
        model.predict(clouds[start : start + batch])
    return len(clouds) / (time.perf_counter() - begun)


def batches(clouds: np.ndarray, batch: int = 256) -> float:
    """Clouds per second of the class for `map_batches`, on arrays."""
    work = scale.Classify(locate(Path(MODEL)).read_bytes())
    work({"points": clouds[:1]})
    begun = time.perf_counter()
    for start in range(0, len(clouds), batch):
        work({"points": clouds[start : start + batch]})
    return len(clouds) / (time.perf_counter() - begun)


def job(work: Path, engine: str, workers: int) -> Callable[[list[Path]], float]:
    """Clouds per second of a job, after its workers have started."""

    def run(files: list[Path]) -> float:
        shutil.rmtree(work / "out", ignore_errors=True)
        moments: list[tuple[float, int]] = []
        scale.predict(
            files,
            MODEL,
            work / "out",
            engine=engine,
            workers=workers,
            progress=lambda done, total: moments.append((time.perf_counter(), done)),
        )
        started = moments[1]  # the first is before any worker has started
        return (moments[-1][1] - started[1]) / (moments[-1][0] - started[0])

    return run


def memory_of(files: list[Path], work: Path, engine: str) -> list[tuple[float, float]]:
    """Seconds and megabytes of this process, its workers and those of Ray during a job over all files."""
    own, samples, stop = psutil.Process(), [], threading.Event()
    begun = time.perf_counter()

    def sample() -> None:
        while not stop.wait(0.5):
            total = 0
            for process in (own, *own.children(recursive=True)):
                try:
                    memory = process.memory_info()
                    total += memory.rss - memory.shared  # else the object store of Ray would count once per process
                except psutil.NoSuchProcess:
                    continue
            samples.append((round(time.perf_counter() - begun, 1), round(total / 1e6, 1)))

    thread = threading.Thread(target=sample)
    thread.start()
    shutil.rmtree(work / "all", ignore_errors=True)
    scale.predict(files, MODEL, work / "all", engine=engine, workers=2)
    stop.set()
    thread.join()
    return samples


def draw(samples: dict[str, list[tuple[float, float]]], clouds: int) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), dpi=120, layout="constrained")
    axes = figure.subplots()
    for (engine, own), color in zip(samples.items(), ("#1f5fa8", "#c2571a"), strict=True):
        axes.plot(*zip(*own, strict=True), color=color, linewidth=1.6, label=engine)
    axes.legend(loc="lower right")
    axes.set(xlabel="seconds", ylabel="MB, all processes", title=f"A job over {clouds:,} clouds, two workers")
    axes.set_ylim(0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--clouds", type=int, default=100_000)
    given = parser.parse_args()
    files = write_clouds(given.work / "clouds", given.clouds)
    # Local first, without the processes of Ray.
    samples = {engine: memory_of(files, given.work, engine) for engine in ("local", "ray")}
    draw(samples, len(files))
    arrays = np.stack([np.load(file) for file in files[:PART]])
    kinds: dict[str, Callable[[], float]] = {
        "plain loop": lambda: plain_loop(files[:PART]),
        **{
            f"{engine}, {workers} worker{'s' * (workers > 1)}": lambda e=engine, w=workers: job(given.work, e, w)(
                files[: PART * w]
            )
            for engine in ("local", "ray")
            for workers in (1, 2)
        },
        "runtime, arrays": lambda: runtime_loop(arrays),
        "Classify, arrays": lambda: batches(arrays),
    }
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, measure in kinds.items():
            found[kind].append(measure())
            print(f"{kind}: {found[kind][-1]:,.0f} clouds per second", flush=True)
    report = {
        "model": MODEL,
        "points": POINTS,
        "clouds": len(files),
        "clouds_per_second": {kind: statistics.median(rates) for kind, rates in found.items()},
        "rounds": found,
        "job_seconds": {engine: own[-1][0] for engine, own in samples.items()},
        "memory_mb": samples,
    }
    write_beside(RESULTS / "scale.json", (json.dumps(report) + "\n").encode())


if __name__ == "__main__":
    main()
