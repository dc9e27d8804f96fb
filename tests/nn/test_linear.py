"""Bi-linear layers: their product, their calibration, and laws that hold for every method."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bipointnet.nn import LSR, METHODS, BinaryLinear, calibrate, hard_sign
from bipointnet.nn.product import binary_product

sizes = st.tuples(st.integers(1, 9), st.integers(1, 70), st.integers(1, 12))


@settings(max_examples=30)
@given(sizes, st.integers(0, 2**32 - 1), st.booleans())
def test_product_has_the_gradients_of_plain_autograd(size, seed, per_output):
    """One scale a layer or one an output: the small-matrix formulas equal those of the written-out product."""
    rng = torch.Generator().manual_seed(seed)
    rows, inputs, outputs = size

    def leaves():
        rng.manual_seed(seed)
        a = hard_sign(torch.randn(rows, inputs, generator=rng, dtype=torch.float64)).requires_grad_()
        w = hard_sign(torch.randn(outputs, inputs, generator=rng, dtype=torch.float64)).requires_grad_()
        s = torch.randn((outputs,) if per_output else (), generator=rng, dtype=torch.float64).requires_grad_()
        return (a, w, s), torch.randn(rows, outputs, generator=rng, dtype=torch.float64)

    ours, g = leaves()
    binary_product(*ours).backward(g)
    plain, _ = leaves()
    (plain[2] * (plain[0] @ plain[1].T)).backward(g)
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_lsr_alpha_starts_at_the_ratio_of_spreads():
    torch.manual_seed(0)
    layer, x = BinaryLinear(40, 30, LSR()).requires_grad_(False), torch.randn(8, 50, 40) * 3
    calibrate(layer, x)
    centred = layer.weight - layer.weight.mean()
    expected = (x @ centred.T).std() / (hard_sign(x) @ hard_sign(centred).T).std()
    assert layer.alpha.item() == pytest.approx(expected.item(), rel=1e-5)
    assert layer(x).std().item() == pytest.approx((x @ centred.T).std().item(), rel=1e-5)


@pytest.mark.parametrize("weight", [torch.zeros(1, 1), torch.ones(1, 1) * 3, torch.randn(1, 1)])
def test_lsr_alpha_is_finite_even_for_one_channel(weight):
    layer = BinaryLinear(1, 1, LSR())
    with torch.no_grad():
        layer.weight.copy_(weight)
    calibrate(layer, torch.ones(1, 1))
    assert layer.alpha.isfinite()


def test_calibration_leaves_running_statistics_and_mode_alone():
    torch.manual_seed(0)
    model = torch.nn.Sequential(BinaryLinear(4, 8, LSR()), torch.nn.BatchNorm1d(8), BinaryLinear(8, 2, LSR())).eval()
    before = {k: v.clone() for k, v in model.state_dict().items() if "alpha" not in k}
    calibrate(model, torch.randn(16, 4))
    assert not model.training
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_output_depends_on_input_signs_and_the_scale_of_a_point_only(method):
    torch.manual_seed(0)
    layer, x = BinaryLinear(33, 7, method), torch.randn(5, 4, 33)
    if layer.bias is not None:
        torch.nn.init.normal_(layer.bias)
    size = x.abs().mean(dim=-1, keepdim=True) if method.scales_points else 1.0
    torch.testing.assert_close(layer(x), layer(hard_sign(x) * size))
    assert (method.point_scale(x) is not None) == method.scales_points
    assert layer(x).shape == (5, 4, 7)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_state_dict_is_complete_from_construction_on(method):
    torch.manual_seed(0)
    trained, fresh = BinaryLinear(12, 6, method), BinaryLinear(12, 6, method)
    calibrate(trained, torch.randn(20, 12))
    fresh.load_state_dict(trained.state_dict())
    x = torch.randn(9, 12)
    assert torch.equal(fresh(x), trained(x))


def test_bits_survive_a_product_too_long_for_half_precision():
    """The pieces of 2048 inputs that a GPU needs, checked on the CPU: float16 factors, exact integers."""
    from bipointnet.nn.product import _integer_product

    torch.manual_seed(0)
    a, w = hard_sign(torch.randn(3, 5001)), hard_sign(torch.randn(4, 5001))
    a[0] = w[0] = 1
    assert torch.equal(_integer_product(a.half(), w.half()), a @ w.T)
