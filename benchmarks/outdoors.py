"""1 bit against float on generated tiles of a town, trained from LAZ files by the commands of docs/your-scans.md.

    python benchmarks/outdoors.py WORK

Writes 12 tiles and four fresh ones, trains the runs that benchmarks/results/outdoors.json does not have (an hour on two
cores for all), labels every point of the two held-out tiles and of the fresh ones with the packed model, and adds the
scores to that file. Options of the recipe were chosen on the held-out tiles, and none on the fresh ones.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bipointnet.data.outdoors import CODES, write_tiles
from bipointnet.files import write_beside

RESULT = Path(__file__).parent / "results" / "outdoors.json"
TILES = 12
FRESH = 4
SCORES = ("miou", "oa", "class_iou", "files")
RUNS = {
    "pointnet-vanilla-lsr": ["--model", "pointnet-vanilla", "--points", "256"],
    "pointnet-vanilla-fp": ["--model", "pointnet-vanilla", "--points", "256", "--method", "fp"],
    "pointnet2-lsr": ["--model", "pointnet2", "--block", "20", "--points", "1024", "--epochs", "16"],
}
SEEDS = (0, 1, 2)


def bipointnet(work: Path, *arguments: str | Path) -> str:
    """What a command prints; it computes in one thread."""
    command = [sys.executable, "-m", "bipointnet", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=work, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def evaluated(work: Path, name: str, seed: int) -> dict[str, Any]:
    """Train a network if that is not done, pack it, and evaluate the packed model."""
    run = Path("runs") / f"{name}-seed{seed}"
    if not (work / run / "result.json").exists():
        options = ["--task", "semantic", "--classes", "classes.toml", *RUNS[name], "--seed", str(seed)]
        bipointnet(work, "train", "tiles", *options, "-o", run)
    packed = run.with_suffix(".bpn")
    bipointnet(work, "export", run, "-o", packed)
    held_out = json.loads(bipointnet(work, "eval", packed, "tiles", "--json"))
    fresh = json.loads(bipointnet(work, "eval", packed, "fresh", "--all", "--json"))
    trained = json.loads((work / run / "result.json").read_text())
    figures = {key: trained[key] for key in ("seconds", "device", "version", "commit", "epochs", "last_miou", "picks")}
    return {
        "run": name,
        "seed": seed,
        "bytes": (work / packed).stat().st_size,
        "held_out": {key: held_out[key] for key in SCORES},
        "fresh": {key: fresh[key] for key in SCORES},
        "training": figures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    work: Path = parser.parse_args().work
    if not (work / "tiles").exists():
        write_tiles(work / "tiles", TILES)
        write_tiles(work / "fresh", FRESH, seed=1)
    (work / "classes.toml").write_text("".join(f'{code} = "{name}"\n' for name, code in CODES.items()))
    known = (
        {(row["run"], row["seed"]): row for row in json.loads(RESULT.read_text())["runs"]} if RESULT.exists() else {}
    )
    with ThreadPoolExecutor(2) as pool:
        rows = list(
            pool.map(
                lambda run: known.get(run) or evaluated(work, *run), [(name, seed) for name in RUNS for seed in SEEDS]
            )
        )
    means = {
        name: {
            **{
                tiles: sum(row[tiles]["miou"] for row in rows if row["run"] == name) / len(SEEDS)
                for tiles in ("held_out", "fresh")
            },
            "commands": " ".join(["bipointnet train tiles --task semantic --classes classes.toml", *RUNS[name]]),
        }
        for name in RUNS
    }
    write_beside(RESULT, (json.dumps({"means": means, "runs": rows}, indent=1) + "\n").encode())
    for name, mean in means.items():
        print(f"{name}: {mean['held_out']:.1f} % mIoU of the held-out tiles, {mean['fresh']:.1f} % of the fresh ones")


if __name__ == "__main__":
    main()
