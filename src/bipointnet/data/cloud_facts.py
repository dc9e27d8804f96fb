"""What a cloud file holds, as `bipointnet inspect` shows it: columns, extent, and guesses at unit and up axis."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet.data.clouds import Cloud, read

_SAMPLE = 500  # points whose nearest neighbors are searched
_MOST = 20_000  # points that are compared with each of these, in about
# The axis that points up by the definition of the format, or by the custom of all scanners that write it.
_UP = {"glTF": "y", "LAS": "z", "LAZ": "z", "E57": "z", "PTX": "z"}


class Guess(NamedTuple):
    """A guess and its reason, for people.

    value: None if there is no sound rule for this cloud. certain: whether the format defines it.
    """

    value: str | None
    reason: str
    certain: bool = False


def inspect_cloud(path: Path, *, columns: tuple[str, ...] = (), strict: bool = False) -> dict[str, Any]:
    """The facts of a cloud or mesh in a file, as `inspect --json` prints them.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "stick.xyz"
    >>> _ = path.write_text("0 0 0\\n0 0 1\\n0 0 2\\n")
    >>> facts = inspect_cloud(path)
    >>> facts["points"], facts["extent"], facts["spacing"]
    (3, [0.0, 0.0, 2.0], 1.0)
    """
    return facts_of(read(path, columns=columns, strict=strict))


def facts_of(cloud: Cloud) -> dict[str, Any]:
    """The facts of a cloud, see `inspect_cloud`."""
    xyz = cloud.points.astype(np.float64)
    low, high = xyz.min(axis=0), xyz.max(axis=0)
    extent = high - low
    spacing = median_spacing(cloud.points)
    unit, up = guess_unit(cloud, extent), guess_up(cloud)
    ranges = {axis: [float(low[i] + cloud.origin[i]), float(high[i] + cloud.origin[i])] for i, axis in enumerate("xyz")}
    ranges |= {name: _range(values) for name, values in cloud.fields.items()}
    return {
        "kind": "cloud",
        "format": cloud.format,
        "points": len(xyz),
        "dropped": cloud.dropped,
        "faces": 0 if cloud.faces is None else len(cloud.faces),
        "columns": list(cloud.columns),
        "ranges": ranges,
        "colors": cloud.colors is not None,
        "color_scale": cloud.color_scale or None,
        "extent": extent.tolist(),
        "origin": list(cloud.origin),
        "spacing": spacing,
        "unit": unit._asdict(),
        "up": up._asdict(),
        "use": _use(cloud, up),
        "notes": list(cloud.notes),
    }


def _use(cloud: Cloud, up: Guess) -> str:
    """What the commands do with the cloud."""
    if cloud.faces is not None:
        return "predict draws points on its surface; segment labels its vertices."
    colors = "finds no colors" if cloud.colors is None else "reads its colors if the network has a color input"
    turn = f", but {up.value} seems to point up here" if up.value not in (None, "z") else ""
    return (
        "predict takes x, y, z of at most as many points as the network was trained with; segment labels every point, "
        f"{colors}, and expects rooms and scans in meters with z up{turn}."
    )


def _range(values: np.ndarray) -> list[float] | None:
    """The least and the largest finite value, or None without one."""
    finite = values[np.isfinite(values)]
    return [float(finite.min()), float(finite.max())] if len(finite) else None


def guess_unit(cloud: Cloud, extent: np.ndarray) -> Guess:
    """The unit of length by the size of the cloud; most scans and models fit one only.

    >>> guess_unit(Cloud(np.zeros((1, 3), np.float32)), np.array([4100.0, 3000.0, 2600.0])).value
    'millimeters'
    """
    size = float(extent.max())
    if cloud.format.startswith("glTF"):
        return Guess("meters", "glTF defines it", certain=True)
    if size == 0:
        return Guess(None, "all points are in one place")
    if any(cloud.origin):
        return Guess("meters", "far from the origin, like a georeferenced scan")
    if size > 1000:
        return Guess("millimeters", f"{size:.4g} m would be large for an object or a room, {size / 1000:.4g} m is not")
    if size > 2.5:
        return Guess("meters", f"{size:.4g} m is a usual size of a room, a scan or a vehicle")
    return Guess(None, f"{size:.4g} is the size of a normalized object, or of an object in meters")


def guess_up(cloud: Cloud) -> Guess:
    """The axis that points up, where the format defines it or a floor shows it.

    A floor: more than a tenth of all points is in the lowest or highest fiftieth of one axis, and less than half as
    many are at the ends of the other axes.
    """
    for name, axis in _UP.items():
        if cloud.format.startswith(name):
            return Guess(axis, f"{name} files have it so")
    if len(cloud.points) < 200 or cloud.faces is not None:
        return Guess(None, "the format does not define it")
    low, high = cloud.points.min(axis=0), cloud.points.max(axis=0)
    layer = (high - low) / 50
    lowest = (cloud.points <= low + layer).mean(axis=0)
    highest = (cloud.points >= high - layer).mean(axis=0)
    shares = np.maximum(lowest, highest)
    _, second, best = np.argsort(shares)
    if shares[best] > 0.1 and shares[second] < 0.5 * shares[best]:
        return Guess("xyz"[best], f"{100 * shares[best]:.0f} % of the points are in one layer at its end, like a floor")
    return Guess(None, "the format does not define it, and no floor shows it")


def median_spacing(points: np.ndarray) -> float | None:
    """The median distance from a point to its nearest neighbor in another place; None if all points are in one place.

    It is measured at 500 points, chosen evenly along the longest axis.

    >>> grid = np.stack(np.meshgrid(*[np.arange(10.0)] * 3), axis=-1).reshape(-1, 3)
    >>> median_spacing(grid.astype(np.float32))
    1.0
    """
    axis = int(np.ptp(points, axis=0).argmax())
    ordered = points[np.argsort(points[:, axis], kind="stable")].astype(np.float64)
    chosen = np.unique(np.linspace(0, len(ordered) - 1, _SAMPLE).astype(np.int64))
    found = [distance for index in chosen if (distance := _nearest(ordered, axis, index)) is not None]
    return float(np.median(found)) if found else None


def _nearest(ordered: np.ndarray, axis: int, index: int) -> float | None:
    """The distance from a point to the nearest one in another place; ordered: (N, 3) along `axis`.

    The search widens along the axis until no point outside of it can be nearer, or _MOST points were compared.
    """
    reach = 32
    while True:
        start, stop = max(index - reach, 0), min(index + reach + 1, len(ordered))
        squares = ((ordered[start:stop] - ordered[index]) ** 2).sum(axis=1)
        squares = squares[squares > 0]
        best = float(np.sqrt(squares.min())) if len(squares) else np.inf
        here = ordered[index, axis]
        outside = min(
            here - ordered[start, axis] if start > 0 else np.inf,
            ordered[stop - 1, axis] - here if stop < len(ordered) else np.inf,
        )
        if best <= outside or reach > _MOST:
            return best if best < np.inf else None
        reach *= 4
