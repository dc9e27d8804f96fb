"""The built-in data set `outdoors`: tiles of towns as airborne LiDAR sees them, for semantic segmentation.

| split | tiles | classes of points | points per tile |
|---|---|---|---|
| train | 12, cut into overlapping blocks | 6 | about 90,000 |
| test | 3, cut into adjacent blocks | 6 | about 90,000 |

Lengths are in meters, z is up, and one corner of a tile is the origin of x and y. A `town` is built first: terrain,
streets, and objects that do not overlap in plan. Then pulses are followed from the sky to the ground, up to 20 degrees
from the vertical. What they meet above the ground hides what is below it: a roof ends a pulse; leaves and wires may let
it pass, and it returns several times.
"""

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet.data.blocks import BlockLayout, Columns, grid_blocks
from bipointnet.data.cache import cached
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.generated import check_size, cloud_stream
from bipointnet.data.rays import MOST_RETURNS, SEPARATION, STEEPEST, Hits, Pulses
from bipointnet.data.solids import Rng
from bipointnet.data.terrain import Terrain, Town
from bipointnet.data.town import build_town
from bipointnet.errors import UserError
from bipointnet.extras import require
from bipointnet.files import write_beside

CLASSES: tuple[str, ...] = ("ground", "vegetation", "building", "wire", "car", "pole")
# The codes of ASPRS; 64 and above are for users to define.
CODES: dict[str, int] = {"ground": 2, "vegetation": 5, "building": 6, "wire": 14, "car": 64, "pole": 65}

# Part of the cache key: raise it whenever the same seed gives other scenes than before.
VERSION = 1
LAYOUT = BlockLayout(10.0, ("x", "y", "height"), {})
TILES = 12, 3  # to train and to test
STEPS = 1, 2  # of the blocks of these tiles, as in `grid_blocks`
MARGIN = 8.0  # pulses around the tile that a tall object may bring into it
HEIGHT_NOISE = 0.02
FLIGHT_HEIGHT, FLIGHT_SPACING = 900.0, 300.0

_WKT = (
    'PROJCS["WGS 84 / UTM zone 32N",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4326"]],'
    'PROJECTION["Transverse_Mercator"],PARAMETER["latitude_of_origin",0],PARAMETER["central_meridian",9],'
    'PARAMETER["scale_factor",0.9996],PARAMETER["false_easting",500000],PARAMETER["false_northing",0],'
    'UNIT["metre",1],AXIS["Easting",EAST],AXIS["Northing",NORTH],AUTHORITY["EPSG","32632"]]'
)


class Scene(NamedTuple):
    """The points of a tile; x is in [0, width], y in [0, depth]."""

    points: np.ndarray  # (N, 3) float64
    labels: np.ndarray  # (N,) int64, indices of CLASSES
    intensity: np.ndarray  # (N,) uint16
    return_number: np.ndarray  # (N,) uint8, from 1
    number_of_returns: np.ndarray  # (N,) uint8


def _emit(rng: Rng, terrain: Terrain, width: float, depth: float, density: float) -> Pulses:
    lower, upper = np.full(2, -MARGIN), np.array([width, depth]) + MARGIN
    xy = _scattered(rng, lower, upper, density)
    columns, rows = np.ceil((upper - lower) / Pulses.CELL).astype(int)
    column, row = np.minimum(((xy - lower) / Pulses.CELL).astype(int), (columns - 1, rows - 1)).T
    cell = row * columns + column
    order = np.argsort(cell, kind="stable")
    xy, start = xy[order], np.searchsorted(cell[order], np.arange(rows * columns + 1))
    first = np.column_stack([start[:-1].reshape(rows, columns), start[columns::columns]])
    return Pulses(np.column_stack([xy, terrain.at(xy)]), _slant(rng, xy), lower, first)


def _scattered(rng: Rng, lower: np.ndarray, upper: np.ndarray, density: float) -> np.ndarray:  # (P, 2)
    """One position in each square of a grid; the density varies by 10 %, as the speed of an airplane does."""
    step = 1 / np.sqrt(1.1 * density)
    corners = [np.arange(low, high, step) for low, high in zip(lower, upper, strict=True)]
    xy = np.stack(np.meshgrid(*corners), axis=-1).reshape(-1, 2)
    xy += rng.uniform(0, step, xy.shape)
    wave, phase = 2 * np.pi / rng.uniform(40, 120, 2) * rng.choice([-1, 1], 2), rng.uniform(0, 6)
    return xy[rng.random(len(xy)) * 1.1 < 1 + 0.1 * np.sin(xy @ wave + phase)]


