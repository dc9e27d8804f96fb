"""Figures measured inside a running network: activations without gradient, entropy of bits, orthogonality of T-Nets."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.evaluation.metrics import share_entropy
from bipointnet.models.pointnet import orthogonality
from bipointnet.nn import BinaryLinear, in_full
from bipointnet.nn.hooks import hooked

MAX_CLOUDS, MAX_POINTS = 32, 2**15  # of one probe


def evenly_spaced(count: int, total: int) -> np.ndarray:
    """`count` evenly spaced indices below `total`, or all of them if there are no more.

    Data are often sorted by class, so that the first indices would be one class.

    Examples:
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


def channels_last(layer: BinaryLinear, x: Tensor) -> Tensor:
    """The input of a 1-bit layer as (..., in_features); that of a convolution has its channels before the places."""
    return x.movedim(-1 - getattr(layer, "places", 0), -1).contiguous()


@dataclass
class BitCounts:
    """How many of the bits that a 1-bit layer reads are +1, per channel, added up over batches."""

    ones: np.ndarray | int = 0  # (K,)
    rows: int = 0

    def add(self, signs: Tensor) -> None:
        """Count the signs (..., K) of one batch."""
        signs = signs.reshape(-1, signs.shape[-1])
        self.ones = self.ones + signs.sum(dim=0).cpu().numpy()
        self.rows += len(signs)

    @property
    def entropy(self) -> np.ndarray:  # (K,)
        """Entropy in bits of each channel over all rows."""
        return share_entropy(np.atleast_1d(self.ones) / max(self.rows, 1))


class LayerBits(NamedTuple):
    """The bits that a 1-bit layer reads, over all points of all clouds.

    entropy: in bits, mean over the input channels. constant: channels whose bit is always the same.
    """

    name: str
    inputs: int
    entropy: float
    constant: int


@torch.no_grad()
def read_bits(model: nn.Module, *inputs: Tensor) -> list[LayerBits]:
    """The bits that each 1-bit layer reads, on a few of the clouds in `inputs`; empty for a float network.

    Examples:
        >>> from bipointnet.models import PointNet
        >>> model = PointNet(num_classes=4, tnets=False, linear="lsr", pool="ema-max")
        >>> [bits.name for bits in read_bits(model, torch.randn(8, 64, 3))]
        ['points.0.0', 'pooled.linear', 'head.0.0', 'head.1.0']
    """
    layers = bilinear_layers(model)
    counts = {name: BitCounts() for name in layers}

    def add(name: str, layer: nn.Module, x: Tensor, output: Tensor) -> None:
        assert isinstance(layer, BinaryLinear)
        counts[name].add(layer.codes(channels_last(layer, x)) > 0)

    if layers:
        with in_full(model), hooked(layers, add):
            model(*_few(inputs))
    entropies = {name: count.entropy for name, count in counts.items() if count.rows}
    return [
        LayerBits(name, layers[name].in_features, float(found.mean()), int((found == 0).sum()))
        for name, found in entropies.items()
    ]


def _few(inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Evenly spaced clouds: at most MAX_CLOUDS of them, and about MAX_POINTS points."""
    count = max(1, min(MAX_CLOUDS, MAX_POINTS // inputs[0].shape[1]))
    chosen = torch.from_numpy(evenly_spaced(count, len(inputs[0]))).to(inputs[0].device)
    return [x[chosen] for x in inputs]


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

    with in_full(model), hooked(bilinear_layers(model), add):
        transform = model(*_few(inputs)).transform
    return {
        "regularizer": None if transform is None else orthogonality(transform).item(),
        "zero_gradient": 100 * torch.stack(shares).mean().item() if shares else None,
    }
