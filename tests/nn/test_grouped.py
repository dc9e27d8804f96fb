"""Block-diagonal layers against a grouped convolution and against the bi-linear layer."""

import pytest
import torch
from torch import nn

from bipointnet.nn import METHODS, BinaryGrouped, BinaryLinear, GroupedLinear, calibrate
from bipointnet.nn.grouped import _diagonal_blocks, grouped_product

GROUPS, INPUTS, OUTPUTS = 5, 4, 3


def assert_same(one, other) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_a_grouped_layer_equals_a_grouped_convolution():
    torch.manual_seed(0)
    layer = GroupedLinear(GROUPS, INPUTS, OUTPUTS).double()
    conv = nn.Conv1d(GROUPS, GROUPS * OUTPUTS, INPUTS, groups=GROUPS).double()
    x, g = torch.randn(7, GROUPS, INPUTS).double(), torch.randn(7, GROUPS * OUTPUTS).double()
    with torch.no_grad():
        conv.weight.copy_(layer.weight.unsqueeze(1))
        assert conv.bias is not None
        conv.bias.copy_(layer.bias)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    one, other = layer(inputs[0]), conv(inputs[1]).squeeze(2)
    one.backward(g)
    other.backward(g)
    assert_same(one, other)
    assert_same(inputs[0].grad, inputs[1].grad)
    assert conv.weight.grad is not None
    assert_same(layer.weight.grad, conv.weight.grad.squeeze(1))


@pytest.mark.parametrize("name", METHODS)
def test_one_group_equals_the_bilinear_layer(name):
    torch.manual_seed(0)
    one = BinaryGrouped(1, 6, 4, METHODS[name]).double()
    other = BinaryLinear(6, 4, METHODS[name]).double()
    other.load_state_dict(one.state_dict())
    x, g = torch.randn(9, 6).double(), torch.randn(9, 4).double()
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    for layer, given, rows in zip((one, other), inputs, (lambda t: t.unsqueeze(1), lambda t: t), strict=True):
        calibrate(layer, rows(x))
        layer(rows(given)).backward(g)
    assert_same(inputs[0].grad, inputs[1].grad)
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        assert_same(p.grad, q.grad)


@pytest.mark.parametrize("name", METHODS)
def test_groups_are_independent(name):
    torch.manual_seed(0)
    layer = BinaryGrouped(GROUPS, INPUTS, OUTPUTS, METHODS[name]).double()
    x = torch.randn(2, 3, GROUPS, INPUTS).double()
    before = layer(x).unflatten(-1, (GROUPS, OUTPUTS))
    x[..., 2, :] = torch.randn(2, 3, INPUTS).double()
    after = layer(x).unflatten(-1, (GROUPS, OUTPUTS))
    others = [0, 1, 3, 4]
    assert torch.equal(before[..., others, :], after[..., others, :])
    assert not torch.equal(before[..., 2, :], after[..., 2, :])


def test_the_gpu_algorithm_for_the_gradient_of_the_weight_agrees():
    torch.manual_seed(0)
    a, g = torch.randn(50, GROUPS, INPUTS).double(), torch.randn(50, GROUPS, OUTPUTS).double()
    w = torch.zeros(GROUPS * OUTPUTS, INPUTS).double().requires_grad_()
    grouped_product(a, w, binary=False).backward(g.flatten(1))
    assert w.grad is not None
    assert_same(_diagonal_blocks(a, g).reshape(w.shape), w.grad)


@pytest.mark.parametrize("name", METHODS)
def test_compiled_gradients_equal_eager_ones(name):
    torch.manual_seed(0)
    torch._dynamo.reset()
    layer, x = BinaryGrouped(GROUPS, INPUTS, OUTPUTS, METHODS[name]).double(), torch.randn(9, GROUPS, INPUTS).double()
    found = []
    for run in (layer, torch.compile(layer, backend="aot_eager")):
        layer.zero_grad()
        given = x.clone().requires_grad_()
        run(given).square().sum().backward()
        found.append([given.grad, *(p.grad.clone() for p in layer.parameters() if p.grad is not None)])
    assert len(found[0]) == 1 + len(list(layer.parameters()))
    for one, other in zip(*found, strict=True):
        assert_same(one, other)
