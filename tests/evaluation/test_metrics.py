"""Metrics against cases computed by hand and an independent implementation."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipointnet.evaluation import metrics


def test_a_case_by_hand():
    labels, predictions = np.array([0, 0, 0, 1, 1, 3]), np.array([0, 0, 1, 1, 0, 3])
    confusion = metrics.confusion_matrix(labels, predictions, 4)
    assert confusion.tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert metrics.overall_accuracy(confusion) == pytest.approx(100 * 4 / 6)
    assert metrics.mean_class_accuracy(confusion) == pytest.approx(100 * (2 / 3 + 1 / 2 + 1) / 3)
    assert np.isnan(metrics.class_accuracies(confusion)[2]), "a class without clouds has no accuracy"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_counting_one_by_one_gives_the_same(pairs):
    labels, predictions = np.array(pairs).T
    confusion = metrics.confusion_matrix(labels, predictions, 5)
    assert all(confusion[i, j] == pairs.count((i, j)) for i in range(5) for j in range(5))
    assert metrics.overall_accuracy(confusion) == pytest.approx(100 * np.mean(labels == predictions))
    recalls = [np.mean(predictions[labels == c] == c) for c in set(labels.tolist())]
    assert metrics.mean_class_accuracy(confusion) == pytest.approx(100 * np.mean(recalls))


def test_metrics_of_nothing_are_zero_not_an_error():
    empty = np.zeros((3, 3), np.int64)
    assert metrics.overall_accuracy(empty) == 0
    assert metrics.mean_class_accuracy(empty) == 0
    assert metrics.mean_iou(empty) == 0
    nothing = np.zeros((0, 8), np.int64)
    assert metrics.shape_ious(nothing, nothing, nothing[:, 0], [(0, 1)]).tolist() == []
    assert metrics.instance_mean_iou(np.zeros(0)) == 0
    of_none = metrics.category_ious(np.zeros(0), np.zeros(0, np.int64), 2)
    assert np.isnan(of_none).all()
    assert metrics.category_mean_iou(of_none) == metrics.weighted_mean_iou(of_none, np.array([3, 4])) == 0


def test_ious_of_classes_by_hand():
    labels, predictions = np.array([0, 0, 0, 1, 1, 3]), np.array([0, 0, 1, 1, 0, 4])
    confusion = metrics.confusion_matrix(labels, predictions, 5)
    # Class 2 does not occur; 3 is present but never predicted, 4 is predicted but never present.
    np.testing.assert_allclose(metrics.class_ious(confusion), [100 * 2 / 4, 100 * 1 / 3, np.nan, 0, 0])
    assert metrics.mean_iou(confusion) == pytest.approx(100 * (2 / 4 + 1 / 3 + 0 + 0) / 4)


def iou_one_by_one(labels: list[int], predictions: list[int], part: int) -> float | None:
    """Counted point by point; None if the part is neither present nor predicted."""
    both = either = 0
    for label, prediction in zip(labels, predictions, strict=True):
        both += label == part and prediction == part
        either += label == part or prediction == part
    return 100 * both / either if either else None


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30), min_size=1, max_size=4))
def test_ious_of_folds_are_those_of_all_points_at_once(folds):
    arrays = [np.array(pairs, int).reshape(-1, 2) for pairs in folds]
    confusion = metrics.summed_over_folds([metrics.confusion_matrix(fold[:, 0], fold[:, 1], 5) for fold in arrays])
    labels, predictions = ([pair[which] for pairs in folds for pair in pairs] for which in (0, 1))
    expected = [iou_one_by_one(labels, predictions, c) for c in range(5)]
    np.testing.assert_allclose(metrics.class_ious(confusion), [np.nan if iou is None else iou for iou in expected])
    there = [iou for iou in expected if iou is not None]
    assert metrics.mean_iou(confusion) == pytest.approx(np.mean(there) if there else 0)


def test_ious_of_shapes_by_hand():
    parts = [(0, 1, 2), (3, 4)]
    labels = np.array([[0, 0, 1, 1], [3, 3, 3, 3], [3, 3, 4, 4], [0, 1, 2, 2]])
    predictions = np.array([[0, 1, 1, 1], [3, 3, 3, 3], [4, 4, 3, 3], [0, 1, 2, 4]])
    ious = metrics.shape_ious(labels, predictions, np.array([0, 1, 1, 0]), parts)
    # Part 2 is neither present nor predicted in the first shape, nor part 4 in the second: each counts as 1.
    expected = [(1 / 2 + 2 / 3 + 1) / 3, (1 + 1) / 2, 0, (1 + 1 + 1 / 2) / 3]
    np.testing.assert_allclose(ious, 100 * np.array(expected))
    of_categories = metrics.category_ious(ious, np.array([0, 1, 1, 0]), 3)
    np.testing.assert_allclose(of_categories[:2], [(ious[0] + ious[3]) / 2, (ious[1] + ious[2]) / 2])
    assert np.isnan(of_categories[2]), "a category without shapes has no IoU"
    assert metrics.instance_mean_iou(ious) == pytest.approx(ious.mean())
    assert metrics.category_mean_iou(of_categories) == pytest.approx((of_categories[0] + of_categories[1]) / 2)
    # 30 shapes of the first category, 10 of the second and 5 of one that is not evaluated, both splits together.
    weighted = (30 * of_categories[0] + 10 * of_categories[1]) / 40
    assert metrics.weighted_mean_iou(of_categories, np.array([30, 10, 5])) == pytest.approx(weighted)


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 20))
def test_ious_of_shapes_counted_one_by_one(seed, shapes, points):
    rng = np.random.default_rng(seed)
    parts = [(0, 1), (2, 3, 4), (5,)]
    categories = rng.integers(0, 3, shapes)
    labels = np.stack([rng.choice(parts[category], points) for category in categories])
    predictions = np.where(rng.random(labels.shape) < 0.6, labels, rng.integers(0, 6, labels.shape))
    ious = metrics.shape_ious(labels, predictions, categories, parts)
    for shape in range(shapes):
        truth, guess = labels[shape].tolist(), predictions[shape].tolist()
        own = [iou_one_by_one(truth, guess, part) for part in parts[categories[shape]]]
        assert ious[shape] == pytest.approx(np.mean([100 if iou is None else iou for iou in own]))
    counts = np.bincount(categories, minlength=3)
    of_categories = metrics.category_ious(ious, categories, 3)
    # Weighted by the evaluated shapes themselves, the mean over categories is the mean over shapes.
    assert metrics.weighted_mean_iou(of_categories, counts) == pytest.approx(metrics.instance_mean_iou(ious))


def test_right_predictions_are_a_hundred():
    labels = np.random.default_rng(0).integers(0, 3, (5, 40))
    assert metrics.shape_ious(labels, labels, np.zeros(5, int), [(0, 1, 2, 3)]).tolist() == [100] * 5
    assert metrics.mean_iou(metrics.confusion_matrix(labels.ravel(), labels.ravel(), 4)) == 100


def test_weights_of_classes_by_hand():
    weights = metrics.class_weights(np.array([800, 100, 0, 2700, 2700 * 64]))
    np.testing.assert_allclose(weights, [6, 12, 0, 4, 1], rtol=1e-6)
    assert weights.dtype == np.float32
    assert metrics.class_weights(np.zeros(3, int)).tolist() == [0, 0, 0]


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=13), st.integers(1, 1000))
def test_weights_depend_on_shares_only_and_the_commonest_has_one(counts, times):
    weights = metrics.class_weights(np.array(counts))
    assert weights[np.argmax(counts)] == weights.min() == 1
    np.testing.assert_allclose(weights, metrics.class_weights(np.array(counts) * times), rtol=1e-6)
    np.testing.assert_allclose(weights.astype(float) ** 3 * counts, max(counts), rtol=1e-5)


@given(st.integers(1, 50), st.integers(0, 50))
def test_entropy_of_a_bit(total, ones):
    ones = min(ones, total)
    bits = (np.arange(total) < ones)[:, None]
    p = np.array([ones / total, 1 - ones / total])
    p = p[p > 0]
    assert metrics.bit_entropy(bits)[0] == pytest.approx(float(-(p * np.log2(p)).sum()), abs=1e-12)
    np.testing.assert_allclose(metrics.bit_entropy(~bits), metrics.bit_entropy(bits), atol=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 7), st.sets(st.integers(0, 8), min_size=1))
def test_argmax_among_is_the_argmax_where_all_other_logits_are_minus_infinity(seed, rows, accepted):
    logits = np.random.default_rng(seed).standard_normal((2, rows, 9)).astype(np.float32)
    chosen = np.array(sorted(accepted))
    masked = np.full_like(logits, -np.inf)
    masked[..., chosen] = logits[..., chosen]
    predictions = metrics.argmax_among(logits, chosen)
    assert np.array_equal(predictions, masked.argmax(axis=-1))
    assert np.array_equal(metrics.argmax_among(torch.from_numpy(logits), torch.from_numpy(chosen)), predictions)


def test_argmax_among_takes_the_first_of_equal_logits():
    assert metrics.argmax_among(np.zeros((2, 5)), np.array([3, 1])).tolist() == [3, 3]
    # A NaN wins in numpy and in torch alike, but only among the accepted classes.
    assert metrics.argmax_among(np.array([np.nan, 1, 2]), np.array([1, 2])) == 2
