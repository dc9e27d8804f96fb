"""PointConv (Wu et al. 2019): convolutions with weights that are a function of the offset; float and 1 bit."""

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from bipointnet.models.blueprint import Blueprint, Classifier, Options, Output
from bipointnet.nn import LinearFactory
from bipointnet.nn.geometry import density, farthest_points, gather, nearest

WEIGHTS = 16  # numbers of a weight net, for each of which a sum over the neighbours is made


class _Sums(torch.autograd.Function):
    """w^T . x, with gradients that lie in memory as w and x do: (..., k, W), (..., k, C) -> (..., W, C)

    Those of a plain product are transposed, which costs a copy, and torch.compile of PyTorch 2.13 fails on it.
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
    """Farthest points, and for each a convolution over its nearest neighbours.

        y_c = linear(sum over j of w(x_j - x_c) (x) s_j mlp(x_j - x_c, f_j))

    w is a small net of the offset, with 16 outputs; s_j, a net of the inverse density at x_j in relation to the largest
    of the neighbourhood, with a sigmoid at its end, weighs neighbours in thin places up; (x) is the outer product.

    Args:
        plan: how layers are made; its first layers read offsets and densities.
        features: numbers a point beside its coordinates.
        sizes: outputs of the layers of the mlp.
        count, share: how many centres, but at most one for so many points; 0: one centre, the centroid of all points.
        k: how many neighbours of each.
        bandwidth: of the density.
        first: makes the first layer of the mlp.

    Shapes: xyz (B, N, 3), features (B, N, F) -> centres (B, count, 3), features (B, count, sizes[-1])
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
        first: LinearFactory | None = None,
    ) -> None:
        super().__init__()
        self.count, self.share, self.k, self.bandwidth = count, share, k, bandwidth
        self.points = plan.mlp([3 + features, *sizes], first=first)
        self.weights = plan.mlp([3, 8, 8, WEIGHTS], first=plan.first)
        self.thinness = nn.Sequential(plan.mlp([1, 16, 8], first=plan.first), plan.layer(8, 1)[:-1], nn.Sigmoid())
        self.out = plan.layer(sizes[-1] * WEIGHTS, sizes[-1])

    def forward(self, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        total = xyz.shape[1]
        rarity = density(xyz, self.bandwidth).reciprocal().to(xyz.dtype).unsqueeze(-1)  # (B, N, 1)
        if self.count:
            centres = gather(xyz, farthest_points(xyz, max(1, min(self.count, total // self.share))))
            around = nearest(centres, xyz, min(self.k, total)).indices
        else:
            centres = xyz.mean(dim=1, keepdim=True)
            around = torch.arange(total, device=xyz.device).expand(len(xyz), 1, total)
        offsets = gather(xyz, around) - centres.unsqueeze(2)  # (B, M, k, 3)
        rare = gather(rarity, around)  # (B, M, k, 1)
        thin = self.thinness(rare / rare.amax(dim=2, keepdim=True))
        x = self.points(torch.cat([offsets, gather(features, around)], dim=-1)) * thin  # (B, M, k, C)
        sums: Any = _Sums.apply(self.weights(offsets), x)  # (B, M, 16, C)
        return centres, self.out(sums.flatten(-2))


class PointConvNet(Classifier):
    """PointConv for classification: (B, N, in_channels) -> Output.

    512 centres with 32 neighbours, 128 with 64, one with all; in clouds of less than 1024 points half of the points and
    a quarter of these are centres. It sums with learned weights and has no pool: one that is given is not used. Float
    in a 1-bit network: the first layer, the first layers of all nets of offsets and of densities, and the last layer.

    Args:
        num_classes: number of classes.
        in_channels: channels per point, xyz first.
        options: linear, binary_first, binary_last, norm, as Blueprint explains them.
    """

    def __init__(self, num_classes: int, in_channels: int = 3, **options: Unpack[Options]) -> None:
        super().__init__()
        plan = Blueprint(**options)
        self.near = PointConv(plan, in_channels - 3, (64, 64, 128), 512, 2, 32, 0.1, first=plan.first)
        self.far = PointConv(plan, 128, (128, 128, 256), 128, 4, 64, 0.2)
        self.all = PointConv(plan, 256, (256, 512, 1024), 0, 0, 0, 0.4)
        self.end_with(plan, [1024, 512, 256], num_classes)

    def forward(self, x: Tensor) -> Output:
        _, features = self.all(*self.far(*self.near(x[..., :3], x[..., 3:])))
        pooled = features.squeeze(1)  # (B, 1024)
        return Output(self.classify(pooled), pooled)
