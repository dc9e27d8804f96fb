"""PointNet++ (Qi et al. 2017, arXiv:1706.02413), single scale, in float and in 1 bit."""

import math
from itertools import pairwise
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.models.segmentation import Segmenter
from bipointnet.nn import Reads
from bipointnet.nn.geometry import ball, farthest_points, gather, interpolate, three_nearest

LIFT = 64  # channels of a float layer on coordinates that join features of 1 bit; models/local.py says why
POINT = 128  # channels of the float layer on a point that is labeled


class Level(NamedTuple):
    """A set abstraction: a center per `share` points, at most `limit` neighbors within `radius`, layers of `sizes`."""

    share: int
    radius: float
    limit: int
    sizes: tuple[int, int, int]


class SetAbstraction(nn.Module):
    """Farthest points, and for each a small PointNet over the ball around it.

        y_c = pool over j in ball(c) of mlp(place(x_j - x_c), f_j)

    Args:
        plan: makes the layers.
        features: channels per point besides xyz.
        sizes: outputs of the layers; the last layer is pooled.
        share: one center per `share` points.
        radius: of the balls.
        limit: maximum number of neighbors in a ball.
        usual: cloud size for which the limit holds; with fewer points balls hold fewer, and it shrinks in proportion.
        reads: what the first layer reads, as in Blueprint.layer.
        lift: outputs of `place`, a float layer that reads the offsets; 0: the offsets join the features as they are.

    Shapes: xyz (B, N, 3), features (B, N, F) -> centers (B, N / share, 3), features (B, N / share, sizes[-1])
    """

    def __init__(
        self,
        plan: Blueprint,
        features: int,
        sizes: tuple[int, int, int],
        share: int,
        radius: float,
        limit: int,
        usual: int,
        reads: Reads | None = None,
        lift: int = 0,
    ) -> None:
        super().__init__()
        self.share, self.radius, self.limit, self.usual = share, radius, limit, usual
        self.place = plan.layer(3, lift, reads="xyz") if lift else nn.Identity()
        self.points = plan.mlp([(lift or 3) + features, *sizes[:-1]], reads)
        self.pooled = plan.pooled_layer(*sizes[-2:])

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        total = xyz.shape[1]
        centers = gather(xyz, farthest_points(xyz, max(1, total // self.share)))
        limit = math.ceil(self.limit * min(1.0, total / self.usual))
        around = ball(centers, xyz, self.radius, limit)
        offsets = gather(xyz, around.indices) - centers.unsqueeze(2)  # (B, M, k, 3)
        x = torch.cat([self.place(offsets), gather(features, around.indices)], dim=-1)
        return centers, self.pooled(self.points(x), around.counts)


def lifted_levels(plan: Blueprint, levels: tuple[Level, ...], features: int, usual: int) -> nn.ModuleList:
    """Set abstractions one after the other, each with a float layer on its offsets.

    features: channels per point besides xyz. usual: the number of points for which the limits hold; 1: for any.
    """
    made = nn.ModuleList()
    for level in levels:
        own: dict[str, Any] = {"lift": LIFT} if made else {"reads": "points"}
        sizes = level.sizes, level.share, level.radius, level.limit, usual
        made.append(SetAbstraction(plan, features, *sizes, **own))
        usual, features = max(1, usual // level.share), level.sizes[-1]
    return made


class PointNet2(Classifier):
    """PointNet++ for classification: (B, N, in_channels) -> Output.

    Half of the points, then a quarter of these, are centers of balls of radius 0.2 and 0.4 with at most 64 neighbors.
    Clouds must be scaled to the unit sphere. With fewer than 1024 points balls hold fewer neighbors, and the limit
    shrinks in proportion. Float in a 1-bit network: the first layer and the last layer.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options.

    Examples:
        >>> model = PointNet2(num_classes=40, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 3)).logits.shape
        torch.Size([2, 40])
    """

    def __init__(self, num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint.of("PointNet2", **options)
        self.near = SetAbstraction(plan, in_channels - 3, (64, 64, 128), 2, 0.2, 64, 1024, reads="points")
        self.far = SetAbstraction(plan, 128, (128, 128, 256), 4, 0.4, 64, 512)
        self.points = plan.mlp([259, 256, 512])
        self.pooled = plan.pooled_layer(512, 1024)
        self.add_head(plan, [1024, 512, 256], num_classes)

    def forward(self, x: Tensor) -> Output:
        xyz, features = self.far(*self.near(x[..., :3], x[..., 3:]))
        pooled = self.pooled(self.points(torch.cat([xyz, features], dim=-1)))  # (B, 1024)
        return Output(self.classify(pooled), pooled)


OBJECTS = (Level(8, 0.2, 32, (64, 64, 128)), Level(4, 0.4, 32, (128, 128, 256)))
ROOMS = (Level(8, 0.15, 32, (64, 64, 128)), Level(4, 0.35, 32, (128, 128, 256)), Level(4, 0.8, 32, (128, 128, 256)))


class PointNet2Segmenter(Segmenter):
    """PointNet++ that labels points: (B, N, in_channels), and (B,) with categories, -> Output.

    Encoder: set abstractions as in PointNet2, and a PointNet over the last centers. Decoder: the features of each level
    are interpolated at the points of the next finer level and concatenated with its features. The head reads, at each
    point, a float layer on its channels, the interpolated features and the global features. Coordinates pass through a
    float layer before they are concatenated with features, as in LocalNet. Float in a 1-bit network: these layers and
    the last layer.

    Args:
        num_classes: number of parts or classes.
        in_channels: channels per point, xyz first.
        categories: number of categories of the category input; 0 for a network without it.
        levels: the set abstractions; radii are for objects in the unit sphere, or for blocks of 1 meter.
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options.

    Examples:
        >>> model = PointNet2Segmenter(num_classes=50, categories=16, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 3), torch.tensor([0, 15])).logits.shape
        torch.Size([2, 256, 50])
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 3,
        categories: int = 0,
        levels: tuple[Level, ...] = OBJECTS,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        plan = Blueprint.of("PointNet2Segmenter", **options)
        self.categories = categories
        self.first = plan.layer(in_channels, POINT, reads="points")
        self.levels = lifted_levels(plan, levels, in_channels - 3, usual=1)
        widths = [level.sizes[-1] for level in levels]
        self.place = plan.layer(3, LIFT, reads="xyz")
        self.points = plan.mlp([LIFT + widths[-1], 256, 512])
        self.pooled = plan.pooled_layer(512, 1024)
        self.down = nn.ModuleList(plan.layer(here + above, above) for here, above in pairwise(widths))
        self.add_head(plan, POINT + widths[-1] + 1024, [256, 128], num_classes)

    def forward(self, x: Tensor, category: Tensor | None = None) -> Output:
        xyz, features = [x[..., :3]], [x[..., 3:]]
        for level in self.levels:
            centers, found = level(xyz[-1], features[-1])
            xyz.append(centers)
            features.append(found)
        above = features[-1]
        pooled = self.pooled(self.points(torch.cat([self.place(xyz[-1]), above], dim=-1)))  # (B, 1024)
        for number in reversed(range(len(self.down))):
            here, there = number + 1, number + 2
            near = interpolate(above, *three_nearest(xyz[here], xyz[there]))
            above = self.down[number](torch.cat([features[here], near], dim=-1))
        near = interpolate(above, *three_nearest(xyz[0], xyz[1]))  # (B, N, channels of the last level)
        return Output(self.label([self.first(x), near], pooled, category), pooled)
