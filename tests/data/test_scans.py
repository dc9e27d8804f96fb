"""Labeled scans of one's own: the same blocks from every format, no leakage between the splits, and no wrong labels."""

from pathlib import Path

import numpy as np
import pytest
from scan_data import CODES, TABLE, Tile, write_tile

from bipointnet.data import open_dataset, scans
from bipointnet.data.blocks import BlockLayout, Columns
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.scan_choices import ScanOptions
from bipointnet.data.scan_files import ScanReader, find_scans
from bipointnet.data.scans import held_out_cells, open_scans
from bipointnet.errors import UserError

FEET = 'PROJCS["a",GEOGCS["b",UNIT["degree",0.0174]],UNIT["US survey foot",0.304800609601219]]'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "classes.toml").write_text(TABLE)
    return tmp_path / "classes.toml"


def tiles(folder: Path, count: int = 5, suffix: str = ".las", **options: object) -> Path:
    for number in range(count):
        write_tile(folder / f"tile{number}{suffix}", Tile(number), **options)
    return folder


def labels_of(split: Split) -> np.ndarray:
    assert split.point_labels is not None
    return split.point_labels


def opened(data: Path, **options: object) -> PointClouds:
    return open_scans(data, ScanOptions(**options))  # pyright: ignore[reportArgumentType]


def test_every_format_gives_the_same_blocks(tmp_path: Path, table: Path):
    """Labels are the classification of LAS, a property of PLY, a column of text or npy, or a parallel file."""
    options = {"points": 256, "classes": table, "channels": ("intensity",)}
    first = opened(tiles(tmp_path / "las"), **options)
    assert first.point_classes == ("ground", "building", "pole")
    others = [tiles(tmp_path / suffix[1:], suffix=suffix) for suffix in (".laz", ".ply", ".txt")]
    columns = {"columns": ("x", "y", "z", "intensity", "label")}
    found = [opened(folder, **options) for folder in others]
    found.append(opened(tiles(tmp_path / "npy", suffix=".npy"), **options, **columns))
    found.append(opened(tiles(tmp_path / "named", suffix=".ply", name="my_code"), labels="My_Code", **options))
    parallel = tiles(tmp_path / "parallel", suffix=".txt", header="x y z intensity unused")
    for number in range(5):
        np.save(parallel / f"tile{number}_labels.npy", Tile(number).codes)
    found.append(opened(parallel, **options))
    for other in found:
        assert other.blocks is not None
        assert other.blocks.channels == ("x", "y", "height", "intensity")
        # Which files are tested, and the points of a block, depend on names with their suffixes; labels do not.
        assert len(other.train) + len(other.test) == pytest.approx(len(first.train) + len(first.test), abs=20)
        for split in (other.train, other.test):
            require_true_labels(split.points, labels_of(split))


def require_true_labels(points: np.ndarray, labels: np.ndarray, side: float = 20.0) -> None:
    """The class of a point of Tile follows from its height; channel 2 is the height in sides of a block."""
    height = points[..., 2] * side
    expected = np.select([height < 1, height < 4.5], [0, 1], 2)
    np.testing.assert_array_equal(labels, expected)


def test_the_label_of_a_point_follows_it_into_every_block(tmp_path: Path, table: Path):
    data = opened(tiles(tmp_path / "tiles"), classes=table, points=256)
    for split in (data.train, data.test):
        require_true_labels(split.points, labels_of(split))


