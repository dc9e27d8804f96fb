"""Cut a validation split from the training clouds of ModelNet40, to choose recipes without the test set.

    python benchmarks/validation_split.py modelnet40_ply_hdf5_2048 OUT

OUT has the layout of the data set: one cloud in five of each class, at random, is its test split, the others are its
training split. The test clouds of the data set are left out.
"""

import argparse
from pathlib import Path

import h5py
import numpy as np

from bipointnet.data import open_dataset

SHARE = 5
SEED = 0


def validation(labels: np.ndarray) -> np.ndarray:
    """Which clouds are for validation: about one in SHARE of each class."""
    rng = np.random.default_rng(SEED)
    chosen = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        chosen[members[: max(1, round(len(members) / SHARE))]] = True
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    if args.out.exists():
        parser.error(f"{args.out} exists; name a new folder")
    found = open_dataset(str(args.data), points=1024)
    args.out.mkdir(parents=True)
    chosen = validation(found.train.labels)
    for name, rows in (("train", ~chosen), ("test", chosen)):
        with h5py.File(args.out / f"{name}.h5", "w") as file:
            file["data"] = found.train.points[rows]
            file["label"] = found.train.labels[rows].astype(np.uint8)[:, None]
        (args.out / f"{name}_files.txt").write_text(f"{name}.h5\n")
        print(f"{name}: {rows.sum()} clouds")
    (args.out / "shape_names.txt").write_text("\n".join(found.classes) + "\n")


if __name__ == "__main__":
    main()
