"""The ground of a town: hills, streets, and a plan of the places that are taken. Lengths are in meters, z is up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bipointnet.data.rays import Body, Rod, Wire
from bipointnet.data.solids import Rng, rotation


@dataclass(frozen=True)
class Terrain:
    """Heights on a grid of 1 m, interpolated in between."""

    lower: np.ndarray  # (2,)
    heights: np.ndarray  # (X, Y)

    def at(self, xy: np.ndarray) -> np.ndarray:  # (...)
        """The heights at positions (..., 2); outside the grid, those of its edge."""
        place = np.clip(xy - self.lower, 0, np.array(self.heights.shape) - 1.001)
        cell = place.astype(int)
        (i, j), (x, y) = np.moveaxis(cell, -1, 0), np.moveaxis(place - cell, -1, 0)
        h = self.heights
        return (h[i, j] * (1 - x) + h[i + 1, j] * x) * (1 - y) + (h[i, j + 1] * (1 - x) + h[i + 1, j + 1] * x) * y

    def gradient(self, xy: np.ndarray, reach: float = 1.5) -> np.ndarray:  # (2,)
        steps = reach * np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
        east, west, north, south = self.at(xy + steps)
        return np.array([east - west, north - south]) / (2 * reach)

    def vertices(self) -> np.ndarray:  # (X, Y, 2)
        return np.stack(np.meshgrid(*(np.arange(n) for n in self.heights.shape), indexing="ij"), axis=-1) + self.lower


def make_terrain(rng: Rng, lower: np.ndarray, upper: np.ndarray) -> Terrain:
    """Hills: waves of 60 to 250 m in random directions, scaled to a slope of 4 to 14 % at the steepest place.

    >>> hills = make_terrain(np.random.default_rng(0), np.zeros(2), np.array([200.0, 100.0]))
    >>> hills.heights.shape, bool(np.ptp(hills.heights) > 1)
    ((201, 101), True)
    """
    terrain = Terrain(lower, np.zeros(np.ceil(upper - lower).astype(int) + 1))
    vertices, heights = terrain.vertices(), terrain.heights
    for length in np.geomspace(60.0, 250.0, 12):
        angle, phase = rng.uniform(0, 2 * np.pi, 2)
        wave = 2 * np.pi / length * np.array([np.cos(angle), np.sin(angle)])
        heights += rng.uniform(0.3, 1.0) * length**1.5 * np.sin(vertices @ wave + phase)
    steepest = np.hypot(*np.gradient(heights)).max()
    heights *= rng.uniform(0.04, 0.14) / steepest
    return Terrain(lower, heights - heights.min())


@dataclass(frozen=True)
class Street:
    """A strip about a line that sways; its own coordinates are meters along the line and across it."""

    middle: np.ndarray  # (2,)
    yaw: float
    shift: float  # of the line from the middle
    sway: float
    phase: float
    half_width: float

    SWAY_LENGTH = 160.0

    def _bend(self, along: np.ndarray) -> np.ndarray:
        return self.shift + self.sway * np.sin(2 * np.pi * along / self.SWAY_LENGTH + self.phase)

    def place(self, along: np.ndarray | float, across: np.ndarray | float) -> np.ndarray:  # (..., 2)
        along = np.asarray(along)
        return np.stack([along, self._bend(along) + across], axis=-1) @ rotation("z", -self.yaw)[:2, :2] + self.middle

    def coordinates(self, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Meters along and across the street of positions (..., 2)."""
        x, y = xy[..., 0] - self.middle[0], xy[..., 1] - self.middle[1]
        along = np.cos(self.yaw) * x + np.sin(self.yaw) * y
        return along, np.cos(self.yaw) * y - np.sin(self.yaw) * x - self._bend(along)

    def covers(self, xy: np.ndarray, around: float = 0.0) -> np.ndarray:  # (...) bool
        return np.abs(self.coordinates(xy)[1]) < self.half_width + around

    def heading(self, along: np.ndarray | float) -> np.ndarray:  # (...)
        turn = 2 * np.pi / self.SWAY_LENGTH
        return self.yaw + np.arctan(self.sway * turn * np.cos(turn * along + self.phase))


