"""The viewer that all pages share: its script, and the form in which it takes a cloud."""

from pathlib import Path

import numpy as np

from bipointnet.errors import UserError

_STEPS = 65535  # coordinates are 0 to 65535, from one side of the cloud to the other


def viewer_script() -> str:
    """The content of viewer.js, which defines the class Viewer.

    >>> "class Viewer {" in viewer_script()
    True
    """
    return Path(__file__).with_name("viewer.js").read_text(encoding="utf-8")


def quantized(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (N, 3) as the viewer takes them: uint16 steps (N, 3), and the least and largest coordinates (3,).

    >>> steps, lower, upper = quantized(np.array([[0.0, 1.0, 5.0], [2.0, 1.0, 6.0]]))
    >>> steps.tolist(), lower.tolist(), upper.tolist()
    ([[0, 0, 0], [65535, 0, 65535]], [0.0, 1.0, 5.0], [2.0, 1.0, 6.0])
    """
    xyz = points.astype(np.float64)
    lower, upper = xyz.min(axis=0), xyz.max(axis=0)
    steps = np.round((xyz - lower) * (_STEPS / np.where(upper > lower, upper - lower, 1)))
    return steps.astype("<u2"), lower, upper


def upright(points: np.ndarray, up: str) -> np.ndarray:
    """Rotate the points so that z is up; a cyclic permutation of the axes is a rotation, not a reflection.

    >>> upright(np.array([[1, 2, 3]]), up="y").tolist()  # 2 was up
    [[3, 1, 2]]
    """
    if up not in ("x", "y", "z"):
        raise UserError(f"up is {up!r}, expected one of x, y, z; name the axis that points up")
    return np.roll(points, 2 - "xyz".index(up), axis=1)


def on_one_line(name: str) -> str:
    """A name without characters that could end a line or a header or that have no encoding.

    >>> on_one_line("two\\nlines")
    'two lines'
    """
    return " ".join("".join(letter if letter.isprintable() else " " for letter in name).split())
