"""Predictions for a file with one cloud: the class of the cloud, or the class of each of its points."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.clouds import Cloud
from bipointnet.data.shuffle import Ranks
from bipointnet.errors import UserError
from bipointnet.evaluation import metrics, segmentation
from bipointnet.evaluation.evaluate import Progress
from bipointnet.evaluation.predictor import Predictor
from bipointnet.runtime import label as scan


class FilePrediction(NamedTuple):
    """The most probable class of the cloud in a file.

    points: how many of its points the network was given. note: on points that were left out, or None.
    """

    file: str
    label: str
    probability: float
    points: int
    note: str | None = None


def require_coordinates_only(predictor: Predictor) -> None:
    """Raise UserError for a network that reads more than x, y and z: `predict` takes no more from a file."""
    if predictor.channels != 3:
        raise UserError(
            f"{predictor.path}: reads {predictor.channels} channels per point; expected 3 (x, y, z), all that predict "
            "takes from a file"
        )


def classify_file(
    predictor: Predictor, path: Path, *, columns: Sequence[str] = (), strict: bool = False
) -> FilePrediction:
    """Classify the cloud in a file.

    The network is given at most as many points as in training: a larger cloud is sampled, a mesh always is. The C++
    tool bipointnet-run draws the same points.
    """
    cloud = clouds.read(path, columns=columns, strict=strict)
    few = cloud.faces is None and len(cloud.points) <= predictor.points
    points = cloud.points if few else clouds.sample(cloud, predictor.points, Ranks(), path)
    probabilities = predictor.predict(points[None])[0]
    best = int(probabilities.argmax())
    note = clouds.dropped_note(cloud, path)
    return FilePrediction(str(path), predictor.classes[best], float(probabilities[best]), len(points), note)


def label_cloud(
    predictor: Predictor, cloud: Cloud, source: Path, category: int | None, progress: Progress
) -> np.ndarray:
    """The class of each point of a cloud of any size, (N,)."""
    network = scan.Network(
        lambda points: predictor.logits(points, category),
        predictor.accepted(category),
        predictor.task,
        predictor.points,
        predictor.channels,
    )
    return scan.label_by(network, cloud, source, progress)


def compare_with_truth(
    predictor: Predictor, labels: np.ndarray, truth: np.ndarray, category: int | None
) -> segmentation.Scores:
    """How well the points of one cloud are labeled; labels, truth: (N,).

    For parts, miou is that of the shape, as in `metrics.shape_ious`: a part that is neither there nor predicted counts
    as 100.
    """
    confusion = metrics.confusion_matrix(truth, labels, len(predictor.classes))
    scores = segmentation.of_scenes(tuple(predictor.classes), confusion)
    if predictor.task == "part":
        parts = [predictor.accepted(category).tolist()]
        iou = metrics.shape_ious(truth[None], labels[None], np.zeros(1, np.int64), parts)
        scores = scores._replace(figures=scores.figures | {"miou": float(iou[0])})
    return scores


def count_classes(predictor: Predictor, labels: np.ndarray) -> dict[str, int]:
    """The number of points of each class that occurs among labels (N,)."""
    counts: Any = np.bincount(labels, minlength=len(predictor.classes))
    return {name: int(count) for name, count in zip(predictor.classes, counts, strict=True) if count}
