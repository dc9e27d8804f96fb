"""Laws of the outdoor scenes: geometry, occlusion, returns, shares of the classes, and the files of tiles."""

import functools
import importlib
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial import KDTree

from bipointnet.data import outdoors
from bipointnet.data.generated import cloud_stream
from bipointnet.data.outdoors import CLASSES, CODES, Scene, make_scene, outdoor_blocks, write_tiles
from bipointnet.data.rays import STEEPEST, Body, Convex, Ellipsoid, Pulses, Rod, Wire
from bipointnet.data.terrain import Plan, Plot, Town, make_terrain
from bipointnet.data.town import build_town
from bipointnet.errors import UserError

laspy: Any = importlib.import_module("laspy")  # its types differ from its documentation

GROUND, VEGETATION, BUILDING, WIRE, CAR, POLE = range(6)
SEEDS = range(6)
SIZE, DENSITY = 90.0, 8.0


@functools.cache
def scene(seed: int) -> Scene:
    return make_scene(np.random.default_rng(seed), SIZE, SIZE, DENSITY)


@functools.cache
def town(seed: int) -> Town:
    """The town of the scene: the first that its random numbers give."""
    return build_town(np.random.default_rng(seed), SIZE, SIZE)


def of_class(seed: int, label: int) -> np.ndarray:  # (K, 3)
    return scene(seed).points[scene(seed).labels == label]


def above_ground(seed: int, points: np.ndarray) -> np.ndarray:  # (K,)
    """Heights above the mean of the nearest ground points in plan."""
    ground = of_class(seed, GROUND)
    near = KDTree(ground[:, :2]).query(points[:, :2], k=5)[1]  # (K, 5)
    return points[:, 2] - ground[near, 2].mean(axis=1)


def beneath(body: Body, points: np.ndarray, inset: float) -> np.ndarray:  # (K,) bool
    """Which points are between the vertical faces of a body, at least `inset` meters from each."""
    assert isinstance(body.shape, Convex)
    vertical = np.abs(body.shape.normals[:, 2]) < 1e-9
    normals, offsets = body.shape.normals[vertical, :2], body.shape.offsets[vertical]
    return np.all(points[:, :2] @ normals.T <= offsets - inset, axis=1)


def solids(seed: int, label: str) -> list[Body]:
    return [thing for thing in town(seed).objects if isinstance(thing, Body) and thing.label == label]


