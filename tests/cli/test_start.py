"""Paths and options are checked before PyTorch is imported, so that a mistake is reported at once."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

TIMES = 4.0  # measured: 0.9 to 2.3; importing PyTorch alone takes 6.9
TRIES = 5
# Runs as `python -m bipointnet` does, then reports which modules were imported.
REPORT = """
import atexit, runpy, sys
atexit.register(lambda: print("modules:", *sys.modules))
sys.argv[0] = "bipointnet"
runpy.run_module("bipointnet", run_name="__main__")
"""
HEAVY = {"torch", "safetensors", "matplotlib", "trimesh", "h5py", "onnxruntime", "scipy"}
MISTAKES = {
    "export of nothing": ["export", "nowhere", "-o", "m.bpn"],
    "export of data": ["export", "folder", "-o", "m.bpn"],
    "export of another file": ["export", "text.txt", "-o", "m.bpn"],
    "export into a folder": ["export", "run", "-o", "folder"],
    "export with an unknown type": ["export", "run", "-o", "m.bpn", "--last", "f8"],
    "eval of nothing": ["eval", "nowhere", "shapes"],
    "eval on nothing": ["eval", "run", "nowhere"],
    "eval on another file": ["eval", "run", "text.txt"],
    "train on nothing": ["train", "nowhere"],
    "train with an unknown method": ["train", "shapes", "--method", "nope"],
    "train with an unknown option": ["train", "shapes", "--nope", "3"],
    "train from nothing": ["train", "shapes", "--init", "nowhere"],
    "train into a run": ["train", "shapes", "-o", "started"],
    "resume nothing": ["train", "shapes", "-o", "folder", "--resume"],
    "resume with another option": ["train", "shapes", "-o", "started", "--resume", "--lr", "0.5"],
    "analyze nothing": ["analyze", "nowhere"],
    "analyze on nothing": ["analyze", "run", "--data", "nowhere"],
    "predict with an unknown name": ["predict", "text.txt", "--model", "pointnet-vanilla-shape"],
    "segment without a model": ["segment", "text.txt"],
    "predict with nothing": ["predict", "text.txt", "--model", "nowhere"],
    "predict for nothing": ["predict", "nowhere.ply", "--model", "run"],
    "predict for an empty folder": ["predict", "folder", "--model", "run"],
    "predict for a pattern without files": ["predict", "**/*.ply", "--model", "run"],
    "segment with a classifier": ["segment", "text.txt", "--model", "run"],
    "verify against nothing": ["verify", Path(__file__).parents[1] / "golden" / "shapes.bpn", "--run", "nowhere"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, an empty folder, a run with a description but without tensors, and an unfinished run."""
    root = tmp_path_factory.mktemp("place")
    (root / "text.txt").write_text("hello\n")
    (root / "folder").mkdir()
    (root / "run").mkdir()
    facts = {"format": 1, "config": {}, "classes": ["a", "b"], "channels": 3, "data": "mine", "epoch": 1}
    header = json.dumps({"__metadata__": {"bipointnet": json.dumps(facts)}}).encode()
    (root / "run" / "last.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (root / "started").mkdir()
    (root / "started" / "config.json").write_text('{"lr": 0.01}')
    (root / "started" / "resume.safetensors").write_bytes(b"")
    return root


def cpu_seconds(command: list[str], cwd: Path, code: int) -> float:
    """CPU time of a process. On an idle machine it is the wall time; others' work does not lengthen it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == code, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_before_pytorch_is_imported(place, mistake):
    arguments = [str(argument) for argument in MISTAKES[mistake]]
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *arguments], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert HEAVY.isdisjoint(done.stdout.removeprefix("modules:").split())


@pytest.mark.parametrize(
    "mistake", ["export of another file", "eval on nothing", "train on nothing", "analyze nothing"]
)
def test_a_mistake_takes_hardly_longer_than_the_imports_of_every_command(place, mistake):
    """Half a second on a laptop. Tests compare times of one moment, because machines differ and others use them too."""
    command = [sys.executable, "-m", "bipointnet", *(str(argument) for argument in MISTAKES[mistake])]
    imports = [sys.executable, "-c", "import numpy, typer, rich.console"]
    tries = [cpu_seconds(command, place, 2) / cpu_seconds(imports, place, 0) for _ in range(TRIES)]
    assert min(tries) < TIMES


def without(package: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command on a machine on which a package is not installed."""
    code = f"import sys; sys.modules[{package!r}] = None; from bipointnet.cli import main; main()"
    environment = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(
    "arguments", [["train", "shapes"], ["demo"], ["export", "run", "-o", "m.bpn"], ["eval", "run", "x"]]
)
def test_without_pytorch_a_command_says_how_to_install_it(place, monkeypatch, arguments):
    monkeypatch.chdir(place)
    done = without("torch", *arguments)
    assert done.returncode == 2
    assert "needs PyTorch, which is not installed; install it with: pip install torch (extra 'train')" in done.stderr
    assert "matplotlib" not in done.stderr


def test_without_matplotlib_only_matplotlib_is_asked_for(place, monkeypatch):
    monkeypatch.chdir(place)
    done = without("matplotlib", "analyze", "-o", "pictures")
    assert done.returncode == 2
    assert (
        "needs matplotlib, which is not installed; install it with: pip install matplotlib (extra 'plot')"
        in done.stderr
    )
    assert "torch" not in done.stderr
