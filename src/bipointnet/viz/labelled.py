"""Write a labelled cloud for people to look at: PLY for their viewer, a picture, a page, or the bare labels.

All take points (N, 3), labels (N,) of whole numbers, and the names of the classes, so that label k is names[k].
"""

import base64
import io
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bipointnet.data.clouds import require_finite
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.viz.palette import colors
from bipointnet.viz.render import draw

HIDDEN = ("ceiling",)  # who looks into a room from above sees nothing else
PAGE_POINTS = 400_000
PICTURE_POINTS = 1_000_000
PICTURE = (1600, 720)  # width and height in pixels, the legend included
LEGEND = 320
_LISTED = 70  # classes in the legend of a picture
_VIEWS = ((-60, 22), (120, 22))  # azimuth and elevation: an object from before and from behind
_ROOM_VIEWS = ((-60, 42), (-90, 90))  # a room as a doll's house, and as a plan
_PAGE = Path(__file__).with_name("labelled.html")
_STEPS = 65535  # of a coordinate on the page, from one side of the cloud to the other


def write_ply(path: str | Path, points: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> None:
    """Binary PLY: x, y, z, the class's color, and the property `label`; comments say the name of each label.

    Coordinates are doubles where floats would move a point by more than a millionth of the cloud's extent.
    """
    points, labels = _checked(points, labels, names)
    real, keyword = ("<f4", "float") if _fits_float32(points) else ("<f8", "double")
    fields = dict.fromkeys("xyz", (real, keyword))
    fields |= dict.fromkeys(("red", "green", "blue"), ("u1", "uchar")) | {"label": ("<i4", "int")}
    vertices = np.empty(len(points), [(field, code) for field, (code, _) in fields.items()])
    for column, axis in enumerate("xyz"):
        vertices[axis] = points[:, column]
    for channel, of_class in zip(("red", "green", "blue"), colors(len(names)).T, strict=True):
        vertices[channel] = of_class[labels]
    vertices["label"] = labels
    header = [
        "ply",
        "format binary_little_endian 1.0",
        # Some readers, trimesh among them, end the header at this word wherever in a line it stands.
        *(f"comment label {k} is {_on_one_line(n)}".replace("end_header", "end-header") for k, n in enumerate(names)),
        f"element vertex {len(vertices)}",
        *(f"property {keyword} {field}" for field, (_, keyword) in fields.items()),
        "end_header\n",
    ]
    _write(path, b"".join(["\n".join(header).encode(), vertices.data]))


def write_npy(path: str | Path, labels: np.ndarray) -> None:
    """The labels (N,) as int32, in NumPy's format."""
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(labels, np.int32))
    _write(path, buffer.getvalue())


def write_png(
    path: str | Path,
    points: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    *,
    up: str = "z",
) -> None:
    """A picture of two views and a legend; `up` is the axis that points up.

    A cloud with a class of HIDDEN is a room: that class is left out, the first view leaves out the walls before
    the viewer too, and the second is the plan.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise UserError(
            f"{path}: pictures need matplotlib, which is not installed; install it with: pip install"
            " 'bipointnet[train]', or write a page (.html)"
        ) from error
    points, labels = _checked(points, labels, names)
    palette, counts = colors(len(names)), np.bincount(labels, minlength=len(names))
    is_hidden = _hidden_at_first(names, counts)  # (classes,)
    chosen = _thinned(labels, PICTURE_POINTS)
    drawn = _two_views(_upright(points[chosen], up), palette[labels[chosen]], is_hidden[labels[chosen]])
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
    # Written afterwards and as they are: as labels, names with $ would be formulas, and those with _ before left out.
    for text, label in zip(legend.get_texts(), listed, strict=True):
        name = _on_one_line(names[label])[: 28 if one_column else 18]
        unseen = ", not drawn" if is_hidden[label] else ""
        text.set(text=f"{name}  {_share(counts[label], len(labels))}{unseen}", parse_math=False)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # letters that the font has not are boxes
        figure.savefig(buffer, format="png", dpi=100)
    _write(path, buffer.getvalue())


def write_html(
    path: str | Path,
    points: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    title: str,
    *,
    up: str = "z",
) -> None:
    """One page that needs nothing else: the cloud to turn, classes to show and hide; those of HIDDEN are so at first.

    The page holds three uint16 a point, class after class, so that the counts of the classes tell the label of each.
    """
    points, labels = _checked(points, labels, names)
    chosen = _thinned(labels, PAGE_POINTS)
    xyz = _upright(points[chosen], up).astype(np.float64)
    lower, upper = xyz.min(axis=0), xyz.max(axis=0)
    steps = np.round((xyz - lower) * (_STEPS / np.where(upper > lower, upper - lower, 1))).astype("<u2")  # (M, 3)
    counts, kept = (np.bincount(of, minlength=len(names)) for of in (labels, labels[chosen]))
    is_hidden = _hidden_at_first(names, counts)
    cloud = {
        "title": _on_one_line(title),
        "count": _how_many(len(chosen), len(labels)),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "classes": [
            {
                "name": _on_one_line(names[label]),
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
    # No text of the page can end its script or begin a comment in it.
    data = json.dumps(cloud).replace("<", "\\u003c")
    _write(path, _PAGE.read_text(encoding="utf-8").replace("{{cloud}}", data).encode())


def _checked(points: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The points as floats and the labels, or UserError where they do not belong together."""
    points, labels = np.asarray(points), np.asarray(labels)
    if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "fiu":
        raise UserError(
            f"points: {points.dtype} of shape {points.shape} where numbers of shape (N, 3) are expected; pass x, y"
            " and z of every point"
        )
    if len(points) == 0:
        raise UserError("points: there are none where at least one is expected; pass a cloud that has points")
    if labels.shape != (len(points),) or labels.dtype.kind not in "iu":
        raise UserError(
            f"labels: {labels.dtype} of shape {labels.shape} where whole numbers of shape ({len(points)},) are"
            " expected; pass one label for each point"
        )
    outside = (labels < 0) | (labels >= len(names))
    if outside.any():
        first = int(outside.argmax())
        raise UserError(
            f"labels: point {first} (counted from 0) has label {labels[first]} where 0 to {len(names) - 1} are"
            f" expected, as {len(names)} classes are named; name every class"
        )
    require_finite(points, "points")
    return points if points.dtype.kind == "f" else points.astype(np.float64), labels.astype(np.int64)


