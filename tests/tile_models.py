"""Models that label tiles, and the points of small tiles."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from packed_networks import shaken

import bipointnet
from bipointnet.data.blocks import BlockLayout
from bipointnet.data.shuffle import ranks
from bipointnet.models import ScenePointNet
from bipointnet.packing import pack
from bipointnet.runtime.model import Model

GOLDEN = Path(__file__).parent / "golden"
CLASSES = 24


def make_model(path: Path, layout: BlockLayout | None, points: int = 32, classes: int = CLASSES) -> Model:
    """A packed network with random weights."""
    channels = 6 if layout is None else len(layout.channels)
    torch.manual_seed(0)
    network = ScenePointNet(classes, linear="lsr", pool="ema-max", in_channels=channels, tnets=False)
    names = [f"class {number}" for number in range(classes)]
    training = {"points": points}
    pack.export(shaken(network, channels), path, classes=names, training=training, normalize="none", blocks=layout)
    return bipointnet.load(path)


def hash_model(layout: BlockLayout, points: int) -> Model:
    """A model whose logits change with any bit of a block and with the order of its points."""
    model = bipointnet.load(GOLDEN / "rooms-semantic.bpn")
    model.manifest["blocks"], model.manifest["training"] = layout.as_json(), {"points": points}
    model.classes = [f"class {number}" for number in range(CLASSES)]

    def logits(blocks: np.ndarray, **_: Any) -> np.ndarray:
        return np.stack([hash_logits(block) for block in blocks])

    vars(model)["logits"] = logits
    return model


def hash_logits(block: np.ndarray) -> np.ndarray:
    """(P, C) -> (P, classes) float32, of so many sizes that a sum depends on the order of its terms."""
    bits = np.ascontiguousarray(block).view(np.uint32).astype(np.uint64)
    of_points = mixed(bits @ ranks(bits.shape[1]))
    of_block = mixed((of_points * ranks(len(of_points))).sum())
    number = mixed((of_points + of_block)[:, None] + ranks(CLASSES))
    sizes = (number >> np.uint64(8)) % np.uint64(30)
    return np.ldexp(1 + (number >> np.uint64(40)) / 2**24, sizes.astype(np.int32)).astype(np.float32) * np.where(
        number & np.uint64(1), np.float32(1), np.float32(-1)
    )


def mixed(numbers: np.ndarray) -> np.ndarray:
    """As in SplitMix64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.array(0xBF58476D1CE4E5B9, np.uint64)
    return numbers ^ (numbers >> np.uint64(27))


def draw_points(rng: np.random.Generator, side: float) -> np.ndarray:
    """Points (N, 3) of a tile from one cell to a few blocks wide."""
    count = int(rng.choice([1, 2, 40, 900, 4000]))
    xyz = rng.uniform(0, 1, (count, 3)) * rng.choice([0.0, 0.4, 1.0, 3.0, 7.3], 3) * side
    kind = rng.integers(4)
    if kind == 1:
        xyz = np.round(4 * xyz / side) * side / 4  # on the edges of cells
    elif kind == 2 and count > 10:
        xyz[: count // 2, 0] += 20 * side  # an empty area
        xyz[rng.random(count) < 0.02, 2] -= 9 * side  # far below the ground
    elif kind == 3:
        xyz = xyz[np.argsort(xyz[:, 0])]  # in the order of the scan
    return xyz
