"""Where the bits of a layer split its inputs at the start of a training.

A bit is the sign of what BatchNorm leaves, w . x minus its mean plus a shift: it tells on which side of a plane x lies.
The planes of a fresh layer stand badly in two ways, and a step of Adam moves them by about the learning rate, so that a
short training ends near where it began. A full-precision network minds neither: its features say how far, too.

- Shifts start at 0, so all planes go through the mean of the inputs, and of points on a ray from there all have the
  same bits: the first layer of a fresh PointNet tells directions apart and nothing else.
- Weights start alike for all inputs, so the planes of a first layer lie across those that vary most: in a room, where
  heights vary by metres and colors by tenths, nearly every first bit is about height.
"""

import torch
from torch import Tensor, nn


@torch.no_grad()
def init_biases(model: nn.Module, width: float, points: Tensor) -> None:
    """Have the planes of an untrained 1-bit network stand apart, and across all that is known of a point alike.

    The shift of every BatchNorm is drawn from a normal distribution of this `width`, in standard deviations of what the
    BatchNorm reads; 1 is a good start. Those in front of pools are drawn too, though EMA-max counts on none: left at 0,
    rooms came out 2 to 5 points lower. Float layers that read the numbers of a point, and nothing else, divide what
    they weigh by how far it varies over `points` (..., C); what hardly varies is left alone.
    """
    deviations = points.flatten(0, -2).std(dim=0).to(next(model.parameters()).device)
    varies = deviations > 1e-3 * deviations.max()  # a plane's height is 0 up to rounding
    factors = torch.where(varies, deviations, 1).reciprocal()
    factors = torch.where(varies, factors / factors[varies].square().mean().sqrt(), 1)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.bias is not None:
            module.bias.normal_(0, width)
        if isinstance(module, nn.Linear) and module.in_features == len(factors):
            module.weight.mul_(factors)
