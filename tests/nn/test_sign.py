"""Sign and its gradients against closed forms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipointnet.nn import clipped, hard_sign, polynomial, sign

SPECIAL = [0.0, -0.0, 1.0, -1.0, 1 + 1e-7, -1 - 1e-7, 5e-324, -5e-324, math.inf, -math.inf]
SLOPES = {
    clipped: lambda x: 1.0 if abs(x) <= 1 else 0.0,
    polynomial: lambda x: 2 - 2 * abs(x) if abs(x) < 1 else 0.0,
}
numbers = st.lists(st.floats(allow_nan=False) | st.floats(-1.5, 1.5) | st.sampled_from(SPECIAL), min_size=1)


@given(numbers)
def test_sign_is_plus_one_for_zero_and_above(values):
    bits = hard_sign(torch.tensor(values, dtype=torch.float64))
    assert bits.tolist() == [1.0 if v >= 0 else -1.0 for v in values]


def test_sign_of_negative_zero_is_plus_one_and_of_nan_minus_one():
    assert hard_sign(torch.tensor([-0.0, math.nan])).tolist() == [1.0, -1.0]


@pytest.mark.parametrize("slope", SLOPES)
@given(values=numbers)
def test_gradient_is_the_incoming_one_times_the_slope(slope, values):
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    incoming = torch.linspace(-2, 3, len(values), dtype=torch.float64)
    kept = incoming.clone()
    sign(x, slope).backward(incoming)
    expected = [g * SLOPES[slope](v) for g, v in zip(kept.tolist(), values, strict=True)]
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)
    assert torch.equal(incoming, kept), "a backward pass never writes into the incoming gradient"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_sign_keeps_the_dtype(dtype):
    assert sign(torch.randn(5, dtype=dtype)).dtype == dtype
