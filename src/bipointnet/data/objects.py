"""All objects of the data set `shapes` that are not furniture: one function per class, as in `furniture`."""

import numpy as np

from bipointnet.data.solids import (
    Assembly,
    Rng,
    across,
    box,
    cylinder,
    ellipsoid,
    extrusion,
    joined,
    panel,
    revolution,
    rod,
    torus,
    tube,
)


def airplane(rng: Rng) -> Assembly:
    radius = rng.uniform(0.05, 0.12)
    t = np.linspace(0, 1, 12)
    girth = radius * np.sqrt(1.001 - np.clip(4 * t - 3, 0, 1) ** 2) * np.minimum(1, 0.15 + 2.2 * t)
    path = np.column_stack([0 * t, t - 0.5, 0.4 * radius * (1 - t)])
    parts: Assembly = [(tube(path, girth, 14), "fuselage")]
    span, chord, sweep = rng.uniform(0.28, 0.7), rng.uniform(0.12, 0.3), rng.uniform(-0.02, 0.3)
    taper, dihedral, root = rng.uniform(0.2, 0.95), rng.uniform(-0.05, 0.15), rng.uniform(0.0, 0.2)
    heights = [-0.9, 2.0] if rng.random() < 0.25 else [rng.choice([-0.6, 0.9])]  # two wings: a biplane
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


def boat(rng: Rng) -> Assembly:
    width, depth = rng.uniform(0.13, 0.24), rng.uniform(0.12, 0.25)
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    deck = panel(np.column_stack([width * np.cos(angle), 0.5 * np.sin(angle), 0 * angle]))
    stern = box((1.4 * width, 0.3, 0.7 * depth), (0, -0.3, -0.7 * depth))
    parts: Assembly = [(joined([ellipsoid((width, 0.5, depth), -np.pi / 2, 0), deck, stern]), "hull")]
    if rng.random() < 0.4:
        for share, floor in ((1.0, 0.0), (0.6, 0.1))[: int(rng.integers(1, 3))]:
            tall, long = rng.uniform(0.1, 0.18), rng.uniform(0.3, 0.5) * share
            parts.append((box((1.2 * share * width, long, tall), (0, -0.05, floor)), "cabin"))
        return [*parts, (rod((0, -0.05, 0), (0, -0.05, rng.uniform(0.35, 0.5)), 0.02), "mast")]
    mast, height, lean = rng.uniform(-0.05, 0.15), rng.uniform(0.5, 1.3), rng.uniform(-0.08, 0.08)
    low, boom = rng.uniform(0.08, 0.2), rng.uniform(0.35, 0.6)
    spars = [rod((0, mast, 0), (0, mast, height), 0.018), rod((0, mast, low), (lean, mast - boom, low), 0.014)]
    parts.append((joined(spars), "mast"))
    parts.append((panel([(0, mast, low), (lean, mast - boom, low), (0, mast, 0.97 * height)]), "sail"))
    if rng.random() < 0.6:
        parts.append((panel([(0, mast + 0.03, low), (-lean, 0.5, 0.03), (0, mast + 0.03, 0.85 * height)]), "sail"))
    return parts


def bottle(rng: Rng) -> Assembly:
    radius, shoulder, neck = rng.uniform(0.15, 0.28), rng.uniform(0.4, 0.7), rng.uniform(0.04, 0.08)
    top = shoulder + rng.uniform(0.05, 0.2)
    bend, waist = radius * rng.uniform(0.5, 0.9), radius * rng.uniform(0.8, 1.1)
    sides = 4 if rng.random() < 0.25 else 28
    body = [(0, 0), (radius, 0.0), (waist, shoulder / 2), (radius, shoulder), (bend, (shoulder + top) / 2), (neck, top)]
    end = top + rng.uniform(0.08, 0.3)
    lip = torus(neck, 0.015).turned("x", np.pi / 2)
    cap = cylinder(1.35 * neck, rng.uniform(0.05, 0.1)) if rng.random() < 0.75 else lip
    return [
        (revolution(body, sides).turned("z", np.pi / 4), "body"),
        (revolution([(neck, top), (neck, end)]), "neck"),
        (cap.moved((0, 0, end)), "cap"),
    ]


def bucket(rng: Rng) -> Assembly:
    low, high, height = rng.uniform(0.2, 0.35), rng.uniform(0.36, 0.5), rng.uniform(0.5, 0.9)
    rim = torus(high, 0.025).turned("x", np.pi / 2).moved((0, 0, height))
    squash, swing = rng.uniform(0.7, 1.3), rng.uniform(-1.2, 1.2)
    handle = torus(high, 0.022, 0, np.pi, 16).scaled((1, 1, squash)).turned("x", swing).moved((0, 0, height))
    walls = [revolution([(0, 0), (low, 0), (high, height)]), rim]
    if rng.random() < 0.5:
        walls.append(revolution([(0, 0.02), (0.95 * low, 0.02), (0.96 * high, height)]))
    return [(joined(walls), "body"), (handle, "handle")]


def car(rng: Rng) -> Assembly:
    length, width, wheel = rng.uniform(0.9, 1.2), rng.uniform(0.4, 0.55), rng.uniform(0.09, 0.14)
    floor, belt, roof = 0.9 * wheel, rng.uniform(0.25, 0.36), rng.uniform(0.45, 0.8)
    nose, tail, hood = 0.5 * length, -0.5 * length, 0.5 * length - 0.05
    side = [(tail, floor), (nose, floor), (nose, 0.85 * belt), (hood, belt), (tail + 0.03, belt), (tail, 0.8 * belt)]
    rear, front = rng.choice([0.02, 0.15, 0.45]) * length, rng.uniform(0.05, 0.35) * length
    slope = rng.uniform(0.03, 0.12)
    cabin = [(tail + rear, belt), (nose - front, belt), (nose - front - slope, roof), (tail + rear + 0.7 * slope, roof)]
    tire = cylinder(wheel, 0.08).moved((0, 0, -0.04)).turned("y", np.pi / 2)
    places = [(x * width, y * length, wheel) for x in (-0.5, 0.5) for y in (-0.3, 0.3)]
    wheels: Assembly = [(tire.moved(place), "wheel") for place in places]
    return [(across(side, width), "body"), (across(cabin, 0.88 * width), "cabin"), *wheels]


