"""A copy of a LAS file differs in its classification only."""

import importlib
import io
import random
import resource
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from las_writer import COUNT, laspy, mutated, write_las

from bipointnet.data import las_files
from bipointnet.data.clouds import read
from bipointnet.data.las_files import write_classification
from bipointnet.data.las_units import declared_unit
from bipointnet.errors import UserError

lazrs: Any = importlib.import_module("lazrs")

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SIZES = (20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67)


def codes_of(point_format: int, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256 if point_format >= 6 else 32, count)


def points_of(path: Path) -> np.ndarray:
    """The bytes of the points (N, bytes), as laspy reads them."""
    las = laspy.read(path)
    return np.frombuffer(las.points.array.tobytes(), np.uint8).reshape(len(las.points), -1)


def records_of(path: Path) -> list[tuple]:
    """All records but that of the compression, in their order."""
    with laspy.open(path) as las:
        return [
            (
                record.user_id,
                record.record_id,
                record.description,
                # laspy cannot give the bytes of this one
                b"" if record.user_id == "copc" else record.record_data_bytes(),
            )
            for record in (*las.header.vlrs, *(las.header.evlrs or ()))
            if record.user_id != "laszip encoded"
        ]


def refused(source: Path, target: Path, codes: np.ndarray) -> str:
    with pytest.raises(UserError) as caught:
        write_classification(source, target, codes)
    assert "\n" not in str(caught.value)
    assert not list(target.parent.glob(".bipointnet-*"))
    return str(caught.value)


# The copy


