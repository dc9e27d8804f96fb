"""What `calibrate` takes for the inputs of a network."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bipointnet import UserError, calibrate
from bipointnet.nn import BinaryLinear


class Network(nn.Module):
    """Notes what its forward is given."""

    def __init__(self):
        super().__init__()
        self.layer = BinaryLinear(3, 8, "lsr")
        self.given: tuple[Any, ...] = ()

    def forward(self, x, category=None, scale=1.0):
        self.given = x, category, scale
        return self.layer(scale * (x["pos"] if isinstance(x, dict) else x))


class TwoInputs(Network):
    def forward(self, x, category, scale=1.0):  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(x, category, scale)


X, C, Y = torch.randn(6, 3), torch.arange(6), torch.zeros(6)
BATCHES = {
    "a tensor": (Network, X, (X, None)),
    "a dictionary": (Network, {"pos": X}, ({"pos": X}, None)),
    "a tuple of all inputs": (Network, (X, C), (X, C)),
    "a loader with labels": (Network, DataLoader(TensorDataset(X, Y), batch_size=6), (X, None)),
    "a loader with optional inputs": (Network, DataLoader(TensorDataset(X, C, Y), batch_size=6), (X, C)),
    "a loader with two inputs": (TwoInputs, DataLoader(TensorDataset(X, C, Y), batch_size=6), (X, C)),
    "a loader without labels": (TwoInputs, DataLoader(TensorDataset(X, C), batch_size=6), (X, C)),
    "a generator of tensors": (Network, (batch for batch in (X, Y)), (X, None)),
    "a batch of a loader": (Network, [X, Y], (X, None)),
}


def same(a, b) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, Tensor) else a is b


@pytest.mark.parametrize("name", BATCHES)
def test_the_inputs_in_a_batch(name):
    kind, batch, expected = BATCHES[name]
    torch.manual_seed(0)
    network = kind()
    calibrate(network, batch)
    assert all(map(same, network.given[:2], expected))


def test_keyword_arguments_go_to_the_forward():
    torch.manual_seed(0)
    network = Network()
    calibrate(network, X)
    alpha = network.layer.alpha.item()
    calibrate(network, DataLoader(TensorDataset(X, Y), batch_size=6), scale=3.0)
    assert network.given[2] == 3
    assert network.layer.alpha.item() == pytest.approx(3 * alpha)


def test_an_empty_loader_is_refused():
    with pytest.raises(UserError, match="the loader has no batch"):
        calibrate(Network(), iter(()))
