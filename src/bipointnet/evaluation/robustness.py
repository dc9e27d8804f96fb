"""How robust a classifier is: its accuracy on test clouds with the corruptions of ModelNet-C (`data.corruptions`).

ModelNet-C also divides the error of a network by that of a DGCNN (mCE). Only accuracies are here, in percent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np

from bipointnet.data.corruptions import CORRUPTIONS, POINTS, SEVERITIES, cloud_rng, corrupt
from bipointnet.data.dataset import PointClouds
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.evaluation.predictor import Predictor
from bipointnet.runtime.model import kept_points
from bipointnet.runtime.progress import Progress, no_progress

CLOUDS_PER_BATCH = 32


@dataclass(frozen=True)
class Robustness:
    """Overall accuracies in percent.

    clouds: how many were tested. points: per cloud, before corruption. clean: without corruption. corrupted: for each
    corruption the accuracies at the severities 1 to 5.

    >>> found = Robustness(10, 1024, 90.0, {"jitter": (90, 80, 70, 60, 50), "rotate": (90, 90, 90, 80, 80)})
    >>> found.mean_of("jitter"), found.mean
    (70, 78)
    """

    clouds: int
    points: int
    clean: float
    corrupted: dict[str, tuple[float, ...]]

    def mean_of(self, name: str) -> float:
        """The mean accuracy of one corruption over its severities."""
        return mean(self.corrupted[name])

    @property
    def mean(self) -> float:
        """The mean accuracy of all corruptions and severities."""
        return mean(map(self.mean_of, self.corrupted))

    @property
    def by_severity(self) -> tuple[float, ...]:
        """The mean accuracy of all corruptions at each severity."""
        return tuple(map(mean, zip(*self.corrupted.values(), strict=True)))

    def as_json(self) -> dict[str, Any]:
        """The figures as `eval --corruptions --json` prints them."""
        return {
            "clouds": self.clouds,
            "points": self.points,
            "clean": self.clean,
            "corruptions": {
                name: {"severities": list(accuracies), "mean": self.mean_of(name)}
                for name, accuracies in self.corrupted.items()
            },
            "mean": self.mean,
        }


def robustness(
    predict: Callable[[np.ndarray], np.ndarray],
    clouds: np.ndarray,
    labels: np.ndarray,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Robustness:
    """The accuracy of a classifier on clean clouds, and for each corruption and severity.

    Clouds are normalized to the unit sphere before they are corrupted. What happens to a cloud depends on its index and
    the seed only.

    Args:
        predict: from clouds (B, N, C) float32 to classes (B,). N depends on the corruption.
        clouds: (M, N, C) float32; the definitions are for N = 1024.
        labels: (M,) the classes.
        seed: chooses the random numbers.
        progress: called with (done, total).

    Examples:
        >>> model = bipointnet.load("mine.bpn")  # doctest: +SKIP
        >>> robustness(lambda batch: model.predict(batch).labels, clouds, labels).mean_of("jitter")  # doctest: +SKIP
        71.3
    """
    if clouds.ndim != 3 or len(clouds) == 0 or labels.shape != (len(clouds),):
        raise UserError(
            f"clouds: an array of shape {clouds.shape} with labels of shape {labels.shape}; expected "
            "(clouds, points, channels) and one label per cloud"
        )
    tests = [None, *((name, severity) for name in CORRUPTIONS for severity in SEVERITIES)]  # None: clean
    normalized = normalize(clouds)
    right = dict.fromkeys(tests, 0)
    for number, test in enumerate(tests):
        for start in range(0, len(clouds), CLOUDS_PER_BATCH):
            rows = range(start, min(start + CLOUDS_PER_BATCH, len(clouds)))
            batch = clouds[rows] if test is None else _corrupted(normalized, rows, *test, seed)
            right[test] += int((predict(batch) == labels[rows]).sum())
            progress(number * len(clouds) + rows.stop, len(tests) * len(clouds))
    accuracy = {test: 100 * count / len(clouds) for test, count in right.items()}
    return Robustness(
        len(clouds),
        clouds.shape[1],
        accuracy[None],
        {name: tuple(accuracy[name, severity] for severity in SEVERITIES) for name in CORRUPTIONS},
    )


def evaluate_robustness(predictor: Predictor, clouds: PointClouds, progress: Progress = no_progress) -> Robustness:
    """How robust a network is on the test split, each cloud reduced to its first 1024 points before it is corrupted.

    A network gets the points that a prediction uses: of a large cloud a sample, and each copied point once.
    """
    predictor.require_classifier()
    predictor.prepare()
    test = clouds.test
    return robustness(
        lambda batch: _classify(predictor, batch), test.points[:, :POINTS], test.labels, progress=progress
    )


def _corrupted(clouds: np.ndarray, rows: Sequence[int], name: str, severity: int, seed: int) -> np.ndarray:
    return np.stack([corrupt(clouds[i], name, severity, cloud_rng(name, severity, seed, i)) for i in rows])


def _classify(predictor: Predictor, clouds: np.ndarray) -> np.ndarray:
    """The classes (B,) of clouds (B, N, C), in one batch per number of points that are left without copies."""
    kept = [kept_points(cloud, predictor.max_points) for cloud in clouds]
    sizes = np.array([len(cloud) for cloud in kept])
    labels = np.empty(len(kept), np.int64)
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        labels[rows] = predictor.logits(np.stack([kept[i] for i in rows])).argmax(axis=1)
    return labels
