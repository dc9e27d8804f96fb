"""Random towns: poles and cars along streets, power lines, houses and plants, none of which overlap in plan."""

from itertools import pairwise

import numpy as np

from bipointnet.data.houses import add_houses
from bipointnet.data.rays import Body, Convex, Ellipsoid, Rod, Wire, box, cut
from bipointnet.data.solids import Rng
from bipointnet.data.terrain import Plan, Plot, Street, Terrain, Town, disk, grade, make_streets, make_terrain

SURROUNDINGS = 24.0  # width of the strip around the tile in which there are objects too
CLEARANCE = 5.0  # meters between a wire and the ground, at least
PLACING_TRIES = 12


def _add_lamps(rng: Rng, town: Town, street: Street) -> None:
    """Lamps along one side of a street, each with an arm over the street."""
    height, side = rng.uniform(5, 9), rng.choice([-1, 1]) if street is not town.streets[0] else 1
    for along in np.arange(-town.span, town.span, rng.uniform(18, 24)):
        xy = street.place(along, side * (street.half_width + 0.8))
        if town.on_another_street(xy, street, 1.0) or not town.plan.claim([disk(xy, 0.3)]):
            continue
        foot, brightness, arm = town.foot(xy), rng.uniform(0.1, 0.4), rng.uniform(1.2, 1.9)
        yaw = float(street.heading(along) - side * np.pi / 2)
        lamp = box((arm, 0.4, 0.15), bottom=-0.1).turned(yaw)
        tip = arm / 2 * np.array([np.cos(yaw), np.sin(yaw), 0.0])
        town.objects.append(Rod("pole", foot, height, 0.08, brightness))
        shape = lamp.moved(foot + tip + np.array([0, 0, height]))
        town.objects.append(Body("pole", shape, (foot + tip)[:2], arm, height + 0.5, brightness))


def _add_power_line(rng: Rng, town: Town, street: Street) -> None:
    """Wooden poles with cross arms along one side of a street, and 2 to 4 conductors between them."""
    conductors, height, spacing = int(rng.integers(2, 5)), rng.uniform(8.5, 12), rng.uniform(28, 38)
    tops: list[np.ndarray] = []  # each (W, 3): where the conductors are fixed to a pole
    for along in np.arange(-town.span - rng.uniform(0, spacing), town.span, spacing):
        xy = street.place(along, -street.half_width - 1.5)
        while town.on_another_street(xy, street, 2.0):
            along += 2.0
            xy = street.place(along, -street.half_width - 1.5)
        heading = float(street.heading(along))
        tops.append(_add_power_pole(rng, town, xy, heading, height + rng.uniform(-0.3, 0.3), conductors))
    for one, other in pairwise(tops):
        share = rng.uniform(0.012, 0.022)  # sag per meter of span
        for start, stop in zip(one, other, strict=True):
            town.objects.append(_hang(town.terrain, start, stop, share * rng.uniform(0.95, 1.05)))


def _add_power_pole(
    rng: Rng, town: Town, xy: np.ndarray, heading: float, height: float, conductors: int
) -> np.ndarray:  # (W, 3)
    """Add one pole; returns where the conductors are fixed."""
    town.plan.claim([disk(xy, 0.3)], gap=0.0)
    foot, brightness, wide = town.foot(xy), rng.uniform(0.15, 0.4), 0.8 * conductors
    town.objects.append(Rod("pole", foot, height, 0.14, brightness))
    arm = box((0.4, wide, height - 0.1), bottom=height - 0.3).turned(heading).moved(foot)
    town.objects.append(Body("pole", arm, xy, wide / 2, height + 0.5, brightness))
    if rng.random() < 0.25:
        transformer = box((0.8, 0.8, 0.75 * height), bottom=0.75 * height - 1.0).turned(heading).moved(foot)
        town.objects.append(Body("pole", transformer, xy, 0.6, height, rng.uniform(0.2, 0.5)))
    aside = np.linspace(-0.5, 0.5, conductors) * (wide - 0.2)
    across = np.array([-np.sin(heading), np.cos(heading), 0.0])
    return foot + np.array([0, 0, height + 0.1]) + aside[:, None] * across


def _hang(terrain: Terrain, start: np.ndarray, stop: np.ndarray, share: float) -> Wire:
    """A wire that sags by a share of its span, less if it would come too near to the ground."""
    fraction = np.linspace(0.05, 0.95, 19)
    straight = start + fraction[:, None] * (stop - start)  # (19, 3)
    ground = terrain.at(straight[:, :2])
    room = ((straight[:, 2] - ground - CLEARANCE) / (4 * fraction * (1 - fraction))).min()
    sag = float(np.clip(share * np.linalg.norm(stop - start), 0.05, max(room, 0.05)))
    return Wire(start, stop, sag, float(max(start[2], stop[2]) - ground.min()))


