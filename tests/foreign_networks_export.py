"""Networks for the tests of export, in the manner of well-known repositories, small by default.

Each is written as its users write it: channels first, functions for activations and pools, neighbor searches in plain
PyTorch, log_softmax heads, tuples and dictionaries of outputs. `NETWORKS` maps a name to the network and to the inputs
of one cloud; `one_bit` makes the 1-bit version that is exported.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from foreign_networks import ClassicPointNet, with_random_norms
from foreign_networks_more import DeepGCN, GatedNet, PointNeXt, PointTransformer, PygMean
from foreign_pointnet2 import (
    CLASSES,
    PointNet2,
    PointNet2Segmentation,
    farthest_point_sample,
    index_points,
    square_distance,
)
from torch import Tensor, nn
from torch_geometric.nn.pool.glob import global_max_pool

from bipointnet import binarize

CATEGORIES = 4


class PointNetLogSoftmax(ClassicPointNet):
    """T-Nets, functional operations and a log_softmax head."""

    def forward(self, x):
        logits, transform = super().forward(x)
        return F.log_softmax(logits, dim=1), transform


class PointNetPartSegmentation(nn.Module):
    """A one-hot category (B, 1, categories) is concatenated to the global feature."""

    def __init__(self) -> None:
        super().__init__()
        widths = [3, 16, 32, 48]
        self.convs = nn.ModuleList(nn.Conv1d(i, o, 1) for i, o in pairwise(widths))
        self.bns = nn.ModuleList(nn.BatchNorm1d(o) for o in widths[1:])
        self.convs1, self.bns1 = nn.Conv1d(48 + CATEGORIES + 16 + 32 + 48, 32, 1), nn.BatchNorm1d(32)
        self.convs2, self.bns2 = nn.Conv1d(32, 24, 1), nn.BatchNorm1d(24)
        self.convs3 = nn.Conv1d(24, CLASSES, 1)

    def forward(self, point_cloud, label):
        batch, _, total = point_cloud.size()
        x, outs = point_cloud, []
        for conv, bn in zip(self.convs, self.bns, strict=True):
            x = F.relu(bn(conv(x)))
            outs.append(x)
        out_max = torch.max(x, 2, keepdim=True)[0].view(-1, 48)
        out_max = torch.cat([out_max, label.squeeze(1)], 1)
        expand = out_max.view(-1, 48 + CATEGORIES, 1).repeat(1, 1, total)
        x = torch.cat([expand, *outs], 1)
        x = F.relu(self.bns1(self.convs1(x)))
        x = F.relu(self.bns2(self.convs2(x)))
        x = self.convs3(x).transpose(2, 1).contiguous()
        return F.log_softmax(x.view(-1, CLASSES), dim=-1).view(batch, total, CLASSES)


# DGCNN in the style of its first PyTorch version.
def knn(x, k):
    """(B, C, N) -> (B, N, k)"""
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    return (-xx - inner - xx.transpose(2, 1)).topk(k=k, dim=-1)[1]


def get_graph_feature(x, k=20):
    batch, num_dims, total = x.size()
    idx = knn(x, k=k)
    idx = (idx + torch.arange(0, batch).view(-1, 1, 1) * total).view(-1)
    x = x.transpose(2, 1).contiguous()
    feature = x.view(batch * total, -1)[idx, :].view(batch, total, k, num_dims)
    x = x.view(batch, total, 1, num_dims).repeat(1, 1, k, 1)
    return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


class DGCNN(nn.Module):
    def __init__(self, k: int = 6) -> None:
        super().__init__()
        self.k = k
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(16), nn.BatchNorm2d(24), nn.BatchNorm1d(64)
        self.conv1 = nn.Sequential(nn.Conv2d(6, 16, 1, bias=False), self.bn1, nn.LeakyReLU(negative_slope=0.2))
        self.conv2 = nn.Sequential(nn.Conv2d(32, 24, 1, bias=False), self.bn2, nn.LeakyReLU(negative_slope=0.2))
        self.conv3 = nn.Sequential(nn.Conv1d(40, 64, 1, bias=False), self.bn3, nn.LeakyReLU(negative_slope=0.2))
        self.linear1, self.bn6, self.dp1 = nn.Linear(128, 32, bias=False), nn.BatchNorm1d(32), nn.Dropout(0.5)
        self.linear2 = nn.Linear(32, CLASSES)

    def forward(self, x):
        batch = x.size(0)
        x1 = self.conv1(get_graph_feature(x, k=self.k)).max(dim=-1, keepdim=False)[0]
        x2 = self.conv2(get_graph_feature(x1, k=self.k)).max(dim=-1, keepdim=False)[0]
        x = self.conv3(torch.cat((x1, x2), dim=1))
        a = F.adaptive_max_pool1d(x, 1).view(batch, -1)
        b = F.adaptive_avg_pool1d(x, 1).view(batch, -1)
        x = F.leaky_relu(self.bn6(self.linear1(torch.cat((a, b), 1))), negative_slope=0.2)
        return self.linear2(self.dp1(x))


# PyTorch Geometric, as in its examples; torch_cluster's searches are written in PyTorch.
def pyg_fps(pos, ratio):
    count = max(1, int(pos.size(0) * ratio))
    return farthest_point_sample(pos.unsqueeze(0), count).squeeze(0)


def pyg_radius(x, y, r, max_num_neighbors):
    """Edges (y, x): for each element of y the first points of x within r."""
    near = torch.cdist(y, x) <= r
    near = near & (near.cumsum(dim=1) <= max_num_neighbors)
    return near.nonzero().t()


def pyg_knn(x, y, k):
    """Edges (y, x): for each element of y the k nearest of x."""
    col = torch.cdist(y, x).topk(k, largest=False).indices.view(-1)
    row = torch.arange(y.size(0)).view(-1, 1).repeat(1, k).view(-1)
    return torch.stack([row, col], dim=0)


class SAModule(nn.Module):
    def __init__(self, ratio: float, r: float, net: nn.Module) -> None:
        super().__init__()
        self.ratio, self.r = ratio, r
        self.conv = pyg.PointNetConv(net, add_self_loops=False)

    def forward(self, x, pos, batch):
        idx = pyg_fps(pos, self.ratio)
        row, col = pyg_radius(pos, pos[idx], self.r, max_num_neighbors=16)
        edge_index = torch.stack([col, row], dim=0)
        x_dst = None if x is None else x[idx]
        x = self.conv((x, x_dst), (pos, pos[idx]), edge_index)
        return x, pos[idx], batch[idx]


class GlobalSAModule(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.nn = net

    def forward(self, x, pos, batch):
        x = self.nn(torch.cat([x, pos], dim=1))
        x = global_max_pool(x, batch)
        pos = pos.new_zeros((x.size(0), 3))
        return x, pos, torch.arange(x.size(0), device=batch.device)


class PygPointNet2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sa1_module = SAModule(0.5, 0.4, pyg.MLP([3, 16, 16, 32]))
        self.sa2_module = SAModule(0.25, 0.8, pyg.MLP([32 + 3, 32, 48]))
        self.sa3_module = GlobalSAModule(pyg.MLP([48 + 3, 48, 64]))
        self.mlp = pyg.MLP([64, 32, 24, CLASSES], dropout=0.5, norm=None)

    def forward(self, pos, batch):
        x, _, _ = self.sa3_module(*self.sa2_module(*self.sa1_module(None, pos, batch)))
        return self.mlp(x).log_softmax(dim=-1)


class PygDGCNN(nn.Module):
    """Dynamic edge convolutions: neighbors in the features of each layer."""

    def __init__(self, k: int = 6, aggr: str = "max") -> None:
        super().__init__()
        self.k = k
        self.conv1 = pyg.EdgeConv(pyg.MLP([2 * 3, 16, 16]), aggr)
        self.conv2 = pyg.EdgeConv(pyg.MLP([2 * 16, 24]), aggr)
        self.lin1 = pyg.Linear(24 + 16, 48)
        self.mlp = pyg.MLP([48, 32, 24, CLASSES], dropout=0.5, norm=None)

    def forward(self, pos, batch):
        x1 = self.conv1(pos, pyg_knn(pos, pos, self.k).flip([0]))
        x2 = self.conv2(x1, pyg_knn(x1, x1, self.k).flip([0]))
        out = self.lin1(torch.cat([x1, x2], dim=1))
        return F.log_softmax(self.mlp(global_max_pool(out, batch)), dim=1)


# PointMLP: geometric affine normalization of groups, residual blocks of 1x1 convolutions.
class ConvBNReLU1D(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.net(x)


class ConvBNReLURes1D(nn.Module):
    def __init__(self, channel: int) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.net1 = ConvBNReLU1D(channel, channel)
        self.net2 = nn.Sequential(nn.Conv1d(channel, channel, 1), nn.BatchNorm1d(channel))

    def forward(self, x):
        return self.act(self.net2(self.net1(x)) + x)


class LocalGrouper(nn.Module):
    def __init__(self, channel: int, groups: int, kneighbors: int) -> None:
        super().__init__()
        self.groups, self.kneighbors = groups, kneighbors
        self.affine_alpha = nn.Parameter(torch.rand(1, 1, 1, channel + 3) + 0.5)
        self.affine_beta = nn.Parameter(torch.randn(1, 1, 1, channel + 3) * 0.1)

    def forward(self, xyz, points):
        fps_idx = farthest_point_sample(xyz, self.groups)
        new_xyz, new_points = index_points(xyz, fps_idx), index_points(points, fps_idx)
        idx = torch.topk(square_distance(new_xyz, xyz), self.kneighbors, dim=-1, largest=False, sorted=False)[1]
        grouped_points = torch.cat([index_points(points, idx), index_points(xyz, idx)], dim=-1)
        mean = torch.cat([new_points, new_xyz], dim=-1).unsqueeze(dim=-2)
        grouped_points = self.affine_alpha * (grouped_points - mean) + self.affine_beta
        center = new_points.view(xyz.shape[0], self.groups, 1, -1).repeat(1, 1, self.kneighbors, 1)
        return new_xyz, torch.cat([grouped_points, center], dim=-1)


class PreExtraction(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.transfer = ConvBNReLU1D(2 * inputs + 3, outputs)
        self.operation = nn.Sequential(ConvBNReLURes1D(outputs))

    def forward(self, x):
        b, n, s, d = x.size()
        x = x.permute(0, 1, 3, 2).reshape(-1, d, s)
        x = self.operation(self.transfer(x))
        return F.adaptive_max_pool1d(x, 1).view(b * n, -1).reshape(b, n, -1).permute(0, 2, 1)


class PointMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = ConvBNReLU1D(3, 16)
        self.local_grouper1, self.local_grouper2 = LocalGrouper(16, 24, 8), LocalGrouper(24, 8, 6)
        self.pre_blocks1, self.pre_blocks2 = PreExtraction(16, 24), PreExtraction(24, 32)
        self.pos_blocks1, self.pos_blocks2 = ConvBNReLURes1D(24), ConvBNReLURes1D(32)
        self.classifier = nn.Sequential(
            nn.Linear(32, 24), nn.BatchNorm1d(24), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(24, CLASSES)
        )

    def forward(self, x):
        xyz = x.permute(0, 2, 1)
        x = self.embedding(x)
        xyz, x = self.local_grouper1(xyz, x.permute(0, 2, 1))
        x = self.pos_blocks1(self.pre_blocks1(x))
        xyz, x = self.local_grouper2(xyz, x.permute(0, 2, 1))
        x = self.pos_blocks2(self.pre_blocks2(x))
        return self.classifier(F.adaptive_max_pool1d(x, 1).squeeze(dim=-1))


class GroupedConvolutions(nn.Module):
    """Conv2d with groups, (B, 3, N, 1), and a dictionary of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(16, 32, 1, groups=4),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 32, 1, groups=2),
            nn.BatchNorm2d(32),
        )
        self.head = nn.Sequential(nn.Linear(32, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, CLASSES))

    def forward(self, x):
        features = torch.relu(self.body(self.stem(x.unsqueeze(-1))))
        pooled = features.amax(dim=(2, 3))
        return {"logits": self.head(pooled), "features": pooled}


