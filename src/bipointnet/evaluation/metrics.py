"""Metrics of predictions, in NumPy. Accuracies and IoUs are in percent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np


class _Indexable(Protocol):
    def __getitem__(self, index: Any, /) -> Any: ...


_Array = TypeVar("_Array", bound=_Indexable)


def argmax_among(logits: _Array, accepted: _Array) -> _Array:
    """The accepted class with the largest logit: (..., classes) and (accepted,) -> (...).

    For NumPy arrays and for PyTorch tensors, as long as both arguments are of the same kind (and on the same device).
    Of several equal logits the one that comes first in `accepted` wins.

    Args:
        logits: one value per class in the last dimension.
        accepted: indices of the classes that may be predicted, such as the parts of one category.

    Examples:
        >>> import numpy as np
        >>> argmax_among(np.array([[9.0, 1.0, 2.0], [9.0, 4.0, 3.0]]), np.array([1, 2])).tolist()
        [2, 1]
    """
    return accepted[logits[..., accepted].argmax(-1)]


@dataclass(frozen=True)
class Accuracy:
    """What a confusion matrix (classes, classes) says: counts; row: true class, column: predicted class.

    >>> Accuracy(np.array([[3, 1], [0, 2]])).overall
    83.33333333333333
    """

    confusion: np.ndarray

    @property
    def overall(self) -> float:
        """Overall accuracy in percent."""
        return overall_accuracy(self.confusion)

    @property
    def mean_class(self) -> float:
        """Mean of the class accuracies in percent."""
        return mean_class_accuracy(self.confusion)


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """(classes, classes) counts; row: true class, column: predicted class. Labels of -1 (unknown) do not count."""
    known = labels >= 0
    labels, predictions = labels[known], predictions[known]
    return np.bincount(labels * classes + predictions, minlength=classes * classes).reshape(classes, classes)


def overall_accuracy(confusion: np.ndarray) -> float:
    """Percentage of all clouds or points that are classified correctly."""
    return 100.0 * float(np.trace(confusion)) / max(int(confusion.sum()), 1)


def class_accuracies(confusion: np.ndarray) -> np.ndarray:
    """(classes,) percentage of each class that is classified correctly; NaN for a class without clouds."""
    totals = confusion.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return 100.0 * np.diag(confusion) / np.where(totals > 0, totals, np.nan)


def mean_class_accuracy(confusion: np.ndarray) -> float:
    """Mean accuracy of the classes that occur, in percent."""
    accuracies = class_accuracies(confusion)
    return float(np.nanmean(accuracies)) if np.isfinite(accuracies).any() else 0.0


def summed_over_folds(confusions: Sequence[np.ndarray]) -> np.ndarray:
    """The confusion matrix of all folds. Scores over all folds come from it and are not means of the folds' scores."""
    return np.sum(confusions, axis=0)


def class_ious(confusion: np.ndarray) -> np.ndarray:
    """(classes,) intersection over union of the true and the predicted points of each class, in percent.

    NaN for a class that is neither present nor predicted.
    """
    hits = np.diag(confusion)
    union = confusion.sum(axis=0) + confusion.sum(axis=1) - hits
    return 100.0 * hits / np.where(union > 0, union, np.nan)


def mean_iou(confusion: np.ndarray) -> float:
    """mIoU: mean IoU of the classes that are present or predicted, in percent."""
    ious = class_ious(confusion)
    return float(np.nanmean(ious)) if np.isfinite(ious).any() else 0.0


def shape_ious(
    labels: np.ndarray, predictions: np.ndarray, categories: np.ndarray, parts: Sequence[Sequence[int]]
) -> np.ndarray:
    """(M,) mean IoU of each shape over all parts of its category, in percent.

    A part that is neither present nor predicted counts as 100.

    Args:
        labels: (M, P) the part of each point.
        predictions: (M, P) the part predicted for each point.
        categories: (M,) the category of each shape.
        parts: the parts of each category.
    """
    ious = np.zeros(len(labels))
    for category, own in enumerate(parts):
        rows = np.flatnonzero(categories == category)
        if len(rows):
            ious[rows] = _own_ious(labels[rows], predictions[rows], own).mean(axis=0)
    return ious


