"""The true labels of the points of a file, to compare with: `bipointnet segment --truth`."""

import re
from itertools import islice
from pathlib import Path

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.arrays import load_array
from bipointnet.data.clouds import Cloud
from bipointnet.data.point_labels import read_codes, read_label_file
from bipointnet.data.scan_facts import training_columns
from bipointnet.errors import UserError
from bipointnet.evaluation.predictor import Predictor
from bipointnet.evaluation.scans import OTHER_CLASSES

_BINARY = (".npz", ".bin", ".f32", ".raw")  # formats of clouds without names, but of no labels
_COMMENT = re.compile(r"^\s*%.*|(?<!\.)#.*|//.*")  # 1.#QNAN is a number


def read_truth(path: Path, cloud: Cloud, file: Path, predictor: Predictor, category: int | None) -> np.ndarray:
    """The class of each point of a cloud that was read from `file`, (N,) int64; -1 where it does not count.

    `path` has one label per point of the file: a cloud in any format with a column of labels, such as LAS, or .npy,
    .label, or text with one number per line. For a network that was trained on labeled scans of the user's own they are
    codes as in its training; for others the numbers of classes.
    """
    if not path.exists():
        raise UserError(f"{path}: there is no such file; check the path of --truth")
    codes = _codes(path, len(cloud.points) + cloud.dropped, file, predictor)
    codes = codes if cloud.kept is None else codes[cloud.kept]
    facts = predictor.scans
    if facts is not None:
        return facts.table.index_of(codes, path, OTHER_CLASSES)
    accepted = predictor.accepted(category)
    wrong = np.flatnonzero(~np.isin(codes, accepted))
    if len(wrong):
        raise UserError(
            f"{path}: point {wrong[0]} (counted from 0) has label {codes[wrong[0]]}; expected {_ranges(accepted)}, the "
            "labels that its points can have"
        )
    return codes


def _codes(path: Path, points: int, file: Path, predictor: Predictor) -> np.ndarray:
    """The label of every point of the file, (points,)."""
    facts = predictor.scans
    suffix = path.suffix.lower()
    if suffix in (".label", ".labels", ".seg") or (suffix in clouds.UNNAMED and not _has_columns(path)):
        return read_label_file(path, file, points)
    cloud = clouds.read(path, columns=training_columns(facts, path))
    name = facts.labels if facts is not None else None
    remedy = f"write one label per point, or a header such as x y z {name or 'label'}"
    codes = read_codes(path, cloud, name, remedy)
    if len(codes) + cloud.dropped != points:
        raise UserError(
            f"{path}: holds {len(codes) + cloud.dropped} points, expected {points} as in {file}; name the file "
            "with its labels"
        )
    if cloud.kept is None:
        return codes
    every = np.full(points, -1, np.int64)
    every[cloud.kept] = codes
    return every


def _has_columns(path: Path) -> bool:
    """Whether a file without names of columns is a cloud with labels: records, or four columns or more.

    Otherwise it has one label per point.
    """
    suffix = path.suffix.lower()
    if suffix in _BINARY:
        return True
    try:
        if suffix == ".npy":
            array = load_array(path, "r")
            return array.dtype.names is not None or array.shape[1:] >= (4,)
        with open(path, encoding="utf-8-sig", errors="replace") as text:
            rows = (_COMMENT.sub("", line).replace(",", " ").replace(";", " ").split() for line in text)
            # The first row may be the number of points.
            return any(len(row) >= 4 for row in islice(filter(None, rows), 2))
    except Exception:  # NumPy raises many types for broken files; reading it tells what is wrong
        return False


def _ranges(numbers: np.ndarray) -> str:
    """Ascending numbers in words.

    >>> _ranges(np.array([0, 1, 2, 5, 8, 9]))
    '0 to 2, 5, 8 to 9'
    """
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
