"""The furniture of the data sets `shapes` and `rooms`: one function per class.

Each function returns the surfaces of one random object, upright, with the name of the part each belongs to. Up is +z,
front is +y.
"""

import numpy as np

from bipointnet.data.solids import (
    Assembly,
    Rng,
    Surface,
    box,
    cylinder,
    ellipsoid,
    joined,
    revolution,
    rod,
    tube,
)


def _corner_legs(rng: Rng, width: float, depth: float, height: float) -> Surface:
    """Four legs, straight or splayed, round or square."""
    thickness, inset = rng.uniform(0.025, 0.05), rng.uniform(0.7, 0.92)
    splay = rng.uniform(1.0, 1.25) if rng.random() < 0.5 else 1.0
    x, y = inset * width / 2, inset * depth / 2
    corners = [(sx, sy) for sx in (-x, x) for sy in (-y, y)]
    if splay == 1.0 and rng.random() < 0.5:
        return joined([box((1.8 * thickness, 1.8 * thickness, height), (sx, sy, 0)) for sx, sy in corners])
    lower, upper = 0.7 * thickness, thickness
    return joined([rod((splay * sx, splay * sy, 0), (sx, sy, height), lower, upper) for sx, sy in corners])


def _pedestal(rng: Rng, width: float, depth: float, height: float) -> Surface:
    """One column on a disk or on a star of feet."""
    thickness = rng.uniform(0.03, 0.06)
    column = rod((0, 0, 0), (0, 0, height), thickness)
    reach = rng.uniform(0.3, 0.42) * min(width, depth)
    if rng.random() < 0.5:
        return joined([column, cylinder(reach, 0.04, 0.8 * reach)])
    angles = np.arange(feet := int(rng.integers(3, 6))) * 2 * np.pi / feet
    return joined([column, *(rod((0, 0, 0.08), (reach * np.cos(a), reach * np.sin(a), 0.02), 0.03) for a in angles)])


def _sled(rng: Rng, width: float, depth: float, height: float) -> Surface:
    """On either side one bar: down, along the floor, and up again."""
    x, y, r = 0.45 * width, 0.42 * depth, rng.uniform(0.025, 0.04)
    return joined([tube([(s, -y, height), (s, -y, r), (s, y, r), (s, y, height)], r) for s in (-x, x)])


def _support(rng: Rng, width: float, depth: float, height: float) -> Surface:
    style = (_corner_legs, _corner_legs, _pedestal, _sled)[rng.integers(4)]
    return style(rng, width, depth, height)


def bed(rng: Rng) -> Assembly:
    width, length, low = rng.uniform(0.8, 1.8), rng.uniform(1.8, 2.2), rng.uniform(0.2, 0.4)
    thick = rng.uniform(0.15, 0.3)
    parts: Assembly = [
        (box((width, length, thick), (0, 0, low)), "mattress"),
        (box((width, length, 0.08), (0, 0, low - 0.08)), "frame"),
        (_corner_legs(rng, width, length, low - 0.08), "frame"),
        (box((width, 0.06, rng.uniform(0.7, 1.2)), (0, -length / 2 - 0.03, 0.1)), "headboard"),
    ]
    if rng.random() < 0.5:
        parts.append((box((width, 0.06, low + thick + rng.uniform(0, 0.2)), (0, length / 2 + 0.03, 0)), "frame"))
    count = 1 if width < 1.1 else 2
    plump = (0.4 * width / count, rng.uniform(0.16, 0.24), rng.uniform(0.07, 0.11))
    for k in range(count):
        at = (width * ((k + 0.5) / count - 0.5), 0.28 - length / 2, low + thick + 0.6 * plump[2])
        parts.append((ellipsoid(plump, sides=16).moved(at), "pillow"))
    return parts


def bookcase(rng: Rng) -> Assembly:
    width, depth, height = rng.uniform(0.5, 2.0), rng.uniform(0.25, 0.55), rng.uniform(0.6, 2.0)
    wall = rng.uniform(0.02, 0.05)
    parts: Assembly = [(box((wall, depth, height), (s * (width - wall) / 2, 0, 0)), "side") for s in (-1, 1)]
    if rng.random() < 0.5:
        parts.append((box((width, 0.02, height), (0, 0.01 - depth / 2, 0)), "side"))
    shelves = int(rng.integers(3, 7))
    gap = (height - wall) / (shelves - 1)
    parts += [(box((width, depth, wall), (0, 0, k * gap)), "shelf") for k in range(shelves)]
    for k in rng.permutation(shelves - 1)[: int(rng.integers(0, shelves))]:
        share, tall = rng.uniform(0.2, 0.7), rng.uniform(0.5, 0.9) * gap
        at = rng.uniform(-0.5, 0.5) * (1 - share) * (width - 2 * wall)
        parts.append((box((share * width, 0.7 * depth, tall), (at, 0, k * gap + wall)), "book"))
    return parts