def cloud_ious(labels: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """(M,) mIoU of each cloud from the classes (M, P) of its points, over the classes present or predicted in it."""
    pairs = zip(labels, predictions, strict=True)
    return np.array([mean_iou(confusion_matrix(own, found, classes)) for own, found in pairs])


def part_ious(
    labels: np.ndarray, predictions: np.ndarray, categories: np.ndarray, parts: Sequence[Sequence[int]]
) -> np.ndarray:
    """(parts,) mean IoU of each part over the shapes of its category, in percent; NaN if there are none.

    Takes the arguments of `shape_ious`. The mean over the parts of a category is its mean over shapes.
    """
    ious = np.full(1 + max(part for own in parts for part in own), np.nan)
    for category, own in enumerate(parts):
        rows = np.flatnonzero(categories == category)
        if len(rows):
            ious[list(own)] = _own_ious(labels[rows], predictions[rows], own).mean(axis=1)
    return ious


def _own_ious(labels: np.ndarray, predictions: np.ndarray, own: Sequence[int]) -> np.ndarray:
    """(parts, M) IoU of each part of one category in each of its shapes (M, P)."""
    return np.stack([_part_iou(labels == part, predictions == part) for part in own])


def _part_iou(present: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """(M,) IoU of one part from bool arrays (M, P)."""
    union = (present | predicted).sum(axis=1)
    return np.where(union > 0, 100.0 * (present & predicted).sum(axis=1) / np.maximum(union, 1), 100.0)


def category_ious(ious: np.ndarray, categories: np.ndarray, count: int) -> np.ndarray:
    """(count,) mean of the shapes' IoUs (M,) in each category; NaN for a category without shapes."""
    shapes = np.bincount(categories, minlength=count)
    return np.bincount(categories, weights=ious, minlength=count) / np.where(shapes > 0, shapes, np.nan)


def instance_mean_iou(ious: np.ndarray) -> float:
    """Mean over all shapes."""
    return float(np.mean(ious)) if len(ious) else 0.0


def category_mean_iou(of_categories: np.ndarray) -> float:
    """Mean over the categories that have shapes, each counted once."""
    return float(np.nanmean(of_categories)) if np.isfinite(of_categories).any() else 0.0


def weighted_mean_iou(of_categories: np.ndarray, sizes: np.ndarray) -> float:
    """The paper's mean: each category is weighted by its shapes in the whole data set, training and test split."""
    evaluated = np.isfinite(of_categories) & (sizes > 0)
    return float(np.average(of_categories[evaluated], weights=sizes[evaluated])) if evaluated.any() else 0.0


def class_weights(counts: np.ndarray) -> np.ndarray:
    """(classes,) float32 weights for the loss, (f_max / f_c)^(1/3) for f_c points of class c; 0 for f_c = 0."""
    ratio = np.max(counts, initial=0) / np.where(counts > 0, counts, np.inf)
    return np.cbrt(ratio).astype(np.float32)


def bit_entropy(bits: np.ndarray) -> np.ndarray:
    """(C,) entropy in bits, between 0 and 1, of each column of a bool array (M, C) whose rows are samples."""
    return share_entropy(bits.mean(axis=0))


def share_entropy(p: np.ndarray) -> np.ndarray:
    """Entropy in bits, between 0 and 1, of bits of which a share `p` is 1.

    >>> share_entropy(np.array([0, 0.5, 1])).tolist()
    [0.0, 1.0, 0.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log2(p), 0) + np.where(p < 1, (1 - p) * np.log2(1 - p), 0)
    return np.abs(terms)
