"""1 bit against float on generated tiles of a town, trained from LAZ files by the commands of docs/your-scans.md.

    python benchmarks/outdoors.py WORK

Writes 12 tiles, trains the runs that benchmarks/results/outdoors.json does not have (two hours on two cores for all),
labels every point of the two held-out tiles with the packed model, and adds the scores to that file.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bipointnet.data.outdoors import CODES, write_tiles
from bipointnet.files import write_beside

RESULT = Path(__file__).parent / "results" / "outdoors.json"
TILES = 12
RUNS = {
    "pointnet-vanilla-lsr": ["--model", "pointnet-vanilla", "--points", "256"],
    "pointnet-vanilla-fp": ["--model", "pointnet-vanilla", "--points", "256", "--method", "fp"],
    "pointnet2-lsr": ["--model", "pointnet2", "--block", "20", "--points", "1024", "--epochs", "16"],
}
SEEDS = {"pointnet-vanilla-lsr": (0, 1, 2), "pointnet-vanilla-fp": (0, 1, 2), "pointnet2-lsr": (0, 1, 2)}


def bipointnet(work: Path, *arguments: str | Path) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "bipointnet", *map(str, arguments)]
    return subprocess.run(command, cwd=work, check=True, stdout=subprocess.PIPE, text=True).stdout


def evaluated(work: Path, name: str, seed: int) -> dict[str, Any]:
    """Train a network if that is not done, pack it, and evaluate the packed model."""
    run = Path("runs") / f"{name}-seed{seed}"
    if not (work / run / "result.json").exists():
        options = ["--task", "semantic", "--classes", "classes.toml", *RUNS[name], "--seed", str(seed)]
        bipointnet(work, "train", "tiles", *options, "-o", run)
    packed = run.with_suffix(".bpn")
    bipointnet(work, "export", run, "-o", packed)
    scores = json.loads(bipointnet(work, "eval", packed, "tiles", "--json"))
    trained = json.loads((work / run / "result.json").read_text())
    figures = {key: trained[key] for key in ("seconds", "device", "version", "commit", "epochs", "last_miou", "picks")}
    kept = {key: scores[key] for key in ("miou", "oa", "class_iou", "files")}
    return {"run": name, "seed": seed, "bytes": (work / packed).stat().st_size, **kept, "training": figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    work: Path = parser.parse_args().work
    if not (work / "tiles").exists():
        write_tiles(work / "tiles", TILES)
    (work / "classes.toml").write_text("".join(f'{code} = "{name}"\n' for name, code in CODES.items()))
    known = (
        {(row["run"], row["seed"]): row for row in json.loads(RESULT.read_text())["runs"]} if RESULT.exists() else {}
    )
    rows = [known.get((name, seed)) or evaluated(work, name, seed) for name in RUNS for seed in SEEDS[name]]
    means = {
        name: {
            "miou": sum(row["miou"] for row in rows if row["run"] == name) / len(SEEDS[name]),
            "commands": " ".join(["bipointnet train tiles --task semantic --classes classes.toml", *RUNS[name]]),
        }
        for name in RUNS
    }
    write_beside(RESULT, (json.dumps({"means": means, "runs": rows}, indent=1) + "\n").encode())
    for name, mean in means.items():
        print(f"{name}: {mean['miou']:.1f} % mIoU")


if __name__ == "__main__":
    main()
