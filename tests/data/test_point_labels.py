"""point_labels.py: finds labels wherever they are."""

import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bipointnet.data import point_labels
from bipointnet.data.clouds import Cloud, read
from bipointnet.data.point_labels import FIELDS, label_files, parallel_file, read_codes
from bipointnet.errors import UserError

laspy: Any = importlib.import_module("laspy")  # its types differ from its documentation

CODES = [0, 13, 5, 5, 65535]
XYZ = np.arange(15, dtype=np.float32).reshape(5, 3)


def cloud_of(**fields: Any) -> Cloud:
    return Cloud(XYZ, fields={name: np.array(values, np.float64) for name, values in fields.items()})


def write(path: Path, content: str | bytes | np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def npy(array: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def cloud_in(path: Path) -> Path:
    return write(path, "".join(f"{x} {y} {z}\n" for x, y, z in XYZ.tolist()))


def error_of(file: Path, cloud: Cloud | None = None, name: str | None = None) -> str:
    with pytest.raises(UserError) as caught:
        read_codes(file, cloud or cloud_of(), name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("; ") >= 1  # found, expected; remedy
    return str(caught.value)


# Fields


@pytest.mark.parametrize("name", [*FIELDS, "scalar_label", "CLASSIFICATION", "Sem_Class"])
def test_fields_that_hold_labels(tmp_path: Path, name: str) -> None:
    cloud = cloud_of(intensity=[1.5] * 5, **{name: CODES})
    found = read_codes(tmp_path / "a.ply", cloud)
    assert found.dtype == np.int64
    assert found.tolist() == CODES
    write(tmp_path / "a.labels", "9\n" * 5)
    with pytest.raises(UserError, match=r"has labels in the column .* and in .*a.labels; expected one of the two"):
        read_codes(tmp_path / "a.ply", cloud)
    assert read_codes(tmp_path / "a.ply", cloud, name).tolist() == CODES


def test_a_file_with_labels_replaces_a_classification_that_was_never_made(tmp_path: Path) -> None:
    write(tmp_path / "a.labels", "9\n" * 5)
    assert read_codes(tmp_path / "a.las", cloud_of(classification=[0, 1, 0, 0, 1])).tolist() == [9] * 5


def test_the_first_of_several_fields() -> None:
    fields = {name: [index] * 5 for index, name in reversed(list(enumerate(FIELDS)))}
    for index, name in enumerate(FIELDS):
        assert read_codes(Path("a.ply"), cloud_of(**fields)).tolist() == [index] * 5
        del fields[name]


def test_a_field_by_its_name() -> None:
    cloud = cloud_of(label=[1] * 5, Truth=CODES, truth=[2] * 5)
    assert read_codes(Path("a.ply"), cloud, "Truth").tolist() == CODES
    assert read_codes(Path("a.ply"), cloud, "truth").tolist() == [2] * 5
    assert read_codes(Path("a.ply"), cloud, "TRUTH").tolist() == CODES


def test_a_name_that_is_no_field(tmp_path: Path) -> None:
    write(tmp_path / "a.labels", "9\n" * 5)
    sentence = error_of(tmp_path / "a.ply", cloud_of(label=CODES, nx=CODES), "truth")
    assert sentence == f"{tmp_path}/a.ply: has no field 'truth'; expected one of label, nx; name one of these"
    assert "expected one of (none)" in error_of(tmp_path / "a.ply", None, "truth")


@pytest.mark.parametrize(
    ("bad", "word"), [(np.nan, "nan"), (-1, "-1"), (2.5, "2.5"), (65536, "65536"), (np.inf, "inf"), (-np.inf, "-inf")]
)
def test_values_that_are_no_labels(tmp_path: Path, bad: float, word: str) -> None:
    expected = f"has the label {word} for point 1 (counted from 0), expected whole numbers from 0 to 65535; "
    assert f"a.ply: the field 'label': {expected}" in error_of(tmp_path / "a.ply", cloud_of(label=[0, bad, 0, 0, 0]))
    write(tmp_path / "a.npy", np.array([0, bad, 0, bad, 0]))
    assert f"a.npy: {expected}" in error_of(tmp_path / "a.ply")
    write(tmp_path / "b.labels", f"0\n{bad}\n0\n0\n0\n")
    assert f"b.labels: {expected}" in error_of(tmp_path / "b.ply")


@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_the_classification_of_las(tmp_path: Path, suffix: str) -> None:
    las = laspy.create(point_format=6, file_version="1.4")
    las.x, las.y, las.z = XYZ.T
    las.classification = [0, 13, 5, 5, 255]
    las.write(tmp_path / f"a.{suffix}")
    path = tmp_path / f"a.{suffix}"
    assert read_codes(path, read(path)).tolist() == [0, 13, 5, 5, 255]


# Parallel files

TEXT = "\n".join(map(str, CODES))
PARALLEL = {
    "a.labels": TEXT,
    "a.label": (np.array(CODES, "<u4") | np.uint32(7 << 16)).tobytes(),
    "a.npy": npy(np.array(CODES)),
    "a_labels.npy": npy(np.array(CODES, np.float64)),
    "a.labels.npy": npy(np.array(CODES)[:, None]),
    "a.seg": "".join(f"{code}.000000\r\n" for code in CODES) + "\n",
    "../labels/a.npy": npy(np.array(CODES, ">i4")),
    "../labels/a.label": np.array(CODES, "<u4").tobytes(),
    "../labels/a.labels": TEXT + "\n",
    "../labels/a.seg": TEXT,
    "../labels/a.txt": TEXT,
}


@pytest.mark.parametrize("name", PARALLEL)
def test_parallel_files(tmp_path: Path, name: str) -> None:
    file = cloud_in(tmp_path / "points" / "a.xyz")
    labels = write(tmp_path / "points" / name, PARALLEL[name])
    found = parallel_file(file)
    assert found is not None
    assert found.samefile(labels)
    codes = read_codes(file, read(file))
    assert codes.dtype == np.int64
    assert codes.tolist() == CODES
    assert label_files([file, found, tmp_path / "points" / "b.seg"]) == {found}


def test_the_first_of_several_parallel_files(tmp_path: Path) -> None:
    file = cloud_in(tmp_path / "points" / "a.xyz")
    for name in reversed(PARALLEL):
        written = write(tmp_path / "points" / name, PARALLEL[name])
        found = parallel_file(file)
        assert found is not None
        assert found.samefile(written)
    beside = sorted(path for path in (tmp_path / "points").iterdir() if path != file)
    assert label_files([file, *beside]) == set(beside)


def test_only_an_unclassified_las_file_gives_way_to_a_parallel_file(tmp_path: Path) -> None:
    """Zeros and ones in another column are labels, and then there are two kinds of them."""
    cloud = Cloud(XYZ, fields={"classification": np.array([0.0, 1, 1, 0, 0])})
    write(tmp_path / "a.npy", np.array(CODES))
    assert read_codes(tmp_path / "a.las", cloud).tolist() == CODES
    with pytest.raises(UserError, match=r"has labels in the column classification and in .*a\.npy"):
        read_codes(tmp_path / "a.ply", cloud)
    cloud = Cloud(XYZ, fields={"label": cloud.fields["classification"]})
    with pytest.raises(UserError, match="has labels in the column label and in"):
        read_codes(tmp_path / "a.las", cloud)


def test_semantic_kitti(tmp_path: Path) -> None:
    scan = np.hstack([XYZ, np.full((5, 1), 0.5, np.float32)]).astype("<f4")
    file = write(tmp_path / "00" / "velodyne" / "000000.bin", scan.tobytes())
    write(tmp_path / "00" / "labels" / "000000.label", np.array([10, 252 | 3 << 16, 0, 1, 40], "<u4").tobytes())
    assert read_codes(file, read(file)).tolist() == [10, 252, 0, 1, 40]


@pytest.mark.parametrize("name", PARALLEL)
def test_points_that_were_left_out(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / "points" / "a.xyz", "0 0 0\nnan 0 0\n1 0 0\ninf 1 1\n0 1 0\n")
    write(tmp_path / "points" / name, PARALLEL[name])
    assert read_codes(file, read(file)).tolist() == [CODES[0], CODES[2], CODES[4]]


def test_a_cloud_in_npy_is_not_its_own_label(tmp_path: Path) -> None:
    file = write(tmp_path / "a.npy", XYZ)
    assert parallel_file(file) is None
    assert label_files([file]) == set()
    write(tmp_path / "labels" / "b.npy", np.array(CODES))
    assert parallel_file(tmp_path / "labels" / "b.npy") is None
    labels = write(tmp_path / "a_labels.npy", np.array(CODES, np.uint16))
    assert read_codes(file, read(file)).tolist() == CODES
    assert label_files([file, labels]) == {labels}


def test_the_same_cloud_in_another_format_is_no_label(tmp_path: Path) -> None:
    file, same = cloud_in(tmp_path / "a.xyz"), write(tmp_path / "a.npy", XYZ)
    assert parallel_file(file) is None
    assert label_files([file, same]) == set()
    seg = write(tmp_path / "a.seg", TEXT)
    assert label_files([file, same, seg]) == {seg}


def test_a_file_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud_in(tmp_path / "points" / "a.xyz")
    labels = write(tmp_path / "labels" / "a.txt", TEXT)
    monkeypatch.chdir(tmp_path / "points")
    for path in (Path("a.xyz"), Path("../points/a.xyz"), Path("./a.xyz")):
        found = parallel_file(path)
        assert found is not None
        assert found.samefile(labels)


def test_no_labels(tmp_path: Path) -> None:
    sentence = error_of(tmp_path / "a.ply", cloud_of(nx=CODES))
    for word in ("its fields are nx", "classification, label", "a.labels, a.label, a.npy", "folder 'labels'"):
        assert word in sentence
    (tmp_path / "a.labels").mkdir()
    assert "no labels found" in error_of(tmp_path / "a.ply")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.labels", TEXT + "\n1\n", "holds 6 labels, expected 5, one per point of "),
        ("a.labels", "", "holds 0 labels, expected 5"),
        ("a.labels", "1\n\n2 3\n4\n5\n", "line 3 is '2 3', expected one number per line"),
        ("a.labels", "ground\n" * 5, "line 1 is 'ground', expected one number per line"),
        ("a.labels", "1\n" * 4 + "9" * 400, "has the label inf for point 4"),
        ("a.labels", b"\xff\xfe" * 20, "cannot be read as labels ("),
        ("a.labels", b"\0" * 20, "expected one number per line"),
        ("a.label", b"\0" * 19, "cannot be read as labels (buffer size must be a multiple"),
        ("a.label", b"\0" * 16, "holds 4 labels, expected 5"),
        ("a.npy", b"", "cannot be read as labels ("),
        ("a.npy", npy(np.array(CODES))[:-1], "cannot be read as labels ("),
        ("a.npy", npy(np.array(CODES))[:40], "cannot be read as labels ("),
        ("a.npy", b"\x93NUMPY" + bytes(range(100)), "cannot be read as labels ("),
        ("a.npy", npy(np.array(CODES)).replace(b"(5,), }      ", b"(5000000000,)"), "cannot be read as labels ("),
        ("a.npy", npy(np.array(CODES)).replace(b"(5,), }  ", b"(9**99,)}"), "cannot be read as labels ("),
        ("a.npy", npy(np.array(CODES + CODES)), "holds 10 labels, expected 5"),
        (
            "a.npy",
            npy(np.zeros((5, 1), "S3")),
            "holds |S3 values of shape (5, 1), expected integers of shape (points,)",
        ),
        ("a.npy", npy(np.zeros(5, bool)), "holds bool values of shape (5,)"),
        ("a.npy", npy(np.zeros(5, complex)), "holds complex128 values"),
        ("a.npy", npy(np.array(5)), "holds int64 values of shape ()"),
        ("a_labels.npy", npy(XYZ), "holds float32 values of shape (5, 3)"),
        ("a.seg", "1;2;3;4;5", "line 1 is '1;2;3;4;5'"),
    ],
)
def test_hostile_label_files(tmp_path: Path, name: str, content: str | bytes, sentence: str) -> None:
    path = write(tmp_path / name, content)
    message = error_of(tmp_path / "a.ply")
    assert message.startswith(f"{path}: ")
    assert sentence in message


def test_objects_and_archives_are_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}] * 5), allow_pickle=True)
    assert "cannot be read as labels" in error_of(tmp_path / "a.ply")
    np.savez(tmp_path / "b.npz", np.array(CODES))
    (tmp_path / "b.npz").rename(tmp_path / "b.npy")
    assert "(an archive)" in error_of(tmp_path / "b.ply")


def test_long_text_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_labels, "_TEXT_AT_ONCE", 4)
    file = cloud_in(tmp_path / "a.xyz")
    write(tmp_path / "a.labels", TEXT)
    assert read_codes(file, read(file)).tolist() == CODES
    write(tmp_path / "a.labels", "1\n\n2\n3\nx\n5\n")
    assert "line 5 is 'x'" in error_of(file)


def test_text_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = cloud_in(tmp_path / "a.xyz")
    write(tmp_path / "a.labels", TEXT.encode("utf-8-sig"))
    assert read_codes(file, read(file)).tolist() == CODES


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([".label", ".labels", ".npy", ".seg"]), st.binary(max_size=200), st.booleans())
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes, lead: bool) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes((npy(np.array(CODES))[:64] if lead else b"") + content)
    try:
        codes = point_labels.read_label_file(path, Path("any.ply"), 5)
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert codes.shape == (5,)
        assert codes.min() >= 0
        assert codes.max() <= 65535
