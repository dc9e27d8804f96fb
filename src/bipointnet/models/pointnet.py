"""PointNet (Qi et al. 2017), with and without T-Nets, in full precision and in 1 bit.

One class makes every twin: the layer factory `linear` and the pool `pool` are arguments.

    PointNet(classes=40)                                                      full precision
    PointNet(classes=40, linear=BinaryLinear.of(LSR()), pool=EntropyMax())    1 bit

Order everywhere: linear -> BatchNorm -> activation. In a 1-bit network Hardtanh stands where ReLU stands in the float
twin, except in front of a pool, where nothing stands. The first layer that reads coordinates and the last layer stay
float unless told otherwise.
"""

import copy
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bipointnet.nn import Binary, EntropyMax, LinearFactory, MaxPool, MeasuredMax, PooledLayer


class Output(NamedTuple):
    """What a network says of a batch of clouds.

    logits: (B, classes). pooled: (B, 1024), the global feature as the pool leaves it.
    transform: (B, 64, 64), the feature transform, or None where there is no T-Net.
    """

    logits: Tensor
    pooled: Tensor
    transform: Tensor | None


class PointNorm(nn.BatchNorm1d):
    """BatchNorm over all but the last dimension: (..., C) -> (..., C)."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.reshape(-1, input.shape[-1])).reshape(input.shape)


class Blueprint(NamedTuple):
    """How the layers of one network are made."""

    linear: LinearFactory
    pool: nn.Module
    norm: bool

    @property
    def binary(self) -> bool:
        return isinstance(self.linear, Binary)

    def layer(self, inputs: int, outputs: int, linear: LinearFactory | None = None) -> nn.Module:
        """linear -> BatchNorm -> activation."""
        steps = [(linear or self.linear)(inputs, outputs)]
        if self.norm:
            steps.append(PointNorm(outputs))
        return nn.Sequential(*steps, nn.Hardtanh() if self.binary else nn.ReLU())

    def mlp(self, sizes: list[int], first: LinearFactory | None = None) -> nn.Sequential:
        """Layers between the given sizes; `first` makes the first one."""
        makers = [first] + [None] * (len(sizes) - 2)
        return nn.Sequential(*(self.layer(i, o, maker) for (i, o), maker in zip(pairwise(sizes), makers, strict=True)))

    def pooled_layer(self, inputs: int, outputs: int) -> PooledLayer:
        """linear -> BatchNorm -> pool, with ReLU before the pool in a float network and nothing in a 1-bit one."""
        norm = PointNorm(outputs) if self.norm else None
        return PooledLayer(self.linear(inputs, outputs), norm, None if self.binary else nn.ReLU(), self.fresh_pool())

    def fresh_pool(self) -> nn.Module:
        """A pool of its own for one place: it may hold a shift. Without BatchNorm an EMA-max pool measures one."""
        if not self.norm and isinstance(self.pool, EntropyMax):
            return MeasuredMax()
        return copy.deepcopy(self.pool)


class TNet(nn.Module):
    """Predicts a square matrix for a cloud, near the identity: (B, N, C) -> (B, size, size)."""

    def __init__(self, plan: Blueprint, channels: int, size: int, first: LinearFactory | None = None) -> None:
        super().__init__()
        self.size = size
        self.points = plan.mlp([channels, 64, 128], first=first)
        self.pooled = plan.pooled_layer(128, 1024)
        self.head = plan.mlp([1024, 512, 256])
        self.last = plan.linear(256, size * size)

    def forward(self, x: Tensor) -> Tensor:
        matrix = self.last(self.head(self.pooled(self.points(x))))
        return matrix.reshape(-1, self.size, self.size) + torch.eye(self.size, device=x.device, dtype=x.dtype)


class PointNet(nn.Module):
    """PointNet for classification: (B, N, channels) -> Output.

    Args:
        classes: number of classes.
        channels: numbers a point, xyz first; the input T-Net reads all and turns xyz.
        linear: makes the hidden linear layers: nn.Linear, or BinaryLinear.of(method).
        pool: over the points, in the encoder and in the T-Nets.
        tnets: with the input and the feature transform (PointNet) or without (vanilla).
        binary_first: binarize the layers that read coordinates too (the paper's variants d, e).
        binary_last: binarize the last layer too (variants c, e).
        norm: with BatchNorm; without (variant f) an EMA-max pool measures its shift on the first batch.
    """

    def __init__(
        self,
        classes: int,
        channels: int = 3,
        linear: LinearFactory = nn.Linear,
        pool: nn.Module | None = None,
        tnets: bool = True,
        binary_first: bool = False,
        binary_last: bool = False,
        norm: bool = True,
    ) -> None:
        super().__init__()
        plan = Blueprint(linear, pool or MaxPool(), norm)
        first = linear if binary_first else nn.Linear
        self.input_transform = TNet(plan, channels, 3, first=first) if tnets else None
        self.first = plan.layer(channels, 64, linear=first)
        self.feature_transform = TNet(plan, 64, 64) if tnets else None
        self.points = plan.mlp([64, 128])
        self.pooled = plan.pooled_layer(128, 1024)
        self.head = plan.mlp([1024, 512, 256])
        self.dropout = nn.Identity() if plan.binary else nn.Dropout(0.4)
        self.last = (linear if binary_last else nn.Linear)(256, classes)

    def forward(self, x: Tensor) -> Output:
        if self.input_transform is not None:
            turned = x[..., :3] @ self.input_transform(x)
            x = torch.cat([turned, x[..., 3:]], dim=-1)
        x = self.first(x)  # (B, N, 64)
        transform = None
        if self.feature_transform is not None:
            transform = self.feature_transform(x)
            x = x @ transform
        pooled = self.pooled(self.points(x))  # (B, 1024)
        return Output(self.last(self.dropout(self.head(pooled))), pooled, transform)


def vanilla_pointnet(classes: int, **options) -> PointNet:
    """PointNet without its T-Nets: 3-64-128-1024, pool, 512-256-classes."""
    return PointNet(classes, tnets=False, **options)
