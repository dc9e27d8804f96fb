"""A compiler that loses or turns gradients is detected before training; a correct one passes."""

import pytest
import torch
from torch import Tensor, nn

from bipointnet.errors import UserError
from bipointnet.models import PointNet
from bipointnet.nn import LSR, BinaryLinear, EntropyMax
from bipointnet.training.compile_check import compare_gradients


class Blocked(nn.Module):
    """Runs a module on a detached input, like a compiler that drops a gradient."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x.detach())


class Turned(Blocked):
    def forward(self, x: Tensor) -> Tensor:
        return -self.module(x)


@pytest.fixture(params=[False, True], ids=["vanilla", "tnets"])
def case(request):
    torch.manual_seed(0)
    model = PointNet(num_classes=5, linear=BinaryLinear.of(LSR()), pool=EntropyMax(), tnets=request.param)
    clouds, labels = torch.randn(8, 40, 3), torch.arange(8) % 5
    return model, lambda network: nn.functional.cross_entropy(network(clouds).logits, labels)


def test_equal_gradients_pass(case, monkeypatch):
    model, loss = case
    monkeypatch.setattr(torch, "compile", lambda layer: layer)
    compare_gradients(model, model, loss)


@pytest.mark.parametrize("wrong", [Blocked, Turned])
def test_a_layer_with_other_gradients_is_named(case, monkeypatch, wrong):
    model, loss = case
    monkeypatch.setattr(torch, "compile", wrong)
    with pytest.raises(UserError, match=r"changes the gradient of \S+\.(input|linear\.weight|weight) .*--compile"):
        compare_gradients(model, model, loss)


def test_a_network_that_loses_a_gradient_is_refused(case, monkeypatch):
    model, loss = case
    monkeypatch.setattr(torch, "compile", lambda layer: layer)

    def lossy(network: nn.Module) -> Tensor:
        if not isinstance(network, nn.Identity):
            return loss(network)
        hook = model.head.register_forward_pre_hook(lambda module, inputs: (inputs[0].detach(),))
        try:
            return loss(model)
        finally:
            hook.remove()

    with pytest.raises(UserError, match=r"changes the gradient of \S+ \(0\.00 times"):
        compare_gradients(model, nn.Identity(), lossy)
