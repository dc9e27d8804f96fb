"""The built-in data set `shapes`: everyday objects put together from random parametric parts.

Objects of one class differ in proportions, styles and optional parts, and every object is stretched along each axis, so
that sizes and moments say little about the class; what says it is how the parts look and meet. Up is +z, front is +y.
"""

from collections.abc import Callable

import numpy as np

from bipointnet.data.cache import cached
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.solids import (
    Density,
    Surface,
    across,
    box,
    cylinder,
    ellipsoid,
    extrusion,
    joined,
    panel,
    revolution,
    rod,
    rotation,
    sample,
    torus,
    tube,
)
from bipointnet.errors import UserError

Rng = np.random.Generator
Assembly = list[tuple[Surface, str]]  # each surface with the name of its part

# Part of the cache key: raise it whenever the same seed gives other objects than before.
VERSION = 2
EVENNESS = 1.0  # 0 leaves an object its own proportions, 1 gives it those of a cube
STRETCH = 0.1  # then each axis is scaled by exp(+-STRETCH)
YAW = np.radians(5)
TILT = np.radians(2)
# Objects are sampled unevenly, which moves moments and histograms but not the surface that a maximum over points sees.
SLOPE = 0.7  # from side to side
BEND = 3.0  # between the middle and the ends


def _chance(rng: Rng, probability: float = 0.5) -> bool:
    return bool(rng.random() < probability)


def _corner_legs(rng: Rng, width: float, depth: float, height: float) -> Surface:
    """Four legs, straight or splayed, round or square."""
    thickness, inset = rng.uniform(0.025, 0.05), rng.uniform(0.7, 0.92)
    splay = rng.uniform(1.0, 1.25) if _chance(rng) else 1.0
    x, y = inset * width / 2, inset * depth / 2
    corners = [(sx, sy) for sx in (-x, x) for sy in (-y, y)]
    if splay == 1.0 and _chance(rng):
        return joined([box((1.8 * thickness, 1.8 * thickness, height), (sx, sy, 0)) for sx, sy in corners])
    lower, upper = 0.7 * thickness, thickness
    return joined([rod((splay * sx, splay * sy, 0), (sx, sy, height), lower, upper) for sx, sy in corners])


def _pedestal(rng: Rng, width: float, depth: float, height: float) -> Surface:
    """One column on a disc or on a star of feet."""
    thickness = rng.uniform(0.03, 0.06)
    column = rod((0, 0, 0), (0, 0, height), thickness)
    reach = rng.uniform(0.3, 0.42) * min(width, depth)
    if _chance(rng):
        return joined([column, cylinder(reach, 0.04, 0.8 * reach)])
    angles = np.arange(feet := int(rng.integers(3, 6))) * 2 * np.pi / feet
    return joined([column, *(rod((0, 0, 0.08), (reach * np.cos(a), reach * np.sin(a), 0.02), 0.03) for a in angles)])


def _sled(rng: Rng, width: float, depth: float, height: float) -> Surface:
    """A frame of bars down, along the floor and up again on either side."""
    x, y, r = 0.45 * width, 0.42 * depth, rng.uniform(0.025, 0.04)
    return joined([tube([(s, -y, height), (s, -y, r), (s, y, r), (s, y, height)], r) for s in (-x, x)])


def _support(rng: Rng, width: float, depth: float, height: float) -> Surface:
    style = (_corner_legs, _corner_legs, _pedestal, _sled)[rng.integers(4)]
    return style(rng, width, depth, height)


