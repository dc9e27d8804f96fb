"""las_files.py: a copy differs in its classification only. las_units.py: one unit for all axes, and no crash."""

import importlib
import io
import random
import resource
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bipointnet.data import las_files, las_units
from bipointnet.data.clouds import read
from bipointnet.data.las_files import write_classification
from bipointnet.data.las_units import UNITS, declared_unit
from bipointnet.errors import UserError

laspy: Any = importlib.import_module("laspy")  # its types differ from its documentation
lazrs: Any = importlib.import_module("lazrs")

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
COUNT = 300
SIZES = (20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67)
DEGREES = 'GEOGCS["WGS 84",DATUM["a [b",SPHEROID["c",6378137,298.25]],UNIT["degree",0.0174532925199433]]'
WKT = f'PROJCS["UTM ""32""",{DEGREES},PROJECTION["T"],PARAMETER["k",0.9996],UNIT["%s",%s],AXIS["Easting",EAST]]'
WKT_2 = (
    'PROJCRS["a",BASEGEOGCRS["b",DATUM["c",ELLIPSOID["d",6378137,298.25,LENGTHUNIT["metre",1]]]],'
    'CONVERSION["e",PARAMETER["f",500000,LENGTHUNIT["metre",1.0]]],CS[Cartesian,2],%s]'
)


def codes_of(point_format: int, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256 if point_format >= 6 else 32, count)


def write_las(path: Path, point_format: int = 6, *, count: int = COUNT, version: str | None = None) -> Path:
    """A file with random values in all attributes, one more attribute, a WKT record, a VLR and an EVLR of our own."""
    rng = np.random.default_rng(2)
    usual = {1: "1.4", 4: "1.3", 5: "1.3"}.get(point_format, "1.4" if point_format >= 6 else "1.2")
    las = laspy.create(point_format=point_format, file_version=version or usual)
    las.header.scales, las.header.offsets = [0.001, 0.002, 0.01], [500_000, 5_000_000, -3]
    las.header.system_identifier, las.header.generating_software = "a scanner", "a program"
    las.add_extra_dim(laspy.ExtraBytesParams("height", np.float32, description="above ground"))
    las.add_extra_dim(laspy.ExtraBytesParams("triple", "3u2"))
    raw = rng.integers(0, 256, (count, las.header.point_format.size), np.uint8)
    las.points.array = np.frombuffer(raw.tobytes(), las.points.array.dtype).copy()
    las["height"] = rng.normal(size=count)
    las.vlrs.append(laspy.VLR("ours", 17, "a record", b"\x01\x02\x03"))
    las.vlrs.append(laspy.vlrs.known.WktCoordinateSystemVlr(WKT % ("metre", 1)))
    if las.header.version.minor >= 4:
        las.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR("ours", 18, "extended", b"z" * 70_000)])
    las.write(path)
    return path


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


# The unit


def with_records(tmp_path: Path, *records: Any, extended: tuple = (), wkt: bool = False) -> Path:
    las = laspy.create(point_format=6, file_version="1.4")
    las.x = [0.0, 1.0]
    las.header.global_encoding.wkt = wkt
    las.vlrs.extend(records)
    las.evlrs = laspy.vlrs.vlrlist.VLRList(extended)
    las.write(tmp_path / "a.las")
    return tmp_path / "a.las"


def geo_keys(*entries: tuple[int, int, int, int]) -> Any:
    data = struct.pack(f"<{4 + 4 * len(entries)}H", 1, 1, 0, len(entries), *(n for entry in entries for n in entry))
    return laspy.VLR("LASF_Projection", 34735, "keys", data)


def wkt_record(text: str) -> Any:
    return laspy.VLR("LASF_Projection", 2112, "WKT", text.encode() + b"\0")


@pytest.mark.parametrize(("value", "unit"), [(9001, "m"), (9002, "ft"), (9003, "us-ft"), (9036, None), (0, None)])
def test_geotiff_keys(tmp_path: Path, value: int, unit: str | None) -> None:
    others = ((1024, 0, 1, 1), (3072, 0, 1, 26915))
    for keys in (((3076, value),), ((4099, value),), ((3076, value), (4099, value))):
        entries = [(key, 0, 1, code) for key, code in keys]
        assert declared_unit(with_records(tmp_path, geo_keys(*others, *entries))) == unit


