"""Folders of your own clouds: their splits, and the layouts that open_dataset() recognizes."""

from pathlib import Path

import numpy as np
import pytest
from dataset_errors import error_of
from hypothesis import given, settings
from hypothesis import strategies as st

from bipointnet.data import clouds, folder, open_dataset, shapes
from bipointnet.errors import UserError


def write_cloud(path: Path, points: int = 40, value: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.stack([np.arange(points), np.full(points, value), np.zeros(points)], axis=1))
    return path


def write_classes(root: Path, **counts: int) -> Path:
    for label, (name, count) in enumerate(counts.items()):
        for index in range(count):
            write_cloud(root / name / f"{name}{index}.npy", value=100 * label + index)
    return root


def test_given_split(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", cup=3, bowl=2)
    write_classes(tmp_path / "test", cup=1, bowl=1)
    data = open_dataset(str(tmp_path), 16)
    assert data.name == "folder"
    assert data.classes == ("bowl", "cup")
    assert data.train.points.shape == (5, 32, 3)
    assert data.train.points.dtype == np.float32
    assert data.train.labels.tolist() == [0, 0, 1, 1, 1]
    assert data.test.labels.tolist() == [0, 1]
    assert data.train.points[:, 0, 1].tolist() == [100, 101, 0, 1, 2]  # each label belongs to its own file
    assert all(len(set(cloud[:, 0])) == 32 for cloud in data.train.points)


# The test split of a folder without one

NAMES = st.sets(st.text("abcdefgh0123456789_", min_size=1, max_size=3), min_size=2, max_size=40)


def forced(names: set[str], seed: int) -> set[str]:
    """The file that is on its side only because both splits need one: at most one."""
    low = {name for name in names if folder._hash(name, seed) < 0.2}
    return folder.hash_split(names, seed) ^ low


@settings(deadline=None)
@given(NAMES, st.text("xyz", min_size=1, max_size=9), st.integers(0, 1000))
def test_adding_a_file_moves_no_other_file_unless_a_split_would_be_empty(names: set[str], new: str, seed: int) -> None:
    before, after = folder.hash_split(names, seed), folder.hash_split(names | {new}, seed)
    moved = (before ^ after) - {new}
    assert moved <= forced(names, seed) | forced(names | {new}, seed)
    assert max(len(forced(names, seed)), len(moved)) <= 1


@settings(deadline=None)
@given(NAMES, st.integers(0, 1000))
def test_both_splits_have_a_file_and_the_order_of_the_files_is_irrelevant(names: set[str], seed: int) -> None:
    tested = folder.hash_split(names, seed)
    assert tested < names
    assert tested
    assert folder.hash_split(sorted(names, reverse=True), seed) == tested


@pytest.mark.parametrize("seed", range(4))
def test_a_fifth_of_many_files_is_held_out(seed: int) -> None:
    count = 20_000
    share = len(folder.hash_split([f"cup/{k}.ply" for k in range(count)], seed)) / count
    assert abs(share - 0.2) < 5 * np.sqrt(0.2 * 0.8 / count)  # 5 standard deviations of a binomial share


def test_the_hash_is_the_same_on_every_machine() -> None:
    held_out = folder.hash_split([f"cup/cup{k}.npy" for k in range(10)])
    assert held_out == {"cup/cup2.npy", "cup/cup7.npy"}


def held_out_of(root: Path, seed: int = 0, held_out: tuple[str, ...] = ()) -> set[str]:
    """The held-out files of classes that `write_classes` wrote, checked against the points of both splits."""
    data = open_dataset(str(root), 16, seed, held_out=held_out)
    files = sorted(root.glob("*/*.npy"))
    values = {f"{file.parent.name}/{file.name}": np.load(file)[0, 1] for file in files}
    expected = {False: [], True: []}
    for name, value in values.items():
        expected[name in data.held_out].append(value)
    assert data.train.points[:, 0, 1].tolist() == expected[False]
    assert data.test.points[:, 0, 1].tolist() == expected[True]
    for split in (data.train, data.test):
        assert split.labels.tolist() == [int(value // 100) for value in split.points[:, 0, 1]]
    assert sorted(data.held_out) == list(data.held_out)
    return set(data.held_out)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(2, 12), min_size=1, max_size=3), st.integers(0, 1000))
def test_a_new_scan_moves_no_training_file_into_the_test_split(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], seed: int
) -> None:
    root = write_classes(tmp_path_factory.mktemp("data"), **{f"class{i}": count for i, count in enumerate(counts)})
    names = {f"class{i}/class{i}{k}.npy" for i, count in enumerate(counts) for k in range(count)}
    before = held_out_of(root, seed)
    assert before < names
    write_cloud(root / "class0" / "new.npy", value=99)
    assert held_out_of(root, seed, tuple(before)) == before, "the list of a checkpoint decides"
    of_class = {name for name in names if name.startswith("class0/")}
    may_move = forced(of_class, seed) | forced(of_class | {"class0/new.npy"}, seed) | {"class0/new.npy"}
    assert held_out_of(root, seed) ^ before <= may_move


