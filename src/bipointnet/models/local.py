"""LocalNet, a family of our own for 1 bit: small PointNets around few centers, then a PointNet over the centers.

Signs of coordinates say little: three bits tell in which octant a neighbor is. So wherever coordinates join features of
1 bit, they first pass a float layer of their own, with 3 inputs, and its signs join the features. PointNet++ in 1 bit
has a float layer at its first level only. (docs/backbones.md has the measurements.)
"""

from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from bipointnet.errors import UserError
from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.models.pointnet2 import LIFT, Level, lifted_levels


class Size(NamedTuple):
    """The levels, the layers at the centers of the last level, the pooled channels, and the layers of the head."""

    levels: tuple[Level, ...]
    points: tuple[int, ...]
    pooled: int
    head: tuple[int, ...]


SIZES = {
    "tiny": Size((Level(16, 0.25, 16, (32, 64, 64)),), (128,), 512, (256,)),
    "small": Size((Level(8, 0.25, 24, (64, 64, 128)),), (256,), 1024, (512, 256)),
    "base": Size((Level(2, 0.2, 64, (64, 64, 128)), Level(4, 0.4, 64, (128, 128, 256))), (256, 512), 1024, (512, 256)),
}


class LocalNet(Classifier):
    """LocalNet for classification: (B, N, in_channels) -> Output.

    "base" has the levels of PointNet++, "small" and "tiny" have one level with fewer centers. Clouds must be scaled to
    the unit sphere and have about 1024 points: the balls of a cloud with 32 points hold their center and nothing else.
    Float in a 1-bit network: the layers that read coordinates, and the last layer.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        size: "tiny", "small" or "base".
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options.

    Examples:
        >>> model = LocalNet(num_classes=40, size="tiny", linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 3)).logits.shape
        torch.Size([2, 40])
    """

    def __init__(self, num_classes: int, in_channels: int = 3, size: str = "small", **options: Unpack[Options]) -> None:
        super().__init__()
        if size not in SIZES:
            raise UserError(f"LocalNet: size is {size!r}, expected one of {', '.join(SIZES)}")
        plan, form = Blueprint.of("LocalNet", **options), SIZES[size]
        self.size = size
        self.levels = lifted_levels(plan, form.levels, in_channels - 3, usual=1024)
        self.place = plan.layer(3, LIFT, reads="xyz")
        widths = [LIFT + form.levels[-1].sizes[-1], *form.points]
        self.points = plan.mlp(widths)
        self.pooled = plan.pooled_layer(widths[-1], form.pooled)
        self.add_head(plan, [form.pooled, *form.head], num_classes)

    def forward(self, x: Tensor) -> Output:
        xyz, features = x[..., :3], x[..., 3:]
        for level in self.levels:
            xyz, features = level(xyz, features)
        pooled = self.pooled(self.points(torch.cat([self.place(xyz), features], dim=-1)))  # (B, pooled)
        return Output(self.classify(pooled), pooled)
