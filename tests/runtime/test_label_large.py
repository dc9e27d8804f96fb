"""label_large.py: the labels of `bipointnet.label`, in little memory. las_parts.py: the numbers of `clouds.read`."""

import importlib
import json
import random
import resource
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from copc_data import write_copc
from scan_data import Tile, write_tile
from tile_models import CLASSES, draw_points, hash_model, make_model

import bipointnet
from bipointnet.data import child_process, las_parts
from bipointnet.data.blocks import BlockLayout, Columns, cover, cover_size
from bipointnet.data.clouds import Cloud, read
from bipointnet.data.las_files import write_classification
from bipointnet.data.las_parts import open_parts
from bipointnet.data.outdoors import make_scene
from bipointnet.data.scan_files import in_meters
from bipointnet.errors import UserError
from bipointnet.runtime import label_large
from bipointnet.runtime.label_large import label_tile
from bipointnet.runtime.model import Model

laspy: Any = importlib.import_module("laspy")  # its types differ from its documentation

GOLDEN = Path(__file__).parents[1] / "golden"
CODES = range(CLASSES)
COLORS = ("red", "green", "blue")
WITH_COLORS = (2, 3, 7, 8)
WKT = 'PROJCS["a",GEOGCS["b",UNIT["degree",0.01745]],UNIT["Foot_US",0.3048006096]]'


class Case(NamedTuple):
    """A tile, a layout that fits it, and a limit on memory."""

    source: Path
    layout: BlockLayout
    points: int
    memory: int


def write_points(path: Path, xyz: np.ndarray, point_format: int, rng: np.random.Generator) -> Path:
    """Points with random intensity and colors; some tiles have one more column, or are far from zero."""
    las = laspy.create(point_format=point_format, file_version="1.4" if point_format >= 6 else "1.2")
    if rng.random() < 0.5:
        xyz = xyz + np.array([500_000, 5_400_000, 300])
    las.header.scales = [0.001, 0.002, 0.01]
    las.header.offsets = np.floor(xyz.min(axis=0))
    las.add_extra_dim(laspy.ExtraBytesParams("reflectance", np.float32))
    las.x, las.y, las.z = xyz.T
    las.intensity = rng.integers(0, 4000, len(xyz))
    las["reflectance"] = rng.normal(size=len(xyz))
    las.return_number = rng.integers(1, 5, len(xyz))
    if point_format in WITH_COLORS:
        las.red, las.green, las.blue = rng.integers(0, 256, (3, len(xyz)))
        las.blue[rng.integers(len(xyz))] = rng.choice([255, 65535])  # one point decides the scale of all
    las.write(path)
    if rng.random() < 0.3:
        data = bytearray(path.read_bytes())
        struct.pack_into("<d", data, 139, -0.002)  # y to the south; laspy cannot write it
        path.write_bytes(data)
    return path


def draw_case(seed: int, folder: Path) -> Case:
    rng = np.random.default_rng(seed)
    side = float(rng.choice([0.3, 2.0, 20.0]))
    point_format = int(rng.choice([0, 1, 2, 3, 6, 7, 8]))
    names = ["x", "y", str(rng.choice(["z", "height"]))]
    names += [name for name in ("intensity", "reflectance", "return_number", "x/size", "z/size") if rng.random() < 0.4]
    names += COLORS if point_format in WITH_COLORS and rng.random() < 0.7 else ()
    scales = {"intensity": 3000.0, "reflectance": 0.7, "return_number": 5.0}
    layout = BlockLayout(side, tuple(names), {name: scales[name] for name in names if name in scales})
    file = folder / f"a{rng.choice(['.las', '.laz'])}"
    source = write_points(file, draw_points(rng, side), point_format, rng)
    return Case(source, layout, int(rng.choice([8, 32, 500])), int(rng.choice([1, 20_000, 300_000, 1 << 30])))


# The law


