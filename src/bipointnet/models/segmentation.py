"""PointNet for segmentation (Qi et al. 2017, arXiv:1612.00593): one label per point, in float and in 1 bit.

Networks that label points have heads of one form: a layer on the concatenated features of a point and of its cloud,
more layers, and a float layer with the logits of each point. There is no dropout.

    PartPointNet(num_classes=4)                      parts of one category, as in the paper
    PartPointNet(num_classes=50, categories=16)      parts of all categories, with the category of a cloud as an input
    ScenePointNet(num_classes=13, in_channels=9)     objects in blocks of a room
"""

from typing import Unpack

import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Options, Output
from bipointnet.models.pointnet import Encoder, TNet, transform_xyz
from bipointnet.nn import ConcatLinear
from bipointnet.nn.fused_pool import pool_counts


class Segmenter(nn.Module):
    """Base class of the networks that label points: the head, with an optional category input."""

    categories: int

    def add_head(self, plan: Blueprint, inputs: int, sizes: list[int], num_classes: int) -> None:
        self.concat = plan.finish(ConcatLinear(plan.linear(inputs + self.categories, sizes[0])), sizes[0])
        self.head = plan.mlp(sizes)
        self.last = plan.last(sizes[-1], num_classes)

    def label(self, points: list[Tensor], cloud: Tensor, category: Tensor | None) -> Tensor:
        """Features of points, each (B, N, K), of clouds (B, K), categories (B,) -> logits (B, N, num_classes)."""
        if (category is not None) != (self.categories > 0):
            expected = f"one of {self.categories} categories per cloud" if self.categories else "no category input"
            raise ValueError(f"{type(self).__name__}: category is {category}, expected {expected}")
        parts = [*points, cloud.unsqueeze(1)]
        if category is not None:
            # +1 and -1, because sign(0) = sign(1).
            parts.append(F.one_hot(category, self.categories).to(cloud.dtype).unsqueeze(1) * 2 - 1)
        return self.last(self.head(self.concat(parts)))


class PartPointNet(Segmenter):
    """Parts of an object: (B, N, in_channels), and (B,) with categories, -> Output with logits (B, N, num_classes).

    Encoder in_channels-64-128-128-512-2048, with a feature transform before the 512. The head reads the five features
    of a point (the third before the transform, the last as the input of the pool) and the pooled one:
    4928-256-256-128.

    Args:
        num_classes: number of parts.
        in_channels: channels per point, xyz first; the input T-Net reads all channels and transforms xyz.
        categories: number of categories of the category input; 0 for a network without it.
        tnets: with the input and the feature transform, or without.
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options.

    Examples:
        >>> model = PartPointNet(num_classes=50, categories=16, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 3), torch.tensor([0, 15])).logits.shape
        torch.Size([2, 256, 50])
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
        plan = Blueprint.of("PartPointNet", **options)
        self.categories = categories
        self.input_transform = TNet(plan, in_channels, 3, reads="points") if tnets else None
        self.first = plan.layer(in_channels, 64, reads="points")
        self.second = plan.layer(64, 128)
        self.third = plan.layer(128, 128)
        self.feature_transform = TNet(plan, 128, 128) if tnets else None
        self.fourth = plan.layer(128, 512)
        # A 1-bit network has no activation in front of a pool.
        self.fifth = plan.layer(512, 2048)[: -1 if plan.binary else None]
        self.pool = plan.new_pool()
        self.add_head(plan, 64 + 128 + 128 + 512 + 2048 + 2048, [256, 256, 128], num_classes)

    def forward(self, x: Tensor, category: Tensor | None = None) -> Output:
        x = transform_xyz(x, self.input_transform)
        first = self.first(x)
        second = self.second(first)
        third = self.third(second)
        transform = None if self.feature_transform is None else self.feature_transform(third)  # (B, 128, 128)
        fourth = self.fourth(third if transform is None else third @ transform)
        fifth = self.fifth(fourth)
        pooled = self.pool(fifth, pool_counts(self.pool, self.fifth.get_submodule("0"), fourth))  # (B, 2048)
        return Output(self.label([first, second, third, fourth, fifth], pooled, category), pooled, transform)


class ScenePointNet(Encoder, Segmenter):
    """Objects in a block of a room: (B, N, in_channels) -> Output with logits (B, N, num_classes).

    PointNet's encoder; the head reads the 64 features of a point after the transform and the 1024 of the cloud:
    1088-512-256-128. In 1 bit the features of a point are 64 sides of planes, which place it only roughly in its block;
    `first_width` has more of them.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first; the input T-Net reads all channels and transforms xyz.
        tnets: as in PartPointNet.
        first_width: outputs of the first layer, which is a float layer also in 1 bit.
        options: as in PartPointNet.

    Examples:
        >>> model = ScenePointNet(num_classes=13, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 9)).logits.shape
        torch.Size([2, 256, 13])
    """

    categories = 0

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 9,
        tnets: bool = True,
        first_width: int = 64,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        plan = Blueprint.of("ScenePointNet", **options)
        self.add_encoder(plan, in_channels, tnets, first_width)
        self.add_head(plan, first_width + 1024, [512, 256, 128], num_classes)

    def forward(self, x: Tensor) -> Output:
        points, pooled, transform = self.encode(x)
        return Output(self.label([points], pooled, None), pooled, transform)
