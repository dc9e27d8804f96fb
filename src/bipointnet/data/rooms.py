"""The built-in data set `rooms`: furnished rooms for semantic segmentation, with the 13 classes of S3DIS.

| split | rooms | classes of points | points per room |
|---|---|---|---|
| train | 64 | 13 | 16,384; 65,536 before it is cut into blocks |
| test | 16 | 13 | 16,384; 65,536 before it is cut into blocks |

Lengths are in meters, z is up, and one corner of a room is the origin. The furniture comes from `shapes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bipointnet.data.blocks import ROOM, Columns, grid_blocks
from bipointnet.data.cache import cached
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.generated import check_size, generated_splits
from bipointnet.data.shapes import build
from bipointnet.data.solids import Rng, Surface, box, grid, joined, rotation, sample

CLASSES: tuple[str, ...] = (
    "ceiling",
    "floor",
    "wall",
    "beam",
    "column",
    "window",
    "door",
    "table",
    "chair",
    "sofa",
    "bookcase",
    "board",
    "clutter",
)

# Part of the cache key: raise it whenever the same seed gives other rooms than before.
VERSION = 1
COLOR_NOISE = 0.05
DENSE = 65536  # points of a room that is cut into blocks: about 2000 per block
GAP = 0.06  # meters of free floor between any two pieces of furniture
PLACING_TRIES = 25

_PALETTE = {
    "ceiling": [(0.92, 0.91, 0.88), (0.80, 0.80, 0.78)],
    "floor": [(0.55, 0.42, 0.30), (0.45, 0.45, 0.47), (0.70, 0.62, 0.52)],
    "wall": [(0.88, 0.86, 0.80), (0.78, 0.82, 0.84), (0.85, 0.75, 0.65)],
    "beam": [(0.80, 0.78, 0.74), (0.50, 0.36, 0.24)],
    "column": [(0.84, 0.82, 0.78), (0.60, 0.60, 0.60)],
    "window": [(0.62, 0.75, 0.86), (0.85, 0.90, 0.95)],
    "door": [(0.55, 0.38, 0.24), (0.82, 0.80, 0.76), (0.35, 0.42, 0.50)],
    "table": [(0.62, 0.46, 0.30), (0.85, 0.83, 0.80), (0.30, 0.24, 0.20)],
    "chair": [(0.20, 0.22, 0.28), (0.58, 0.42, 0.28), (0.62, 0.20, 0.18)],
    "sofa": [(0.45, 0.25, 0.20), (0.35, 0.40, 0.50), (0.62, 0.58, 0.50)],
    "bookcase": [(0.50, 0.36, 0.24), (0.85, 0.84, 0.80)],
    "board": [(0.94, 0.95, 0.95), (0.14, 0.28, 0.22)],
    "clutter": [(0.75, 0.25, 0.20), (0.25, 0.45, 0.65), (0.30, 0.52, 0.28), (0.80, 0.72, 0.35), (0.40, 0.40, 0.40)],
}


@dataclass(frozen=True)
class Item:
    """One object in a room: its class, its surfaces in place, and one color (3,) per surface."""

    name: str
    surfaces: tuple[Surface, ...]
    colors: tuple[np.ndarray, ...]

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:  # (3,), (3,)
        return joined(self.surfaces).bounds()


@dataclass(frozen=True)
class Room:
    """A room and its content.

    Attributes:
        size: (3,) width, depth and height.
        shell: floor, ceiling, walls and beams.
        furniture: objects on the floor, columns included; no two of them touch.
        extras: objects on furniture or in walls.
        taken: rectangles of the floor, each (2, 2), that are occupied.
    """

    size: np.ndarray
    shell: list[Item] = field(default_factory=list)
    furniture: list[Item] = field(default_factory=list)
    extras: list[Item] = field(default_factory=list)
    taken: list[np.ndarray] = field(default_factory=list)

    def items(self) -> list[Item]:
        return [*self.shell, *self.furniture, *self.extras]


def _item(rng: Rng, name: str, surfaces: list[Surface]) -> Item:
    """One of the class's colors, varied a little for this item and again for each of its surfaces."""
    shades = _PALETTE[name]
    base = np.array(shades[rng.integers(len(shades))]) + rng.normal(0, 0.04, 3) + rng.normal(0, 0.06)
    colors = [base + rng.normal(0, 0.04, 3) for _ in surfaces]
    return Item(name, tuple(surfaces), tuple(colors))


