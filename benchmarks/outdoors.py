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
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from bipointnet.data.outdoors import CODES, write_tiles
from bipointnet.files import write_beside

RESULT = Path(__file__).parent / "results" / "outdoors.json"
TILES = 12
FRESH = 4
SCORES = ("miou", "oa", "class_iou", "files")
RUNS = {
    "pointnet-vanilla-fp": ["--model", "pointnet-vanilla", "--points", "256", "--method", "fp"],
    "pointnet2-lsr": ["--model", "pointnet2", "--block", "20", "--points", "1024", "--epochs", "16"],
    "pointnet-vanilla-lsr": ["--model", "pointnet-vanilla", "--points", "256"],
}
SEEDS = (0, 1, 2)
Run = tuple[str, int]


def bipointnet(work: Path, *arguments: str | Path) -> tuple[str, float]:
    """What a command prints, and its CPU seconds; it computes in one thread."""
    command = [sys.executable, "-m", "bipointnet", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed, usage.ru_utime + usage.ru_stime


def evaluated(work: Path, name: str, seed: int) -> dict[str, Any]:
    """Train a network, pack it, and evaluate the packed model."""
    run = Path("runs") / f"{name}-seed{seed}"
    options = ["--task", "semantic", "--classes", "classes.toml", *RUNS[name], "--seed", str(seed)]
    _, cpu_seconds = bipointnet(work, "train", "tiles", *options, "-o", run)
    packed = run.with_suffix(".bpn")
    bipointnet(work, "export", run, "-o", packed)
    held_out = json.loads(bipointnet(work, "eval", packed, "tiles", "--json")[0])
    fresh = json.loads(bipointnet(work, "eval", packed, "fresh", "--all", "--json")[0])
    trained = json.loads((work / run / "result.json").read_text())
    figures = {key: trained[key] for key in ("device", "version", "commit", "epochs", "last_miou", "picks")}
    return {
        "run": name,
        "seed": seed,
        "bytes": (work / packed).stat().st_size,
        "held_out": {key: held_out[key] for key in SCORES},
        "fresh": {key: fresh[key] for key in SCORES},
        "training": {"cpu_seconds": cpu_seconds, **figures},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    work: Path = parser.parse_args().work
    if not (work / "tiles").exists():
        write_tiles(work / "tiles", TILES)
        write_tiles(work / "fresh", FRESH, seed=1)
    (work / "classes.toml").write_text("".join(f'{code} = "{name}"\n' for name, code in CODES.items()))
    rows: dict[Run, dict[str, Any]] = {}
    if RESULT.exists():
        rows = {(row["run"], row["seed"]): row for row in json.loads(RESULT.read_text())["runs"]}
    runs = [(name, seed) for name in RUNS for seed in SEEDS]
    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(evaluated, work, *run) for run in runs if run not in rows]
        for done in as_completed(started):
            row = done.result()
            rows[row["run"], row["seed"]] = row
            write([rows[run] for run in runs if run in rows])


def write(rows: list[dict[str, Any]]) -> None:
    """Write the rows and their means, and print the means."""
    means = {}
    for name, options in RUNS.items():
        own = [row for row in rows if row["run"] == name]
        if own:
            scores = {tiles: sum(row[tiles]["miou"] for row in own) / len(own) for tiles in ("held_out", "fresh")}
            command = " ".join(["bipointnet train tiles --task semantic --classes classes.toml", *options])
            means[name] = {**scores, "command": command}
            print(
                f"{name}: mIoU {scores['held_out']:.1f} % of the held-out tiles, {scores['fresh']:.1f} % of fresh ones"
            )
    write_beside(RESULT, (json.dumps({"means": means, "runs": rows}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
