"""Rewrites the golden files after a change of the format and makes missing ones.

    PYTHONPATH=tests python tests/golden/rewrite.py

A golden file is a packed model; `answers.npz` has a few clouds for each and the logits that it gave when it was made.
The format may change, the answers may not: a file is replaced only if the core gives the stored logits, bit for bit.
After a change of the format, put the step from the version before into a module like `format1`, run this once, and
commit the files.
"""

import json
from pathlib import Path

import numpy as np
import torch
from format1 import migrated
from handmade_programs import Program, always, at_most, content, share
from torch import nn
from torch.nn import functional as F

from bipointnet import _core
from bipointnet.data import rooms
from bipointnet.data.blocks import ROOM, Columns, grid_blocks
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
        cut = grid_blocks(Columns.of(ROOM, scan[:, :3], scan[:, 3:], "room"), points, rng)
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
    pack.export(net, path, classes=rooms.CLASSES, training=training, normalize="none", blocks=ROOM, golden_points=16)
    return blocks(4, 64, 2)[0]


def make_neighbors(path: Path) -> np.ndarray:
    """Not a trained network: all operations that search neighbors or combine values, in one program."""
    program = Program(0)
    xyz = program.points
    density = program.function(program.add("density", xyz, width=1, bandwidth=0.25), "reciprocal")
    centers = program.gather(xyz, program.farthest(xyz, share(0.25)))
    indices = program.ball(centers, xyz, xyz, count=always(8), radius=0.5)
    offsets = program.add("subtract", program.gather(xyz, indices), program.broadcast(centers, indices))
    matrix = program.dense(program.add("flatten", offsets, width=24, order="slots"), 64)
    mixed = program.add("mix", matrix, program.dense(offsets, 12, "relu"), width=12)
    weights = program.add("multiply", mixed, program.gather(density, indices))
    counts = program.add("size", indices, width=1, over="neighbors")
    sums = program.add("divide", program.add("outer", weights, offsets, width=36), counts)
    pooled = program.bilinear_pool(program.sign(mixed), 40, "max", "neighbors")
    features = program.concat(program.bilinear_float(pooled, 36, "hardtanh"), program.function(sums, "tanh"))
    at_points = program.interpolate(xyz, centers, features)
    near = program.nearest(at_points, at_points, xyz, count=at_most(6), dilation=2)
    edges = program.add("add", program.gather(at_points, near), program.broadcast(at_points, near))
    x = program.pool(program.bilinear_float(program.sign(edges), 48), "max", "neighbors", "delta")
    program.dense(program.bilinear_float(program.bilinear_pool(program.sign(x), 64), 32), 10)
    path.write_bytes(content(program.packed("sphere", points=16)))
    return objects(6, 64, 2)[0]


MAKERS = {"neighbors": make_neighbors, "shapes-tnets": make_tnets, "rooms-semantic": make_semantic}


def logits_of(content: bytes, clouds: np.ndarray, isa: str = "portable") -> np.ndarray:
    """Logits of clouds (B, N, C); of a model with categories, cloud i is of category i."""
    model = _core.Model(content, isa)
    each = [model.predict(cloud[None], False, 1, i if model.categories else -1) for i, cloud in enumerate(clouds)]
    return np.concatenate(each)


def rewrite(path: Path, clouds: np.ndarray, logits: np.ndarray) -> None:
    """Replace a golden file by itself in today's format; an error if its answers would change."""
    old = reference.parse(path.read_bytes())
    manifest, tensors = migrated(old.manifest, old.tensors)
    content = file_bytes(json.dumps(manifest, separators=(",", ":"), ensure_ascii=False), tensors)
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