def chair(rng: Rng) -> Assembly:
    width, depth, seat = rng.uniform(0.4, 0.65), rng.uniform(0.4, 0.6), rng.uniform(0.35, 0.6)
    thick, rise, lean = rng.uniform(0.03, 0.12), rng.uniform(0.35, 0.75), rng.uniform(0, 0.2)
    oval = rng.random() < 0.25
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
    if rng.random() < 0.4:
        top, reach = seat + rng.uniform(0.2, 0.32), rng.uniform(0.7, 0.95) * depth
        front = reach - depth / 2
        for x in (-width / 2, width / 2):
            rest = box((0.06, reach, 0.04), (x, (reach - depth) / 2, top))
            parts.append((joined([rest, rod((x, front - 0.04, seat), (x, front - 0.04, top), 0.02)]), "arm"))
    return parts


def lamp(rng: Rng) -> Assembly:
    foot, height = rng.uniform(0.15, 0.28), rng.uniform(0.5, 1.5)
    wide, narrow, tall = rng.uniform(0.2, 0.35), rng.uniform(0.08, 0.2), rng.uniform(0.18, 0.4)
    base = cylinder(foot, rng.uniform(0.03, 0.08), rng.uniform(0.3, 0.9) * foot)
    dome = rng.random() < 0.4
    shade = ellipsoid((wide, wide, tall), 0, np.pi / 2) if dome else revolution([(wide, 0), (narrow, tall)])
    if rng.random() < 0.35:
        elbow = (0, rng.uniform(-0.3, -0.1), 0.55 * height)
        tip = (0, rng.uniform(0.1, 0.4), height)
        pole = joined([rod((0, 0, 0), elbow, 0.025), rod(elbow, tip, 0.025)])
        shade = shade.turned("x", rng.uniform(0, 0.7)).moved((0, tip[1], height - 0.7 * tall))
    else:
        pole = rod((0, 0, 0), (0, 0, height), rng.uniform(0.02, 0.05))
        shade = shade.moved((0, 0, height - 0.8 * tall))
    return [(base, "base"), (pole, "pole"), (shade, "shade")]


def sofa(rng: Rng) -> Assembly:
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


def stool(rng: Rng) -> Assembly:
    width, height = rng.uniform(0.3, 0.42), rng.uniform(0.45, 0.85)
    thick, spread, r = rng.uniform(0.04, 0.12), rng.uniform(1.0, 1.5), rng.uniform(0.018, 0.03)
    seat = cylinder(width / 2, thick) if rng.random() < 0.6 else box((width, width, thick))
    count = int(rng.integers(3, 5))
    angles = np.pi / 4 + np.arange(count) * 2 * np.pi / count
    around = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(count)]) * 0.42 * width  # (count, 3)
    top = np.array([0, 0, height])
    legs = [rod(spread * foot, foot + top, r) for foot in around]
    level = rng.uniform(0.25, 0.5)
    corners = around * (spread + (1 - spread) * level) + level * top
    rungs = [rod(a, b, 0.7 * r) for a, b in zip(corners, np.roll(corners, 1, axis=0), strict=True)]
    return [(seat.moved(top), "seat"), (joined(legs), "leg"), (joined(rungs), "rung")]


def table(rng: Rng) -> Assembly:
    width, depth, height = rng.uniform(0.9, 1.8), rng.uniform(0.6, 1.1), rng.uniform(0.4, 0.8)
    thick = rng.uniform(0.03, 0.08)
    oval = rng.random() < 0.3
    top = cylinder(0.5, thick).scaled((width, depth, 1)) if oval else box((width, depth, thick))
    inset = 0.75 if oval else 1.0
    legs = _support(rng, inset * width, inset * depth, height)
    parts: Assembly = [(top.moved((0, 0, height)), "top"), (legs, "leg")]
    if rng.random() < 0.3:
        parts.append((box((0.3 * width, 0.8 * depth, 0.5 * height), (0.3 * width, 0, 0.5 * height)), "drawer"))
    return parts
