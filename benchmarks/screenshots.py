"""Take the pictures of the page that `bipointnet web` writes, for README and docs.

CHROMIUM=/usr/bin/chromium python benchmarks/screenshots.py docs
"""

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from bipointnet.web.page import write_page

CLASSIFIER = "local-tiny-modelnet40"
MODELS = (CLASSIFIER, "pointnet2-shapenet-part", "pointnet2-rooms")
WIDE, PHONE = (1200, 760), (390, 1130)


@dataclass(frozen=True)
class Picture:
    """One picture: a model, with which the page opens its first sample, the size of the window, and the colors."""

    name: str
    model: str = CLASSIFIER
    size: tuple[int, int] = WIDE
    dark: bool = False


PICTURES = (
    Picture("page"),
    Picture("page-dark", dark=True),
    Picture("page-phone", size=PHONE),
    Picture("page-parts", model="pointnet2-shapenet-part"),
    Picture("page-rooms", model="pointnet2-rooms"),
)


def take(browser: Browser, page_file: Path, picture: Picture, target: Path) -> None:
    width, height = picture.size
    scheme = "dark" if picture.dark else "light"
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(page_file.as_uri())
    page.select_option("#model", label=picture.model)
    page.wait_for_function("last.then(() => document.body.ariaBusy === 'false')")
    page.screenshot(path=target)
    page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        page_file = Path(temporary) / "index.html"
        write_page(page_file, [Path(model) for model in MODELS])
        options = ["--no-sandbox", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=options)
        for picture in PICTURES:
            take(browser, page_file, picture, folder / f"{picture.name}.png")
            print(folder / f"{picture.name}.png")
        browser.close()


if __name__ == "__main__":
    main()
