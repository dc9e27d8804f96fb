"""Folders of your own clouds: the layouts that open_dataset() recognizes, and what it says about the others."""

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from dataset_errors import error_of
from own_files import write_classes, write_cloud

from bipointnet.data import clouds, folder, open_dataset, shapes
from bipointnet.data.dataset import PointClouds
from bipointnet.data.summary import Summary
from bipointnet.errors import UserError


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


@pytest.mark.parametrize("layout", ["CLASS/*", "train/CLASS/*"])
def test_runs_and_jobs_in_the_folder_are_no_classes(tmp_path: Path, layout: str) -> None:
    """`train . -o runs/a` and `predict . -o answers` write CSV, JSON and text into the folder of the data."""
    for place in ("train", "test") if layout != "CLASS/*" else ("",):
        write_classes(tmp_path / place, cup=3, bowl=3)
    before = open_dataset(str(tmp_path), 16)
    for file in ("runs/a/resume.safetensors", "runs/a/metrics.csv", "run/metrics.csv", "run/last.safetensors"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("1,2,3\n4,5,6\n")
    write_cloud(tmp_path / "answers" / "cup.npy")
    (tmp_path / "answers" / "_job.json").write_text("{}")
    after = open_dataset(str(tmp_path), 16)
    assert after.classes == before.classes == ("bowl", "cup")
    assert after.trained_on == before.trained_on
    assert after.summary is not None
    reasons = {skipped.name: skipped.reason for skipped in after.summary.skipped}
    assert reasons == dict.fromkeys(("answers/", "run/", "runs/"), "written by a command of bipointnet")


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
    message = error_of(tmp_path)
    assert message.startswith(
        f"{tmp_path}: there are no {lacking} files beside the other split (layout {present}/CLASS/*)"
    )


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
    assert message.startswith(f"{tmp_path}: the class 'bowl' has one cloud (bowl/bowl0.npy), expected at least two")
    assert "add another or remove the class" in message


def test_bad_cloud_is_named(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=3)
    bad = write_cloud(tmp_path / "cup" / "small.npy", points=15)
    assert error_of(tmp_path).startswith(
        f"{bad}: holds 15 points, expected at least 16; train with --points 15 or fewer"
    )
    write_cloud(bad, value=np.nan)
    assert error_of(tmp_path).startswith(f"{bad}: no point with finite coordinates among 40")
    bad.write_bytes(b"garbage")
    assert error_of(tmp_path).startswith(f"{bad}: begins with 'garbag', expected")
    bad.unlink()
    assert len(open_dataset(str(tmp_path), 16).train) == 2


def test_unknown_layouts(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none").startswith(f"{tmp_path / 'none'}: there is no such folder; name a data folder")
    message = error_of(tmp_path)
    assert message.startswith(f"{tmp_path}: the folder is empty, not a recognized layout; expected one of: ModelNet")
    assert "train_files.txt with *.h5" in message
    assert "CLASS/train/* with CLASS/test/*, or train/CLASS/* with test/CLASS/*" in message
    file = write_cloud(tmp_path / "cloud.npy")
    assert error_of(file).startswith(f"{file}: is a file, not a folder")
    assert "the folder holds cloud.npy, not a recognized layout" in error_of(tmp_path)
    with pytest.raises(UserError, match="holds no folders, expected one per class"):
        folder.find(tmp_path)


def test_points_must_be_positive(tmp_path: Path) -> None:
    assert error_of(tmp_path, points=0) == "--points is 0, expected at least 1"


def test_shapes_are_the_same_for_every_seed(tiny: PointClouds, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(shapes, "shapes", lambda points, seed: asked.append((points, seed)) or tiny)
    open_dataset("shapes", 100, seed=5)
    open_dataset("shapes", 1024, seed=5)
    assert asked == [(1024, 0), (2048, 0)]


# Names of splits

NAMES = ("train", "training", "test", "testing", "val", "valid", "validation")
SPELLINGS = [spell(name) for name in NAMES for spell in (str.lower, str.capitalize, str.upper)]


def summary_of(path: Path) -> Summary:
    found = open_dataset(str(path), 16).summary
    assert found is not None
    return found


@pytest.mark.parametrize("names", list(permutations(NAMES, 2)))
def test_two_splits_are_never_two_classes(tmp_path: Path, names: tuple[str, str]) -> None:
    spellings = (str.lower, str.capitalize, str.upper)
    for number, spell in enumerate(product(spellings, repeat=2)):
        first, second = (each(name) for each, name in zip(spell, names, strict=True))
        root = write_classes(tmp_path / str(number), **{first: 3, second: 3})
        message = error_of(root)
        assert message.startswith(f"{root}: the classes would be named ")
        assert " is the name of a split; expected names of objects: CLASS/*" in message


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_split_is_not_a_class(tmp_path: Path, name: str) -> None:
    """Neither alone, nor beside a class, nor in a manifest; only the vehicle is."""
    assert "is the name of a split" in error_of(write_classes(tmp_path / "alone", **{name: 3}))
    beside = write_classes(tmp_path / "beside", **{name: 3, "car": 3})
    if name.casefold() == "train":
        assert open_dataset(str(beside), 16).classes == tuple(sorted([name, "car"]))
    else:
        assert "is the name of a split" in error_of(beside)
    rows = [f"beside/{name}/{name}{k}.npy,{name}\n" for k in range(3)]
    (tmp_path / "list.csv").write_text("path,class\n" + "".join(rows))
    assert "is the name of a split" in error_of(tmp_path / "list.csv")


@pytest.mark.parametrize("train", ["train", "Training", "TRAIN"])
@pytest.mark.parametrize("test", ["test", "Testing", "val", "VALID", "validation"])
@pytest.mark.parametrize("inner", [True, False], ids=["CLASS/split", "split/CLASS"])
def test_splits_by_any_of_their_names(tmp_path: Path, train: str, test: str, inner: bool) -> None:
    for split, value, name in product((train, test), (0, 1), ("cup", "bowl")):
        place = tmp_path / (f"{name}/{split}" if inner else f"{split}/{name}")
        write_cloud(place / f"{value}.npy", value=10 * (name == "cup") + value + 100 * (split == test))
    data = open_dataset(str(tmp_path), 16)
    assert data.classes == ("bowl", "cup")
    assert data.train.points[:, 0, 1].tolist() == [0, 1, 10, 11]
    assert data.test.points[:, 0, 1].tolist() == [100, 101, 110, 111]
    assert data.held_out == ()
    found = summary_of(tmp_path)
    patterns = [f"CLASS/{split}/*" if inner else f"{split}/CLASS/*" for split in (train, test)]
    assert found.layout == " with ".join(patterns)
    assert found.notes == ((f"{test}/ is the test split, as there is no test/",) if test[0] in "vV" else ())


@pytest.mark.parametrize("inner", [True, False], ids=["CLASS/split", "split/CLASS"])
def test_a_validation_split_beside_a_test_split_is_named(tmp_path: Path, inner: bool) -> None:
    for value, (split, name) in enumerate(product(("train", "val", "test"), ("cup", "bowl"))):
        write_cloud(tmp_path / (f"{name}/{split}" if inner else f"{split}/{name}") / "a.npy", value=value)
    assert summary_of(tmp_path).notes == ("val/ with 2 files is not used: test/ is the test split",)
    assert len(open_dataset(str(tmp_path), 16).train) == 2


def test_two_folders_for_one_split(tmp_path: Path) -> None:
    for split in ("train", "training", "test"):
        write_classes(tmp_path / split, cup=2)
    assert error_of(tmp_path).startswith(f"{tmp_path}: has train/ and training/ for one split")


def test_one_class_of_a_data_set_is_no_data_set(tmp_path: Path) -> None:
    """FINDINGS: this trained a classifier of "test" against "train"."""
    for name, split in product(("cup", "bowl"), ("train", "test")):
        write_cloud(tmp_path / name / split / "a.ply.npy")
    assert open_dataset(str(tmp_path), 16).classes == ("bowl", "cup")
    assert "name the folder that holds them" in error_of(tmp_path / "cup")


def test_classes_with_and_without_splits(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_cloud(tmp_path / "cup" / split / "a.npy")
    write_cloud(tmp_path / "bowl" / "b.npy")
    assert error_of(tmp_path).startswith(f"{tmp_path / 'bowl'}: holds files, while other classes hold train/ and test/")
    (tmp_path / "bowl" / "b.npy").unlink()
    assert error_of(tmp_path).startswith(f"{tmp_path / 'bowl'}: the folder of this class has no file that can be read")


@pytest.mark.parametrize("split", [True, False])
def test_classes_that_differ_only_in_case(tmp_path: Path, split: bool) -> None:
    write_classes(tmp_path / "train" if split else tmp_path, Cup=2, bowl=2)
    write_classes(tmp_path / "test" if split else tmp_path, cup=2, bowl=2)
    message = error_of(tmp_path)
    assert message.startswith(f"{tmp_path}: the classes 'Cup' (")
    assert "differ only in upper and lower case; give them one name" in message


# What is left out


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=2, bowl=2)
    (tmp_path / "README.md").write_text("hello")
    write_cloud(tmp_path / "stray.npy")
    write_cloud(tmp_path / "cup" / "more" / "a.npy")
    (tmp_path / "cup" / "notes.md").write_text("hello")
    (tmp_path / "cup" / "LICENSE").write_text("hello")
    (tmp_path / "cup" / "gone.ply").symlink_to(tmp_path / "nowhere.ply")
    (tmp_path / ".hidden").mkdir()
    found = summary_of(tmp_path)
    assert {skipped.name: skipped.reason for skipped in found.skipped} == {
        "README.md": "a file beside the folders",
        "stray.npy": "a file beside the folders",
        "cup/more/": "a folder inside the folder of a class",
        "cup/notes.md": "no reader for '.md'",
        "cup/LICENSE": "no suffix",
        "cup/gone.ply": "a broken link",
    }


def test_what_is_beside_the_splits_is_named(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_classes(tmp_path / split, cup=2)
    write_classes(tmp_path, bowl=2)
    write_cloud(tmp_path / "train" / "stray.npy")
    reasons = {skipped.name: skipped.reason for skipped in summary_of(tmp_path).skipped}
    assert reasons == {"bowl/": "a folder beside the splits", "train/stray.npy": "a file beside the classes"}


def test_links_are_followed(tmp_path: Path) -> None:
    write_classes(tmp_path / "elsewhere", cup=3, bowl=3)
    (tmp_path / "data").mkdir()
    for name in ("cup", "bowl"):
        (tmp_path / "data" / name).symlink_to(tmp_path / "elsewhere" / name)
    assert open_dataset(str(tmp_path / "data"), 16).classes == ("bowl", "cup")


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_classes(tmp_path, cup=2, bowl=2)
    listed = Path.iterdir

    def refuse(path: Path) -> object:
        if path.name == "cup":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert error_of(tmp_path) == (
        f"{tmp_path / 'cup'}: cannot be listed (Permission denied); check the folder's permissions"
    )


# Bad files


def test_all_bad_files_are_named_at_once(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=8, bowl=8)
    for k in range(6):
        (tmp_path / "cup" / f"bad{k}.npy").write_bytes(b"garbage")
    write_cloud(tmp_path / "bowl" / "small.npy", points=15)
    message = error_of(tmp_path)
    assert message.startswith(f"{tmp_path}: 7 of 23 files cannot be used: ")
    assert message.count("begins with 'garbag', expected") == 4
    assert "bowl/small.npy (holds 15 points, expected at least 16), cup/bad0.npy (" in message
    assert message.endswith(
        "and 2 more; correct or remove these files, train with --points 15 or fewer, or pass --skip-bad"
    )


def test_bad_files_are_left_out_on_request(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=5, bowl=5)
    good = open_dataset(str(tmp_path), 16)
    (tmp_path / "cup" / "bad.npy").write_bytes(b"garbage")
    write_cloud(tmp_path / "bowl" / "small.npy", points=15)
    data = open_dataset(str(tmp_path), 16, skip_bad=True)
    assert len(data.train) + len(data.test) == len(good.train) + len(good.test) == 10
    assert data.summary is not None
    reasons = {skipped.name: skipped.reason for skipped in data.summary.skipped}
    assert reasons["bowl/small.npy"] == "holds 15 points, expected at least 16"
    assert reasons["cup/bad.npy"].startswith("begins with 'garbag', expected")
    assert "bad" not in " ".join(name for name, _ in data.trained_on)
    for file in (tmp_path / "cup").glob("cup*.npy"):
        file.write_bytes(b"garbage")
    with pytest.raises(UserError, match="class 'cup' has no cloud in the train and the test split"):
        open_dataset(str(tmp_path), 16, skip_bad=True)


def test_published_data_are_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "train_files.txt").write_text("a.h5")
    with pytest.raises(UserError, match="a published data set; --skip-bad is for files of your own"):
        open_dataset(str(tmp_path), 16, skip_bad=True)


def test_many_clouds_with_too_few_points(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=3, bowl=3)
    write_cloud(tmp_path / "cup" / "small.npy", points=30)
    assert error_of(tmp_path, points=64).startswith(
        f"{tmp_path}: 7 of 7 files cannot be used: bowl/bowl0.npy (holds 40 points, expected at least 64), "
    )
    assert error_of(tmp_path, points=64).endswith(
        " and 2 more; correct or remove these files, train with --points 30 or fewer, or pass --skip-bad"
    )