def make_streets(rng: Rng, middle: np.ndarray, span: float) -> list[Street]:
    """Streets side by side, the first through the middle of the tile, and streets across them."""
    yaw, streets = rng.uniform(0, np.pi), []
    spacing, first = rng.uniform(55, 75), rng.uniform(-12, 12)
    side_by_side = first + spacing * np.arange(-(span // spacing), span // spacing + 1)
    for shift in sorted(side_by_side, key=lambda shift: abs(shift - first)):
        sway = rng.uniform(0, 3.5)
        streets.append(Street(middle, yaw, shift, sway, rng.uniform(0, 6), rng.uniform(2.9, 4.0)))
    start = rng.uniform(-span, -span + 150)
    crossings = np.arange(start, span, rng.uniform(120, 180))
    half_widths = rng.uniform(2.7, 3.5, len(crossings))
    sides = zip(crossings, half_widths, strict=True)
    return streets + [Street(middle, yaw + np.pi / 2, shift, 0.0, 0.0, half_width) for shift, half_width in sides]


def grade(terrain: Terrain, streets: Sequence[Street]) -> Terrain:
    """Level the terrain across each street, with embankments of 4 m."""
    vertices = terrain.vertices()
    for street in streets:
        along, across = street.coordinates(vertices)
        share = np.clip(1 - (np.abs(across) - street.half_width - 0.7) / 4.0, 0, 1)
        share = share**2 * (3 - 2 * share)
        level = terrain.at(street.place(along, 0.0))
        terrain = Terrain(terrain.lower, terrain.heights * (1 - share) + level * share)
    return terrain


class Plot(NamedTuple):
    """A rectangle, or a disk if it has no yaw, of the plan."""

    center: np.ndarray  # (2,)
    half: np.ndarray  # (2,)
    yaw: float | None = None

    def covers(self, xy: np.ndarray, around: float) -> np.ndarray:  # (...) bool
        if self.yaw is None:
            return ((xy - self.center) ** 2).sum(axis=-1) <= (self.half[0] + around) ** 2
        along, across = np.moveaxis(np.abs((xy - self.center) @ rotation("z", self.yaw)[:2, :2]), -1, 0)
        return (along <= self.half[0] + around) & (across <= self.half[1] + around)


def disk(center: np.ndarray, radius: float) -> Plot:
    """A round plot."""
    return Plot(center, np.array([radius, radius]))


@dataclass(frozen=True)
class Plan:
    """Which places of the ground are taken, on a grid of half a meter."""

    lower: np.ndarray  # (2,)
    taken: np.ndarray  # (X, Y) bool

    CELL = 0.5

    def area(self) -> float:
        return self.taken.size * self.CELL**2

    @cached_property
    def cells(self) -> np.ndarray:  # (X, Y, 2): their centers
        rows, columns = (np.arange(count) + 0.5 for count in self.taken.shape)
        return np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1) * self.CELL + self.lower

    def contains(self, xy: np.ndarray) -> np.ndarray:  # (...) bool
        upper = self.lower + self.CELL * np.array(self.taken.shape)
        inside = (xy >= self.lower) & (xy <= upper)
        return inside[..., 0] & inside[..., 1]

    def claim(self, plots: Sequence[Plot], gap: float = 0.75) -> bool:
        """Take plots, unless the center of one is outside, or one is nearer to what is taken than about the gap.

        The error due to the cells is less than 0.41 m: with a gap of at least that, plots do not overlap on the grid.
        """
        if not all(self.contains(plot.center) for plot in plots):
            return False
        for plot in plots:
            window = self._window(plot, gap)
            if (self.taken[window] & plot.covers(self.cells[window], gap)).any():
                return False
        for plot in plots:
            self.take(plot)
        return True

    def take(self, plot: Plot) -> None:
        # Two plots overlap by at most the diagonal of a cell, 0.71 m, without a center of a cell in both.
        # The 0.3 m make up for a part of it, and let a thin object take at least one cell.
        window = self._window(plot, 0.3)
        self.taken[window] |= plot.covers(self.cells[window], 0.3)

    def _window(self, plot: Plot, gap: float) -> tuple[slice, slice]:
        reach = float(np.hypot(*plot.half)) + gap
        low = np.maximum(np.floor((plot.center - reach - self.lower) / self.CELL), 0).astype(int)
        high = np.maximum(np.ceil((plot.center + reach - self.lower) / self.CELL), 0).astype(int)
        return slice(low[0], high[0]), slice(low[1], high[1])


@dataclass(frozen=True)
class Town:
    """Terrain, streets (the first is the main street), and what stands on the ground of a tile and around it."""

    middle: np.ndarray  # (2,): of the tile
    span: float  # meters from the middle to the farthest place
    terrain: Terrain
    streets: list[Street]
    plan: Plan
    paved: np.ndarray  # (X, Y) bool: the cells of the plan on streets
    objects: list[Body | Rod | Wire] = field(default_factory=list)

    def foot(self, xy: np.ndarray) -> np.ndarray:  # (3,)
        return np.array([*xy, float(self.terrain.at(xy))])

    def on_another_street(self, xy: np.ndarray, street: Street, around: float) -> np.ndarray:  # (...) bool
        found = np.zeros(xy.shape[:-1], dtype=bool)
        for other in self.streets:
            if other is not street:
                found |= other.covers(xy, around)
        return found

    def central_first(self, rng: Rng, xy: Sequence[np.ndarray]) -> np.ndarray:  # (K,) int64
        """The numbers of places in random order, but the two most central ones first: a tile has some of everything."""
        distance = np.linalg.norm(np.reshape(xy, (-1, 2)) - self.middle, axis=1)
        central, rest = np.split(np.argsort(distance, kind="stable"), [2])
        return np.append(central, rng.permutation(rest))