def _rectangle(origin: np.ndarray, along: np.ndarray, up: np.ndarray) -> Surface:
    corners = np.array([[origin, origin + up], [origin + along, origin + along + up]])  # (2, 2, 3)
    return grid(corners)


@dataclass(frozen=True)
class _Side:
    """One wall: its first corner on the floor, and unit vectors along the wall and into the room."""

    corner: np.ndarray
    along: np.ndarray
    inward: np.ndarray
    length: float
    height: float

    def piece(self, start: float, stop: float, low: float, high: float, depth: float = 0.0) -> Surface:
        origin = self.corner + start * self.along + depth * self.inward + np.array([0, 0, low])
        return _rectangle(origin, (stop - start) * self.along, np.array([0, 0, high - low]))

    def slab(self, start: float, stop: float, low: float, high: float, thickness: float) -> Surface:
        """A box on the wall that protrudes by its thickness."""
        middle = self.corner + (start + stop) / 2 * self.along + thickness / 2 * self.inward
        across = np.abs(self.along) * (stop - start) + np.abs(self.inward) * thickness
        return box((across[0], across[1], high - low), (middle[0], middle[1], low))


def _sides(size: np.ndarray) -> list[_Side]:
    width, depth, height = size
    x, y = np.array([1.0, 0, 0]), np.array([0, 1.0, 0])
    return [
        _Side(np.zeros(3), x, y, width, height),
        _Side(width * x, y, -x, depth, height),
        _Side(width * x + depth * y, -x, -y, width, height),
        _Side(depth * y, -y, x, depth, height),
    ]


@dataclass(frozen=True)
class _Opening:
    """The rectangle of a door, window or board on a wall: from start to stop along it, from low to high above it."""

    name: str
    start: float
    stop: float
    low: float
    high: float


def _openings(rng: Rng, side: _Side, wanted: list[str]) -> list[_Opening]:
    """The wanted openings side by side along one wall, as many as fit."""
    openings = []
    at = rng.uniform(0.25, 0.6)
    for name in wanted:
        wide = {"door": rng.uniform(0.8, 1.1), "window": rng.uniform(0.8, 1.8), "board": rng.uniform(1.0, 2.2)}[name]
        if at + wide + 0.25 > side.length:
            break
        low = 0.0 if name == "door" else rng.uniform(0.8, 1.0)
        high = min(rng.uniform(1.95, 2.2), side.height - 0.35)
        openings.append(_Opening(name, at, at + wide, low, high))
        at += wide + rng.uniform(0.3, 0.9)
    return openings


def _fill(rng: Rng, side: _Side, hole: _Opening) -> Item:
    start, stop, low, high = hole.start, hole.stop, hole.low, hole.high
    if hole.name == "door":
        handle = side.slab(stop - 0.16, stop - 0.06, 0.98, 1.02, 0.06)
        return _item(rng, "door", [side.slab(start, stop, low, high, 0.04), handle])
    if hole.name == "board":
        tray = side.slab(start, stop, low, low + 0.03, 0.09)
        return _item(rng, "board", [side.slab(start, stop, low, high, 0.03), tray])
    bars = np.linspace(start + 0.03, stop - 0.03, int(rng.integers(2, 4)))
    frame = [side.slab(b - 0.03, b + 0.03, low, high, 0.05) for b in bars]
    frame += [side.slab(start, stop, z, z + 0.05, 0.07) for z in (low, high - 0.05)]
    return _item(rng, "window", [side.piece(start, stop, low, high, 0.01), joined(frame)])


