"""Steps of the scales alpha of 1-bit layers that a BatchNorm follows.

BatchNorm undoes a positive factor, so the gradient of alpha is rounding noise. Adam divides a gradient by its own size:
it makes full steps of this noise, and alpha walks at random. When it crosses 0, every output of the layer changes its
sign at once, and the network forgets most of what it has learned. (Built-in shapes, seed 1: the accuracy fell from 96.5
to 7.0 % in one epoch and ended at 94.6 %; with the steps below it ends at 98.0 %.)

So a step is relative: alpha exp(s) instead of alpha + s. The scale keeps its sign, and changes by s of its size.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class RelativeSteps:
    """Make steps of an optimizer, which change the scales of `model` relative to their size.

    Example:
        >>> from bipointnet.nn import BinaryLinear
        >>> layer = BinaryLinear(8, 4, "lsr")
        >>> optimizer = torch.optim.Adam(layer.parameters())
        >>> layer(torch.randn(2, 8)).sum().backward()
        >>> RelativeSteps(layer)(optimizer.step)
    """

    def __init__(self, model: nn.Module) -> None:
        named = model.named_parameters()
        self.scales = [p for name, p in named if name.rpartition(".")[2] == "alpha" and p.dim() == 0]

    def __call__(self, step: Callable[[], Any]) -> None:
        before = [scale.detach().clone() for scale in self.scales]
        step()
        with torch.no_grad():
            for scale, old in zip(self.scales, before, strict=True):
                scale.copy_(old * torch.exp(scale - old))
