"""PointNet++ in the manner of its most copied PyTorch version, for the tests of export.

Channels first, farthest points from point 0, balls that take the first points by index, interpolation between three
neighbors.
"""

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 5


def square_distance(src, dst):
    """(B, N, C), (B, M, C) -> (B, N, M)"""
    distance = -2 * torch.matmul(src, dst.permute(0, 2, 1))
    distance += torch.sum(src**2, -1).view(src.shape[0], src.shape[1], 1)
    distance += torch.sum(dst**2, -1).view(dst.shape[0], 1, dst.shape[1])
    return distance


def index_points(points, idx):
    """(B, N, C), (B, S, ...) -> (B, S, ..., C)"""
    view_shape = [idx.shape[0]] + [1] * (idx.dim() - 1)
    batch = torch.arange(idx.shape[0], dtype=torch.long).view(view_shape).expand(idx.shape)
    return points[batch, idx, :]


def farthest_point_sample(xyz, npoint):
    """(B, N, 3) -> (B, npoint), from point 0"""
    batch, total, _ = xyz.shape
    centroids = torch.zeros(batch, npoint, dtype=torch.long)
    distance = torch.ones(batch, total, dtype=xyz.dtype) * 1e10
    farthest = torch.zeros(batch, dtype=torch.long)
    rows = torch.arange(batch, dtype=torch.long)
    for i in range(npoint):
        centroids[:, i] = farthest
        centroid = xyz[rows, farthest, :].view(batch, 1, 3)
        dist = torch.sum((xyz - centroid) ** 2, -1)
        distance = torch.min(distance, dist)
        farthest = torch.max(distance, -1)[1]
    return centroids


def query_ball_point(radius, nsample, xyz, new_xyz):
    """The first `nsample` points by index; missing ones repeat the first."""
    batch, total, _ = xyz.shape
    group = torch.arange(total, dtype=torch.long).view(1, 1, total).repeat([batch, new_xyz.shape[1], 1])
    group[square_distance(new_xyz, xyz) > radius**2] = total
    group = group.sort(dim=-1)[0][:, :, :nsample]
    first = group[:, :, 0].view(batch, new_xyz.shape[1], 1).repeat([1, 1, group.shape[2]])
    mask = group == total
    group[mask] = first[mask]
    return group


class SetAbstraction(nn.Module):
    """One or several radii, (B, C, N) in and out; `npoint=None` groups all points."""

    def __init__(self, npoint: int | None, scales: list[tuple[float, int]], in_channel: int, mlp: list[int]) -> None:
        super().__init__()
        self.npoint, self.scales = npoint, scales
        widths = [in_channel + 3, *mlp]
        self.conv_blocks = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(i, o, 1) for i, o in pairwise(widths)) for _ in scales or [None]
        )
        self.bn_blocks = nn.ModuleList(nn.ModuleList(nn.BatchNorm2d(o) for o in mlp) for _ in scales or [None])

    def forward(self, xyz, points):
        xyz = xyz.permute(0, 2, 1)
        points = None if points is None else points.permute(0, 2, 1)
        if self.npoint is None:
            grouped = xyz.unsqueeze(1) if points is None else torch.cat([xyz, points], dim=-1).unsqueeze(1)
            new_xyz, groups = torch.zeros(xyz.shape[0], 1, 3, dtype=xyz.dtype), [grouped]
        else:
            new_xyz = index_points(xyz, farthest_point_sample(xyz, self.npoint))
            groups = [self.group(radius, nsample, xyz, new_xyz, points) for radius, nsample in self.scales]
        pooled = []
        for i, grouped in enumerate(groups):
            convs: Any = self.conv_blocks[i]
            norms: Any = self.bn_blocks[i]
            x = grouped.permute(0, 3, 2, 1)  # (B, C, nsample, npoint)
            for conv, bn in zip(convs, norms, strict=True):
                x = F.relu(bn(conv(x)))
            pooled.append(torch.max(x, 2)[0])
        return new_xyz.permute(0, 2, 1), torch.cat(pooled, dim=1)

    def group(self, radius, nsample, xyz, new_xyz, points):
        idx = query_ball_point(radius, nsample, xyz, new_xyz)
        grouped = index_points(xyz, idx) - new_xyz.view(xyz.shape[0], self.npoint, 1, 3)
        return grouped if points is None else torch.cat([index_points(points, idx), grouped], dim=-1)


