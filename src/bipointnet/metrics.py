"""How good predictions are, in numpy. Accuracies are in percent."""

import numpy as np


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """(classes, classes) counts; row: true class, column: predicted class."""
    return np.bincount(labels * classes + predictions, minlength=classes * classes).reshape(classes, classes)


def overall_accuracy(confusion: np.ndarray) -> float:
    """Share of all clouds that are right, in percent."""
    return 100.0 * float(np.trace(confusion)) / max(int(confusion.sum()), 1)


def class_accuracies(confusion: np.ndarray) -> np.ndarray:
    """(classes,) share of each class that is right, in percent; NaN for a class with no cloud."""
    totals = confusion.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return 100.0 * np.diag(confusion) / np.where(totals > 0, totals, np.nan)


def mean_class_accuracy(confusion: np.ndarray) -> float:
    """Mean of the class accuracies over the classes that occur, in percent."""
    accuracies = class_accuracies(confusion)
    return float(np.nanmean(accuracies)) if np.isfinite(accuracies).any() else 0.0


def bit_entropy(bits: np.ndarray) -> np.ndarray:
    """Entropy in bits of each column of a (M, C) array of truth values, each row one draw: (C,), between 0 and 1."""
    p = bits.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log2(p), 0) + np.where(p < 1, (1 - p) * np.log2(1 - p), 0)
    return np.abs(terms)