def _fits_float32(points: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        moved = np.abs(points.astype(np.float32) - points).max()
    return bool(moved <= 1e-6 * np.ptp(points, axis=0).max())


def _thinned(labels: np.ndarray, limit: int) -> np.ndarray:
    """Indices of `limit` points, or of all if they are fewer, class after class; every class keeps its share, and one
    point at least.

    Drawn at random, as every k-th point of a scan would make stripes, but always the same ones.
    """
    order = np.random.default_rng(0).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    if len(order) <= limit:
        return order
    counts = np.unique(labels, return_counts=True)[1]  # (C,) of the classes that occur
    # One point for each class, and of all others a share that is less than 1, so that no class is asked for too many.
    ends = np.cumsum(counts - 1) * (limit - len(counts)) // (len(labels) - len(counts))
    kept = 1 + np.diff(ends, prepend=0)  # their sum is the limit
    place_in_class = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[place_in_class < np.repeat(kept, counts)]


def _upright(points: np.ndarray, up: str) -> np.ndarray:
    """The points turned so that z is up; a cycle of the axes is a turn and mirrors nothing."""
    if up not in ("x", "y", "z"):
        raise UserError(f"up is {up!r} where one of x, y, z is expected; name the axis that points up")
    return np.roll(points, 2 - "xyz".index(up), axis=1)


def _hidden_at_first(names: Sequence[str], counts: np.ndarray) -> np.ndarray:  # (classes,) bool
    """Which classes that occur are in HIDDEN; none, if nothing else would be left to see."""
    found = np.array([name.lower() in HIDDEN for name in names]) & (counts > 0)
    return found & bool(counts[~found].any())


def _two_views(points: np.ndarray, rgb: np.ndarray, left_out: np.ndarray) -> np.ndarray:  # (height, width, 3) uint8
    """Both views side by side, of the points and colors (N, 3) but those left out (N,)."""
    is_room = left_out.any()
    views = []
    for azimuth, elevation in _ROOM_VIEWS if is_room else _VIEWS:
        shown = ~left_out
        if is_room and elevation < 90:
            behind = shown & ~_before_the_viewer(points, azimuth)
            shown = behind if behind.any() else shown
        views.append(draw(points[shown], rgb[shown], azimuth, elevation, (PICTURE[0] - LEGEND) // 2, PICTURE[1]))
    return np.hstack(views)


def _before_the_viewer(points: np.ndarray, azimuth: float) -> np.ndarray:  # (N,) bool
    """Which points lie at the two sides of the cloud's box that a viewer from above looks over."""
    lower, upper = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    towards = np.array([np.cos(np.radians(azimuth)), np.sin(np.radians(azimuth))])
    depth = np.where(towards > 0, upper - points[:, :2], points[:, :2] - lower)  # (N, 2) behind each side
    return (depth < 0.03 * (upper - lower)).any(axis=1)


def _how_many(shown: int, of: int) -> str:
    return f"{of:,} points" if shown == of else f"showing {shown:,} of {of:,} points"


def _share(count: np.intp, of: int) -> str:
    return f"{100 * count / of:.1f} %" if 1000 * count >= of else "< 0.1 %"


def _on_one_line(name: str) -> str:
    """A name without what could end a line or a header, or has no encoding."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in name).split())


def _write(path: str | Path, content: bytes) -> None:
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: a folder where the file to write is expected; name a file in it")
    try:
        write_beside(path, content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another place") from error
