"""Metrics against hand-computed cases and an independent implementation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipointnet import metrics


def test_a_case_by_hand():
    labels, predictions = np.array([0, 0, 0, 1, 1, 3]), np.array([0, 0, 1, 1, 0, 3])
    confusion = metrics.confusion_matrix(labels, predictions, 4)
    assert confusion.tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert metrics.overall_accuracy(confusion) == pytest.approx(100 * 4 / 6)
    assert metrics.mean_class_accuracy(confusion) == pytest.approx(100 * (2 / 3 + 1 / 2 + 1) / 3)
    assert np.isnan(metrics.class_accuracies(confusion)[2]), "a class with no cloud has no accuracy"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_counting_one_by_one_gives_the_same(pairs):
    labels, predictions = np.array(pairs).T
    confusion = metrics.confusion_matrix(labels, predictions, 5)
    assert all(confusion[i, j] == pairs.count((i, j)) for i in range(5) for j in range(5))
    assert metrics.overall_accuracy(confusion) == pytest.approx(100 * np.mean(labels == predictions))
    recalls = [np.mean(predictions[labels == c] == c) for c in set(labels.tolist())]
    assert metrics.mean_class_accuracy(confusion) == pytest.approx(100 * np.mean(recalls))


def test_nothing_judged_is_zero_not_an_error():
    empty = np.zeros((3, 3), np.int64)
    assert metrics.overall_accuracy(empty) == 0
    assert metrics.mean_class_accuracy(empty) == 0


@given(st.integers(1, 50), st.integers(0, 50))
def test_entropy_of_a_bit(total, ones):
    ones = min(ones, total)
    bits = (np.arange(total) < ones)[:, None]
    p = np.array([ones / total, 1 - ones / total])
    p = p[p > 0]
    assert metrics.bit_entropy(bits)[0] == pytest.approx(float(-(p * np.log2(p)).sum()), abs=1e-12)
    np.testing.assert_allclose(metrics.bit_entropy(~bits), metrics.bit_entropy(bits), atol=1e-12)
