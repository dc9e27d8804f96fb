"""More networks for the tests of export, in other styles than `foreign_networks_export`: attention over neighbors,
dilated graphs, gates, torch.gather, einsum, rows of all points, inverted residual blocks, graphs with a mean."""

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from foreign_pointnet2 import CLASSES, farthest_point_sample, index_points
from torch import nn
from torch_geometric.nn.pool.glob import global_mean_pool


def gather_points(x, idx):
    """(B, C, N), (B, M, k) -> (B, C, M, k), with torch.gather"""
    batch, channels, _ = x.shape
    flat = idx.reshape(batch, 1, -1).expand(-1, channels, -1)
    return x.gather(2, flat).view(batch, channels, *idx.shape[1:])


class DilatedBlock(nn.Module):
    """Every d-th of the nearest neighbors in the features, max-relative features, a residual connection."""

    def __init__(self, channels: int, k: int, dilation: int) -> None:
        super().__init__()
        self.k, self.dilation = k, dilation
        self.nn = nn.Sequential(nn.Conv2d(2 * channels, channels, 1), nn.BatchNorm2d(channels), nn.ReLU())

    def forward(self, x):
        with torch.no_grad():
            points = x.transpose(1, 2)
            inner = torch.einsum("bnc,bmc->bnm", points, points)
            square = (points**2).sum(-1)
            distance = square[:, :, None] - 2 * inner + square[:, None]
            idx = distance.topk(self.k * self.dilation, largest=False)[1][:, :, :: self.dilation]
        neighbors = gather_points(x, idx)
        center = x.unsqueeze(-1).expand(-1, -1, -1, self.k)
        return self.nn(torch.cat([center, neighbors - center], dim=1)).max(-1)[0] + x


class DeepGCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Conv1d(3, 24, 1), nn.BatchNorm1d(24), nn.ReLU())
        self.blocks = nn.ModuleList([DilatedBlock(24, 5, 1), DilatedBlock(24, 4, 2)])
        self.fusion = nn.Sequential(nn.Conv1d(72, 48, 1), nn.BatchNorm1d(48), nn.ReLU())
        self.classifier = nn.Sequential(nn.Linear(96, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, CLASSES))

    def forward(self, x):
        features = [self.head(x)]
        for block in self.blocks:
            features.append(block(features[-1]))
        fused = self.fusion(torch.cat(features, dim=1))
        return self.classifier(torch.cat([fused.amax(dim=2), fused.mean(dim=2)], dim=1))


class VectorAttention(nn.Module):
    """Attention over neighbors: a softmax of differences of queries and keys, plus positions."""

    def __init__(self, channels: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.q, self.k_, self.v = (nn.Linear(channels, channels) for _ in range(3))
        self.position = nn.Sequential(nn.Linear(3, channels), nn.ReLU(), nn.Linear(channels, channels))
        self.attention = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))

    def forward(self, xyz, x):  # (B, N, 3), (B, N, C)
        idx = torch.cdist(xyz, xyz).argsort(dim=-1)[:, :, : self.k]
        position = self.position(xyz[:, :, None] - index_points(xyz, idx))
        weight = self.attention(self.q(x)[:, :, None] - index_points(self.k_(x), idx) + position)
        weight = F.softmax(weight, dim=-2)
        return x + (weight * (index_points(self.v(x), idx) + position)).sum(dim=-2)


class PointTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 16)
        self.block = VectorAttention(16, 6)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, CLASSES)

    def forward(self, xyz):
        x = self.block(xyz, self.embed(xyz))
        return self.head(self.mlp(x).mean(dim=1))


class GatedNet(nn.Module):
    """Rows of all points for BatchNorm1d, a squeeze-and-excitation gate, a global feature repeated for every point."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.bn1 = nn.Linear(3, 24), nn.BatchNorm1d(24)
        self.fc2, self.bn2 = nn.Linear(24, 32), nn.BatchNorm1d(32)
        self.squeeze, self.excite = nn.Linear(32, 8), nn.Linear(8, 32)
        self.fc3, self.bn3, self.last = nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Linear(32, CLASSES)

    def forward(self, x):
        batch, total, _ = x.shape
        rows = torch.relu(self.bn1(self.fc1(x.reshape(batch * total, 3))))
        rows = torch.relu(self.bn2(self.fc2(rows)))
        points = rows.reshape(batch, total, 32)
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(points.mean(dim=1)))))
        points = points * gate.unsqueeze(1)
        whole = points.max(dim=1, keepdim=True)[0].expand(-1, total, -1)
        rows = torch.cat([points, whole], dim=-1).flatten(0, 1)
        return self.last(torch.relu(self.bn3(self.fc3(rows)))).view(batch, total, CLASSES)


class InvertedResidual(nn.Module):
    """PointNeXt: the nearest points in a ball, offsets divided by the radius, an inverted bottleneck."""

    def __init__(self, channels: int, radius: float, k: int) -> None:
        super().__init__()
        self.radius, self.k = radius, k
        self.convs = nn.Sequential(
            nn.Conv2d(channels + 3, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )
        self.pwconv = nn.Sequential(
            nn.Conv1d(channels, 2 * channels, 1, bias=False),
            nn.BatchNorm1d(2 * channels),
            nn.ReLU(inplace=True),
            nn.Conv1d(2 * channels, channels, 1, bias=False),
            nn.BatchNorm1d(channels),
        )
        self.act = nn.ReLU(inplace=True)

    def forward(self, p, f):  # (B, N, 3), (B, C, N)
        distance = torch.cdist(p, p)
        near, idx = distance.topk(self.k, dim=-1, largest=False)
        idx = torch.where(near > self.radius, idx[..., :1], idx)
        dp = (index_points(p, idx) - p.unsqueeze(2)).permute(0, 3, 1, 2) / self.radius
        fj = gather_points(f, idx)
        x = self.convs(torch.cat([dp, fj], dim=1)).max(dim=-1).values
        return self.act(self.pwconv(x) + f)


class PointNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(3, 16, 1)
        self.block1, self.block2 = InvertedResidual(16, 0.35, 8), InvertedResidual(24, 0.7, 6)
        self.down = nn.Sequential(nn.Conv1d(16, 24, 1, bias=False), nn.BatchNorm1d(24), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(24, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, CLASSES))

    def forward(self, xyz):
        p, f = xyz.transpose(1, 2).contiguous(), self.stem(xyz)
        f = self.block1(p, f)
        idx = farthest_point_sample(p, max(1, p.shape[1] // 4))
        p, f = index_points(p, idx), f.gather(2, idx.unsqueeze(1).expand(-1, f.shape[1], -1))
        f = self.block2(p, self.down(f))
        return self.head(F.adaptive_max_pool1d(f, 1).squeeze(-1))


class PygMean(nn.Module):
    """A radius graph with self loops, a mean of the messages and of the points."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = pyg.EdgeConv(pyg.MLP([6, 16, 16]), aggr="mean")
        self.conv2 = pyg.PointNetConv(pyg.MLP([16 + 3, 24, 24]), pyg.MLP([24, 32, 32]), add_self_loops=False)
        self.head = pyg.MLP([32, 24, CLASSES], norm=None)

    def forward(self, pos, batch):
        near = torch.cdist(pos, pos) <= 0.45
        target, source = near.nonzero(as_tuple=True)
        edges = torch.stack([source, target])
        x = self.conv2(self.conv1(pos, edges), pos, edges)
        return self.head(global_mean_pool(x, batch))