def pulses(seed: int, count: int = 4000) -> Pulses:
    """Pulses of random slants on flat ground, in cells."""
    rng = np.random.default_rng(seed)
    lower, cells = np.full(2, -8.0), 60
    xy = lower + rng.uniform(0, cells * Pulses.CELL, (count, 2))
    cell = ((xy - lower) / Pulses.CELL).astype(int) @ (1, cells)
    order = np.argsort(cell)
    start = np.searchsorted(cell[order], np.arange(cells**2 + 1))
    first = np.column_stack([start[:-1].reshape(cells, cells), start[cells::cells]])
    angle, slope = rng.uniform(0, 2 * np.pi, count), STEEPEST * np.sqrt(rng.uniform(0, 1, count))
    slant = slope[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return Pulses(np.column_stack([xy[order], np.zeros(count)]), slant, lower, first)


def test_classes_have_codes_of_asprs():
    assert tuple(CODES) == CLASSES
    assert [CODES[name] for name in ("ground", "vegetation", "building", "wire")] == [2, 5, 6, 14]
    assert all(64 <= CODES[name] <= 255 for name in ("car", "pole"))


def test_a_seed_gives_one_scene():
    again = make_scene(np.random.default_rng(0), SIZE, SIZE, DENSITY)
    for one, other in zip(scene(0), again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(scene(0).points) != len(scene(1).points)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_agree_and_points_are_inside_the_tile(seed: int):
    made = scene(seed)
    count = len(made.points)
    assert made.points.shape == (count, 3)
    assert [column.shape for column in made[1:]] == [(count,)] * 4
    assert [column.dtype for column in made] == [np.float64, np.int64, np.uint16, np.uint8, np.uint8]
    assert np.isfinite(made.points).all()
    assert (made.points[:, :2] >= 0).all()
    assert (made.points[:, :2] <= SIZE).all()
    assert np.ptp(made.points[:, :2], axis=0).min() > SIZE - 1
    assert np.ptp(made.points[:, 2]) < 60


@pytest.mark.parametrize("seed", SEEDS)
def test_all_classes_have_their_shares(seed: int):
    shares = np.bincount(scene(seed).labels, minlength=6) / len(scene(seed).labels)
    least = (0.45, 0.08, 0.06, 0.002, 0.002, 0.001)
    most = (0.75, 0.35, 0.32, 0.02, 0.03, 0.012)
    assert (shares >= least).all(), shares
    assert (shares <= most).all(), shares


@pytest.mark.parametrize("seed", range(20, 32))
def test_a_tile_of_80_m_has_all_classes_even_at_a_low_density(seed: int):
    labels = make_scene(np.random.default_rng(seed), 80.0, 80.0, density=2.0).labels
    assert np.bincount(labels, minlength=6).min() >= 5


@pytest.mark.parametrize(("width", "depth", "density"), [(90.0, 60.0, 2.0), (40.0, 70.0, 12.0), (5.0, 5.0, 8.0)])
@pytest.mark.parametrize("seed", range(3))
def test_first_returns_have_the_requested_density(seed: int, width: float, depth: float, density: float):
    made = make_scene(np.random.default_rng(seed), width, depth, density)
    first = (made.return_number == 1).sum()
    assert first / (width * depth) == pytest.approx(density, rel=0.25)
    assert (made.points[:, :2] <= (width, depth)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_density_is_even(seed: int):
    """Counted in squares of 15 m."""
    first = scene(seed).points[scene(seed).return_number == 1, :2]
    counts = np.histogramdd(first, bins=6, range=[(0, SIZE)] * 2)[0] / 15.0**2
    assert counts.min() > 0.6 * DENSITY
    assert counts.max() < 1.4 * DENSITY


@pytest.mark.parametrize("seed", SEEDS)
def test_roofs_and_cars_hide_the_ground(seed: int):
    ground = of_class(seed, GROUND)
    for label in ("building", "car"):
        for body in solids(seed, label):
            assert not beneath(body, ground, inset=0.01).any()


@pytest.mark.parametrize("seed", SEEDS)
def test_roofs_have_the_full_density(seed: int):
    """What is hidden is seen above: inside the walls of each house are as many points as pulses."""
    for body in solids(seed, "building"):
        inside = (np.abs(body.center - SIZE / 2) < SIZE / 2 - body.reach).all()
        if inside and body.reach > 3:  # no chimneys
            covered = beneath(body, of_class(seed, BUILDING), 0.0).sum()
            assert covered > 0.75 * DENSITY * wall_distances(body).prod()


def wall_distances(body: Body) -> np.ndarray:  # (2,)
    """The distances between opposite walls, which are the first four faces of a house."""
    assert isinstance(body.shape, Convex)
    return body.shape.offsets[:4].reshape(2, 2).sum(axis=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_walls_have_fewer_points_than_roofs(seed: int):
    """A wall of an isolated house faces the sky at 70 degrees at best: at most 0.36 of the density of a roof."""
    building = of_class(seed, BUILDING)
    on_wall = np.zeros(len(building), dtype=bool)
    for body in solids(seed, "building"):
        on_wall |= beneath(body, building, -0.02) & ~beneath(body, building, 0.02)
    assert 0.01 < on_wall.mean() < 0.35


@pytest.mark.parametrize("seed", SEEDS)
def test_returns_are_numbered(seed: int):
    made = scene(seed)
    assert made.return_number.min() == 1
    assert (made.return_number <= made.number_of_returns).all()
    assert set(np.unique(made.number_of_returns)) == {1, 2, 3, 4}


@pytest.mark.parametrize("seed", SEEDS)
def test_solid_things_end_a_pulse_and_leaves_and_wires_do_not(seed: int):
    made = scene(seed)
    last = made.return_number == made.number_of_returns
    assert last[np.isin(made.labels, (GROUND, BUILDING, CAR, POLE))].all()
    assert 0.2 < (~last)[made.labels == VEGETATION].mean() < 0.8
    assert 0.5 < (~last)[made.labels == WIRE].mean() < 0.99
    many = made.number_of_returns > 1
    assert set(np.unique(made.labels[many & (made.return_number == 1)])) == {VEGETATION, WIRE}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_ground_beneath_crowns_is_seen_rarely_and_by_last_returns(seed: int):
    """Within half the radius of a tall crown; pulses from the side, below the crown, are single returns."""
    made, under = scene(seed), np.zeros(len(scene(seed).points), dtype=bool)
    trees = {tuple(body.center): body.reach for body in solids(seed, "vegetation") if body.height > 8}
    for center, reach in trees.items():
        under |= ((made.points[:, :2] - center) ** 2).sum(axis=1) < (reach / 2) ** 2
    ground = under & (made.labels == GROUND)
    area = sum(np.pi * (reach / 2) ** 2 for reach in trees.values())
    assert 0 < ground.sum() < 0.5 * DENSITY * area
    elsewhere = ~under & (made.labels == GROUND)
    beneath_leaves, in_the_open = ((made.number_of_returns[where] > 1).mean() for where in (ground, elsewhere))
    assert beneath_leaves > 2.5 * in_the_open


@pytest.mark.parametrize("seed", SEEDS)
def test_wires_are_high_and_cars_are_low_and_poles_are_tall(seed: int):
    wire, car, pole = (above_ground(seed, of_class(seed, label)) for label in (WIRE, CAR, POLE))
    assert wire.min() >= 4
    assert wire.max() < 16
    assert car.max() <= 2.5
    assert np.percentile(car, 95) > 1.0
    assert 4 < pole.max() < 13.5


@pytest.mark.parametrize("seed", SEEDS)
def test_poles_reach_above_4_m(seed: int):
    """Of each pole inside the tile, the points within 1 m of its axis; a few poles may be hidden by a crown."""
    points, tops = of_class(seed, POLE), []
    for rod in (thing for thing in town(seed).objects if isinstance(thing, Rod) and thing.label == "pole"):
        if (np.abs(rod.foot[:2] - SIZE / 2) < SIZE / 2 - 1).all():
            own = np.linalg.norm(points[:, :2] - rod.foot[:2], axis=1) < 1
            tops.append(points[own, 2].max(initial=rod.foot[2]) - rod.foot[2])
            assert tops[-1] <= rod.height + 0.3
    assert len(tops) >= 2
    assert np.mean(np.array(tops) > 4) >= 0.8


def test_height_does_not_separate_the_classes():
    """Each of these pairs of classes shares heights: one has many points in the middle range of the other."""
    heights = {
        label: np.concatenate([above_ground(seed, of_class(seed, label)) for seed in SEEDS])
        for label in (VEGETATION, BUILDING, CAR, POLE)
    }
    for one, other in ((VEGETATION, CAR), (VEGETATION, BUILDING), (POLE, VEGETATION), (POLE, BUILDING)):
        low, high = np.percentile(heights[other], (10, 90))
        shared = ((heights[one] > low) & (heights[one] < high)).mean()
        assert shared > 0.02, (CLASSES[one], CLASSES[other])


def test_intensity_is_informative_but_not_sufficient():
    """The nearest mean intensity predicts the class better than chance (0.17), but far from always."""
    intensity = np.concatenate([scene(seed).intensity for seed in SEEDS]).astype(float)
    labels = np.concatenate([scene(seed).labels for seed in SEEDS])
    means = np.array([intensity[labels == k].mean() for k in range(6)])
    nearest = np.abs(intensity[:, None] - means).argmin(axis=1)
    recall = np.mean([(nearest[labels == k] == k).mean() for k in range(6)])
    assert 1.2 / 6 < recall < 0.6


def corners(plot: Plot) -> np.ndarray:  # (4, 2)
    assert plot.yaw is not None
    turn = np.array([[np.cos(plot.yaw), -np.sin(plot.yaw)], [np.sin(plot.yaw), np.cos(plot.yaw)]])
    return plot.center + (np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * plot.half) @ turn.T


def apart(one: Plot, other: Plot) -> bool:
    """Whether a line separates two rectangles; one along a side does, if any."""
    for yaw in (one.yaw, other.yaw):
        assert yaw is not None
        for axis in (np.array([np.cos(yaw), np.sin(yaw)]), np.array([-np.sin(yaw), np.cos(yaw)])):
            a, b = corners(one) @ axis, corners(other) @ axis
            if a.max() < b.min() or b.max() < a.min():
                return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_claimed_plots_do_not_overlap(seed: int):
    rng, plan = np.random.default_rng(seed), Plan(np.zeros(2), np.zeros((100, 100), dtype=bool))
    drawn = [Plot(rng.uniform(7, 43, 2), rng.uniform(0.3, 4.9, 2), rng.uniform(0, 3)) for _ in range(300)]
    claimed = [plot for plot in drawn if plan.claim([plot], gap=0.45)]
    assert len(claimed) > 10
    assert all(apart(one, other) for one, other in combinations(claimed, 2))
    assert not plan.claim([Plot(np.array([51.0, 5.0]), np.ones(2), 0.0)])


@pytest.mark.parametrize("seed", SEEDS)
def test_objects_do_not_overlap(seed: int):
    """No plant, pole or car is beneath or above a house, and no plant or house is on a car."""
    points = {label: of_class(seed, label) for label in (VEGETATION, BUILDING, CAR)}
    for label, others in (("building", (VEGETATION, CAR)), ("car", (VEGETATION, BUILDING))):
        for body in solids(seed, label):
            for other in others:
                assert not beneath(body, points[other], inset=-0.02).any(), (label, CLASSES[other])
    feet = np.array([thing.foot for thing in town(seed).objects if isinstance(thing, Rod)])
    for body in solids(seed, "building") + solids(seed, "car"):
        assert not beneath(body, feet, inset=0.0).any()
    crowns = list(
        {(*body.center, body.reach) for body in solids(seed, "vegetation") if isinstance(body.shape, Ellipsoid)}
    )
    xy, radius = np.array(crowns)[:, :2], np.array(crowns)[:, 2]
    distance = np.linalg.norm(xy[:, None] - xy, axis=2) + np.diag(np.full(len(xy), np.inf))
    assert (distance >= radius[:, None] + radius).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_streets_are_free_of_houses_and_plants_and_have_the_cars(seed: int):
    streets = town(seed).streets
    for label in (BUILDING, VEGETATION):
        assert not any(street.covers(of_class(seed, label)[:, :2]).any() for street in streets)
    assert np.any([street.covers(of_class(seed, CAR)[:, :2], 0.3) for street in streets], axis=0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_hills_are_smooth_and_streets_are_level_across(seed: int):
    hills = make_terrain(np.random.default_rng(seed), np.zeros(2), np.full(2, 300.0))
    slope = np.hypot(*np.gradient(hills.heights))
    assert 0.03 < slope.max() < 0.15
    assert 1.5 < np.ptp(hills.heights) < 40
    made = town(seed)
    street = made.streets[0]
    along = np.linspace(-35, 35, 50)
    across = street.half_width - 0.5
    left, right, middle = (street.place(along, offset) for offset in (across, -across, 0.0))
    alone = ~made.on_another_street(middle, street, 12.0)
    for side in (left, right):
        difference = np.abs(made.terrain.at(side) - made.terrain.at(middle))[alone]
        assert (difference < 0.05).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_street_coordinates_are_inverse_to_places(seed: int):
    rng = np.random.default_rng(seed)
    for street in town(seed).streets:
        along, across = rng.uniform(-60, 60, 30), rng.uniform(-9, 9, 30)
        found = street.coordinates(street.place(along, across))
        np.testing.assert_allclose(found, (along, across), atol=1e-9)
        ahead = street.place(along + 1e-5, 0.0) - street.place(along, 0.0)
        turned = np.arctan2(ahead[:, 1], ahead[:, 0]) - street.heading(along)
        np.testing.assert_allclose(np.cos(turned), 1, atol=1e-8)


def test_a_wire_is_a_catenary():
    """Its ends are fixed, it sags in the middle, and its curvature is that of cosh: z'' = sqrt(1 + z'^2) / a."""
    wire = Wire(np.array([0.0, 0, 9]), np.array([40.0, 0, 9]), sag=1.5, height=9.0)
    fraction = np.linspace(0, 1, 2001)
    z = wire.z(fraction)
    assert z[[0, -1]] == pytest.approx([9, 9])
    assert z[1000] == pytest.approx(9 - 1.5, abs=0.01)
    slope = np.gradient(z, 0.02)
    ratio = (np.gradient(slope, 0.02) / np.sqrt(1 + slope**2))[10:-10]
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-4)
    level = Wire(wire.start, wire.stop + np.array([0, 0, 3.0]), 1.5, 12.0)
    np.testing.assert_allclose(level.z(fraction) - z, 3 * fraction, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_points_of_wires_are_on_wires(seed: int):
    fraction = np.linspace(0, 1, 400)
    lines = [
        np.column_stack([wire.start[:2] + fraction[:, None] * (wire.stop - wire.start)[:2], wire.z(fraction)])
        for wire in town(seed).objects
        if isinstance(wire, Wire)
    ]
    distance = KDTree(np.concatenate(lines)).query(of_class(seed, WIRE))[0]
    assert distance.max() < 0.3
    assert len({round(wire.sag, 6) for wire in town(seed).objects if isinstance(wire, Wire)}) > 1


@pytest.mark.parametrize("seed", range(3))
def test_a_mapped_shape_has_the_mapped_points(seed: int):
    rng = np.random.default_rng(seed)
    shape, points = Convex(rng.normal(size=(12, 3)), rng.uniform(0.5, 2, 12)), rng.normal(size=(500, 3))
    yaw, gradient, offset = rng.uniform(0, 6), rng.normal(0, 0.5, 2), rng.normal(size=3)
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    raised = points + (points[:, :2] @ gradient)[:, None] * (0, 0, 1)
    inside = (points @ shape.normals.T <= shape.offsets).all(axis=1)
    assert 0.01 < inside.mean() < 0.99
    for mapped, there in (
        (shape.turned(yaw), points @ turn.T),
        (shape.tilted(gradient), raised),
        (shape.moved(offset), points + offset),
    ):
        np.testing.assert_array_equal((there @ mapped.normals.T <= mapped.offsets).all(axis=1), inside)


@pytest.mark.parametrize("seed", range(3))
def test_a_chord_is_the_part_of_a_pulse_inside_a_shape(seed: int):
    """Points of a pulse are inside the shape exactly between the two rises."""
    rng, some = np.random.default_rng(seed), pulses(seed)
    checked = set()
    for body in rng.permutation(np.array([t for t in town(seed).objects if isinstance(t, Body)], dtype=object))[:60]:
        which = some.near(body.center, body.reach, body.height)
        enter, leave = body.shape.chord(some.ground[which], some.slant[which])
        rise = rng.uniform(0, 25, len(which))
        points = some.at(which, rise)
        if isinstance(body.shape, Convex):
            inside = (points @ body.shape.normals.T <= body.shape.offsets).all(axis=1)
        else:
            inside = (((points - body.shape.center) / body.shape.radii) ** 2).sum(axis=1) <= 1
        np.testing.assert_array_equal(inside, (rise < enter) & (rise > leave))
        if inside.any():
            checked.add(type(body.shape))
    assert checked == {Convex, Ellipsoid}


@pytest.mark.parametrize("seed", range(3))
def test_near_leaves_out_no_pulse_that_meets_a_body(seed: int):
    made, found = pulses(seed), 0
    made.ground[:, 2] = town(seed).terrain.at(made.ground[:, :2])
    for body in (thing for thing in town(seed).objects if isinstance(thing, Body)):
        enter, leave = body.shape.chord(made.ground, made.slant)
        met = np.flatnonzero(enter > np.maximum(leave, 0))
        assert set(met) <= set(made.near(body.center, body.reach, body.height)), body
        found += len(met)
    assert found > 100
    assert len(made.near(np.full(2, SIZE / 2), 1.0, 1.0)) < 100


def test_the_data_set_is_blocks_of_tiles(monkeypatch: pytest.MonkeyPatch):
    """Each tile of 100 m has 5 x 5 adjacent blocks and 9 x 9 overlapping ones."""
    monkeypatch.setattr(outdoors, "TILES", (2, 1))
    data = outdoor_blocks(16)
    assert (data.name, data.point_classes, data.blocks) == ("outdoors", CLASSES, outdoors.LAYOUT)
    assert data.train.points.shape == (2 * 361, 512, 3)
    assert data.test.points.shape == (100, 512, 3)
    for split, which in ((data.train, 0), (data.test, 1)):
        assert split.point_labels is not None
        assert split.points.dtype == np.float32
        assert np.abs(split.points[..., :2]).max() <= 0.5
        assert set(np.unique(split.point_labels)) == set(range(6))
        # The first block of the first tile begins at its corner.
        made = make_scene(cloud_stream(0, which, 0))
        inside = (made.points[:, :2] < made.points[:, :2].min(axis=0) + 10).all(axis=1)
        lowest = made.points[inside, :2].min(axis=0)
        found = KDTree(made.points[inside, :2]).query(10 * (split.points[0, :, :2] + 0.5) + lowest)
        assert found[0].max() < 1e-4
        np.testing.assert_array_equal(made.labels[inside][found[1]], split.point_labels[0])


def test_the_data_set_is_the_same_with_and_without_the_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outdoors, "TILES", (1, 1))
    made = outdoor_blocks(1100)
    with monkeypatch.context() as patched:
        patched.setattr(outdoors, "make_scene", None)
        stored = outdoor_blocks(1100)
    for one, other in ((made.train, stored.train), (made.test, stored.test)):
        assert one.points.shape[1] == 1100
        assert one.point_labels is not None
        assert other.point_labels is not None
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_array_equal(one.point_labels, other.point_labels)


@pytest.mark.parametrize("suffix", [".las", ".laz"])
def test_tiles_are_las_files_of_the_scenes(tmp_path: Path, suffix: str):
    paths = write_tiles(tmp_path / "new", 2, width=40.0, depth=30.0, density=6.0, seed=3, suffix=suffix)
    assert [path.name for path in paths] == [f"tile_000{suffix}", f"tile_001{suffix}"]
    for number, path in enumerate(paths):
        made = make_scene(cloud_stream(3, 0, number), 40.0, 30.0, 6.0)
        cloud = laspy.read(path)
        assert (str(cloud.header.version), cloud.header.point_format.id) == ("1.4", 6)
        offset = (500_000 + 40 * number, 5_400_000, 0)
        np.testing.assert_allclose(cloud.xyz - offset, made.points, atol=0.0005001)
        np.testing.assert_array_equal(cloud.classification, [CODES[CLASSES[label]] for label in made.labels])
        np.testing.assert_array_equal(cloud.intensity, made.intensity)
        np.testing.assert_array_equal(cloud.return_number, made.return_number)
        np.testing.assert_array_equal(cloud.number_of_returns, made.number_of_returns)


def test_tiles_have_a_metric_coordinate_system(tmp_path: Path):
    (path,) = write_tiles(tmp_path, 1, width=20.0, depth=20.0, density=2.0)
    header = laspy.read(path).header
    (wkt,) = [vlr.string for vlr in header.vlrs if vlr.record_id == 2112]
    assert header.global_encoding.wkt
    assert wkt.startswith('PROJCS["WGS 84 / UTM zone 32N"')
    assert 'UNIT["metre",1]' in wkt
    assert wkt.count("[") == wkt.count("]")


def test_a_tile_does_not_depend_on_the_number_of_tiles_but_on_the_seed(tmp_path: Path):
    options: dict[str, Any] = {"width": 20.0, "depth": 20.0, "density": 4.0}
    one = write_tiles(tmp_path / "one", 1, **options)
    more = write_tiles(tmp_path / "more", 3, **options)
    other = write_tiles(tmp_path / "other", 1, seed=1, **options)
    assert write_tiles(tmp_path / "none", 0) == []
    np.testing.assert_array_equal(laspy.read(one[0]).xyz, laspy.read(more[0]).xyz)
    sizes = [len(laspy.read(path).xyz) for path in (more[0], more[1], more[2], other[0])]
    assert len(set(sizes)) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": -1}, "count is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"suffix": ".ply"}, r"suffix is '\.ply', expected '\.las' or '\.laz'"),
        ({"width": 0.0}, "width is 0.0"),
        ({"depth": -3.0}, "depth is -3.0"),
        ({"density": float("nan")}, "density is nan"),
        ({"width": float("inf")}, "width is inf"),
    ],
)
def test_invalid_arguments_are_refused(tmp_path: Path, arguments: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        write_tiles(tmp_path, **{"count": 1, **arguments})
    assert not list(tmp_path.iterdir())