def _airplane(rng: Rng) -> Assembly:
    radius = rng.uniform(0.05, 0.12)
    t = np.linspace(0, 1, 12)
    girth = radius * np.sqrt(1.001 - np.clip(4 * t - 3, 0, 1) ** 2) * np.minimum(1, 0.15 + 2.2 * t)
    path = np.column_stack([0 * t, t - 0.5, 0.4 * radius * (1 - t)])
    parts: Assembly = [(tube(path, girth, 14), "fuselage")]
    span, chord, sweep = rng.uniform(0.28, 0.7), rng.uniform(0.12, 0.3), rng.uniform(-0.02, 0.3)
    taper, dihedral, root = rng.uniform(0.2, 0.95), rng.uniform(-0.05, 0.15), rng.uniform(0.0, 0.2)
    heights = [-0.9, 2.0] if _chance(rng, 0.25) else [rng.choice([-0.6, 0.9])]  # two wings: a biplane
    for side in (-1.0, 1.0):
        tip = root - sweep
        wing = extrusion([(0, root - chord), (side * span, tip - taper * chord), (side * span, tip), (0, root)], 0.018)
        shear = np.array([[1, 0, 0], [0, 1, 0], [side * dihedral, 0, 1]])
        parts += [(wing.mapped(shear).moved((0, 0, height * radius)), "wing") for height in heights]
        for at in rng.uniform(0.25, 0.7, int(rng.integers(0, 3))):
            where = (side * at * span, root - at * sweep, heights[0] * radius + at * span * dihedral - 0.04)
            parts.append((cylinder(0.03, 0.14).turned("x", np.pi / 2).moved(where), "engine"))
        fin = extrusion([(0, -0.49), (side * 0.38 * span, -0.52), (side * 0.38 * span, -0.45), (0, -0.36)], 0.015)
        parts.append((fin.moved((0, 0, 0.3 * radius)), "tail"))
    tall = rng.uniform(0.12, 0.25)
    upright = across([(-0.5, 0), (-0.54, tall), (-0.45, tall), (-0.33, 0)], 0.015).moved((0, 0, radius))
    return [*parts, (upright, "tail")]


def _bed(rng: Rng) -> Assembly:
    width, length, low = rng.uniform(0.8, 1.8), rng.uniform(1.8, 2.2), rng.uniform(0.2, 0.4)
    thick = rng.uniform(0.15, 0.3)
    parts: Assembly = [
        (box((width, length, thick), (0, 0, low)), "mattress"),
        (box((width, length, 0.08), (0, 0, low - 0.08)), "frame"),
        (_corner_legs(rng, width, length, low - 0.08), "frame"),
        (box((width, 0.06, rng.uniform(0.7, 1.2)), (0, -length / 2 - 0.03, 0.1)), "headboard"),
    ]
    if _chance(rng):
        parts.append((box((width, 0.06, low + thick + rng.uniform(0, 0.2)), (0, length / 2 + 0.03, 0)), "frame"))
    count = 1 if width < 1.1 else 2
    plump = (0.4 * width / count, rng.uniform(0.16, 0.24), rng.uniform(0.07, 0.11))
    for k in range(count):
        at = (width * ((k + 0.5) / count - 0.5), 0.28 - length / 2, low + thick + 0.6 * plump[2])
        parts.append((ellipsoid(plump, sides=16).moved(at), "pillow"))
    return parts


def _boat(rng: Rng) -> Assembly:
    width, depth = rng.uniform(0.13, 0.24), rng.uniform(0.12, 0.25)
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    deck = panel(np.column_stack([width * np.cos(angle), 0.5 * np.sin(angle), 0 * angle]))
    stern = box((1.4 * width, 0.3, 0.7 * depth), (0, -0.3, -0.7 * depth))
    parts: Assembly = [(joined([ellipsoid((width, 0.5, depth), -np.pi / 2, 0), deck, stern]), "hull")]
    if _chance(rng, 0.4):
        for share, floor in ((1.0, 0.0), (0.6, 0.1))[: int(rng.integers(1, 3))]:
            tall, long = rng.uniform(0.1, 0.18), rng.uniform(0.3, 0.5) * share
            parts.append((box((1.2 * share * width, long, tall), (0, -0.05, floor)), "cabin"))
        return [*parts, (rod((0, -0.05, 0), (0, -0.05, rng.uniform(0.35, 0.5)), 0.02), "mast")]
    mast, height, lean = rng.uniform(-0.05, 0.15), rng.uniform(0.5, 1.3), rng.uniform(-0.08, 0.08)
    low, boom = rng.uniform(0.08, 0.2), rng.uniform(0.35, 0.6)
    spars = [rod((0, mast, 0), (0, mast, height), 0.018), rod((0, mast, low), (lean, mast - boom, low), 0.014)]
    parts.append((joined(spars), "mast"))
    parts.append((panel([(0, mast, low), (lean, mast - boom, low), (0, mast, 0.97 * height)]), "sail"))
    if _chance(rng, 0.6):
        parts.append((panel([(0, mast + 0.03, low), (-lean, 0.5, 0.03), (0, mast + 0.03, 0.85 * height)]), "sail"))
    return parts


