"""Networks in the styles of other projects, for the tests of `binarize`."""

import functools
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.nn.pool.glob import global_max_pool, global_mean_pool

from bipointnet import binarize
from bipointnet.convert import Report, report_of

SMALL, PUBLISHED = (8, 16, 24, 16, 12), (64, 128, 1024, 512, 256)


class SpatialTransformer(nn.Module):
    """The T-Net of the first PyTorch PointNets: functions for activations and pools, an identity made in NumPy."""

    def __init__(self, k: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        a, b, c, d, e = sizes
        self.k, self.width = k, c
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(k, a, 1), nn.Conv1d(a, b, 1), nn.Conv1d(b, c, 1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(c, d), nn.Linear(d, e), nn.Linear(e, k * k)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(a), nn.BatchNorm1d(b), nn.BatchNorm1d(c)
        self.bn4, self.bn5 = nn.BatchNorm1d(d), nn.BatchNorm1d(e)

    def forward(self, x):
        batch = x.size()[0]
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        x = torch.max(x, 2, keepdim=True)[0]
        x = x.view(-1, self.width)
        x = F.relu(self.bn4(self.fc1(x)))
        x = F.relu(self.bn5(self.fc2(x)))
        x = self.fc3(x)
        identity = torch.from_numpy(np.eye(self.k).flatten().astype(np.float32)).view(1, -1).repeat(batch, 1)
        if x.is_cuda:
            identity = identity.cuda()
        x = x + identity
        return x.view(-1, self.k, self.k)


class ClassicPointNet(nn.Module):
    def __init__(self, classes: int = 5, sizes: tuple[int, ...] = SMALL, transforms: bool = True) -> None:
        super().__init__()
        a, b, c, d, e = sizes
        self.width = c
        self.stn = SpatialTransformer(3, sizes) if transforms else None
        self.fstn = SpatialTransformer(a, sizes) if transforms else None
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, a, 1), nn.Conv1d(a, b, 1), nn.Conv1d(b, c, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(a), nn.BatchNorm1d(b), nn.BatchNorm1d(c)
        self.fc1, self.fc2, self.fc3 = nn.Linear(c, d), nn.Linear(d, e), nn.Linear(e, classes)
        self.bn4, self.bn5 = nn.BatchNorm1d(d), nn.BatchNorm1d(e)

    def forward(self, x):  # (B, 3, N)
        transform = None
        if self.stn is not None:
            x = torch.bmm(x.transpose(2, 1), self.stn(x)).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        if self.fstn is not None:
            transform = self.fstn(x)
            x = torch.bmm(x.transpose(2, 1), transform).transpose(2, 1)
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        x = torch.max(x, 2, keepdim=True)[0]
        x = x.view(-1, self.width)
        x = F.relu(self.bn4(self.fc1(x)))
        x = F.relu(self.bn5(self.fc2(x)))
        return self.fc3(x), transform


def block(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)]


def dense(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()]


def sequential_pointnet(classes: int = 5, sizes: tuple[int, ...] = SMALL, dropout: float = 0.0) -> nn.Sequential:
    a, b, c, d, e = sizes
    return nn.Sequential(
        nn.Sequential(*block(3, a), *block(a, b), *block(b, c)),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Sequential(*dense(c, d), nn.Dropout(dropout), *dense(d, e), nn.Dropout(dropout)),
        nn.Linear(e, classes),
    )


def farthest_points(xyz, number):
    """(B, N, 3) -> (B, number): the widely copied loop that writes into tensors."""
    batch, points, _ = xyz.shape
    chosen = torch.zeros(batch, number, dtype=torch.long)
    distance = torch.full((batch, points), 1e10, dtype=xyz.dtype)
    farthest = torch.zeros(batch, dtype=torch.long)
    rows = torch.arange(batch)
    for i in range(number):
        chosen[:, i] = farthest
        step = ((xyz - xyz[rows, farthest].unsqueeze(1)) ** 2).sum(-1)
        closer = step < distance
        distance[closer] = step[closer]
        farthest = distance.max(-1)[1]
    return chosen


def gather(points, index):
    shape = list(index.shape)
    rows = torch.arange(shape[0]).view(-1, *[1] * (len(shape) - 1)).expand(shape)
    return points[rows, index]


class Abstraction(nn.Module):
    """A set abstraction of PointNet++ with 1x1 convolutions over (B, C, K, S)."""

    def __init__(self, centers: int, neighbors: int, widths: list[int]) -> None:
        super().__init__()
        self.centers, self.neighbors = centers, neighbors
        self.convs = nn.ModuleList(nn.Conv2d(i, o, 1) for i, o in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for o in widths[1:])

    def forward(self, xyz, features):
        centers = gather(xyz, farthest_points(xyz, self.centers))
        nearest = torch.cdist(centers, xyz).topk(self.neighbors, largest=False)[1]  # (B, S, K)
        grouped = gather(xyz, nearest) - centers.unsqueeze(2)
        if features is not None:
            grouped = torch.cat([grouped, gather(features, nearest)], dim=-1)
        grouped = grouped.permute(0, 3, 2, 1)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            grouped = F.relu(norm(conv(grouped)))
        return centers, torch.max(grouped, 2)[0].permute(0, 2, 1)


class GroupingNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sa1, self.sa2 = Abstraction(8, 5, [3, 16, 32]), Abstraction(4, 3, [35, 32, 48])
        self.head = nn.Sequential(*dense(48, 24), nn.Linear(24, 5))

    def forward(self, xyz):
        xyz, features = self.sa2(*self.sa1(xyz, None))
        return self.head(features.mean(dim=1))


class EdgeNet(nn.Module):
    """A DGCNN of modules of torch_geometric, with its linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = pyg.EdgeConv(pyg.MLP([6, 16, 16])), pyg.EdgeConv(pyg.MLP([32, 24]))
        self.lin, self.head = pyg.Linear(40, 32), pyg.MLP([32, 16, 5])

    def forward(self, x, edges, batch):
        one = self.conv1(x, edges)
        return self.head(global_max_pool(self.lin(torch.cat([one, self.conv2(one, edges)], 1)), batch))


class SetNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = pyg.PointNetConv(pyg.MLP([6, 16, 16]))
        self.conv2 = pyg.PointNetConv(pyg.MLP([19, 24, 24]), pyg.Linear(24, 24))
        self.head = nn.Linear(24, 5)

    def forward(self, x, edges, batch):
        return self.head(global_mean_pool(self.conv2(self.conv1(x, x, edges), x, edges).relu(), batch))


def plain_mlp() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(60, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5))


def graph() -> tuple[Tensor, Tensor, Tensor]:
    edges = torch.randint(0, 40, (2, 160))
    return torch.randn(40, 3).double(), torch.cat([edges, edges.flip(0)], 1), torch.arange(40) // 10


def channels_first() -> tuple[Tensor]:
    return (torch.randn(6, 3, 20).double(),)


def points_first() -> tuple[Tensor]:
    return (torch.randn(6, 20, 3).double(),)


# name: network, its inputs, whether binarize needs them, and the layers that stay float
NETWORKS = {
    "classic": (ClassicPointNet, channels_first, False, ["stn.conv1", "conv1", "fc3"]),
    "sequential": (functools.partial(sequential_pointnet, dropout=0.3), channels_first, False, ["0.0", "4"]),
    "grouping": (GroupingNet, points_first, False, ["sa1.convs.0", "head.3"]),
    "mlp": (plain_mlp, points_first, False, ["1", "5"]),
    "pyg-mlp": (lambda: pyg.MLP([3, 16, 16, 16, 5]), points_first, False, ["lins.0", "lins.3"]),
    "pyg-dropout": (lambda: pyg.MLP([3, 16, 16, 16, 5], dropout=0.5), points_first, False, ["lins.0", "lins.3"]),
    "pyg-edges": (EdgeNet, graph, True, ["conv1.nn.lins.0", "head.lins.1"]),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def built(name: str, **options) -> tuple[nn.Module, tuple[Tensor, ...], nn.Module, Report]:
    """A network, an input, its 1-bit version and the report."""
    torch.manual_seed(0)
    make, inputs, needed, _ = NETWORKS[name]
    model, given = make().double(), inputs()
    if name in ("pyg-mlp", "pyg-dropout"):  # its BatchNorm expects rows
        given = (given[0].reshape(-1, 3),)
    network = binarize(model, example=given if needed else None, **options)
    return model, given, network, report_of(network)


def logits(output) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def without_dropout(model: nn.Module) -> nn.Module:
    """The network without dropout, like our own 1-bit networks."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def with_random_norms(model: nn.Module) -> nn.Module:
    """The network with random BatchNorm parameters and statistics, and some negative weights."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
            assert isinstance(module.running_mean, Tensor)
            assert isinstance(module.running_var, Tensor)
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model


class FourLayers(nn.Module):
    """Four layers, with a function between the second and the third, and another at the end."""

    def __init__(self, between=lambda x: x, end=lambda x: x, width=8, relu=None):
        super().__init__()
        self.one, self.two, self.three, self.four = (
            nn.Linear(3, 8),
            nn.Linear(8, 8),
            nn.Linear(width, 8),
            nn.Linear(8, 8),
        )
        self.between, self.end, self.relu = between, end, relu or nn.ReLU()

    def forward(self, x):
        x = self.between(self.relu(self.two(self.relu(self.one(x)))))
        return self.end(self.four(self.relu(self.three(x))))


class PoolingNet(nn.Module):
    """conv, BatchNorm, an activation, a pool, and two more layers; activation and pool are arguments."""

    def __init__(
        self,
        activation: Any = F.relu,
        pool: Any = lambda x: x.max(2)[0],
        convolution: Any = nn.Conv1d,
        norm: Any = nn.BatchNorm1d,
    ) -> None:
        super().__init__()
        self.first, self.hidden, self.norm = convolution(3, 8, 1), convolution(8, 16, 1), norm(16)
        self.head, self.last = nn.Linear(16, 8), nn.Linear(8, 4)
        self.activation, self.pool = activation, pool

    def forward(self, x):
        x = self.hidden(torch.tanh(self.first(x)))
        x = self.pool(self.activation(self.norm(x)))
        return self.last(self.activation(self.head(x.flatten(1))))
