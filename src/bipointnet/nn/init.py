"""Where the bits of a 1-bit layer split its inputs before training.

A bit is the sign of a BatchNorm output, w . x minus its mean plus a bias: it says on which side of a plane x is. The
planes of a new layer have two problems. Adam moves them by about the learning rate per step, so a short training ends
near its start. A full-precision network has neither problem: its features also measure the distance from the plane.

- Biases start at 0, so all planes go through the mean of the inputs, and all points on a ray from the mean have the
  same bits. The first layer of a new PointNet distinguishes directions only.
- Initial weights have the same size for all inputs, so the planes of a first layer are perpendicular to the inputs
  that vary most. In a room, heights vary by meters and colors by tenths: nearly every first bit is about height.
"""

from typing import Literal

import torch
from torch import Tensor, nn

# What a layer of a backbone reads. points: all channels of a point, or xyz as an offset with the other channels; xyz:
# offsets only; geometry: another function of coordinates, such as pairs of points or densities.
Reads = Literal["points", "xyz", "geometry"]


def mark_input(layer: nn.Module, reads: Reads) -> None:
    """Note what a layer reads, for `init_biases`. A layer without this mark is a hidden layer."""
    layer.reads = reads  # pyright: ignore[reportArgumentType]


@torch.no_grad()
def init_biases(model: nn.Module, std: float, points: Tensor) -> None:
    """Draw the biases of all BatchNorm layers, and balance the first layers of a backbone over their inputs.

    Biases are drawn from N(0, std^2), in units of the standard deviation of the BatchNorm's input; 1 is a good start.
    This includes BatchNorm in front of pools, although EMA-max assumes a bias of 0: with 0 there, rooms scored 2 to 5
    points lower.

    A float layer that reads the channels of a point has the weights of each channel divided by the standard deviation
    of the channel over `points`. Channels that hardly vary keep their weights. The backbones of this library know
    these layers; other networks have only their biases drawn.

    Args:
        model: an untrained network.
        std: standard deviation of the biases.
        points: clouds (..., C) with all C channels per point.

    Examples:
        >>> import torch, bipointnet
        >>> model = bipointnet.PointNet(num_classes=40, linear="lsr", pool="ema-max")
        >>> bipointnet.nn.init_biases(model, std=1.0, points=torch.rand(8, 256, 3))
    """
    deviations = points.flatten(0, -2).std(dim=0).to(next(model.parameters()).device)  # (C,)
    factors = {"points": _inverse(deviations), "xyz": _inverse(deviations[:3])}
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.bias is not None:
            module.bias.normal_(0, std)
        reads = getattr(module, "reads", None)
        if isinstance(module, nn.Linear) and reads in factors:
            module.weight.mul_(factors[reads])


def _inverse(deviations: Tensor) -> Tensor:
    """1 / deviation with a root mean square of 1; 1 where a channel hardly varies, such as the height of a plane."""
    varies = deviations > 1e-3 * deviations.max()
    inverse = torch.where(varies, deviations, 1).reciprocal()
    return torch.where(varies, inverse / inverse[varies].square().mean().sqrt(), 1)
