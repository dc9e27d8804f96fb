"""Accuracy of packed models if several draws of points vote: the mean of their logits decides.

    python benchmarks/votes.py FILE... --data modelnet40_ply_hdf5_2048

A draw is a random choice of as many points of a stored cloud as in training. k draws take k times as long as one.
Writes benchmarks/results/votes-DATA.json. Needs no PyTorch.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from bipointnet.data import open_dataset
from bipointnet.files import write_beside
from bipointnet.runtime.model import load

RESULTS = Path(__file__).parent / "results"
DRAWS = (1, 2, 4, 8)
BATCH = 200


def accuracies(path: Path, data: str) -> dict[str, float]:
    """For each number of draws the accuracy in percent, and that with the first points as stored."""
    model = load(path)
    opened = open_dataset(data, model.points)
    clouds, labels = opened.test.points, opened.test.labels
    rng = np.random.default_rng(0)
    total = np.zeros((len(clouds), len(model.classes)))

    def logits(chosen: np.ndarray) -> np.ndarray:
        return np.concatenate([model.logits(chosen[i : i + BATCH]) for i in range(0, len(chosen), BATCH)])

    def percent(scores: np.ndarray) -> float:
        return round(100 * float((scores.argmax(axis=1) == labels).mean()), 2)

    found = {"first points": percent(logits(np.ascontiguousarray(clouds[:, : model.points])))}
    for draw in range(1, max(DRAWS) + 1):
        order = rng.permuted(np.tile(np.arange(clouds.shape[1]), (len(clouds), 1)), axis=1)[:, : model.points]
        total += logits(np.take_along_axis(clouds, order[..., None], axis=1))
        if draw in DRAWS:
            found[str(draw)] = percent(total)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--data", required=True)
    given = parser.parse_args()
    name = open_dataset(given.data, 1).name
    report = {"data": name, "draws": DRAWS, "files": {file.stem: accuracies(file, given.data) for file in given.files}}
    write_beside(RESULTS / f"votes-{name}.json", (json.dumps(report, indent=1) + "\n").encode())
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
