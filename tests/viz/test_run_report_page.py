"""The page about a run in Chromium, from a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from report_example import report

from bipointnet.viz.run_report import report_bytes

pytestmark = pytest.mark.browser
CASES = [(3, "clouds"), (40, "clouds"), (13, "points")]  # classes and what has one


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator:
    """A function that opens the page. Errors, and requests to anything but the file, are failures."""
    pages, errors, requests = list[Page](), list[str](), list[str]()

    def open_page(classes: int = 3, unit: str = "clouds", width: int = 1200, **options) -> Page:
        path = tmp_path / "report.html"
        path.write_bytes(report_bytes(report(classes, unit)))
        page = browser.new_page(viewport={"width": width, "height": 844}, **options)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        painted(page)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


def painted(page: Page) -> None:
    """Wait until the newest frame is on the screen."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def picture(page: Page) -> bytes:
    painted(page)
    return page.locator("#view").screenshot()


@pytest.mark.parametrize(("classes", "unit"), CASES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_with_a_cloud_and_every_card_shows_another(open_page, classes, unit, scheme):
    page = open_page(classes, unit, color_scheme=scheme)
    seen = {picture(page)}
    cards = page.locator(".cards button")
    for k in (3, 11):
        cards.nth(k).click()
        assert cards.nth(k).get_attribute("aria-pressed") == "true"
        assert page.locator('.cards [aria-pressed="true"]').count() == 1
        assert page.inner_text("#caption") == f"folder/{k}.ply: class 0, predicted class 1, {90 - k}.0 %"
        seen.add(picture(page))
    assert len(seen) == 3
    blank = "canvas => !canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    assert not any(page.locator(".cards canvas").nth(k).evaluate(blank) for k in range(12))


def test_points_are_colored_by_prediction_by_truth_or_as_wrong_and_the_camera_stays(open_page):
    page = open_page(13, "points")
    page.focus("#view")
    page.keyboard.press("ArrowLeft")
    seen = set()
    for mode in ("predicted", "truth", "wrong"):
        page.click(f'[data-mode="{mode}"]')
        seen.add(picture(page))
    assert len(seen) == 3
    assert page.locator("#legend button").all_inner_texts() == ["right", "wrong"]
    page.locator("#legend button").first.click()
    assert picture(page) not in seen, "the right points are hidden"


def test_keys_rotate_and_choose_and_everything_has_a_name(open_page):
    page = open_page()
    before = picture(page)
    page.focus("#view")
    page.keyboard.press("ArrowLeft")
    assert picture(page) != before
    page.locator(".cards button").nth(2).focus()
    page.keyboard.press("Enter")
    assert "folder/2.ply" in page.inner_text("#caption")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, a, canvas:not([aria-hidden]), svg, [role=region]")].filter(
          each => !(each.ariaLabel || each.textContent.trim())).map(each => each.outerHTML)"""
    )
    assert unnamed == []
    assert page.get_attribute("#caption", "aria-live") == "polite"
    assert page.locator("h1").count() == 1


def test_the_pointer_reads_the_values_of_an_epoch(open_page):
    page = open_page()
    chart = page.locator(".chart").first
    last = chart.locator(".legend").inner_text()
    box = chart.locator("svg").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    assert "(epoch " in chart.locator(".legend").inner_text()
    page.mouse.move(0, 0)
    assert chart.locator(".legend").inner_text() == last


@pytest.mark.parametrize(("classes", "unit"), CASES)
@pytest.mark.parametrize("width", [390, 760, 1200])
def test_nothing_is_wider_than_the_window(open_page, classes, unit, width):
    page = open_page(classes, unit, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(open_page, scheme):
    """The contrast of text and background is at least 4.5, as the Web Content Accessibility Guidelines ask for."""
    page = open_page(color_scheme=scheme)
    contrast = page.evaluate(
        """() => {
          const level = color => {
            const parts = color.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255);
            const [r, g, b] = parts.map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const page = level(getComputedStyle(document.body).backgroundColor);
          return [...document.querySelectorAll("p, li, a, th, td, small, span, summary")].filter(
            each => each.checkVisibility() && !each.closest(".confusion")).map(each => {
              const ink = level(getComputedStyle(each).color);
              return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
            });
        }"""
    )
    assert min(contrast) >= 4.5