def _add_cars(rng: Rng, town: Town) -> None:
    """Cars parked on both sides of the streets."""
    places = []
    for street in town.streets:
        for side in (-1, 1):
            along = np.arange(-town.span, town.span, 6.3) + rng.uniform(0, 6.3)
            along += rng.uniform(-0.4, 0.4, len(along))
            xy = street.place(along, side * (street.half_width - rng.uniform(1.05, 1.25, len(along))))
            free = ~town.on_another_street(xy, street, 4.0) & town.plan.contains(xy)
            yaw = street.heading(along) + np.pi * rng.integers(2, size=len(along)) + rng.normal(0, 0.03, len(along))
            places += zip(xy[free], yaw[free], strict=True)
    wanted = round(rng.uniform(0.17, 0.3) * len(places))
    for k in town.central_first(rng, [xy for xy, _ in places])[:wanted]:
        _add_car(rng, town, *places[k])


def _add_car(rng: Rng, town: Town, xy: np.ndarray, yaw: float) -> None:
    """A sedan, a station wagon or a van: a body with hood and trunk, and a cabin with slanted windows."""
    kind = rng.choice(["sedan", "wagon", "van"], p=[0.5, 0.35, 0.15])
    size = np.array([4.3, 1.8, 1.5]) * rng.uniform(0.93, 1.08, 3) * ((1.12, 1.08, 1.35) if kind == "van" else 1.0)
    if not town.plan.claim([Plot(xy, size[:2] / 2, yaw)], gap=0.5):
        return
    length, wide, tall = size
    hood, front, back = {"sedan": (0.6, 0.22, -0.3), "wagon": (0.6, 0.22, -0.48), "van": (0.5, 0.42, -0.49)}[kind]
    # The windows lean: forward and backward by half a meter per meter, to the sides by a quarter.
    cabin = cut(
        box((length, wide, tall), bottom=0.3),
        (1.0, 0, 0.5, front * length + 0.5 * hood * tall),
        (-1.0, 0, 0.5, -back * length + 0.5 * hood * tall),
        (0, 1.0, 0.25, wide / 2 + 0.25 * hood * tall),
        (0, -1.0, 0.25, wide / 2 + 0.25 * hood * tall),
    )
    foot, gradient, paint = town.foot(xy), town.terrain.gradient(xy), rng.uniform(0.08, 0.75)
    for shape, brightness in ((box((length, wide, hood * tall)), paint), (cabin, 0.7 * paint)):
        placed = shape.turned(yaw).tilted(gradient).moved(foot)
        town.objects.append(Body("car", placed, xy, length * 0.6, tall + 0.7, brightness))


def _take_streets(town: Town) -> None:
    """Keep the streets, and the ground beneath the wires, free of houses and plants."""
    cells = town.plan.cells
    for street in town.streets:
        town.plan.taken[street.covers(cells, 0.6)] = True
    for wire in (thing for thing in town.objects if isinstance(thing, Wire)):
        line = wire.stop[:2] - wire.start[:2]
        length, yaw = float(np.linalg.norm(line)), float(np.arctan2(line[1], line[0]))
        town.plan.take(Plot((wire.start + wire.stop)[:2] / 2, np.array([length / 2, 0.3]), yaw))


def _add_plants(rng: Rng, town: Town) -> None:
    area = town.plan.area()
    for _ in range(round(rng.uniform(0.0015, 0.003) * area)):
        _add_hedge(rng, town)
    _add_trees(rng, town, rng.uniform(0.17, 0.21) * area)
    for _ in range(round(rng.uniform(0.003, 0.006) * area)):
        _add_shrub(rng, town)


def _add_trees(rng: Rng, town: Town, area: float) -> None:
    """Trees that cover an area, as far as there is room: alone, or in groups of similar size."""
    free = np.argwhere(~town.plan.taken)  # (F, 2)
    conic, tall = rng.random(1 + int(area)) < 0.35, 4 + 16 * rng.beta(1.6, 2.0, 1 + int(area))
    radius = tall * np.where(conic, rng.uniform(0.14, 0.2, len(tall)), rng.uniform(0.22, 0.34, len(tall)))
    radius = np.minimum(radius, 5.5)
    needed = 1 + int(np.searchsorted(np.cumsum(np.pi * radius**2), area))
    xy = town.middle
    for k in np.argsort(-radius[:needed]):  # large trees first: between small ones there is no room for them
        for _ in range(PLACING_TRIES):
            alone = town.plan.lower + (free[rng.integers(len(free))] + rng.random(2)) * town.plan.CELL
            place = xy + rng.normal(0, 2 * radius[k], 2) if rng.random() < 0.4 else alone
            if town.plan.claim([disk(place, float(radius[k]))], gap=0.45):
                _add_tree(rng, town, place, float(radius[k]), float(tall[k]), bool(conic[k]))
                xy = place
                break


