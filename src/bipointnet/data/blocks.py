"""Rooms and scans as blocks: square columns that a network labels one by one, as in PointNet (arXiv 1612.00593).

A `BlockLayout` has the side of a block and the channels of a point. Lengths in a block are divided by its side, so that
one network fits blocks of any size. Scans are in meters, z up. core/src/scan/blocks.cpp is the same in C++, bit for
bit.

| channel | value |
|---|---|
| x, y | from the lowest x and y in the block, minus a half: -0.5 to 0.5 |
| z | from the lowest point of the scan |
| height | from the ground: the lowest cell in and around the block, where one in 20 points of a cell may lie lower |
| red, green, blue | from 0 to 1 |
| intensity, ... | a column of the file, divided by a scale and clamped to -1 to 1 |
| x/size, y/size, z/size | from the lowest corner of the scan, as fractions of its size |
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data.clouds import Cloud, require_finite
from bipointnet.data.shuffle import ranks
from bipointnet.errors import UserError

COLORS = ("red", "green", "blue")
PLACES = ("x", "y", "z", "height", "x/size", "y/size", "z/size")
FEWEST = 100  # points per block to learn from, as in PointNet; blocks with fewer are mere edges of objects
_WIDEST = 1000  # blocks; a wider scan is probably in other units
_OUTLIERS = 20  # one in so many points of a cell may lie below the ground
_BEFORE, _BEHIND = 2, 3  # the cells around a block in which its ground is sought


@dataclass(frozen=True)
class BlockLayout:
    """How a scan is cut into blocks.

    Attributes:
        side: of a block, in meters.
        channels: their names, x and y first, then z or height; a name that is not in the table above is a column of the
            file.
        scales: what each column of the file is divided by; colors and lengths have none.

    >>> layout = BlockLayout(20, ("x", "y", "height", "intensity"), {"intensity": 3000.0})
    >>> layout.features
    ('intensity',)
    >>> BlockLayout.from_json(layout.as_json()) == layout
    True
    """

    side: float
    channels: tuple[str, ...]
    scales: "dict[str, float]"

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The channels that a file must have beside coordinates."""
        return tuple(name for name in self.channels if name not in PLACES)

    @property
    def cell(self) -> np.float32:
        """The side of a cell, so that both a block and the step between overlapping blocks are whole cells."""
        return np.float32(self.side) / np.float32(2)

    def as_json(self) -> dict[str, Any]:
        """As in the manifest of a packed model: docs/format.md, "Blocks"."""
        channels = [
            {"field": name, "scale": self.scales[name]} if name in self.scales else name for name in self.channels
        ]
        return {"side": self.side, "unit": "m", "up": "z", "channels": channels}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "BlockLayout":
        fields = {item["field"]: float(item["scale"]) for item in value["channels"] if isinstance(item, dict)}
        names = tuple(item["field"] if isinstance(item, dict) else str(item) for item in value["channels"])
        return cls(float(value["side"]), names, fields)

    def read(self, cloud: Cloud, source: str | Path) -> np.ndarray:
        """The features of a cloud, (N, F) float32; UserError if it has not all of them."""
        columns = [_column(cloud, name, source) for name in self.features]
        return np.stack(columns, axis=1).astype(np.float32) if columns else np.empty((len(cloud.points), 0), np.float32)


ROOM = BlockLayout(1.0, ("x", "y", "z", *COLORS, "x/size", "y/size", "z/size"), {})  # as in PointNet, for S3DIS


def _column(cloud: Cloud, name: str, source: str | Path) -> np.ndarray:
    """One feature of each point, (N,)."""
    if name in COLORS:
        if cloud.colors is None:
            raise UserError(
                f"{source}: holds no colors, which the network reads; expected red, green and blue per point; for "
                "clouds without colors use a network that was trained without them"
            )
        return cloud.colors[:, COLORS.index(name)]
    if name not in cloud.fields:
        found = ", ".join(cloud.fields) or "no columns beside coordinates and colors"
        raise UserError(
            f"{source}: holds no column {name}, which the network reads; found {found}; use a network that was trained "
            "without it"
        )
    return cloud.fields[name]


