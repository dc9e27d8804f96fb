"""ShapeNet Part in its three published layouts, and the errors for broken files.

Over 400 lines: the three layouts hold the same shapes and break in the same ways.
"""

import json
import shutil
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from dataset_errors import error_of

from bipointnet.data import open_dataset, shapenet_part
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.shapenet_part import CLASSES, PARTS, POINT_CLASSES
from bipointnet.data.shapes import shapes
from bipointnet.errors import UserError

SYNSETS = ["02691156", "02773838", "02954340", "02958343", "03001627", "03261776", "03467517", "03624134"]
SYNSETS += ["03636649", "03642806", "03790512", "03797390", "03948459", "04099429", "04225987", "04379243"]
# Part lists from the literature.
LISTS = {
    "Airplane": [0, 1, 2, 3],
    "Earphone": [16, 17, 18],
    "Lamp": [24, 25, 26, 27],
    "Motorbike": [30, 31, 32, 33, 34, 35],
    "Table": [47, 48, 49],
}
POINTS = 48


def shapes_of(split: str, per_category: int) -> Split:
    """Shapes with random points and, in each, every part of its category."""
    rng = np.random.default_rng(["train", "val", "test"].index(split))
    labels = rng.permutation(np.repeat(np.arange(16), per_category))
    points = rng.uniform(-1, 1, (len(labels), POINTS, 3)).round(5).astype(np.float32)
    parts = np.stack([rng.permutation(np.resize(PARTS[label], POINTS)) for label in labels])
    return Split(points, labels.astype(np.int64), parts.astype(np.int64))


SPLITS = {"train": shapes_of("train", 2), "val": shapes_of("val", 1), "test": shapes_of("test", 1)}


