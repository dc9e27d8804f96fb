"""The documentation site: it is complete, has no dead link, loads nothing from elsewhere, and works in a browser."""

import functools
import importlib
import re
import runpy
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

import bipointnet
from bipointnet import scale

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOOKS = runpy.run_path(str(DOCS / "hooks.py"))
# Attributes that make a browser load something, by element.
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
PHONE = {"width": 390, "height": 844}


def test_every_public_name_is_documented_once():
    pages = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    documented = [path.rpartition(".") for path in re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE)]
    jobs = [name for module, _, name in documented if module == "bipointnet.scale"]
    assert Counter(jobs) == Counter(set(scale.__all__) - {"Job", "Outcome"})
    others = [(module, name) for module, _, name in documented if module != "bipointnet.scale"]
    assert Counter(name for _, name in others) == Counter(set(bipointnet.__all__) - {"__version__"})
    for module, name in others:
        assert getattr(importlib.import_module(module), name) is getattr(bipointnet, name)


def test_examples_have_the_heading_that_the_site_renders_as_code():
    """A docstring calls its section Examples; Example would become a paragraph."""
    sources = [path for path in (ROOT / "src").rglob("*.py") if re.search(r"^\s*Example:$", path.read_text(), re.M)]
    assert sources == []


def test_links_to_files_outside_the_pages_lead_to_copies():
    text = "[a](../benchmarks/README.md#runtime) [b](theory.md) [c](../core) [d](https://example.org) [e](none.md)"
    assert HOOKS["with_links_to_pages"](text, DOCS / "deploy.md") == (
        "[a](source/benchmarks/README.md#runtime) [b](theory.md) [c](source/core/index.md) "
        "[d](https://example.org) [e](none.md)"
    )
    there = HOOKS["with_links_to_pages"]("[a](../../docs/boards.md) [b](main.c)", ROOT / "examples/cortex-m7/README.md")
    assert there == "[a](../../../boards.md) [b](main.c.md)"


def test_the_help_of_every_option_is_on_a_page():
    page = HOOKS["commands"]()
    assert "## predict\n\n```text\nbipointnet predict FILE [OPTIONS]\n```" in page
    assert "patterns such as 'scans/\\*\\*/\\*.ply'" in page
    assert "| `--binary-first`, `--no-binary-first` | Binarize the first layer too. |" in page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]  # --quiet hides warnings
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Links(HTMLParser):
    """The ids of a page, what it links to, and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids, self.links, self.loaded = {""}, list[str](), list[str]()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if LOADED.get(tag) in found:
            self.loaded.append(found[LOADED[tag]])


@pytest.mark.long
def test_no_link_is_dead_and_nothing_is_loaded_from_elsewhere(site):
    pages = {page: Links(page) for page in site.rglob("*.html")}
    assert len(pages) > 100
    dead = list[str]()
    for page, found in pages.items():
        for link in found.links + found.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            folder = site if parts.path.startswith("/") else page.parent  # the page for errors has absolute links
            target = (folder / unquote(parts.path).lstrip("/")).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].ids if target in pages else {""}
            if not target.is_file() or unquote(parts.fragment) not in known:
                dead.append(f"{page.relative_to(site)}: {link}")
        foreign = [link for link in found.loaded if urlsplit(link).netloc]
        assert not foreign, page
    assert not dead, "\n".join(dead)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", style.read_text()), style


@pytest.mark.long
def test_the_reference_shows_no_module_in_place_of_its_function(site):
    """MkDocs takes `bipointnet.binarize` for the module convert/binarize.py; then a page names the function in full."""
    for page in (site / "reference").glob("*.html"):
        assert "doc-module" not in page.read_text(encoding="utf-8"), page


@pytest.mark.long
def test_the_site_has_no_path_of_this_machine_and_no_raw_markup(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert str(ROOT) not in text, page
        assert "<p>|" not in text, f"{page}: a table that is not rendered"
        assert "<p>```" not in text, f"{page}: a block that is not rendered"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page on a phone. Errors, and requests to another host, are failures."""
    page = browser.new_page(viewport=PHONE, base_url=address)  # pyright: ignore[reportArgumentType]
    errors, requests = list[str](), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    page.close()
    assert errors == []
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.browser
def test_no_page_is_wider_than_a_phone(page, site):
    wide = list[str]()
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if not name.startswith(("source/", "live/")):
            page.goto(f"/{name}")
            wide += [name] * page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not wide


@pytest.mark.browser
def test_the_home_page_renders(page):
    page.goto("/index.html")
    assert page.inner_text("h1").startswith("BiPointNet")
    assert page.evaluate("document.querySelector('article img').naturalWidth") > 0


@pytest.mark.browser
def test_the_search_finds_a_page(page):
    page.goto("/index.html")
    page.locator("label[for=__search]").first.click()
    page.locator(".md-search__input").press_sequentially("EMA-max")
    links = "[...document.querySelectorAll('.md-search-result__link')]"
    page.wait_for_function(f"{links}.some(link => link.pathname === '/theory.html')")


@pytest.mark.browser
def test_the_gallery_shows_a_prediction(page):
    page.goto("/gallery.html")
    page.frame_locator("iframe.live").get_by_text("chair", exact=True).first.wait_for()
    frame = page.frame(url=re.compile("/live/index.html"))
    assert frame is not None
    frame.wait_for_function("document.getElementById('name').innerText === 'chair'")
