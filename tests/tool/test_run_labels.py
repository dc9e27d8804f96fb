"""bipointnet-run labels every point as `bipointnet.label` does, bit for bit, and writes the labels."""

import resource
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from packed_networks import shaken
from tool_runs import GOLDEN, answers, call, complaint, write_xyz

import bipointnet
from bipointnet.data.blocks import BlockLayout
from bipointnet.data.clouds import Cloud, read
from bipointnet.errors import UserError
from bipointnet.models import ScenePointNet
from bipointnet.nn import METHODS, POOLS, BinaryLinear
from bipointnet.packing import pack
from bipointnet.viz.labeled import write_ply

ROOMS = GOLDEN / "rooms-semantic.bpn"
PARTS = GOLDEN / "shapes-parts.bpn"
SIZES = [1, 2, 17, 63, 64, 65, 1000, 20_000]


@pytest.fixture(scope="module")
def colorless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of blocks without colors: 6 channels."""
    torch.manual_seed(0)
    network = ScenePointNet(
        4, linear=BinaryLinear.of(METHODS["lsr"]), pool=POOLS["ema-max"](), in_channels=6, tnets=False
    )
    path = tmp_path_factory.mktemp("colorless") / "colorless.bpn"
    pack.export(
        shaken(network, 6),
        path,
        classes=("a", "b", "c", "d"),
        training={"points": 48},
        normalize="none",
        last="f32",
        blocks=BlockLayout(1.0, ("x", "y", "z", "x/size", "y/size", "z/size"), {}),
    )
    return path


def scan(points: int, seed: int) -> Cloud:
    """A scan of any extent; some have points on the edges of cells and on each other."""
    rng = np.random.default_rng((points, seed))
    xyz = rng.uniform(-1, 1, (points, 3)) * rng.choice([0.0, 0.2, 0.5, 1.3, 4.0], 3)
    if seed % 2:
        xyz = np.round(2 * xyz) / 2
    return Cloud((xyz + rng.choice([0.0, 17.0])).astype(np.float32), rng.uniform(0, 1, (points, 3)).astype(np.float32))


def written_labels(tool: Path, model: Path, cloud: Cloud, folder: Path, *options: str | int) -> np.ndarray:
    file = write_xyz(folder / "scan.xyz", cloud.points, cloud.colors)
    (found,) = answers(tool, model, file, "--labels", folder / "labels.npy", *options)
    labels = np.load(folder / "labels.npy")
    assert labels.dtype == np.int64
    names = bipointnet.load(model).classes
    counts = np.bincount(labels, minlength=len(names))
    assert found["classes"] == {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}
    assert found["points"] == len(labels)
    assert found["written"] == [str(folder / "labels.npy")]
    return labels


@pytest.mark.parametrize("points", SIZES)
@pytest.mark.parametrize("colors", [True, False], ids=["9 channels", "6 channels"])
def test_scans_get_the_labels_of_python(points: int, colors: bool, run_tool: Path, colorless: Path, tmp_path: Path):
    path = ROOMS if colors else colorless
    model = bipointnet.load(path)
    assert (model.task, model.channels) == ("semantic", 9 if colors else 6)
    for seed in range(4 if points < 1000 else 2):
        cloud = scan(points, seed)
        found = written_labels(run_tool, path, cloud, tmp_path, "--threads", 1 + seed)
        assert np.array_equal(found, bipointnet.label(model, cloud))


def make_tile(rng: np.random.Generator, side: float, file: Path) -> None:
    """A text file with colors, intensity and return_number, a few blocks wide."""
    count = 5000
    xyz = rng.uniform(0, 1, (count, 3)) * (5 * side, 4 * side, 2 * side)
    others = rng.uniform(0, 1, (count, 3)), rng.integers(0, 4000, count), rng.integers(1, 7, count)
    header = "x y z red green blue intensity return_number"
    np.savetxt(file, np.column_stack([xyz, *others]), header=header, comments="", fmt="%.9g")


def test_tiles_with_other_blocks_get_the_labels_of_python(run_tool: Path, tmp_path: Path):
    """Blocks of any side, heights above the ground, and columns of the file."""
    model, tile, classes = tmp_path / "tile.bpn", tmp_path / "tile.txt", 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        scale, side = float(rng.uniform(0.1, 3000)), float(rng.choice([0.3, 2.0, 16.0, 20.0]))
        names = ("x", "y", "height", "intensity", *(("red", "green", "blue") if seed % 2 else ()), "return_number")
        layout = BlockLayout(side, names, {"intensity": scale, "return_number": 5.0})
        torch.manual_seed(seed)
        network = ScenePointNet(24, linear="lsr", pool="ema-max", in_channels=len(names), tnets=False)
        options = {"training": {"points": 32}, "normalize": "none", "blocks": layout}
        pack.export(shaken(network, len(names)), model, classes=list("abcdefghijklmnopqrstuvwx"), **options)
        make_tile(rng, side, tile)
        (found,) = answers(run_tool, model, tile, "--labels", tmp_path / "labels.npy")
        assert np.array_equal(np.load(tmp_path / "labels.npy"), bipointnet.label(bipointnet.load(model), tile))
        classes += len(found["classes"])
    assert classes > 8, "the labels should not all be the same"
    np.savetxt(tmp_path / "bare.xyz", read(tile).points)
    assert "bare.xyz: no column intensity, which the model reads" in complaint(run_tool, model, tmp_path / "bare.xyz")


def test_a_model_without_blocks_labels_no_scan(run_tool: Path, tmp_path: Path):
    torch.manual_seed(0)
    network = ScenePointNet(3, linear=BinaryLinear.of(METHODS["lsr"]), pool=POOLS["ema-max"](), in_channels=6)
    pack.export(shaken(network, 6), tmp_path / "own.bpn", classes=("a", "b", "c"), normalize="none")
    file = write_xyz(tmp_path / "scan.xyz", scan(20, 0).points)
    assert "does not say how scans are cut into blocks" in complaint(run_tool, tmp_path / "own.bpn", file)
    with pytest.raises(UserError, match="does not say how scans are cut into blocks"):
        bipointnet.label(bipointnet.load(tmp_path / "own.bpn"), file)


def test_a_room_gets_the_labels_of_python(run_tool: Path, tmp_path: Path):
    room, _ = bipointnet_room(100_000)
    cloud = Cloud(room[:, :3].astype(np.float32), room[:, 3:].astype(np.float32))
    found = written_labels(run_tool, ROOMS, cloud, tmp_path)
    assert np.array_equal(found, bipointnet.label(bipointnet.load(ROOMS), cloud, threads=2))
    assert len(np.unique(found)) > 3


def bipointnet_room(points: int) -> tuple[np.ndarray, np.ndarray]:
    from bipointnet.data.rooms import make_room

    return make_room(np.random.default_rng(0), points)


@pytest.mark.parametrize("points", SIZES)
def test_objects_get_the_labels_of_python(points: int, run_tool: Path, tmp_path: Path):
    model = bipointnet.load(PARTS)
    for seed, category in enumerate(model.categories[:1] if points > 1000 else model.categories[::5]):
        cloud = Cloud(np.random.default_rng((seed, points)).normal(size=(points, 3)).astype(np.float32))
        found = written_labels(run_tool, PARTS, cloud, tmp_path, "--category", category, "--threads", 1 + seed)
        assert np.array_equal(found, bipointnet.label(model, cloud, category=category))


def test_the_case_of_a_category_does_not_matter(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / "a.xyz", scan(70, 0).points)
    one, other = (answers(run_tool, PARTS, file, "--category", name) for name in ("chair", "CHAIR"))
    assert one == other


def test_labels_as_text_npy_and_ply_agree(run_tool: Path, tmp_path: Path):
    cloud = scan(500, 0)
    file = write_xyz(tmp_path / "scan.xyz", cloud.points, cloud.colors)
    for suffix in (".txt", ".npy", ".ply"):
        assert call(run_tool, ROOMS, file, "--labels", tmp_path / f"a{suffix}").returncode == 0
    labels = np.load(tmp_path / "a.npy")
    assert np.array_equal(np.loadtxt(tmp_path / "a.txt", dtype=int), labels)
    write_ply(tmp_path / "b.ply", cloud.points, labels, bipointnet.load(ROOMS).classes)
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "a.ply", "a.txt", "b.ply", "scan.xyz"]


def test_the_colors_of_classes_are_those_of_python(run_tool: Path, tmp_path: Path):
    """64 classes, of which most are not among the first eight colors."""
    names = bipointnet.load(PARTS).classes
    for category in ("airplane", bipointnet.load(PARTS).categories[-1]):
        cloud = Cloud(np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32))
        file = write_xyz(tmp_path / "a.xyz", cloud.points)
        assert call(run_tool, PARTS, file, "--category", category, "--labels", tmp_path / "a.ply").returncode == 0
        labels = bipointnet.label(bipointnet.load(PARTS), cloud, category=category)
        write_ply(tmp_path / "b.ply", cloud.points, labels, names)
        assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()


def test_a_cloud_far_from_the_origin_keeps_its_coordinates(run_tool: Path, tmp_path: Path):
    corner = np.array([4_500_000, 5_400_000, 120])
    xyz = np.random.default_rng(0).uniform(0, 3, (200, 3)).round(3) + corner
    np.savetxt(tmp_path / "map.xyz", xyz, fmt="%.3f")
    file, out = tmp_path / "map.xyz", tmp_path / "a.ply"
    assert call(run_tool, PARTS, file, "--category", "chair", "--labels", out).returncode == 0
    header, _, body = out.read_bytes().partition(b"end_header\n")
    assert b"property double x" in header
    vertices = np.frombuffer(body, [("xyz", "<f8", 3), ("rgb", "u1", 3), ("label", "<i4")])
    np.testing.assert_allclose(vertices["xyz"], xyz, atol=1e-6)


def test_dropped_points_have_the_label_minus_one(run_tool: Path, tmp_path: Path):
    cloud = scan(100, 0)
    holes = np.array([0, 7, 99])
    xyz = cloud.points.copy()
    xyz[holes, 1] = np.nan
    file = write_xyz(tmp_path / "scan.xyz", xyz, cloud.colors)
    kept = np.delete(np.arange(100), holes)
    whole = Cloud(cloud.points[kept], cloud.colors[kept])  # pyright: ignore[reportOptionalSubscript]
    expected = np.full(100, -1)
    expected[kept] = bipointnet.label(bipointnet.load(ROOMS), whole)
    for name in ("a.npy", "a.txt"):
        done = call(run_tool, ROOMS, file, "--labels", tmp_path / name)
        assert done.returncode == 0
        assert done.stderr.splitlines() == [
            f"warning: {file}: 3 of 100 points have no finite coordinates and were left out"
        ]
        found = np.load(tmp_path / name) if name == "a.npy" else np.loadtxt(tmp_path / name, dtype=int)
        assert np.array_equal(found, expected)
    assert call(run_tool, ROOMS, file, "--labels", tmp_path / "a.ply").returncode == 0
    assert b"element vertex 97\n" in (tmp_path / "a.ply").read_bytes()
    assert "expected none because of --strict" in complaint(run_tool, ROOMS, file, "--strict")


def test_mistakes_with_labels_get_one_sentence_and_leave_no_file(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / "scan.xyz", scan(20, 0).points)
    (tmp_path / "folder.npy").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for arguments, sentence in {
        (ROOMS, file): f"{file}: no colors, which the model reads, expected red, green and blue per point",
        (PARTS, file): "--category is not given, expected one of airplane, bed,",
        (PARTS, file, "--category", "sofa?"): "--category is 'sofa?', expected one of airplane, bed,",
        (ROOMS, file, "--category", "chair"): "--category is given, expected none: the model has no category input",
        (ROOMS, file, "--labels", "a.csv"): "--labels is 'a.csv', expected a file with the suffix .txt, .npy or .ply",
        (ROOMS, file, file, "--labels", "a.npy"): "--labels is given for 2 files, expected one; label them one by one",
        (GOLDEN / "shapes.bpn", file, "--labels", "a.npy"): "classifies whole clouds",
    }.items():
        assert sentence in complaint(run_tool, *arguments)
    piped = call(run_tool, ROOMS, "-", text=file.read_text())
    assert piped.returncode == 2
    assert piped.stderr.startswith("error: standard input: no colors, which the model reads")
    labeled = (PARTS, file, "--category", "chair", "--labels")
    text = tmp_path / "scan.txt"
    text.write_bytes(file.read_bytes())
    assert "an input file, which would be overwritten" in complaint(
        run_tool, PARTS, text, "--category", "chair", "--labels", text
    )
    text.unlink()
    alone = tmp_path / "alone"
    alone.mkdir()
    only = alone / "scan.txt"
    only.write_bytes(file.read_bytes())
    assert "an input file, which would be overwritten" in complaint(
        run_tool, PARTS, alone, "--category", "chair", "--labels", only
    )
    only.unlink()
    alone.rmdir()
    assert "a folder, expected a file to write" in complaint(run_tool, *labeled, tmp_path / "folder.npy")
    assert "there is no folder" in complaint(run_tool, *labeled, tmp_path / "no" / "a.npy")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / "scan.xyz", scan(5000, 0).points)
    (tmp_path / "a.npy").write_text("old")
    command = [run_tool, PARTS, file, "--category", "chair", "--labels", tmp_path / "a.npy"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 2
    sentence = "cannot be written (File too large); choose another path with --labels"
    assert done.stderr == f"error: {tmp_path / 'a.npy'}: {sentence}\n"
    assert (tmp_path / "a.npy").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "scan.xyz"]


def test_a_scan_in_other_units_is_refused(run_tool: Path, tmp_path: Path):
    file = write_xyz(tmp_path / "mm.xyz", scan(50, 0).points * 1e4, scan(50, 0).colors)
    sentence = complaint(run_tool, ROOMS, file)
    assert "m wide, expected at most 1000 m; scale it to meters, or cut it" in sentence
    assert sentence.startswith(f"{file}: ")
