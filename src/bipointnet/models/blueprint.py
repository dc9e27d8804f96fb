"""Shared parts of the backbones: their output, the construction of their layers, and the head.

The order is always linear -> BatchNorm -> activation. A 1-bit network has Hardtanh where the float network has ReLU,
and no activation in front of a pool. First layers, which read coordinates, and the last layer stay float by default.
"""

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypedDict

from torch import Tensor, nn

from bipointnet.nn import (
    BinaryFactory,
    BinaryGrouped,
    EntropyMax,
    GroupedLinear,
    LinearFactory,
    MaxPool,
    MeasuredMax,
    Method,
    NormalizedLayer,
    PooledLayer,
    Reads,
    as_linear,
    as_pool,
    mark_input,
)


class Output(NamedTuple):
    """The output of every network of this library for a batch of B clouds.

    logits: (B, num_classes), or (B, N, num_classes) for networks that label points.
    pooled: (B, features), the global feature after the last pool.
    transform: (B, D, D), the feature transform of a T-Net, or None.

    Examples:
        >>> output = PointNet(num_classes=40).eval()(torch.rand(2, 256, 3))
        >>> output.logits.shape, output.pooled.shape, output.transform.shape
        (torch.Size([2, 40]), torch.Size([2, 1024]), torch.Size([2, 64, 64]))
    """

    logits: Tensor
    pooled: Tensor
    transform: Tensor | None = None


class PointNorm(nn.BatchNorm1d):
    """BatchNorm over all but the last dimension: (..., C) -> (..., C)."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.reshape(-1, input.shape[-1])).reshape(input.shape)


class Options(TypedDict, total=False):
    """Options of every backbone, as keyword arguments.

    linear: factory of the hidden linear layers: nn.Linear (the default), BinaryLinear.of(method), a Method, or a name:
        "fp" for nn.Linear, or a name in METHODS.
    pool: pool over points or neighbors, or its name in POOLS. The default is the backbone's own pool: a maximum, and a
        mean in PointCNN.
    binary_first, binary_last: also binarize the layers that read coordinates, and the last layer (the paper's variants
        c to e).
    norm: with BatchNorm. Without it (variant f), an EMA-max pool measures its shift on the first batch.
    """

    linear: LinearFactory | Method | str
    pool: nn.Module | str | None
    binary_first: bool
    binary_last: bool
    norm: bool


@dataclass(frozen=True)
class Blueprint:
    """Makes the layers of one network from its Options."""

    linear: LinearFactory
    pool: nn.Module | None
    binary_first: bool
    binary_last: bool
    norm: bool

    @classmethod
    def of(
        cls,
        network: str,
        linear: LinearFactory | Method | str = nn.Linear,
        pool: nn.Module | str | None = None,
        binary_first: bool = False,
        binary_last: bool = False,
        norm: bool = True,
    ) -> "Blueprint":
        """The blueprint for these Options, with names resolved; `network` starts error messages."""
        resolved = None if pool is None else as_pool(pool, network)
        return cls(as_linear(linear, network), resolved, binary_first, binary_last, norm)

    @property
    def binary(self) -> bool:
        return isinstance(self.linear, BinaryFactory)

    def activation(self) -> nn.Module:
        return nn.Hardtanh() if self.binary else nn.ReLU()

    def layer(self, inputs: int, outputs: int, reads: Reads | None = None) -> nn.Sequential:
        """linear -> BatchNorm -> activation. `reads` says what a first layer reads; None is a hidden layer."""
        linear = (self.linear if reads is None or self.binary_first else nn.Linear)(inputs, outputs)
        if reads is not None:
            mark_input(linear, reads)
        return self.finish(linear, outputs)

    def grouped_layer(self, groups: int, inputs: int, outputs: int) -> nn.Sequential:
        """block-diagonal linear -> BatchNorm -> activation: (..., groups, inputs) -> (..., groups * outputs)."""
        if isinstance(self.linear, BinaryFactory):
            linear = BinaryGrouped(groups, inputs, outputs, self.linear.method)
        else:
            linear = GroupedLinear(groups, inputs, outputs)
        return self.finish(linear, groups * outputs)

    def finish(self, linear: nn.Module, outputs: int) -> nn.Sequential:
        """The given layer -> BatchNorm -> activation."""
        if self.norm:
            return NormalizedLayer(linear, PointNorm(outputs), self.activation())
        return nn.Sequential(linear, self.activation())

    def last(self, inputs: int, num_classes: int) -> nn.Module:
        """The layer of logits."""
        return (self.linear if self.binary_last else nn.Linear)(inputs, num_classes)

    def mlp(self, sizes: list[int], reads: Reads | None = None) -> nn.Sequential:
        """Layers between the given sizes; `reads` says what the first of them reads, as in `layer`."""
        pairs = enumerate(pairwise(sizes))
        return nn.Sequential(*(self.layer(i, o, reads if n == 0 else None) for n, (i, o) in pairs))

    def pooled_layer(self, inputs: int, outputs: int) -> PooledLayer:
        """linear -> BatchNorm -> pool, with ReLU before the pool in a float network and nothing in a 1-bit one."""
        norm = PointNorm(outputs) if self.norm else None
        return PooledLayer(self.linear(inputs, outputs), norm, None if self.binary else nn.ReLU(), self.new_pool())

    def new_pool(self) -> nn.Module:
        """A new pool, because a pool may hold a shift. Without BatchNorm an EMA-max pool measures its shift."""
        if not self.norm and isinstance(self.pool, EntropyMax):
            return MeasuredMax()
        return copy.deepcopy(self.pool or MaxPool())


class Classifier(nn.Module):
    """Base class of the backbones: a head on the global feature, and a last layer of logits."""

    def add_head(self, plan: Blueprint, sizes: list[int], num_classes: int) -> None:
        self.head = plan.mlp(sizes)
        self.dropout = nn.Identity() if plan.binary else nn.Dropout(0.4)
        self.last = plan.last(sizes[-1], num_classes)

    def classify(self, pooled: Tensor) -> Tensor:
        """(B, features) -> logits (B, num_classes)"""
        return self.last(self.dropout(self.head(pooled)))
