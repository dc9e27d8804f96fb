"""Write docs/results.md, the tables of the paper with our figures, from benchmarks/results.

    python benchmarks/results_page.py [--check]

`--check` writes nothing and exits with 1 if the page is not what the results say.
"""

import argparse
import json
import sys
from pathlib import Path

from bipointnet.files import write_beside
from bipointnet.reproduce.report import lines, markdown
from bipointnet.reproduce.tables import TABLES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
HEAD = """# Results: the paper's tables

Written by `python benchmarks/results_page.py` from the files in [benchmarks/results](../benchmarks/results).
`bipointnet reproduce TABLE DATA` trains what is missing. Percent, last epoch, mean over seeds; "-" has not been trained
with exactly these options yet; [backbones](backbones.md) and [segmentation](segmentation.md) have earlier trainings.
`paper` is BiPointNet (Qin et al. 2021, arXiv:2010.05501). Rows named after a method and a pool use the paper's recipe,
"our recipe" has EMA-max over distinct codes. On ModelNet40 it is the one in [benchmarks](../benchmarks/README.md), for
parts and rooms the one in [tables.py](../src/bipointnet/reproduce/tables.py) (`OURS_PARTS`, `OURS_ROOMS`).
OA is the overall accuracy, mIoU the mean intersection over union.

"""
OTHERS = """## Other ways to make point networks efficient

The comparison of the paper, copied unchanged: each work on its own hardware, data and baseline.

| method | hardware | data | base network | figure | speedup |
|---|---|---|---|---|---|
| BiPointNet | ARM Cortex-A72 | ModelNet40 | PointNet vanilla | OA 85.6 | 14.7 |
| BiPointNet | ARM Cortex-A53 | ModelNet40 | PointNet vanilla | OA 85.6 | 12.1 |
| Grid-GCN | RTX 2080 | S3DIS | PointNet | mIoU 53.2 | 1.62 |
| RandLA-Net | RTX 2080 Ti | S3DIS | PointNet vanilla | mIoU 70.0 | 1.04 |
| PointVoxel | GTX 1080 Ti | ShapeNet | PointNet | mIoU 46.9 | 2.46 |

(The paper's table has the speedups of the two ARM processors exchanged; its table of deployed variants has them as
here.) Later networks with 1-bit weights and activations on ModelNet40: POEM 90.2 on PointNet (Xu et al.
2021, arXiv:2111.13386), FBPT 90.9 (a point transformer; Hou et al. 2024, arXiv:2403.09998), SVNet 86.8 (DGCNN with
distillation; Su et al. 2022, arXiv:2209.05924). Small float networks are another way: SLNet-S (Saeid et al. 2026,
arXiv:2603.07454) has 93.6 with 0.14
million parameters, which is 140 kB as int8.
"""

# Savings of storage, and speedups on a Cortex-A72, in the paper's table of variants.
PAPER_DEPLOYED = ((1.0, 1.0), (18.9, 14.7), (26.3, 14.7), (19.7, 11.4), (26.3, 11.5), (21.0, 16.1))


def deployed(results: Path) -> str:
    """Size and time of the variants for deployment, from the result of benchmarks/deploy.py."""
    found = json.loads((results / "deploy.json").read_text())
    rows = list(found["rows"].values())
    machine = f"{found['points']} points, one thread, {found['cpu']}, {found['instruction_set']}"
    lines = [
        "## Variants for deployment: size and time",
        "",
        f"PointNet vanilla, {machine}, best call, all variants in one run, random weights",
        "(`python benchmarks/deploy.py`). (a) runs in ONNX Runtime. The pool counts points as in the paper.",
        "Compare times and ratios only within this table: those of other pages are from other runs.",
        "",
        "| variant | kB | smaller | us | faster | paper: smaller | paper: faster (Cortex-A72) |",
        "|---|---|---|---|---|---|---|",
    ]
    full = rows[0]
    for row, paper in zip(rows, PAPER_DEPLOYED, strict=True):
        size, time = row["bytes"], row["best_microseconds"]
        smaller, faster = full["bytes"] / size, full["best_microseconds"] / time
        cells = f"{size / 1000:,.0f}", f"{smaller:.1f}", f"{time:,.0f}", f"{faster:.1f}", *map(str, paper)
        lines.append(f"| {' | '.join((row['label'], *cells))} |")
    return "\n".join(lines) + "\n\n"


def page(results: Path = ROOT / "benchmarks" / "results") -> str:
    """The whole page."""
    begun = {name: table for name, table in TABLES.items() if any(line.done for line in lines(table, results))}
    rest = ", ".join(f"`{name}`" for name in TABLES if name not in begun)
    missing = f"Tables of which nothing has been trained yet: {rest}.\n\n" if rest else ""
    tables = "\n".join(markdown(table, results) for table in begun.values())
    return HEAD + tables + "\n" + missing + deployed(results) + OTHERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else 1)
    write_beside(PAGE, page().encode())


if __name__ == "__main__":
    main()