class MeanNet(nn.Module):
    """Points first, linear layers on the last axis, a mean over the points, a dictionary of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lin1, self.lin2, self.lin3 = nn.Linear(6, 16), nn.Linear(16, 32), nn.Linear(48, 32)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(16), nn.BatchNorm1d(32), nn.BatchNorm1d(32)
        self.last = nn.Linear(32, CLASSES)

    def forward(self, x):
        one = self.bn1(self.lin1(x).transpose(1, 2)).transpose(1, 2).tanh()
        two = self.bn2(self.lin2(one).transpose(1, 2)).transpose(1, 2).relu()
        pooled = torch.cat([one, two], dim=-1).mean(dim=1)
        out = self.last(self.bn3(self.lin3(pooled)).relu())
        return {"out": out, "aux": pooled}


def readme_sequential() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(3, 64, 1),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Conv1d(64, 256, 1),
        nn.BatchNorm1d(256),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(256, 128),
        nn.BatchNorm1d(128),
        nn.ReLU(),
        nn.Linear(128, 40),
    )


# Inputs of one cloud; the layouts of the networks above.
def random_cloud(points: int, seed: int, channels: int = 3) -> Tensor:
    x = torch.randn(points, channels, generator=torch.Generator().manual_seed(seed))
    x[:, :3] -= x[:, :3].mean(dim=0)
    x[:, :3] /= x[:, :3].norm(dim=1).max()
    return x


def channels_first(points: int = 64, seed: int = 0) -> tuple[Tensor, ...]:
    return (random_cloud(points, seed).T.contiguous()[None],)


def six_channels(points: int = 64, seed: int = 0) -> tuple[Tensor, ...]:
    return (random_cloud(points, seed, 6)[None],)


def points_first(points: int = 64, seed: int = 0) -> tuple[Tensor, ...]:
    return (random_cloud(points, seed)[None],)


def with_category(points: int = 64, seed: int = 0) -> tuple[Tensor, ...]:
    return (*channels_first(points, seed), F.one_hot(torch.tensor([[seed % CATEGORIES]]), CATEGORIES).float())


def with_batch(points: int = 64, seed: int = 0) -> tuple[Tensor, ...]:
    return random_cloud(points, seed), torch.zeros(points, dtype=torch.long)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[..., tuple[Tensor, ...]]]] = {
    "pointnet": (PointNetLogSoftmax, channels_first),
    "pointnet2-ssg": (lambda: PointNet2(False), channels_first),
    "pointnet2-msg": (lambda: PointNet2(True), channels_first),
    "pointnet2-segmentation": (PointNet2Segmentation, channels_first),
    "pointnet-parts": (PointNetPartSegmentation, with_category),
    "dgcnn": (DGCNN, channels_first),
    "pyg-pointnet2": (PygPointNet2, with_batch),
    "pyg-dgcnn": (PygDGCNN, with_batch),
    "pointmlp": (PointMLP, channels_first),
    "grouped": (GroupedConvolutions, channels_first),
    "mean": (MeanNet, six_channels),
    "sequential": (readme_sequential, channels_first),
    "deep-gcn": (DeepGCN, channels_first),
    "point-transformer": (PointTransformer, points_first),
    "gated": (GatedNet, points_first),
    "pointnext": (PointNeXt, channels_first),
    "pyg-mean": (PygMean, with_batch),
}


def one_bit(name: str, seed: int = 0, **options: Any) -> nn.Module:
    """The 1-bit version of a network, in eval mode, with BatchNorm statistics as after training."""
    torch.manual_seed(seed)
    build, example = NETWORKS[name]
    converted: Any = binarize(with_random_norms(build()), example=example(), **options)
    network = converted[0] if isinstance(converted, tuple) else converted
    return with_random_norms(network).eval()


def logits(output: Any) -> Tensor:
    """The logits among the outputs of a network."""
    if isinstance(output, dict):
        return next(iter(output.values()))
    return output[0] if isinstance(output, tuple) else output