def test_geotiff_keys_without_a_unit(tmp_path: Path) -> None:
    assert declared_unit(with_records(tmp_path)) is None
    assert declared_unit(with_records(tmp_path, geo_keys((3072, 0, 1, 26915)))) is None
    degrees = ((1024, 0, 1, 2), (3076, 0, 1, 9001), (4099, 0, 1, 9003))
    assert declared_unit(with_records(tmp_path, geo_keys(*degrees))) is None
    user_defined = ((3076, 0, 1, 32767), (4099, 0, 1, 9003))
    assert declared_unit(with_records(tmp_path, geo_keys(*user_defined))) == "us-ft"
    assert declared_unit(with_records(tmp_path, geo_keys((3076, 34736, 1, 9001)))) is None  # in another record


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (WKT % ("metre", "1"), "m"),
        (WKT % ("Meter", "1.0"), "m"),
        (WKT % ("foot", "0.3048"), "ft"),
        (WKT % ("US survey foot", "0.3048006096012192"), "us-ft"),
        (WKT % ("Foot_US", "0.30480061"), "us-ft"),
        (WKT % ("yard", "0.9144"), None),
        (WKT % ("a", "nan"), None),
        (WKT % ("a", "word"), None),
        (WKT.replace("[", "(").replace("]", ")") % ("foot", "0.3048"), "ft"),
        ((WKT % ("foot", "0.3048")).replace(",", " ,\n  ").lower(), "ft"),
        (f'COMPD_CS["a",{WKT % ("US survey foot", "0.3048006096")},VERT_CS["v",UNIT["Foot_US",0.3048006]]]', "us-ft"),
        (f'COMPD_CS["a",{WKT % ("a", "word")},VERT_CS["v",UNIT["foot",0.3048]]]', "ft"),
        (f'COMPD_CS["a",{WKT % ("foot", "0.3048")},VERT_CS["v",UNIT["a",word]]]', "ft"),
        (f'COMPD_CS["a",{DEGREES},VERT_CS["v",UNIT["metre",1]]]', None),
        ('VERT_CS["v",VERT_DATUM["d",2005],UNIT["foot",0.3048,AUTHORITY["EPSG","9002"]],AXIS["Up",UP]]', "ft"),
        ('VERTCRS["v",VDATUM["d"],CS[vertical,1],AXIS["H",up,LENGTHUNIT["US survey foot",0.3048006096]]]', "us-ft"),
        (DEGREES, None),
        ('LOCAL_CS["site",UNIT["foot",0.3048]]', "ft"),
        (WKT_2 % 'AXIS["x",east],AXIS["y",north],LENGTHUNIT["US survey foot",0.3048006096,ID["EPSG",9003]]', "us-ft"),
        (WKT_2 % 'AXIS["x",east,LENGTHUNIT["foot",0.3048]],AXIS["y",north,LENGTHUNIT["foot",0.3048]]', "ft"),
        (WKT_2 % 'UNIT["metre",1]', "m"),
        (f'COMPOUNDCRS["a",{WKT_2 % "UNIT[1]"},VERTCRS["v",CS[vertical,1],LENGTHUNIT["metre",1]]]', "m"),
        (f"COMPOUNDCRS[{WKT_2 % 'UNIT[1]'},BOUNDCRS[SOURCECRS[VERTCRS[UNIT[1]]],TARGETCRS[VERTCRS[UNIT[0.3]]]]]", "m"),
        (f'COMPOUNDCRS[{WKT_2 % "UNIT[1]"},VERTCRS[UNIT[1],USAGE[VERTICALEXTENT[0,9,LENGTHUNIT["a",0.3048]]]]]', "m"),
        (f"BOUNDCRS[SOURCECRS[{WKT_2 % 'UNIT[0.3048]'}],TARGETCRS[{WKT_2 % 'UNIT[1]'}]]", "ft"),
        ("", None),
        ("PROJCS[UNIT[", None),
        ("]]]]UNIT]],,PROJCS", None),
        ('PROJCS["UNIT[1]"]', None),
    ],
)
def test_wkt(tmp_path: Path, text: str, unit: str | None) -> None:
    assert declared_unit(with_records(tmp_path, wkt_record(text))) == unit
    assert declared_unit(with_records(tmp_path, extended=(wkt_record(text),), wkt=True)) == unit


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        declared_unit(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


LENGTHS = {"m": "1", "ft": "0.3048", "us-ft": "0.3048006096012192"}
PLANE = WKT % ("p", "PLANE")
COMPOUND = (
    f'COMPD_CS["a",{PLANE},VERT_CS["v",VERT_DATUM["d",2005],UNIT["h",HEIGHTS,AUTHORITY["EPSG","1"]]]]',
    f'{PLANE},VERTCS["v",VDATUM["d"],PARAMETER["Direction",1.0],UNIT["h",HEIGHTS]]',
    f'COMPOUNDCRS["a",{WKT_2 % "LENGTHUNIT[PLANE]"},VERTCRS["v",CS[vertical,1],AXIS["H",up],LENGTHUNIT["h",HEIGHTS]]]',
    f'COMPOUNDCRS["a",{WKT_2 % "UNIT[PLANE]"},VERTICALCRS["v",CS[vertical,1],AXIS["H",up,UNIT["h",HEIGHTS]]]]',
    WKT_2 % 'AXIS["x",east,UNIT["p",PLANE]],AXIS["y",north,UNIT["p",PLANE]],AXIS["h",up,UNIT["h",HEIGHTS]]',
)


def compound(text: str, plane: str, heights: str) -> Any:
    return wkt_record(text.replace("PLANE", LENGTHS[plane]).replace("HEIGHTS", LENGTHS[heights]))


@pytest.mark.parametrize("text", COMPOUND)
@pytest.mark.parametrize("heights", LENGTHS)
@pytest.mark.parametrize("plane", LENGTHS)
def test_all_axes_have_one_unit(tmp_path: Path, plane: str, heights: str, text: str) -> None:
    """Both descriptions are read alike; a file whose heights have a unit of their own is refused."""
    codes = {"m": 9001, "ft": 9002, "us-ft": 9003}
    wkt = compound(text, plane, heights)
    keys = geo_keys((3076, 0, 1, codes[plane]), (4099, 0, 1, codes[heights]))
    for records in ((wkt,), (keys,), (keys, wkt)):
        path = with_records(tmp_path, *records, wkt=wkt in records)
        if plane == heights or "m" not in (plane, heights):
            assert declared_unit(path) == plane
        else:
            assert refusal(path) == (
                f"{path}: its x and y are in {UNITS[plane].name}, its heights in {UNITS[heights].name}; expected one "
                "unit for all axes; convert the file to one unit"
            )


def test_heights_in_a_unit_that_is_not_known(tmp_path: Path) -> None:
    keys = geo_keys((3076, 0, 1, 9001), (4099, 0, 1, 9014))
    assert "x and y are in meters, its heights in the unit with EPSG code 9014;" in refusal(
        with_records(tmp_path, keys)
    )
    wkt = wkt_record(f'COMPD_CS["a",{WKT % ("metre", "1")},VERT_CS["v",UNIT["fathom",1.8288]]]')
    assert "x and y are in meters, its heights in units of 1.8288 m;" in refusal(with_records(tmp_path, wkt))


def test_one_description_may_declare_heights_alone(tmp_path: Path) -> None:
    """It counts, unless the two descriptions contradict each other."""
    plane, both = wkt_record(WKT % ("metre", "1")), geo_keys((3076, 0, 1, 9001), (4099, 0, 1, 9003))
    assert "heights in US survey feet" in refusal(with_records(tmp_path, plane, geo_keys((4099, 0, 1, 9003)), wkt=True))
    assert "heights in US survey feet" in refusal(with_records(tmp_path, plane, both, wkt=True))
    assert declared_unit(with_records(tmp_path, wkt_record(WKT % ("foot", "0.3048")), both, wkt=True)) == "ft"


def test_the_header_says_which_description_counts(tmp_path: Path) -> None:
    records = (geo_keys((3076, 0, 1, 9001)), wkt_record(WKT % ("foot", "0.3048")))
    assert declared_unit(with_records(tmp_path, *records)) == "m"
    assert declared_unit(with_records(tmp_path, *records, wkt=True)) == "ft"
    assert declared_unit(with_records(tmp_path, wkt_record(DEGREES), records[0], wkt=True)) == "m"


def test_the_unit_of_laz_and_of_long_extended_records(tmp_path: Path) -> None:
    assert declared_unit(write_las(tmp_path / "a.laz")) == "m"
    long = wkt_record(" " * 80_000 + WKT % ("foot", "0.3048"))
    assert declared_unit(with_records(tmp_path, extended=(long,))) == "ft"


def test_the_feet_differ() -> None:
    assert UNITS["us-ft"].meters - UNITS["ft"].meters == pytest.approx(6.096e-7, rel=1e-4)


def mutated(whole: bytes, rng: random.Random, most: int) -> bytes:
    """Some bytes changed among the first `most`."""
    data = bytearray(whole)
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(4, most)] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
    return bytes(data)


