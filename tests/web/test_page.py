"""The page in Chromium, from a file: samples, formats, models, mistakes, large clouds. It loads nothing else."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import bipointnet
from bipointnet.data.rooms import make_room
from bipointnet.data.shapes import held_out
from bipointnet.data.up_axis import rotate_up
from bipointnet.web.page import SAMPLES, page_bytes

pytestmark = pytest.mark.browser
GOLDEN = Path(__file__).parents[1] / "golden"
MODELS = ("local-tiny-modelnet40", "pointnet-vanilla-shapes")
ONE_MODEL_BYTES = 1_000_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_bytes(page_bytes(MODELS))
    return path


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    """The page after its first prediction. Requests to anything but itself, and errors, are failures."""
    page = browser.new_page(viewport={"width": 1200, "height": 760})
    errors, requests = list[str](), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    wait(page)
    yield page
    page.close()
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "blob:", "data:"))] == []


def wait(page: Page) -> None:
    """Wait until the page has done all its tasks."""
    page.wait_for_function("last.then(() => document.body.ariaBusy === 'false')")


def drop(page: Page, path: Path) -> None:
    page.set_input_files("#file", path)
    wait(page)


def answer(page: Page) -> str:
    assert page.is_hidden("#error"), page.inner_text("#error")
    return page.inner_text("#name")


def test_the_page_opens_with_a_prediction_and_every_sample_is_predicted_as_in_python(page):
    model = bipointnet.load(MODELS[0])
    assert page.locator("#samples button").count() == len(SAMPLES)
    for index, number in enumerate(SAMPLES):
        page.locator("#samples button").nth(index).click()
        wait(page)
        cloud = np.round(held_out(number, 2048)[0], 3).astype(np.float32)
        expected = model.predict(rotate_up(cloud, "z", "y"))
        assert answer(page) == expected.names
        assert page.locator(".bar small").first.inner_text() == f"{100 * expected.probabilities.max():.1f} %"
    assert re.search(r"2,048 points.*[\d.]+ ms per prediction, 62 kB", page.inner_text("#facts"))


def test_the_first_label_comes_within_two_seconds(browser, file):
    seconds = []
    while len(seconds) < 10 and min(seconds, default=2) >= 2:  # the machine may be busy
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(file.as_uri())
        wait(page)
        seconds.append(time.perf_counter() - start)
        page.close()
    assert min(seconds) < 2


def test_a_page_with_one_model_is_small():
    assert len(page_bytes(MODELS[:1])) < ONE_MODEL_BYTES


CHAIR = rotate_up(held_out(7, 1024)[0], "z", "y").astype(np.float32)
TEXT = "\n".join(" ".join(f"{value:.5f}" for value in point) for point in CHAIR.tolist())
PLY = "ply\nformat ascii 1.0\nelement vertex 1024\n" + "".join(f"property float {axis}\n" for axis in "xyz")
PCD = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 1024\nHEIGHT 1\nPOINTS 1024\nDATA ascii\n"
FACES = "".join(f"3 {3 * i} {3 * i + 1} {3 * i + 2}\n" for i in range(341))
FILES = {
    "a.xyz": TEXT,
    "a.txt": TEXT,
    "a.csv": "x,y,z\n" + TEXT.replace(" ", ","),
    "a.ply": f"{PLY}end_header\n{TEXT}\n",
    "a.pcd": PCD + TEXT,
    "a.off": f"OFF\n1024 341 0\n{TEXT}\n{FACES}",
    "a.obj": "".join(f"v {line}\n" for line in TEXT.splitlines()) + "f 1 2 3\n",
    "a.f32": CHAIR.tobytes(),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_can_be_dropped(page, tmp_path, name):
    content = FILES[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    drop(page, tmp_path / name)
    label = answer(page)
    if name not in ("a.off", "a.obj"):  # random triangles
        assert label == "chair"
    assert page.inner_text("#facts").startswith(f"{name}: 1,024 points")


def test_a_broken_file_leaves_the_page_as_it_was(page, tmp_path):
    (tmp_path / "bad.ply").write_text("ply\nformat ascii 1.0\nelement vertex 5\nend_header\n")
    before = answer(page)
    for path in (tmp_path / "bad.ply", GOLDEN / "answers.npz"):
        drop(page, path)
        assert "expected" in page.inner_text("#error")
        assert page.inner_text("#name") == before
    page.locator("#samples button").nth(1).click()
    wait(page)
    assert answer(page) == "laptop"


def shown_share(page: Page, name: str) -> str:
    (entry,) = [each for each in page.locator("#bars .bar").all() if each.locator("span").inner_text() == name]
    return entry.locator("small").inner_text()


def test_samples_follow_the_task_of_the_model(browser, tmp_path):
    (tmp_path / "index.html").write_bytes(page_bytes([MODELS[0], "pointnet2-shapenet-part", "pointnet2-s3dis"]))
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    wait(page)
    chair = answer(page)
    assert chair == "chair"
    page.select_option("#model", "pointnet2-shapenet-part")
    wait(page)
    assert page.is_hidden("#error")
    assert page.input_value("#category") == "Chair", "the name of the sample chooses the category"
    cloud = np.round(held_out(SAMPLES[0], 2048)[0], 3).astype(np.float32)
    model = bipointnet.load("pointnet2-shapenet-part")
    labels = model.segment(rotate_up(cloud, "z", "y"), category="Chair")
    share = 100 * (labels == model.classes.index("Chair/leg")).mean()
    assert shown_share(page, "Chair/leg") == f"{share:.1f} %"
    page.select_option("#model", "pointnet2-s3dis")
    wait(page)
    assert page.is_hidden("#error")
    visible = [each.inner_text() for each in page.locator("#samples button").all() if each.is_visible()]
    assert visible == ["generated room"]
    assert page.inner_text("#facts").startswith("generated room.ply: 16,000 points")
    assert page.locator("#bars .bar").count() > 3
    page.select_option("#model", MODELS[0])
    wait(page)
    assert answer(page) == chair
    page.close()


def test_models_can_be_chosen_and_dropped(page, tmp_path):
    page.select_option("#model", MODELS[1])
    wait(page)
    assert answer(page) == "chair"
    (tmp_path / "broken.bpn").write_bytes((GOLDEN / "shapes.bpn").read_bytes()[:-1])
    drop(page, tmp_path / "broken.bpn")
    assert "cut short" in page.inner_text("#error")
    assert page.input_value("#model") == MODELS[1]
    (tmp_path / "mine.bpn").write_bytes((GOLDEN / "shapes.bpn").read_bytes())
    drop(page, tmp_path / "mine.bpn")
    assert answer(page) in bipointnet.load(GOLDEN / "shapes.bpn").classes
    assert page.input_value("#model") == "mine.bpn"


def test_parts_and_rooms_are_labeled(page, tmp_path):
    (tmp_path / "parts.bpn").write_bytes((GOLDEN / "shapes-parts.bpn").read_bytes())
    drop(page, tmp_path / "parts.bpn")
    assert page.is_visible("#category")
    assert page.locator(".bar").count() >= 1
    page.select_option("#category", index=1)
    wait(page)
    room, _ = make_room(np.random.default_rng(0), 4096)
    rows = [" ".join(f"{value:.4f}" for value in point) for point in room.tolist()]
    (tmp_path / "room.csv").write_text("x y z red green blue\n" + "\n".join(rows))
    (tmp_path / "rooms.bpn").write_bytes((GOLDEN / "rooms-semantic.bpn").read_bytes())
    drop(page, tmp_path / "rooms.bpn")
    drop(page, tmp_path / "room.csv")
    assert page.is_hidden("#error"), page.inner_text("#error")
    assert page.is_hidden("#category")
    shares = [float(text.rstrip(" %")) for text in page.locator(".bar small").all_inner_texts()]
    assert sum(shares) == pytest.approx(100, abs=1)
    is_on_top = """mark => {
        mark.scrollIntoView();
        const { x, y, width, height } = mark.getBoundingClientRect();
        return document.elementFromPoint(x + width / 2, y + height / 2) === mark;
    }"""
    colors = page.locator(".bar b").all()
    assert colors
    assert all(color.evaluate(is_on_top) for color in colors), "something covers the color of a class"


def test_a_mesh_is_labeled_by_its_points(page, tmp_path):
    (tmp_path / "parts.bpn").write_bytes((GOLDEN / "shapes-parts.bpn").read_bytes())
    (tmp_path / "mesh.off").write_text(FILES["a.off"])
    drop(page, tmp_path / "parts.bpn")
    drop(page, tmp_path / "mesh.off")
    assert page.is_hidden("#error"), page.inner_text("#error")
    entry = page.locator("button.bar").first
    assert entry.get_attribute("aria-pressed") == "true"
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"


def test_no_answer_of_another_model_stands_beside_an_error(page, tmp_path):
    (tmp_path / "rooms.BPN").write_bytes((GOLDEN / "rooms-semantic.bpn").read_bytes())
    drop(page, tmp_path / "rooms.BPN")  # it reads colors, which the chair does not have
    assert "no colors" in page.inner_text("#error")
    assert page.inner_text("#answer").strip() == ""


def test_files_can_be_dropped_while_another_one_is_read(page, tmp_path):
    (tmp_path / "a.xyz").write_text(TEXT)
    script = """text => {
      for (const name of ["first.xyz", "second.xyz"]) {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([text], name));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
      }
    }"""
    page.evaluate(script, TEXT)
    wait(page)
    assert answer(page) == "chair"
    assert page.inner_text("#facts").startswith("second.xyz: 1,024 points")


def test_a_million_points_do_not_freeze_the_page(page, tmp_path):
    """The worker reads and predicts; what is left, and takes most of the time here, is drawing without a GPU."""
    cloud = np.tile(CHAIR, (977, 1)) + np.random.default_rng(0).normal(0, 1e-3, (977 * 1024, 3))
    (tmp_path / "large.f32").write_bytes(cloud.astype("<f4").tobytes())
    page.evaluate(
        """() => {
          window.longest = 0;
          let before = performance.now();
          setInterval(() => {
            const now = performance.now();
            longest = Math.max(longest, now - before);
            before = now;
          }, 10);
        }"""
    )
    frozen = []  # milliseconds
    while len(frozen) < 5 and min(frozen, default=1500) >= 1500:  # the machine may be busy
        page.evaluate("longest = 0")
        drop(page, tmp_path / "large.f32")
        assert answer(page) == "chair"
        assert page.inner_text("#facts").startswith("large.f32: 1,000,448 points")
        frozen.append(page.evaluate("longest"))
    assert min(frozen) < 1500


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1200, 760)])
def test_nothing_is_wider_than_the_window(browser, file, width, height):
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(file.as_uri())
    wait(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_a_keyboard_and_a_screen_reader_can_use_it(page):
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas")].filter(
          each => !(each.ariaLabel || each.labels?.length || each.textContent.trim())).map(each => each.outerHTML)"""
    )
    assert unnamed == []
    assert page.get_attribute("#answer", "aria-live") == "polite"
    page.focus("#view")
    before = page.evaluate("viewer.camera.azimuth")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("viewer.camera.azimuth") != before