def _wall(side: _Side, openings: list[_Opening]) -> Surface:
    """The wall around its doors and windows; behind a board, the wall continues."""
    pieces, at = [], 0.0
    for hole in (o for o in openings if o.name != "board"):
        pieces.append(side.piece(at, hole.start, 0, side.height))
        pieces.append(side.piece(hole.start, hole.stop, hole.high, side.height))
        if hole.low > 0:
            pieces.append(side.piece(hole.start, hole.stop, 0, hole.low))
        at = hole.stop
    return joined([*pieces, side.piece(at, side.length, 0, side.height)])


def _shell(rng: Rng, room: Room) -> None:
    """Add floor, ceiling, beams, and walls with their openings; keep the floor in front of openings free."""
    width, depth, height = room.size
    x, y, z = np.diag(room.size)
    room.shell.append(_item(rng, "floor", [_rectangle(np.zeros(3), x, y)]))
    room.shell.append(_item(rng, "ceiling", [_rectangle(z, x, y)]))
    wanted: list[list[str]] = [["door"], [], [], []]
    for name, least, most in (("window", 1, 4), ("board", 0, 2), ("door", 0, 1)):
        for _ in range(int(rng.integers(least, most + 1))):
            wanted[rng.integers(4)].append(name)
    for side, names in zip(_sides(room.size), (wanted[k] for k in rng.permutation(4)), strict=True):
        openings = _openings(rng, side, list(rng.permutation(names)))
        room.shell.append(_item(rng, "wall", [_wall(side, openings)]))
        for hole in openings:
            room.extras.append(_fill(rng, side, hole))
            before = side.slab(hole.start, hole.stop, 0, 1, 0.9 if hole.name == "door" else 0.1)
            room.taken.append(_footprint([before]))
    if rng.random() < 0.5:
        deep, wide, beams = rng.uniform(0.15, 0.3), rng.uniform(0.15, 0.35), int(rng.integers(1, 4))
        places = np.arange(1, beams + 1) * depth / (beams + 1)
        bars = [box((width, wide, deep), (width / 2, place, height - deep)) for place in places]
        room.shell.append(_item(rng, "beam", bars))


def _footprint(surfaces: Sequence[Surface]) -> np.ndarray:  # (2, 2): lower and upper corner, xy
    lower, upper = joined(surfaces).bounds()
    return np.stack([lower[:2], upper[:2]])


def _object(rng: Rng, kind: str, size: tuple[float, float, float]) -> list[Surface]:
    """An object of `shapes` scaled to a size in meters, with the middle of its bottom at the origin."""
    surfaces = [surface for surface, _ in build(kind, rng)]
    lower, upper = joined(surfaces).bounds()
    foot = np.array([(lower[0] + upper[0]) / 2, (lower[1] + upper[1]) / 2, lower[2]])
    return [surface.moved(-foot).scaled(np.array(size) / (upper - lower)) for surface in surfaces]


def _rotate_and_move(surfaces: Sequence[Surface], yaw: float, at: np.ndarray) -> list[Surface]:
    turn = rotation("z", yaw)
    return [surface.mapped(turn).moved((at[0], at[1], 0.0)) for surface in surfaces]


def _place(rng: Rng, room: Room, name: str, surfaces: list[Surface]) -> Item | None:
    """Add furniture in place, unless it is outside the room or too near another object."""
    foot = _footprint(surfaces)
    if (foot[0] < 0.01).any() or (foot[1] > room.size[:2] - 0.01).any():
        return None
    if any((foot[0] < other[1] + GAP).all() and (other[0] < foot[1] + GAP).all() for other in room.taken):
        return None
    room.taken.append(foot)
    item = _item(rng, name, surfaces)
    room.furniture.append(item)
    return item


def _place_freely(rng: Rng, room: Room, name: str, surfaces: list[Surface]) -> Item | None:
    for _ in range(PLACING_TRIES):
        yaw = rng.integers(4) * np.pi / 2 + rng.uniform(-0.1, 0.1)
        item = _place(rng, room, name, _rotate_and_move(surfaces, yaw, rng.uniform(0, 1, 2) * room.size[:2]))
        if item:
            return item
    return None


