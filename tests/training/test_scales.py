"""The scales of 1-bit layers keep their signs."""

import pytest
import torch
from torch import nn

from bipointnet.config import CHOICES, POINTNETS, Config
from bipointnet.models import build, vanilla_pointnet
from bipointnet.nn import BinaryLinear, calibrate
from bipointnet.training.scales import RelativeSteps

NETWORKS = [("classify", model) for model in CHOICES["model"]]
NETWORKS += [(task, model) for task in ("part", "semantic") for model in POINTNETS]


@pytest.mark.parametrize(("task", "model"), NETWORKS)
def test_the_scales_are_those_in_front_of_a_batchnorm(task, model):
    """All but those of the layers named `last`: of T-Nets, and of the logits."""
    network = build(Config(task=task, model=model, binary_last=True), 5, 9 if task == "semantic" else 3, 0)
    named = [(name, p) for name, p in network.named_parameters() if name.endswith(".alpha") and p.dim() == 0]
    expected = [p for name, p in named if not name.endswith("last.alpha")]
    found = RelativeSteps(network).scales
    assert {id(p) for p in found} == {id(p) for p in expected}
    assert len(found) == len(expected) > 0
    assert RelativeSteps(build(Config(task=task, model=model, norm=False), 5, 9, 0)).scales == []


def test_a_step_is_relative_and_only_for_scales():
    layer = BinaryLinear(8, 4, "lsr")
    network = nn.Sequential(layer, nn.BatchNorm1d(4))
    layer.alpha.data = torch.tensor(0.5)
    weight = layer.weight.detach().clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for gradient in (6.0, -6.0):
        layer.alpha.grad, layer.weight.grad = torch.tensor(gradient), torch.full_like(weight, gradient)
        RelativeSteps(network)(optimizer.step)
    torch.testing.assert_close(layer.alpha.detach(), torch.tensor(0.5))  # exp(-0.6) exp(0.6) = 1
    torch.testing.assert_close(layer.weight.detach(), weight)


def test_scales_stay_positive_where_plain_steps_change_their_signs():
    """BatchNorm undoes the scales, so their gradients are noise, of which Adam makes full steps."""
    signs = {}
    for relative in (False, True):
        torch.manual_seed(0)
        network = vanilla_pointnet(num_classes=3, linear="lsr", pool="ema-max")
        clouds, labels = torch.randn(16, 32, 3), torch.arange(16) % 3
        calibrate(network, clouds)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
        steps = RelativeSteps(network)
        assert len(steps.scales) == 4, "three hidden layers and the pooled one"
        for _ in range(30):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(clouds).logits, labels).backward()
            steps(optimizer.step) if relative else optimizer.step()
        signs[relative] = [bool(scale > 0) for scale in steps.scales]
    assert all(signs[True])
    assert not all(signs[False])