def _bookcase(rng: Rng) -> Assembly:
    width, depth, height = rng.uniform(0.5, 2.0), rng.uniform(0.25, 0.55), rng.uniform(0.6, 2.0)
    wall = rng.uniform(0.02, 0.05)
    parts: Assembly = [(box((wall, depth, height), (s * (width - wall) / 2, 0, 0)), "side") for s in (-1, 1)]
    if _chance(rng):
        parts.append((box((width, 0.02, height), (0, 0.01 - depth / 2, 0)), "side"))
    shelves = int(rng.integers(3, 7))
    gap = (height - wall) / (shelves - 1)
    parts += [(box((width, depth, wall), (0, 0, k * gap)), "shelf") for k in range(shelves)]
    for k in rng.permutation(shelves - 1)[: int(rng.integers(0, shelves))]:
        share, tall = rng.uniform(0.2, 0.7), rng.uniform(0.5, 0.9) * gap
        at = rng.uniform(-0.5, 0.5) * (1 - share) * (width - 2 * wall)
        parts.append((box((share * width, 0.7 * depth, tall), (at, 0, k * gap + wall)), "book"))
    return parts


def _bottle(rng: Rng) -> Assembly:
    radius, shoulder, neck = rng.uniform(0.15, 0.28), rng.uniform(0.4, 0.7), rng.uniform(0.04, 0.08)
    top = shoulder + rng.uniform(0.05, 0.2)
    bend, waist = radius * rng.uniform(0.5, 0.9), radius * rng.uniform(0.8, 1.1)
    sides = 4 if _chance(rng, 0.25) else 28
    body = [(0, 0), (radius, 0.0), (waist, shoulder / 2), (radius, shoulder), (bend, (shoulder + top) / 2), (neck, top)]
    end = top + rng.uniform(0.08, 0.3)
    lip = torus(neck, 0.015).turned("x", np.pi / 2)
    cap = cylinder(1.35 * neck, rng.uniform(0.05, 0.1)) if _chance(rng, 0.75) else lip
    return [
        (revolution(body, sides).turned("z", np.pi / 4), "body"),
        (revolution([(neck, top), (neck, end)]), "neck"),
        (cap.moved((0, 0, end)), "cap"),
    ]


def _bucket(rng: Rng) -> Assembly:
    low, high, height = rng.uniform(0.2, 0.35), rng.uniform(0.36, 0.5), rng.uniform(0.5, 0.9)
    rim = torus(high, 0.025).turned("x", np.pi / 2).moved((0, 0, height))
    squash, swing = rng.uniform(0.7, 1.3), rng.uniform(-1.2, 1.2)
    handle = torus(high, 0.022, 0, np.pi, 16).scaled((1, 1, squash)).turned("x", swing).moved((0, 0, height))
    walls = [revolution([(0, 0), (low, 0), (high, height)]), rim]
    if _chance(rng):
        walls.append(revolution([(0, 0.02), (0.95 * low, 0.02), (0.96 * high, height)]))
    return [(joined(walls), "body"), (handle, "handle")]


def _car(rng: Rng) -> Assembly:
    length, width, wheel = rng.uniform(0.9, 1.2), rng.uniform(0.4, 0.55), rng.uniform(0.09, 0.14)
    floor, belt, roof = 0.9 * wheel, rng.uniform(0.25, 0.36), rng.uniform(0.45, 0.8)
    nose, tail, hood = 0.5 * length, -0.5 * length, 0.5 * length - 0.05
    side = [(tail, floor), (nose, floor), (nose, 0.85 * belt), (hood, belt), (tail + 0.03, belt), (tail, 0.8 * belt)]
    rear, front = rng.choice([0.02, 0.15, 0.45]) * length, rng.uniform(0.05, 0.35) * length
    slope = rng.uniform(0.03, 0.12)
    cabin = [(tail + rear, belt), (nose - front, belt), (nose - front - slope, roof), (tail + rear + 0.7 * slope, roof)]
    tyre = cylinder(wheel, 0.08).moved((0, 0, -0.04)).turned("y", np.pi / 2)
    places = [(x * width, y * length, wheel) for x in (-0.5, 0.5) for y in (-0.3, 0.3)]
    wheels: Assembly = [(tyre.moved(place), "wheel") for place in places]
    return [(across(side, width), "body"), (across(cabin, 0.88 * width), "cabin"), *wheels]