def goblet(rng: Rng) -> Assembly:
    foot, stem, tall = rng.uniform(0.16, 0.26), rng.uniform(0.2, 0.5), rng.uniform(0.25, 0.6)
    wide, mouth = rng.uniform(0.18, 0.32), rng.uniform(0.6, 1.15)
    parts: Assembly = [
        (revolution([(0, 0), (foot, 0), (foot, 0.02), (0.03, rng.uniform(0.04, 0.08))]), "foot"),
        (rod((0, 0, 0.04), (0, 0, stem), 0.025), "stem"),
    ]
    if rng.random() < 0.4:
        parts.append((ellipsoid((0.05, 0.05, 0.05), sides=12).moved((0, 0, rng.uniform(0.3, 0.8) * stem)), "stem"))
    t = np.linspace(0, 1, 9)
    swell = np.sin(np.pi / 2 * t ** rng.uniform(0.4, 1.0)) if rng.random() < 0.75 else t
    profile = np.column_stack([wide * swell * (1 + (mouth - 1) * t**2), stem + tall * t])
    return [*parts, (revolution(profile), "bowl")]


def guitar(rng: Rng) -> Assembly:
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
    stance = rng.uniform(0.0, 0.2) if rng.random() < 0.35 else rng.uniform(0.9, np.pi / 2)  # lying, or leaning upright
    return [(part.turned("x", stance), name) for part, name in parts]


def laptop(rng: Rng) -> Assembly:
    width, depth, thick = rng.uniform(0.3, 0.4), rng.uniform(0.2, 0.28), rng.uniform(0.012, 0.03)
    screen = box((width, 0.012, rng.uniform(0.85, 1.0) * depth)).turned("x", rng.uniform(-0.1, 0.7))
    pad = box((0.3 * width, 0.25 * depth, 0.004), (0, 0.3 * depth, thick))
    keys = box((0.85 * width, 0.4 * depth, 0.006), (0, -0.15 * depth, thick))
    base = joined([box((width, depth, thick)), pad, keys])
    return [(base, "base"), (screen.moved((0, -depth / 2, thick)), "screen")]


def mug(rng: Rng) -> Assembly:
    low, high, height = rng.uniform(0.28, 0.4), rng.uniform(0.34, 0.44), rng.uniform(0.55, 1.1)
    belly, wall = (low + high) / 2 * rng.uniform(0.92, 1.15), rng.uniform(0.02, 0.05)
    profile = np.array([(0, 0), (low, 0), (belly, height / 2), (high, height)])
    inner = np.array([(0, wall), (low - wall, wall), (belly - wall, height / 2), (high - wall, height)])
    loop, thick = rng.uniform(0.16, 0.28), rng.uniform(0.03, 0.05)
    curved, out = rng.random() < 0.7, rng.uniform(0.8, 1.3) * loop
    bow = torus(1, thick / loop, -np.pi / 2, np.pi / 2, 14).scaled((out, loop, loop))
    handle = bow if curved else tube([(0, 0, -loop), (out, 0, -loop), (out, 0, loop), (0, 0, loop)], thick)
    return [
        (revolution(np.concatenate([profile, inner[::-1]])), "body"),
        (handle.moved((0.97 * min(low, belly, high), 0, rng.uniform(0.45, 0.55) * height)), "handle"),
    ]


def plant(rng: Rng) -> Assembly:
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


def rocket(rng: Rng) -> Assembly:
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
    if rng.random() < 0.35:
        tank = revolution([(0, 0), (0.5 * radius, 0), (0.5 * radius, 0.5 * height), (0, 0.5 * height + radius)])
        parts += [(tank.moved((1.5 * radius * side, 0, -0.05)), "booster") for side in (-1, 1)]
    return parts


def teapot(rng: Rng) -> Assembly:
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
    if rng.random() < 0.7:
        ear = torus(1, 0.09, np.pi / 2, 3 * np.pi / 2, 14).scaled((rng.uniform(0.7, 1.2) * loop, 0.35, loop))
        return [*parts, (ear.moved((-0.75 * wide, 0, 1.05 * tall)), "handle")]
    bow = torus(0.85 * wide, 0.03, 0.1, np.pi - 0.1, 12).scaled((1, 1, rng.uniform(1.2, 1.8)))
    return [*parts, (bow.moved((0, 0, 1.4 * tall)), "handle")]


def umbrella(rng: Rng) -> Assembly:
    wide, tall, length = rng.uniform(0.4, 0.6), rng.uniform(0.15, 0.35), rng.uniform(0.7, 1.1)
    tent = revolution([(wide, 0), (0.6 * wide, 0.6 * tall), (0, tall)], int(rng.integers(6, 11)))
    canopy = tent if rng.random() < 0.5 else ellipsoid((wide, wide, tall), 0.05, np.pi / 2)
    hook = rng.uniform(0.06, 0.12)
    crook = torus(hook, 0.024, np.pi, 2 * np.pi, 12).moved((hook, 0, 0))
    shaft = rod((0, 0, 0), (0, 0, length + 0.06), 0.016)
    return [(canopy.moved((0, 0, length - tall)), "canopy"), (shaft, "shaft"), (crook, "handle")]