def test_one_more_file_leaves_the_split_of_the_others(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=20)
    before = held_out_of(tmp_path)
    for k in range(30):
        write_cloud(tmp_path / "cup" / f"new{k}.npy", value=20 + k)
    assert {name for name in held_out_of(tmp_path) if "new" not in name} == before


def test_split_depends_on_the_seed(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=20)
    assert len({tuple(sorted(held_out_of(tmp_path, seed))) for seed in range(4)}) == 4


def test_a_list_of_held_out_files_is_the_test_split(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=4, bowl=3, vase=1)
    held_out = ("cup/cup0.npy", "cup/gone.npy", "bowl/bowl2.npy", "bowl/bowl1.npy")
    (tmp_path / "bowl" / "bowl1.npy").unlink()
    data = open_dataset(str(tmp_path), 16, held_out=held_out)
    assert data.held_out == ("bowl/bowl2.npy", "cup/cup0.npy"), "files that no longer exist are skipped"
    assert data.test.labels.tolist() == [0, 1]
    assert data.train.labels.tolist() == [0, 1, 1, 1, 2], "new classes and files are training files"
    for name in ("cup/cup1", "cup/cup2", "cup/cup3", "bowl/bowl0", "vase/vase0"):
        (tmp_path / f"{name}.npy").unlink()
    (tmp_path / "vase").rmdir()
    data = open_dataset(str(tmp_path), 16, held_out=held_out)
    assert (data.train.points.shape, data.channels) == ((0, 16, 3), 3), "training files are not needed for the test"
    assert data.test.points[:, 0, 1].tolist() == [102, 0]


def test_a_list_of_held_out_files_that_are_all_gone(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=4)
    with pytest.raises(UserError) as caught:
        open_dataset(str(tmp_path), 16, held_out=("cup/b.npy", "cup/a.npy"))
    assert str(caught.value) == (
        f"{tmp_path}: none of the 2 held-out test files is here (the first was cup/a.npy); name the folder the model"
        " was trained on, or put new files to test on into test/CLASS/ and the others into train/CLASS/"
    )


def test_data_with_a_split_of_their_own_hold_out_no_files(tmp_path: Path) -> None:
    write_classes(tmp_path / "train", cup=3)
    write_classes(tmp_path / "test", cup=1)
    assert open_dataset(str(tmp_path), 16).held_out == ()
    data = open_dataset(str(tmp_path), 16, held_out=("cup/cup0.npy",))
    assert (len(data.train), len(data.test), data.held_out) == (3, 1, ())


# Files and layouts


def test_formats_mix_and_meshes_fill_any_pool(tmp_path: Path) -> None:
    write_cloud(tmp_path / "cup" / "a.npy")
    (tmp_path / "cup" / "b.txt").write_text("".join(f"{i} 0 0\n" for i in range(40)))
    (tmp_path / "cup" / "c.off").write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    (tmp_path / "cup" / "notes.md").write_text("ignored, its suffix is not known")
    (tmp_path / "cup" / ".hidden.npy").write_text("ignored")
    (tmp_path / ".git").mkdir()
    data = open_dataset(str(tmp_path), 16)
    assert len(data.train) + len(data.test) == 3
    assert data.train.points.shape[1:] == (32, 3)