def _chair(rng: Rng) -> Assembly:
    width, depth, seat = rng.uniform(0.4, 0.65), rng.uniform(0.4, 0.6), rng.uniform(0.35, 0.6)
    thick, rise, lean = rng.uniform(0.03, 0.12), rng.uniform(0.35, 0.75), rng.uniform(0, 0.2)
    oval = _chance(rng, 0.25)
    plate = cylinder(0.5, thick).scaled((width, depth, 1)) if oval else box((width, depth, thick))
    parts: Assembly = [(plate.moved((0, 0, seat)), "seat"), (_support(rng, width, depth, seat), "leg")]
    style = int(rng.integers(0, 3))
    if style == 0:
        back = box((width, 0.05, rise))
    elif style == 1:
        posts = np.linspace(-0.46, 0.46, int(rng.integers(3, 7))) * width
        rail = box((width, 0.05, 0.1), (0, 0, rise - 0.1))
        back = joined([rail, *(rod((x, 0, 0), (x, 0, rise), 0.02) for x in posts)])
    else:
        posts = [rod((x, 0, 0), (x, 0, rise), 0.028) for x in (-0.46 * width, 0.46 * width)]
        heights = np.linspace(0.35, 0.85, int(rng.integers(2, 5))) * rise
        back = joined([*posts, *(box((0.95 * width, 0.03, 0.07), (0, 0, z)) for z in heights)])
    parts.append((back.turned("x", lean).moved((0, 0.03 - depth / 2, seat + thick)), "back"))
    if _chance(rng, 0.4):
        top, reach = seat + rng.uniform(0.2, 0.32), rng.uniform(0.7, 0.95) * depth
        front = reach - depth / 2
        for x in (-width / 2, width / 2):
            rest = box((0.06, reach, 0.04), (x, (reach - depth) / 2, top))
            parts.append((joined([rest, rod((x, front - 0.04, seat), (x, front - 0.04, top), 0.02)]), "arm"))
    return parts


def _goblet(rng: Rng) -> Assembly:
    foot, stem, tall = rng.uniform(0.16, 0.26), rng.uniform(0.2, 0.5), rng.uniform(0.25, 0.6)
    wide, mouth = rng.uniform(0.18, 0.32), rng.uniform(0.6, 1.15)
    parts: Assembly = [
        (revolution([(0, 0), (foot, 0), (foot, 0.02), (0.03, rng.uniform(0.04, 0.08))]), "foot"),
        (rod((0, 0, 0.04), (0, 0, stem), 0.025), "stem"),
    ]
    if _chance(rng, 0.4):
        parts.append((ellipsoid((0.05, 0.05, 0.05), sides=12).moved((0, 0, rng.uniform(0.3, 0.8) * stem)), "stem"))
    t = np.linspace(0, 1, 9)
    swell = np.sin(np.pi / 2 * t ** rng.uniform(0.4, 1.0)) if _chance(rng, 0.75) else t
    profile = np.column_stack([wide * swell * (1 + (mouth - 1) * t**2), stem + tall * t])
    return [*parts, (revolution(profile), "bowl")]


def _guitar(rng: Rng) -> Assembly:
    lower, upper, waist = rng.uniform(0.17, 0.24), rng.uniform(0.13, 0.18), rng.uniform(0.55, 0.8)
    angle = np.linspace(0, 2 * np.pi, 36, endpoint=False)
    radius = (lower + upper) / 2 + (upper - lower) / 2 * np.sin(angle)
    outline = np.column_stack([radius * np.cos(angle), rng.uniform(0.22, 0.3) * np.sin(angle)])
    outline[:, 0] *= 1 - (1 - waist) * np.exp(-((outline[:, 1] / 0.07) ** 2))
    thick, neck = rng.uniform(0.05, 0.12), rng.uniform(0.35, 0.6)
    top = float(outline[:, 1].max())
    parts: Assembly = [
        (extrusion(outline, thick).moved((0, 0, -thick)), "body"),
        (box((0.05, neck + 0.1, 0.04), (0, top + neck / 2 - 0.05, 0)), "neck"),
        (box((rng.uniform(0.09, 0.13), rng.uniform(0.12, 0.18), 0.03), (0, top + neck + 0.05, 0)), "head"),
    ]
    stance = rng.uniform(0.0, 0.2) if _chance(rng, 0.35) else rng.uniform(0.9, np.pi / 2)  # lies, or leans and stands
    return [(part.turned("x", stance), name) for part, name in parts]


