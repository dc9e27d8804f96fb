"""A network of your own in 1 bit, from PyTorch to one file: docs/your-network.md explains every step.

python examples/own_network.py -o own.bpn                 # about 4 minutes on two cores
python examples/own_network.py -o own.bpn --clouds 400 --epochs 2 --points 64
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bipointnet
from bipointnet.data.normalize import normalize
from bipointnet.data.shapes import shapes


def knn(x: Tensor, k: int) -> Tensor:
    """Indices of the k nearest points of each point: (B, 3, N) -> (B, N, k)."""
    points = x.transpose(1, 2)
    return torch.cdist(points, points).topk(k, largest=False).indices


def edges(x: Tensor, neighbors: Tensor) -> Tensor:
    """Each point next to the offsets of its neighbors: (B, C, N), (B, N, k) -> (B, 2 C, N, k)."""
    batch = torch.arange(len(x))[:, None, None]
    others = x.transpose(1, 2)[batch, neighbors].permute(0, 3, 1, 2)  # (B, C, N, k)
    centers = x.unsqueeze(-1).expand_as(others)
    return torch.cat([centers, others - centers], dim=1)


class EdgeNet(nn.Module):
    """One convolution on edges, one PointNet, one head: (B, 3, N) -> (B, num_classes)."""

    def __init__(self, num_classes: int, k: int = 8) -> None:
        super().__init__()
        self.k = k
        self.conv1, self.bn1 = nn.Conv2d(6, 64, 1), nn.BatchNorm2d(64)
        self.conv2, self.bn2 = nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64)
        self.conv3, self.bn3 = nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128)
        self.conv4, self.bn4 = nn.Conv1d(128, 512, 1), nn.BatchNorm1d(512)
        self.fc1, self.bn5 = nn.Linear(512, 256), nn.BatchNorm1d(256)
        self.fc2 = nn.Linear(256, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = edges(x, knn(x, min(self.k, x.shape[2])))  # (B, 6, N, k)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = x.max(dim=3).values  # over the neighbors: (B, 64, N)
        x = F.relu(self.bn3(self.conv3(x)))
        x = F.relu(self.bn4(self.conv4(x)))
        x = x.max(dim=2).values  # over the points: (B, 512)
        return self.fc2(F.relu(self.bn5(self.fc1(x))))


def batches(clouds: np.ndarray, labels: np.ndarray, points: int, size: int, rng: np.random.Generator):
    """One epoch: random points of random clouds, shifted and scaled a little, as (B, 3, points) and (B,)."""
    order = rng.permutation(len(clouds))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        x = clouds[chosen][:, rng.permutation(clouds.shape[1])[:points]]
        x = x * rng.uniform(0.8, 1.25, (size, 1, 3)) + rng.uniform(-0.1, 0.1, (size, 1, 3))
        yield torch.from_numpy(x.astype(np.float32)).transpose(1, 2), torch.from_numpy(labels[chosen])


def train(network: nn.Module, clouds: np.ndarray, labels: np.ndarray, points: int, epochs: int, size: int = 32) -> None:
    """A plain training loop: nothing in it knows that the network has 1 bit."""
    rng = np.random.default_rng(0)
    steps = epochs * (len(clouds) // size)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.005, total_steps=steps)
    for epoch in range(epochs):
        network.train()
        losses = []
        for x, y in batches(clouds, labels, points, size, rng):
            loss = F.cross_entropy(network(x), y, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1} of {epochs}: loss {np.mean(losses):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network of one's own in 1 bit and export it.")
    parser.add_argument("-o", "--output", default="own.bpn")
    parser.add_argument("--clouds", type=int, default=4800, help="training clouds (default: 4800)")
    parser.add_argument("--epochs", type=int, default=12, help="default: 12")
    parser.add_argument("--points", type=int, default=128, help="points per cloud (default: 128)")
    options = parser.parse_args()
    torch.manual_seed(0)

    data = shapes(train=options.clouds, test=max(20, options.clouds // 6), points=1024)
    clouds = normalize(data.train.points)  # as the packed file does with every cloud
    example = torch.from_numpy(clouds[:32, : options.points]).transpose(1, 2)  # (32, 3, points)

    network = bipointnet.binarize(EdgeNet(len(data.classes)), method="lsr", pool="ema-max", example=example)
    print(network.report)
    bipointnet.calibrate(network, example)
    train(network, clouds, data.train.labels, options.points, options.epochs)

    exported = bipointnet.export(
        network.eval(),
        options.output,
        example=example[:1],
        classes=data.classes,
        training={"points": options.points},
    )
    print(exported)

    model = bipointnet.load(options.output)
    test = data.test.points[:, : options.points]
    accuracy = np.mean(model.predict(test).labels == data.test.labels)
    print(f"{100 * accuracy:.1f} % of {len(test)} test clouds, predicted by the packed file")


if __name__ == "__main__":
    main()