def test_pool_ends_at_the_smallest_cloud(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_cloud(tmp_path / split / "cup" / "a.npy", points=20)
        write_cloud(tmp_path / split / "cup" / "b.npy", points=90)
    assert open_dataset(str(tmp_path), 16).train.points.shape == (2, 20, 3)
    assert open_dataset(str(tmp_path), 8).train.points.shape == (2, 16, 3)


def test_a_class_may_be_named_train(tmp_path: Path) -> None:
    write_classes(tmp_path, train=3, car=3)
    assert open_dataset(str(tmp_path), 16).classes == ("car", "train")


def test_parent_of_one_data_set(tmp_path: Path) -> None:
    write_classes(tmp_path / "mine" / "train", cup=1)
    write_classes(tmp_path / "mine" / "test", cup=1)
    assert open_dataset(str(tmp_path), 16).classes == ("cup",)
    write_classes(tmp_path / "yours" / "train", cup=1)
    write_classes(tmp_path / "yours" / "test", cup=1)
    assert error_of(tmp_path) == f"{tmp_path}: holds 2 data sets (mine, yours); name one of them"


@pytest.mark.parametrize(("present", "lacking"), [("train", "test"), ("test", "train")])
def test_half_a_split(tmp_path: Path, present: str, lacking: str) -> None:
    write_classes(tmp_path / present, cup=2)
    assert error_of(tmp_path).startswith(f"{tmp_path}: there is no folder {lacking}/ beside the other split; add it")


@pytest.mark.parametrize(("more", "fewer"), [("train", "test"), ("test", "train")])
def test_class_in_one_split_only(tmp_path: Path, more: str, fewer: str) -> None:
    write_classes(tmp_path / more, cup=2, bowl=2)
    write_classes(tmp_path / fewer, cup=2)
    message = error_of(tmp_path)
    assert message.startswith(f"{tmp_path}: class 'bowl' has no cloud in the {fewer} split")
    assert "add some or remove the class" in message


@pytest.mark.parametrize("split", [True, False])
def test_class_without_files(tmp_path: Path, split: bool) -> None:
    root = tmp_path / "train" if split else tmp_path
    write_classes(root, cup=2)
    if split:
        write_classes(tmp_path / "test", cup=2)
    (root / "bowl").mkdir()
    (root / "bowl" / "notes.md").write_text("no cloud")
    message = error_of(tmp_path)
    assert message.startswith(f"{root / 'bowl'}: the folder of this class has no file that can be read")
    assert " ".join(clouds.SUFFIXES) in message


def test_class_with_one_file(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=2, bowl=1)
    message = error_of(tmp_path)
    assert message.startswith(
        f"{tmp_path / 'bowl'}: the folder of this class has one cloud (bowl0.npy), expected at least two"
    )
    assert "add another or remove the folder" in message


def test_bad_cloud_is_named(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=3)
    bad = write_cloud(tmp_path / "cup" / "small.npy", points=15)
    assert error_of(tmp_path).startswith(f"{bad}: holds 15 points, expected at least 16; pass --points 15 or fewer")
    write_cloud(bad, value=np.nan)
    assert error_of(tmp_path).startswith(f"{bad}: 40 of 40 points have a NaN or infinite coordinate")
    bad.write_bytes(b"garbage")
    assert error_of(tmp_path).startswith(f"{bad}: is not a whole .npy file")
    bad.unlink()
    assert len(open_dataset(str(tmp_path), 16).train) == 2


def test_unknown_layouts(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none").startswith(f"{tmp_path / 'none'}: there is no such folder; name a data folder")
    message = error_of(tmp_path)
    assert message.startswith(f"{tmp_path}: the folder is empty, not a recognized layout; expected one of: ModelNet")
    assert "train_files.txt with *.h5" in message
    assert "train/CLASS/* with test/CLASS/*" in message
    file = write_cloud(tmp_path / "cloud.npy")
    assert error_of(file).startswith(f"{file}: is a file, not a folder")
    assert "the folder holds cloud.npy, not a recognized layout" in error_of(tmp_path)
    with pytest.raises(UserError, match="holds no folders, expected one per class"):
        folder.folder(tmp_path, 16)


def test_points_must_be_positive(tmp_path: Path) -> None:
    assert error_of(tmp_path, points=0) == "--points is 0, expected at least 1"


def test_shapes_are_the_same_for_every_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "shapes", lambda points, seed: (points, seed))
    assert open_dataset("shapes", 100, seed=5) == (1024, 0)
    assert open_dataset("shapes", 1024, seed=5) == (2048, 0)
