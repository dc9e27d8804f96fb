"""PointNet (Qi et al. 2017, arXiv:1612.00593), with and without T-Nets, in float and in 1 bit.

One class makes both: the layer factory `linear` and the pool `pool` are arguments.

    PointNet(num_classes=40)                                    float
    PointNet(num_classes=40, linear="lsr", pool="ema-max")      1 bit
"""

from typing import Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.nn import Reads


class TNet(nn.Module):
    """Predicts a square matrix near the identity for each cloud: (B, N, C) -> (B, size, size).

    `reads` says what the first layer reads, as in Blueprint.layer.
    """

    def __init__(self, plan: Blueprint, in_channels: int, size: int, reads: Reads | None = None) -> None:
        super().__init__()
        self.size = size
        self.points = plan.mlp([in_channels, 64, 128], reads)
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


def transform_xyz(x: Tensor, transform: TNet | None) -> Tensor:
    """xyz of (B, N, C) times the matrix that `transform` predicts; the other channels stay."""
    if transform is None:
        return x
    return torch.cat([x[..., :3] @ transform(x), x[..., 3:]], dim=-1)


class Encoder(nn.Module):
    """PointNet up to its pool: T-Nets, 64-128-1024, pool; the first layer may be wider than 64."""

    def add_encoder(self, plan: Blueprint, in_channels: int, tnets: bool, width: int = 64) -> None:
        self.input_transform = TNet(plan, in_channels, 3, reads="points") if tnets else None
        self.first = plan.layer(in_channels, width, reads="points")
        self.feature_transform = TNet(plan, width, width) if tnets else None
        self.points = plan.mlp([width, max(128, width)])
        self.pooled = plan.pooled_layer(max(128, width), 1024)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """(B, N, in_channels) -> features of points (B, N, width), of clouds (B, 1024), and the feature transform."""
        x = self.first(transform_xyz(x, self.input_transform))
        transform = None
        if self.feature_transform is not None:
            transform = self.feature_transform(x)
            x = x @ transform
        return x, self.pooled(self.points(x)), transform


class PointNet(Encoder, Classifier):
    """PointNet for classification: (B, N, in_channels) -> Output.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first; the input T-Net reads all channels and transforms xyz.
        tnets: with the input and the feature transform (PointNet), or without (vanilla).
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options.

    Examples:
        >>> model = PointNet(num_classes=40, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 3)).logits.shape
        torch.Size([2, 40])
    """

    def __init__(self, num_classes: int, in_channels: int = 3, tnets: bool = True, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint.of("PointNet", **options)
        self.add_encoder(plan, in_channels, tnets)
        self.add_head(plan, [1024, 512, 256], num_classes)

    def forward(self, x: Tensor) -> Output:
        _, pooled, transform = self.encode(x)
        return Output(self.classify(pooled), pooled, transform)


def vanilla_pointnet(num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> PointNet:
    """PointNet without its T-Nets: 3-64-128-1024, pool, 512-256-num_classes.

    Examples:
        >>> model = vanilla_pointnet(num_classes=40, linear="lsr", pool="ema-max")
    """
    return PointNet(num_classes, in_channels, tnets=False, **options)
