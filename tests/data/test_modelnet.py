"""ModelNet in its three published layouts, and the errors for broken files."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from dataset_errors import error_of

from bipointnet.data import modelnet, open_dataset, published
from bipointnet.data.dataset import PointClouds
from bipointnet.errors import UserError

CLASSES = ("airplane", "flower_pot")
PLY = (
    "ply\nformat ascii 1.0\nelement vertex 5\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
    + "0 0 0\n1 0 0\n0 1 0\n0 0 1\n1 1 1\n"
)
TRIANGLE = "OFF3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# HDF5


def write_h5(path: Path, **arrays: object) -> None:
    path.unlink(missing_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **({"compression": "gzip"} if np.ndim(np.asarray(array)) else {}))


def clouds_of(count: int, points: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, points, 3)).astype(np.float32)


def labels_of(*labels: int) -> np.ndarray:
    return np.array(labels, np.uint8).reshape(-1, 1)


@pytest.fixture
def hdf5(tmp_path: Path) -> Path:
    folder = tmp_path / "modelnet40_ply_hdf5_2048"
    write(folder / "shape_names.txt", "\n".join(CLASSES) + "\n")
    write(folder / "train_files.txt", "data/modelnet40_ply_hdf5_2048/a.h5\ndata/modelnet40_ply_hdf5_2048/b.h5\n")
    write(folder / "test_files.txt", "data/modelnet40_ply_hdf5_2048/c.h5\n")
    write_h5(folder / "a.h5", data=clouds_of(3, seed=1), label=labels_of(0, 1, 0), faceId=np.zeros((3, 64)))
    write_h5(folder / "b.h5", data=clouds_of(1, seed=2), label=labels_of(1))
    write_h5(folder / "c.h5", data=clouds_of(2, seed=3), label=labels_of(1, 0))
    return folder


def test_hdf5_needs_no_compiled_core(hdf5: Path) -> None:
    code = (
        "import sys; sys.modules['bipointnet._core'] = None; from bipointnet.data import open_dataset; "
        f"print(len(open_dataset({str(hdf5)!r}, 16).train))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout == "4\n"


@pytest.mark.parametrize("given", ["folder", "parent"])
def test_hdf5(hdf5: Path, given: str) -> None:
    data = open_dataset(str(hdf5 if given == "folder" else hdf5.parent), 16)
    assert data.name == "modelnet"
    assert data.classes == CLASSES
    assert data.channels == 3
    assert np.array_equal(data.train.points, np.concatenate([clouds_of(3, seed=1), clouds_of(1, seed=2)]))
    assert np.array_equal(data.test.points, clouds_of(2, seed=3))
    assert data.train.points.dtype == np.float32
    assert data.train.labels.tolist() == [0, 1, 0, 1]
    assert data.test.labels.tolist() == [1, 0]
    assert data.train.labels.dtype == np.int64


def test_hdf5_is_recognized_and_its_parent_is_not(hdf5: Path) -> None:
    assert modelnet.recognizes(hdf5)
    assert not modelnet.recognizes(hdf5.parent)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 0.95, 0.999])
def test_cut_hdf5(hdf5: Path, share: float) -> None:
    whole = (hdf5 / "a.h5").read_bytes()
    (hdf5 / "a.h5").write_bytes(whole[: int(share * len(whole))])
    message = error_of(hdf5)
    assert message.startswith(f"{hdf5 / 'a.h5'}: is not a whole HDF5 file")
    assert "download it again" in message


def test_hdf5_with_damaged_bytes(hdf5: Path) -> None:
    with h5py.File(hdf5 / "a.h5", "r") as file:
        start = file["data"].id.get_chunk_info(0).byte_offset  # pyright: ignore[reportAttributeAccessIssue]
    whole = bytearray((hdf5 / "a.h5").read_bytes())
    whole[start : start + 64] = b"\xff" * 64
    (hdf5 / "a.h5").write_bytes(whole)
    assert error_of(hdf5).startswith(f"{hdf5 / 'a.h5'}: is not a whole HDF5 file")


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"label": labels_of(0)}, "has no array 'data' (it holds label)"),
        ({"data": clouds_of(1)}, "has no array 'label' (it holds data)"),
        ({}, "has no array 'data' (it holds nothing)"),
        ({"data": 3.0, "label": labels_of(0)}, "has no array 'data'"),
        (
            {"data": clouds_of(1)[0], "label": labels_of(0)},
            "'data' is float32 of shape (64, 3), expected float32 of shape (c",
        ),
        ({"data": clouds_of(1)[..., :2], "label": labels_of(0)}, "'data' is float32 of shape (1, 64, 2)"),
        ({"data": np.zeros((0, 64, 3), "f4"), "label": np.zeros((0, 1), "u1")}, "of shape (0, 64, 3), expected"),
        ({"data": clouds_of(1).astype("i4"), "label": labels_of(0)}, "'data' is int32 of shape (1, 64, 3)"),
        (
            {"data": clouds_of(2), "label": np.zeros((2, 2), "u1")},
            "'label' is uint8 of shape (2, 2), expected whole numbers",
        ),
        ({"data": clouds_of(2), "label": np.zeros((2, 1), "f4")}, "'label' is float32 of shape (2, 1)"),
        ({"data": clouds_of(2), "label": labels_of(0)}, "has 1 labels for 2 clouds"),
        (
            {"data": clouds_of(2), "label": labels_of(1, 2)},
            "cloud 1 has the label 2, expected 0 to 1 for the 2 classes of shape",
        ),
        (
            {"data": clouds_of(1, points=12), "label": labels_of(0)},
            "holds 12 points, expected at least 16; train with --p",
        ),
        ({"data": clouds_of(1, points=32), "label": labels_of(0)}, "has clouds of 32 points, expected 64 as in a.h5"),
    ],
)
def test_bad_hdf5(hdf5: Path, arrays: dict[str, object], sentence: str) -> None:
    write_h5(hdf5 / "b.h5", **arrays)
    message = error_of(hdf5)
    assert message.startswith(f"{hdf5 / 'b.h5'}: ")
    assert sentence in message


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_hdf5_with_nan(hdf5: Path, value: float) -> None:
    data = clouds_of(3)
    data[1, 5, 0] = value
    write_h5(hdf5 / "a.h5", data=data, label=labels_of(0, 1, 0))
    message = error_of(hdf5)
    assert message.startswith(f"{hdf5 / 'a.h5'}, cloud 1: 1 of 64 points have a NaN or infinite coordinate")
    assert "the first is point 5" in message
    assert "remove these points" in message


def test_hdf5_lists(hdf5: Path) -> None:
    (hdf5 / "c.h5").unlink()
    assert error_of(hdf5).startswith(f"{hdf5 / 'c.h5'}: there is no such file, but test_files.txt names it")
    (hdf5 / "test_files.txt").write_text("\n")
    assert error_of(hdf5).startswith(f"{hdf5 / 'test_files.txt'}: the list is empty")
    (hdf5 / "test_files.txt").write_bytes(b"\xff\xfe")
    assert error_of(hdf5).startswith(f"{hdf5 / 'test_files.txt'}: is not a readable list")
    (hdf5 / "test_files.txt").unlink()
    assert error_of(hdf5).startswith(f"{hdf5 / 'test_files.txt'}: there is no such file")


@pytest.mark.parametrize(("file", "split"), [("c.h5", "test"), ("a.h5", "train")])
def test_hdf5_class_in_one_split_only(hdf5: Path, file: str, split: str) -> None:
    write_h5(hdf5 / "b.h5", data=clouds_of(1), label=labels_of(0))
    write_h5(hdf5 / file, data=clouds_of(1), label=labels_of(0))
    message = error_of(hdf5)
    assert message.startswith(f"{hdf5}: class 'flower_pot' has no cloud in the {split} split")
    assert "add some or remove the class" in message


# Resampled text


def text_cloud(points: int, start: int = 0) -> str:
    return "".join(f"{start + i}.5,{i}.25,-{i}.0,0,0,1\n" for i in range(points))


def write_text_layout(folder: Path, variant: str = "modelnet40", points: int = 40) -> Path:
    write(folder / f"{variant}_shape_names.txt", "\n".join(CLASSES) + "\n")
    write(folder / f"{variant}_train.txt", "airplane_0001\nflower_pot_0001\nairplane_0002\n")
    write(folder / f"{variant}_test.txt", "flower_pot_0002\nairplane_0003\n")
    for index, identity in enumerate(("airplane_0001", "airplane_0002", "airplane_0003")):
        write(folder / "airplane" / f"{identity}.txt", text_cloud(points, 100 * index))
    for index, identity in enumerate(("flower_pot_0001", "flower_pot_0002")):
        write(folder / "flower_pot" / f"{identity}.txt", text_cloud(points, 1000 * (1 + index)))
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_text_layout(tmp_path / "modelnet40_normal_resampled")


def test_text(text: Path) -> None:
    data = open_dataset(str(text), 16)
    assert data.classes == CLASSES
    assert data.train.labels.tolist() == [0, 1, 0]
    assert data.test.labels.tolist() == [1, 0]
    assert data.train.points.shape == (3, 32, 3)
    assert data.test.points.shape == (2, 32, 3)
    x, y, z = data.train.points[1].T
    assert len(set(x)) == 32  # no point twice
    assert not np.array_equal(x, np.sort(x))  # a random subset in random order
    assert np.array_equal(x - 1000.5, y - 0.25)
    assert np.array_equal(z, -(y - 0.25))
    assert data.test.points[0, :, 0].tolist() == [2000.5 + i for i in range(32)]  # the file's first points


def test_pool_ends_at_the_smallest_cloud(text: Path) -> None:
    write(text / "airplane" / "airplane_0002.txt", text_cloud(20))
    data = open_dataset(str(text), 16)
    assert data.train.points.shape == (3, 20, 3)
    assert data.test.points.shape == (2, 32, 3)


def test_text_of_modelnet10(tmp_path: Path) -> None:
    """The published folder has both lists. A list that is named chooses its data set."""
    both = write_text_layout(write_text_layout(tmp_path / "data"), "modelnet10")
    (both / "modelnet10_test.txt").write_text("flower_pot_0002\nairplane_0003\nairplane_0002\n")
    found = open_dataset(str(both), 16)
    assert len(found.test) == 2
    assert found.summary is not None
    assert found.summary.notes == (f"modelnet10 is here, too; to open it, name {both / 'modelnet10_train.txt'}",)
    for name in ("train", "test", "shape_names"):
        assert len(open_dataset(str(both / f"modelnet10_{name}.txt"), 16).test) == 3
        assert len(open_dataset(str(both / f"modelnet40_{name}.txt"), 16).test) == 2
    for file in both.glob("modelnet40_*"):
        file.unlink()
    assert len(open_dataset(str(both), 16).test) == 3
    (both / "modelnet10_test.txt").write_text("airplane_0003\n")
    assert "class 'flower_pot' has no cloud in the test split" in error_of(both)


def same(a: PointClouds, b: PointClouds) -> bool:
    return np.array_equal(a.train.points, b.train.points) and np.array_equal(a.test.points, b.test.points)


def test_the_cache_is_used_until_a_file_changes(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_dataset(str(text), 16, seed=1)
    assert not same(first, open_dataset(str(text), 16, seed=2))
    with monkeypatch.context() as patched:
        patched.setattr("bipointnet.data.clouds.read", lambda path: pytest.fail(f"{path} was read again"))
        assert same(first, open_dataset(str(text), 16, seed=1))
    write(text / "airplane" / "airplane_0003.txt", text_cloud(50, 7))
    changed = open_dataset(str(text), 16, seed=1)
    assert np.array_equal(changed.train.points, first.train.points)
    assert changed.test.points[1, 0, 0] == 7.5


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("airplane/airplane_0001.txt", None, "there is no such file, but modelnet40_train.txt names it"),
        ("flower_pot/flower_pot_0002.txt", None, "there is no such file, but modelnet40_test.txt names it"),
        ("modelnet40_shape_names.txt", None, "there is no such file, but this layout"),
        ("modelnet40_test.txt", None, "there is no such file, but this layout"),
        ("modelnet40_test.txt", "sofa_0001\n", "the class of the id 'sofa_0001' is not in the list"),
        (
            "airplane/airplane_0001.txt",
            text_cloud(9),
            "holds 9 points, expected at least 16; train with --points 9 or fewer",
        ),
        (
            "airplane/airplane_0003.txt",
            text_cloud(9),
            "holds 9 points, expected at least 16; train with --points 9 or fewer",
        ),
        ("airplane/airplane_0001.txt", text_cloud(30) + "nan,0,0,0,0,1\n", "1 of 31 points with a NaN"),
        (
            "airplane/airplane_0003.txt",
            text_cloud(30) + "0.1,0.",
            "line 31: 2 columns in '0.1,0.', expected 6 as in line 1; the file is cut short",
        ),
        ("airplane/airplane_0003.txt", "", "the file is empty"),
    ],
)
def test_bad_text_layout(text: Path, file: str, content: str | None, sentence: str) -> None:
    if content is None:
        (text / file).unlink()
    else:
        (text / file).write_text(content)
    message = error_of(text)
    assert message.startswith(f"{text / file}: ")
    assert sentence in message


def test_text_class_in_one_split_only(text: Path) -> None:
    (text / "modelnet40_train.txt").write_text("airplane_0001\n")
    assert error_of(text).startswith(f"{text}: class 'flower_pot' has no cloud in the train split")


# OFF meshes


def write_meshes(folder: Path, classes: tuple[str, ...]) -> Path:
    for name in classes:
        write(folder / name / "train" / f"{name}_0001.off", TRIANGLE)
        write(
            folder / name / "train" / f"{name}_0002.OFF",
            TRIANGLE.replace("OFF", "OFF\n").replace("0 1 0\n3", "0 4 0\n3"),
        )
        write(folder / name / "test" / f"{name}_0003.off", TRIANGLE.replace("0 0 0\n1", "0 0 0\n2"))
        write(folder / name / "test" / ".DS_Store", "x")
    return folder


def test_meshes(tmp_path: Path) -> None:
    write(write_meshes(tmp_path / "ModelNet40", CLASSES) / "README.txt", "hello")
    data = open_dataset(str(tmp_path / "ModelNet40"), 16)
    assert data.classes == CLASSES
    assert data.train.points.shape == (4, 32, 3)
    assert data.test.points.shape == (2, 32, 3)
    assert data.train.labels.tolist() == [0, 0, 1, 1]
    assert not data.train.points[..., 2].any()
    assert 1 < data.train.points[1, :, 1].max() < 4
    assert not np.array_equal(data.train.points[0], data.train.points[2])  # each file has its own draw
    assert same(data, modelnet.modelnet(tmp_path / "ModelNet40", 16, seed=0))
    assert not same(data, modelnet.modelnet(tmp_path / "ModelNet40", 16, seed=1))


@pytest.mark.parametrize(("count", "name"), [(10, "modelnet10"), (40, "modelnet40"), (3, "modelnet")])
def test_name_by_number_of_classes(tmp_path: Path, count: int, name: str) -> None:
    folder = write_meshes(tmp_path / "data", tuple(f"class{index:02}" for index in range(count)))
    assert open_dataset(str(folder), 4).name == name


@pytest.mark.parametrize("own", ["airplane/train/mine.off", "airplane/test/airplane_0009.ply", "airplane/val/a_1.off"])
def test_meshes_with_other_names_are_not_modelnet(tmp_path: Path, own: str) -> None:
    """A file of another format was ignored, and somebody's own meshes were named ModelNet."""
    folder = write_meshes(tmp_path / "data", CLASSES)
    count = len(open_dataset(str(folder), 4).train) + len(open_dataset(str(folder), 4).test)
    write(folder / own, TRIANGLE if own.endswith(".off") else PLY)
    data = open_dataset(str(folder), 4)
    assert data.name == ("modelnet" if "val" in own else "folder")
    assert len(data.train) + len(data.test) == count + ("val" not in own)
    assert data.summary is not None
    assert len(data.summary.notes) == ("val" in own)


