"""The joined layer is the plain layer on its parts side by side."""

import pytest
import torch
from torch import nn

from bipointnet.nn import METHODS, BinaryLinear, ConcatLinear
from bipointnet.nn.concat_linear import side_by_side

LINEARS = {"fp": nn.Linear} | {name: BinaryLinear.of(method) for name, method in METHODS.items()}


def parts(clouds: int = 3, points: int = 7) -> list[torch.Tensor]:
    torch.manual_seed(1)
    of_points = [torch.randn(clouds, points, width).requires_grad_() for width in (5, 9)]
    return [*of_points, torch.randn(clouds, 1, 11).requires_grad_()]


@pytest.mark.parametrize("linear", LINEARS.values(), ids=LINEARS)
def test_output_and_gradients_are_those_of_the_plain_layer(linear):
    torch.manual_seed(0)
    layer = ConcatLinear(linear(25, 6))
    plain, fused = parts(), parts()
    layer.calibrate(plain)
    layer.fused = False
    expected = layer(plain)
    layer.fused = True
    found = layer(fused)
    if isinstance(layer.linear, BinaryLinear):
        assert torch.equal(found, expected), "sums of +-1 are exact, so nothing may round otherwise"
    torch.testing.assert_close(found, expected)
    gradients = []
    for output, inputs in ((expected, plain), (found, fused)):
        layer.zero_grad()
        output.backward(torch.linspace(-1, 1, output.numel()).reshape(output.shape))
        of_layer = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
        gradients.append([x.grad for x in inputs] + of_layer)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_what_points_share_stands_at_each_of_them():
    first, second, shared = parts()
    joined = side_by_side([first, second, shared])
    assert joined.shape == (3, 7, 25)
    assert torch.equal(joined[:, 4, 14:], shared[:, 0])
    assert torch.equal(joined[..., :5], first)
