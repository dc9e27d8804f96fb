"""Evaluate a trained network on the test split of a data set, in batches, so that memory stays bounded."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bipointnet.data import BUILT_IN, DATASETS, fold_names, layout_name, open_dataset
from bipointnet.data.dataset import PointClouds
from bipointnet.data.summary import first_names
from bipointnet.data.up_axis import rotate_up
from bipointnet.errors import UserError
from bipointnet.evaluation import metrics, segmentation
from bipointnet.evaluation.predictor import Predictor
from bipointnet.runtime.progress import Progress, no_progress

POINTS_PER_BATCH = 2**15
MOST_LISTED = 10  # names in an error message


class Mistake(NamedTuple):
    """A misclassified cloud: its file, or its place in the test split where clouds are not files."""

    file: str
    truth: str
    prediction: str
    probability: float


@dataclass(frozen=True)
class Classification(metrics.Accuracy):
    """The predictions for a whole test split.

    dataset: its name. entropy: bits per pooled channel, mean over the channels; None for a packed model. mistakes: the
    clouds whose class was not predicted, in the order of the split.
    """

    dataset: str
    classes: tuple[str, ...]
    entropy: float | None
    mistakes: tuple[Mistake, ...] = ()

    @property
    def clouds(self) -> int:
        return int(self.confusion.sum())

    def most_confused(self, index: int) -> tuple[str, int] | None:
        """The class that a class is most often mistaken for, and how often; None if it never is."""
        row = self.confusion[index].copy()
        row[index] = 0
        return (self.classes[row.argmax()], int(row.max())) if row.any() else None

    def as_json(self) -> dict[str, Any]:
        """The figures as `eval --json` prints them; a class without clouds is left out."""
        accuracies = zip(self.classes, metrics.class_accuracies(self.confusion), strict=True)
        return {
            "dataset": self.dataset,
            "clouds": self.clouds,
            "oa": self.overall,
            "macc": self.mean_class,
            **({} if self.entropy is None else {"entropy": self.entropy}),
            "class_accuracy": {name: float(accuracy) for name, accuracy in accuracies if accuracy == accuracy},
            "confusion": self.confusion.tolist(),
        }


def require_matching_data(data: str, clouds: PointClouds, predictor: Predictor) -> None:
    """Raise UserError unless a data set has the classes and channels that a network was trained with."""
    found = clouds.classes if predictor.task == "classify" else clouds.point_classes
    if list(found) != predictor.classes:
        missing = [name for name in predictor.classes if name not in found]
        unknown = [name for name in found if name not in predictor.classes]
        differences = [
            f"{title} {first_names(names, MOST_LISTED)}"
            for title, names in (("lacks", missing), ("adds", unknown))
            if names
        ] or ["has them in another order"]
        raise UserError(
            f"{data}: its {len(found)} classes are not the {len(predictor.classes)} of "
            f"{predictor.data or 'the data'} that {predictor.path} was trained on: it {' and '.join(differences)}; "
            "expected the same class names"
        )
    if clouds.channels != predictor.channels:
        raise UserError(
            f"{data}: {clouds.channels} channels per point; expected the {predictor.channels} that {predictor.path} "
            "was trained with"
        )


def open_test_data(
    predictor: Predictor,
    data: str,
    skip_bad: bool = False,
    every: bool = False,
    points: int | None = None,
    up: str | None = None,
) -> PointClouds:
    """The data set to evaluate a network on, restricted as in training to one category or one fold.

    The name of the training data says so after a slash: the category of objects, or the fold of rooms that was held
    out. A network is never evaluated on a fold that it may have been trained on. Of a folder of the user's own files,
    all that a run has not seen are tested (see `data.own`), or `every` one; `skip_bad` leaves out those that cannot be
    read. A cloud has at least `points` points (default: as in training). `up`: the axis that points up in the test
    clouds, which are rotated to that of the training data; None: they are as in training.
    """
    part = predictor.data.partition("/")[2] if predictor.task != "classify" else ""
    folds = fold_names(data) if part and predictor.task == "semantic" else []
    if folds and part not in folds:
        raise UserError(
            f"{data}: {predictor.path} was trained on all folds but {part} and may have seen any of these: "
            f"{', '.join(folds)}; expected data with {part}"
        )
    if every:
        layout = layout_name(data)
        if layout in BUILT_IN or DATASETS[layout].open is not None:
            raise UserError(f"{data}: has a test split of its own; --all is for files of your own; leave it out")
    own = part if folds else None
    trained = predictor.trained and replace(predictor.trained, every=every)
    count = points or predictor.points
    clouds = open_dataset(
        data, count, fold=own, trained=trained, skip_bad=skip_bad, scans=predictor.scan_options(count)
    )
    clouds = clouds.only(part) if part and predictor.task == "part" else clouds
    require_matching_data(data, clouds, predictor)
    if up is None:
        return clouds
    test = clouds.test.points
    turned = np.concatenate([rotate_up(test[..., :3], up, predictor.require_up(up)), test[..., 3:]], axis=-1)
    return replace(clouds, test=replace(clouds.test, points=turned))


def evaluate_classifier(predictor: Predictor, clouds: PointClouds, progress: Progress = no_progress) -> Classification:
    """How well a network classifies the test split, each cloud reduced to its first `predictor.points` points."""
    points, logits, pooled = clouds.test.points[:, : predictor.points], [], []
    for rows in _batches(np.arange(len(points)), predictor):
        answer = predictor.run(points[rows])
        logits.append(answer.logits)
        pooled += [] if answer.pooled is None else [answer.pooled]
        progress(int(rows[-1]) + 1, len(points))
    predictions, mistakes = _mistakes(clouds, np.concatenate(logits))
    confusion = metrics.confusion_matrix(clouds.test.labels, predictions, len(clouds.classes))
    entropy = float(metrics.bit_entropy(np.concatenate(pooled)).mean()) if pooled else None
    return Classification(confusion, clouds.name, clouds.classes, entropy, mistakes)


def _mistakes(clouds: PointClouds, logits: np.ndarray) -> tuple[np.ndarray, tuple[Mistake, ...]]:
    """The predicted labels of logits (M, classes), and the clouds that are misclassified."""
    labels = logits.argmax(axis=1)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = weights.max(axis=1) / weights.sum(axis=1)
    test, names = clouds.test, clouds.test_names
    return labels, tuple(
        Mistake(
            names[i],
            clouds.classes[test.labels[i]],
            clouds.classes[labels[i]],
            float(probabilities[i]),
        )
        for i in np.flatnonzero(labels != test.labels)
    )


def evaluate_segmenter(
    predictor: Predictor, clouds: PointClouds, progress: Progress = no_progress
) -> segmentation.Scores:
    """How well a network labels the points of the test split."""
    points = clouds.test.points[:, : predictor.points]
    labels = np.empty(points.shape[:2], np.int64)
    done = 0
    for category in range(len(clouds.classes)) if predictor.categories else [None]:
        of_category = np.arange(len(points)) if category is None else np.flatnonzero(clouds.test.labels == category)
        for rows in _batches(of_category, predictor):
            labels[rows] = predictor.label(points[rows], category)
            done += len(rows)
            progress(done, len(points))
    score = segmentation.of_blocks if predictor.task == "semantic" else segmentation.of_parts
    return score(clouds, labels)


def _batches(rows: np.ndarray, predictor: Predictor) -> list[np.ndarray]:
    size = max(1, POINTS_PER_BATCH // predictor.points)
    return [rows[start : start + size] for start in range(0, len(rows), size)]
