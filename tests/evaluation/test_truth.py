"""True labels are read from every kind of file; wrong ones get one sentence."""

from pathlib import Path

import numpy as np
import pytest
from scan_data import Tile, write_tile

from bipointnet.data.clouds import Cloud, read
from bipointnet.errors import UserError
from bipointnet.evaluation.predictor import Predictor, open_model
from bipointnet.evaluation.truth import read_truth

GOLDEN = Path(__file__).parents[1] / "golden"
CLOUD = Cloud(np.zeros((3, 3), np.float32))


@pytest.fixture(scope="module")
def parts() -> Predictor:
    return open_model(GOLDEN / "shapes-parts.bpn")


@pytest.fixture(scope="module")
def category(parts: Predictor) -> int:
    """A category whose points can have the classes `own`."""
    return next(i for i in range(len(parts.categories)) if len(parts.accepted(i)) >= 3)


def test_labels_are_read_from_npy_and_text(parts: Predictor, category: int, tmp_path: Path):
    labels = parts.accepted(category)[[2, 0, 1]]
    np.save(tmp_path / "a.npy", labels.astype(np.uint8))
    np.save(tmp_path / "float.npy", labels.astype(np.float64)[:, None])
    np.savetxt(tmp_path / "a.txt", labels, fmt="%d")
    np.savetxt(tmp_path / "shapenet.txt", labels, fmt="%.6f")
    labels.astype("<u4").tofile(tmp_path / "a.label")
    for name in ("a.npy", "float.npy", "a.txt", "shapenet.txt", "a.label"):
        found = read_truth(tmp_path / name, CLOUD, Path("mug.ply"), parts, category)
        assert found.dtype == np.int64
        assert np.array_equal(found, labels)


def test_labels_are_read_from_a_column_of_a_cloud(tmp_path: Path):
    rooms = open_model(GOLDEN / "rooms-semantic.bpn")
    tile = Tile(0, 50)
    tile.codes = np.arange(50) % 13
    expected = Cloud(tile.points.astype(np.float32))
    for name in ("a.ply", "a.las"):
        file = write_tile(tmp_path / name, tile)
        assert np.array_equal(read_truth(file, expected, file, rooms, None), tile.codes)
    other = Cloud(np.zeros((49, 3), np.float32))
    with pytest.raises(UserError, match=r"a.las: holds 50 points, expected 49 as in b.las; name the file"):
        read_truth(tmp_path / "a.las", other, Path("b.las"), rooms, None)


ROWS = [f"{x} {y} 0.5 {code}" for x, y, code in [(0, 1, 3), (2, 0, 0), (4, 5, 12)]]


@pytest.mark.parametrize(
    "lines",
    [
        ["x y z label", *ROWS],
        ["x;y;z;label", *(row.replace(" ", ";") for row in ROWS)],
        ["x,y,z,label", *(row.replace(" ", ",") for row in ROWS)],
        ["# exported", "x y z label", *ROWS],
        ["# exported", "", "// by a program", "% of ours", "# x y z label", *ROWS],
        ["\ufeff# exported", "x y z label", *ROWS],
        ["3", "x y z label", *ROWS],
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_labels_are_read_from_a_column_of_text(tmp_path: Path, lines: list[str], end: str):
    rooms = open_model(GOLDEN / "rooms-semantic.bpn")
    file = tmp_path / "s.txt"
    file.write_bytes(end.join([*lines, ""]).encode())
    assert read_truth(file, read(file), file, rooms, None).tolist() == [3, 0, 12]


@pytest.mark.parametrize("suffix", [".txt", ".npy"])
def test_columns_without_names_need_a_header(tmp_path: Path, suffix: str):
    rooms = open_model(GOLDEN / "rooms-semantic.bpn")
    file = tmp_path / f"s{suffix}"
    rows = np.array([row.split() for row in ROWS], float)
    if suffix == ".npy":
        np.save(file, rows)
    else:
        np.savetxt(file, rows)
    with pytest.raises(UserError, match=r"; write one label per point, or a header such as x y z label$"):
        read_truth(file, read(file), file, rooms, None)


def test_a_comment_need_not_be_utf_8(tmp_path: Path):
    rooms = open_model(GOLDEN / "rooms-semantic.bpn")
    file = tmp_path / "s.txt"
    file.write_bytes("\n".join(["# Höhe", "x y z label", *ROWS, ""]).encode("latin-1"))
    assert read_truth(file, read(file), file, rooms, None).tolist() == [3, 0, 12]


def test_labels_are_read_from_a_field_of_records(tmp_path: Path):
    rooms = open_model(GOLDEN / "rooms-semantic.bpn")
    rows = [tuple(map(float, row.split())) for row in ROWS]
    records = np.array(rows, [("x", "f8"), ("y", "f8"), ("z", "f8"), ("label", "i4")])
    np.save(tmp_path / "s.npy", records)
    np.savez(tmp_path / "t.npz", records)
    for file in (tmp_path / "s.npy", tmp_path / "t.npz"):
        assert read_truth(file, read(file), file, rooms, None).tolist() == [3, 0, 12]


def test_text_with_one_number_per_line_has_no_columns(tmp_path: Path):
    """Also if its first line could be the number of points."""
    rooms = open_model(GOLDEN / "rooms-semantic.bpn")
    for text in ("3\n0\n12\n", "3\r\n0\r\n12", "\n 3.000\n\n0.0\n12\n"):
        (tmp_path / "s.txt").write_bytes(text.encode())
        assert read_truth(tmp_path / "s.txt", CLOUD, Path("s.las"), rooms, None).tolist() == [3, 0, 12]
    (tmp_path / "s.txt").write_text("# exported\n3\n0\n12\n")
    with pytest.raises(UserError, match=r"line 1 is '# exported', expected one number per line"):
        read_truth(tmp_path / "s.txt", CLOUD, Path("s.las"), rooms, None)


def test_points_that_were_left_out_need_labels_too(parts: Predictor, category: int, tmp_path: Path):
    """The file has five points, of which two have no coordinates."""
    labels = parts.accepted(category)[[0, 1, 2, 0, 1]]
    np.save(tmp_path / "a.npy", labels)
    cloud = Cloud(np.zeros((3, 3), np.float32), dropped=2, kept=np.array([0, 2, 4]))
    found = read_truth(tmp_path / "a.npy", cloud, Path("mug.ply"), parts, category)
    assert np.array_equal(found, labels[[0, 2, 4]])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (np.zeros(5, int), "holds 5 labels, expected 3, one per point of mug.ply"),
        (np.zeros((3, 2), int), r"holds int64 values of shape \(3, 2\), expected integers of shape \(points,\)"),
        (np.array([0, 1, 999]), r"point [012] \(counted from 0\) has label \d+; expected [\d ,to]+, the labels that"),
        (np.array([0, -1, 1]), "-1"),
        (np.array([0.0, 1.0, 0.5]), "0.5"),
        (np.array([0.0, 1.0, np.nan]), "nan"),
        (np.array(["a", "b", "c"]), "holds <U1 values"),
        (b"PK\x03\x04", "cannot be read as labels"),
        (b"no numpy", "cannot be read as labels"),
        (b"", "cannot be read as labels"),
        (None, "there is no such file; check the path of --truth"),
    ],
)
def test_wrong_labels_get_one_sentence(
    parts: Predictor, category: int, tmp_path: Path, content: np.ndarray | bytes | None, sentence: str
):
    path = tmp_path / "truth.npy"
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=sentence) as caught:
        read_truth(path, CLOUD, Path("mug.ply"), parts, category)
    assert "\n" not in str(caught.value)
