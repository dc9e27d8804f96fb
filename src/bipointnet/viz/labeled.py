"""Write a labeled cloud: as PLY for any viewer, as a picture, as a web page, or only its labels.

All functions take points (N, 3), integer labels (N,), and the names of the classes: label k is names[k].
"""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bipointnet.data.clouds import require_finite
from bipointnet.errors import UserError, describe_os_error
from bipointnet.extras import require
from bipointnet.files import write_all
from bipointnet.viz.palette import colors
from bipointnet.viz.picture import PLAIN, png_of
from bipointnet.viz.render import render
from bipointnet.viz.viewer import on_one_line, quantized, upright, viewer_script

HIDDEN = ("ceiling",)  # seen from above, it hides the room
HIDDEN_SHARE = 0.5  # of all points, at most; the ceiling of a room has about a fifth
PAGE_POINTS = 400_000
PICTURE_POINTS = 1_000_000
PICTURE = (1600, 720)  # width and height in pixels, including the legend
LEGEND = 320
_LISTED = 70  # at most as many classes in the legend of a picture
_VIEWS = ((-60, 22), (120, 22))  # azimuth and elevation: an object from the front and from behind
_ROOM_VIEWS = ((-60, 42), (-90, 90))  # a room from above at an angle, and as a floor plan
_PAGE = Path(__file__).with_name("labeled.html")


def write_ply(
    path: str | Path, points: np.ndarray, labels: np.ndarray, names: Sequence[str], codes: Sequence[int] | None = None
) -> None:
    """Write a binary PLY with x, y, z, the color of the class, and the property `label`; comments name the labels.

    codes: the label to write for each class; default: its number.

    Coordinates are double if float would move a point by more than a millionth of the cloud's extent.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "room.ply"
    >>> write_ply(path, np.zeros((2, 3)), np.array([0, 1]), ["floor", "chair"])
    >>> path.read_bytes().splitlines()[2:4]
    [b'comment label 0 is floor', b'comment label 1 is chair']
    """
    write({path: ply_bytes(points, labels, names, codes)})


def ply_bytes(
    points: np.ndarray, labels: np.ndarray, names: Sequence[str], codes: Sequence[int] | None = None
) -> bytes:
    """The content of the file that `write_ply` writes."""
    codes = range(len(names)) if codes is None else codes
    points, labels = _checked(points, labels, names)
    real, keyword = ("<f4", "float") if _fits_float32(points) else ("<f8", "double")
    fields = dict.fromkeys("xyz", (real, keyword))
    fields |= dict.fromkeys(("red", "green", "blue"), ("u1", "uchar")) | {"label": ("<i4", "int")}
    vertices = np.empty(len(points), [(field, code) for field, (code, _) in fields.items()])
    for column, axis in enumerate("xyz"):
        vertices[axis] = points[:, column]
    for channel, levels in zip(("red", "green", "blue"), colors(len(names)).T, strict=True):
        vertices[channel] = levels[labels]
    vertices["label"] = np.array(codes)[labels]
    header = [
        "ply",
        "format binary_little_endian 1.0",
        # Some readers, such as trimesh, end the header at this word even within a line.
        *(
            f"comment label {code} is {on_one_line(name)}".replace("end_header", "end-header")
            for code, name in zip(codes, names, strict=True)
        ),
        f"element vertex {len(vertices)}",
        *(f"property {keyword} {field}" for field, (_, keyword) in fields.items()),
        "end_header\n",
    ]
    return b"".join(["\n".join(header).encode(), vertices.data])


def write_npy(path: str | Path, labels: np.ndarray) -> None:
    """Write the labels (N,) as int64, in NumPy's format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels.npy"
    >>> write_npy(path, np.array([0, 1, 1]))
    >>> np.load(path).tolist()
    [0, 1, 1]
    """
    write({path: npy_bytes(labels)})


def npy_bytes(labels: np.ndarray) -> bytes:
    """The content of the file that `write_npy` writes."""
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(labels, np.int64))
    return buffer.getvalue()