def test_a_block_is_named_by_its_place(tmp_path: Path, table: Path):
    """The intensity of each point says in which square of 20 m it lies."""
    for number in range(5):
        tile = Tile(number)
        tile.points[0, :2] = 0
        tile.intensity = (1 + tile.points[:, :2] // 20 @ [10, 1]).astype(int)
        write_tile(tmp_path / "tiles" / f"tile{number}.las", tile)
    data = opened(tmp_path / "tiles", classes=table, points=256, block=20, channels=("intensity",))
    assert data.blocks is not None
    for name, block in zip(data.test_names, data.test.points, strict=True):
        file, _, place = name.partition(", ")
        x, y = (float(part.split()[0]) for part in place.split("m and"))
        assert file in data.held_out
        assert set(np.round(block[:, 3] * data.blocks.scales["intensity"])) == {1 + 10 * (x // 20) + y // 20}


def test_what_is_not_given_follows_the_files(tmp_path: Path, table: Path):
    outdoors = opened(tiles(tmp_path / "wide"), classes=table)
    assert outdoors.blocks == BlockLayout(20.0, ("x", "y", "height"), {})
    assert opened(tmp_path / "wide", classes=table, wide_block=10.0).blocks == BlockLayout(
        10.0, ("x", "y", "height"), {}
    )
    assert outdoors.train.points.shape[1] == 256  # 2 points per square meter; blocks at the edge have 400
    for number in range(5):
        write_tile(tmp_path / "rooms" / f"room{number}.las", Tile(number, 20_000, (5, 4)), colors=True)
    indoors = opened(tmp_path / "rooms", classes=table)
    assert indoors.blocks == BlockLayout(1.0, ("x", "y", "height", "red", "green", "blue"), {})
    assert opened(tmp_path / "rooms", classes=table, channels=()).blocks == BlockLayout(1.0, ("x", "y", "height"), {})
    chosen = opened(tmp_path / "wide", classes=table, block=12.5, channels=("intensity", "return_number"))
    assert chosen.blocks is not None
    assert chosen.blocks.side == 12.5
    assert chosen.blocks.scales == {"intensity": pytest.approx(2490, abs=10), "return_number": 1.0}
    assert 0.9 < chosen.train.points[..., 3].max() <= 1


def test_files_are_held_out_by_name_and_not_read_for_training(tmp_path: Path, table: Path):
    data = opened(tiles(tmp_path / "tiles", 10), classes=table, points=128)
    assert data.scans is not None
    assert data.scans.split == "files"
    assert len(data.held_out) == 2
    assert not {name for name, _ in data.trained_on} & set(data.held_out)
    more = opened(tiles(tmp_path / "tiles", 11), classes=table, points=128)
    assert len(set(more.held_out) ^ set(data.held_out)) <= 2


def test_named_splits_are_kept(tmp_path: Path, table: Path):
    write_tile(tmp_path / "tiles" / "train" / "a.las", Tile(0))
    write_tile(tmp_path / "tiles" / "test" / "b.las", Tile(1))
    write_tile(tmp_path / "tiles" / "val" / "c.las", Tile(2))
    data = opened(tmp_path / "tiles", classes=table, points=128)
    assert [name for name, _ in data.trained_on] == ["train/a.las"]
    assert data.held_out == ()
    with pytest.raises(UserError, match=r"has train/ and test/; found --split place"):
        opened(tmp_path / "tiles", classes=table, split="place")
    (tmp_path / "tiles" / "test" / "b.las").unlink()
    with pytest.raises(UserError, match="there are no test files beside the other split"):
        opened(tmp_path / "tiles", classes=table)


@pytest.mark.parametrize("size", [(60, 50), (50, 90), (300, 20)])
def test_a_split_by_place_leaves_a_block_between_training_and_test(
    tmp_path: Path, table: Path, size: tuple[float, float]
):
    tile = Tile(0, 30_000, size)
    file = write_tile(tmp_path / "tile.las", tile)
    data = opened(file, classes=table, points=4096, block=5)
    assert data.scans is not None
    assert data.scans.split == "place"
    axis = int(size[1] > size[0])
    columns = Columns.of(BlockLayout(5.0, ("x", "y", "height"), {}), tile.points, np.empty((30_000, 0)), "tile")
    cells = np.stack(np.divmod(columns.cells, columns.shape[1]), axis=1)
    tested = columns.order[held_out_cells(columns)(cells)]
    assert 0.75 < columns.xyz[tested, axis].min() / size[axis] < 0.85
    assert len(data.train) > 2 * len(data.test) > 0


def test_training_blocks_by_place_share_no_cell_with_the_test(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
):
    """Every cut is watched: points of training blocks are at least one block away from those of test blocks."""
    seen: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    original = scans.grid_blocks

    def watched(columns, points, rng, step, *options):
        blocks = original(columns, points, rng, step, *options)
        seen["train" if step == 1 else "test"].append(columns.xyz[blocks.index.ravel()])
        return blocks

    monkeypatch.setattr(scans, "grid_blocks", watched)
    opened(write_tile(tmp_path / "tile.las", Tile(0, 30_000)), classes=table, points=256, block=5)
    train, test = (np.concatenate(seen[name]) for name in ("train", "test"))
    gap = test[:, 0].min() - train[:, 0].max()
    assert 5 - 0.2 < gap < 7.5


def test_codes_have_the_names_of_the_standard(tmp_path: Path):
    for number in range(5):
        tile = Tile(number)
        codes = np.select([tile.codes == 64, tile.codes == 6], [5, 7], tile.codes)
        write_tile(tmp_path / f"{number}.laz", tile, codes=codes)
    data = opened(tmp_path, points=128)
    assert data.point_classes == ("ground", "high vegetation")
    labels = labels_of(data.train)
    assert set(np.unique(labels)) == {-1, 0, 1}  # low noise is neither learned nor evaluated
    assert data.summary is not None
    assert any("neither learned nor evaluated: code 7" in note for note in data.summary.notes)
    assert data.scans is not None
    assert data.scans.table.written == (2, 5)


def test_labels_of_other_formats_are_numbered(tmp_path: Path):
    data = opened(tiles(tmp_path / "tiles", suffix=".ply"), points=128)
    assert data.point_classes == ("label 2", "label 6", "label 64")
    assert data.scans is not None
    assert data.scans.table.written == CODES


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"codes": np.full(6000, 1)}, "tile9.las: has no classification, all points have the code 0 or 1"),
        ({"codes": np.full(6000, 77)}, r"codes without a standard name: 64 \([\d,]+ points\), 77 \(6,000 points\)"),
        ({"wkt": FEET}, r"tile9.las: its coordinate system is in US survey feet; expected meters; pass --unit us-ft"),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path: Path, change: dict, sentence: str):
    folder = tiles(tmp_path / "tiles")
    write_tile(folder / "tile9.las", Tile(9), **change)
    with pytest.raises(UserError, match=sentence) as caught:
        opened(folder)
    assert "\n" not in str(caught.value)


