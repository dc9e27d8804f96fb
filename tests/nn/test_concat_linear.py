"""ConcatLinear equals the plain layer on the concatenation of its parts."""

import pytest
import torch
from torch import nn

from bipointnet.nn import METHODS, BinaryLinear, ConcatLinear
from bipointnet.nn.concat_linear import concatenate

LINEARS = {"fp": nn.Linear} | {name: BinaryLinear.of(method) for name, method in METHODS.items()}


def parts(clouds: int = 3, points: int = 7) -> list[torch.Tensor]:
    """Two features of points, and one of clouds."""
    torch.manual_seed(1)
    features = [torch.randn(clouds, points, width).requires_grad_() for width in (5, 9)]
    return [*features, torch.randn(clouds, 1, 11).requires_grad_()]


@pytest.mark.parametrize("linear", LINEARS.values(), ids=LINEARS)
def test_output_and_gradients_equal_the_plain_layer(linear):
    torch.manual_seed(0)
    layer = ConcatLinear(linear(25, 6))
    plain, fused = parts(), parts()
    layer.calibrate(plain)
    layer.fused = False
    expected = layer(plain)
    layer.fused = True
    found = layer(fused)
    if isinstance(layer.linear, BinaryLinear):
        assert torch.equal(found, expected), "sums of +-1 are exact, so rounding cannot differ"
    torch.testing.assert_close(found, expected)
    gradients = []
    for output, inputs in ((expected, plain), (found, fused)):
        layer.zero_grad()
        output.backward(torch.linspace(-1, 1, output.numel()).reshape(output.shape))
        parameters = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
        gradients.append([x.grad for x in inputs] + parameters)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_a_float_layer_without_bias_equals_the_plain_layer():
    """This raised a TypeError: None was added to the product."""
    torch.manual_seed(0)
    layer = ConcatLinear(nn.Linear(25, 6, bias=False))
    torch.testing.assert_close(layer(parts()), layer.linear(concatenate(parts())))


def test_features_of_a_cloud_are_repeated_at_each_point():
    first, second, shared = parts()
    concatenated = concatenate([first, second, shared])
    assert concatenated.shape == (3, 7, 25)
    assert torch.equal(concatenated[:, 4, 14:], shared[:, 0])
    assert torch.equal(concatenated[..., :5], first)
