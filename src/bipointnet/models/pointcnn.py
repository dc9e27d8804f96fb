"""PointCNN (Li et al. 2018, arXiv:1801.07791): convolutions on neighbors ordered by a learned matrix."""

import math
from dataclasses import replace
from typing import Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.nn import MeanPool
from bipointnet.nn.geometry import farthest_points, gather, nearest


class XConv(nn.Module):
    """The X-convolution over the K neighbors of each point.

        L = lift(offsets)                  (K, hidden): each offset lifted into a feature space
        X = order(offsets)                 (K, K): a matrix that weights and permutes the neighbors
        y = out(depthwise(X [L, features]))

    `order` is a linear layer 3 K -> K^2 and two convolutions of K groups, each K -> K. The last has no activation,
    because X has both signs. `depthwise` reads the K neighbors channel by channel. BatchNorm follows every layer, also
    the depthwise one.

    Args:
        plan: makes the layers; the layers that read offsets are first layers.
        features, outputs: channels per point, before and after.
        k, dilation: every dilation-th of the k * dilation nearest points is a neighbor; with too few points the nearest
            is repeated.
        hidden: channels of a lifted offset.

    Shapes: xyz (B, N, 3), features (B, N, F) -> (B, N, outputs), without an activation
    """

    def __init__(self, plan: Blueprint, features: int, outputs: int, k: int, hidden: int, dilation: int) -> None:
        super().__init__()
        self.k, self.dilation = k, dilation
        channels = features + hidden
        multiplier = math.ceil(outputs / channels)
        self.lift = plan.mlp([3, hidden, hidden], reads="xyz")
        self.order = nn.Sequential(
            plan.layer(3 * k, k * k, reads="geometry"),
            nn.Unflatten(-1, (k, k)),
            plan.grouped_layer(k, k, k),
            nn.Unflatten(-1, (k, k)),
            plan.grouped_layer(k, k, k)[:-1],
            nn.Unflatten(-1, (k, k)),
        )
        self.depthwise = plan.grouped_layer(channels, k, multiplier)
        self.out = plan.layer(channels * multiplier, outputs)[:-1]

    def forward(self, xyz: Tensor, features: Tensor) -> Tensor:
        around = nearest(xyz, xyz, self.k, self.dilation).indices  # (B, N, K)
        offsets = gather(xyz, around) - xyz.unsqueeze(2)  # (B, N, K, 3)
        lifted = torch.cat([self.lift(offsets), gather(features, around)], dim=-1)  # (B, N, K, C)
        ordered = self.order(offsets.flatten(-2)) @ lifted
        return self.out(self.depthwise(ordered.mT))


class PointCNN(Classifier):
    """PointCNN for classification: (B, N, in_channels) -> Output.

    Four X-convolutions: on all points, on 37.5 % of them, and the last two on 33.4 % of these. Float in a 1-bit
    network: the two layers of each X-convolution that read offsets, and the last layer.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options. The default pool is
            a mean.

    Examples:
        >>> model = PointCNN(num_classes=40, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 3)).logits.shape
        torch.Size([2, 40])
    """

    def __init__(self, num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint.of("PointCNN", **options)
        plan = replace(plan, pool=plan.pool or MeanPool())
        self.convs = nn.ModuleList(
            [
                XConv(plan, in_channels - 3, 48, 8, 32, 1),
                XConv(plan, 48, 96, 12, 64, 2),
                XConv(plan, 96, 192, 16, 128, 2),
                XConv(plan, 192, 384, 16, 256, 2),
            ]
        )
        self.fractions = (0.375, 0.334, 1.0)
        self.activation = plan.activation()
        self.pool = nn.Sequential(*([] if plan.binary else [nn.ReLU()]), plan.new_pool())
        self.add_head(plan, [384, 256, 128], num_classes)

    def forward(self, x: Tensor) -> Output:
        xyz, features = x[..., :3], x[..., 3:]
        for conv, fraction in zip(self.convs[:-1], self.fractions, strict=True):
            features = self.activation(conv(xyz, features))
            if fraction < 1:
                chosen = farthest_points(xyz, max(1, round(fraction * xyz.shape[1])))
                xyz, features = gather(xyz, chosen), gather(features, chosen)
        pooled = self.pool(self.convs[-1](xyz, features))  # (B, 384)
        return Output(self.classify(pooled), pooled)
