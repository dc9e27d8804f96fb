"""PointNet (Qi et al. 2017), with and without T-Nets, in full precision and in 1 bit.

One class makes every twin: the layer factory `linear` and the pool `pool` are arguments.

    PointNet(num_classes=40)                                                      full precision
    PointNet(num_classes=40, linear=BinaryLinear.of(LSR()), pool=EntropyMax())    1 bit
"""

from typing import Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.nn import LinearFactory


class TNet(nn.Module):
    """Predicts a square matrix for a cloud, near the identity: (B, N, C) -> (B, size, size)."""

    def __init__(self, plan: Blueprint, in_channels: int, size: int, first: LinearFactory | None = None) -> None:
        super().__init__()
        self.size = size
        self.points = plan.mlp([in_channels, 64, 128], first=first)
        self.pooled = plan.pooled_layer(128, 1024)
        self.head = plan.mlp([1024, 512, 256])
        self.last = plan.linear(256, size * size)

    def forward(self, x: Tensor) -> Tensor:
        matrix = self.last(self.head(self.pooled(self.points(x))))
        return matrix.reshape(-1, self.size, self.size) + torch.eye(self.size, device=x.device, dtype=x.dtype)


def orthogonality(transform: Tensor) -> Tensor:
    """Mean over the batch of ||I - Z Z^T||_F for (B, D, D) matrices Z."""
    identity = torch.eye(transform.shape[-1], device=transform.device, dtype=transform.dtype)
    return torch.linalg.matrix_norm(identity - transform @ transform.mT).mean()


def turn_points(x: Tensor, transform: TNet | None) -> Tensor:
    """xyz of (B, N, C) times the matrix that `transform` finds for the cloud; the other numbers stay."""
    if transform is None:
        return x
    return torch.cat([x[..., :3] @ transform(x), x[..., 3:]], dim=-1)


class Encoder(nn.Module):
    """PointNet up to its pool: T-Nets, 64-128-1024, pool."""

    def begin_with(self, plan: Blueprint, in_channels: int, tnets: bool) -> None:
        self.input_transform = TNet(plan, in_channels, 3, first=plan.first) if tnets else None
        self.first = plan.layer(in_channels, 64, linear=plan.first)
        self.feature_transform = TNet(plan, 64, 64) if tnets else None
        self.points = plan.mlp([64, 128])
        self.pooled = plan.pooled_layer(128, 1024)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """(B, N, in_channels) -> features of points (B, N, 64), of the cloud (B, 1024), and the matrix between them."""
        x = self.first(turn_points(x, self.input_transform))
        transform = None
        if self.feature_transform is not None:
            transform = self.feature_transform(x)
            x = x @ transform
        return x, self.pooled(self.points(x)), transform


class PointNet(Encoder, Classifier):
    """PointNet for classification: (B, N, in_channels) -> Output.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first; the input T-Net reads all and turns xyz.
        tnets: with the input and the feature transform (PointNet) or without (vanilla).
        options: linear, pool, binary_first, binary_last, norm, as Blueprint explains them.
    """

    def __init__(self, num_classes: int, in_channels: int = 3, tnets: bool = True, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint(**options)
        self.begin_with(plan, in_channels, tnets)
        self.end_with(plan, [1024, 512, 256], num_classes)

    def forward(self, x: Tensor) -> Output:
        _, pooled, transform = self.encode(x)
        return Output(self.classify(pooled), pooled, transform)


def vanilla_pointnet(num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> PointNet:
    """PointNet without its T-Nets: 3-64-128-1024, pool, 512-256-num_classes."""
    return PointNet(num_classes, in_channels, tnets=False, **options)
