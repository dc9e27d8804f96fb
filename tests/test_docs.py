"""What README and the pages show works: Python blocks run, commands and options exist, links lead somewhere."""

import json
import re
import runpy
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import typer

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
DEEPER = sorted((ROOT / "docs").glob("*/*.md"))  # tests/test_doc_blocks.py runs their Python with their commands
WITH_COMMANDS = {"scale.md", "your-scans.md"}  # so it does for these
MODEL = ROOT / "tests" / "golden" / "shapes.bpn"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Every `bipointnet ...` of a page, in a block of its own or inside a sentence, as words."""
    text = page.read_text()
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    lines += re.findall(r"`(bipointnet [^`]*)`", text)
    words = [shlex.split(line.split(" #")[0].replace("\n", " ")) for line in lines if line.startswith("bipointnet ")]
    return [line for line in words if len(line) > 1]


@pytest.mark.parametrize("page", PAGES + DEEPER, ids=lambda page: page.name)
def test_commands_and_options_exist(page):
    from bipointnet.cli import app

    known = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    for line in commands(page):
        if line[1] in ("--version", "--help", "..."):
            continue
        assert line[1] in known, " ".join(line)
        options = {name for parameter in known[line[1]].params for name in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.split("=")[0] for word in line[2:] if word.startswith("-") and word != "-"}
        assert used <= options | {"--help"}, " ".join(line)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in WITH_COMMANDS], ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    shutil.copy(MODEL, tmp_path / "mine.bpn")
    monkeypatch.chdir(tmp_path)
    names = {"points": np.random.default_rng(0).normal(size=(50, 3))}
    for block in blocks(page, "python"):
        exec(block, names)
    names.clear()  # a class of the page refers to them and may outlive the test; a model must not


def test_the_table_of_latencies_is_that_of_the_result():
    """`python benchmarks/backbones_latency.py --markdown` prints what docs/backbones.md must show."""
    script = runpy.run_path(str(ROOT / "benchmarks" / "backbones_latency.py"))
    table = script["markdown"](json.loads(script["RESULT"].read_text()))
    assert f"\n{table}\n" in (ROOT / "docs" / "backbones.md").read_text()


def test_the_memory_of_a_microcontroller_is_that_of_the_result():
    result = json.loads((ROOT / "benchmarks" / "results" / "cortex-m7.json").read_text())
    page = (ROOT / "docs" / "boards.md").read_text()
    assert f"| `{result['model']}`, 1024 points" in page
    for number in (result["flash_bytes"], result["model_bytes"], result["ram_bytes"], *result["ram"].values()):
        assert f" | {number:,} |\n" in page


@pytest.mark.parametrize("page", PAGES + DEEPER, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing
