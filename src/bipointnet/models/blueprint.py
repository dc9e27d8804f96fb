"""What the backbones have in common: their output, the way their layers are made, and the head they end with.

Order everywhere: linear -> BatchNorm -> activation. In a 1-bit network Hardtanh stands where ReLU stands in the float
twin, except in front of a pool, where nothing stands. The layers that read coordinates first and the last layer stay
float unless told otherwise.
"""

import copy
from itertools import pairwise
from typing import NamedTuple, TypedDict

from torch import Tensor, nn

from bipointnet.nn import (
    Binary,
    BinaryGrouped,
    EntropyMax,
    GroupedLinear,
    LinearFactory,
    MaxPool,
    MeasuredMax,
    PooledLayer,
)


class Output(NamedTuple):
    """What a network says of a batch of clouds.

    logits: (B, num_classes), or (B, N, num_classes) where points are labelled.
    pooled: (B, features), the global feature after the last pool.
    transform: (B, D, D), the feature transform, or None where there is no T-Net.
    """

    logits: Tensor
    pooled: Tensor
    transform: Tensor | None = None


class PointNorm(nn.BatchNorm1d):
    """BatchNorm over all but the last dimension: (..., C) -> (..., C)."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.reshape(-1, input.shape[-1])).reshape(input.shape)


class Options(TypedDict, total=False):
    """What every backbone may be told; see Blueprint."""

    linear: LinearFactory
    pool: nn.Module | None
    binary_first: bool
    binary_last: bool
    norm: bool


class Blueprint(NamedTuple):
    """How the layers of one network are made.

    linear: makes the hidden linear layers: nn.Linear, or BinaryLinear.of(method).
    pool: over points or neighbours; None is the backbone's own, a maximum but for PointCNN.
    binary_first, binary_last: binarize layers that read coordinates, and the last one (the paper's variants c to e).
    norm: with BatchNorm; without (variant f), an EMA-max pool measures its shift on the first batch.
    """

    linear: LinearFactory = nn.Linear
    pool: nn.Module | None = None
    binary_first: bool = False
    binary_last: bool = False
    norm: bool = True

    @property
    def binary(self) -> bool:
        return isinstance(self.linear, Binary)

    @property
    def first(self) -> LinearFactory:
        """Makes the layers that read coordinates first."""
        return self.linear if self.binary_first else nn.Linear

    def activation(self) -> nn.Module:
        return nn.Hardtanh() if self.binary else nn.ReLU()

    def layer(self, inputs: int, outputs: int, linear: LinearFactory | None = None) -> nn.Sequential:
        """linear -> BatchNorm -> activation."""
        return self.finish((linear or self.linear)(inputs, outputs), outputs)

    def grouped_layer(self, groups: int, inputs: int, outputs: int) -> nn.Sequential:
        """block-diagonal linear -> BatchNorm -> activation: (..., groups, inputs) -> (..., groups * outputs)."""
        if isinstance(self.linear, Binary):
            linear = BinaryGrouped(groups, inputs, outputs, self.linear.method)
        else:
            linear = GroupedLinear(groups, inputs, outputs)
        return self.finish(linear, groups * outputs)

    def finish(self, linear: nn.Module, outputs: int) -> nn.Sequential:
        """What is given -> BatchNorm -> activation."""
        norm = [PointNorm(outputs)] if self.norm else []
        return nn.Sequential(linear, *norm, self.activation())

    def last(self, inputs: int, num_classes: int) -> nn.Module:
        """The layer of logits."""
        return (self.linear if self.binary_last else nn.Linear)(inputs, num_classes)

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
        return copy.deepcopy(self.pool or MaxPool())


class Classifier(nn.Module):
    """What every backbone ends with: the global feature, a head, and a last layer of logits."""

    def end_with(self, plan: Blueprint, sizes: list[int], num_classes: int) -> None:
        self.head = plan.mlp(sizes)
        self.dropout = nn.Identity() if plan.binary else nn.Dropout(0.4)
        self.last = plan.last(sizes[-1], num_classes)

    def classify(self, pooled: Tensor) -> Tensor:
        """(B, features) -> logits (B, num_classes)"""
        return self.last(self.dropout(self.head(pooled)))