def test_codes_outside_of_a_table_are_refused(tmp_path: Path):
    (tmp_path / "few.toml").write_text('2 = "ground"\n6 = "building"\n')
    with pytest.raises(
        UserError, match=r"tile0.las: holds codes without a class: 64 \(1,?\d\d\d points\); .* given with --classes"
    ):
        opened(tiles(tmp_path / "tiles"), classes=tmp_path / "few.toml")


def test_labels_of_another_length_are_refused(tmp_path: Path):
    folder = tiles(tmp_path / "tiles", suffix=".txt", header="x y z intensity unused")
    for number in range(5):
        np.save(folder / f"tile{number}_labels.npy", Tile(number).codes[: 6000 - number])
    with pytest.raises(UserError, match=r"tile1_labels.npy: holds 5999 labels, expected 6000, one per point of"):
        opened(folder)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"channels": ("nir",)}, "has no column nir; expected one of: intensity"),
        ({"channels": ("rgb",)}, "no colors; expected them for --channels rgb; leave rgb out"),
        ({"channels": ("height",)}, "channels has 'height'; expected rgb, or columns such as intensity"),
        ({"labels": "truth"}, "has no field 'truth'; expected one of"),
        ({"block": 500.0, "split": "place"}, "--block is 500 m, but the scans are 60 m wide"),
        ({"block": 40.0, "split": "place"}, "no block is left to"),
        ({"channels": ("Classification",)}, "channels has 'Classification', a column of labels"),
        ({"channels": ("intensity", "intensity")}, "channels has 'intensity' twice"),
        ({"unit": "ft", "wkt": True}, "is in US survey feet; expected feet; pass --unit us-ft"),
    ],
)
def test_wrong_options_get_one_sentence(tmp_path: Path, table: Path, options: dict, sentence: str):
    folder = tiles(tmp_path / "tiles", wkt=FEET if options.pop("wkt", False) else None)
    with pytest.raises(UserError, match=sentence) as caught:
        opened(folder, classes=table, **options)
    assert "\n" not in str(caught.value)


