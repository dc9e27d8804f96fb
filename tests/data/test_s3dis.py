"""S3DIS in its published layouts, its folds, and the errors for broken files."""

from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
from dataset_errors import error_of

from bipointnet.data import open_dataset, s3dis
from bipointnet.data.blocks import ROOM as LAYOUT
from bipointnet.data.blocks import Columns, add_votes, cover
from bipointnet.data.rooms import CLASSES
from bipointnet.data.s3dis import Fold, Room, folds, read_rooms
from bipointnet.errors import UserError
from bipointnet.evaluation import metrics

SIX_AREAS = [f"Area_{area}_{room}" for area in range(1, 7) for room in ("office_1", "hallway_1")]
ONE_AREA = [
    f"Area_6_{kind}_{k}" for kind, count in (("office", 31), ("hallway", 2), ("pantry", 1)) for k in range(count)
]


def make_room(name: str, points: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """(N, 6) xyzrgb as published, rounded to millimeters and bytes, and the class of each point."""
    rng = np.random.default_rng(sum(name.encode()))
    xyz = rng.uniform((-7, 3, 0), (-5.4, 4.7, 2.6), (points, 3)).round(3)
    return np.hstack([xyz, rng.integers(0, 256, (points, 3))]), np.sort(rng.integers(0, 13, points))


def write_annotations(root: Path, name: str) -> Path:
    area, room = name[:6], name[7:]
    folder = root / area / room / "Annotations"
    folder.mkdir(parents=True)
    points, labels = make_room(name)
    np.savetxt(folder.parent / f"{room}.txt", points, fmt="%g")
    for label in np.unique(labels):
        things = np.array_split(points[labels == label], 2)
        for k, thing in enumerate(things, 1):
            # Stairs have no class of their own.
            kind = "stairs" if CLASSES[label] == "clutter" and k == 2 else CLASSES[label]
            np.savetxt(folder / f"{kind}_{k}.txt", thing, fmt=["%.3f"] * 3 + ["%d"] * 3)
    (root / area / f"{area}_alignmentAngle.txt").write_text("## Global alignment angle per disjoint space\n")
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six areas of two rooms as Stanford publishes them."""
    root = tmp_path_factory.mktemp("data") / "Stanford3dDataset_v1.2_Aligned_Version"
    for name in SIX_AREAS:
        write_annotations(root, name)
    return root


@pytest.fixture
def one_room_each(tmp_path: Path) -> Path:
    """Two areas with one room each, for tests that break them."""
    for name in ("Area_1_office_1", "Area_2_office_1"):
        write_annotations(tmp_path, name)
    return tmp_path


def write_array(root: Path, name: str) -> Path:
    root.mkdir(exist_ok=True)
    np.save(root / f"{name}.npy", np.column_stack(make_room(name)))
    return root / f"{name}.npy"


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("arrays") / "stanford_indoor3d"
    for name in SIX_AREAS:
        write_array(root, name)
    return root


def write_h5(path: Path, data: np.ndarray, label: np.ndarray) -> None:
    path.unlink(missing_ok=True)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=data, compression="gzip")
        file.create_dataset("label", data=label, compression="gzip")


def blocks_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of 4096 points filled with the number of the block, and labels derived from it."""
    data = np.broadcast_to(numbers[:, None, None].astype(np.float32), (len(numbers), 4096, 9))
    return data, np.broadcast_to((numbers % 13)[:, None].astype(np.uint8), (len(numbers), 4096))


def write_blocks(root: Path, rooms: list[str]) -> Path:
    """Three blocks per room, in files of 10 blocks, so that rooms span files."""
    root.mkdir(parents=True)
    names = [room for room in rooms for _ in range(3)]
    starts = range(0, len(names), 10)
    for k, start in enumerate(starts):
        write_h5(root / f"ply_data_all_{k}.h5", *blocks_of(np.arange(start, min(start + 10, len(names)))))
    (root / "all_files.txt").write_text("".join(f"{root.name}/ply_data_all_{k}.h5\n" for k in range(len(starts))))
    (root / "room_filelist.txt").write_text("".join(f"{name}\n" for name in names))
    return root


@pytest.fixture
def hdf5(tmp_path: Path) -> Path:
    return write_blocks(tmp_path / "indoor3d_sem_seg_hdf5_data", SIX_AREAS)


# Folds


def require_folds(parts: tuple[Fold, ...], rooms: list[str]) -> None:
    tested = [room for fold in parts for room in fold.rooms]
    assert sorted(tested) == sorted(set(tested)) == sorted(rooms), "disjoint and complete"
    assert len({fold.name for fold in parts}) == len(parts)


@pytest.mark.parametrize("layout", ["published", "arrays", "hdf5"])
def test_six_areas_are_six_folds_that_test_every_room_once(layout: str, request: pytest.FixtureRequest):
    parts = folds(request.getfixturevalue(layout))
    require_folds(parts, SIX_AREAS)
    assert [fold.name for fold in parts] == [f"Area_{area}" for area in range(1, 7)]
    for fold in parts:
        assert {room[:6] for room in fold.rooms} == {fold.name}


@pytest.mark.parametrize("count", [2, 5, 6, 34])
def test_rooms_of_one_area_are_distributed_over_folds(tmp_path: Path, count: int):
    rooms = ONE_AREA[-count:]
    folder = write_blocks(tmp_path / "blocks", rooms)
    parts = folds(folder)
    require_folds(parts, rooms)
    assert len(parts) == min(4, count)
    for kind in {room.rpartition("_")[0] for room in rooms}:
        counts = [sum(room.startswith(kind) for room in fold.rooms) for fold in parts]
        assert max(counts) - min(counts) <= 1, "each kind is distributed evenly"
    (folder / "room_filelist.txt").write_text("".join(f"{room}\n" for room in reversed(rooms)))
    assert folds(folder) == parts, "in any order of the rooms"


def test_a_single_room_has_no_folds(tmp_path: Path):
    write_array(tmp_path, "Area_1_office_1")
    assert error_of(tmp_path).startswith(f"{tmp_path}: holds 1 room, expected at least two")


def test_the_default_fold_is_area_5(hdf5: Path, tmp_path: Path):
    assert open_dataset(str(hdf5), 16).name == "s3dis/Area_5"
    one_area = write_blocks(tmp_path / "one", ONE_AREA)
    assert open_dataset(str(one_area), 16).name == "s3dis/Area_6_rooms_1"
    with pytest.raises(UserError, match="has no fold 'Area_7'; expected one of Area_1, Area_2"):
        s3dis.s3dis(hdf5, 16, fold="Area_7")


# Blocks as published


@pytest.mark.parametrize("rooms", [SIX_AREAS, ONE_AREA], ids=["six areas", "one area"])
def test_blocks_are_in_the_split_of_their_room(tmp_path: Path, rooms: list[str]):
    folder = write_blocks(tmp_path / "blocks", rooms)
    for fold in folds(folder):
        data = s3dis.s3dis(folder, 4096, fold=fold.name)
        assert (data.classes, data.point_classes, data.channels, data.parts) == (("room",), CLASSES, 9, ())
        tested = [number for number in range(3 * len(rooms)) if rooms[number // 3] in fold.rooms]
        trained = [number for number in range(3 * len(rooms)) if rooms[number // 3] not in fold.rooms]
        for split, numbers in ((data.train, trained), (data.test, tested)):
            blocks, labels = blocks_of(np.array(numbers))
            np.testing.assert_array_equal(split.points, blocks)
            np.testing.assert_array_equal(split.point_labels, labels)
            assert split.labels.tolist() == [0] * len(numbers)


# Whole rooms


def same_room(one: Room, other: Room) -> bool:
    def rows(room: Room) -> Counter[tuple[float, ...]]:
        return Counter(map(tuple, np.column_stack([room.points, room.labels]).tolist()))

    return one.name == other.name and rows(one) == rows(other)


def test_rooms_are_the_same_in_both_layouts(published: Path, arrays: Path):
    for text, array in zip(read_rooms(published, SIX_AREAS), read_rooms(arrays, SIX_AREAS), strict=True):
        points, labels = make_room(array.name)
        np.testing.assert_allclose(array.points[:, :3], points[:, :3], rtol=1e-6)
        np.testing.assert_array_equal(np.round(array.points[:, 3:] * 255), points[:, 3:])
        np.testing.assert_array_equal(array.labels, labels)
        assert same_room(text, array)
        assert (array.points.dtype, array.labels.dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("layout", ["published", "arrays"])
def test_folds_of_whole_rooms_test_every_block_once(layout: str, request: pytest.FixtureRequest):
    folder = request.getfixturevalue(layout)
    halves = [s3dis.s3dis(folder, 16, fold=fold.name) for fold in folds(folder)]

    def keys(blocks: np.ndarray) -> list[bytes]:
        return sorted(block.tobytes() for block in blocks)

    everything = keys(np.concatenate([data.test.points for data in halves]))
    assert len(everything) == len(set(everything))
    for data in halves:
        assert data.test.points.shape[1:] == (4096, 9)
        assert keys(np.concatenate([data.train.points, data.test.points])) == everything
        assert data.train.point_labels is not None
        assert set(np.unique(data.train.point_labels)) <= set(range(13))


def test_the_labels_of_a_block_are_those_of_its_points(arrays: Path):
    """Colors identify the points of the room."""
    data = s3dis.s3dis(arrays, 16, fold="Area_3")
    points, labels = zip(*(make_room(name) for name in SIX_AREAS if name.startswith("Area_3")), strict=True)
    label_of = dict(zip(map(tuple, np.concatenate(points)[:, 3:].tolist()), np.concatenate(labels), strict=True))
    assert data.test.point_labels is not None
    colors = np.round(data.test.points[..., 3:6] * 255).reshape(-1, 3)
    expected = [label_of[tuple(color)] for color in colors.tolist()]
    np.testing.assert_array_equal(data.test.point_labels.reshape(-1), expected)


@pytest.mark.parametrize("points", [64, 4096])
def test_correct_scores_of_blocks_label_every_point_of_a_room(published: Path, points: int):
    for room in read_rooms(published, SIX_AREAS[:2]):
        totals = np.zeros((len(room.points), 13))
        columns = Columns.of(LAYOUT, room.points[:, :3], room.points[:, 3:], room.name)
        for blocks in cover(columns, points, batch=4):
            add_votes(totals, blocks, np.eye(13)[room.labels[blocks.index]])
        confusion = metrics.confusion_matrix(room.labels, totals.argmax(axis=1), 13)
        assert metrics.overall_accuracy(confusion) == metrics.mean_iou(confusion) == 100


def test_the_points_depend_on_the_seed_and_the_room_only(arrays: Path):
    one, other = (s3dis.s3dis(arrays, 16, seed=seed, fold="Area_1") for seed in (0, 1))
    assert not np.array_equal(one.test.points, other.test.points)
    again = s3dis.s3dis(arrays, 16, fold="Area_2")
    assert {block.tobytes() for block in one.test.points} <= {block.tobytes() for block in again.train.points}


def test_text_is_read_once(published: Path, monkeypatch: pytest.MonkeyPatch):
    first = list(read_rooms(published, SIX_AREAS[:1]))
    monkeypatch.setattr(s3dis, "numbers", lambda file, _: pytest.fail(f"{file} was read again"))
    assert same_room(*first, *read_rooms(published, SIX_AREAS[:1]))


def test_an_area_by_itself(published: Path, monkeypatch: pytest.MonkeyPatch):
    assert s3dis.recognizes(published / "Area_4")
    assert [fold.rooms for fold in folds(published / "Area_4")] == [("Area_4_hallway_1",), ("Area_4_office_1",)]
    assert open_dataset(str(published / "Area_4"), 16).name == "s3dis/Area_4_rooms_1"
    monkeypatch.chdir(published / "Area_4")
    assert open_dataset(".", 16).name == "s3dis/Area_4_rooms_1"


def test_the_parent_folder_is_accepted(published: Path):
    assert open_dataset(str(published.parent), 16).name == "s3dis/Area_5"


def test_a_control_character_in_a_published_line_is_a_space(one_room_each: Path):
    before = next(iter(read_rooms(one_room_each, ["Area_1_office_1"])))
    file = one_room_each / "Area_1" / "office_1" / "Annotations" / "ceiling_1.txt"
    content = file.read_bytes()
    last_space = content.rindex(b" ")
    file.write_bytes(content[:last_space] + b"\x10" + content[last_space + 1 :])
    assert same_room(next(iter(read_rooms(one_room_each, ["Area_1_office_1"]))), before)


# Broken files


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_cut_hdf5(hdf5: Path, share: float):
    file = hdf5 / "ply_data_all_1.h5"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    assert error_of(hdf5).startswith(f"{file}: is not a whole HDF5 file")


TEN, LABELS = blocks_of(np.arange(10))


@pytest.mark.parametrize(
    ("data", "label", "sentence"),
    [
        (TEN[..., :6], LABELS, "(10, 4096, 6), expected float32 of shape (clouds, points, 9);"),
        (TEN[:, :10], LABELS[:, :10], "holds 10 points, expected at least 16"),
        (TEN[:, :99], LABELS[:, :99], "has blocks of 99 points, expected 4096"),
        (TEN, LABELS[:9], "'label' is uint8 of shape (9, 4096), expected whole numbers of shape (10, 4096)"),
        (TEN, LABELS[:, :4000], "'label' is uint8 of shape (10, 4000), expected"),
        (TEN, LABELS + 4, "4096 points have labels like 13, expected 0 to 12, the classes of S3DIS"),
    ],
)
def test_bad_hdf5(hdf5: Path, data: np.ndarray, label: np.ndarray, sentence: str):
    write_h5(hdf5 / "ply_data_all_0.h5", data, label)
    message = error_of(hdf5)
    assert message.startswith(f"{hdf5 / 'ply_data_all_0.h5'}: ")
    assert sentence in message


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("room_filelist.txt", None, "there is no such file, but this layout needs it"),
        (
            "room_filelist.txt",
            "Area_1_a_1\n" * 3 + "Area_2_a_1\n",
            "names the rooms of 4 blocks where the files of all_f",
        ),
        ("room_filelist.txt", "Area_1_a_1\n" * 30 + "Area_2_a_1\n" * 9, "names the rooms of 39 blocks where the files"),
        (
            "room_filelist.txt",
            "Area_1_a_1\noffice_2\n",
            "'office_2' is not the name of a room, expected a name like Area_1_",
        ),
        ("all_files.txt", None, "there is no such file, but this layout needs it"),
        ("ply_data_all_2.h5", None, "there is no such file, but all_files.txt names it"),
    ],
)
def test_bad_lists_of_hdf5(hdf5: Path, file: str, content: str | None, sentence: str):
    (hdf5 / file).unlink()
    if content is not None:
        (hdf5 / file).write_text(content)
    message = error_of(hdf5)
    assert message.startswith(f"{hdf5 / file}: ")
    assert sentence in message


def test_blocks_are_not_whole_rooms(hdf5: Path):
    with pytest.raises(
        UserError, match=r"holds blocks, not whole rooms; name the folder with Area_N/ROOM/ or Area_N_RO"
    ):
        next(read_rooms(hdf5, SIX_AREAS))


def test_a_missing_room(arrays: Path):
    with pytest.raises(UserError, match="has no room 'Area_7_office_1' among its 12"):
        next(read_rooms(arrays, ["Area_7_office_1"]))


GOOD = "-15.6 39.1 2.6 93 86 78\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "the file is empty; unpack the data again"),
        (GOOD + "-15.6 39.1 2.6\n", "line 2 is '-15.6 39.1 2.6', expected the 6 numbers x y z r g b"),
        ("-15.6 39.1 2.6\n" * 5, "line 1 is '-15.6 39.1 2.6', expected the 6 numbers x y z r g b"),
        (GOOD + "-15.6 39.1 2.6 93 86\x10 78 9", "line 2 is '-15.6 39.1 2.6 93 86  78 9', expected the 6 numbers"),
        (GOOD + "1 inf 2 93 86 78\n", "1 of 2 points have a NaN or infinite coordinate, the first is point 1"),
        (GOOD + "1 2 3 93 256 78\n", "has colors from 78 to 256, expected 0 to 255"),
    ],
)
def test_bad_annotation(one_room_each: Path, content: str, sentence: str):
    file = one_room_each / "Area_2" / "office_1" / "Annotations" / "chair_1.txt"
    file.write_text(content)
    message = error_of(one_room_each)
    assert message.startswith(f"{file}: ")
    assert sentence in message


def test_room_without_annotations(one_room_each: Path):
    folder = one_room_each / "Area_2" / "office_1" / "Annotations"
    for file in folder.iterdir():
        file.unlink()
    assert error_of(one_room_each).startswith(f"{folder}: holds no CLASS_K.txt, expected one per object")


ROOM = np.column_stack(make_room("Area_1_office_1"))


@pytest.mark.parametrize(
    ("room", "sentence"),
    [
        (ROOM[:0], "the room is empty, expected at least one point; leave the file out"),
        (
            ROOM[:, [0, 1, 2, 6]],
            "is float64 of shape (300, 4), expected numbers of shape (points, 7): x y z r g b",
        ),
        (ROOM[:, :6], "is float64 of shape (300, 6), expected"),
        (ROOM[0], "is float64 of shape (7,), expected"),
        (ROOM.astype(str), "is <U32 of shape (300, 7), expected numbers"),
        (ROOM + np.array([0, 0, 0, 0, 0, 0, 13]), "have labels like 13, expected 0 to 12"),
        (ROOM * (1, 1, 1, 1, 1, 1, 0.5), "points have labels like 0.5, expected 0 to 12"),
        (ROOM * (1, 1, 1, 1, 1, 1, np.nan), "300 of 300 points have a NaN"),
        (ROOM * (1, 1, 1, 2, 2, 2, 1), "has colors from 0 to 510, expected 0 to 255"),
        (ROOM * (9999, 1, 1, 1, 1, 1, 1), "m wide, expected at most 1000 m; scale it to meters, cut it, or use larger"),
    ],
)
def test_bad_array(tmp_path: Path, room: np.ndarray, sentence: str):
    write_array(tmp_path, "Area_2_office_1")
    file = write_array(tmp_path, "Area_1_office_1")
    np.save(file, room)
    message = error_of(tmp_path)
    assert message.startswith(f"{file}: ")
    assert sentence in message


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_cut_array(tmp_path: Path, share: float):
    write_array(tmp_path, "Area_2_office_1")
    file = write_array(tmp_path, "Area_1_office_1")
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    assert error_of(tmp_path).startswith(f"{file}: is not a whole .npy file of numbers; copy it again")