def test_unreadable_mesh(tmp_path: Path) -> None:
    folder = write_meshes(tmp_path / "ModelNet40", CLASSES)
    bad = write(folder / "airplane" / "train" / "airplane_0001.off", TRIANGLE[:20])
    assert (
        error_of(folder) == f"{bad}: the file is cut short after 2 vertices, expected 3; copy it again from its source"
    )
    write(bad, "hello")
    assert error_of(folder).startswith(f"{bad}: a file that begins with 'hello', expected OFF")


@pytest.mark.parametrize("split", ["train", "test"])
def test_mesh_class_in_one_split_only(tmp_path: Path, split: str) -> None:
    folder = write_meshes(tmp_path / "ModelNet40", CLASSES)
    for file in (folder / "airplane" / split).glob("*.*"):
        file.unlink()
    assert error_of(folder).startswith(f"{folder}: class 'airplane' has no cloud in the {split} split")


def test_no_layout(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a ModelNet folder; expected train_files\.txt"):
        modelnet.modelnet(tmp_path, 16)


def test_missing_h5py(hdf5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "pip install h5py (extra 'train')" in error_of(hdf5)


def test_a_list_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "train_files.txt").write_text("a.h5\n", encoding="utf-8-sig")
    assert published.lines(tmp_path / "train_files.txt") == ["a.h5"]
