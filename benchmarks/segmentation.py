"""Segmentation of the built-in shapes and rooms, in full precision and in 1 bit, on a CPU.

    python benchmarks/segmentation.py RUNS [--workers 2]

About two hours on one core. Finished runs in the folder RUNS are not repeated. Prints a table and writes every run to
benchmarks/results/segmentation-shapes.json.
"""

from pathlib import Path
from statistics import mean

from rich.table import Table
from shapes_runs import main

from bipointnet.config import Config

RESULT = Path(__file__).parent / "results" / "segmentation-shapes.json"
TASKS = {"part": ("parts of shapes", 64), "semantic": ("rooms", 128)}
NETWORKS = {
    ("part", "lsr"): {},
    ("part", "fp"): {},
    ("part", "bnn"): {"pool": "max"},
    ("semantic", "lsr"): {"init_bias_std": 1.0},
    ("semantic", "fp"): {},
    ("semantic", "bnn"): {"pool": "max"},
}
SEEDS = {"part": 1, "semantic": 3}  # mIoU on rooms varies by some percent from seed to seed
SHORT = {"epochs": 12, "batch": 32, "lr": 0.003, "device": "cpu"}


def jobs(folder: Path) -> dict[Path, Config]:
    return {
        folder / f"{task}-{method}-{seed}": Config(
            task=task, method=method, points=TASKS[task][1], seed=seed, **own, **SHORT
        )
        for (task, method), own in NETWORKS.items()
        for seed in range(SEEDS[task])
    }


def table(results: list[dict]) -> Table:
    shown = Table(title="mIoU of the last epoch, %, mean over the seeds")
    for name in ("data", "float", "LSR + EMA-max", "difference", "BNN + max"):
        shown.add_column(name, justify="left" if name == "data" else "right")
    for task, (data, _) in TASKS.items():
        full, ours, naive = (
            mean(r["last_miou"] for r in results if (r["task"], r["method"]) == (task, method))
            for method in ("fp", "lsr", "bnn")
        )
        shown.add_row(data, *(f"{value:.1f}" for value in (full, ours, full - ours, naive)))
    return shown


if __name__ == "__main__":
    main(__doc__, jobs, table, RESULT)
