"""Where the bits of a layer split its inputs at the start of a training.

A bit is the sign of what BatchNorm leaves, w . x minus its mean plus a shift. Shifts start at 0, so all planes of a
layer go through the mean of its inputs, and of points on a ray from there all have the same bits: the first layer of a
fresh PointNet tells directions apart and nothing else. A step of Adam moves a shift by about the learning rate, so that
a short training ends near where it began. A full-precision network does not mind: its features say how far, too.
"""

import torch
from torch import nn


@torch.no_grad()
def spread_shifts(model: nn.Module, width: float) -> None:
    """Draw the shift of every BatchNorm of an untrained 1-bit network from a normal distribution of this `width`.

    It measures in standard deviations of what BatchNorm reads. 1 is a good start; 0 is what PyTorch and the paper have.
    Those in front of pools are drawn too, though EMA-max counts on none: left at 0, rooms came out 2 to 5 points lower.
    """
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.bias is not None:
            module.bias.normal_(0, width)