def _slant(rng: Rng, xy: np.ndarray) -> np.ndarray:  # (P, 2)
    """Each pulse comes from one of the two nearest flight lines, and from before or behind."""
    angle = rng.uniform(0, 2 * np.pi)
    across, along = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    place = xy @ across / FLIGHT_SPACING + rng.uniform()
    line = np.floor(place) + (rng.random(len(xy)) < 0.5)
    aside = (line - place) * FLIGHT_SPACING / FLIGHT_HEIGHT
    ahead = rng.choice([-1.0, 1.0], len(xy)) * np.tan(np.radians(9.0))
    slant = aside[:, None] * across + ahead[:, None] * along
    return slant * np.minimum(1, STEEPEST / np.linalg.norm(slant, axis=1, keepdims=True))


def _ground_hits(rng: Rng, town: Town, pulses: Pulses) -> Hits:
    """The end of every pulse: asphalt on streets, elsewhere grass with patches of bare soil."""
    points = pulses.ground.copy()
    xy = points[:, :2]
    on_street = town.paved[tuple(((xy - town.plan.lower) / town.plan.CELL).astype(int).T)]
    waves = rng.uniform(-0.12, 0.12, (2, 2))
    soil = np.sin(xy @ waves[0]) * np.sin(xy @ waves[1]) > 0.5
    brightness = np.where(on_street, 0.17, np.where(soil, 0.32, 0.45)) + rng.normal(0, 0.07, len(xy))
    points[:, 2] += rng.normal(0, 1, len(xy)) * np.where(on_street, 0.0, 0.02)
    return Hits(np.arange(len(xy)), np.zeros(len(xy)), points, brightness, np.ones(len(xy)))


def _cast(rng: Rng, town: Town, pulses: Pulses) -> tuple[Hits, np.ndarray]:
    """Where pulses meet the ground and the objects, and the labels (H,) int64."""
    found = [("ground", _ground_hits(rng, town, pulses))]
    for thing in town.objects:
        found += ((thing.label, hits) for hits in thing.hits(rng, pulses))
    labels = np.repeat([CLASSES.index(label) for label, _ in found], [len(hits.pulse) for _, hits in found])
    return Hits(*(np.concatenate(column) for column in zip(*(hits for _, hits in found), strict=True))), labels


def _since_first(counts: np.ndarray, first: np.ndarray) -> np.ndarray:  # (H,)
    """The running sum of counts within each pulse, without the own count; `first` marks the first hit of each."""
    before = np.cumsum(counts) - counts
    starts = np.flatnonzero(first)
    return before - np.repeat(before[starts], np.diff(np.append(starts, len(counts))))


def _returns(rng: Rng, hits: Hits, labels: np.ndarray) -> Scene:
    """Follow each pulse down: it ends where it is stopped, and returns that are too near to the last one are lost."""
    order = np.lexsort((-hits.rise, hits.pulse))
    pulse, rise, stop = hits.pulse[order], hits.rise[order], hits.stop[order]
    first = np.diff(pulse, prepend=-1) != 0
    alive = _since_first((rng.random(len(order)) < stop).astype(int), first) == 0
    apart = first | (-np.diff(rise, prepend=np.inf) >= SEPARATION)
    number = _since_first((alive & apart).astype(int), first) + 1
    kept = alive & apart & (number <= MOST_RETURNS)
    order, number, pulse = order[kept], number[kept], pulse[kept]
    total = np.bincount(pulse)[pulse]
    points = hits.points[order]
    points[:, 2] += rng.normal(0, HEIGHT_NOISE, len(points))
    shared = hits.brightness[order] * rng.uniform(0.75, 1.1, len(order)) / np.sqrt(total)  # the returns share a pulse
    intensity = (np.clip(shared, 0.005, 1) * 65535).astype(np.uint16)
    return Scene(points, labels[order], intensity, number.astype(np.uint8), total.astype(np.uint8))


