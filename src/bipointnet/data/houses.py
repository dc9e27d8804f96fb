"""Houses along the streets of a town: of one or two parts, below gable, hip, shed or flat roofs."""

from typing import NamedTuple

import numpy as np

from bipointnet.data.rays import Body, Convex, box, cut
from bipointnet.data.solids import Rng, rotation
from bipointnet.data.terrain import Plot, Street, Town


def add_houses(rng: Rng, town: Town) -> None:
    """Houses along the streets, until 18 to 21 % of the ground is covered or no place is left."""
    places = []
    for street in town.streets:
        for side in (-1, 1):
            along = np.arange(-town.span, town.span, 7.0) + rng.uniform(0, 7.0)
            xy = street.place(along, side * (street.half_width + 12.0))
            places += [(xy[k], street, along[k], side) for k in np.flatnonzero(town.plan.contains(xy))]
    wanted = rng.uniform(0.18, 0.21) * town.plan.area()
    for k in town.central_first(rng, [xy for xy, *_ in places]):
        if wanted <= 0:
            break
        _, street, along, side = places[k]
        wanted -= _add_house(rng, town, street, along, side)


def _add_house(rng: Rng, town: Town, street: Street, along: float, side: int) -> float:
    """Add a house beside a street; returns the area of its plan, 0 if there is no room."""
    size = _house_size(rng)
    endwise = bool(size[0] < 15 and rng.random() < 0.25)  # with its narrow side to the street
    deep = size[0] if endwise else size[1]
    xy = street.place(along, side * (street.half_width + rng.uniform(3.5, 7.5) + deep / 2))
    yaw = float(street.heading(along) + endwise * np.pi / 2 + rng.normal(0, 0.03))
    plots = [Plot(xy, size / 2, yaw)]
    if size[0] > 8 and rng.random() < 0.3:
        plots.append(_wing(rng, plots[0]))
    if not town.plan.claim(plots, gap=1.2):
        return 0.0
    roof, brightness = _draw_roof(rng, size), rng.uniform(0.1, 0.6)
    ground = town.terrain.at(np.concatenate([_corners(plot) for plot in plots]))
    base, lowest = float(ground.max()), float(ground.min())
    for plot in plots:
        _add_building(town, plot, roof.over(2 * plot.half), base, lowest, brightness)
    if size[0] > 8 and rng.random() < 0.6:
        _add_building(town, *_chimney(rng, plots[0], roof), base, lowest, rng.uniform(0.2, 0.5))
    return float(4 * sum(plot.half.prod() for plot in plots))


def _house_size(rng: Rng) -> np.ndarray:  # (2,): length and width
    draw = rng.random()
    if draw < 0.12:  # a garage or a shed
        return np.array([rng.uniform(6, 8), rng.uniform(3.5, 6)])
    if draw < 0.25:  # a block of flats or a workshop
        return np.array([rng.uniform(16, 25), rng.uniform(10, 14)])
    return np.array([rng.uniform(8, 15), rng.uniform(7, 10)])


def _wing(rng: Rng, plot: Plot) -> Plot:
    """The second part of an L-shaped house: its ridge is perpendicular to that of the first."""
    length, wide = 2 * plot.half
    across = min(rng.uniform(0.7, 0.9) * wide, 0.55 * length)
    long = wide / 2 + rng.uniform(3.0, 5.5)  # it begins at the ridge of the first part
    offset = np.array([rng.choice([-1, 1]) * (length - across) / 2, -long / 2])
    yaw = plot.yaw or 0.0
    return Plot(plot.center + rotation("z", yaw)[:2, :2] @ offset, np.array([long, across]) / 2, yaw + np.pi / 2)


def _corners(plot: Plot) -> np.ndarray:  # (4, 2)
    signs = np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
    return plot.center + (signs * plot.half) @ rotation("z", -(plot.yaw or 0.0))[:2, :2]


class Roof(NamedTuple):
    kind: str  # gable, hip, shed or flat
    slope: float
    eave: float  # height of its lowest edge

    def over(self, size: np.ndarray) -> Convex:
        """The house below the roof, about the origin: the ridge is along x."""
        length, wide = size
        walls = box((length, wide, self.eave + self.slope * wide))
        if self.kind == "flat":
            return walls
        high = self.eave + self.slope * wide / 2
        sides = [(0.0, -self.slope, 1.0, high), (0.0, self.slope, 1.0, high)]
        if self.kind == "hip":
            sides += [(sign * self.slope, 0.0, 1.0, self.eave + self.slope * length / 2) for sign in (-1.0, 1.0)]
        return cut(walls, *(sides[:1] if self.kind == "shed" else sides))


def _draw_roof(rng: Rng, size: np.ndarray) -> Roof:
    """Garages are low and mostly flat, large buildings are high with a gentle slope."""
    if size[0] < 8:
        chances, eave, steepness = [0.15, 0.0, 0.25, 0.6], rng.uniform(2.3, 2.9), 1.0
    elif size[0] > 15:
        chances, eave, steepness = [0.35, 0.1, 0.1, 0.45], rng.uniform(5.0, 9.0), 0.6
    else:
        chances, eave, steepness = [0.5, 0.25, 0.1, 0.15], rng.uniform(2.8, 6.2), 1.0
    kind = str(rng.choice(["gable", "hip", "shed", "flat"], p=chances))
    least, most = {"gable": (0.4, 1.0), "hip": (0.35, 0.7), "shed": (0.08, 0.25), "flat": (0.0, 0.0)}[kind]
    return Roof(kind, steepness * rng.uniform(least, most), eave)


def _chimney(rng: Rng, plot: Plot, roof: Roof) -> tuple[Plot, Convex]:
    """A chimney near the ridge, or a box for machines on a flat roof."""
    flat, yaw = roof.kind == "flat", plot.yaw or 0.0
    offset = rng.uniform(-0.6, 0.6, 2) * plot.half * (1.0, 1.0 if flat else 0.4)
    under = roof.over(2 * plot.half)
    over = under.normals[:, 2] > 0
    normals = under.normals[over]
    top = ((under.offsets[over] - normals[:, :2] @ offset) / normals[:, 2]).min() + rng.uniform(0.6, 1.2)
    size = np.array([2.2, 1.6]) if flat else np.array([0.7, 0.6])
    return Plot(plot.center + rotation("z", yaw)[:2, :2] @ offset, size / 2, yaw), box((*size, top))


def _add_building(town: Town, plot: Plot, shape: Convex, base: float, lowest: float, brightness: float) -> None:
    """Add a shape on ground between two heights; its foot is at the higher one, and its walls reach the lower one."""
    placed = shape.turned(plot.yaw or 0.0).moved(np.array([*plot.center, base]))
    height = base - lowest + float(shape.offsets[shape.normals[:, 2] == 1].max())
    town.objects.append(Body("building", placed, plot.center, float(np.hypot(*plot.half)), height, brightness))
