"""Short trainings of every backbone on the built-in shapes, in full precision and in 1 bit, on a CPU.

    python benchmarks/backbones.py RUNS [--workers 2]

About six hours on one core. Finished runs in the folder RUNS are not repeated. Prints a table and writes every run to
benchmarks/results/backbones-shapes.json.
"""

from pathlib import Path

from rich.table import Table
from shapes_runs import main

from bipointnet.config import Config

RESULT = Path(__file__).parent / "results" / "backbones-shapes.json"
# Few points, for a CPU, but enough for 1 bit: with 64 points, 1-bit PointCNN stays 40 percentage points below float
# even after twice the steps.
RECIPES = {
    "pointnet2": {"points": 256, "epochs": 12, "lr": 0.003},
    "dgcnn": {"points": 128, "epochs": 10, "lr": 0.005},
    "pointconv": {"points": 128, "epochs": 16, "lr": 0.003},
    "pointcnn": {"points": 256, "epochs": 28, "lr": 0.006},
}
NETWORKS = [(model, method, None) for model in RECIPES for method in ("lsr", "fp")]
NETWORKS += [("pointnet2", "xnor", "max"), ("dgcnn", "xnor", "max")]


def jobs(folder: Path) -> dict[Path, Config]:
    return {
        folder / f"{model}-{method}": Config(
            model=model, method=method, pool=pool, batch=32, device="cpu", **RECIPES[model]
        )
        for model, method, pool in NETWORKS
    }


def table(results: list[dict]) -> Table:
    shown = Table(title="shapes: accuracy of the last epoch, %")
    for name in ("backbone", "float", "LSR + EMA", "difference", "XNOR + max"):
        shown.add_column(name, justify="left" if name == "backbone" else "right")
    for model in RECIPES:
        found = {r["method"]: r["last_oa"] for r in results if r["model"] == model}
        naive = f"{found['xnor']:.1f}" if "xnor" in found else ""
        shown.add_row(model, f"{found['fp']:.1f}", f"{found['lsr']:.1f}", f"{found['fp'] - found['lsr']:.1f}", naive)
    return shown


if __name__ == "__main__":
    main(__doc__, jobs, table, RESULT)
