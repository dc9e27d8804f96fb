"""PointNet for segmentation (Qi et al. 2017): a label for every point, in full precision and in 1 bit.

Both networks end alike: a layer reads what is known of a point beside what is known of its whole cloud, two more
follow, and a float layer gives the logits of each point. There is no dropout.

    PartPointNet(num_classes=4)                                   the parts of one category, as in the paper
    PartPointNet(num_classes=50, categories=16)                   of all categories; each cloud comes with its category
    ScenePointNet(num_classes=13, in_channels=9)                     objects in blocks of a room
"""

from typing import Unpack

import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Options, Output
from bipointnet.models.pointnet import Encoder, TNet, turn_points
from bipointnet.nn import ConcatLinear


class Segmenter(nn.Module):
    """What both networks have in common: they take a category where they have any, and end with a head on points."""

    categories: int

    def end_with(self, plan: Blueprint, inputs: int, sizes: list[int], num_classes: int) -> None:
        self.joined = plan.finish(ConcatLinear(plan.linear(inputs + self.categories, sizes[0])), sizes[0])
        self.head = plan.mlp(sizes)
        self.last = plan.last(sizes[-1], num_classes)

    def label(self, points: list[Tensor], cloud: Tensor, category: Tensor | None) -> Tensor:
        """Features of points, each (B, N, K), of the cloud (B, K), its category (B,) -> logits (B, N, num_classes)."""
        if (category is not None) != (self.categories > 0):
            raise ValueError(
                f"category is {category}; expected one a cloud of {self.categories} categories, or none of 0"
            )
        parts = [*points, cloud.unsqueeze(1)]
        if category is not None:
            # +1 and -1, as a sign would take 0 for 1.
            parts.append(F.one_hot(category, self.categories).to(cloud.dtype).unsqueeze(1) * 2 - 1)
        return self.last(self.head(self.joined(parts)))


class PartPointNet(Segmenter):
    """Parts of an object: (B, N, in_channels), and (B,) if there are categories, -> logits (B, N, num_classes).

    Encoder in_channels-64-128-128-512-2048, with a feature transform before the 512. The head reads the five features
    of a point (the third before the transform, the last as the pool sees it) and the pooled one: 4928-256-256-128.

    Args:
        num_classes: number of parts.
        in_channels: channels per point, xyz first; the input T-Net reads all and turns xyz.
        categories: how many categories there are to be told, 0 for a network of one.
        tnets: with the input and the feature transform, or without.
        options: linear, pool, binary_first, binary_last, norm, as Blueprint explains them.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 3,
        categories: int = 0,
        tnets: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        plan = Blueprint(**options)
        self.categories = categories
        self.input_transform = TNet(plan, in_channels, 3, first=plan.first) if tnets else None
        self.first = plan.layer(in_channels, 64, linear=plan.first)
        self.second = plan.layer(64, 128)
        self.third = plan.layer(128, 128)
        self.feature_transform = TNet(plan, 128, 128) if tnets else None
        self.fourth = plan.layer(128, 512)
        # In front of a pool a 1-bit network has no activation.
        self.fifth = plan.layer(512, 2048)[: -1 if plan.binary else None]
        self.pool = plan.fresh_pool()
        self.end_with(plan, 64 + 128 + 128 + 512 + 2048 + 2048, [256, 256, 128], num_classes)

    def forward(self, x: Tensor, category: Tensor | None = None) -> Output:
        x = turn_points(x, self.input_transform)
        first = self.first(x)
        second = self.second(first)
        third = self.third(second)
        transform = None if self.feature_transform is None else self.feature_transform(third)  # (B, 128, 128)
        fourth = self.fourth(third if transform is None else third @ transform)
        fifth = self.fifth(fourth)
        pooled = self.pool(fifth)  # (B, 2048)
        return Output(self.label([first, second, third, fourth, fifth], pooled, category), pooled, transform)


class ScenePointNet(Encoder, Segmenter):
    """Objects in a block of a room: (B, N, in_channels) -> Output with logits (B, N, num_classes).

    PointNet's encoder; the head reads the 64 features of a point behind the transform and the 1024 of the cloud:
    1088-512-256-128.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first; the input T-Net reads all and turns xyz.
        tnets, options: as in PartPointNet.
    """

    categories = 0

    def __init__(self, num_classes: int, in_channels: int = 9, tnets: bool = True, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint(**options)
        self.begin_with(plan, in_channels, tnets)
        self.end_with(plan, 64 + 1024, [512, 256, 128], num_classes)

    def forward(self, x: Tensor) -> Output:
        points, pooled, transform = self.encode(x)
        return Output(self.label([points], pooled, None), pooled, transform)
