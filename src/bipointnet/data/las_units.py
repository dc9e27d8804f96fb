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
_MOST_RECORDS = 10_000  # a file has at most hundreds; the count of a damaged one would be followed for minutes
_MOST_WKT = 1 << 20


def declared_unit(path: Path) -> str | None:
    """The key in UNITS of the horizontal unit that the coordinate system of a LAS or LAZ file declares.

    None if it declares none that is known, or if the file is damaged.

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
    units = [_unit_of_geo_keys(found[_GEO_KEYS]), _unit_of_wkt(found[_WKT].decode("utf-8", "replace"))]
    if layout.declares_wkt:
        units.reverse()
    return units[0] or units[1]


def _unit_of_geo_keys(data: bytes) -> str | None:
    """The unit in a directory of GeoTIFF keys: entries of four numbers, of which the first four are a header."""
    numbers = struct.unpack_from(f"<{len(data) // 2}H", data)
    entries = zip(*(numbers[4 + column :: 4] for column in range(4)), strict=False)
    # A location of 0: the value is in the entry itself.
    values = {key: value for key, location, _, value in entries if location == 0}
    if values.get(1024) == 2:  # longitude and latitude
        return None
    return {9001: "m", 9002: "ft", 9003: "us-ft"}.get(values.get(3076, 0))


_PLANE_SYSTEMS = {"PROJCS", "PROJCRS", "PROJECTEDCRS", "LOCAL_CS", "ENGCRS", "ENGINEERINGCRS"}


def _unit_of_wkt(text: str) -> str | None:
    """The unit of the plane system in a description in WKT 1 or 2: the number in UNIT["name", meters].

    >>> _unit_of_wkt('PROJCS["a",GEOGCS["b",UNIT["degree",0.01745]],UNIT["Foot_US",0.3048006096]]')
    'us-ft'
    """
    bare = " ".join(text.split('"')[::2])  # without names, which may contain brackets
    opened: list[str] = []  # the keywords whose brackets are open
    word = ""
    for token in re.findall(r"[\[\](),]|[^\[\](),\s]+", bare):
        if token in "[(":
            opened.append(word.upper())
        elif token in "])":
            del opened[-1:]
        elif token != ",":
            word = token
            inner = opened[:-2] if opened[-2:-1] == ["AXIS"] else opened[:-1]  # WKT 2 may have a unit per axis
            if opened[-1:] in (["UNIT"], ["LENGTHUNIT"]) and inner and inner[-1] in _PLANE_SYSTEMS:
                return _unit_of_meters(token)
    return None


def _unit_of_meters(token: str) -> str | None:
    """The unit of this length; the two feet differ by 6e-7 m, and files round their lengths.

    >>> _unit_of_meters("0.3048"), _unit_of_meters("0.3048006"), _unit_of_meters("0.9144")
    ('ft', 'us-ft', None)
    """
    try:
        meters = float(token)
    except ValueError:
        return None
    if not math.isfinite(meters):
        return None
    nearest = min(UNITS, key=lambda key: abs(UNITS[key].meters - meters))
    return nearest if abs(UNITS[nearest].meters - meters) < 4e-7 else None
