"""The built-in data set `shapes`: everyday objects assembled from random parametric parts.

| split | clouds | classes | parts | points per cloud |
|---|---|---|---|---|
| train | 4800 | 20 | 64 | 1024 or more |
| test | 800 | 20 | 64 | 1024 or more |

Objects of one class differ in proportions, styles and optional parts. Every object is stretched along each axis to
nearly the proportions of a cube, so that sizes and moments say little about the class; it shows in the form of the
parts and in how they meet. Up is +z, front is +y.
"""

from collections.abc import Callable

import numpy as np

from bipointnet.data import furniture, objects
from bipointnet.data.dataset import PointClouds
from bipointnet.data.generated import check_size, cloud_stream, generated_splits
from bipointnet.data.solids import Assembly, Density, Rng, joined, rotation, sample
from bipointnet.errors import UserError

# Part of the cache key: raise it whenever the same seed gives other objects than before.
VERSION = 2
EVENNESS = 1.0  # 0 keeps the proportions of an object, 1 gives it those of a cube
STRETCH = 0.1  # then each axis is scaled by exp(+-STRETCH)
YAW = np.radians(5)
TILT = np.radians(2)
# Objects are sampled unevenly: this changes moments and histograms, but not the surface that a max pool sees.
SLOPE = 0.7  # from side to side
BEND = 3.0  # between the middle and the ends

# For each class: the function that makes one object, and the names of the parts.
_KINDS: dict[str, tuple[Callable[[Rng], Assembly], tuple[str, ...]]] = {
    "airplane": (objects.airplane, ("fuselage", "wing", "tail", "engine")),
    "bed": (furniture.bed, ("mattress", "frame", "headboard", "pillow")),
    "boat": (objects.boat, ("hull", "mast", "sail", "cabin")),
    "bookcase": (furniture.bookcase, ("side", "shelf", "book")),
    "bottle": (objects.bottle, ("body", "neck", "cap")),
    "bucket": (objects.bucket, ("body", "handle")),
    "car": (objects.car, ("body", "cabin", "wheel")),
    "chair": (furniture.chair, ("seat", "back", "leg", "arm")),
    "goblet": (objects.goblet, ("foot", "stem", "bowl")),
    "guitar": (objects.guitar, ("body", "neck", "head")),
    "lamp": (furniture.lamp, ("base", "pole", "shade")),
    "laptop": (objects.laptop, ("base", "screen")),
    "mug": (objects.mug, ("body", "handle")),
    "plant": (objects.plant, ("pot", "stem", "leaf")),
    "rocket": (objects.rocket, ("body", "nose", "fin", "booster")),
    "sofa": (furniture.sofa, ("seat", "back", "arm", "leg")),
    "stool": (furniture.stool, ("seat", "leg", "rung")),
    "table": (furniture.table, ("top", "leg", "drawer")),
    "teapot": (objects.teapot, ("body", "lid", "spout", "handle")),
    "umbrella": (objects.umbrella, ("canopy", "shaft", "handle")),
}

CLASSES: tuple[str, ...] = tuple(_KINDS)
PARTS: tuple[str, ...] = tuple(f"{name}/{part}" for name, (_, parts) in _KINDS.items() for part in parts)
_LABEL = {part: label for label, part in enumerate(PARTS)}
PARTS_OF_CLASSES: tuple[tuple[int, ...], ...] = tuple(
    tuple(_LABEL[f"{name}/{part}"] for part in parts) for name, (_, parts) in _KINDS.items()
)


def build(name: str, rng: Rng) -> Assembly:
    """The surfaces of one object of a class, upright and in its own proportions."""
    if name not in _KINDS:
        raise UserError(f"shapes: has no class {name!r}; expected one of {', '.join(CLASSES)}")
    return _KINDS[name][0](rng)


def make_object(name: str, rng: Rng, points: int) -> tuple[np.ndarray, np.ndarray]:  # (P, 3) float32, (P,) int64
    """Sample one random object of a class: its points, and the part of each.

    >>> xyz, parts = make_object("chair", np.random.default_rng(0), points=1024)
    >>> sorted({PARTS[part] for part in parts})
    ['chair/back', 'chair/leg', 'chair/seat']
    """
    check_size("points", points, least=1)
    assembly = build(name, rng)
    mirror = (rng.choice([-1.0, 1.0]), rng.choice([-1.0, 1.0]), 1.0)
    lower, upper = joined([surface for surface, _ in assembly]).bounds()
    size = rng.uniform(0.7, 1.4) * np.exp(rng.uniform(-STRETCH, STRETCH, 3))
    stretch = mirror * size * (upper - lower) ** -EVENNESS
    tilt_x, tilt_y, yaw = rng.uniform(-1, 1, 3) * (TILT, TILT, YAW)
    pose = rotation("x", tilt_x) @ rotation("y", tilt_y) @ rotation("z", yaw) * stretch  # (3, 3)
    # The pose is applied before sampling, so that the points are uniform on the stretched object.
    labeled = [(surface.mapped(pose), _LABEL[f"{name}/{part}"]) for surface, part in assembly]
    xyz, parts = sample(labeled, points, rng, _uneven(rng, *joined([surface for surface, _ in labeled]).bounds()))
    return xyz.astype(np.float32), parts


def _uneven(rng: Rng, lower: np.ndarray, upper: np.ndarray) -> Density:
    """A density that varies over a box, as with a scanner that sees some sides better than others."""
    slope, bend = rng.uniform(-SLOPE, SLOPE, 3), rng.uniform(-BEND, BEND, 3)
    return Density(slope, bend, center=(lower + upper) / 2, reach=(upper - lower) / 2)


def shapes(train: int = 4800, test: int = 800, points: int = 1024, seed: int = 0) -> PointClouds:
    """The data set. The classes take turns, so that the first clouds of a split are balanced too.

    >>> data = shapes(train=40, test=20, points=64)
    >>> data.classes[data.train.labels[7]], data.train.points.shape
    ('chair', (40, 64, 3))
    """
    version = (VERSION, EVENNESS, STRETCH, YAW, TILT, SLOPE, BEND)
    splits = generated_splits(
        "shapes",
        version,
        (train, test),
        (points, 3),
        seed,
        len(CLASSES),
        lambda label, rng: make_object(CLASSES[label], rng, points),
    )
    return PointClouds("shapes", CLASSES, *splits, PARTS, parts=PARTS_OF_CLASSES)


def held_out(number: int, points: int) -> tuple[np.ndarray, int]:  # (P, 3) float32
    """A cloud of the test split with any number of points, and its class; numbers beyond the split give new objects.

    A larger cloud of the same number begins with the smaller one.

    >>> xyz, label = held_out(7, points=4096)
    >>> CLASSES[label], xyz.shape
    ('chair', (4096, 3))
    """
    label = number % len(CLASSES)
    return make_object(CLASSES[label], cloud_stream(0, 1, number), points)[0], label