def check_law(model: Model, case: Case, folder: Path, threads: int = 1) -> np.ndarray:
    """Label a tile in both ways; the labels."""
    calls: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        calls.append((done, total))

    target, expected = (folder / name / f"b{case.source.suffix}" for name in ("new", "expected"))
    options: Any = {"memory": case.memory, "threads": threads, "progress": progress}
    counts = label_tile(model, case.source, target, codes=CODES, **options).counts
    cloud = read(case.source)
    labels = bipointnet.label(model, cloud)
    np.testing.assert_array_equal(counts, np.bincount(labels, minlength=CLASSES))
    write_classification(case.source, expected, labels)
    assert target.read_bytes() == expected.read_bytes()
    columns = Columns.of(case.layout, cloud.points, case.layout.read(cloud, "a"), "a")
    assert calls[-1] == (cover_size(columns, case.points),) * 2
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    target.unlink()
    return labels


@pytest.mark.parametrize("seeds", range(6))
def test_the_labels_are_those_of_the_whole_tile(seeds: int, tmp_path: Path) -> None:
    for seed in range(10 * seeds, 10 * seeds + 10):
        case = draw_case(seed, tmp_path)
        labels = check_law(hash_model(case.layout, case.points), case, tmp_path)
        assert len(labels) < 900 or len(np.unique(labels)) == CLASSES
    assert {path.name for path in tmp_path.iterdir()} <= {"a.las", "a.laz", "new", "expected"}


@pytest.mark.parametrize("seed", range(4))
def test_the_labels_of_packed_networks(seed: int, tmp_path: Path) -> None:
    case = draw_case(1000 + seed, tmp_path)
    check_law(make_model(tmp_path / "model.bpn", case.layout, case.points), case, tmp_path, threads=1 + seed % 2)


def test_any_limit_on_memory_gives_the_same_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = BlockLayout(5.0, ("x", "y", "height", "intensity"), {"intensity": 300.0})
    source, bands = write_tile(tmp_path / "a.laz", Tile(0, points=20_000)), set[int]()
    monkeypatch.setattr(label_large, "cover", lambda *args: (bands.add(len(args[0].xyz)), cover(*args))[1])
    for memory in (1, 500_000, 1_000_000, 2_000_000, 3_000_000, 1 << 30):
        check_law(hash_model(layout, 64), Case(source, layout, 64, memory), tmp_path)
    assert min(bands) < 2000
    assert max(bands) == 20_000
    assert len(bands) > 20


@pytest.mark.parametrize("suffix", [".las", ".laz"])
def test_parts_have_the_numbers_of_the_whole_file(suffix: str, tmp_path: Path) -> None:
    for seed in range(20 if suffix == ".las" else 8):
        rng = np.random.default_rng(seed)
        xyz = draw_points(rng, 20.0)
        source = write_points(tmp_path / f"a{suffix}", xyz, int(rng.choice([0, 3, 6, 7])), rng)
        whole, done = read(source), 0
        with open_parts(source) as parts:
            extremes = parts.extremes()
            assert len(extremes) <= 10
            for points in parts.read(1000):
                part = parts.cloud(np.concatenate([extremes, points]))
                assert (part.origin, part.color_scale) == (whole.origin, whole.color_scale)
                mine = slice(done, done + len(points))
                np.testing.assert_array_equal(part.points[len(extremes) :], whole.points[mine])
                for name, values in whole.fields.items():
                    np.testing.assert_array_equal(part.fields[name][len(extremes) :], values[mine])
                if whole.colors is not None:
                    assert part.colors is not None
                    np.testing.assert_array_equal(part.colors[len(extremes) :], whole.colors[mine])
                done += len(points)
        assert done == len(whole.points)