def _lamp(rng: Rng) -> Assembly:
    foot, height = rng.uniform(0.15, 0.28), rng.uniform(0.5, 1.5)
    wide, narrow, tall = rng.uniform(0.2, 0.35), rng.uniform(0.08, 0.2), rng.uniform(0.18, 0.4)
    base = cylinder(foot, rng.uniform(0.03, 0.08), rng.uniform(0.3, 0.9) * foot)
    dome = _chance(rng, 0.4)
    shade = ellipsoid((wide, wide, tall), 0, np.pi / 2) if dome else revolution([(wide, 0), (narrow, tall)])
    if _chance(rng, 0.35):
        elbow = (0, rng.uniform(-0.3, -0.1), 0.55 * height)
        tip = (0, rng.uniform(0.1, 0.4), height)
        pole = joined([rod((0, 0, 0), elbow, 0.025), rod(elbow, tip, 0.025)])
        shade = shade.turned("x", rng.uniform(0, 0.7)).moved((0, tip[1], height - 0.7 * tall))
    else:
        pole = rod((0, 0, 0), (0, 0, height), rng.uniform(0.02, 0.05))
        shade = shade.moved((0, 0, height - 0.8 * tall))
    return [(base, "base"), (pole, "pole"), (shade, "shade")]


def _laptop(rng: Rng) -> Assembly:
    width, depth, thick = rng.uniform(0.3, 0.4), rng.uniform(0.2, 0.28), rng.uniform(0.012, 0.03)
    screen = box((width, 0.012, rng.uniform(0.85, 1.0) * depth)).turned("x", rng.uniform(-0.1, 0.7))
    pad = box((0.3 * width, 0.25 * depth, 0.004), (0, 0.3 * depth, thick))
    keys = box((0.85 * width, 0.4 * depth, 0.006), (0, -0.15 * depth, thick))
    base = joined([box((width, depth, thick)), pad, keys])
    return [(base, "base"), (screen.moved((0, -depth / 2, thick)), "screen")]


def _mug(rng: Rng) -> Assembly:
    low, high, height = rng.uniform(0.28, 0.4), rng.uniform(0.34, 0.44), rng.uniform(0.55, 1.1)
    belly, wall = (low + high) / 2 * rng.uniform(0.92, 1.15), rng.uniform(0.02, 0.05)
    profile = np.array([(0, 0), (low, 0), (belly, height / 2), (high, height)])
    inner = np.array([(0, wall), (low - wall, wall), (belly - wall, height / 2), (high - wall, height)])
    loop, thick = rng.uniform(0.16, 0.28), rng.uniform(0.03, 0.05)
    curved, out = _chance(rng, 0.7), rng.uniform(0.8, 1.3) * loop
    bow = torus(1, thick / loop, -np.pi / 2, np.pi / 2, 14).scaled((out, loop, loop))
    handle = bow if curved else tube([(0, 0, -loop), (out, 0, -loop), (out, 0, loop), (0, 0, loop)], thick)
    return [
        (revolution(np.concatenate([profile, inner[::-1]])), "body"),
        (handle.moved((0.97 * min(low, belly, high), 0, rng.uniform(0.45, 0.55) * height)), "handle"),
    ]


def _plant(rng: Rng) -> Assembly:
    low, high, height = rng.uniform(0.12, 0.2), rng.uniform(0.2, 0.3), rng.uniform(0.2, 0.4)
    soil, rim = 0.85 * height, 0.9 * high
    parts: Assembly = [(revolution([(0, 0), (low, 0), (high, height), (rim, height), (rim, soil), (0, soil)]), "pot")]
    count, rise = int(rng.integers(5, 11)), rng.uniform(0.3, 0.7)
    for turn in rng.uniform(0, 2 * np.pi) + np.arange(count) * 2.4:
        reach, top = rng.uniform(0.12, 0.45), height + rise * rng.uniform(0.5, 1.2)
        tip = np.array([reach * np.cos(turn), reach * np.sin(turn), top])
        root = np.array([0.1 * np.cos(turn), 0.1 * np.sin(turn), soil])
        parts.append((rod(root, tip, 0.012), "stem"))
        blade = ellipsoid((rng.uniform(0.12, 0.22), rng.uniform(0.05, 0.1), 0.015), sides=10)
        parts.append((blade.turned("y", rng.uniform(-0.6, 0.6)).turned("z", turn).moved(tip), "leaf"))
    return parts


