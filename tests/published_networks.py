"""Small networks in the manner of well-known repositories, each with a construction that is easily lost in 1 bit."""

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.nn.pool.glob import global_max_pool


def conv(inputs: int, outputs: int, places: int = 1) -> nn.Sequential:
    layer, norm = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d))[places - 1]
    return nn.Sequential(layer(inputs, outputs, 1, bias=False), norm(outputs), nn.LeakyReLU(0.2))


def edge_features(x: Tensor, neighbors: int = 5) -> Tensor:
    """(B, C, N) -> (B, 2 C, N, K), with the index arithmetic of DGCNN."""
    batch, channels, points = x.size()
    distance = (x**2).sum(1, keepdim=True) - 2 * x.transpose(2, 1) @ x  # up to a constant per row
    nearest = distance.topk(neighbors, dim=-1, largest=False)[1]
    index = (nearest + torch.arange(batch).view(-1, 1, 1) * points).view(-1)
    rows = x.transpose(2, 1).contiguous()
    around = rows.view(batch * points, -1)[index].view(batch, points, neighbors, channels)
    center = rows.view(batch, points, 1, channels).repeat(1, 1, neighbors, 1)
    return torch.cat((around - center, center), dim=3).permute(0, 3, 1, 2).contiguous()


class ZeroTransform(nn.Module):
    """A T-Net whose last layer starts with weight 0 and the identity as bias."""

    def __init__(self) -> None:
        super().__init__()
        self.edges, self.points = conv(6, 16, 2), conv(16, 64)
        self.hidden, self.norm, self.transform = nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.Linear(32, 9)
        nn.init.zeros_(self.transform.weight)
        nn.init.eye_(self.transform.bias.view(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.points(self.edges(x).max(dim=-1)[0]).max(dim=-1)[0]
        return self.transform(F.leaky_relu(self.norm(self.hidden(x)), 0.2)).view(-1, 3, 3)


class EdgePartNet(nn.Module):
    """Part segmentation with neighbors in feature space, a zero-initialized T-Net and a category input."""

    def __init__(self) -> None:
        super().__init__()
        self.transform = ZeroTransform()
        self.conv1, self.conv2, self.conv3 = conv(6, 16, 2), conv(32, 16, 2), conv(32, 64)
        self.category, self.mix = conv(16, 32), conv(64 + 32 + 32, 32)
        self.drop, self.last = nn.Dropout(0.5), nn.Conv1d(32, 6, 1)

    def forward(self, x: Tensor, category: Tensor) -> Tensor:
        x = torch.bmm(x.transpose(2, 1), self.transform(edge_features(x))).transpose(2, 1)
        one = self.conv1(edge_features(x)).max(dim=-1)[0]
        two = self.conv2(edge_features(one)).max(dim=-1)[0]
        whole = self.conv3(torch.cat((one, two), 1)).max(dim=-1, keepdim=True)[0]
        whole = torch.cat((whole, self.category(category.view(len(x), -1, 1))), 1).repeat(1, 1, x.size(2))
        return self.last(self.drop(self.mix(torch.cat((whole, one, two), 1))))


class PointPartNet(nn.Module):
    """Part segmentation that concatenates a one-hot category with the features, in functions."""

    def __init__(self, categories: int = 16) -> None:
        super().__init__()
        self.categories = categories
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, 16, 1), nn.Conv1d(16, 32, 1), nn.Conv1d(32, 64, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(16), nn.BatchNorm1d(32), nn.BatchNorm1d(64)
        self.convs1, self.convs2 = nn.Conv1d(64 + categories + 48, 32, 1), nn.Conv1d(32, 32, 1)
        self.bns1, self.bns2, self.convs3 = nn.BatchNorm1d(32), nn.BatchNorm1d(32), nn.Conv1d(32, 5, 1)

    def encode(self, label: Tensor) -> Tensor:
        return label.squeeze(1)

    def forward(self, points: Tensor, label: Tensor) -> Tensor:
        batch, _, count = points.size()
        one = F.relu(self.bn1(self.conv1(points)))
        two = F.relu(self.bn2(self.conv2(one)))
        whole = torch.max(self.bn3(self.conv3(two)), 2, keepdim=True)[0].view(-1, 64)
        whole = torch.cat([whole, self.encode(label)], 1)
        x = torch.cat([whole.view(-1, 64 + self.categories, 1).repeat(1, 1, count), one, two], 1)
        x = F.relu(self.bns2(self.convs2(F.relu(self.bns1(self.convs1(x))))))
        x = self.convs3(x).transpose(2, 1).contiguous()
        return F.log_softmax(x.view(-1, 5), dim=-1).view(batch, count, 5)


class IndexPartNet(PointPartNet):
    """The same with the category as an index."""

    def encode(self, label: Tensor) -> Tensor:
        return F.one_hot(label, self.categories).to(next(self.parameters()).dtype)


def group(centers: int, xyz: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Centers and the features around them; it depends on the values, so that it cannot be traced."""
    if not torch.isfinite(xyz).all():
        raise ValueError("points are not finite")
    near = torch.cdist(xyz[:, :centers], xyz).topk(4, largest=False)[1]  # (B, S, K)
    rows = torch.arange(len(xyz)).view(-1, 1, 1)
    return xyz[:, :centers], features[rows, near].max(dim=2)[0]


class PositionNet(nn.Module):
    """A transformer block that adds an encoding of positions, which it gets from a grouping function."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Linear(3, 32), nn.LayerNorm(32)
        self.position, self.query, self.value = nn.Linear(3, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.head, self.last = nn.Linear(32, 32), nn.Linear(32, 5)

    def forward(self, xyz: Tensor) -> Tensor:
        centers, x = group(16, xyz, self.norm(self.embed(xyz)))
        x = torch.tanh(x - x.mean(1, keepdim=True)) + self.position(centers)
        attention = torch.softmax(self.query(x) @ x.transpose(1, 2) / 6, dim=-1)
        x = x + attention @ self.value(x)
        return self.last(torch.tanh(self.head(x.mean(dim=1))))


class GraphPointNet2(nn.Module):
    """PointNet++ of torch_geometric: PointNetConv with aggr="max", global_max_pool, its MLP."""

    def __init__(self, plain_last: bool) -> None:
        super().__init__()
        self.sa1 = pyg.PointNetConv(pyg.MLP([6, 16, 32], plain_last=plain_last), add_self_loops=False)
        self.sa2 = pyg.PointNetConv(pyg.MLP([35, 32, 48], plain_last=plain_last), add_self_loops=False)
        self.sa3 = pyg.MLP([48 + 3, 64, 96], plain_last=plain_last)
        self.mlp = pyg.MLP([96, 48, 32, 5], dropout=0.5, norm=None)

    def forward(self, pos: Tensor, edges: Tensor, batch: Tensor) -> Tensor:
        x = self.sa2(self.sa1(pos, pos, edges), pos, edges)
        return self.mlp(global_max_pool(self.sa3(torch.cat([x, pos], 1)), batch)).log_softmax(dim=-1)


class DictionaryNet(nn.Module):
    """Takes a tensor or a dictionary, and returns a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16)
        self.hidden, self.norm2 = nn.Conv1d(16, 64, 1), nn.BatchNorm1d(64)
        self.head, self.last = nn.Linear(64, 32), nn.Linear(32, 5)

    def forward(self, x):
        if hasattr(x, "keys"):
            x = x["pos"]
        x = F.relu(self.norm1(self.first(x)))
        pooled = F.relu(self.norm2(self.hidden(x))).max(dim=-1)[0]
        return {"features": pooled, "logits": self.last(F.relu(self.head(pooled)))}

    def classify(self, x: Tensor) -> Tensor:
        return self(x)["logits"].argmax(1)


def clouds(count: int = 6, points: int = 32) -> Tensor:
    return torch.randn(count, 3, points)


def one_hot(labels: Tensor) -> Tensor:
    return torch.eye(16)[labels].unsqueeze(1)


def graph_of_clouds(clouds: int = 8, points: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    """Positions, edges inside each cloud with different numbers per target, and the cloud of each point."""
    total, edges = clouds * points, 5 * clouds * points
    pairs = torch.randint(0, points, (2, edges)) + torch.arange(edges) % clouds * points
    return torch.randn(total, 3), pairs, torch.arange(total) // points