def test_codes_units_and_the_target(tmp_path: Path) -> None:
    """Feet become meters; a code may be of several classes; the target may be the source."""
    layout = BlockLayout(2.0, ("x", "y", "z"), {})
    model = hash_model(layout, 32)
    source = write_tile(tmp_path / "a.las", Tile(1), wkt=WKT)
    cloud = read(source)
    codes = np.arange(CLASSES) % 5 + 200
    expected = bipointnet.label(model, Cloud(in_meters(cloud.points, "us-ft")))
    counts = label_tile(model, source, source, codes=codes.tolist(), unit="us-ft", memory=100_000).counts
    np.testing.assert_array_equal(counts, np.bincount(expected, minlength=CLASSES))
    np.testing.assert_array_equal(laspy.read(source).classification, codes[expected])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.las"]


def test_codes_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_large, "_WINDOW", 777)
    model = hash_model(BlockLayout(20.0, ("x", "y", "z"), {}), 100)
    source = write_tile(tmp_path / "a.las", Tile(2))
    label_tile(model, source, tmp_path / "b.las", codes=CODES, memory=1)
    np.testing.assert_array_equal(laspy.read(tmp_path / "b.las").classification, bipointnet.label(model, source))


def test_a_copc_tile_becomes_a_labeled_laz(tmp_path: Path) -> None:
    """Its points are in the chunks of a tree, of which laspy reads windows."""
    write_tile(tmp_path / "a.las", Tile(4))
    write_copc(tmp_path / "a.las", tmp_path / "a.copc.laz")
    with laspy.CopcReader.open(tmp_path / "a.copc.laz") as reader:
        low, high = np.array([10.0, 10.0]), np.array([30.0, 20.0])
        window = reader.query(laspy.copc.Bounds(mins=low, maxs=high))
    xyz = Tile(4).points
    assert len(window) == ((xyz[:, :2] >= low) & (xyz[:, :2] <= high)).all(axis=1).sum()
    layout = BlockLayout(10.0, ("x", "y", "height", "intensity"), {"intensity": 3000.0})
    check_law(hash_model(layout, 64), Case(tmp_path / "a.copc.laz", layout, 64, 100_000), tmp_path)


# Mistakes


@pytest.fixture
def aerial(tmp_path: Path) -> Model:
    return make_model(tmp_path / "model.bpn", BlockLayout(20.0, ("x", "y", "height", "intensity"), {"intensity": 9.0}))


def refused(model: Model, source: Path, **options: Any) -> str:
    """The sentence with which a tile is refused; nothing is written, and no temporary file is left."""
    before = sorted(source.parent.rglob("*"))
    target, codes = source.parent / "new" / f"b{source.suffix}", range(len(model.classes))
    with pytest.raises(UserError) as caught:
        label_tile(model, source, options.pop("target", target), codes=options.pop("codes", codes), **options)
    assert "\n" not in str(caught.value)
    assert sorted(source.parent.rglob("*")) == before
    return str(caught.value)


def test_models_that_label_no_tiles(tmp_path: Path) -> None:
    source = write_tile(tmp_path / "a.las", Tile(0))
    assert "expected one of the task semantic" in refused(bipointnet.load(GOLDEN / "shapes-parts.bpn"), source)
    assert "the model classifies clouds" in refused(bipointnet.load(GOLDEN / "shapes.bpn"), source)
    model = make_model(tmp_path / "own.bpn", None)
    assert "does not say how scans are cut into blocks" in refused(model, source)


