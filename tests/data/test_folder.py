"""Folders of one's own clouds, and how open_dataset() tells the layouts apart."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bipointnet.data import clouds, folder, open_dataset, shapes
from bipointnet.errors import UserError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIPOINTNET_CACHE", str(tmp_path_factory.mktemp("cache")))


def write_cloud(path: Path, points: int = 40, value: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.stack([np.arange(points), np.full(points, value), np.zeros(points)], axis=1))
    return path


def write_classes(root: Path, **counts: int) -> Path:
    for label, (name, count) in enumerate(counts.items()):
        for index in range(count):
            write_cloud(root / name / f"{name}{index}.npy", value=100 * label + index)
    return root


def error_of(data: Path, points: int = 16) -> str:
    with pytest.raises(UserError) as caught:
        open_dataset(str(data), points)
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    assert data.train.points[:, 0, 1].tolist() == [100, 101, 0, 1, 2]  # each cloud is that of its own file
    assert all(len(set(cloud[:, 0])) == 32 for cloud in data.train.points)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(2, 12), min_size=1, max_size=3), st.integers(0, 1000))
def test_drawn_split(tmp_path_factory: pytest.TempPathFactory, counts: list[int], seed: int) -> None:
    root = write_classes(tmp_path_factory.mktemp("data"), **{f"class{i}": count for i, count in enumerate(counts)})
    data = folder.folder(root, 16, seed)
    for label, count in enumerate(counts):
        train, test = (set(split.points[split.labels == label, 0, 1]) for split in (data.train, data.test))
        assert len(test) == max(1, round(0.2 * count))
        assert len(train) == count - len(test)
        assert train | test == {100 * label + index for index in range(count)}
    again = folder.folder(root, 16, seed)
    assert np.array_equal(again.train.points, data.train.points)
    assert np.array_equal(again.test.points, data.test.points)


def test_split_depends_on_the_seed(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=20)
    tested = {tuple(open_dataset(str(tmp_path), 16, seed).test.points[:, 0, 1]) for seed in range(4)}
    assert len(tested) > 1


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
    assert message.startswith(f"{root / 'bowl'}: the folder of this class holds no file that can be read")
    assert " ".join(clouds.SUFFIXES) in message


def test_class_with_one_file(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=2, bowl=1)
    message = error_of(tmp_path)
    assert message.startswith(f"{tmp_path / 'bowl'}: the folder of this class holds one cloud (bowl0.npy) where two")
    assert "add another or remove the folder" in message


def test_bad_cloud_is_named(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=3)
    bad = write_cloud(tmp_path / "cup" / "small.npy", points=15)
    assert error_of(tmp_path).startswith(f"{bad}: holds 15 points where 16 are asked for; pass --points 15 or fewer")
    write_cloud(bad, value=np.nan)
    assert error_of(tmp_path).startswith(f"{bad}: 40 of 40 points have a NaN or infinite coordinate")
    bad.write_bytes(b"garbage")
    assert error_of(tmp_path).startswith(f"{bad}: is not a whole .npy file")
    bad.unlink()
    assert len(open_dataset(str(tmp_path), 16).train) == 2


def test_unknown_layouts(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none").startswith(f"{tmp_path / 'none'}: there is no such folder; name a data folder")
    message = error_of(tmp_path)
    assert message.startswith(f"{tmp_path}: the folder is empty, which is no layout that is known")
    assert "train_files.txt with *.h5" in message
    assert "train/CLASS/* with test/CLASS/*" in message
    file = write_cloud(tmp_path / "cloud.npy")
    assert error_of(file).startswith(f"{file}: is a file, not a folder")
    assert "the folder holds cloud.npy, which is no layout" in error_of(tmp_path)
    with pytest.raises(UserError, match="holds no folders where one a class is expected"):
        folder.folder(tmp_path, 16)


def test_points_must_be_positive(tmp_path: Path) -> None:
    assert error_of(tmp_path, points=0) == "--points is 0 where at least 1 is expected"


def test_shapes_are_the_same_for_every_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "shapes", lambda points, seed: (points, seed))
    assert open_dataset("shapes", 100, seed=5) == (1024, 0)
    assert open_dataset("shapes", 1024, seed=5) == (2048, 0)