def _add_hedge(rng: Rng, town: Town) -> None:
    """A hedge parallel to a street or perpendicular to it."""
    street = town.streets[rng.integers(len(town.streets))]
    along = rng.uniform(-town.span, town.span)
    across = rng.choice([-1, 1]) * (street.half_width + rng.uniform(3, 26))
    xy, yaw = street.place(along, across), float(street.heading(along) + rng.integers(2) * np.pi / 2)
    size = np.array([rng.uniform(4, 14), rng.uniform(0.6, 1.2), rng.uniform(0.7, 2.0)])
    if town.plan.claim([Plot(xy, size[:2] / 2, yaw)], gap=0.5):
        shape = box(size).turned(yaw).tilted(town.terrain.gradient(xy, size[0] / 3)).moved(town.foot(xy))
        town.objects.append(
            Body("vegetation", shape, xy, size[0] / 2 + 0.5, size[2] + 1.0, rng.uniform(0.25, 0.5), 5.0)
        )


def _add_shrub(rng: Rng, town: Town) -> None:
    center = town.plan.lower + rng.uniform(0, 1, 2) * np.array(town.plan.taken.shape) * town.plan.CELL
    for xy in center + rng.normal(0, 1.5, (3, 2)):
        radius, tall = rng.uniform(0.4, 1.3), rng.uniform(0.5, 2.0)
        if town.plan.claim([disk(xy, radius)], gap=0.45):
            foot = town.foot(xy) + np.array([0, 0, 0.3 * tall])
            shape = Ellipsoid(foot, np.array([radius, radius, 0.7 * tall]))
            town.objects.append(Body("vegetation", shape, xy, radius, tall + 0.5, rng.uniform(0.25, 0.5), 4.0))


def _add_tree(rng: Rng, town: Town, xy: np.ndarray, radius: float, tall: float, conic: bool) -> None:
    foot, brightness, leaves = town.foot(xy), rng.uniform(0.25, 0.5), rng.uniform(0.6, 1.6)
    bottom = tall * (rng.uniform(0.05, 0.12) if conic else rng.uniform(0.15, 0.35))
    shapes = [_cone(radius, bottom, tall).turned(rng.uniform(0, 1)).moved(foot)] if conic else []
    shapes += [] if conic else _clumps(rng, foot, radius, bottom, tall)
    for shape in shapes:
        town.objects.append(Body("vegetation", shape, xy, radius, tall + 1.0, brightness, leaves))
    town.objects.append(Rod("vegetation", foot, 0.6 * tall, 0.02 * tall, rng.uniform(0.15, 0.35)))


def _cone(radius: float, bottom: float, top: float) -> Convex:
    """A pyramid of 9 sides; leaves hide its edges."""
    angle = np.arange(9) * 2 * np.pi / 9
    side = np.column_stack([np.cos(angle), np.sin(angle), np.full(9, radius / (top - bottom))])
    offsets = np.append(side[:, 2] * top, -bottom)
    return Convex(np.vstack([side, [0.0, 0.0, -1.0]]), offsets)


def _clumps(rng: Rng, foot: np.ndarray, radius: float, bottom: float, top: float) -> list[Ellipsoid]:
    """A round crown: a large ellipsoid, and smaller ones at its side, all within the radius."""
    half = (top - bottom) / 2
    middle = foot + np.array([0, 0, bottom + half])
    clumps = [Ellipsoid(middle, np.array([0.8 * radius, 0.8 * radius, half]))]
    for angle in rng.uniform(0, 2 * np.pi) + np.arange(3) * 2 * np.pi / 3 + rng.normal(0, 0.3, 3):
        size = rng.uniform(0.4, 0.55)
        aside = (1 - size) * radius
        offset = np.array([aside * np.cos(angle), aside * np.sin(angle), rng.uniform(-0.35, 0.35) * half])
        clumps.append(Ellipsoid(middle + offset, np.array([size * radius, size * radius, 0.5 * half])))
    return clumps


def build_town(rng: Rng, width: float, depth: float) -> Town:
    """A random town that covers a tile and its surroundings.

    >>> town = build_town(np.random.default_rng(0), 80.0, 80.0)
    >>> sorted({thing.label for thing in town.objects if not isinstance(thing, Wire)})
    ['building', 'car', 'pole', 'vegetation']
    """
    lower, upper = np.full(2, -SURROUNDINGS), np.array([width, depth]) + SURROUNDINGS
    middle, span = np.array([width, depth]) / 2, float(np.hypot(*(upper - lower))) / 2
    streets = make_streets(rng, middle, span)
    terrain = grade(make_terrain(rng, lower, upper), streets)
    plan = Plan(lower, np.zeros(np.ceil((upper - lower) / Plan.CELL).astype(int), dtype=bool))
    paved = np.any([street.covers(plan.cells) for street in streets], axis=0)
    town = Town(middle, span, terrain, streets, plan, paved)
    for street in streets:
        # Streets side by side never meet, and neither do the wires along them.
        if street is streets[0] or (street.yaw == streets[0].yaw and rng.random() < 0.5):
            _add_power_line(rng, town, street)
        _add_lamps(rng, town, street)
    _add_cars(rng, town)
    _take_streets(town)
    add_houses(rng, town)
    _add_plants(rng, town)
    return town