def _rocket(rng: Rng) -> Assembly:
    radius, height, nose = rng.uniform(0.08, 0.2), rng.uniform(0.4, 0.9), rng.uniform(0.2, 0.4)
    t = np.linspace(0, 1, 7)
    ogive = np.column_stack([radius * (1 - t ** rng.uniform(1.0, 2.2)), height + nose * t])
    fins = int(rng.integers(3, 6))
    reach, tall, drop = rng.uniform(0.12, 0.28), rng.uniform(0.18, 0.35), rng.uniform(0.0, 0.15)
    nozzle = revolution([(0.4 * radius, 0), (0.8 * radius, -0.1)])
    parts: Assembly = [(cylinder(radius, height), "body"), (revolution(ogive), "nose"), (nozzle, "body")]
    start = rng.uniform(0, 2 * np.pi)
    outline = [(0.9 * radius, 0), (radius + reach, -drop), (radius + reach, 0.4 * tall - drop), (0.9 * radius, tall)]
    fin = extrusion(outline, 0.02).turned("x", np.pi / 2)
    parts += [(fin.turned("z", start + 2 * np.pi * k / fins), "fin") for k in range(fins)]
    if _chance(rng, 0.35):
        tank = revolution([(0, 0), (0.5 * radius, 0), (0.5 * radius, 0.5 * height), (0, 0.5 * height + radius)])
        parts += [(tank.moved((1.5 * radius * side, 0, -0.05)), "booster") for side in (-1, 1)]
    return parts


def _sofa(rng: Rng) -> Assembly:
    width, depth, seat = rng.uniform(1.1, 2.4), rng.uniform(0.7, 1.0), rng.uniform(0.3, 0.45)
    foot, thick, rise = rng.uniform(0.04, 0.14), rng.uniform(0.12, 0.25), rng.uniform(0.3, 0.5)
    arm, arm_rise = rng.uniform(0.1, 0.25), rng.uniform(0.15, 0.3)
    parts: Assembly = [
        (box((width, depth, seat - foot), (0, 0, foot)), "seat"),
        (box((width, thick, rise), (0, (thick - depth) / 2, seat)), "back"),
        (_corner_legs(rng, width, depth, foot), "leg"),
    ]
    for x in (-(width + arm) / 2, (width + arm) / 2):
        parts.append((box((arm, depth, seat - foot + arm_rise), (x, 0, foot)), "arm"))
    share = width / int(rng.integers(1, 4))
    for x in np.arange((share - width) / 2, width / 2, share):
        parts.append((box((0.94 * share, depth - thick, 0.1), (x, thick / 2, seat)), "seat"))
    return parts


def _stool(rng: Rng) -> Assembly:
    width, height = rng.uniform(0.3, 0.42), rng.uniform(0.45, 0.85)
    thick, spread, r = rng.uniform(0.04, 0.12), rng.uniform(1.0, 1.5), rng.uniform(0.018, 0.03)
    seat = cylinder(width / 2, thick) if _chance(rng, 0.6) else box((width, width, thick))
    count = int(rng.integers(3, 5))
    angles = np.pi / 4 + np.arange(count) * 2 * np.pi / count
    around = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(count)]) * 0.42 * width  # (count, 3)
    top = np.array([0, 0, height])
    legs = [rod(spread * foot, foot + top, r) for foot in around]
    level = rng.uniform(0.25, 0.5)
    corners = around * (spread + (1 - spread) * level) + level * top
    rungs = [rod(a, b, 0.7 * r) for a, b in zip(corners, np.roll(corners, 1, axis=0), strict=True)]
    return [(seat.moved(top), "seat"), (joined(legs), "leg"), (joined(rungs), "rung")]


