"""PointCNN (Li et al. 2018): convolutions on neighbours that a learned matrix has put in order; float and 1 bit."""

import math
from typing import Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.nn import MeanPool
from bipointnet.nn.geometry import farthest_points, gather, nearest


class XConv(nn.Module):
    """The X-convolution over the K neighbours of each point.

        L = lift(offsets)                  (K, hidden): each offset lifted into a space of features
        X = order(offsets)                 (K, K): a matrix that weighs and permutes the neighbours
        y = out(depthwise(X [L, features]))

    `order` is a linear layer 3 K -> K^2 and two convolutions of K groups, each K -> K; behind the last there is no
    activation, as X is a matrix of any sign. `depthwise` reads the K neighbours channel by channel. BatchNorm follows
    every layer, the depthwise one too.

    Args:
        plan: how layers are made; its first layers are those that read offsets.
        features, outputs: numbers a point, before and after.
        k, hidden, dilation: every dilation-th of the k * dilation nearest points is a neighbour; clouds with too few
            repeat the nearest.

    Shapes: xyz (B, N, 3), features (B, N, F) -> (B, N, outputs), without an activation
    """

    def __init__(self, plan: Blueprint, features: int, outputs: int, k: int, hidden: int, dilation: int) -> None:
        super().__init__()
        self.k, self.dilation = k, dilation
        channels = features + hidden
        multiplier = math.ceil(outputs / channels)
        self.lift = plan.mlp([3, hidden, hidden], first=plan.first)
        self.order = nn.Sequential(
            plan.layer(3 * k, k * k, linear=plan.first),
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

    Four X-convolutions on all points, on 0.375 of them and, the last two, on 0.334 of these. Float in a 1-bit network:
    the two layers of each X-convolution that read offsets, and the last layer.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        options: linear, pool, binary_first, binary_last, norm, as Blueprint explains them; the pool is a mean unless
            one is given.
    """

    def __init__(self, num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint(**options)
        plan = plan._replace(pool=plan.pool or MeanPool())
        self.convs = nn.ModuleList(
            [
                XConv(plan, in_channels - 3, 48, 8, 32, 1),
                XConv(plan, 48, 96, 12, 64, 2),
                XConv(plan, 96, 192, 16, 128, 2),
                XConv(plan, 192, 384, 16, 256, 2),
            ]
        )
        self.kept = (0.375, 0.334, 1.0)
        self.activation = plan.activation()
        self.pool = nn.Sequential(*([] if plan.binary else [nn.ReLU()]), plan.fresh_pool())
        self.end_with(plan, [384, 256, 128], num_classes)

    def forward(self, x: Tensor) -> Output:
        xyz, features = x[..., :3], x[..., 3:]
        for conv, kept in zip(self.convs[:-1], self.kept, strict=True):
            features = self.activation(conv(xyz, features))
            if kept < 1:
                chosen = farthest_points(xyz, max(1, round(kept * xyz.shape[1])))
                xyz, features = gather(xyz, chosen), gather(features, chosen)
        pooled = self.pool(self.convs[-1](xyz, features))  # (B, 384)
        return Output(self.classify(pooled), pooled)
