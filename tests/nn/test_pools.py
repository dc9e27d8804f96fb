"""Pools, and delta(n) against simulation and against the entropy that it maximizes."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipointnet.evaluation.metrics import bit_entropy
from bipointnet.nn import EntropyMax, EntropyMean, MaxPool, MeanPool, MeasuredMax, ScatterPool, calibrate, delta

KNOWN = {20: 1.8242, 64: 2.2983, 1024: 3.2044, 2048: 3.3988, 4096: 3.5840}


def entropy_of_max(shift: float, n: int) -> float:
    """Bits in sign(max of n standard normals - shift)."""
    below = math.exp(n * math.log(NormalDist().cdf(shift)))
    return -sum(p * math.log2(p) for p in (below, 1 - below) if p > 0)


@pytest.mark.parametrize(("n", "value"), KNOWN.items())
def test_delta_has_its_known_values(n, value):
    assert delta(n) == pytest.approx(value, abs=5e-5)


@given(st.integers(1, 10**9))
def test_the_maximum_is_below_delta_with_probability_one_half(n):
    from scipy.special import log_ndtr

    assert n * log_ndtr(delta(n)) == pytest.approx(-math.log(2), rel=1e-6)


@given(st.integers(1, 10**5), st.floats(-3, 3).filter(lambda d: abs(d) > 1e-3))
def test_delta_maximizes_entropy(n, away):
    assert entropy_of_max(delta(n), n) == pytest.approx(1, abs=1e-9)
    assert entropy_of_max(delta(n) + away, n) < 1


def test_delta_equals_the_monte_carlo_of_algorithm_1():
    """The paper draws many maxima and searches for the most even split, which is their median."""
    rng = np.random.default_rng(0)
    for n in (2, 20, 300):
        maxima = rng.normal(size=(20000, n)).max(axis=1)
        assert np.median(maxima) == pytest.approx(delta(n), abs=0.02)


def test_delta_of_one_element_is_zero_and_of_none_is_rejected():
    assert delta(1) == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="n = 0"):
        delta(0)


def test_pools_equal_numpy():
    x = torch.randn(3, 17, 5)
    np.testing.assert_array_equal(MaxPool()(x), x.numpy().max(axis=1))
    np.testing.assert_allclose(MeanPool()(x), x.numpy().mean(axis=1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(EntropyMax()(x), MaxPool()(x) - delta(17))
    assert torch.equal(EntropyMean()(x), MeanPool()(x))


def test_entropy_max_keeps_a_bit_where_plain_max_loses_it():
    torch.manual_seed(0)
    # 0.98 is 7 standard deviations of the mean of 2000 fair bits away. Smallest of 10 seeds and 2 instruction sets:
    # 0.998.
    x = torch.randn(2000, 512, 8)
    assert bit_entropy((EntropyMax()(x) >= 0).numpy()).min() > 0.98
    assert bit_entropy((MaxPool()(x) >= 0).numpy()).max() == 0


def test_the_gradient_of_a_max_goes_to_one_point_even_among_ties():
    x = torch.zeros(1, 6, 2, requires_grad=True)
    EntropyMax()(x).sum().backward()
    assert x.grad is not None
    assert x.grad.sum(dim=1).tolist() == [[1, 1]]
    assert (x.grad != 0).sum() == 2


@pytest.mark.parametrize("pool", [MaxPool(), MeanPool(), EntropyMax(), EntropyMean(), MeasuredMax()])
def test_pools_do_not_depend_on_the_order_of_points(pool):
    x = torch.randn(2, 31, 4, dtype=torch.float64)
    torch.testing.assert_close(pool(x), pool(x[:, torch.randperm(31)]))


def test_measured_max_subtracts_the_median_of_the_first_batch():
    torch.manual_seed(0)
    pool, x = MeasuredMax(), torch.randn(32, 100, 16) * 7 + 2
    calibrate(pool, x)
    assert (pool(x) >= 0).float().mean() == pytest.approx(0.5, abs=0.01)
    assert "shift" in pool.state_dict()


@pytest.mark.parametrize("name", ["scatter_reduce", "scatter_reduce_", "index_reduce", "index_reduce_"])
@pytest.mark.parametrize("before", [-math.inf, 0.0])
def test_a_scattered_mean_has_the_elements_only(name, before):
    torch.manual_seed(0)
    x, group = torch.randn(40, 6), torch.arange(40) % 3
    index = group if name.startswith("index") else group.unsqueeze(1).expand(40, 6)
    found = ScatterPool("ema-avg").reduce(
        getattr(torch.Tensor, name), (torch.full((4, 6), before), 0, index, x, "amax"), {"include_self": True}
    )
    expected = torch.stack([x[group == t].mean(0) for t in range(3)] + [torch.full((6,), before)])
    torch.testing.assert_close(found, expected)
