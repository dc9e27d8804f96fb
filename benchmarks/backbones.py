"""Every backbone on the built-in shapes, in full precision and in 1 bit, in short trainings on a CPU.

    python benchmarks/backbones.py RUNS [--workers 2]

About two hours on one core. Runs that are finished in the folder RUNS are not run again. Prints the table;
benchmarks/results/backbones-shapes.json has every run.
"""

from pathlib import Path

from rich.table import Table
from shapes_runs import main

from bipointnet.config import Config

RESULT = Path(__file__).parent / "results" / "backbones-shapes.json"
# Few points, as all neighbours of all points cost a CPU ten times what a PointNet does; balls of PointNet++ need more.
POINTS = {"pointconv": 64, "pointnet2": 192, "dgcnn": 64, "pointcnn": 64}
SHORT = {"epochs": 10, "batch": 32, "lr": 0.003, "device": "cpu"}
NETWORKS = [(model, method, None) for model in POINTS for method in ("lsr", "fp")]
NETWORKS += [("pointnet2", "xnor", "max"), ("dgcnn", "xnor", "max")]


def jobs(folder: Path) -> dict[Path, Config]:
    return {
        folder / f"{model}-{method}": Config(model=model, method=method, pool=pool, points=POINTS[model], **SHORT)
        for model, method, pool in NETWORKS
    }


def table(results: list[dict]) -> Table:
    shown = Table(title="shapes: accuracy of the last epoch, %")
    for name in ("backbone", "float", "LSR + EMA", "behind", "XNOR + max"):
        shown.add_column(name, justify="left" if name == "backbone" else "right")
    for model in POINTS:
        found = {r["method"]: r["last_oa"] for r in results if r["model"] == model}
        naive = f"{found['xnor']:.1f}" if "xnor" in found else ""
        shown.add_row(model, f"{found['fp']:.1f}", f"{found['lsr']:.1f}", f"{found['fp'] - found['lsr']:.1f}", naive)
    return shown


if __name__ == "__main__":
    main(__doc__, jobs, table, RESULT)