def test_missing_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are missed before all points are read."""
    source = write_tile(tmp_path / "a.laz", Tile(0))
    monkeypatch.setattr(las_parts.LasParts, "extremes", lambda _: pytest.fail("reads the points"))
    with_colors = make_model(tmp_path / "colors.bpn", BlockLayout(20.0, ("x", "y", "z", *COLORS), {}))
    assert "a.laz: holds no colors" in refused(with_colors, source)
    with_others = make_model(tmp_path / "others.bpn", BlockLayout(20.0, ("x", "y", "z", "echo"), {"echo": 1.0}))
    assert "a.laz: holds no column echo" in refused(with_others, source)


def test_colors_in_extra_bytes(tmp_path: Path) -> None:
    """Whether such columns are colors depends on all points."""
    las = laspy.create(point_format=6, file_version="1.4")
    for name in COLORS:
        las.add_extra_dim(laspy.ExtraBytesParams(name, np.float32))
    las.x = np.arange(10.0)
    las.write(tmp_path / "a.las")
    model = make_model(tmp_path / "colors.bpn", BlockLayout(20.0, ("x", "y", "z", *COLORS), {}))
    assert "a.las: has colors in extra bytes" in refused(model, tmp_path / "a.las")


def test_columns_that_are_not_finite(aerial: Model, tmp_path: Path) -> None:
    las = laspy.create(point_format=6, file_version="1.4")
    las.add_extra_dim(laspy.ExtraBytesParams("echo", np.float32))
    las.x = np.arange(5000) % 50.0
    las["echo"][4321] = np.nan
    las.write(tmp_path / "a.las")
    model = make_model(tmp_path / "model.bpn", BlockLayout(20.0, ("x", "y", "z", "echo"), {"echo": 1.0}))
    assert "a.las: has echo that is NaN or infinite" in refused(model, tmp_path / "a.las", memory=1)


def test_units_codes_and_targets(aerial: Model, tmp_path: Path) -> None:
    source = write_tile(tmp_path / "feet.las", Tile(0), wkt=WKT)
    assert "in US survey feet; expected meters; pass --unit us-ft" in refused(aerial, source)
    assert "unit is 'yd'; expected one of m, ft, us-ft" in refused(aerial, source, unit="yd")
    source = write_tile(tmp_path / "a.las", Tile(0))
    assert "codes: 2 codes for 24 classes; expected one code per class" in refused(aerial, source, codes=(1, 2))
    assert "the code 300, expected 0 to 255 in the point format 6" in refused(aerial, source, codes=[300] * CLASSES)
    assert "expected .las or .laz; choose another name" in refused(aerial, source, target=tmp_path / "b.ply")
    (tmp_path / "folder.las").mkdir()
    assert "folder.las: is not a file" in refused(aerial, source, target=tmp_path / "folder.las")
    assert "none.las: is not a file" in refused(aerial, tmp_path / "none.las")
    (tmp_path / "a.xyz").write_text("0 0 0")
    assert "a.xyz: the suffix '.xyz', expected .las or .laz" in refused(aerial, tmp_path / "a.xyz")
    rng = np.random.default_rng(0)
    source = write_points(tmp_path / "old.las", draw_points(rng, 20.0), 1, rng)
    assert "the code 64, expected 0 to 31 in the point format 1" in refused(aerial, source, codes=[64] * CLASSES)


def test_tiles_without_points_and_too_wide_ones(aerial: Model, tmp_path: Path) -> None:
    for suffix in (".las", ".laz"):
        las = laspy.create(point_format=6, file_version="1.4")
        las.write(tmp_path / f"a{suffix}")
        assert "0 points" in refused(aerial, tmp_path / f"a{suffix}")
    tile = Tile(0)
    tile.points[5] *= 10_000
    assert "m wide, expected at most 20000 m" in refused(aerial, write_tile(tmp_path / "b.laz", tile))


def test_coordinates_that_are_not_finite(aerial: Model, tmp_path: Path) -> None:
    source = write_tile(tmp_path / "a.las", Tile(0))
    data = bytearray(source.read_bytes())
    struct.pack_into("<d", data, 131, 1e306)
    struct.pack_into("<i", data, len(data) - 30 * 6000, 0)
    source.write_bytes(data)
    assert refused(aerial, source).startswith(f"{source}: ")


@pytest.mark.parametrize("suffix", [".las", ".laz"])
def test_cut_tiles_are_refused(suffix: str, aerial: Model, tmp_path: Path) -> None:
    whole = write_tile(tmp_path / f"a{suffix}", Tile(0)).read_bytes()
    for length in [*range(0, 375, 75), *range(375, len(whole), len(whole) // (40 if suffix == ".las" else 6))]:
        (tmp_path / f"a{suffix}").write_bytes(whole[:length])
        assert refused(aerial, tmp_path / f"a{suffix}").startswith(f"{tmp_path / f'a{suffix}'}: "), length


@pytest.mark.parametrize("suffix", [".las", ".laz"])
def test_damaged_tiles_are_refused_or_labeled(suffix: str, aerial: Model, tmp_path: Path) -> None:
    """lazrs may abort on them, but in a child process only."""
    whole = write_tile(tmp_path / f"a{suffix}", Tile(0, points=400)).read_bytes()
    rng = random.Random(3)
    for _ in range(60 if suffix == ".las" else 15):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 2, 8))):
            data[rng.randrange(4, rng.choice((600, len(whole))))] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
        (tmp_path / f"a{suffix}").write_bytes(data)
        with suppress(UserError):
            label_tile(aerial, tmp_path / f"a{suffix}", tmp_path / "b.las", codes=CODES)
        (tmp_path / "b.las").unlink(missing_ok=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{suffix}", "model.bpn"]


def test_a_child_that_dies(aerial: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_tile(tmp_path / "a.laz", Tile(0))
    monkeypatch.setattr(child_process, "_START", "import os; os.abort()")
    child_process._stop_all()
    expected = "the library that reads .laz crashed (status -6); the file is damaged, copy it again"
    assert refused(aerial, source) == f"{source}: {expected}"


def test_a_full_disk_leaves_the_old_file(aerial: Model, tmp_path: Path) -> None:
    source = write_tile(tmp_path / "a.las", Tile(0))
    (tmp_path / "b.las").write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            label_tile(aerial, source, tmp_path / "b.las", codes=CODES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(tmp_path / "b.las")
    assert (tmp_path / "b.las").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.las", "b.las", "model.bpn"]


# Memory

_LABEL = """
import json, sys
from pathlib import Path
import bipointnet
from bipointnet.runtime.label_large import label_tile
model, source, target = bipointnet.load(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
counts = label_tile(model, source, target, codes=range(6), memory=256 << 20).counts
status = Path("/proc/self/status").read_text()
print(json.dumps([counts.tolist(), int(status.partition("VmHWM:")[2].split()[0])]))
"""


def write_large(path: Path, count: int) -> None:
    """Copies of one scene, side by side."""
    scene = make_scene(np.random.default_rng(0), 200, 200)
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.scales, header.offsets = [0.001] * 3, [500_000, 5_400_000, 0]
    across = int(np.ceil(np.sqrt(count / len(scene.points))))
    with laspy.open(path, "w", header=header) as file:
        for number, start in enumerate(range(0, count, len(scene.points))):
            chosen = slice(0, count - start)
            points = laspy.ScaleAwarePointRecord.zeros(len(scene.points[chosen]), header=header)
            x, y = 200 * (number // across), 200 * (number % across)
            points.x, points.y, points.z = (scene.points[chosen] + (500_000 + x, 5_400_000 + y, 0)).T
            points.intensity = scene.intensity[chosen]
            file.write_points(points)


@pytest.mark.long
def test_five_million_points_in_little_memory(tmp_path: Path) -> None:
    """The peak is that of VmHWM: ru_maxrss would begin with that of the process which runs the tests."""
    layout = BlockLayout(10.0, ("x", "y", "height", "intensity"), {"intensity": 30_000.0})
    make_model(tmp_path / "model.bpn", layout, points=512, classes=6)
    write_large(tmp_path / "a.laz", 5_000_000)
    command = [sys.executable, "-c", _LABEL, tmp_path / "model.bpn", tmp_path / "a.laz", tmp_path / "b.laz"]
    counts, kilobytes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert sum(counts) == 5_000_000
    assert kilobytes < 600_000
