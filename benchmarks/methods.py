"""The paper's table of methods on the built-in shapes, in short trainings on a CPU (about an hour on two cores).

    python benchmarks/methods.py RUNS [--workers 2]

Vanilla PointNet with every method and pool, two seeds; PointNet with T-Nets with every method and EMA-max, one seed.
Finished runs in the folder RUNS are not repeated. Prints a table and writes every run to
benchmarks/results/methods-shapes.json.
"""

from pathlib import Path
from statistics import mean

from rich.table import Table
from shapes_runs import main

from bipointnet.config import CHOICES, Config

RESULT = Path(__file__).parent / "results" / "methods-shapes.json"
POOLS = ("max", "ema-avg", "ema-max")
METHODS = CHOICES["method"]
# The paper's recipe (Adam, 0.001, cosine), but shorter.
LENGTH = {"points": 64, "epochs": 8, "batch": 32, "device": "cpu"}
VANILLA = [("fp", "max"), *((m, p) for m in METHODS if m != "fp" for p in POOLS)]
NETWORKS = [("pointnet-vanilla", m, p, 0) for m, p in VANILLA]
NETWORKS += [("pointnet", m, "max" if m == "fp" else "ema-max", 0) for m in METHODS]
NETWORKS += [("pointnet-vanilla", m, p, 1) for m, p in VANILLA]


def table(results: list[dict]) -> Table:
    """Mean accuracy of the last epoch, with the lowest and the highest of the seeds."""
    shown = Table(title="shapes: accuracy of the last epoch, % (lowest to highest seed)")
    columns = [*(("pointnet-vanilla", pool) for pool in POOLS), ("pointnet", "max"), ("pointnet", "ema-max")]
    for name in ("method", *(f"{model} {pool}" for model, pool in columns)):
        shown.add_column(name, justify="left" if name == "method" else "right")
    for method in METHODS:
        cells = []
        for column in columns:
            found = [r["last_oa"] for r in results if (r["model"], r["pool"]) == column and r["method"] == method]
            seeds = f" ({min(found):.1f} to {max(found):.1f})" if len(found) > 1 else ""
            cells.append(f"{mean(found):.1f}{seeds}" if found else "")
        shown.add_row(method, *cells)
    return shown


def jobs(folder: Path) -> dict[Path, Config]:
    return {
        folder / model / f"{method}-{pool}-seed{seed}": Config(
            model=model, method=method, pool=pool, seed=seed, **LENGTH
        )
        for model, method, pool, seed in NETWORKS
    }


if __name__ == "__main__":
    main(__doc__, jobs, table, RESULT)
