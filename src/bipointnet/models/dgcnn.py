"""DGCNN (Wang et al. 2019, arXiv:1801.07829): convolutions on edges of neighbor graphs, in float and in 1 bit."""

from typing import Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.models.segmentation import Segmenter
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


class Graphs(nn.Module):
    """DGCNN up to its pool: two graphs of neighbors, and a layer pooled over all points."""

    def add_graphs(self, plan: Blueprint, in_channels: int) -> None:
        self.k = 20
        self.near = EdgeConv(plan, in_channels, (64, 64, 64), reads="geometry")
        self.alike = EdgeConv(plan, 64, (128,))
        self.pooled = plan.pooled_layer(192, 1024)

    def encode(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """(B, N, in_channels) -> features of points (B, N, 64) and (B, N, 128), and of the cloud (B, 1024)."""
        xyz, k = x[..., :3], min(self.k, x.shape[1])
        near = self.near(x, nearest(xyz, xyz, k))
        alike = self.alike(near, nearest(near, near, k, ties=xyz))
        return [near, alike], self.pooled(torch.cat([near, alike], dim=-1))


class DGCNN(Graphs, Classifier):
    """DGCNN for classification: (B, N, in_channels) -> Output.

    The first graph connects neighbors in space, the second neighbors in the space of the features after the first.
    Float in a 1-bit network: the first layer and the last layer.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options.

    Examples:
        >>> model = DGCNN(num_classes=40, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 3)).logits.shape
        torch.Size([2, 40])
    """

    def __init__(self, num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint.of("DGCNN", **options)
        self.add_graphs(plan, in_channels)
        self.add_head(plan, [1024, 512, 256], num_classes)

    def forward(self, x: Tensor) -> Output:
        _, pooled = self.encode(x)
        return Output(self.classify(pooled), pooled)


class DGCNNSegmenter(Graphs, Segmenter):
    """DGCNN that labels points: (B, N, in_channels), and (B,) with categories, -> Output.

    The head reads the features of a point from both graphs, and those of the cloud: 1216-256-256-128.

    Args:
        num_classes: number of parts or classes.
        in_channels: channels per point, xyz first.
        categories: number of categories of the category input; 0 for a network without it.
        options: linear, pool, binary_first, binary_last, norm; see models.blueprint.Options.

    Examples:
        >>> model = DGCNNSegmenter(num_classes=13, in_channels=9, linear="lsr", pool="ema-max")
        >>> model(torch.rand(2, 256, 9)).logits.shape
        torch.Size([2, 256, 13])
    """

    def __init__(self, num_classes: int, in_channels: int = 3, categories: int = 0, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint.of("DGCNNSegmenter", **options)
        self.categories = categories
        self.add_graphs(plan, in_channels)
        self.add_head(plan, 64 + 128 + 1024, [256, 256, 128], num_classes)

    def forward(self, x: Tensor, category: Tensor | None = None) -> Output:
        points, pooled = self.encode(x)
        return Output(self.label(points, pooled, category), pooled)
