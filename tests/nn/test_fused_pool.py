"""The fused layer in front of a pool equals its separate steps."""

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from bipointnet.models import MODELS
from bipointnet.nn import (
    LSR,
    METHODS,
    BinaryLinear,
    EntropyMax,
    MaxPool,
    MeanPool,
    PooledLayer,
    calibrate,
    delta,
    fused_pool,
)

LINEARS = {"fp": nn.Linear} | {name: BinaryLinear.of(method) for name, method in METHODS.items()}


def assert_same(one, other, what: str = "output") -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9, msg=lambda message: f"{what}: {message}")


class Norm(nn.BatchNorm1d):
    def forward(self, input):
        return super().forward(input.flatten(0, -2)).reshape(input.shape)


def twins(linear, pool, relu: bool = False) -> tuple[PooledLayer, PooledLayer]:
    """A fused layer with rising and falling channels, and an unfused copy."""
    torch.manual_seed(0)
    norm = Norm(24)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(24))
        norm.bias.copy_(torch.randn(24))
    fused = PooledLayer(linear(13, 24), norm, nn.ReLU() if relu else None, pool).double()
    plain = copy.deepcopy(fused)
    plain.fused = False
    return fused, plain


@pytest.mark.parametrize("linear", LINEARS.values(), ids=LINEARS.keys())
@pytest.mark.parametrize("pool", [MaxPool(), EntropyMax(), MeanPool()], ids=["max", "ema-max", "avg"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("points", [1, 2, 50])
def test_values_gradients_and_statistics_equal_the_separate_steps(linear, pool, relu, points):
    fused, plain = twins(linear, pool, relu)
    x = torch.randn(6, points, 13, dtype=torch.float64)
    g = torch.randn(6, 24, dtype=torch.float64)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    for layer, given in zip((fused, plain), inputs, strict=True):
        calibrate(layer, x)
        layer(given).backward(g)
        layer.eval()
    assert_same(inputs[0].grad, inputs[1].grad)
    for (name, p), q in zip(fused.named_parameters(), plain.parameters(), strict=True):
        assert_same(p.grad, q.grad, name)
    for (name, b), c in zip(fused.named_buffers(), plain.buffers(), strict=True):
        assert_same(b, c, name)
    assert_same(fused(x), plain(x))


@pytest.mark.parametrize("linear", LINEARS.values(), ids=LINEARS.keys())
def test_a_frozen_norm_keeps_its_statistics(linear):
    fused, plain = twins(linear, MaxPool(), False)
    x = torch.randn(6, 9, 13, dtype=torch.float64)
    calibrate(fused, x)
    plain.load_state_dict(fused.state_dict())
    for layer in (fused, plain):
        layer.norm.eval()  # pyright: ignore[reportOptionalMemberAccess]
    before = {name: buffer.clone() for name, buffer in fused.named_buffers()}
    assert_same(fused(x), plain(x))
    assert all(torch.equal(buffer, before[name]) for name, buffer in fused.named_buffers())


def test_statistics_can_be_measured_anew_over_all_batches():
    """torch.optim.swa_utils.update_bn sets the momentum to None for that."""
    fused, plain = twins(nn.Linear, MaxPool())
    batches = [torch.randn(6, 9, 13, dtype=torch.float64) for _ in range(3)]
    for layer in (fused, plain):
        update_bn(batches, layer)
    for (name, b), c in zip(fused.named_buffers(), plain.buffers(), strict=True):
        assert_same(b, c, name)


@pytest.mark.parametrize("pool", [MaxPool(), EntropyMax(), MeanPool()], ids=["max", "ema-max", "avg"])
def test_a_neighborhood_pools_its_true_neighbors_only(pool):
    """The copies of the nearest neighbor that fill it up do not count; fused or not."""
    torch.manual_seed(0)
    counts = torch.tensor([[1, 4, 7], [3, 7, 2]])
    x = torch.randn(2, 3, 7, 13, dtype=torch.float64)
    x = torch.where((torch.arange(7) < counts[..., None])[..., None], x, x[:, :, :1])
    for layer in twins(BinaryLinear.of(LSR()), pool):
        together = layer.eval()(x, counts)
        for b, m in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
            assert_same(together[b, m], layer(x[b, m, : counts[b, m]]))


def test_shifts_of_neighborhoods_equal_the_closed_form():
    n = torch.arange(1, 3000)
    shifts = EntropyMax().shift(torch.zeros(3000, 1, dtype=torch.float64), n)
    assert isinstance(shifts, torch.Tensor)
    assert shifts[:, 0].tolist() == [delta(i) for i in n.tolist()]


def test_both_algorithms_for_the_gradients_of_a_maximum_agree():
    """A GPU uses the second one for few points."""
    torch.manual_seed(0)
    a, w, g = (torch.randn(*size, dtype=torch.float64) for size in ((6, 11, 5), (9, 5), (6, 9)))
    winners = (a @ w.T).max(dim=1).indices
    one = fused_pool._gather_gradients(a, w, winners, g)
    other = fused_pool._multiply_gradients(a, w, winners, g, torch.float64)
    for x, y in zip(one, other, strict=True):
        assert_same(x, y)


@pytest.mark.parametrize("rows", [1, 2048, 5000])
def test_second_moments_of_signs_are_exact(rows):
    torch.manual_seed(0)
    a = torch.where(torch.randn(rows, 7) >= 0, 1.0, -1.0).requires_grad_()
    moment = fused_pool._SecondMoment.apply(a)
    assert isinstance(moment, torch.Tensor)
    assert torch.equal(moment, a.T @ a)
    g = torch.randn(7, 7)
    (found,) = torch.autograd.grad(moment, a, g)
    # bfloat16 has 8 bits: rounding the terms, up to six sums and the result costs at most 8 * 2^-9 of their size.
    terms = a.detach().abs() @ (g + g.T).abs()
    assert ((found - a.detach() @ (g + g.T)).abs() <= 2**-6 * terms).all()


def test_negative_scales_and_flat_channels():
    fused, plain = twins(BinaryLinear.of(LSR()), EntropyMax())
    with torch.no_grad():
        for layer in (fused, plain):
            layer.linear.alpha.fill_(-0.3)  # pyright: ignore
            layer.norm.weight[3] = 0  # pyright: ignore
    x = torch.randn(5, 40, 13, dtype=torch.float64)
    assert_same(fused(x), plain(x))


@pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=name, marks=[pytest.mark.long] * (name == "pointconv")) for name, make in MODELS.items()],
)
def test_fused_and_unfused_networks_have_the_same_bits_in_eval_mode(make):
    """In double precision: in single, one value in about ten million is so close to 0 that rounding decides its bit."""
    torch.manual_seed(0)
    model = make(num_classes=5, linear="lsr", pool="ema-max").double()
    x = torch.randn(32, 100, 3).double()
    calibrate(model, x)
    for _ in range(3):
        model(x)
    model.eval()
    fused = model(x)
    for module in model.modules():
        if isinstance(module, PooledLayer):
            module.fused = False
    assert torch.equal(fused.pooled >= 0, model(x).pooled >= 0)
