"""The paper's table of methods on the built-in shapes: every method with every pool, several seeds, minutes on a CPU.

    python benchmarks/methods.py RUNS [--seeds 2] [--workers 2]

Runs that are finished in the folder RUNS are not run again. Prints the table; benchmarks/results/methods-shapes.json
has every run.
"""

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bipointnet.config import CHOICES, Config
from bipointnet.data import open_dataset
from bipointnet.files import write_beside
from bipointnet.train import train

RESULT = Path(__file__).parent / "results" / "methods-shapes.json"
POOLS = ("max", "ema-avg", "ema-max")
# The paper's recipe (Adam, 0.001, cosine) but for its length.
LENGTH = {"points": 64, "epochs": 8, "batch": 32, "device": "cpu"}
NETWORKS = [("fp", "max"), *((m, p) for m in CHOICES["method"] if m != "fp" for p in POOLS)]
KEPT = ("method", "pool", "seed", "points", "epochs", "last_oa", "best_oa", "entropy", "seconds", "commit", "torch")


def run(folder: Path, method: str, pool: str, seed: int) -> dict:
    """One training on one thread, or what a finished one left."""
    torch.set_num_threads(1)
    place = folder / f"{method}-{pool}-seed{seed}"
    if (place / "result.json").exists():
        return json.loads((place / "result.json").read_text())
    data = open_dataset("shapes", LENGTH["points"])
    return train(Config(method=method, pool=pool, seed=seed, **LENGTH), data, place, resume=True)


def table(results: list[dict]) -> Table:
    """Mean accuracy of the last epoch, with the lowest and the highest of the seeds."""
    shown = Table(title="shapes, PointNet vanilla: accuracy of the last epoch, % (lowest to highest seed)")
    for name in ("method", *POOLS):
        shown.add_column(name, justify="left" if name == "method" else "right")
    for method in dict.fromkeys(method for method, _ in NETWORKS):
        cells = []
        for pool in POOLS:
            found = [r["last_oa"] for r in results if (r["method"], r["pool"]) == (method, pool)]
            cells.append(f"{mean(found):.1f} ({min(found):.1f} to {max(found):.1f})" if found else "")
        shown.add_row(method, *cells)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    open_dataset("shapes", LENGTH["points"])  # made once, before the workers look for it
    with (
        ProcessPoolExecutor(given.workers, multiprocessing.get_context("spawn")) as pool,
        Progress(console=Console(stderr=True)) as progress,
    ):
        jobs = [pool.submit(run, given.runs, m, p, s) for s in range(given.seeds) for m, p in NETWORKS]
        for job in progress.track(as_completed(jobs), total=len(jobs), description="training"):
            job.result()
    results = [job.result() for job in jobs]
    Console().print(table(results))
    write_beside(RESULT, json.dumps([{key: r[key] for key in KEPT} for r in results], indent=1).encode())


if __name__ == "__main__":
    main()