@dataclass(frozen=True)
class Blocks:
    """Blocks of one scan.

    Attributes:
        points: (B, P, C) float32.
        index: (B, P) int64, the index of each point in the scan.
        votes: (B, P) bool, False for a point that only fills the block and votes in another one.
        corners: (B, 2) int64, the lowest cell (x, y) of each block.
    """

    points: np.ndarray
    index: np.ndarray
    votes: np.ndarray
    corners: np.ndarray

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Columns:
    """A scan whose points are sorted by cells of half a side, so that a block consists of a few ranges of points.

    Attributes:
        layout: the side of blocks and their channels.
        xyz: (N, 3) float32, relative to the scan's lowest corner.
        features: (N, F) float32, scaled.
        size: (3,) float32, the maximum of xyz.
        shape: the number of cells along x and along y.
        order: (N,) int64, the points sorted by cell.
        cells: (N,) int64, the cell of each point in that order, ascending: x times shape[1] plus y.

    >>> scan = np.random.default_rng(0).uniform(0, 3, (10_000, 3))
    >>> columns = Columns.of(BlockLayout(1.0, ("x", "y", "z"), {}), scan, np.empty((10_000, 0)), "a scan")
    >>> grid_blocks(columns, 1024, np.random.default_rng(0)).points.shape
    (9, 1024, 3)
    """

    layout: BlockLayout
    xyz: np.ndarray
    features: np.ndarray
    size: np.ndarray
    shape: tuple[int, int]
    order: np.ndarray
    cells: np.ndarray

    @classmethod
    def of(cls, layout: BlockLayout, xyz: np.ndarray, features: np.ndarray, source: str | Path) -> "Columns":
        """Sort a scan: points (N, 3) and features (N, F) as `layout.read` has them; `source` names it in errors."""
        _check(layout, xyz, features, source)
        relative = (xyz - xyz.min(axis=0).astype(np.float64)).astype(np.float32)
        size = relative.max(axis=0)
        widest = _WIDEST * np.float32(layout.side)
        if size.max() > widest:
            raise UserError(
                f"{source}: is {size.max():.0f} m wide, expected at most {widest:g} m; scale it to meters, cut it, or "
                f"use larger blocks than {layout.side:g} m"
            )
        across, along = (max(1, int(np.ceil(extent / layout.cell))) for extent in size[:2])
        # The last cell includes its far edge; otherwise points on the edge would need a cell of their own.
        x, y = np.minimum(np.floor(relative[:, :2] / layout.cell).astype(np.int64), (across - 1, along - 1)).T
        cells = x * along + y
        order = np.argsort(cells, kind="stable")
        scaled = features.astype(np.float32)
        if layout.scales:
            scales = np.array([layout.scales.get(name, 1) for name in layout.features], np.float32)
            scaled = np.clip(scaled / scales, np.float32(-1), np.float32(1))
        return cls(layout, relative, scaled, size, (across, along), order, cells[order])

    def inside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The points in the cells from `low` (x, y) to `high`, both inclusive."""
        rows = np.arange(low[0], high[0] + 1) * self.shape[1]
        starts = np.searchsorted(self.cells, rows + low[1], "left")
        stops = np.searchsorted(self.cells, rows + high[1], "right")
        return np.concatenate([self.order[start:stop] for start, stop in zip(starts, stops, strict=True)])

    @cached_property
    def ground(self) -> np.ndarray:
        """(shape) float32, the height of the ground around the block that begins at each cell."""
        by_height = np.lexsort((self.xyz[self.order, 2], self.cells))
        numbers, starts, counts = np.unique(self.cells, return_index=True, return_counts=True)
        grid = np.full(self.shape, np.inf, np.float32)
        grid.flat[numbers] = self.xyz[self.order[by_height[starts + counts // _OUTLIERS]], 2]
        for axis in (0, 1):
            around = [(0, 0), (0, 0)]
            around[axis] = (_BEFORE, _BEHIND)
            padded = np.pad(grid, around, constant_values=np.inf)
            windows = np.lib.stride_tricks.sliding_window_view(padded, 1 + _BEFORE + _BEHIND, axis)
            grid = windows.min(axis=-1)
        return grid


def _check(layout: BlockLayout, xyz: np.ndarray, features: np.ndarray, source: str | Path) -> None:
    if xyz.ndim != 2 or xyz.shape[1] != 3:
        raise UserError(f"{source}: is an array of shape {xyz.shape}, expected (points, 3); leave out other columns")
    if len(xyz) == 0:
        raise UserError(f"{source}: holds no points, expected at least one; leave it out")
    require_finite(xyz, source)
    for name, values in zip(layout.features, features.T, strict=True):
        if name in COLORS and (values.min() < 0 or values.max() > 1):
            raise UserError(
                f"{source}: has {name} from {values.min():g} to {values.max():g}, expected 0 to 1; divide it by 255"
            )
        if not np.isfinite(values).all():
            raise UserError(f"{source}: has {name} that is NaN or infinite, expected finite numbers; correct the file")


def grid_blocks(
    columns: Columns,
    points: int,
    rng: np.random.Generator,
    step: int = 2,
    chosen: Callable[[np.ndarray], np.ndarray] | None = None,
    fewest: int = FEWEST,
) -> Blocks:
    """Cut a scan into blocks to learn from, each with `points` points, some repeated if it has fewer.

    Blocks with less than `fewest` points are left out, unless there are no others.

    Args:
        step: cells between blocks: 2 for adjacent blocks, 1 for overlapping ones.
        chosen: maps the lowest cells (W, 2) of blocks to bool (W,): those to cut.
    """
    corners = _corners(columns, step)
    if chosen is not None:
        corners = corners[chosen(corners)]
    whole = [columns.inside(corner, _far(columns, corner)) for corner in corners]
    fewest = min(fewest, max(map(len, whole), default=0))
    kept = [(corner, inside) for corner, inside in zip(corners, whole, strict=True) if len(inside) >= fewest]
    return _drawn(columns, kept, points, rng)


def cover(columns: Columns, points: int, batch: int, rank: np.ndarray | None = None) -> Iterator[Blocks]:
    """Overlapping blocks every half side, at most `batch` at a time, in which every point has one vote or more.

    A column with more than `points` points becomes several blocks, each with points from all over the column. The same
    scan gives the same blocks.

    rank: of each point, (N,) uint64, if the columns are a part of a larger scan; default: as in `shuffle.ranks`.
    """
    rows = _covering_rows(columns, points, ranks(len(columns.xyz)) if rank is None else rank)
    while chunk := list(islice(rows, batch)):
        yield _blocks(columns, *zip(*chunk, strict=True))


def cover_size(columns: Columns, points: int) -> int:
    """The number of blocks that `cover` will yield."""
    sizes = [len(columns.inside(corner, _far(columns, corner))) for corner in _corners(columns, step=1)]
    return sum(-(-size // points) for size in sizes)


def add_votes(totals: np.ndarray, blocks: Blocks, scores: np.ndarray) -> None:
    """Add a network's scores for the points of blocks, (B, P, K), to the totals of the scan, (N, K)."""
    for index, votes, score in zip(blocks.index, blocks.votes, scores, strict=True):
        totals[index[votes]] += score[votes]  # a point votes once per block, so no sum is lost


