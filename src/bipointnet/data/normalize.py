"""The one rule that brings a cloud into the unit sphere, for NumPy arrays and PyTorch tensors alike."""

from typing import Any, TypeVar

import numpy as np

Points = TypeVar("Points")  # a NumPy array or a PyTorch tensor; this module needs no PyTorch


def normalize(points: Points, center: str = "mean") -> Points:
    """Center xyz of a cloud, or of each cloud of a batch (..., N, C), and scale its farthest point to distance 1.

    center: "mean", the mean point, or "box", the middle of the smallest box along the axes, which does not depend on
    the density of the points. Channels past the third stay as they are. A cloud of identical points becomes zeros.
    Integers become float32.

    >>> normalize(np.array([[1.0, 0, 0], [3.0, 0, 0]])).tolist()
    [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    clouds: Any = points
    arrays: Any = np  # the library that `points` belongs to
    if isinstance(points, np.ndarray):
        clouds = clouds if clouds.dtype in (np.float32, np.float64) else clouds.astype(np.float32)
        wide, narrow = np.float64, clouds.dtype
    else:
        import torch as arrays

        wide, narrow = arrays.float64, clouds.dtype
    # Relative to the first point, identical points are exact zeros and clouds far from the origin lose no digits.
    xyz = arrays.asarray(clouds[..., :3] - clouds[..., :1, :3], dtype=wide)  # (..., N, 3)
    if center == "mean":
        middle = xyz.mean(axis=-2, keepdims=True)
    else:
        middle = (arrays.amin(xyz, axis=-2, keepdims=True) + arrays.amax(xyz, axis=-2, keepdims=True)) / 2
    xyz = arrays.asarray(xyz - middle, dtype=narrow)
    # Two steps, as the squares of large or tiny coordinates leave the range of float32.
    size = arrays.amax(abs(xyz), axis=(-2, -1), keepdims=True)
    xyz = xyz / arrays.where(size > 0, size, size + 1)
    squares = sum(xyz[..., i : i + 1] ** 2 for i in range(xyz.shape[-1]))  # (..., N, 1), summed in this order
    radius = arrays.sqrt(arrays.amax(squares, axis=-2, keepdims=True))
    xyz = xyz / arrays.where(radius > 0, radius, radius + 1)
    return arrays.concatenate([xyz, clouds[..., 3:]], axis=-1)
