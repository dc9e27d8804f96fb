"""LAS files with every kind of record, and damage to them."""

import importlib
import random
from pathlib import Path
from typing import Any

import numpy as np

laspy: Any = importlib.import_module("laspy")  # its types differ from its documentation

COUNT = 300
DEGREES = 'GEOGCS["WGS 84",DATUM["a [b",SPHEROID["c",6378137,298.25]],UNIT["degree",0.0174532925199433]]'
WKT = f'PROJCS["UTM ""32""",{DEGREES},PROJECTION["T"],PARAMETER["k",0.9996],UNIT["%s",%s],AXIS["Easting",EAST]]'


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


def mutated(whole: bytes, rng: random.Random, most: int) -> bytes:
    """Some bytes changed among the first `most`."""
    data = bytearray(whole)
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(4, most)] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
    return bytes(data)
