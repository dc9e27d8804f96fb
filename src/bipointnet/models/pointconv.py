"""PointConv (Wu et al. 2019, arXiv:1811.07246): convolutions whose weights are a function of the offset."""

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.nn import Reads
from bipointnet.nn.geometry import density, farthest_points, gather, nearest

WEIGHTS = 16  # outputs of a weight net; there is one sum over the neighbors per output


class _Sums(torch.autograd.Function):
    """w^T . x, with gradients in the memory layout of w and x: (..., k, W), (..., k, C) -> (..., W, C)

    Gradients of a plain product are transposed, which costs a copy, and torch.compile of PyTorch 2.13 fails on it.
    """

    @staticmethod
    def forward(ctx: Any, w: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(w, x)
        return w.mT @ x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        w, x = ctx.saved_tensors
        return x @ grads[0].mT, w @ grads[0]


class PointConv(nn.Module):
    """Farthest points, and for each a convolution over its nearest neighbors.

        y_c = linear(sum over j of w(x_j - x_c) (x) s_j mlp(x_j - x_c, f_j))

    w is a small net of the offset with 16 outputs. s_j is a net of the inverse density at x_j, relative to the largest
    in the neighborhood, with a sigmoid at its end; it gives neighbors in sparse regions more weight. (x) is the outer
    product.

    Args:
        plan: makes the layers; the layers that read offsets and densities are first layers.
        features: channels per point besides xyz.
        sizes: outputs of the layers of the mlp.
        count: number of centers; 0 is one center, the centroid of all points.
        share: at most one center per `share` points.
        k: number of neighbors.
        bandwidth: of the density.
        reads: what the first layer of the mlp reads, as in Blueprint.layer.

    Shapes: xyz (B, N, 3), features (B, N, F) -> centers (B, count, 3), features (B, count, sizes[-1])
    """

    def __init__(
        self,
        plan: Blueprint,
        features: int,
        sizes: tuple[int, int, int],
        count: int,
        share: int,
        k: int,
        bandwidth: float,
        reads: Reads | None = None,
    ) -> None:
        super().__init__()
        self.count, self.share, self.k, self.bandwidth = count, share, k, bandwidth
        self.points = plan.mlp([3 + features, *sizes], reads)
        self.weights = plan.mlp([3, 8, 8, WEIGHTS], reads="xyz")
        self.thinness = nn.Sequential(plan.mlp([1, 16, 8], reads="geometry"), plan.layer(8, 1)[:-1], nn.Sigmoid())
        self.out = plan.layer(sizes[-1] * WEIGHTS, sizes[-1])

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        total = xyz.shape[1]
        rarity = density(xyz, self.bandwidth).reciprocal().to(xyz.dtype).unsqueeze(-1)  # (B, N, 1)
        if self.count:
            centers = gather(xyz, farthest_points(xyz, max(1, min(self.count, total // self.share))))
            around = nearest(centers, xyz, min(self.k, total)).indices
        else:
            centers = xyz.mean(dim=1, keepdim=True)
            around = torch.arange(total, device=xyz.device).expand(len(xyz), 1, total)
        offsets = gather(xyz, around) - centers.unsqueeze(2)  # (B, M, k, 3)
        rare = gather(rarity, around)  # (B, M, k, 1)
        thin = self.thinness(rare / rare.amax(dim=2, keepdim=True))
        x = self.points(torch.cat([offsets, gather(features, around)], dim=-1)) * thin  # (B, M, k, C)
        sums: Any = _Sums.apply(self.weights(offsets), x)  # (B, M, 16, C)
        return centers, self.out(sums.flatten(-2))


class PointConvNet(Classifier):
    """PointConv for classification: (B, N, in_channels) -> Output.

    512 centers with 32 neighbors, 128 with 64, one with all points. In clouds of fewer than 1024 points, half of the
    points and a quarter of these are centers. It sums with learned weights and has no pool; the option `pool` is
    ignored. Float in a 1-bit network: the first layer, the first layers of all nets of offsets and of densities, and
    the last layer.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        options: linear, binary_first, binary_last, norm; see models.blueprint.Options.

    Examples:
        >>> model = PointConvNet(num_classes=40, linear="lsr")
        >>> model(torch.rand(2, 256, 3)).logits.shape
        torch.Size([2, 40])
    """

    def __init__(self, num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint.of("PointConvNet", **options)
        self.near = PointConv(plan, in_channels - 3, (64, 64, 128), 512, 2, 32, 0.1, reads="points")
        self.far = PointConv(plan, 128, (128, 128, 256), 128, 4, 64, 0.2)
        self.all = PointConv(plan, 256, (256, 512, 1024), 0, 0, 0, 0.4)
        self.add_head(plan, [1024, 512, 256], num_classes)

    def forward(self, x: Tensor) -> Output:
        _, features = self.all(*self.far(*self.near(x[..., :3], x[..., 3:])))
        pooled = features.squeeze(1)  # (B, 1024)
        return Output(self.classify(pooled), pooled)
