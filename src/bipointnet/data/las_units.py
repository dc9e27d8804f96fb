"""The unit of the coordinates of LAS and LAZ files."""

import math
import re
import struct
from pathlib import Path
from typing import NamedTuple

from bipointnet.data.las_header import read_bytes, read_layout
from bipointnet.errors import UserError


class Unit(NamedTuple):
    """A unit of length: its name in words, and its length in meters."""

    name: str
    meters: float


UNITS = {"m": Unit("meters", 1.0), "ft": Unit("feet", 0.3048), "us-ft": Unit("US survey feet", 1200 / 3937)}

_PROJECTION = b"LASF_Projection"  # the user of the records with the coordinate system
_GEO_KEYS, _WKT = 34735, 2112
_MOST_WKT = 1 << 20
_GEOGRAPHIC = 2  # the model type of longitude and latitude
_MODEL_TYPE, _PLANE_UNITS, _HEIGHT_UNITS = 1024, 3076, 4099  # GeoTIFF keys


class _Declared(NamedTuple):
    """The units of x and y, and of heights: a key in UNITS, words for another unit, or None if there is none."""

    plane: str | None = None
    heights: str | None = None


def declared_unit(path: Path) -> str | None:
    """The key in UNITS of the unit that the coordinate system of a LAS or LAZ file declares.

    None if it declares none that is known, or if the file is damaged. UserError if heights have another unit than x
    and y.

    >>> declared_unit(Path("no such file.las")) is None
    True
    """
    try:
        if not path.is_file():  # a pipe would wait for its writer
            return None
        with open(path, "rb") as file:
            layout = read_layout(file)
            found = {_GEO_KEYS: b"", _WKT: b""}
            for record in (*layout.extended, *layout.records):  # a VLR has precedence over an EVLR
                if record.user == _PROJECTION and record.number in found and record.size <= _MOST_WKT:
                    found[record.number] = read_bytes(file, record.data_at, record.at + record.size - record.data_at)
    except (OSError, UserError):
        return None
    first, second = _units_of_geo_keys(found[_GEO_KEYS]), _units_of_wkt(found[_WKT].decode("utf-8", "replace"))
    if layout.declares_wkt:
        first, second = second, first
    plane, heights = first
    if None in (plane, second.plane) or plane == second.plane:  # else they describe two systems, and the first counts
        plane, heights = plane or second.plane, heights or second.heights
    # The two feet differ by two parts in a million, and occur together.
    if plane and heights and plane != heights and {plane, heights} != {"ft", "us-ft"}:
        raise UserError(
            f"{path}: its x and y are in {_words(plane)}, its heights in {_words(heights)}; expected one unit for all "
            "axes; convert the file to one unit"
        )
    unit = plane or heights
    return unit if unit in UNITS else None


def _words(unit: str) -> str:
    return UNITS[unit].name if unit in UNITS else unit


def _units_of_geo_keys(data: bytes) -> _Declared:
    """The units in a directory of GeoTIFF keys: entries of four numbers, of which the first four are a header."""
    numbers = struct.unpack_from(f"<{len(data) // 2}H", data)
    entries = zip(*(numbers[4 + column :: 4] for column in range(4)), strict=False)
    # A location of 0: the value is in the entry itself.
    values = {key: value for key, location, _, value in entries if location == 0}
    if values.get(_MODEL_TYPE) == _GEOGRAPHIC:
        return _Declared()
    return _Declared(_unit_of_code(values.get(_PLANE_UNITS, 0)), _unit_of_code(values.get(_HEIGHT_UNITS, 0)))


def _unit_of_code(code: int) -> str | None:
    """The unit of length with this EPSG code; other codes are angles, user-defined, or no units.

    >>> _unit_of_code(9003), _unit_of_code(9036), _unit_of_code(32767)
    ('us-ft', 'the unit with EPSG code 9036', None)
    """
    other = f"the unit with EPSG code {code}" if 9001 <= code < 9100 else None
    return {9001: "m", 9002: "ft", 9003: "us-ft"}.get(code, other)


_PLANE_SYSTEMS = {"PROJCS", "PROJCRS", "PROJECTEDCRS", "LOCAL_CS", "ENGCRS", "ENGINEERINGCRS"}
_HEIGHT_SYSTEMS = {"VERT_CS", "VERTCS", "VERTCRS", "VERTICALCRS"}
_GEOGRAPHIC_SYSTEMS = {"GEOGCS", "GEOGCRS", "GEOGRAPHICCRS", "GEODCRS", "GEODETICCRS"}
_TARGET = "TARGETCRS"  # what coordinates can be transformed to


def _units_of_wkt(text: str) -> _Declared:
    """The units of the plane and the vertical system in WKT 1 or 2: the numbers in UNIT["name", meters].

    >>> plane = 'PROJCS["a",GEOGCS["b",UNIT["degree",0.01745]],UNIT["metre",1]]'
    >>> tuple(_units_of_wkt(f'COMPD_CS["c",{plane},VERT_CS["d",UNIT["Foot_US",0.3048006096]]]'))
    ('m', 'us-ft')
    """
    bare = " ".join(text.split('"')[::2])  # without names, which may contain brackets
    opened: list[str] = []  # the keywords whose brackets are open; inside of a target, its own
    plane = heights = None
    geographic = False
    word = ""
    for token in re.findall(r"[\[\](),]|[^\[\](),\s]+", bare):
        outer = opened[-1] if opened else ""
        if token in "[(":
            opened.append(_TARGET if outer == _TARGET else word)
            geographic = geographic or (opened[-1] in _GEOGRAPHIC_SYSTEMS and outer not in _PLANE_SYSTEMS)
        elif token in "])":
            del opened[-1:]
        elif token != ",":
            if word in ("UNIT", "LENGTHUNIT") and outer == word:
                depth = 3 if opened[-2:-1] == ["AXIS"] else 2  # WKT 2 may have a unit per axis
                system = opened[-depth] if len(opened) >= depth else ""
                unit = _unit_of_meters(token)
                if system in _HEIGHT_SYSTEMS or (system in _PLANE_SYSTEMS and plane not in (None, unit)):
                    heights = heights or unit  # the third axis of a plane system is the height
                elif system in _PLANE_SYSTEMS:
                    plane = unit
            word = token.upper()
    return _Declared() if geographic and plane is None else _Declared(plane, heights)


def _unit_of_meters(token: str) -> str | None:
    """The unit of this length; the two feet differ by 6e-7 m, and files round their lengths.

    >>> _unit_of_meters("0.3048"), _unit_of_meters("0.3048006"), _unit_of_meters("0.9144"), _unit_of_meters("x")
    ('ft', 'us-ft', 'units of 0.9144 m', None)
    """
    try:
        meters = float(token)
    except ValueError:
        return None
    if not 0 < meters < math.inf:
        return None
    nearest = min(UNITS, key=lambda key: abs(UNITS[key].meters - meters))
    return nearest if abs(UNITS[nearest].meters - meters) < 4e-7 else f"units of {meters:.7g} m"