@pytest.mark.parametrize("point_format", [0, 1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize(("before", "after"), [("las", "las"), ("las", "laz"), ("laz", "las"), ("laz", "laz")])
def test_a_copy_differs_in_the_classification_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point_format: int, before: str, after: str
) -> None:
    monkeypatch.setattr(las_files, "_AT_ONCE", 128)
    source = write_las(tmp_path / f"a.{before}", point_format)
    target = tmp_path / "new" / f"b.{after}"
    codes = codes_of(point_format)
    write_classification(source, target, codes)
    was, now = laspy.read(source), laspy.read(target)
    assert now.header.are_points_compressed == (after == "laz")
    for name in was.point_format.dimension_names:  # also the flags that share a byte with the classification
        np.testing.assert_array_equal(now[name], codes if name == "classification" else was[name])
    byte, mask = (16, 0) if point_format >= 6 else (15, 0xE0)
    expected = points_of(source).copy()
    expected[:, byte] = expected[:, byte] & mask | codes
    np.testing.assert_array_equal(points_of(target), expected)
    assert records_of(target) == records_of(source)
    same = ("scales", "offsets", "mins", "maxs", "number_of_points_by_return", "point_count", "uuid", "creation_date")
    for name in (*same, "system_identifier", "generating_software", "version"):
        assert np.array_equal(getattr(now.header, name), getattr(was.header, name)), name
    assert declared_unit(target) == "m"


@pytest.mark.parametrize("point_format", [0, 6, 9, 10])
def test_a_las_file_with_its_own_codes_is_copied_to_the_byte(tmp_path: Path, point_format: int) -> None:
    source = write_las(tmp_path / "a.las", point_format)
    write_classification(source, tmp_path / "b.las", np.array(laspy.read(source).classification))
    assert (tmp_path / "b.las").read_bytes() == source.read_bytes()


def test_the_classification_is_what_the_reader_of_clouds_finds(tmp_path: Path) -> None:
    las = laspy.create(point_format=3, file_version="1.2")
    las.x, las.y, las.z = np.random.default_rng(0).normal(size=(3, COUNT))
    las.write(tmp_path / "a.las")
    for name in ("b.las", "b.laz"):
        write_classification(tmp_path / "a.las", tmp_path / name, codes_of(3))
        np.testing.assert_array_equal(read(tmp_path / name).fields["classification"], codes_of(3))


@QUICK
@given(st.lists(st.integers(0, 31), min_size=COUNT, max_size=COUNT), st.sampled_from(["<i8", "<u1", ">i2", "<u4"]))
def test_codes_of_every_integer_type(tmp_path: Path, codes: list[int], dtype: str) -> None:
    source = tmp_path / "a.las"
    if not source.exists():
        write_las(source, 1)
    write_classification(source, tmp_path / "b.las", np.array(codes, dtype))
    np.testing.assert_array_equal(laspy.read(tmp_path / "b.las").classification, codes)


@pytest.mark.parametrize("name", ["a.las", "a.laz"])
def test_a_file_can_be_its_own_target(tmp_path: Path, name: str) -> None:
    source = write_las(tmp_path / name)
    write_classification(source, source, codes_of(6))
    np.testing.assert_array_equal(laspy.read(source).classification, codes_of(6))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("after", ["las", "laz"])
def test_no_points(tmp_path: Path, after: str) -> None:
    source = write_las(tmp_path / "a.las", count=0)
    write_classification(source, tmp_path / f"b.{after}", np.empty(0, np.int64))
    assert len(laspy.read(tmp_path / f"b.{after}").points) == 0


def test_a_copc_file_becomes_a_plain_one(tmp_path: Path) -> None:
    """The records of COPC, around points that are in chunks of one size: laspy cannot write COPC."""
    plain = write_las(tmp_path / "plain.laz")
    las = laspy.read(plain)
    las.vlrs.insert(0, laspy.VLR("copc", 1, "COPC info", bytes(160)))
    las.evlrs.append(laspy.VLR("copc", 1000, "EPT hierarchy", bytes(64)))
    las.write(tmp_path / "a.copc.laz")
    assert len(records_of(tmp_path / "a.copc.laz")) == len(records_of(plain)) + 2
    write_classification(tmp_path / "a.copc.laz", tmp_path / "b.laz", codes_of(6))
    assert records_of(tmp_path / "b.laz") == records_of(plain)
    np.testing.assert_array_equal(laspy.read(tmp_path / "b.laz").classification, codes_of(6))


def test_chunks_of_different_sizes(tmp_path: Path) -> None:
    """As COPC has them: one chunk per node of its tree."""
    source = write_las(tmp_path / "a.las")
    data, points = source.read_bytes(), points_of(source)
    header_bytes, points_at, records = struct.unpack_from("<HII", data, 94)
    vlr = lazrs.LazVlr.new_for_compression(6, points.shape[1] - SIZES[6], True)
    record = bytes(vlr.record_data())
    head = bytearray(data[:points_at]) + struct.pack("<2x16sHH32x", b"laszip encoded", 22204, len(record)) + record
    struct.pack_into("<II", head, 96, len(head), records + 1)
    struct.pack_into("<QI", head, 235, 0, 0)
    head[104] |= 0x80
    assert header_bytes == 375
    out = io.BytesIO(bytes(head))
    out.seek(len(head))
    compressor = lazrs.LasZipCompressor(out, vlr)
    compressor.compress_chunks([points[:7].tobytes(), points[7:200].tobytes(), points[200:].tobytes()])
    compressor.done()
    (tmp_path / "chunks.laz").write_bytes(out.getvalue())
    for name in ("b.las", "b.laz"):
        write_classification(tmp_path / "chunks.laz", tmp_path / name, codes_of(6))
        points = points.copy()
        points[:, 16] = codes_of(6)
        np.testing.assert_array_equal(points_of(tmp_path / name), points)


def test_waveforms_of_las_1_3_are_kept(tmp_path: Path) -> None:
    """They are in a record at a place that only the header gives."""
    source = write_las(tmp_path / "a.las", 4)
    data = bytearray(source.read_bytes())
    packets = struct.pack("<2x16sHQ32x", b"LASF_Spec", 65535, 500) + bytes(range(250)) * 2
    data[6] |= 2
    struct.pack_into("<Q", data, 227, len(data))
    source.write_bytes(data + packets)
    for name in ("b.las", "b.laz"):
        write_classification(source, tmp_path / name, codes_of(4))
        copy = (tmp_path / name).read_bytes()
        (place,) = struct.unpack_from("<Q", copy, 227)
        assert copy[place:] == packets


def test_bytes_between_the_records_and_the_points_are_kept(tmp_path: Path) -> None:
    """LAS 1.0 has two of them."""
    source = write_las(tmp_path / "a.las", 1, version="1.2")
    data = bytearray(source.read_bytes())
    (points_at,) = struct.unpack_from("<I", data, 96)
    struct.pack_into("<I", data, 96, points_at + 2)
    data[25] = 0
    source.write_bytes(data[:points_at] + b"\xdd\xcc" + data[points_at:])
    for name in ("b.las", "b.laz"):
        write_classification(source, tmp_path / name, codes_of(1))
        copy = (tmp_path / name).read_bytes()
        (place,) = struct.unpack_from("<I", copy, 96)
        assert copy[place - 2 : place] == b"\xdd\xcc"
        np.testing.assert_array_equal(read(tmp_path / name).fields["classification"], codes_of(1))


# What is refused


@pytest.mark.parametrize("point_format", [9, 10])
def test_compressed_waveforms_are_refused(tmp_path: Path, point_format: int) -> None:
    """lazrs 0.8 changes them if points of several scanner channels alternate."""
    for before, after in (("las", "laz"), ("laz", "las")):
        source = write_las(tmp_path / f"a.{before}", point_format)
        assert "which lazrs does not keep" in refused(source, tmp_path / f"b.{after}", codes_of(point_format))


@pytest.mark.parametrize(
    ("point_format", "codes", "sentence"),
    [
        (6, np.zeros(COUNT - 1, int), f"int64 codes of shape ({COUNT - 1},) for {COUNT} points, expected one integer"),
        (6, np.zeros((COUNT, 1), int), f"codes of shape ({COUNT}, 1) for {COUNT} points"),
        (6, np.zeros(COUNT), "float64 codes of shape"),
        (6, np.full(COUNT, 256), "the code 256 for point 0 (counted from 0), expected 0 to 255 in the point format 6"),
        (6, np.full(COUNT, -1), "the code -1 for point 0"),
        (
            1,
            np.arange(COUNT),
            "the code 32 for point 32 (counted from 0), expected 0 to 31 in the point format 1; conv",
        ),
    ],
)
def test_codes_that_do_not_fit(tmp_path: Path, point_format: int, codes: np.ndarray, sentence: str) -> None:
    target = tmp_path / "b.las"
    target.write_text("old")
    assert sentence in refused(write_las(tmp_path / "a.las", point_format), target, codes)
    assert target.read_text() == "old"


def test_targets_that_are_no_files(tmp_path: Path) -> None:
    source = write_las(tmp_path / "a.las")
    assert "expected .las or .laz" in refused(source, tmp_path / "b.ply", codes_of(6))
    (tmp_path / "c.las").mkdir()
    assert "is not a file" in refused(source, tmp_path / "c.las", codes_of(6))
    assert "is not a file" in refused(tmp_path / "none.las", tmp_path / "b.las", codes_of(6))
    with pytest.raises(OSError, match=r"a\.las"):
        write_classification(source, source / "b.las", codes_of(6))


@pytest.mark.parametrize("name", ["b.las", "b.laz"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    source = write_las(tmp_path / "a.las", count=20_000)
    (tmp_path / name).write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_classification(source, tmp_path / name, codes_of(6, 20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(tmp_path / name)
    assert (tmp_path / name).read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.las", name])


def test_missing_lazrs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_las(tmp_path / "a.las")
    write_las(tmp_path / "a.laz")
    monkeypatch.setitem(sys.modules, "lazrs", None)
    for source, target in (("a.las", "b.laz"), ("a.laz", "b.las")):
        assert "pip install lazrs" in refused(tmp_path / source, tmp_path / target, codes_of(6))
    write_classification(tmp_path / "a.las", tmp_path / "b.las", codes_of(6))


@pytest.mark.parametrize("name", ["a.las", "a.laz"])
def test_cut_files_are_refused(tmp_path: Path, name: str) -> None:
    whole = write_las(tmp_path / name).read_bytes()
    lengths = [*range(0, 400, 23), *range(400, len(whole) - 70_060, 509), len(whole) - 70_000, len(whole) - 1]
    for length in lengths:
        (tmp_path / name).write_bytes(whole[:length])
        assert refused(tmp_path / name, tmp_path / f"b{name}", codes_of(6)).startswith(f"{tmp_path / name}: ")
        assert not (tmp_path / f"b{name}").exists()


# Headers that LazHeader accepts can still abort lazrs: `clouds.read` reads a scan in a child process before this.
@pytest.mark.parametrize("name", ["a.las", "a.laz"])
def test_a_damaged_header_is_refused_or_copied(tmp_path: Path, name: str) -> None:
    whole = write_las(tmp_path / name).read_bytes()
    rng = random.Random(5)
    for _ in range(150):
        (tmp_path / name).write_bytes(mutated(whole, rng, most=375))
        with suppress(UserError):
            write_classification(tmp_path / name, tmp_path / "b.las", codes_of(6))
