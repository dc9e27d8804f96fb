"""Parts of the built-in shapes and objects in the built-in rooms, in full precision and in 1 bit, on a CPU.

    python benchmarks/segmentation.py RUNS [--workers 2]

About an hour on one core. Runs that are finished in the folder RUNS are not run again. Prints the table;
benchmarks/results/segmentation-shapes.json has every run.
"""

from pathlib import Path

from rich.table import Table
from shapes_runs import main

from bipointnet.config import Config

RESULT = Path(__file__).parent / "results" / "segmentation-shapes.json"
TASKS = {"part": {"points": 64, "lr": 0.003}, "semantic": {"points": 128, "lr": 0.005}}
NETWORKS = {
    ("part", "lsr"): {},
    ("part", "fp"): {},
    ("part", "bnn"): {"pool": "max"},
    ("semantic", "lsr"): {"spread": 1.0},
    ("semantic", "fp"): {},
    ("semantic", "bnn"): {"pool": "max"},
}
SHORT = {"epochs": 12, "batch": 32, "device": "cpu"}


def jobs(folder: Path) -> dict[Path, Config]:
    return {
        folder / f"{task}-{method}": Config(task=task, method=method, **TASKS[task], **own, **SHORT)
        for (task, method), own in NETWORKS.items()
    }


def table(results: list[dict]) -> Table:
    shown = Table(title="mIoU of the last epoch, %")
    for name in ("data", "float", "LSR + EMA-max", "behind", "BNN + max"):
        shown.add_column(name, justify="left" if name == "data" else "right")
    for task, data in (("part", "parts of shapes"), ("semantic", "rooms")):
        found = {r["method"]: r["last_miou"] for r in results if r["task"] == task}
        behind = found["fp"] - found["lsr"]
        shown.add_row(data, *(f"{value:.1f}" for value in (found["fp"], found["lsr"], behind, found["bnn"])))
    return shown


if __name__ == "__main__":
    main(__doc__, jobs, table, RESULT)
