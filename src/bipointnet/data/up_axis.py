"""The axis that points up: rotate a cloud so that another axis does."""

import numpy as np

AXES = "xyz"


def rotate_up(points: np.ndarray, up: str, to: str) -> np.ndarray:
    """Points (..., 3) in which the axis `up` points up, rotated so that the axis `to` does.

    It is a quarter turn about the third axis, which stays. Programs that convert between y up and z up do the same, so
    an object keeps its front.

    >>> rotate_up(np.array([[1, 2, 3]]), up="z", to="y")  # 3 was up along z, and is up along y
    array([[ 1,  3, -2]])
    """
    if up == to:
        return points
    old, new = AXES.index(up), AXES.index(to)
    turned = points.copy()
    turned[..., new], turned[..., old] = points[..., old], -points[..., new]
    return turned