def _place_at_wall(rng: Rng, room: Room, name: str, surfaces: list[Surface]) -> Item | None:
    """Add furniture with its back (-y) to a wall."""
    back = -_footprint(surfaces)[0, 1]
    sides = _sides(room.size)
    for _ in range(PLACING_TRIES):
        side = sides[rng.integers(4)]
        yaw = np.arctan2(-side.inward[0], side.inward[1])
        at = side.corner + rng.uniform(0, side.length) * side.along + (back + rng.uniform(0.02, 0.2)) * side.inward
        item = _place(rng, room, name, _rotate_and_move(surfaces, yaw, at))
        if item:
            return item
    return None


def _dining(rng: Rng, room: Room) -> None:
    """Add a table, chairs that face it, and objects on top of it."""
    size = (rng.uniform(0.9, 2.0), rng.uniform(0.6, 1.1), rng.uniform(0.68, 0.78))
    table = _place_freely(rng, room, "table", _object(rng, "table", size))
    if table is None:
        return
    lower, upper = table.bounds()
    middle = (lower + upper) / 2
    for k in rng.permutation(4)[: int(rng.integers(1, 5))]:
        outward = np.array([np.cos(k * np.pi / 2), np.sin(k * np.pi / 2)])
        chair = _object(rng, "chair", _chair_size(rng))
        away = np.abs(outward) @ (upper - lower)[:2] / 2 + rng.uniform(0.38, 0.55)
        slide = rng.uniform(-0.2, 0.2) * outward[::-1]
        yaw = np.arctan2(outward[0], -outward[1]) + rng.uniform(-0.2, 0.2)
        _place(rng, room, "chair", _rotate_and_move(chair, yaw, middle[:2] + away * outward + slide))
    long_way = int(upper[1] - lower[1] > upper[0] - lower[0])
    for slot in rng.permutation([-0.25, 0.0, 0.25])[: int(rng.integers(0, 4))]:
        at = np.array([middle[0], middle[1], upper[2]])
        at[long_way] += slot * (upper - lower)[long_way]
        thing = [surface.moved(at) for surface in _small_object(rng, 0.18 * (upper - lower)[long_way])]
        room.extras.append(_item(rng, "clutter", thing))


def _chair_size(rng: Rng) -> tuple[float, float, float]:
    return rng.uniform(0.42, 0.55), rng.uniform(0.42, 0.58), rng.uniform(0.8, 1.05)


def _small_object(rng: Rng, wide: float) -> list[Surface]:
    kind = str(rng.choice(["laptop", "mug", "bottle", "lamp", "teapot", "plant", "box"]))
    if kind == "box":
        return [box((wide, rng.uniform(0.1, 0.3), rng.uniform(0.04, 0.25)))]
    tall = {"laptop": 0.25, "mug": 0.11, "bottle": 0.28, "lamp": 0.45, "teapot": 0.18, "plant": 0.35}[kind]
    broad = min(wide, {"laptop": 0.36, "mug": 0.12, "bottle": 0.09, "lamp": 0.28, "teapot": 0.25, "plant": 0.28}[kind])
    surfaces = _object(rng, kind, (broad, broad, tall * rng.uniform(0.8, 1.2)))
    return _rotate_and_move(surfaces, rng.uniform(-0.5, 0.5), np.zeros(2))


def _floor_clutter(rng: Rng) -> list[Surface]:
    kind = str(rng.choice(["plant", "lamp", "bucket", "box", "guitar"]))
    if kind == "box":
        return [box(rng.uniform(0.25, 0.6, 3))]
    wide = rng.uniform(0.3, 0.5)
    tall = {"plant": 0.9, "lamp": 1.6, "bucket": 0.4, "guitar": 1.0}[kind] * rng.uniform(0.8, 1.1)
    return _object(rng, kind, (wide, 0.3 * wide if kind == "guitar" else wide, tall))


