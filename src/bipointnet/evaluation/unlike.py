"""Warnings for a cloud that is unlike the training data. One pure function, so that other languages can copy it."""

from collections.abc import Mapping
from typing import Any, TypeGuard

# A network normalizes the scale of a cloud, so only a gross difference tells something: meters against millimeters.
EXTENT_FACTOR = 3
# With a quarter of the points of the training, 1-bit networks lose 11 (ModelNet40) to 18 percentage points (shapes).
POINTS_FACTOR = 4


def warnings(facts: Mapping[str, Any], extent: float, points: int, probability: float) -> list[str]:
    """What is unusual about a cloud and its prediction, one clause per finding; empty if nothing is.

    Args:
        facts: of the training. points: number of points per cloud. extent: the 1st and the 99th percentile of the
            largest side of the bounding box. confidence: the 5th percentile of the winning probability on held-out
            clouds. What is absent or None is not checked.
        extent: largest side of the cloud's bounding box.
        points: number of points in the file.
        probability: of the predicted class.

    >>> warnings({"points": 128, "extent": [0.5, 2.0], "confidence": 0.4}, 1.5, 2048, 0.9)
    []
    >>> warnings({"points": 128, "extent": [0.5, 2.0], "confidence": 0.4}, 1500.0, 16, 0.9)  # doctest: +ELLIPSIS
    ['its largest side is 1500, in training 0.5 to 2: wrong units?', 'number of points 16, in training 128: ...']
    """
    found: list[str] = []
    sides = facts.get("extent")
    if isinstance(sides, (list, tuple)) and len(sides) == 2 and all(_is_number(side) for side in sides):
        least, most = sides
        if extent == 0:
            found.append("all points are in one place")
        elif not least / EXTENT_FACTOR <= extent <= most * EXTENT_FACTOR:
            found.append(f"its largest side is {extent:.4g}, in training {least:.4g} to {most:.4g}: wrong units?")
    usual = facts.get("points")
    if _is_number(usual) and points * POINTS_FACTOR <= usual:
        found.append(f"number of points {points}, in training {usual}: too few to be sure")
    confidence = facts.get("confidence")
    if _is_number(confidence) and probability < confidence:
        found.append(
            f"probability {100 * probability:.1f} %, 95 % of the test clouds had {100 * confidence:.1f} % or more: "
            "perhaps none of the classes"
        )
    return found


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
