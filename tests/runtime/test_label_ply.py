"""PLY tiles in parts: the numbers of `clouds.read`, the labels of `bipointnet.label`, and copies that keep all else."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tile_models import CLASSES, draw_points, hash_model

import bipointnet
from bipointnet.data import ply_parts
from bipointnet.data.blocks import BlockLayout
from bipointnet.data.clouds import read
from bipointnet.data.ply_header import read_header
from bipointnet.data.ply_parts import open_ply
from bipointnet.errors import UserError
from bipointnet.runtime.label_large import is_tile, label_tile

FORMATS = {"<": "binary_little_endian", ">": "binary_big_endian"}
TYPES = {"f4": "float", "f8": "double", "u1": "uchar", "u2": "uint16", "i4": "int", "i2": "short"}
LAYOUT = BlockLayout(2.0, ("x", "y", "height", "red", "green", "blue"), {})


def draw_columns(rng: np.random.Generator, side: float) -> dict[str, np.ndarray]:
    """The columns of a tile: coordinates, colors of one of several kinds, and others."""
    real = str(rng.choice(["f4", "f8"]))
    xyz = draw_points(rng, side) + (np.array([500_000, 5_400_000, 300]) if real == "f8" and rng.random() < 0.5 else 0)
    count = len(xyz)
    kind = str(rng.choice(["u1", "u2", "f4"]))
    most = 256 if kind == "u1" else 65536
    colors = rng.random((count, 3)) if kind == "f4" else rng.integers(0, most, (count, 3))
    if kind != "f4" and rng.random() < 0.5:
        colors = np.minimum(colors, 255)
        colors[rng.integers(count), 2] = rng.choice([255, most - 1])  # one point decides the scale of all
    columns = {name: xyz[:, axis].astype(real) for axis, name in enumerate("xyz")}
    columns |= {name: colors[:, axis].astype(kind) for axis, name in enumerate(("red", "green", "blue"))}
    columns |= {"echo": rng.normal(size=count).astype("f4"), "label": rng.integers(0, 9, count).astype("i2")}
    if rng.random() < 0.4 and count > 2:
        columns["y"][1 + rng.integers(count - 1, size=1 + count // 50)] = np.nan
    names = list(columns)
    if rng.random() < 0.5:
        names.remove("label")
    return {str(name): columns[name] for name in rng.permutation(names)}


def ply_bytes(order: str, columns: dict[str, np.ndarray], rng: np.random.Generator, end: str = "\n") -> bytes:
    """A PLY file with an element in front of the vertices, and one with lists behind them."""
    count = len(columns["x"])
    head = ["ply", f"format {FORMATS[order]} 1.0", "comment label 7 is old", "element camera 2", "property double tilt"]
    head += [f"element vertex {count}", "comment of the vertices"]
    head += [f"property {TYPES[values.dtype.str[1:]]} {name}" for name, values in columns.items()]
    lists = rng.integers(0, 99, (5, 3))
    head += [f"element cell {len(lists)}", "property list uchar int corners", "end_header", ""]
    header = end.join(head).encode()
    rows = np.empty(count, [(name, order + values.dtype.str[1:]) for name, values in columns.items()])
    for name, values in columns.items():
        rows[name] = values
    body = np.array([1.5, -2], order + "f8").tobytes() + rows.tobytes()
    return header + body + b"".join(b"\x03" + own.astype(order + "i4").tobytes() for own in lists)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ply_parts, "_SURVEYED", 100)


@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize("seeds", range(4))
def test_labels_are_those_of_the_whole_tile_and_all_else_is_kept(
    order: str, seeds: int, tmp_path: Path, small_parts: None
) -> None:
    for seed in range(8 * seeds, 8 * seeds + 8):
        rng = np.random.default_rng(seed)
        columns = draw_columns(rng, 2.0)
        source = tmp_path / "a.ply"
        source.write_bytes(ply_bytes(order, columns, rng, "\r\n" if seed % 2 else "\n"))
        whole = read(source)
        model = hash_model(LAYOUT, int(rng.choice([8, 64])))
        expected = bipointnet.label(model, whole)
        memory = int(rng.choice([1, 20_000, 1 << 30]))
        counts = label_tile(model, source, tmp_path / "b.ply", memory=memory).counts
        np.testing.assert_array_equal(counts, np.bincount(expected, minlength=CLASSES))
        check_copy(source, tmp_path / "b.ply", expected, model.classes)
        again = (tmp_path / "b.ply").read_bytes()
        label_tile(model, tmp_path / "b.ply", tmp_path / "b.ply", memory=memory)
        assert (tmp_path / "b.ply").read_bytes() == again
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ply", "b.ply"]


def check_copy(source: Path, copy: Path, expected: np.ndarray, classes: Any) -> None:
    """All columns and faces are those of the source, the labels are the expected ones, or -1 for dropped points."""
    whole, labeled = read(source), read(copy)
    np.testing.assert_array_equal(labeled.fields["label"], expected)
    np.testing.assert_array_equal(labeled.points, whole.points)
    assert (labeled.origin, labeled.dropped, labeled.color_scale) == (whole.origin, whole.dropped, whole.color_scale)
    np.testing.assert_array_equal(labeled.fields["echo"], whole.fields["echo"])
    np.testing.assert_array_equal(labeled.colors, whole.colors)
    assert copy.read_bytes()[-40:] == source.read_bytes()[-40:], "what follows the vertices"
    assert [name for name in labeled.columns if name != "label"] == [name for name in whole.columns if name != "label"]
    header = copy.read_bytes().partition(b"end_header")[0].splitlines()
    comments = [line.decode() for line in header if line.startswith(b"comment label")]
    assert comments == [f"comment label {number} is {name}" for number, name in enumerate(classes)]
    assert b"comment of the vertices" in header
    if labeled.kept is not None:
        assert (np.delete(labels_of_all(copy), labeled.kept) == -1).all()


def labels_of_all(copy: Path) -> np.ndarray:
    """The labels of all vertices, also of those without finite coordinates."""
    with open(copy, "rb") as file:
        header = read_header(file)
    assert header is not None
    last = str(len(header.vertices.properties) - 1)
    return np.frombuffer(copy.read_bytes(), header.row, header.vertices.count, header.vertices_at)[last]


@pytest.mark.parametrize("order", FORMATS)
def test_parts_have_the_numbers_of_the_whole_file(order: str, tmp_path: Path, small_parts: None) -> None:
    source = tmp_path / "a.ply"
    for seed in range(100, 120):
        rng = np.random.default_rng(seed)
        source.write_bytes(ply_bytes(order, draw_columns(rng, 20.0), rng))
        whole, done = read(source), 0
        kept = np.arange(len(whole.points)) if whole.kept is None else whole.kept
        with open_ply(source) as parts:
            assert parts is not None
            extremes = parts.extremes()
            for rows in parts.read(300):
                part = parts.cloud(np.concatenate([extremes, rows]))
                assert (part.origin, part.color_scale) == (whole.origin, whole.color_scale)
                mine = (kept >= done) & (kept < done + len(rows))
                np.testing.assert_array_equal(part.points[len(extremes) :], whole.points[mine])
                assert (part.colors is None) == (whole.colors is None)
                if part.colors is not None and whole.colors is not None:
                    np.testing.assert_array_equal(part.colors[len(extremes) :], whole.colors[mine])
                done += len(rows)
        assert done == len(whole.points) + whole.dropped


HEAD = "ply\nformat {} 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n{}end_header\n"
BINARY = HEAD.format("binary_little_endian", "")
POINTS = np.arange(9, dtype="<f4").tobytes()
PLAIN = BlockLayout(2.0, ("x", "y", "z"), {})


def refused(source: Path, target: Path | None = None) -> str:
    with pytest.raises(UserError) as caught:
        label_tile(hash_model(PLAIN, 8), source, target or source.with_name("b.ply"))
    assert sorted(path.name for path in source.parent.iterdir()) == [source.name]
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{source}: ")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (BINARY.encode() + bytes(30), "holds 2 points, expected 3 as in its header"),
        (BINARY.encode() + np.full(9, np.nan, "<f4").tobytes(), "holds no point with finite coordinates"),
        (BINARY.replace("vertex 3", "vertex 0").encode(), "holds 0 points, expected at least 1"),
        (BINARY.replace("float x", "float a").encode() + POINTS, "columns 'a', 'y', 'z', expected x, y and z"),
        (HEAD.format("ascii", "").encode() + b"0 0 0\n" * 3, "cannot be read in parts"),
    ],
)
def test_tiles_that_are_refused_get_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_bytes(content)
    assert sentence in refused(tmp_path / "a.ply")


@pytest.mark.parametrize(
    "header",
    [
        BINARY.replace("element vertex 3", "element vertex 3\nproperty list uchar int n"),
        BINARY.replace("element vertex 3", "element cell 1\nproperty list uchar int n\nelement vertex 3"),
        BINARY.replace("float x", "list float"),
        BINARY.replace("float x", "half x"),
        BINARY.replace("element vertex 3", "property float q\nelement vertex 3"),
        BINARY.replace("end_header", "end_header\r\r"),
        BINARY.replace("property float y", "comment a\rproperty float y"),
        BINARY.replace("format binary_little_endian 1.0\n", "").replace("end_h", "format ascii 1.0\nend_h"),
        BINARY.replace("1.0", "1.1"),
        BINARY.replace("element vertex 3", "element vertex -3"),
        BINARY.replace("element vertex 3", "element vertex 3 3"),
        BINARY.replace(
            "property float x\n", "".join(f"property uchar c{n}\n" for n in range(120)) + "property float x\n"
        ),
        BINARY.replace("ply\n", "plyx\n"),
        BINARY.replace("end_header\n", "element vertex 2\nend_header\n"),
        BINARY.replace("end_header\n", "x" * 200_000),
        "",
    ],
)
def test_other_headers_are_left_to_the_core(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_bytes(header.encode() + POINTS + bytes(500))
    assert not is_tile(tmp_path / "a.ply")


def test_cut_and_changed_headers_never_crash(tmp_path: Path) -> None:
    """They are refused, or read as the core reads them."""
    source, rng = tmp_path / "a.ply", np.random.default_rng(0)
    whole = ply_bytes("<", draw_columns(np.random.default_rng(3), 2.0), rng)
    end = whole.index(b"end_header") + 11
    words = whole[:end].split(b" ")
    for cut in range(0, end, 7):
        source.write_bytes(whole[:cut])
        assert not is_tile(source)
    for _ in range(300):
        data = bytearray(whole[: end + 5000])
        if rng.random() < 0.5:
            data[int(rng.integers(end))] = int(rng.integers(256))
        else:  # swap two words
            own, (a, b) = list(words), rng.integers(len(words), size=2)
            own[a], own[b] = own[b], own[a]
            data[:end] = b" ".join(own)
        source.write_bytes(data)
        try:
            label_tile(hash_model(LAYOUT, 8), source, tmp_path / "b.ply")
        except UserError:
            assert not (tmp_path / "b.ply").exists()
        else:
            with suppress(UserError):  # of what follows the vertices, which is copied as it is
                expected = read(tmp_path / "a.ply").points
                np.testing.assert_array_equal(read(tmp_path / "b.ply").points, expected)
            (tmp_path / "b.ply").unlink()


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_bytes(BINARY.encode() + POINTS)
    target = tmp_path / ("b" * 300 + ".ply")
    with pytest.raises(OSError, match="File name too long") as caught:
        label_tile(hash_model(PLAIN, 8), tmp_path / "a.ply", target)
    assert caught.value.filename == str(target)


def test_a_tile_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "a.ply"
    source.write_bytes(BINARY.encode() + POINTS)
    extremes = ply_parts.PlyParts.extremes

    def change(parts: ply_parts.PlyParts) -> np.ndarray:
        found = extremes(parts)
        source.write_bytes(BINARY.encode() + (5 * np.arange(9, dtype="<f4")).tobytes())
        return found

    monkeypatch.setattr(ply_parts.PlyParts, "extremes", change)
    assert "changed while it was read; label it again" in refused(source)


def test_wide_points_are_surveyed_in_smaller_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a part is bounded, whatever the size of a point."""
    sizes: list[int] = []
    head = BINARY.replace("end_header", "".join(f"property double c{n}\n" for n in range(90)) + "end_header")
    (tmp_path / "a.ply").write_bytes(head.replace("vertex 3", "vertex 9000").encode() + bytes(9000 * 732))
    monkeypatch.setattr(ply_parts, "_SURVEYED_BYTES", 1_000_000)
    read_part = ply_parts.PlyParts.read
    monkeypatch.setattr(ply_parts.PlyParts, "read", lambda parts, most: (sizes.append(most), read_part(parts, most))[1])
    with open_ply(tmp_path / "a.ply") as parts:
        assert parts is not None
        parts.extremes()
    assert max(sizes) * (732 + 16 * 93) <= 1_000_000