def _corners(columns: Columns, step: int) -> np.ndarray:
    """(W, 2): the lowest cell (x, y) of each block that has points; blocks are `step` cells apart."""
    across, along = columns.shape
    x, y = np.divmod(np.unique(columns.cells), along)
    if step == 2:
        x, y = x - x % 2, y - y % 2
    else:
        # A cell is in the block that begins there and in those that begin one cell before. No block crosses an edge.
        x, y = np.stack([x, x - 1, x, x - 1]), np.stack([y, y, y - 1, y - 1])
        x, y = np.clip(x, 0, max(across - 2, 0)), np.clip(y, 0, max(along - 2, 0))
    return np.stack(np.divmod(np.unique(x * along + y), along), axis=1)


def _far(columns: Columns, corner: np.ndarray) -> np.ndarray:
    """The highest cell of the block that begins at a cell."""
    return np.minimum(corner + 1, np.array(columns.shape) - 1)


def _drawn(
    columns: Columns, columns_of_points: Sequence[tuple[np.ndarray, np.ndarray]], points: int, rng: np.random.Generator
) -> Blocks:
    """One block per lowest cell and its points."""
    rows = [
        (corner, np.resize(rng.permutation(inside), points), np.arange(points) < len(inside), _lowest(columns, inside))
        for corner, inside in columns_of_points
    ]
    if not rows:
        empty = np.empty((0, points), np.int64)
        shape = (0, points, len(columns.layout.channels))
        return Blocks(np.empty(shape, np.float32), empty, empty.astype(bool), np.empty((0, 2), np.int64))
    return _blocks(columns, *zip(*rows, strict=True))


def _covering_rows(
    columns: Columns, points: int, rank: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """One shuffle serves all blocks."""
    for corner in _corners(columns, step=1):
        inside = columns.inside(corner, _far(columns, corner))
        shuffled = inside[np.argsort(rank[inside])]
        lowest = _lowest(columns, inside)
        count = -(-len(inside) // points)
        index = np.resize(shuffled, (count, points))  # the last block is filled with points of the others
        votes = np.arange(count * points).reshape(count, points) < len(inside)
        for row in range(count):
            yield corner, index[row], votes[row], lowest


def _lowest(columns: Columns, inside: np.ndarray) -> np.ndarray:
    return columns.xyz[inside, :2].min(axis=0)


def _blocks(
    columns: Columns,
    corners: Iterable[np.ndarray],
    index: Iterable[np.ndarray],
    votes: Iterable[np.ndarray],
    lowest: Iterable[np.ndarray],
) -> Blocks:
    at, chosen = np.stack(list(corners)), np.stack(list(index))
    channels = _channels(columns, at, chosen, np.stack(list(lowest)))
    return Blocks(channels, chosen, np.stack(list(votes)), at)


def _channels(columns: Columns, corners: np.ndarray, index: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """(B, P, C) for blocks at corners (B, 2) with points (B, P) and their lowest x and y (B, 2)."""
    layout, side = columns.layout, np.float32(columns.layout.side)
    xyz = columns.xyz[index]  # (B, P, 3)
    features = columns.features[index]  # (B, P, F)
    size = np.where(columns.size > 0, columns.size, np.float32(1))
    channels = np.empty((*index.shape, len(layout.channels)), np.float32)
    for place, name in enumerate(layout.channels):
        if name in ("x", "y"):
            axis = PLACES.index(name)
            # Three steps, so that the minimum is exactly -0.5.
            value = (xyz[..., axis] - lowest[:, None, axis]) / side - np.float32(0.5)
        elif name == "z":
            value = xyz[..., 2] / side
        elif name == "height":
            value = (xyz[..., 2] - columns.ground[tuple(corners.T)][:, None]) / side
        elif name in PLACES:
            axis = PLACES.index(name) - PLACES.index("x/size")
            value = xyz[..., axis] / size[axis]
        else:
            value = features[..., layout.features.index(name)]
        channels[..., place] = value
    return channels
