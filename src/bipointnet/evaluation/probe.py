"""Figures measured inside a running network: activations that pass no gradient, distance of T-Nets from orthogonal."""

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.models.pointnet import orthogonality
from bipointnet.nn import BinaryLinear, in_full
from bipointnet.nn.hooks import hooked

MAX_CLOUDS, MAX_POINTS = 32, 2**15  # of one probe


def evenly_spaced(count: int, total: int) -> np.ndarray:
    """`count` evenly spaced indices below `total`, or all of them if there are no more.

    Data are often sorted by class, so that the first indices would be one class.

    Example:
        >>> evenly_spaced(4, 20).tolist(), evenly_spaced(9, 4).tolist()
        ([0, 5, 10, 15], [0, 1, 2, 3])
    """
    return np.arange(total) if count >= total else np.arange(count) * total // count


def bilinear_layers(model: nn.Module) -> dict[str, BinaryLinear]:
    """The 1-bit linear layers of a network, which the paper calls bi-linear, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, BinaryLinear)}


def signs_and_zero_gradients(layer: BinaryLinear, x: Tensor) -> tuple[Tensor, Tensor]:
    """The signs of the input of a 1-bit layer, and where no gradient passes back to it: two bool tensors like x.

    No gradient passes where the surrogate slope of sign is zero (the clipped one: where |x| > 1), nor where a Hardtanh
    before the layer has clamped: it returns exactly +-1 there and has no gradient.
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        bits = layer.factors(x)[0]
        (slope,) = torch.autograd.grad(bits.sum(), x)
    return bits.detach() > 0, (slope == 0) | (x.detach().abs() == 1)


@torch.no_grad()
def probe(model: nn.Module, *inputs: Tensor) -> dict[str, float | None]:
    """The figures of a training log that need hooks inside the network, on a few of the clouds in `inputs`.

    regularizer: mean ||I - Z Z^T||_F of the feature transform; None without one.
    zero_gradient: percentage of the inputs of 1-bit layers that pass no gradient back, mean over the layers; None
    without such layers.
    """
    shares: list[Tensor] = []

    def add(name: str, layer: nn.Module, x: Tensor, output: Tensor) -> None:
        assert isinstance(layer, BinaryLinear)
        shares.append(signs_and_zero_gradients(layer, x)[1].float().mean())

    count = max(1, min(MAX_CLOUDS, MAX_POINTS // inputs[0].shape[1]))
    chosen = torch.from_numpy(evenly_spaced(count, len(inputs[0]))).to(inputs[0].device)
    with in_full(model), hooked(bilinear_layers(model), add):
        transform = model(*(x[chosen] for x in inputs)).transform
    return {
        "regularizer": None if transform is None else orthogonality(transform).item(),
        "zero_gradient": 100 * torch.stack(shares).mean().item() if shares else None,
    }