def _table(rng: Rng) -> Assembly:
    width, depth, height = rng.uniform(0.9, 1.8), rng.uniform(0.6, 1.1), rng.uniform(0.4, 0.8)
    thick = rng.uniform(0.03, 0.08)
    oval = _chance(rng, 0.3)
    top = cylinder(0.5, thick).scaled((width, depth, 1)) if oval else box((width, depth, thick))
    inset = 0.75 if oval else 1.0
    legs = _support(rng, inset * width, inset * depth, height)
    parts: Assembly = [(top.moved((0, 0, height)), "top"), (legs, "leg")]
    if _chance(rng, 0.3):
        parts.append((box((0.3 * width, 0.8 * depth, 0.5 * height), (0.3 * width, 0, 0.5 * height)), "drawer"))
    return parts


def _teapot(rng: Rng) -> Assembly:
    wide, tall = rng.uniform(0.3, 0.42), rng.uniform(0.22, 0.38)
    body = ellipsoid((wide, wide, tall), -1.1, 1.2).moved((0, 0, tall))
    top = tall * (1 + np.sin(1.2))
    lid = ellipsoid((0.42 * wide, 0.42 * wide, 0.1), 0, np.pi / 2).moved((0, 0, top))
    knob = ellipsoid((0.05, 0.05, 0.05), sides=12).moved((0, 0, top + 0.13))
    reach, rise = rng.uniform(0.22, 0.38), rng.uniform(0.25, 0.5)
    t = np.linspace(0, 1, 6)
    path = np.column_stack([0.85 * wide + reach * t, 0 * t, 0.75 * tall + rise * t ** rng.uniform(0.8, 1.8)])
    parts: Assembly = [(body, "body"), (lid, "lid"), (knob, "lid"), (tube(path, 0.1 - 0.06 * t, 12), "spout")]
    loop = rng.uniform(0.7, 1.0) * tall
    if _chance(rng, 0.7):
        ear = torus(1, 0.09, np.pi / 2, 3 * np.pi / 2, 14).scaled((rng.uniform(0.7, 1.2) * loop, 0.35, loop))
        return [*parts, (ear.moved((-0.75 * wide, 0, 1.05 * tall)), "handle")]
    bow = torus(0.85 * wide, 0.03, 0.1, np.pi - 0.1, 12).scaled((1, 1, rng.uniform(1.2, 1.8)))
    return [*parts, (bow.moved((0, 0, 1.4 * tall)), "handle")]


def _umbrella(rng: Rng) -> Assembly:
    wide, tall, length = rng.uniform(0.4, 0.6), rng.uniform(0.15, 0.35), rng.uniform(0.7, 1.1)
    tent = revolution([(wide, 0), (0.6 * wide, 0.6 * tall), (0, tall)], int(rng.integers(6, 11)))
    canopy = tent if _chance(rng) else ellipsoid((wide, wide, tall), 0.05, np.pi / 2)
    hook = rng.uniform(0.06, 0.12)
    crook = torus(hook, 0.024, np.pi, 2 * np.pi, 12).moved((hook, 0, 0))
    shaft = rod((0, 0, 0), (0, 0, length + 0.06), 0.016)
    return [(canopy.moved((0, 0, length - tall)), "canopy"), (shaft, "shaft"), (crook, "handle")]


_KINDS: dict[str, tuple[Callable[[Rng], Assembly], tuple[str, ...]]] = {
    "airplane": (_airplane, ("fuselage", "wing", "tail", "engine")),
    "bed": (_bed, ("mattress", "frame", "headboard", "pillow")),
    "boat": (_boat, ("hull", "mast", "sail", "cabin")),
    "bookcase": (_bookcase, ("side", "shelf", "book")),
    "bottle": (_bottle, ("body", "neck", "cap")),
    "bucket": (_bucket, ("body", "handle")),
    "car": (_car, ("body", "cabin", "wheel")),
    "chair": (_chair, ("seat", "back", "leg", "arm")),
    "goblet": (_goblet, ("foot", "stem", "bowl")),
    "guitar": (_guitar, ("body", "neck", "head")),
    "lamp": (_lamp, ("base", "pole", "shade")),
    "laptop": (_laptop, ("base", "screen")),
    "mug": (_mug, ("body", "handle")),
    "plant": (_plant, ("pot", "stem", "leaf")),
    "rocket": (_rocket, ("body", "nose", "fin", "booster")),
    "sofa": (_sofa, ("seat", "back", "arm", "leg")),
    "stool": (_stool, ("seat", "leg", "rung")),
    "table": (_table, ("top", "leg", "drawer")),
    "teapot": (_teapot, ("body", "lid", "spout", "handle")),
    "umbrella": (_umbrella, ("canopy", "shaft", "handle")),
}

