"""Rewrites the golden files after a change of the format and makes missing ones: python tests/golden/rewrite.py

A golden file is a packed model; `answers.npz` has a few clouds for each and the logits that it gave when it was made.
The format may change, the answers may not: a file is replaced only if the core gives the stored logits, bit for bit.
After a change of the format, put the step from the version before into `migrated`, run this once, and commit the files.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from bipointnet import _core
from bipointnet.data import rooms
from bipointnet.data.blocks import Columns, grid_blocks
from bipointnet.data.shapes import CLASSES as SHAPES
from bipointnet.data.shapes import make_object
from bipointnet.models import PointNet, ScenePointNet
from bipointnet.models.blueprint import Blueprint
from bipointnet.models.pointnet import TNet
from bipointnet.nn import Reads, calibrate
from bipointnet.packing import pack
from bipointnet.packing.container import file_bytes
from bipointnet.runtime import reference

FOLDER = Path(__file__).parent
ANSWERS = FOLDER / "answers.npz"
STEPS = 150


def migrated(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest in today's format: `task`, which was guessed before, is a field."""
    if "task" in manifest:
        return manifest
    points = _labels_points(manifest)
    task = "classify" if not points else "part" if "categories" in manifest else "semantic"
    head = {"format": manifest["format"], "model": manifest["model"], "task": task}
    training = {name: value for name, value in manifest["training"].items() if name != "task"}
    return head | {name: value for name, value in manifest.items() if name not in head} | {"training": training}


def _labels_points(manifest: dict[str, Any]) -> bool:
    """Whether the program ends with floats of points, not of the cloud."""
    passes = [op["op"] for op in manifest["program"] if op["op"] in ("points", "join", "pool", "bilinear_pool")]
    return passes[-1] in ("points", "join")


class SmallTNet(TNet):
    """A T-Net of few channels."""

    def __init__(self, plan: Blueprint, in_channels: int, size: int, reads: Reads | None = None) -> None:
        nn.Module.__init__(self)
        self.size = size
        self.points = plan.mlp([in_channels, 24, 40], reads)
        self.pooled = plan.pooled_layer(40, 72)
        self.head = plan.mlp([72, 48, 32])
        self.last = plan.linear(32, size * size)


def begin_with(net: PointNet | ScenePointNet, plan: Blueprint, in_channels: int) -> None:
    """An encoder like PointNet's of few channels, with both T-Nets."""
    net.input_transform = SmallTNet(plan, in_channels, 3, reads="points")
    net.first = plan.layer(in_channels, 24, reads="points")
    net.feature_transform = SmallTNet(plan, 24, 24)
    net.points = plan.mlp([24, 40])
    net.pooled = plan.pooled_layer(40, 130)


class SmallPointNet(PointNet):
    def __init__(self, num_classes: int) -> None:
        nn.Module.__init__(self)
        plan = Blueprint.of("a golden file", linear="lsr", pool="ema-max")
        begin_with(self, plan, 3)
        self.add_head(plan, [130, 64, 48], num_classes)


class SmallScenePointNet(ScenePointNet):
    def __init__(self, num_classes: int) -> None:
        nn.Module.__init__(self)
        plan = Blueprint.of("a golden file", linear="lsr", pool="ema-max")
        begin_with(self, plan, 9)
        self.add_head(plan, 24 + 130, [64, 48, 32], num_classes)


def objects(count: int, points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Built-in shapes (count, points, 3) and their classes (count,)."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % len(SHAPES)
    return np.stack([make_object(SHAPES[label], rng, points)[0] for label in labels]), labels


def blocks(count: int, points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of built-in rooms (count, points, 9) and the classes of their points (count, points)."""
    rng = np.random.default_rng(seed)
    clouds, labels = np.empty((0, points, 9), np.float32), np.empty((0, points), np.int64)
    while len(clouds) < count:
        scan, of_points = rooms.make_room(rng, 8192)
        cut = grid_blocks(Columns.of(scan, "room"), points, rng)
        clouds = np.concatenate([clouds, cut.points])
        labels = np.concatenate([labels, of_points[cut.index]])
    return clouds[:count], labels[:count]


def trained(net: nn.Module, clouds: np.ndarray, labels: np.ndarray) -> nn.Module:
    """The network after a few steps: enough for weights that are not random."""
    x, y = torch.from_numpy(clouds.astype(np.float32)), torch.from_numpy(labels)
    calibrate(net, x[:32])
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    rng = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        batch = torch.randint(len(x), (32,), generator=rng)
        loss = F.cross_entropy(net.train()(x[batch]).logits.flatten(0, -2), y[batch].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()


def make_tnets(path: Path) -> np.ndarray:
    torch.manual_seed(0)
    net = trained(SmallPointNet(len(SHAPES)), *objects(400, 64, 1))
    pack.export(net, path, classes=SHAPES, training={"data": "shapes", "points": 64}, golden_points=16)
    return objects(len(SHAPES), 64, 2)[0]


def make_semantic(path: Path) -> np.ndarray:
    torch.manual_seed(0)
    net = trained(SmallScenePointNet(len(rooms.CLASSES)), *blocks(200, 64, 1))
    training = {"data": "rooms", "points": 64, "up": "z"}
    pack.export(net, path, classes=rooms.CLASSES, training=training, normalize="none", golden_points=16)
    return blocks(4, 64, 2)[0]


MAKERS = {"shapes-tnets-v1": make_tnets, "rooms-semantic-v1": make_semantic}


def logits_of(content: bytes, clouds: np.ndarray, isa: str = "portable") -> np.ndarray:
    """Logits of clouds (B, N, C); of a model with categories, cloud i is of category i."""
    model = _core.Model(content, isa)
    each = [model.predict(cloud[None], False, 1, i if model.categories else -1) for i, cloud in enumerate(clouds)]
    return np.concatenate(each)


def rewrite(path: Path, clouds: np.ndarray, logits: np.ndarray) -> None:
    """Replace a golden file by itself in today's format; an error if its answers would change."""
    old = reference.parse(path.read_bytes())
    text = json.dumps(migrated(old.manifest), separators=(",", ":"), ensure_ascii=False)
    content = file_bytes(text, old.tensors)
    assert all(np.array_equal(old.tensors[name], value) for name, value in reference.parse(content).tensors.items())
    found = logits_of(content, clouds)
    assert found.dtype == logits.dtype == np.float32
    assert np.array_equal(found.view(np.uint32), logits.view(np.uint32)), f"{path.name}: other logits than stored"
    path.write_bytes(content)


def main() -> None:
    answers = dict(np.load(ANSWERS)) if ANSWERS.exists() else {}
    for name, make in MAKERS.items():
        path = FOLDER / f"{name}.bpn"
        if not path.exists():
            clouds = np.ascontiguousarray(make(path), np.float32)
            answers |= {f"{name}.clouds": clouds, f"{name}.logits": logits_of(path.read_bytes(), clouds)}
            np.savez_compressed(ANSWERS, **answers)
    for path in sorted(FOLDER.glob("*.bpn")):
        rewrite(path, answers[f"{path.stem}.clouds"], answers[f"{path.stem}.logits"])
        print(f"{path.name}: {path.stat().st_size:,} bytes, {answers[f'{path.stem}.logits'].size} logits as stored")


if __name__ == "__main__":
    main()
