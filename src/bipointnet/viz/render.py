"""Draw a cloud as an image: points become discs that hide one another, and edges in depth are shaded."""

import numpy as np

_SAMPLES = 2  # pixels drawn for one of the image, along each side; their mean smooths the edges
_MARGIN = 20  # pixels of the image left free on every side
_LARGEST = 6.0  # radius of a disc in pixels of the image, less than the margin
_OVERLAP = 1.4  # radius of a disc in distances of the points: enough to close a surface
_WRITES = 2e7  # of pixels; bounds the time where most points are in few places
_CELL = 16  # drawn pixels along a side of the cells in which points are counted
_STEEPEST = 12.0  # depth a pixel; a steeper step is not darker
_DARKNESS = 0.014


def draw(
    points: np.ndarray, colors: np.ndarray, azimuth: float, elevation: float, width: int, height: int
) -> np.ndarray:  # (height, width, 3) uint8
    """Points (N, 3), z up, in their colors (N, 3) of 0 to 255 on white, as large as fits the image.

    The viewer is far away: azimuth degrees from x towards y, elevation degrees above the horizon.
    """
    columns, rows = width * _SAMPLES, height * _SAMPLES
    seen = _turned(points, azimuth, elevation)  # (N, 3): to the right, upward, towards the viewer
    seen *= np.min((np.array([columns, rows]) - 2 * _MARGIN * _SAMPLES) / np.maximum(np.ptp(seen[:, :2], axis=0), 1e-9))
    column = (columns / 2 + seen[:, 0]).astype(np.int64)
    row = (rows / 2 - seen[:, 1]).astype(np.int64)
    radius = min(_OVERLAP * _spacing(row, column), _LARGEST * _SAMPLES, np.sqrt(_WRITES / (np.pi * len(points))))

    order = np.argsort(seen[:, 2], kind="stable")
    pixels, places = (row * columns + column)[order], np.arange(len(order), dtype=np.int32)
    owner = np.full(rows * columns, -1, np.int32)  # of each pixel: the nearest point, as its place in the order
    for down, along in _disc(radius):
        np.maximum.at(owner, pixels + (down * columns + along), places)

    empty = owner < 0
    nearness = np.where(empty, seen[:, 2].min(), seen[order[owner], 2]).astype(np.float32)
    image = colors[order[owner]] * _light(nearness.reshape(rows, columns)).reshape(-1, 1)
    image[empty] = 255
    return image.reshape(height, _SAMPLES, width, _SAMPLES, 3).mean(axis=(1, 3)).round().astype(np.uint8)


def _turned(points: np.ndarray, azimuth: float, elevation: float) -> np.ndarray:  # (N, 3) float64
    """The points as the viewer sees them, with the middle of their outline at zero."""
    a, e = np.radians((azimuth, elevation))
    right = np.array([-np.sin(a), np.cos(a), 0])
    towards = np.array([np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)])
    turned = (points - points[0]) @ np.stack([right, np.cross(towards, right), towards], axis=1)
    return turned - (turned.min(axis=0) + turned.max(axis=0)) / 2


def _spacing(row: np.ndarray, column: np.ndarray) -> float:
    """The usual distance of points in pixels; the median is not led astray by walls that are seen from their edge."""
    counts = np.bincount((row // _CELL) * (column.max() // _CELL + 1) + column // _CELL)
    return _CELL / np.sqrt(np.median(counts[counts > 0]))


def _disc(radius: float) -> np.ndarray:  # (K, 2)
    """The rows and columns of the pixels in a disc around zero."""
    reach = np.arange(-int(radius), int(radius) + 1)
    offsets = np.stack(np.meshgrid(reach, reach, indexing="ij"), axis=-1).reshape(-1, 2)
    return offsets[(offsets**2).sum(axis=1) <= radius**2]


def _light(nearness: np.ndarray) -> np.ndarray:  # (rows, columns), 1 where nothing darkens
    """Eye-dome lighting (Boucheny 2009): a pixel is the darker, the more those around it stand out before it.

    It needs no normals, shades slopes and leaves a dark rim behind every edge.
    """
    rows, columns = nearness.shape
    steps = np.zeros_like(nearness)
    for reach in (3, 9):  # fine relief, and what stands before what
        around = np.pad(nearness, reach, mode="edge")
        for angle in np.arange(8) * np.pi / 4:
            down, along = reach + round(reach * np.sin(angle)), reach + round(reach * np.cos(angle))
            steps += np.clip((around[down : down + rows, along : along + columns] - nearness) / reach, 0, _STEEPEST)
    return np.exp(-_DARKNESS * steps)