def test_no_damage_makes_the_unit_raise(tmp_path: Path) -> None:
    keys = geo_keys((3076, 0, 1, 9003))
    whole = with_records(tmp_path, keys, extended=(wkt_record(WKT % ("metre", "1")),)).read_bytes()
    path = tmp_path / "b.las"
    assert declared_unit(tmp_path / "a.las") == "us-ft"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert declared_unit(path) is None
    both = geo_keys((3076, 0, 1, 9001), (4099, 0, 1, 9001))
    with_heights = with_records(tmp_path, both, extended=(compound(COMPOUND[0], "m", "m"),)).read_bytes()
    rng = random.Random(6)
    for _ in range(2000):
        path.write_bytes(mutated(whole, rng, most=len(whole)))
        assert declared_unit(path) in (None, *UNITS)
    for _ in range(500):
        path.write_bytes(mutated(with_heights, rng, most=len(with_heights)))
        with suppress(UserError):  # damage may change one of two units
            assert declared_unit(path) in (None, *UNITS)


@settings(max_examples=300, deadline=None)
@given(st.text('PROJCS[]()",UNIT1.03048 \x00', max_size=200))
def test_any_wkt(text: str) -> None:
    assert all(unit is None or las_units._words(unit) for unit in las_units._units_of_wkt(text))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["PROJCS[", "VERT_CS[", "TARGETCRS[", "GEOGCS[", "AXIS[", "UNIT[1", "UNIT[0.3048", "]"]))
)
def test_any_order_of_words_of_wkt(words: list[str]) -> None:
    assert set(las_units._units_of_wkt(" ".join(words))) <= {None, "m", "ft"}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=64))
