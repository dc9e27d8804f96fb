"""Rooms and scans as blocks: columns of 1 m x 1 m, each given to a network by itself, in the form of PointNet.

A point of a block is x, y, z; red, green, blue in 0 to 1, if the scan has colors; and x, y, z as shares of the scan's
size. The first x and y are centred: the block's least x and y lie at -0.5. The first z counts from the scan's lowest
point, the floor. Lengths are metres, z is up.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from bipointnet.data.clouds import require_finite
from bipointnet.errors import UserError

# One block: which points (P,), which of them vote (P,), and the least x and y of its column (2,).
_Row = tuple[np.ndarray, np.ndarray, np.ndarray]

SIDE = 1.0
_CELL = SIDE / 2  # so that both a block and the step between overlapping blocks are whole cells
_FEWEST = 100  # points of a block to learn from, as in PointNet; with fewer it is the edge of something
_WIDEST = 1000  # metres; a scan that is wider is in other units


@dataclass(frozen=True)
class Blocks:
    """Blocks of one scan.

    points: (B, P, 6 or 9) float32.
    index: (B, P) int64, which of the scan's points each is.
    votes: (B, P) bool, False where a point is there only to fill the block and has its vote elsewhere.
    """

    points: np.ndarray
    index: np.ndarray
    votes: np.ndarray

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Columns:
    """A scan whose points are sorted by cells of half a metre, so that a block is a few runs of them.

    xyz: (N, 3) float32, from the scan's lowest corner.
    rgb: (N, 3) float32, or (N, 0) without colors.
    size: (3,) float32, the greatest xyz.
    shape: cells along x and along y.
    order: (N,) int64, the points by cells.
    cells: (N,) int64, the cell of each point in that order, ascending: x times shape[1] plus y.
    """

    xyz: np.ndarray
    rgb: np.ndarray
    size: np.ndarray
    shape: tuple[int, int]
    order: np.ndarray
    cells: np.ndarray

    @classmethod
    def of(cls, scan: np.ndarray, source: str | Path) -> "Columns":
        """The columns of a scan (N, 3 or 6): xyz and perhaps rgb in 0 to 1; `source` names it in errors."""
        _check(scan, source)
        xyz = (scan[:, :3] - scan[:, :3].min(axis=0).astype(np.float64)).astype(np.float32)
        size = xyz.max(axis=0)
        if size.max() > _WIDEST:
            raise UserError(
                f"{source}: is {size.max():.0f} m wide where at most {_WIDEST} m are expected; scale it to metres, or"
                " cut it"
            )
        across, along = (max(1, int(np.ceil(extent / _CELL))) for extent in size[:2])
        # The last cell includes its far edge, else the points there would need a cell of their own.
        x, y = np.minimum(np.floor(xyz[:, :2] / _CELL).astype(np.int64), (across - 1, along - 1)).T
        cells = x * along + y
        order = np.argsort(cells, kind="stable")
        return cls(xyz, scan[:, 3:].astype(np.float32), size, (across, along), order, cells[order])

    def inside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The points in the cells from `low` (x, y) to `high`, both included."""
        rows = np.arange(low[0], high[0] + 1) * self.shape[1]
        starts = np.searchsorted(self.cells, rows + low[1], "left")
        stops = np.searchsorted(self.cells, rows + high[1], "right")
        return np.concatenate([self.order[start:stop] for start, stop in zip(starts, stops, strict=True)])


def _check(scan: np.ndarray, source: str | Path) -> None:
    if scan.ndim != 2 or scan.shape[1] not in (3, 6):
        raise UserError(
            f"{source}: is an array of shape {scan.shape} where (points, 3) or, with colors, (points, 6) is expected;"
            " leave out the other columns"
        )
    if len(scan) == 0:
        raise UserError(f"{source}: holds no points where at least one is expected; leave it out")
    require_finite(scan, source)
    rgb = scan[:, 3:]
    if rgb.size and (rgb.min() < 0 or rgb.max() > 1):
        raise UserError(
            f"{source}: has colors from {rgb.min():g} to {rgb.max():g} where 0 to 1 are expected; divide them by 255"
        )


