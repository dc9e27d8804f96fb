"""Trainings on the built-in data, several at a time on the cores of a CPU, each on one thread."""

import argparse
import json
import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bipointnet.config import Config
from bipointnet.data import open_dataset
from bipointnet.files import write_beside
from bipointnet.training.loop import train

KEPT = ("dataset", "task", "model", "method", "pool", "seed", "points", "epochs", "last_miou", "best_miou", "last_oa")
KEPT += ("best_oa", "entropy", "seconds", "commit")
RECIPE = ("lr", "batch", "init_bias_std")


def dataset_name(config: Config) -> str:
    return "rooms" if config.task == "semantic" else "shapes"


def run(place: Path, config: Config) -> dict:
    """Train, or read the result of a finished run."""
    torch.set_num_threads(1)
    if (place / "result.json").exists():
        return json.loads((place / "result.json").read_text())
    return train(config, open_dataset(dataset_name(config), config.points), place, resume=True)


def run_all(jobs: Mapping[Path, Config], workers: int) -> list[dict]:
    """The results of all runs, in the order of the jobs."""
    for name, points in {(dataset_name(config), config.points) for config in jobs.values()}:
        open_dataset(name, points)  # generated once, before the workers read it from the cache
    with (
        ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool,
        Progress(console=Console(stderr=True)) as progress,
    ):
        runs = [pool.submit(run, place, config) for place, config in jobs.items()]
        for done in progress.track(as_completed(runs), total=len(runs), description="training"):
            done.result()
    return [job.result() for job in runs]


def main(
    about: str | None,
    jobs: Callable[[Path], Mapping[Path, Config]],
    table: Callable[[list[dict]], Table],
    to: Path,
) -> None:
    """The command line of a script: train all networks, print the table, write the results to `to`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    results = run_all(jobs(given.runs), given.workers)
    Console().print(table(results))
    kept = [{key: r[key] for key in KEPT if key in r} | {key: r["config"].get(key) for key in RECIPE} for r in results]
    write_beside(to, json.dumps(kept, indent=1).encode())