def test_any_geotiff_keys(data: bytes) -> None:
    assert all(unit is None or las_units._words(unit) for unit in las_units._units_of_geo_keys(data))


@pytest.mark.parametrize("part", ['"', "PROJCS[", "]", "UNIT[1", "1", "VERTCRS[UNIT[0]", "TARGETCRS[", "AXIS[UNIT[1"])
def test_a_long_wkt_takes_no_time(part: str) -> None:
    """The time is linear: that of brackets in brackets would be minutes if each token copied what is open."""
    began = time.process_time()
    assert las_units._units_of_wkt(part * ((1 << 20) // len(part))) == (None, None)
    assert time.process_time() - began < 5


def test_a_count_of_records_is_not_followed_without_end(tmp_path: Path) -> None:
    """A large file of zeros is a long list of empty records."""
    data = bytearray(with_records(tmp_path).read_bytes())
    struct.pack_into("<II", data, 96, 2**31, 2**31 // 54)
    with open(tmp_path / "b.las", "wb") as file:
        file.write(data)
        file.truncate(2**31)  # a sparse file
    began = time.process_time()
    assert declared_unit(tmp_path / "b.las") is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize("extended", [False, True])
def test_a_record_that_passes_its_end(tmp_path: Path, extended: bool) -> None:
    keys = geo_keys((3076, 0, 1, 9001))
    path = with_records(tmp_path, extended=(keys,)) if extended else with_records(tmp_path, keys)
    assert declared_unit(path) == "m"
    data = bytearray(path.read_bytes())
    data[data.rindex(b"LASF_Projection") + 18] += 1  # the length
    path.write_bytes(data)
    assert declared_unit(path) is None
    assert "its records pass the place" in refused(path, tmp_path / "b.las", np.zeros(2, int))


def test_no_file_and_no_las_file(tmp_path: Path) -> None:
    (tmp_path / "a.las").write_text("hello")
    assert declared_unit(tmp_path / "a.las") is None
    assert declared_unit(tmp_path) is None
    assert declared_unit(tmp_path / "none.las") is None
