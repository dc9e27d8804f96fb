"""Render a cloud as an image: points become disks that occlude one another, with shaded depth edges."""

import numpy as np

_SAMPLES = 2  # rendered pixels per image pixel along each side; their mean smooths the edges
_MARGIN = 20  # free image pixels on every side
_LARGEST = 6.0  # radius of a disk in image pixels, less than the margin
_OVERLAP = 1.4  # radius of a disk relative to the distance of points: enough to close a surface
_WRITES = 2e7  # bound of the pixels written, and so of the time, for clouds crowded in few places
_CELL = 16  # rendered pixels per side of the cells in which points are counted
_STEEPEST = 12.0  # depth per pixel; steeper steps are not darker
_DARKNESS = 0.014


def render(
    points: np.ndarray, colors: np.ndarray, azimuth: float, elevation: float, width: int, height: int
) -> np.ndarray:  # (height, width, 3) uint8
    """Render points (N, 3), z up, with colors (N, 3) in 0 to 255 on white, scaled to fit the image.

    The projection is orthographic. The viewer is at `azimuth` degrees from x to y and `elevation` degrees above the
    horizon.

    >>> points = np.random.default_rng(0).normal(size=(1000, 3))
    >>> render(points, np.zeros((1000, 3), np.uint8), azimuth=30, elevation=20, width=160, height=120).shape
    (120, 160, 3)
    """
    columns, rows = width * _SAMPLES, height * _SAMPLES
    seen = _turned(points, azimuth, elevation)  # (N, 3): right, up, toward the viewer
    seen *= np.min((np.array([columns, rows]) - 2 * _MARGIN * _SAMPLES) / np.maximum(np.ptp(seen[:, :2], axis=0), 1e-9))
    column = (columns / 2 + seen[:, 0]).astype(np.int64)
    row = (rows / 2 - seen[:, 1]).astype(np.int64)
    radius = min(_OVERLAP * _spacing(row, column), _LARGEST * _SAMPLES, np.sqrt(_WRITES / (np.pi * len(points))))

    order = np.argsort(seen[:, 2], kind="stable")
    pixels, places = (row * columns + column)[order], np.arange(len(order), dtype=np.int32)
    owner = np.full(rows * columns, -1, np.int32)  # the nearest point of each pixel, as its position in `order`
    for down, along in _disk(radius):
        np.maximum.at(owner, pixels + (down * columns + along), places)

    empty = owner < 0
    nearness = np.where(empty, seen[:, 2].min(), seen[order[owner], 2]).astype(np.float32)
    image = colors[order[owner]] * _light(nearness.reshape(rows, columns)).reshape(-1, 1)
    image[empty] = 255
    return image.reshape(height, _SAMPLES, width, _SAMPLES, 3).mean(axis=(1, 3)).round().astype(np.uint8)


def _turned(points: np.ndarray, azimuth: float, elevation: float) -> np.ndarray:  # (N, 3) float64
    """The points in the viewer's coordinates, with the center of their bounding box at zero."""
    a, e = np.radians((azimuth, elevation))
    right = np.array([-np.sin(a), np.cos(a), 0])
    toward = np.array([np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)])
    turned = (points - points[0]) @ np.stack([right, np.cross(toward, right), toward], axis=1)
    return turned - (turned.min(axis=0) + turned.max(axis=0)) / 2


def _spacing(row: np.ndarray, column: np.ndarray) -> float:
    """The typical distance of points in pixels; the median is robust against walls seen edge-on."""
    counts = np.bincount((row // _CELL) * (column.max() // _CELL + 1) + column // _CELL)
    return _CELL / np.sqrt(np.median(counts[counts > 0]))


def _disk(radius: float) -> np.ndarray:  # (K, 2)
    """The rows and columns of the pixels in a disk around zero."""
    reach = np.arange(-int(radius), int(radius) + 1)
    offsets = np.stack(np.meshgrid(reach, reach, indexing="ij"), axis=-1).reshape(-1, 2)
    return offsets[(offsets**2).sum(axis=1) <= radius**2]


def _light(nearness: np.ndarray) -> np.ndarray:  # (rows, columns), 1 where nothing is darkened
    """Eye-dome lighting (Boucheny 2009): a pixel is darker the more the pixels around it are nearer to the viewer.

    It needs no normals, shades slopes, and leaves a dark rim behind every edge.
    """
    rows, columns = nearness.shape
    steps = np.zeros_like(nearness)
    for reach in (3, 9):  # fine relief, and large steps in depth
        around = np.pad(nearness, reach, mode="edge")
        for angle in np.arange(8) * np.pi / 4:
            down, along = reach + round(reach * np.sin(angle)), reach + round(reach * np.cos(angle))
            steps += np.clip((around[down : down + rows, along : along + columns] - nearness) / reach, 0, _STEEPEST)
    return np.exp(-_DARKNESS * steps)