def make_scene(rng: Rng, width: float = 100.0, depth: float = 100.0, density: float = 8.0) -> Scene:
    """Scan a random town: a tile of width x depth meters, with `density` first returns per square meter.

    A tile of at least 80 m x 80 m has points of all classes.

    >>> scene = make_scene(np.random.default_rng(0), width=80.0, depth=80.0, density=4.0)
    >>> [CLASSES[k] for k in np.unique(scene.labels)]
    ['ground', 'vegetation', 'building', 'wire', 'car', 'pole']
    """
    for what, size in (("width", width), ("depth", depth), ("density", density)):
        if not 0 < size < np.inf:
            raise UserError(f"{what} is {size}, expected a number above 0")
    town = build_town(rng, width, depth)
    pulses = _emit(rng, town.terrain, width, depth, density)
    scene = _returns(rng, *_cast(rng, town, pulses))
    inside = ((scene.points[:, :2] >= 0) & (scene.points[:, :2] <= (width, depth))).all(axis=1)
    return Scene(*(column[inside] for column in scene))


def outdoor_blocks(points: int) -> PointClouds:
    """The data set as a network learns it: blocks of 10 m with at least 512 points, as described in `blocks`."""
    points = max(512, points)
    splits = [
        cached(
            "outdoor-blocks",
            (VERSION, LAYOUT, which, TILES[which], STEPS[which], points),
            lambda which=which: _cut_tiles(which, points),
        )
        for which in (0, 1)
    ]
    train, test = (Split(cut["points"], np.zeros(len(cut["points"]), np.int64), cut["labels"]) for cut in splits)
    return PointClouds("outdoors", ("scene",), train, test, CLASSES, blocks=LAYOUT)


def _cut_tiles(which: int, points: int) -> dict[str, np.ndarray]:
    """The blocks of a split (0: train, 1: test)."""
    cut, labels = [], []
    for number in range(TILES[which]):
        rng = cloud_stream(0, which, number)
        scene = make_scene(rng)
        columns = Columns.of(LAYOUT, scene.points, np.empty((len(scene.points), 0), np.float32), "outdoors")
        blocks = grid_blocks(columns, points, rng, STEPS[which])
        cut.append(blocks.points)
        labels.append(scene.labels[blocks.index])
    return {"points": np.concatenate(cut), "labels": np.concatenate(labels)}


def write_tiles(
    folder: str | Path,
    count: int,
    width: float = 100.0,
    depth: float = 100.0,
    density: float = 8.0,
    seed: int = 0,
    suffix: str = ".laz",
) -> list[Path]:
    """Write scenes side by side as tile_000.laz, tile_001.laz, ... (or .las); a tile does not depend on the count.

    >>> import tempfile
    >>> [path.name for path in write_tiles(tempfile.mkdtemp(), 2, width=20, depth=20)]
    ['tile_000.laz', 'tile_001.laz']
    """
    check_size("count", count, least=0)
    check_size("seed", seed, least=0)
    if suffix not in (".las", ".laz"):
        raise UserError(f"suffix is {suffix!r}, expected '.las' or '.laz'")
    require("writing tiles", "laspy", *(["lazrs"] if suffix == ".laz" else []))
    paths = [Path(folder) / f"tile_{number:03}{suffix}" for number in range(count)]
    for number, path in enumerate(paths):
        scene = make_scene(cloud_stream(seed, 0, number), width, depth, density)
        write_beside(path, _las(scene, (500_000.0 + number * width, 5_400_000.0, 0.0), compress=suffix == ".laz"))
    return paths


def _las(scene: Scene, offsets: tuple[float, float, float], compress: bool) -> bytes:
    """The scene, moved by the offsets, as a LAS 1.4 file with points of format 6."""
    import laspy
    from laspy.vlrs.known import WktCoordinateSystemVlr

    cloud: Any = laspy.create(point_format=6, file_version="1.4")
    cloud.header.scales, cloud.header.offsets = [0.001] * 3, offsets
    cloud.header.vlrs.append(WktCoordinateSystemVlr(_WKT))
    cloud.header.global_encoding.wkt = True
    cloud.x, cloud.y, cloud.z = (scene.points + offsets).T
    cloud.classification = np.array([CODES[name] for name in CLASSES], np.uint8)[scene.labels]
    cloud.intensity = scene.intensity
    cloud.return_number, cloud.number_of_returns = scene.return_number, scene.number_of_returns
    file = io.BytesIO()
    cloud.write(file, do_compress=compress)
    return file.getvalue()
