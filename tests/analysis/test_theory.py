"""The paper's theorems as laws, and its simulations against closed forms."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipointnet.analysis import theory
from bipointnet.analysis.theory import (
    bit_entropy,
    bits_lost,
    decay_constant,
    delta_by_simulation,
    max_pool_entropy,
    mean_pool_entropy,
    normal_approximation,
    product_distribution,
    simulate_products,
)
from bipointnet.evaluation import metrics
from bipointnet.nn import delta

COUNTS = st.integers(1, 10**6)
SHIFTS = st.floats(-3, 6)
PROBABILITIES = st.floats(0, 1)


@given(PROBABILITIES)
def test_proposition_1_the_entropy_of_a_bit_is_largest_if_both_values_are_equally_likely(p):
    assert 0 <= bit_entropy(p) <= 1
    assert bit_entropy(p) == pytest.approx(bit_entropy(1 - p), abs=1e-12)
    if abs(p - 0.5) > 1e-6:
        assert bit_entropy(p) < 1 == bit_entropy(0.5)


@given(st.floats(0.01, 0.99))
def test_the_slope_of_the_entropy_is_the_log_of_the_odds(p):
    step = 1e-6
    slope = (bit_entropy(p + step) - bit_entropy(p - step)) / (2 * step)
    assert slope == pytest.approx(math.log2((1 - p) / p), abs=1e-4)


@given(st.integers(1, 40), st.integers(0, 40))
def test_the_entropy_of_a_fraction_is_that_of_metrics(total, ones):
    ones = min(ones, total)
    bits = (np.arange(total) < ones)[:, None]
    assert bit_entropy(ones / total) == pytest.approx(metrics.bit_entropy(bits)[0], abs=1e-12)


@given(st.floats(-37, 8))
def test_log_cdf_is_accurate_in_both_tails(d):
    from scipy.special import log_ndtr

    assert theory.log_cdf(d) == pytest.approx(float(log_ndtr(d)), rel=1e-9)


@given(COUNTS, st.floats(-3, 3).filter(lambda away: abs(away) > 1e-3))
def test_delta_maximizes_the_entropy_of_a_max_pool(n, away):
    assert max_pool_entropy(n, delta(n)) == pytest.approx(1, abs=1e-12)
    assert max_pool_entropy(n, delta(n) + away) < 1


@pytest.mark.parametrize("n", [1, 2, 20, 1024])
def test_no_shift_on_a_fine_grid_beats_delta(n):
    grid = np.linspace(-1, 5, 6001)
    best = grid[np.argmax([max_pool_entropy(n, d) for d in grid])]
    assert best == pytest.approx(delta(n), abs=1e-3)


@given(SHIFTS, st.floats(0, 1000), st.floats(1e-6, 1000))
def test_theorem_1_the_entropy_falls_in_n_beyond_the_constant(shift, beyond, more):
    """Beyond c, measured in multiples of c, as far as the entropies are distinguishable from 0 in floats."""
    c = decay_constant(shift)
    few, many = c * (1 + beyond), c * (1 + beyond) * (1 + more)
    assert max_pool_entropy(many, shift) < max_pool_entropy(few, shift) or max_pool_entropy(few, shift) == 0
    assert max_pool_entropy(few, shift) <= max_pool_entropy(c, shift) == pytest.approx(1, abs=1e-9)


@given(SHIFTS, st.floats(0.01, 0.9), st.floats(0.1, 0.9))
def test_theorem_1_s_constant_is_the_smallest(shift, share, less):
    """Below c the entropy still rises, so the theorem does not hold for a smaller constant."""
    c = decay_constant(shift)
    assert max_pool_entropy(c * share * less, shift) < max_pool_entropy(c * share, shift)


@given(SHIFTS)
def test_theorem_1_the_entropy_goes_to_zero(shift):
    c = decay_constant(shift)
    entropies = [max_pool_entropy(c * 10**k, shift) for k in range(4)]
    assert entropies[0] == pytest.approx(1, abs=1e-9)
    assert entropies[1] < 0.012
    assert entropies[2] < 1e-27
    assert entropies[3] < 1e-297


@given(COUNTS)
def test_the_constant_of_delta_n_is_n(n):
    assert decay_constant(delta(n)) == pytest.approx(n, rel=1e-6)
    assert decay_constant(0) == pytest.approx(1)


@given(COUNTS)
def test_plain_max_pooling_has_its_closed_form(n):
    p = 2.0**-n
    expected = n * p + p / math.log(2) if p < 1e-9 else -p * math.log2(p) - (1 - p) * math.log2(max(1 - p, 1e-300))
    assert max_pool_entropy(n) == pytest.approx(expected, rel=1e-6)


@given(COUNTS, st.floats(1e-4, 1), st.sampled_from([-1, 1]))
def test_ema_avg_needs_no_shift(n, size, side):
    assert mean_pool_entropy(n) == 1
    assert mean_pool_entropy(n, side * size) < 1
    assert mean_pool_entropy(n, size) == pytest.approx(mean_pool_entropy(n, -size), abs=1e-12)


def test_ema_avg_splits_simulated_means_in_half():
    rng = np.random.default_rng(0)
    for n in (1, 20, 1024):
        means = rng.standard_normal((4000, n)).mean(axis=1)
        assert (means >= 0).mean() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(4000))
        shifted = metrics.bit_entropy((means - 0.5 / math.sqrt(n) >= 0)[:, None])[0]
        assert shifted == pytest.approx(mean_pool_entropy(n, 0.5 / math.sqrt(n)), abs=0.03)


@pytest.mark.parametrize("n", [1, 2, 20, 64, 1024])
def test_algorithm_1_agrees_with_the_closed_form_within_its_error(n):
    value, error = delta_by_simulation(n, simulations=6000, rng=np.random.default_rng(n))
    assert abs(value - delta(n)) < 4 * error
    assert error < 0.02


def test_the_standard_error_of_algorithm_1_agrees_with_repeated_simulations():
    rng = np.random.default_rng(1)
    found = [delta_by_simulation(20, simulations=400, rng=rng) for _ in range(300)]
    assert np.std([value for value, _ in found]) == pytest.approx(found[0].error, rel=0.15)


@given(st.integers(1, 10**5), st.integers(1, 10**5))
def test_the_cost_of_the_shift_of_another_n_depends_on_the_ratio(expected, pooled):
    assert bits_lost(expected, pooled) == pytest.approx(1 - max_pool_entropy(pooled, delta(expected)), abs=1e-6)
    assert bits_lost(expected, pooled) == pytest.approx(bits_lost(3 * expected, 3 * pooled), abs=1e-12)
    if expected != pooled:
        assert bits_lost(expected, pooled) > 0 == bits_lost(expected, expected)


def test_half_and_twice_the_points_cost_little():
    assert bits_lost(1024, 512) == pytest.approx(0.1276, abs=1e-4)
    assert bits_lost(512, 1024) == pytest.approx(0.1887, abs=1e-4)
    assert bits_lost(1, 1024) > 0.999, "no shift, for a whole cloud"


@given(st.integers(1, 300), PROBABILITIES, PROBABILITIES)
def test_theorem_2_moments(inputs, p_weight, p_input):
    z = product_distribution(inputs, p_weight, p_input)
    e = theory.agreement(p_weight, p_input)
    assert z.probabilities.sum() == pytest.approx(1, abs=1e-9)
    assert z.values.tolist() == list(range(-inputs, inputs + 1, 2))
    assert z.mean == pytest.approx(inputs * (2 * e - 1), abs=1e-6)
    assert z.variance == pytest.approx(4 * inputs * e * (1 - e), abs=1e-6)


@given(st.integers(1, 2000), PROBABILITIES)
def test_theorem_2_balanced_weights_give_mean_0_and_variance_k_for_all_inputs(inputs, p_input):
    z = product_distribution(inputs, 0.5, p_input)
    assert z.mean == pytest.approx(0, abs=1e-6)
    assert z.variance == pytest.approx(inputs, rel=1e-6)


@given(st.integers(1, 9), PROBABILITIES, PROBABILITIES)
def test_theorem_2_counting_all_sign_vectors_gives_the_same(inputs, p_weight, p_input):
    """Agreements of every pattern of K bits of probability e, one by one."""
    e = theory.agreement(p_weight, p_input)
    expected = dict.fromkeys(range(-inputs, inputs + 1, 2), 0.0)
    for pattern in range(2**inputs):
        c = pattern.bit_count()
        expected[2 * c - inputs] += e**c * (1 - e) ** (inputs - c)
    np.testing.assert_allclose(product_distribution(inputs, p_weight, p_input).probabilities, [*expected.values()])


@pytest.mark.parametrize(
    ("inputs", "p_weight", "p_input"), [(1, 0.5, 0.5), (64, 0.5, 0.5), (64, 0.5, 0.9), (30, 0.3, 0.8)]
)
def test_theorem_2_distribution_is_that_of_random_signs(inputs, p_weight, p_input):
    draws = 20_000
    z = simulate_products(inputs, draws, np.random.default_rng(2), p_weight, p_input)
    exact = product_distribution(inputs, p_weight, p_input)
    found = np.bincount((z + inputs) // 2, minlength=inputs + 1) / draws
    # Dvoretzky-Kiefer-Wolfowitz: the distribution functions differ by more than this with a probability of 1e-6.
    assert np.abs(np.cumsum(found) - np.cumsum(exact.probabilities)).max() < math.sqrt(math.log(2e6) / (2 * draws))
    assert z.std() == pytest.approx(math.sqrt(exact.variance), rel=0.03)


@given(st.integers(16, 2000))
def test_theorem_2_the_normal_distribution_is_close(inputs):
    """By total variation: half the sum of absolute differences bounds the difference of any event's probability."""
    exact = product_distribution(inputs)
    gap = np.abs(exact.probabilities - normal_approximation(exact.values, inputs)).sum() / 2
    assert gap < 0.13 / inputs


def test_survey_has_the_known_values():
    shown = theory.survey(simulations=200)
    assert {row["n"]: round(row["delta"], 4) for row in shown["pools"]}[1024] == 3.2044
    assert all(abs(row["monte_carlo"] - row["delta"]) < 5 * row["standard_error"] for row in shown["pools"])
    assert [row["deviation"] for row in shown["products"]] == pytest.approx([8, math.sqrt(128), 32])


def test_the_theory_needs_no_torch():
    code = "import sys; from bipointnet.analysis import theory; theory.survey(10); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
