"""The fused layer in front of a pool equals its steps one after the other."""

import copy

import pytest
import torch
from torch import nn

from bipointnet.models import MODELS
from bipointnet.nn import LSR, METHODS, BinaryLinear, EntropyMax, MaxPool, MeanPool, PooledLayer, calibrate

LINEARS = {"fp": nn.Linear} | {name: BinaryLinear.of(method) for name, method in METHODS.items()}


def assert_same(one, other, what: str = "output") -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9, msg=lambda message: f"{what}: {message}")


class Norm(nn.BatchNorm1d):
    def forward(self, input):
        return super().forward(input.flatten(0, -2)).reshape(input.shape)


def twins(linear, pool, relu: bool = False) -> tuple[PooledLayer, PooledLayer]:
    """A fused layer with rising and falling channels, and its copy that takes every step."""
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
def test_values_gradients_and_statistics_are_those_of_the_steps(linear, pool, relu, points):
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


def test_negative_scales_and_flat_channels():
    fused, plain = twins(BinaryLinear.of(LSR()), EntropyMax())
    with torch.no_grad():
        for layer in (fused, plain):
            layer.linear.alpha.fill_(-0.3)  # pyright: ignore
            layer.norm.weight[3] = 0  # pyright: ignore
    x = torch.randn(5, 40, 13, dtype=torch.float64)
    assert_same(fused(x), plain(x))


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_bits_of_a_network_in_evaluation_are_the_same(make):
    torch.manual_seed(0)
    model, x = make(classes=5, linear=BinaryLinear.of(LSR()), pool=EntropyMax()), torch.randn(32, 100, 3)
    calibrate(model, x)
    for _ in range(3):
        model(x)
    model.eval()
    fused = model(x)
    for module in model.modules():
        if isinstance(module, PooledLayer):
            module.fused = False
    assert torch.equal(fused.pooled >= 0, model(x).pooled >= 0)
