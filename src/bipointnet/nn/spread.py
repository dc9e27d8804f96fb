"""Where the bits of a layer split its inputs at the start of a training.

A bit is the sign of what BatchNorm leaves, w . x minus its mean plus a shift. Shifts start at 0, so all planes of a
layer go through the mean of its inputs, and of points on a ray from there all have the same bits: the first layer of a
fresh PointNet tells directions apart and nothing else. A step of Adam moves a shift by about the learning rate, so that
a short training ends near where it began. A full-precision network does not mind: its features say how far, too.
"""

from itertools import pairwise

import torch
from torch import nn


@torch.no_grad()
def spread_shifts(model: nn.Module, width: float) -> None:
    """Draw the shifts of BatchNorm in an untrained 1-bit network from a normal distribution of this `width`.

    Those in front of Hardtanh in a Sequential are drawn. In front of a pool they stay: an EMA-max pool counts on bits
    that are as often 1 as 0. The width is in standard deviations of what BatchNorm reads; 0 is what PyTorch and the
    paper have.
    """
    for module in model.modules():
        if isinstance(module, nn.Sequential):
            for norm, following in pairwise(module):
                if isinstance(norm, nn.modules.batchnorm._BatchNorm) and isinstance(following, nn.Hardtanh):
                    norm.bias.normal_(0, width)
