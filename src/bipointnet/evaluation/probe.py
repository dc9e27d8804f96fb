"""Figures that are measured inside a network while it runs: gradients that stop, transforms far from orthogonal."""

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.models.pointnet import orthogonality
from bipointnet.nn import BinaryLinear, in_full
from bipointnet.nn.hooks import hooked

CLOUDS, MOST_POINTS = 32, 2**15  # at most, in one probe


def evenly_spaced(count: int, of: int) -> np.ndarray:
    """`count` of the numbers below `of`, evenly spread; all where there are no more. Data often come class by class."""
    return np.arange(of) if count >= of else np.arange(count) * of // count


def bilinear_layers(model: nn.Module) -> dict[str, BinaryLinear]:
    return {name: module for name, module in model.named_modules() if isinstance(module, BinaryLinear)}


def signs_and_stops(layer: BinaryLinear, x: Tensor) -> tuple[Tensor, Tensor]:
    """The signs a bi-linear layer takes of its input, and where no gradient passes back: truth values like x.

    None passes where the slope that stands in for that of sign is zero (the clipped one: where |x| > 1), and none
    where Hardtanh stood in front and has clamped: it leaves exactly +-1 and has no gradient there.
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        bits = layer.factors(x)[0]
        (slope,) = torch.autograd.grad(bits.sum(), x)
    return bits.detach() > 0, (slope == 0) | (x.detach().abs() == 1)


@torch.no_grad()
def probe(model: nn.Module, *inputs: Tensor) -> dict[str, float | None]:
    """The figures of a training log that need hooks inside the network, on a few of the clouds in `inputs`.

    regularizer: mean ||I - Z Z^T||_F of the feature transform. zero_gradient: share of the inputs of bi-linear layers
    that pass no gradient back, in percent, mean over the layers. None where a network has no such thing.
    """
    shares: list[Tensor] = []

    def see(name: str, layer: nn.Module, x: Tensor, output: Tensor) -> None:
        assert isinstance(layer, BinaryLinear)
        shares.append(signs_and_stops(layer, x)[1].float().mean())

    count = max(1, min(CLOUDS, MOST_POINTS // inputs[0].shape[1]))
    chosen = torch.from_numpy(evenly_spaced(count, len(inputs[0]))).to(inputs[0].device)
    with in_full(model), hooked(bilinear_layers(model), see):
        transform = model(*(x[chosen] for x in inputs)).transform
    return {
        "regularizer": None if transform is None else orthogonality(transform).item(),
        "zero_gradient": 100 * torch.stack(shares).mean().item() if shares else None,
    }