def grid_blocks(columns: Columns, points: int, rng: np.random.Generator) -> Blocks:
    """Blocks side by side to learn from, each with `points` of its points, some twice where it has fewer.

    Blocks of less than 100 points are left out, unless there are no others.
    """
    whole = [columns.inside(corner, _far(columns, corner)) for corner in _corners(columns, step=2)]
    fewest = min(_FEWEST, max(map(len, whole)))
    return _drawn(columns, (inside for inside in whole if len(inside) >= fewest), points, rng)


def cover(columns: Columns, points: int, batch: int) -> Iterator[Blocks]:
    """Blocks every half metre, at most `batch` at a time, in which every point of the scan has one vote or more.

    A column with more than `points` points becomes several blocks, in each of which points from all over it stand.
    The same scan gives the same blocks.
    """
    rows = _covering_rows(columns, points)
    while chunk := list(islice(rows, batch)):
        yield _blocks(columns, chunk)


def cover_size(columns: Columns, points: int) -> int:
    """How many blocks `cover` gives, before it has made any."""
    sizes = [len(columns.inside(corner, _far(columns, corner))) for corner in _corners(columns, step=1)]
    return sum(-(-size // points) for size in sizes)


def add_votes(totals: np.ndarray, blocks: Blocks, scores: np.ndarray) -> None:
    """Adds the scores (B, P, K) that a network gives a block's points to the scan's totals (N, K)."""
    for index, votes, score in zip(blocks.index, blocks.votes, scores, strict=True):
        totals[index[votes]] += score[votes]  # a point votes once a block, so no sum is lost


def _corners(columns: Columns, step: int) -> np.ndarray:
    """(W, 2): the lowest cells (x, y) of all blocks, `step` cells apart, that have points."""
    across, along = columns.shape
    x, y = np.divmod(np.unique(columns.cells), along)
    if step == 2:
        x, y = x - x % 2, y - y % 2
    else:
        # A cell is in the block that begins there and in those that begin before; none reaches over an edge.
        x, y = np.stack([x, x - 1, x, x - 1]), np.stack([y, y, y - 1, y - 1])
        x, y = np.clip(x, 0, max(across - 2, 0)), np.clip(y, 0, max(along - 2, 0))
    return np.stack(np.divmod(np.unique(x * along + y), along), axis=1)


def _far(columns: Columns, corner: np.ndarray) -> np.ndarray:
    """The highest cell of the block that begins at a cell."""
    return np.minimum(corner + 1, np.array(columns.shape) - 1)


def _drawn(columns: Columns, each_inside: Iterable[np.ndarray], points: int, rng: np.random.Generator) -> Blocks:
    """A block of each set of points."""
    rows = [
        (np.resize(rng.permutation(inside), points), np.arange(points) < len(inside), _lowest(columns, inside))
        for inside in each_inside
    ]
    return _blocks(columns, rows)


def _covering_rows(columns: Columns, points: int) -> Iterator[_Row]:
    rank = np.random.default_rng(0).permutation(len(columns.xyz))  # one shuffle serves all blocks
    for corner in _corners(columns, step=1):
        inside = columns.inside(corner, _far(columns, corner))
        shuffled = inside[np.argsort(rank[inside])]
        lowest = _lowest(columns, inside)
        count = -(-len(inside) // points)
        index = np.resize(shuffled, (count, points))  # what the last one lacks comes from the others
        votes = np.arange(count * points).reshape(count, points) < len(inside)
        for row in range(count):
            yield index[row], votes[row], lowest


def _lowest(columns: Columns, inside: np.ndarray) -> np.ndarray:
    return columns.xyz[inside, :2].min(axis=0)


def _blocks(columns: Columns, rows: list[_Row]) -> Blocks:
    index, votes, lowest = (np.stack(each) for each in zip(*rows, strict=True))
    xyz = columns.xyz[index]  # (B, P, 3)
    share = xyz / np.where(columns.size > 0, columns.size, 1)
    xyz[..., :2] -= lowest[:, None]  # in two steps, as then the least is exactly -0.5
    xyz[..., :2] -= SIDE / 2
    return Blocks(np.concatenate([xyz, columns.rgb[index], share], axis=-1), index, votes)