def test_feet_become_meters(tmp_path: Path, table: Path):
    meters = opened(tiles(tmp_path / "m"), classes=table, points=128)
    for number in range(5):
        tile = Tile(number)
        tile.points = tile.points / 0.3048
        write_tile(tmp_path / "ft" / f"tile{number}.las", tile)
    feet = opened(tmp_path / "ft", classes=table, points=128, unit="ft")
    assert feet.train.points.shape == meters.train.points.shape
    # Rounding moves a few points to the next cell, and then other points are drawn from a block.
    assert np.isclose(feet.train.points, meters.train.points, atol=1e-3).mean() > 0.9
    assert feet.scans is not None
    assert meters.scans is not None
    assert feet.scans.density == pytest.approx(meters.scans.density, rel=0.05)


def test_a_file_without_ground_is_named(tmp_path: Path, table: Path):
    folder = tiles(tmp_path / "tiles")
    write_tile(folder / "tile9.las", Tile(9), codes=np.where(Tile(9).codes == 2, 6, Tile(9).codes))
    data = opened(folder, classes=table, points=128)
    assert data.summary is not None
    found = [note for note in data.summary.notes if "no point has the code 2 (ground)" in note]
    assert len(found) == 1
    assert found[0].endswith("check their labels: tile9.las")


def test_damaged_files_can_be_left_out(tmp_path: Path, table: Path):
    folder = tiles(tmp_path / "tiles", 6)
    (folder / "tile5.las").write_bytes((folder / "tile4.las").read_bytes()[:5000])
    with pytest.raises(UserError, match=r"tile5.las: .*, or pass --skip-bad"):
        opened(folder, classes=table)
    data = open_scans(folder, ScanOptions(classes=table, points=128), skip_bad=True)
    assert data.summary is not None
    assert [skipped.name for skipped in data.summary.skipped] == ["tile5.las"]


def test_unclassified_files_and_values_that_are_not_finite_can_be_left_out(tmp_path: Path, table: Path):
    folder = tiles(tmp_path / "tiles", 6)
    write_tile(folder / "bare.las", Tile(9), codes=np.ones(6000))
    broken = Tile(8)
    broken.intensity = np.where(np.arange(6000) == 7, np.nan, broken.intensity)
    write_tile(folder / "broken.ply", broken)
    options = ScanOptions(classes=table, points=128, channels=("intensity",))
    with pytest.raises(UserError, match=r"broken\.ply: has intensity that is NaN or infinite"):
        open_scans(folder, options)
    data = open_scans(folder, options, skip_bad=True)
    assert data.summary is not None
    assert {skipped.name for skipped in data.summary.skipped} == {"bare.las", "broken.ply"}


def test_what_segment_wrote_is_neither_a_scan_nor_its_labels(tmp_path: Path):
    folder = tiles(tmp_path / "tiles", 2)
    before = [ScanReader().read(source.file).codes for source in find_scans(folder).sources]
    for name in ("tile0-labels.las", "tile0-labels.ply"):
        write_tile(folder / name, Tile(5))
    np.save(folder / "tile0-labels.npy", np.zeros(6000, np.int64))
    found = find_scans(folder)
    assert [source.name for source in found.sources] == ["tile0.las", "tile1.las"]
    assert [skipped.name for skipped in found.skipped] == [f"tile0-labels.{end}" for end in ("las", "npy", "ply")]
    for source, codes in zip(found.sources, before, strict=True):
        assert np.array_equal(ScanReader().read(source.file).codes, codes)


