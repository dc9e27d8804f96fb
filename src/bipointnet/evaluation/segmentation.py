"""How well points are labeled, as tables and result files show it, in NumPy. IoUs and accuracies are in percent."""

from typing import NamedTuple

import numpy as np

from bipointnet.data.dataset import PointClouds
from bipointnet.evaluation import metrics


class Row(NamedTuple):
    """One row of a table: a class and the number of its points, or a category and the number of its shapes; its IoU."""

    name: str
    size: int
    iou: float


class Scores(NamedTuple):
    """Scores of the predictions for a whole split.

    figures: name -> value, as in result files. classes: one row per class of points. categories: one row per category
    of shapes, if there are any. confusion: (classes, classes) counts of points.
    """

    figures: dict[str, float]
    classes: list[Row]
    categories: list[Row]
    confusion: np.ndarray

    def as_json(self) -> dict:
        """Figures and tables as in result files, without classes that are neither present nor predicted."""
        tables = {"class_iou": self.classes, "category_iou": self.categories}
        named = {key: {row.name: row.iou for row in rows if row.iou == row.iou} for key, rows in tables.items() if rows}
        return {**self.figures, **named}


def of_parts(data: PointClouds, predictions: np.ndarray) -> Scores:
    """Scores of the test split of objects. predictions: (M, P) the parts predicted for the first P points of each.

    miou is the mean over all shapes, as in most of the literature; paper_miou weights categories by all their shapes.
    """
    categories, labels = data.test.labels, _labels(data, predictions)
    parts, sizes = metrics.part_ious(labels, predictions, categories, data.parts), data.class_sizes
    ious = metrics.shape_ious(labels, predictions, categories, data.parts)
    of_categories = metrics.category_ious(ious, categories, len(data.classes))
    confusion = metrics.confusion_matrix(labels.ravel(), predictions.ravel(), len(data.point_classes))
    figures = {
        "oa": metrics.overall_accuracy(confusion),
        "miou": metrics.instance_mean_iou(ious),
        "category_miou": metrics.category_mean_iou(of_categories),
        "instance_miou": metrics.instance_mean_iou(ious),
        "paper_miou": metrics.weighted_mean_iou(of_categories, sizes),
    }
    tested = np.bincount(categories, minlength=len(data.classes))
    return Scores(
        figures,
        _rows(data.point_classes, confusion.sum(axis=1), parts),
        _rows(data.classes, tested, of_categories),
        confusion,
    )


def of_scenes(classes: tuple[str, ...], confusion: np.ndarray) -> Scores:
    """Scores of scenes from the confusion matrix of their points, of one fold or summed over several."""
    figures = {"oa": metrics.overall_accuracy(confusion), "miou": metrics.mean_iou(confusion)}
    return Scores(figures, _rows(classes, confusion.sum(axis=1), metrics.class_ious(confusion)), [], confusion)


def of_blocks(data: PointClouds, predictions: np.ndarray) -> Scores:
    """Scores of the test split of blocks. predictions: (M, P) the classes predicted for the first P points of each."""
    labels = _labels(data, predictions)
    confusion = metrics.confusion_matrix(labels.ravel(), predictions.ravel(), len(data.point_classes))
    return of_scenes(data.point_classes, confusion)


def _labels(data: PointClouds, predictions: np.ndarray) -> np.ndarray:
    assert data.test.point_labels is not None
    return data.test.point_labels[:, : predictions.shape[1]]


def _rows(names: tuple[str, ...], counts: np.ndarray, ious: np.ndarray) -> list[Row]:
    return [Row(name, int(count), float(iou)) for name, count, iou in zip(names, counts, ious, strict=True)]
