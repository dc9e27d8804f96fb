"""The unit that a LAS file declares: one for all axes, and no crash."""

import random
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from las_writer import DEGREES, WKT, laspy, mutated, write_las

from bipointnet.data import las_units
from bipointnet.data.las_files import write_classification
from bipointnet.data.las_units import UNITS, declared_unit
from bipointnet.errors import UserError

WKT_2 = (
    'PROJCRS["a",BASEGEOGCRS["b",DATUM["c",ELLIPSOID["d",6378137,298.25,LENGTHUNIT["metre",1]]]],'
    'CONVERSION["e",PARAMETER["f",500000,LENGTHUNIT["metre",1.0]]],CS[Cartesian,2],%s]'
)


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
    with pytest.raises(UserError, match="its records pass the place"):
        write_classification(path, tmp_path / "b.las", np.zeros(2, int))


def test_no_file_and_no_las_file(tmp_path: Path) -> None:
    (tmp_path / "a.las").write_text("hello")
    assert declared_unit(tmp_path / "a.las") is None
    assert declared_unit(tmp_path) is None
    assert declared_unit(tmp_path / "none.las") is None
