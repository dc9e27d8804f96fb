"""DGCNN (Wang et al. 2019, arXiv:1801.07829): convolutions on edges of neighbor graphs, in float and in 1 bit."""

from typing import Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.nn import Reads
from bipointnet.nn.geometry import Neighbors, gather, nearest


class EdgeConv(nn.Module):
    """y_i = pool over the neighbors j of i of mlp(x_i, x_j - x_i): (B, N, C) -> (B, N, sizes[-1])

    A point is a neighbor of itself. `reads` says what the first layer reads, as in Blueprint.layer.
    """

    def __init__(self, plan: Blueprint, in_channels: int, sizes: tuple[int, ...], reads: Reads | None = None) -> None:
        super().__init__()
        widths = [2 * in_channels, *sizes]
        self.edges = plan.mlp(widths[:-1], reads) if len(sizes) > 1 else nn.Identity()
        self.pooled = plan.pooled_layer(*widths[-2:])

    def forward(self, x: Tensor, around: Neighbors) -> Tensor:
        others = gather(x, around.indices)  # (B, N, k, C)
        here = x.unsqueeze(2).expand_as(others)
        return self.pooled(self.edges(torch.cat([here, others - here], dim=-1)), around.counts)


class DGCNN(Classifier):
    """DGCNN for classification: (B, N, in_channels) -> Output.

    The first graph connects neighbors in space, the second neighbors in the space of the features after the first.
    Float in a 1-bit network: the first layer and the last layer.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options.

    Example:
        >>> model = DGCNN(num_classes=40, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 3)).logits.shape
        torch.Size([2, 40])
    """

    def __init__(self, num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint.of("DGCNN", **options)
        self.k = 20
        self.near = EdgeConv(plan, in_channels, (64, 64, 64), reads="geometry")
        self.alike = EdgeConv(plan, 64, (128,))
        self.pooled = plan.pooled_layer(192, 1024)
        self.add_head(plan, [1024, 512, 256], num_classes)

    def forward(self, x: Tensor) -> Output:
        xyz, k = x[..., :3], min(self.k, x.shape[1])
        near = self.near(x, nearest(xyz, xyz, k))  # (B, N, 64)
        alike = self.alike(near, nearest(near, near, k, ties=xyz))  # (B, N, 128)
        pooled = self.pooled(torch.cat([near, alike], dim=-1))  # (B, 1024)
        return Output(self.classify(pooled), pooled)