def write_png(
    path: str | Path,
    points: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    *,
    up: str = "z",
) -> None:
    """Write a picture of two views with a legend; `up` is the axis that points up.

    A cloud in which classes of HIDDEN have at most half of the points is drawn as a room: without these classes, first
    without the walls next to the viewer, then as a floor plan.

    >>> import tempfile
    >>> room = np.random.default_rng(0).uniform(0, 4, (5000, 3))
    >>> path = Path(tempfile.mkdtemp()) / "room.png"
    >>> write_png(path, room, (room[:, 2] > 3.9).astype(int), ["chair", "ceiling"])
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    write({path: png_bytes(points, labels, names, up=up)})


def png_bytes(points: np.ndarray, labels: np.ndarray, names: Sequence[str], *, up: str = "z") -> bytes:
    """The content of the file that `write_png` writes."""
    require("a picture", "matplotlib")
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    points, labels = _checked(points, labels, names)
    palette, counts = colors(len(names)), np.bincount(labels, minlength=len(names))
    is_hidden = _hidden_at_first(names, counts)  # (classes,)
    chosen = _thinned(labels, PICTURE_POINTS)
    drawn = _two_views(upright(points[chosen], up), palette[labels[chosen]], is_hidden[labels[chosen]])
    figure = Figure(figsize=(PICTURE[0] / 100, PICTURE[1] / 100), dpi=100)
    figure.figimage(drawn, origin="upper")

    listed = [int(k) for k in np.sort(np.argsort(-counts, kind="stable")[: min(_LISTED, np.count_nonzero(counts))])]
    one_column = len(listed) <= _LISTED // 2
    legend = figure.legend(
        [Patch(color=tuple(palette[label] / 255)) for label in listed],
        [" "] * len(listed),
        title=_how_many(len(chosen), len(labels)),
        frameon=False,
        alignment="left",
        loc="center left",
        bbox_to_anchor=(1 - LEGEND / PICTURE[0], 0.5),
        ncols=1 if one_column else 2,
        fontsize=10 if one_column else 7.5,
        handlelength=1.2,
        columnspacing=1,
    )
    # Set afterwards: as labels, names that begin with _ would be left out.
    for text, label in zip(legend.get_texts(), listed, strict=True):
        name = on_one_line(names[label])[: 28 if one_column else 18]
        unseen = ", not drawn" if is_hidden[label] else ""
        text.set(text=f"{name}  {_share(counts[label], len(labels))}{unseen}", **PLAIN)
    return png_of(figure, 100)


def write_html(
    path: str | Path,
    points: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    title: str,
    *,
    up: str = "z",
) -> None:
    """Write one self-contained web page: a cloud to rotate, with classes to show and hide; HIDDEN ones start hidden.

    The page stores three uint16 per point, sorted by class, so that the class counts determine the labels.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "room.html"
    >>> write_html(path, np.random.default_rng(0).normal(size=(100, 3)), np.zeros(100, int), ["chair"], "A chair")
    >>> "A chair" in path.read_text()
    True
    """
    write({path: html_bytes(points, labels, names, title, up=up)})


def html_bytes(points: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str, *, up: str = "z") -> bytes:
    """The content of the file that `write_html` writes."""
    points, labels = _checked(points, labels, names)
    chosen = _thinned(labels, PAGE_POINTS)
    steps, lower, upper = quantized(upright(points[chosen], up))
    counts, kept = (np.bincount(each, minlength=len(names)) for each in (labels, labels[chosen]))
    is_hidden = _hidden_at_first(names, counts)
    cloud = {
        "title": on_one_line(title),
        "count": _how_many(len(chosen), len(labels)),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "classes": [
            {
                "name": on_one_line(names[label]),
                "color": f"#{bytes(color).hex()}",
                "share": _share(counts[label], len(labels)),
                "points": int(kept[label]),
                "hidden": bool(is_hidden[label]),
            }
            for label, color in enumerate(colors(len(names)))
            if counts[label]
        ],
        "steps": base64.b64encode(steps.data).decode(),
    }
    # Without <, no text in the data can end the script or begin a comment in it.
    data = json.dumps(cloud).replace("<", "\\u003c")
    page = _PAGE.read_text(encoding="utf-8").replace("{{viewer}}", viewer_script())
    return page.replace("{{cloud}}", data).encode()


def is_page(file: Path) -> bool:
    """Whether a file is a page as `write_html` writes it."""
    try:
        with open(file, "rb") as stream:
            return b"<title>Labeled point cloud</title>" in stream.read(1000)
    except FileNotFoundError:
        return False


def _checked(points: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The points as floats and the labels, or UserError if they do not match."""
    points, labels = np.asarray(points), np.asarray(labels)
    if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "fiu":
        raise UserError(
            f"points: {points.dtype} of shape {points.shape}, expected numbers of shape (N, 3); pass x, y and z of"
            " every point"
        )
    if len(points) == 0:
        raise UserError("points: the cloud is empty, expected at least one point; pass a cloud that has points")
    if labels.shape != (len(points),) or labels.dtype.kind not in "iu":
        raise UserError(
            f"labels: {labels.dtype} of shape {labels.shape}, expected whole numbers of shape ({len(points)},); pass"
            " one label per point"
        )
    outside = (labels < 0) | (labels >= len(names))
    if outside.any():
        first = int(outside.argmax())
        raise UserError(
            f"labels: point {first} (counted from 0) has label {labels[first]}, expected 0 to {len(names) - 1} for"
            f" {len(names)} names; name every class"
        )
    require_finite(points, "points")
    return points if points.dtype.kind == "f" else points.astype(np.float64), labels.astype(np.int64)


