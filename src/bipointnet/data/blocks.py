"""Rooms and scans as blocks: columns of 1 m x 1 m that a network labels one by one, as in PointNet (arXiv 1612.00593).

Each point of a block has 6 or 9 channels: x, y, z; red, green, blue in 0 to 1, if the scan has colors; and x, y, z as
fractions of the scan's size. The first x and y are centered: their minimum in the block is -0.5. The first z is the
height above the scan's lowest point, the floor. Lengths are in meters, z is up.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from bipointnet.data.clouds import require_finite
from bipointnet.data.shuffle import ranks
from bipointnet.errors import UserError

# One block: its points (P,), which of them vote (P,), and the minimum of x and y in its column (2,).
_Row = tuple[np.ndarray, np.ndarray, np.ndarray]

SIDE = 1.0
_CELL = SIDE / 2  # so that both a block and the step between overlapping blocks are whole cells
_FEWEST = 100  # points per block to learn from, as in PointNet; blocks with fewer are mere edges of objects
_WIDEST = 1000  # meters; a wider scan is probably in other units


@dataclass(frozen=True)
class Blocks:
    """Blocks of one scan.

    Attributes:
        points: (B, P, 6 or 9) float32.
        index: (B, P) int64, the index of each point in the scan.
        votes: (B, P) bool, False for a point that only fills the block and votes in another one.
    """

    points: np.ndarray
    index: np.ndarray
    votes: np.ndarray

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Columns:
    """A scan whose points are sorted by cells of half a meter, so that a block consists of a few ranges of points.

    Attributes:
        xyz: (N, 3) float32, relative to the scan's lowest corner.
        rgb: (N, 3) float32, or (N, 0) without colors.
        size: (3,) float32, the maximum of xyz.
        shape: the number of cells along x and along y.
        order: (N,) int64, the points sorted by cell.
        cells: (N,) int64, the cell of each point in that order, ascending: x times shape[1] plus y.

    >>> scan = np.random.default_rng(0).uniform(0, 3, (10_000, 3))
    >>> blocks = grid_blocks(Columns.of(scan, "a scan"), 1024, np.random.default_rng(0))
    >>> blocks.points.shape
    (9, 1024, 6)
    """

    xyz: np.ndarray
    rgb: np.ndarray
    size: np.ndarray
    shape: tuple[int, int]
    order: np.ndarray
    cells: np.ndarray

    @classmethod
    def of(cls, scan: np.ndarray, source: str | Path) -> "Columns":
        """Sort a scan (N, 3 or 6): xyz and optionally rgb in 0 to 1; `source` names it in errors."""
        _check(scan, source)
        xyz = (scan[:, :3] - scan[:, :3].min(axis=0).astype(np.float64)).astype(np.float32)
        size = xyz.max(axis=0)
        if size.max() > _WIDEST:
            raise UserError(
                f"{source}: is {size.max():.0f} m wide, expected at most {_WIDEST} m; scale it to meters, or cut it"
            )
        across, along = (max(1, int(np.ceil(extent / _CELL))) for extent in size[:2])
        # The last cell includes its far edge; otherwise points on the edge would need a cell of their own.
        x, y = np.minimum(np.floor(xyz[:, :2] / _CELL).astype(np.int64), (across - 1, along - 1)).T
        cells = x * along + y
        order = np.argsort(cells, kind="stable")
        return cls(xyz, scan[:, 3:].astype(np.float32), size, (across, along), order, cells[order])

    def inside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The points in the cells from `low` (x, y) to `high`, both inclusive."""
        rows = np.arange(low[0], high[0] + 1) * self.shape[1]
        starts = np.searchsorted(self.cells, rows + low[1], "left")
        stops = np.searchsorted(self.cells, rows + high[1], "right")
        return np.concatenate([self.order[start:stop] for start, stop in zip(starts, stops, strict=True)])


def _check(scan: np.ndarray, source: str | Path) -> None:
    if scan.ndim != 2 or scan.shape[1] not in (3, 6):
        raise UserError(
            f"{source}: is an array of shape {scan.shape}, expected (points, 3) or, with colors, (points, 6); leave out"
            " the other columns"
        )
    if len(scan) == 0:
        raise UserError(f"{source}: holds no points, expected at least one; leave it out")
    require_finite(scan, source)
    rgb = scan[:, 3:]
    if rgb.size and (rgb.min() < 0 or rgb.max() > 1):
        raise UserError(
            f"{source}: has colors from {rgb.min():g} to {rgb.max():g}, expected 0 to 1; divide them by 255"
        )


def grid_blocks(columns: Columns, points: int, rng: np.random.Generator) -> Blocks:
    """Cut a scan into adjacent blocks to learn from, each with `points` points, some repeated if it has fewer.

    Blocks with less than 100 points are left out, unless there are no others.
    """
    whole = [columns.inside(corner, _far(columns, corner)) for corner in _corners(columns, step=2)]
    fewest = min(_FEWEST, max(map(len, whole)))
    return _drawn(columns, (inside for inside in whole if len(inside) >= fewest), points, rng)


def cover(columns: Columns, points: int, batch: int) -> Iterator[Blocks]:
    """Overlapping blocks every half meter, at most `batch` at a time, in which every point has one vote or more.

    A column with more than `points` points becomes several blocks, each with points from all over the column. The same
    scan gives the same blocks.
    """
    rows = _covering_rows(columns, points)
    while chunk := list(islice(rows, batch)):
        yield _blocks(columns, chunk)


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


def _drawn(columns: Columns, each_inside: Iterable[np.ndarray], points: int, rng: np.random.Generator) -> Blocks:
    """One block per set of points."""
    rows = [
        (np.resize(rng.permutation(inside), points), np.arange(points) < len(inside), _lowest(columns, inside))
        for inside in each_inside
    ]
    return _blocks(columns, rows)


def _covering_rows(columns: Columns, points: int) -> Iterator[_Row]:
    rank = ranks(len(columns.xyz))  # one shuffle serves all blocks
    for corner in _corners(columns, step=1):
        inside = columns.inside(corner, _far(columns, corner))
        shuffled = inside[np.argsort(rank[inside])]
        lowest = _lowest(columns, inside)
        count = -(-len(inside) // points)
        index = np.resize(shuffled, (count, points))  # the last block is filled with points of the others
        votes = np.arange(count * points).reshape(count, points) < len(inside)
        for row in range(count):
            yield index[row], votes[row], lowest


def _lowest(columns: Columns, inside: np.ndarray) -> np.ndarray:
    return columns.xyz[inside, :2].min(axis=0)


def _blocks(columns: Columns, rows: list[_Row]) -> Blocks:
    index, votes, lowest = (np.stack(each) for each in zip(*rows, strict=True))
    xyz = columns.xyz[index]  # (B, P, 3)
    share = xyz / np.where(columns.size > 0, columns.size, 1)
    xyz[..., :2] -= lowest[:, None]  # two steps, so that the minimum is exactly -0.5
    xyz[..., :2] -= SIDE / 2
    return Blocks(np.concatenate([xyz, columns.rgb[index], share], axis=-1), index, votes)
