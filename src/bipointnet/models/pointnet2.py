"""PointNet++ (Qi et al. 2017), single scale, in full precision and in 1 bit."""

import math
from typing import Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.nn import LinearFactory
from bipointnet.nn.geometry import ball, farthest_points, gather


class SetAbstraction(nn.Module):
    """Farthest points, and for each a small PointNet over the ball around it.

        y_c = pool over j in ball(c) of mlp(x_j - x_c, f_j)

    Args:
        plan: how layers are made.
        features: numbers a point beside its coordinates.
        sizes: outputs of the layers; the last one is pooled.
        share: one centre for so many points.
        radius, limit: of the balls, and the most neighbours of one.
        usual: points for which the limit is meant; with fewer it shrinks in proportion, as balls hold fewer.
        first: makes the first layer.

    Shapes: xyz (B, N, 3), features (B, N, F) -> centres (B, N / share, 3), features (B, N / share, sizes[-1])
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
        first: LinearFactory | None = None,
    ) -> None:
        super().__init__()
        self.share, self.radius, self.limit, self.usual = share, radius, limit, usual
        self.points = plan.mlp([3 + features, *sizes[:-1]], first=first)
        self.pooled = plan.pooled_layer(*sizes[-2:])

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        total = xyz.shape[1]
        centres = gather(xyz, farthest_points(xyz, max(1, total // self.share)))
        limit = math.ceil(self.limit * min(1.0, total / self.usual))
        around = ball(centres, xyz, self.radius, limit)
        offsets = gather(xyz, around.indices) - centres.unsqueeze(2)  # (B, M, k, 3)
        x = torch.cat([offsets, gather(features, around.indices)], dim=-1)
        return centres, self.pooled(self.points(x), around.counts)


class PointNet2(Classifier):
    """PointNet++ for classification: (B, N, in_channels) -> Output.

    Half of the points, then a quarter of these, are centres of balls of radius 0.2 and 0.4 with at most 64 neighbours
    each; clouds are expected within the unit sphere. With fewer than 1024 points balls hold fewer neighbours, and their
    limit shrinks alike. Float in a 1-bit network: the first layer and the last one.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        options: linear, pool, binary_first, binary_last, norm, as Blueprint explains them.
    """

    def __init__(self, num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint(**options)
        self.near = SetAbstraction(plan, in_channels - 3, (64, 64, 128), 2, 0.2, 64, 1024, first=plan.first)
        self.far = SetAbstraction(plan, 128, (128, 128, 256), 4, 0.4, 64, 512)
        self.points = plan.mlp([259, 256, 512])
        self.pooled = plan.pooled_layer(512, 1024)
        self.end_with(plan, [1024, 512, 256], num_classes)

    def forward(self, x: Tensor) -> Output:
        xyz, features = self.far(*self.near(x[..., :3], x[..., 3:]))
        pooled = self.pooled(self.points(torch.cat([xyz, features], dim=-1)))  # (B, 1024)
        return Output(self.classify(pooled), pooled)