def _fits_float32(points: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        moved = np.abs(points.astype(np.float32) - points).max()
    return bool(moved <= 1e-6 * np.ptp(points, axis=0).max())


def _thinned(labels: np.ndarray, limit: int) -> np.ndarray:
    """Indices of at most `limit` points, sorted by class; every class keeps its share, and at least one point.

    The points are random, since every k-th point of a scan would make stripes, but the same in each call.
    """
    order = np.random.default_rng(0).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    if len(order) <= limit:
        return order
    counts = np.unique(labels, return_counts=True)[1]  # (C,) of the classes that occur
    # One point per class, and of all others a share less than 1, so that no class has too few points.
    ends = np.cumsum(counts - 1) * (limit - len(counts)) // (len(labels) - len(counts))
    kept = 1 + np.diff(ends, prepend=0)  # their sum is the limit
    place_in_class = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[place_in_class < np.repeat(kept, counts)]


def _hidden_at_first(names: Sequence[str], counts: np.ndarray) -> np.ndarray:  # (classes,) bool
    """Which classes in the cloud are in HIDDEN; none if they have most of the points, which are then the subject."""
    found = np.array([name.lower() in HIDDEN for name in names]) & (counts > 0)
    return found & bool(counts[found].sum() <= HIDDEN_SHARE * counts.sum())


def _two_views(points: np.ndarray, rgb: np.ndarray, left_out: np.ndarray) -> np.ndarray:  # (height, width, 3) uint8
    """Both views side by side, of points and colors (N, 3), without those marked in left_out (N,)."""
    is_room = left_out.any()
    views = []
    for azimuth, elevation in _ROOM_VIEWS if is_room else _VIEWS:
        shown = ~left_out
        if is_room and elevation < 90:
            behind = shown & ~_near_the_viewer(points, azimuth)
            shown = behind if behind.any() else shown
        views.append(render(points[shown], rgb[shown], azimuth, elevation, (PICTURE[0] - LEGEND) // 2, PICTURE[1]))
    return np.hstack(views)


def _near_the_viewer(points: np.ndarray, azimuth: float) -> np.ndarray:  # (N,) bool
    """Which points are at the two sides of the cloud's bounding box that face the viewer."""
    lower, upper = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    toward = np.array([np.cos(np.radians(azimuth)), np.sin(np.radians(azimuth))])
    depth = np.where(toward > 0, upper - points[:, :2], points[:, :2] - lower)  # (N, 2) behind each side
    return (depth < 0.03 * (upper - lower)).any(axis=1)


def _how_many(shown: int, total: int) -> str:
    return f"{total:,} points" if shown == total else f"showing {shown:,} of {total:,} points"


def _share(count: np.intp, total: int) -> str:
    return f"{100 * count / total:.1f} %" if 1000 * count >= total else "< 0.1 %"


def write(contents: Mapping[str | Path, bytes]) -> None:
    """Write files, all of them or none; UserError if that is not possible."""
    try:
        write_all({Path(path): content for path, content in contents.items()})
    except OSError as error:
        raise UserError(describe_os_error(error)) from error