def test_a_link_to_a_folder_above_is_not_followed(tmp_path: Path):
    folder = tiles(tmp_path / "tiles", 2)
    (folder / "loop").symlink_to(folder)
    (tmp_path / "more").mkdir()
    tiles(tmp_path / "more", 1)
    (folder / "more").symlink_to(tmp_path / "more")
    found = find_scans(folder)
    assert [source.name for source in found.sources] == ["more/tile0.las", "tile0.las", "tile1.las"]
    assert [skipped.name for skipped in found.skipped] == ["loop/"]


def test_a_training_scan_in_another_format_is_named_in_the_test(tmp_path: Path, table: Path):
    folder = tiles(tmp_path / "tiles", 10)
    held_out = opened(folder, classes=table, points=64).held_out
    number = next(number for number in range(3) if f"tile{number}.las" not in held_out)
    copy = Path(held_out[0]).with_suffix(".laz")
    (folder / held_out[0]).unlink()
    write_tile(folder / "train" / f"tile{number}.las", Tile(number))
    write_tile(folder / "test" / copy, Tile(number))
    data = opened(folder, classes=table, points=64)
    assert data.summary is not None
    assert any(note.startswith("the test has copies of training files: ") for note in data.summary.notes)


def test_files_with_labels_are_not_scans(tmp_path: Path):
    """Labels beside the scans, and in a folder beside theirs, as in SemanticKITTI."""
    kitti = tmp_path / "kitti"
    for number in range(3):
        tile = Tile(number)
        (kitti / "velodyne").mkdir(parents=True, exist_ok=True)
        (kitti / "labels").mkdir(exist_ok=True)
        cloud = np.c_[tile.points, tile.intensity].astype("<f4")
        cloud.tofile(kitti / "velodyne" / f"{number}.bin")
        (tile.codes.astype("<u4") | 7 << 16).tofile(kitti / "labels" / f"{number}.label")
    assert [source.name for source in find_scans(kitti).sources] == [f"velodyne/{number}.bin" for number in range(3)]
    data = opened(kitti, points=128, columns=("x", "y", "z", "intensity"))
    assert data.point_classes == ("label 2", "label 6", "label 64")
    require_true_labels(data.train.points, labels_of(data.train))


def test_open_dataset_reads_scans_if_it_is_told_to(tmp_path: Path, table: Path):
    folder = tiles(tmp_path / "tiles")
    data = open_dataset(str(folder), 128, scans=ScanOptions(classes=table, points=128))
    assert data.name == "scans"
    with pytest.raises(UserError, match="has no folds, unlike S3DIS"):
        open_dataset(str(folder), 128, fold="Area_1", scans=ScanOptions(classes=table))
    with pytest.raises(UserError, match="no such file or folder"):
        open_dataset(str(tmp_path / "none"), 128, scans=ScanOptions())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no scans; expected files with one of the suffixes"):
        open_dataset(str(tmp_path / "empty"), 128, scans=ScanOptions())


def test_sparse_scans_keep_their_blocks(tmp_path: Path, table: Path):
    """Half a point per square meter: a block of 10 m has 50 points, and none is left out."""
    for number in range(5):
        write_tile(tmp_path / "tiles" / f"{number}.las", Tile(number, 5000, (100, 100)))
    data = opened(tmp_path / "tiles", classes=table, points=64, block=10)
    assert len(data.test) == 100
    assert len(data.train) == 4 * 19 * 19


