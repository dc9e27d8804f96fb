"""Clouds in binary formats: arrays of NumPy (npy, npz), PCD with pypcd4, LAS and LAZ with laspy."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data.parsed import Parsed, as_colors, missing_package, require_whole
from bipointnet.errors import UserError
from bipointnet.extras import install_hint


def read_numpy(path: Path) -> Parsed:
    """An array (N, 3 or more), xyz first and then perhaps colors; in an archive, the array `points` or the only one."""
    stored = np.load(path, allow_pickle=False)
    if isinstance(stored, np.ndarray):
        return Parsed(stored, as_colors(stored[..., 3:6]))
    with stored:
        names = stored.files
        if "points" not in names and len(names) != 1:
            raise UserError(
                f"{path}: holds the arrays {', '.join(names) or '(none)'}, expected one named 'points'; rename the"
                " array with the coordinates"
            )
        points = stored["points" if "points" in names else names[0]]
        return Parsed(points, as_colors(points[..., 3:6]))


def read_pcd(path: Path) -> Parsed:
    try:
        from pypcd4 import PointCloud  # pyright: ignore[reportPrivateImportUsage]
    except ImportError as error:
        raise missing_package("pypcd4", path, install_hint("pypcd4")) from error
    cloud = PointCloud.from_path(path)
    missing = {"x", "y", "z"} - set(cloud.fields)
    if missing:
        raise UserError(f"{path}: has the fields {' '.join(cloud.fields)}, expected x, y and z; rename them")
    xyz = cloud.numpy(("x", "y", "z"))
    require_whole(path, "points", len(xyz), cloud.points)
    if "rgb" not in cloud.fields or len(xyz) == 0:
        return Parsed(xyz)
    packed = np.ascontiguousarray(cloud.pc_data["rgb"])
    return Parsed(xyz, PointCloud.decode_rgb(packed) / 255)


def read_las(path: Path) -> Parsed:
    try:
        import laspy
    except ImportError as error:
        raise missing_package("laspy", path, install_hint("laspy")) from error
    if path.suffix.lower() == ".laz" and not laspy.LazBackend.detect_available():
        raise missing_package("a LAZ backend", path, install_hint("laspy"))
    _check_las_header(path)
    las: Any = laspy.read(path)
    xyz = np.asarray(las.xyz)
    require_whole(path, "points", len(xyz), las.header.point_count)
    if not {"red", "green", "blue"} <= set(las.point_format.dimension_names):
        return Parsed(xyz)
    colors = np.stack([las.red, las.green, las.blue], axis=1)  # (N, 3) uint16
    # The format specifies 16 bits per channel, but many programs write 8.
    return Parsed(xyz, colors / (255 if colors.max(initial=0) <= 255 else 65535))


def _check_las_header(path: Path) -> None:
    """laspy trusts the counts of a damaged header, and then reads records that do not exist for hours."""
    with open(path, "rb") as file:
        header, size = file.read(375), path.stat().st_size
    if len(header) < 227 or not header.startswith(b"LASF"):
        raise UserError(f"{path}: does not begin as a LAS file does; check that its suffix is right, or copy it again")
    points_at, record_count = struct.unpack_from("<II", header, 96)
    point_count = struct.unpack_from("<I", header, 107)[0]
    extended_count = 0
    if header[24:26] >= b"\x01\x04" and len(header) == 375:
        extended_count, point_count = struct.unpack_from("<IQ", header, 243)
    # A record has 54 bytes, an extended one 60. LAZ stores one whole point (20 bytes or more) per chunk of 50,000.
    if 54 * record_count > points_at or points_at > size or 60 * extended_count > size or point_count > 2500 * size:
        raise UserError(f"{path}: its header declares more than its {size} bytes can hold; copy it again")