def furnish(rng: Rng) -> Room:
    """A random room with its content. Large furniture is placed first; objects that do not fit are left out."""
    room = Room(np.array([rng.uniform(3.2, 8.0), rng.uniform(3.2, 7.0), rng.uniform(2.5, 3.4)]))
    _shell(rng, room)
    for _ in range(int(rng.integers(0, 3))):
        thick = rng.uniform(0.3, 0.5)
        _place_at_wall(rng, room, "column", [box((thick, thick * rng.uniform(0.7, 1.3), room.size[2]))])
    for _ in range(int(rng.integers(0, 3))):
        size = (rng.uniform(1.3, 2.3), rng.uniform(0.75, 0.95), rng.uniform(0.7, 0.9))
        _place_at_wall(rng, room, "sofa", _object(rng, "sofa", size))
    for _ in range(int(rng.integers(0, 4))):
        size = (rng.uniform(0.7, 1.3), rng.uniform(0.28, 0.4), rng.uniform(1.0, 2.0))
        _place_at_wall(rng, room, "bookcase", _object(rng, "bookcase", size))
    for _ in range(int(rng.integers(1, 4))):
        _dining(rng, room)
    for _ in range(int(rng.integers(0, 3))):
        _place_freely(rng, room, "chair", _object(rng, "chair", _chair_size(rng)))
    for _ in range(int(rng.integers(1, 5))):
        _place_freely(rng, room, "clutter", _floor_clutter(rng))
    return room


def make_room(rng: Rng, points: int) -> tuple[np.ndarray, np.ndarray]:  # (P, 6) float32, (P,) int64
    """Sample a random room: points (x, y, z, red, green, blue), and the class of each.

    >>> points, labels = make_room(np.random.default_rng(0), points=4096)
    >>> points.shape, CLASSES[labels.min()]
    ((4096, 6), 'ceiling')
    """
    check_size("points", points, least=1)
    room = furnish(rng)
    surfaces = [surface for item in room.items() for surface in item.surfaces]
    labels = np.array([CLASSES.index(item.name) for item in room.items() for _ in item.surfaces])  # (S,)
    colors = np.array([color for item in room.items() for color in item.colors])  # (S, 3)
    xyz, surface = sample([(s, k) for k, s in enumerate(surfaces)], points, rng)
    rgb = np.clip(colors[surface] + rng.normal(0, COLOR_NOISE, (points, 3)), 0, 1)
    return np.hstack([xyz, rgb]).astype(np.float32), labels[surface]


def rooms(train: int = 64, test: int = 16, points: int = 16384, seed: int = 0) -> PointClouds:
    """The data set with one room per cloud; its points are labeled.

    >>> data = rooms(train=2, test=1, points=512)
    >>> data.train.points.shape, data.point_classes[:3]
    ((2, 512, 6), ('ceiling', 'floor', 'wall'))
    """
    splits = generated_splits(
        "rooms", (VERSION,), (train, test), (points, 6), seed, 1, lambda _, rng: make_room(rng, points)
    )
    return PointClouds("rooms", ("room",), *splits, CLASSES)


def room_blocks(points: int) -> PointClouds:
    """The data set as a network learns it: blocks of at least 1024 points with 9 channels, as described in `blocks`."""
    points = max(1024, points)
    splits = [
        cached("room-blocks", (VERSION, DENSE, points, name), lambda name=name: _cut(name, points))
        for name in ("train", "test")
    ]
    train, test = (Split(cut["points"], np.zeros(len(cut["points"]), np.int64), cut["labels"]) for cut in splits)
    return PointClouds("rooms", ("room",), train, test, CLASSES, blocks=ROOM)


def _cut(name: str, points: int) -> dict[str, np.ndarray]:
    split: Split = getattr(rooms(points=DENSE), name)
    rng, cut, labels = np.random.default_rng(0), [], []
    assert split.point_labels is not None
    for room, own in zip(split.points, split.point_labels, strict=True):
        blocks = grid_blocks(Columns.of(ROOM, room[:, :3], room[:, 3:], "rooms"), points, rng)
        cut.append(blocks.points)
        labels.append(own[blocks.index])
    return {"points": np.concatenate(cut), "labels": np.concatenate(labels)}