@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("x", 4.0),  # the lowest
        ("x", 5_000_000.0),  # the highest
        ("x", 2_000_005.03125),  # the only one that float32 rounds
        ("red", 255.0),  # brighter than 1: colors are divided by 255
        ("red", 0.5),  # not whole
        ("red", -3.0),  # not a color
        ("red", np.nan),
        ("red", np.inf),
    ],
)
def test_one_point_at_the_end_decides_how_all_are_read(
    order: str, column: str, value: float, tmp_path: Path, small_parts: None
) -> None:
    columns = {name: 2_000_000.125 + np.arange(500.0) % 13 for name in "xyz"}
    columns |= {name: np.arange(500.0) % (200 if value == 0.5 else 2) for name in ("red", "green", "blue")}
    columns[column][-1] = value
    (tmp_path / "a.ply").write_bytes(ply_bytes(order, columns, np.random.default_rng(0)))
    whole = read(tmp_path / "a.ply")
    with open_ply(tmp_path / "a.ply") as parts:
        assert parts is not None
        extremes = parts.extremes()
        part = parts.cloud(np.concatenate([extremes, next(parts.read(50))]))
    assert (part.origin, part.color_scale) == (whole.origin, whole.color_scale)
    np.testing.assert_array_equal(part.points[len(extremes) :], whole.points[:50])