def test_a_fixed_layout_is_kept(tmp_path: Path, table: Path):
    """As an evaluation reads the scans: with the side and the scales of the training."""
    folder = tiles(tmp_path / "tiles")
    data = opened(folder, classes=table, points=64, channels=("intensity",))
    assert data.scans is not None
    layout = BlockLayout(15.0, ("x", "y", "height", "intensity"), {"intensity": 99.0})
    again = open_scans(folder, ScanOptions.of_run(data.scans, layout, 64))
    assert again.blocks == layout
    assert again.held_out == data.held_out
    assert again.point_classes == data.point_classes


def test_copies_of_training_files_in_the_test_are_named(tmp_path: Path, table: Path):
    folder = tiles(tmp_path / "tiles", 10)
    held_out = opened(folder, classes=table, points=64).held_out
    other = next(name for name in ("tile0.las", "tile1.las", "tile2.las") if name not in held_out)
    (folder / held_out[0]).write_bytes((folder / other).read_bytes())
    data = opened(folder, classes=table, points=64)
    assert data.summary is not None
    assert f"the test has copies of training files: {held_out[0]}" in data.summary.notes


def test_unclassified_files_are_noticed_beside_other_formats(tmp_path: Path):
    folder = tiles(tmp_path / "tiles", suffix=".ply")
    write_tile(folder / "bare.las", Tile(9), codes=np.ones(6000))
    with pytest.raises(UserError, match=r"bare\.las: has no classification"):
        opened(folder)


def test_numbers_of_objects_are_not_taken_for_classes(tmp_path: Path):
    tile = Tile(0)
    tile.codes = np.arange(6000) % 200
    with pytest.raises(UserError, match="200 different labels; expected at most 100 classes; if they number objects"):
        opened(write_tile(tmp_path / "a.ply", tile))


def test_options_of_scans_are_refused_for_other_data(table: Path):
    for data in ("rooms", "outdoors"):
        with pytest.raises(UserError, match="not labeled scans of your own, which --block is for; leave it out"):
            open_dataset(data, 64, scans=ScanOptions(block=5.0))


def test_other_data_than_the_scans_of_a_network_are_refused(tmp_path: Path, table: Path):
    """Without the name of an option, as the user gave none."""
    data = opened(tiles(tmp_path / "tiles"), classes=table, points=32)
    assert data.scans is not None
    assert data.blocks is not None
    options = ScanOptions.of_run(data.scans, data.blocks, 32)
    with pytest.raises(UserError, match=r"^rooms: not labeled scans of your own, as the network was trained on; "):
        open_dataset("rooms", 32, scans=options)


def test_what_lies_beside_the_splits_is_named(tmp_path: Path, table: Path):
    for name in ("train/a.las", "test/b.las", "val/c.las", "d.las"):
        write_tile(tmp_path / "tiles" / name, Tile(0 if name == "train/a.las" else 1))
    found = find_scans(tmp_path / "tiles")
    assert [skipped.name for skipped in found.skipped] == ["d.las", "val/"]


def test_blocks_of_sparse_scans_are_wide_enough_for_their_points(tmp_path: Path, table: Path):
    """Two points per square meter in 30 m: a block of 1 m, as in a room of this size, would have none of the poles."""
    for number in range(5):
        write_tile(tmp_path / "sparse" / f"{number}.las", Tile(number, 1500, (30, 25)))
        write_tile(tmp_path / "dense" / f"{number}.las", Tile(number, 6000, (9, 8)))
    sparse, dense = (opened(tmp_path / name, classes=table) for name in ("sparse", "dense"))
    assert sparse.blocks is not None
    assert dense.blocks is not None
    assert (sparse.blocks.side, dense.blocks.side) == (10.0, 1.0)
    assert set(np.unique(labels_of(sparse.train))) == {0, 1, 2}


def test_colors_that_only_some_files_have_are_named(tmp_path: Path, table: Path):
    folder = tiles(tmp_path / "tiles", colors=True)
    write_tile(folder / "bare.las", Tile(9))
    data = opened(folder, classes=table)
    assert data.summary is not None
    assert "colors are not used, as some files have none: bare.las" in data.summary.notes