class PointNet2(nn.Module):
    """Classification with one radius per level, or two."""

    def __init__(self, multi_scale: bool) -> None:
        super().__init__()
        one, two = ([(0.3, 8), (0.6, 12)], [(0.6, 6), (1.1, 8)]) if multi_scale else ([(0.4, 8)], [(0.9, 6)])
        self.sa1 = SetAbstraction(24, one, 0, [16, 16, 32])
        self.sa2 = SetAbstraction(8, two, 32 * len(one), [32, 32, 48])
        self.sa3 = SetAbstraction(None, [], 48 * len(two), [48, 64])
        self.fc1, self.bn1, self.drop1 = nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Dropout(0.4)
        self.fc2, self.bn2, self.drop2 = nn.Linear(32, 24), nn.BatchNorm1d(24), nn.Dropout(0.4)
        self.fc3 = nn.Linear(24, CLASSES)

    def forward(self, xyz):
        l1_xyz, l1_points = self.sa1(xyz, None)
        l2_xyz, l2_points = self.sa2(l1_xyz, l1_points)
        _, l3_points = self.sa3(l2_xyz, l2_points)
        x = l3_points.view(xyz.shape[0], 64)
        x = self.drop1(F.relu(self.bn1(self.fc1(x))))
        x = self.drop2(F.relu(self.bn2(self.fc2(x))))
        return F.log_softmax(self.fc3(x), -1), l3_points


class FeaturePropagation(nn.Module):
    """Three-neighbor interpolation with weights 1 / (d + 1e-8), then 1x1 convolutions."""

    def __init__(self, in_channel: int, mlp: list[int]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(i, o, 1) for i, o in pairwise([in_channel, *mlp]))
        self.bns = nn.ModuleList(nn.BatchNorm1d(o) for o in mlp)

    def forward(self, xyz1, xyz2, points1, points2):
        xyz1, xyz2, points2 = xyz1.permute(0, 2, 1), xyz2.permute(0, 2, 1), points2.permute(0, 2, 1)
        batch, total, _ = xyz1.shape
        dists, idx = square_distance(xyz1, xyz2).sort(dim=-1)
        dists, idx = dists[:, :, :3], idx[:, :, :3]
        recip = 1.0 / (dists + 1e-8)
        weight = recip / torch.sum(recip, dim=2, keepdim=True)
        x = torch.sum(index_points(points2, idx) * weight.view(batch, total, 3, 1), dim=2)
        x = x if points1 is None else torch.cat([points1.permute(0, 2, 1), x], dim=-1)
        x = x.permute(0, 2, 1)
        for conv, bn in zip(self.convs, self.bns, strict=True):
            x = F.relu(bn(conv(x)))
        return x


class PointNet2Segmentation(nn.Module):
    """Logits per point, (B, N, classes)."""

    def __init__(self) -> None:
        super().__init__()
        self.sa1 = SetAbstraction(24, [(0.4, 8)], 3, [16, 32])
        self.sa2 = SetAbstraction(8, [(0.9, 6)], 32, [32, 48])
        self.fp2, self.fp1 = FeaturePropagation(80, [48, 32]), FeaturePropagation(32, [32, 32])
        self.conv1, self.bn1, self.drop1 = nn.Conv1d(32, 24, 1), nn.BatchNorm1d(24), nn.Dropout(0.5)
        self.conv2 = nn.Conv1d(24, CLASSES, 1)

    def forward(self, xyz):
        l1_xyz, l1_points = self.sa1(xyz, xyz)
        l2_xyz, l2_points = self.sa2(l1_xyz, l1_points)
        l1_points = self.fp2(l1_xyz, l2_xyz, l1_points, l2_points)
        l0_points = self.fp1(xyz, l1_xyz, None, l1_points)
        x = self.drop1(F.relu(self.bn1(self.conv1(l0_points))))
        return F.log_softmax(self.conv2(x), dim=1).permute(0, 2, 1), l2_points