CLASSES: tuple[str, ...] = tuple(_KINDS)
PARTS: tuple[str, ...] = tuple(f"{name}/{part}" for name, (_, parts) in _KINDS.items() for part in parts)
_LABEL = {part: label for label, part in enumerate(PARTS)}
PARTS_OF_CLASSES: tuple[tuple[int, ...], ...] = tuple(
    tuple(_LABEL[f"{name}/{part}"] for part in parts) for name, (_, parts) in _KINDS.items()
)


def check_size(what: str, size: int, least: int) -> None:
    if size < least:
        raise UserError(f"{what} is {size}: expected a whole number of at least {least}")


def build(name: str, rng: Rng) -> Assembly:
    """The surfaces of one object of a class, upright and in its own proportions."""
    if name not in _KINDS:
        raise UserError(f"no class of shapes is called {name!r}: expected one of {', '.join(CLASSES)}")
    return _KINDS[name][0](rng)


def make_object(name: str, rng: Rng, points: int) -> tuple[np.ndarray, np.ndarray]:  # (P, 3) float32, (P,) int64
    """One object of a class, stretched, tilted and turned at random, as points with the part each lies on."""
    check_size("points", points, least=1)
    assembly = build(name, rng)
    mirror = (rng.choice([-1.0, 1.0]), rng.choice([-1.0, 1.0]), 1.0)
    lower, upper = joined([surface for surface, _ in assembly]).bounds()
    size = rng.uniform(0.7, 1.4) * np.exp(rng.uniform(-STRETCH, STRETCH, 3))
    stretch = mirror * size * (upper - lower) ** -EVENNESS
    tilt_x, tilt_y, yaw = rng.uniform(-1, 1, 3) * (TILT, TILT, YAW)
    pose = rotation("x", tilt_x) @ rotation("y", tilt_y) @ rotation("z", yaw) * stretch  # (3, 3)
    # The pose is applied before sampling, so that the points are spread over the stretched object.
    labelled = [(surface.mapped(pose), _LABEL[f"{name}/{part}"]) for surface, part in assembly]
    xyz, parts = sample(labelled, points, rng, _uneven(rng, *joined([surface for surface, _ in labelled]).bounds()))
    return xyz.astype(np.float32), parts


def _uneven(rng: Rng, lower: np.ndarray, upper: np.ndarray) -> Density:
    """A density that rises and falls over a box, as with a scanner that sees some sides better than others."""
    slope, bend = rng.uniform(-SLOPE, SLOPE, 3), rng.uniform(-BEND, BEND, 3)
    return Density(slope, bend, centre=(lower + upper) / 2, reach=(upper - lower) / 2)


def shapes(train: int = 4800, test: int = 800, points: int = 1024, seed: int = 0) -> PointClouds:
    """The data set. The classes take turns, so that every prefix of a split is balanced too."""
    for what, size, least in (("train", train, 0), ("test", test, 0), ("points", points, 1), ("seed", seed, 0)):
        check_size(what, size, least)
    splits = []
    for split, size in enumerate((train, test)):
        key = (VERSION, EVENNESS, STRETCH, YAW, TILT, SLOPE, BEND, seed, split, size, points)
        arrays = cached("shapes", key, lambda split=split, size=size: _make_split(seed, split, size, points))
        splits.append(Split(arrays["points"], arrays["labels"], arrays["point_labels"]))
    return PointClouds("shapes", CLASSES, splits[0], splits[1], PARTS, parts=PARTS_OF_CLASSES)


def _make_split(seed: int, split: int, size: int, points: int) -> dict[str, np.ndarray]:
    clouds = np.empty((size, points, 3), dtype=np.float32)
    part_labels = np.empty((size, points), dtype=np.int64)
    labels = np.arange(size, dtype=np.int64) % len(CLASSES)
    for i in range(size):
        # A stream of its own for every object: it does not depend on how many others are made.
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(split, i)))
        clouds[i], part_labels[i] = make_object(CLASSES[labels[i]], rng, points)
    return {"points": clouds, "labels": labels, "point_labels": part_labels}
