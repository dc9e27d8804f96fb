"""Small labeled scans in every format: a floor with boxes and poles on it."""

from pathlib import Path
from typing import Any

import laspy
import numpy as np

GRID = 1 / 1024  # coordinates are multiples of it, so that every format holds them exactly
NAMES = ("ground", "building", "pole")
CODES = (2, 6, 64)
TABLE = '2 = "ground"\n6 = "building"\n64 = "pole"\n'


class Tile:
    """points (N, 3), codes (N,), intensity (N,), colors (N, 3) from 0 to 255."""

    def __init__(self, seed: int, points: int = 6000, size: tuple[float, float] = (60, 50)) -> None:
        rng = np.random.default_rng(seed)
        xyz = np.c_[rng.uniform(0, 1, (points, 2)) * size, np.zeros(points)]
        kind = (8 * xyz[:, :2] // size).sum(axis=1).astype(int) % 3  # squares, 8 along each side
        heights = rng.uniform(0, 0.1, points), np.full(points, 4.0), rng.uniform(5, 9, points)
        xyz[:, 2] = np.stack(heights)[kind, np.arange(points)]
        self.points = np.round(xyz / GRID) * GRID
        self.codes = np.array(CODES)[kind]
        self.intensity = rng.integers(0, 500, points) + 1000 * kind
        self.colors = rng.integers(0, 256, (points, 3))


def write_tile(file: Path, tile: Tile, **options: Any) -> Path:
    """Write a tile in the format of the suffix."""
    file.parent.mkdir(parents=True, exist_ok=True)
    writers = {".las": write_las, ".laz": write_las, ".ply": write_ply, ".txt": write_text, ".npy": write_npy}
    writers[file.suffix](file, tile, **options)
    return file


def write_las(
    file: Path, tile: Tile, codes: np.ndarray | None = None, wkt: str | None = None, colors: bool = False
) -> None:
    header = laspy.LasHeader(point_format=7 if colors else 6, version="1.4")
    header.scales, header.offsets = np.full(3, GRID), np.zeros(3)
    if wkt is not None:
        header.vlrs.append(laspy.vlrs.known.WktCoordinateSystemVlr(wkt))
        header.global_encoding.wkt = True
    las = laspy.LasData(header)
    las.x, las.y, las.z = tile.points.T
    las.classification = tile.codes if codes is None else codes
    las.intensity = tile.intensity
    las.return_number = las.number_of_returns = np.ones(len(tile.points), np.uint8)
    if colors:
        las.red, las.green, las.blue = tile.colors.T * 257
    las.write(str(file))


def write_ply(file: Path, tile: Tile, name: str = "label") -> None:
    rows = np.c_[tile.points, tile.intensity, tile.codes]
    header = ["ply", "format ascii 1.0", f"element vertex {len(rows)}", *(f"property double {axis}" for axis in "xyz")]
    header += ["property float intensity", f"property int {name}", "end_header"]
    with open(file, "w") as out:
        out.write("\n".join([*header, ""]))
        np.savetxt(out, rows, fmt=["%.12g"] * 4 + ["%d"])


def write_text(file: Path, tile: Tile, header: str = "x y z intensity label") -> None:
    np.savetxt(file, np.c_[tile.points, tile.intensity, tile.codes], fmt="%.12g", header=header, comments="")


def write_npy(file: Path, tile: Tile) -> None:
    np.save(file, np.c_[tile.points, tile.intensity, tile.codes])