def joined(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The expected arrays of both layouts: train and val together, and test."""
    train, val, test = (getattr(SPLITS[split], name) for split in ("train", "val", "test"))
    return np.concatenate([train, val]), test


def write_h5(path: Path, **arrays: np.ndarray) -> None:
    path.unlink(missing_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip")


def write_split_h5(path: Path, split: Split, **instead: np.ndarray) -> None:
    assert split.point_labels is not None
    stored = {"data": split.points, "label": split.labels[:, None], "pid": split.point_labels} | instead
    kinds = {"data": np.float32, "label": np.uint8, "pid": np.uint8}
    write_h5(path, **{name: array if name in instead else array.astype(kinds[name]) for name, array in stored.items()})


@pytest.fixture
def hdf5(tmp_path: Path) -> Path:
    folder = tmp_path / "hdf5_data"
    folder.mkdir()
    for name, split in SPLITS.items():
        write_split_h5(folder / f"ply_data_{name}0.h5", split)
        (folder / f"{name}_hdf5_file_list.txt").write_text(f"ply_data_{name}0.h5\n")
    lines = [f"{name}\t{synset}\n" for name, synset in zip(CLASSES, SYNSETS, strict=True)]
    (folder / "all_object_categories.txt").write_text("".join(lines))
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    folder = tmp_path / "shapenetcore_partanno_segmentation_benchmark_v0_normal"
    lists = folder / "train_test_split"
    lists.mkdir(parents=True)
    for name, split in SPLITS.items():
        assert split.point_labels is not None
        names = []
        for shape in range(len(split)):
            synset = SYNSETS[split.labels[shape]]
            (folder / synset).mkdir(exist_ok=True)
            table = np.column_stack([split.points[shape], np.zeros((POINTS, 3)), split.point_labels[shape]])
            np.savetxt(folder / synset / f"{name}{shape}.txt", table, fmt="%.6f")
            names.append(f"shape_data/{synset}/{name}{shape}")
        (lists / f"shuffled_{name}_file_list.json").write_text(json.dumps(names))
    lines = [f"{name}\t{synset}\n" for name, synset in zip(CLASSES, SYNSETS, strict=True)]
    (folder / "synsetoffset2category.txt").write_text("".join(lines))
    return folder


@pytest.fixture
def pairs_v0(tmp_path: Path) -> Path:
    """Version 0: points and parts in separate files, parts numbered from 1 in each category."""
    folder = tmp_path / "shapenetcore_partanno_segmentation_benchmark_v0"
    lists = folder / "train_test_split"
    lists.mkdir(parents=True)
    for name, split in SPLITS.items():
        assert split.point_labels is not None
        names = []
        for shape, label in enumerate(split.labels):
            synset = SYNSETS[label]
            for kind in ("points", "points_label"):
                (folder / synset / kind).mkdir(parents=True, exist_ok=True)
            np.savetxt(folder / synset / "points" / f"{name}{shape}.pts", split.points[shape], fmt="%.6f")
            own = split.point_labels[shape] - PARTS[label][0] + 1
            np.savetxt(folder / synset / "points_label" / f"{name}{shape}.seg", own, fmt="%d")
            names.append(f"shape_data/{synset}/{name}{shape}")
        (lists / f"shuffled_{name}_file_list.json").write_text(json.dumps(names))
    lines = [f"{name}\t{synset}\n" for name, synset in zip(CLASSES, SYNSETS, strict=True)]
    (folder / "synsetoffset2category.txt").write_text("".join(lines))
    return folder


def test_part_lists_are_those_of_the_literature():
    assert sum(map(len, PARTS)) == len(POINT_CLASSES) == 50
    assert np.concatenate(PARTS).tolist() == list(range(50))
    for name, parts in LISTS.items():
        assert list(PARTS[CLASSES.index(name)]) == parts
    for own, name in zip(PARTS, CLASSES, strict=True):
        assert all(POINT_CLASSES[part].startswith(f"{name}/") for part in own)


@pytest.mark.parametrize("given", ["folder", "parent"])
def test_hdf5_is_unchanged(hdf5: Path, given: str):
    data = open_dataset(str(hdf5 if given == "folder" else hdf5.parent), 16)
    assert (data.name, data.classes, data.point_classes, data.parts) == ("shapenet-part", CLASSES, POINT_CLASSES, PARTS)
    assert data.up == "y"
    for name in ("points", "labels", "point_labels"):
        for split, expected in zip((data.train, data.test), joined(name), strict=True):
            np.testing.assert_array_equal(getattr(split, name), expected)
            assert getattr(split, name).dtype == expected.dtype
    assert data.class_sizes.tolist() == [4] * 16


def pairs(split: Split, shape: int) -> set[tuple[float, ...]]:
    assert split.point_labels is not None
    return {tuple(row) for row in np.column_stack([split.points[shape], split.point_labels[shape]]).tolist()}


@pytest.mark.parametrize("layout", ["text", "pairs_v0"])
def test_text_has_the_points_of_hdf5(layout: str, hdf5: Path, request: pytest.FixtureRequest):
    drawn, stored = open_dataset(str(request.getfixturevalue(layout)), 16), open_dataset(str(hdf5), 16)
    for one, other in ((drawn.train, stored.train), (drawn.test, stored.test)):
        assert one.points.shape == (len(other), 2048, 3)
        assert one.point_labels is not None
        assert (one.points.dtype, one.point_labels.dtype) == (np.float32, np.int64)
        np.testing.assert_array_equal(one.labels, other.labels)
        for shape in range(len(one)):
            assert pairs(one, shape) == pairs(other, shape), "no point is lost, and each keeps its part"
            times = np.unique(one.points[shape], axis=0, return_counts=True)[1]
            assert times.max() - times.min() <= 1


def test_text_has_more_points_if_more_are_requested(text: Path):
    assert open_dataset(str(text), 3000).test.points.shape[1] == 3000


def test_text_depends_on_the_seed_and_is_cached_until_a_file_changes(text: Path, monkeypatch: pytest.MonkeyPatch):
    first = open_dataset(str(text), 16, seed=1)
    assert not np.array_equal(first.train.points, open_dataset(str(text), 16, seed=2).train.points)
    with monkeypatch.context() as patched:
        patched.setattr(shapenet_part, "numbers", lambda file, _: pytest.fail(f"{file} was read again"))
        again = open_dataset(str(text), 16, seed=1)
    for name in ("points", "labels", "point_labels"):
        np.testing.assert_array_equal(getattr(first.test, name), getattr(again.test, name))
    changed = next((text / SYNSETS[3]).glob("test*.txt"))
    changed.write_text("0.5 0.25 0.125 0 0 0 9\n")
    last = open_dataset(str(text), 16, seed=1)
    shape = np.flatnonzero(last.test.labels == 3)[0]
    assert pairs(last.test, shape) == {(0.5, 0.25, 0.125, 9.0)}
    np.testing.assert_array_equal(last.train.points, first.train.points)


# Version 0


def test_version_0_without_lists_holds_out_a_fifth(pairs_v0: Path):
    shutil.rmtree(pairs_v0 / "train_test_split")
    data = open_dataset(str(pairs_v0), 16)
    assert np.bincount(data.train.labels).tolist() == [3] * 16
    assert np.bincount(data.test.labels).tolist() == [1] * 16
    assert data.summary is not None
    assert data.held_out == data.summary.held_out
    assert all(name.split("/")[1] == "points" for name in data.held_out)
    assert data.summary.points == (POINTS,) * 3
    for synset in SYNSETS[:1]:
        for file in sorted((pairs_v0 / synset / "points").glob("*.pts"))[1:]:
            file.unlink()
    assert error_of(pairs_v0).startswith(f"{pairs_v0 / SYNSETS[0] / 'points'}: holds 1 files, expected at least two")


def test_version_0_is_read_again_if_the_parts_change(pairs_v0: Path):
    first = open_dataset(str(pairs_v0), 16)
    seg = pairs_v0 / SYNSETS[3] / "points_label"
    (file,) = (file for file in seg.glob("test*.seg"))
    file.write_text("2\n" * POINTS)
    last = open_dataset(str(pairs_v0), 16)
    changed = [shape for shape in range(16) if pairs(first.test, shape) != pairs(last.test, shape)]
    assert [last.test.labels[shape] for shape in changed] == [3]
    assert last.test.point_labels is not None
    assert set(last.test.point_labels[changed[0]]) == {PARTS[3][1]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("1\n" * (POINTS - 1), f"has {POINTS - 1} parts for the {POINTS} points of test"),
        ("1\n" * (POINTS - 1) + "5\n", f"point {POINTS - 1} has the part 5, expected 1 to 4, the parts of Car"),
        ("0\n" * POINTS, "point 0 has the part 0, expected 1 to 4, the parts of Car"),
        ("1.5\n" * POINTS, "point 0 has the part 1.5, expected 1 to 4"),
        ("wheel\n" * POINTS, "line 1 is 'wheel', expected the 1 numbers part"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_bad_parts_of_version_0(pairs_v0: Path, content: str | None, sentence: str):
    (file,) = (pairs_v0 / SYNSETS[3] / "points_label").glob("test*.seg")
    file.unlink()
    if content is not None:
        file.write_text(content)
    assert error_of(pairs_v0).startswith(f"{file}: {sentence}")


# One category


def require_only(data: PointClouds, name: str) -> None:
    label = data.classes.index(name)
    one = data.only(name)
    assert (one.name, one.classes) == (f"{data.name}/{name}", (name,))
    assert one.point_classes == tuple(data.point_classes[part] for part in data.parts[label])
    assert one.parts == (tuple(range(len(one.point_classes))),)
    assert one.class_sizes.tolist() == [data.class_sizes[label]]
    assert one.up == data.up
    for mine, whole in ((one.train, data.train), (one.test, data.test)):
        assert mine.point_labels is not None
        assert whole.point_labels is not None
        own = whole.labels == label
        np.testing.assert_array_equal(mine.points, whole.points[own])
        np.testing.assert_array_equal(np.array(data.parts[label])[mine.point_labels], whole.point_labels[own])
        assert not mine.labels.any()


@pytest.mark.parametrize("name", CLASSES)
def test_one_category(hdf5: Path, name: str):
    require_only(open_dataset(str(hdf5), 16), name)


def test_one_class_of_the_built_in_shapes():
    data = shapes(train=40, test=20, points=64)
    assert np.concatenate(data.parts).tolist() == list(range(len(data.point_classes)))
    for name in data.classes:
        require_only(data, name)


def test_an_unknown_category(hdf5: Path):
    data = open_dataset(str(hdf5), 16)
    with pytest.raises(UserError, match="shapenet-part: has no class 'Sofa' to segment; expected one of: Airplane,"):
        data.only("Sofa")
    without = PointClouds("mine", ("Sofa",), data.train, data.test)
    with pytest.raises(UserError, match="mine: has no class 'Sofa' to segment; expected one of: none"):
        without.only("Sofa")
    lacking = Split(data.test.points[:0], data.test.labels[:0], SPLITS["test"].point_labels)
    with pytest.raises(UserError, match="class 'Cap' has no cloud in the test split; choose another class"):
        PointClouds("part", CLASSES, data.train, lacking, POINT_CLASSES, parts=PARTS).only("Cap")


# Broken files


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_cut_hdf5(hdf5: Path, share: float):
    file = hdf5 / "ply_data_val0.h5"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    message = error_of(hdf5)
    assert message.startswith(f"{file}: is not a whole HDF5 file")
    assert "download it again" in message


VAL = SPLITS["val"]
VAL_PARTS = np.asarray(VAL.point_labels).astype(np.uint8)
BEFORE, BEYOND = (np.where(VAL.labels[:, None] == 4, np.uint8(part), VAL_PARTS) for part in (11, 16))
BROKEN = np.where(np.arange(16 * POINTS * 3).reshape(VAL.points.shape) == 7, np.nan, VAL.points).astype(np.float32)


@pytest.mark.parametrize(
    ("instead", "source", "sentence"),
    [
        (
            {"pid": np.zeros((16, 47), np.uint8)},
            "",
            "'pid' is uint8 of shape (16, 47), expected whole numbers of shape (16, 4",
        ),
        ({"pid": np.zeros((15, POINTS), np.uint8)}, "", "'pid' is uint8 of shape (15, 48), expected"),
        ({"pid": np.zeros((16, POINTS), np.float32)}, "", "'pid' is float32 of shape (16, 48), expected whole numbers"),
        (
            {"pid": BEFORE},
            f", cloud {np.flatnonzero(VAL.labels == 4)[0]}",
            "point 0 has the part 11, expected 12 to 15, the parts of Chair; unpack",
        ),
        (
            {"pid": BEYOND},
            f", cloud {np.flatnonzero(VAL.labels == 4)[0]}",
            "point 0 has the part 16, expected 12 to 15, the parts of Chair; unpack",
        ),
        (
            {"label": np.full((16, 1), 16, np.uint8)},
            "",
            "cloud 0 has the label 16, expected 0 to 15 for the 16 classes of all_ob",
        ),
        ({"label": np.zeros((15, 1), np.uint8)}, "", "has 15 labels for 16 clouds"),
        ({"data": BROKEN}, ", cloud 0", "1 of 48 points have a NaN or infinite coordinate, the first is point 2"),
        ({"data": VAL.points[:, :12]}, "", "holds 12 points, expected at least 16; train with --points 12 or fewer"),
        (
            {"data": VAL.points[..., :2]},
            "",
            "'data' is float32 of shape (16, 48, 2), expected float32 of shape (clouds, po",
        ),
        (
            {"data": VAL.points[:, :40], "pid": VAL_PARTS[:, :40]},
            "",
            "has clouds of 40 points, expected 48 as in ply_data_train0.h5; keep files of one size",
        ),
    ],
)
def test_bad_hdf5(hdf5: Path, instead: dict[str, np.ndarray], source: str, sentence: str):
    write_split_h5(hdf5 / "ply_data_val0.h5", VAL, **instead)
    message = error_of(hdf5)
    assert message.startswith(f"{hdf5 / 'ply_data_val0.h5'}{source}: ")
    assert sentence in message


def test_hdf5_without_parts(hdf5: Path):
    write_h5(hdf5 / "ply_data_val0.h5", data=VAL.points, label=VAL.labels[:, None])
    assert error_of(hdf5).startswith(f"{hdf5 / 'ply_data_val0.h5'}: has no array 'pid' (it holds data, label)")


def test_missing_h5py(hdf5: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "pip install h5py (extra 'train')" in error_of(hdf5)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("val_hdf5_file_list.txt", None, "there is no such file, but this layout needs it; unpack the data again"),
        ("val_hdf5_file_list.txt", "", "the list is empty"),
        ("ply_data_test0.h5", None, "there is no such file, but test_hdf5_file_list.txt names it"),
        ("all_object_categories.txt", None, "there is no such file, but this layout needs it"),
        ("all_object_categories.txt", "Sofa\t04256520\n", "names the category 'Sofa', expected one of Airplane, Bag,"),
        (
            "all_object_categories.txt",
            "Bag\t02773838\nAirplane\t02691156\n",
            "has other categories than the labels, or another order",
        ),
    ],
)
def test_bad_lists_of_hdf5(hdf5: Path, file: str, content: str | None, sentence: str):
    replace(hdf5 / file, content)
    message = error_of(hdf5)
    assert message.startswith(f"{hdf5 / file}: ")
    assert sentence in message


def replace(file: Path, content: str | None) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_text(content)


TEST_LIST = "train_test_split/shuffled_test_file_list.json"
SHAPE = f"{SYNSETS[SPLITS['test'].labels[5]]}/test5.txt"
GOOD = f"0 0 0 0 0 1 {PARTS[SPLITS['test'].labels[5]][0]}\n"


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("synsetoffset2category.txt", None, "there is no such file, but this layout needs it"),
        ("synsetoffset2category.txt", "Boat\t1\n", "names the category 'Boat', expected one of Airplane, Bag,"),
        (TEST_LIST, None, "there is no such file, but this layout needs it"),
        (TEST_LIST, "{", "is not a list of names in JSON; unpack the data again"),
        (TEST_LIST, "7", "is not a list of names in JSON"),
        (TEST_LIST, "[]", "the list is empty"),
        (TEST_LIST, '["shape_data/123/x"]', "the category of 'shape_data/123/x' is not in synsetoffset2category.txt"),
        (TEST_LIST, '["x"]', "the category of 'x' is not in"),
        (SHAPE, None, "there is no such file, but shuffled_test_file_list.json names it"),
        (SHAPE, "", "the file is empty; unpack the data again"),
        (SHAPE, GOOD + "0 0 0 0 0 1\n", "line 2 is '0 0 0 0 0 1', expected the 7 numbers x y z nx ny nz part"),
        (SHAPE, GOOD * 3 + "0 0 zero 0 0 1 2\n", "line 4 is '0 0 zero 0 0 1 2', expected the 7 numbers"),
        (SHAPE, "0 0 0\n" * 9, "line 1 is '0 0 0', expected the 7 numbers"),
        (SHAPE, "1 2 3 4 5 6\r7\n", "line 1 is '1 2 3 4 5 6\\r7', expected the 7 numbers"),
        (SHAPE, GOOD + "nan 0 0 0 0 1 2\n", "1 of 2 points have a NaN or infinite coordinate, the first is point 1"),
        (SHAPE, GOOD + "0 0 0 0 0 1 50\n", "point 1 has the part 50, expected"),
        (SHAPE, GOOD.replace("\n", ".5\n"), f"has the part {GOOD.split()[-1]}.5, expected"),
    ],
)
def test_bad_text_layout(text: Path, file: str, content: str | None, sentence: str):
    replace(text / file, content)
    message = error_of(text)
    assert message.startswith(f"{text / file}: ")
    assert sentence in message


def test_text_that_is_not_utf_8(text: Path):
    (text / SHAPE).write_bytes(b"\xff\xfe\x00 1 2\n")
    assert error_of(text).startswith(f"{text / SHAPE}: line 1 is ")
    (text / TEST_LIST).write_bytes(b"\xff\xfe")
    assert error_of(text).startswith(f"{text / TEST_LIST}: is not a readable list of names")


def test_two_data_sets_in_one_folder(hdf5: Path, text: Path):
    assert error_of(hdf5.parent) == f"{hdf5.parent}: holds 2 data sets (hdf5_data, {text.name}); name one of them"
