"""The installed library: CMake and pkg-config find it, and C programs link the shared and the static one."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "golden" / "shapes.bpn"
README = ROOT / "examples" / "c" / "README.md"


@pytest.fixture(scope="module")
def prefix(run_tool: Path, cmake: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    call(cmake, "--install", run_tool.parent, "--prefix", folder)
    return folder


def call(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_build_makes_the_example_program(prefix: Path, run_tool: Path, tmp_path: Path):
    assert classified(run_tool.with_name("classify"), tmp_path)


@pytest.mark.parametrize("library", ["bipointnet::bipointnet", "bipointnet::static"])
def test_a_c_project_finds_the_package(prefix: Path, run_tool: Path, cmake: str, tmp_path: Path, library: str):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "examples" / "c", source)
    lists = source / "CMakeLists.txt"
    assert "bipointnet::bipointnet" in lists.read_text()
    lists.write_text(lists.read_text().replace("bipointnet::bipointnet", library))
    call(cmake, "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    call(cmake, "--build", tmp_path / "build")
    assert classified(tmp_path / "build" / "classify", tmp_path) == classified(run_tool.with_name("classify"), tmp_path)


@pytest.mark.parametrize("line", [line for line in README.read_text().splitlines() if line.startswith("gcc ")])
def test_a_c_program_is_built_as_the_readme_says(prefix: Path, run_tool: Path, tmp_path: Path, line: str):
    if "pkg-config" in line and shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "core").symlink_to(run_tool.parent)
    for name in ("core", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"export PKG_CONFIG_PATH={prefix}/lib/pkgconfig"
    call("sh", "-ec", f"cd {tmp_path}; {path}; {line.replace('PREFIX', str(prefix))}")
    program = tmp_path / "classify"
    assert classified(program, tmp_path) == classified(run_tool.with_name("classify"), tmp_path)
    static = "-static" in line or ".a " in line
    assert (b"libbipointnet.so" in program.read_bytes()) == (not static)


def test_another_minor_version_is_refused(prefix: Path, cmake: str, tmp_path: Path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(old LANGUAGES C)\nfind_package(bipointnet 0.0.9 REQUIRED)\n"
    )
    command = [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "bipointnet" in done.stderr


def test_tool_libraries_and_header_are_installed(prefix: Path):
    installed = {path.name for path in prefix.rglob("*") if path.is_file()}
    assert {
        "bipointnet-run",
        "libbipointnet.a",
        "bipointnet.h",
        "bipointnet-config.cmake",
        "bipointnet.pc",
    } <= installed
    assert call(prefix / "bin" / "bipointnet-run", "--version").startswith("bipointnet-run ")


def classified(program: Path, folder: Path) -> str:
    cloud = folder / "cloud.xyz"
    np.savetxt(cloud, np.random.default_rng(0).normal(size=(100, 3)))
    return call(program, MODEL, cloud)
