"""Folded thresholds: lines give the exact integer threshold for every number of points."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bipointnet.nn import delta
from bipointnet.packing.fold import MOST_POINTS, FoldedLayer


def folded(values: np.ndarray, p: np.ndarray, q: np.ndarray) -> FoldedLayer:
    return FoldedLayer("layer", np.empty(0), values, p, q)


def lines(p: np.ndarray, q: np.ndarray, columns: int = 128) -> np.ndarray:
    """The line that is written for y = p z + q."""
    z = (2.0 * np.arange(columns + 1) - columns)[:, None]
    return folded(p * z + q, p, q).moving_line()


def thresholds(line: np.ndarray, columns: int, numbers: np.ndarray) -> np.ndarray:
    """T of every row for every number of points, clipped to 0 ... K + 1: (rows, numbers)."""
    d = np.array([delta(int(n)) for n in numbers])
    a, b = line.astype(np.float64).T
    return np.clip(np.ceil(a[:, None] + b[:, None] * d), 0, columns + 1)


def true_thresholds(p: np.ndarray, q: np.ndarray, columns: int, numbers: np.ndarray) -> np.ndarray:
    z = 2.0 * np.arange(columns + 1) - columns
    d = np.array([delta(int(n)) for n in numbers])
    return np.stack([(p[i] * z[:, None] + q[i] < d).sum(axis=0) for i in range(len(p))])


def test_float32_lines_give_the_exact_threshold_for_every_number_of_points():
    rng = np.random.default_rng(0)
    p, q = np.abs(rng.normal(0.09, 0.04, 1024)) + 1e-3, rng.normal(0, 1, 1024)
    line = lines(p, q)
    assert line.dtype == np.float32
    rows = rng.permutation(1024)[:64]
    numbers = np.arange(1, MOST_POINTS + 1)
    expected = true_thresholds(p[rows], q[rows], 128, numbers)
    assert np.array_equal(thresholds(line[rows], 128, numbers), expected)
    plain = np.stack([64 - q / (2 * p), 1 / (2 * p)], axis=1).astype(np.float32)
    everywhere = thresholds(plain, 128, numbers) == thresholds(line, 128, numbers)
    assert not everywhere.all(), "rounding the algebra gives the same lines, so this test checks nothing"


@settings(max_examples=60)
@given(
    st.floats(-12, 3).map(lambda e: 10**e) | st.just(0.0),
    st.floats(-6, 6) | st.sampled_from([0.0, delta(7), delta(1024), delta(16384)]),
    st.sampled_from([3, 64, 128]),
)
def test_lines_hold_for_slopes_of_any_size(p, q, columns):
    line = lines(np.array([p]), np.array([q]), columns)
    numbers = np.unique(np.concatenate([np.arange(1, 40), np.geomspace(40, 16384, 400).astype(int)]))
    expected = true_thresholds(np.array([p]), np.array([q]), columns, numbers)
    assert np.array_equal(thresholds(line, columns, numbers), expected)


def test_a_mean_is_compared_exactly_where_its_threshold_is_an_integer():
    """a = (K - q / p) / 2; where it is an integer, the layer's arithmetic decides, not the rounding of a."""
    p = np.array([0.1, 0.3, 0.7, 0.1, 0.0, 0.0])
    q = np.array([-0.1 * 2, -0.3 * 6, 0.7 * 4, 0.05, 1.0, -1.0])
    z = (2.0 * np.arange(9) - 8)[:, None]
    a, b = folded(p * z + q, p, q).mean_line().T
    assert a.tolist() == [5.0, 7.0, 2.0, (8 - q[3] / p[3]) / 2, 0.0, 9.0]
    assert not b.any()
