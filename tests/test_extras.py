"""Optional packages: every hint names an extra that pyproject.toml has, with that package in it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bipointnet import extras
from bipointnet.errors import UserError

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_every_package_is_in_the_extra_it_is_said_to_be_in():
    for package, extra in extras._EXTRAS.items():
        names = [requirement.split(">")[0].split("[")[0] for requirement in PROJECT["optional-dependencies"][extra]]
        assert package in names


def test_a_missing_package_is_one_sentence_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    extras.require("this", "numpy")
    with pytest.raises(UserError) as error:
        extras.require("this", "numpy", "matplotlib")
    assert str(error.value) == (
        "this needs matplotlib, which is not installed; install it with: pip install matplotlib (extra 'plot')"
    )
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match=r"needs PyTorch and matplotlib, .*: pip install torch matplotlib \(extra"):
        extras.require("this", "torch", "matplotlib")


@pytest.mark.parametrize("ignored", [False, True])
def test_ctrl_c_while_pytorch_is_imported_acts_after_it(ignored):
    """An interrupt inside the C++ code of PyTorch would abort the process."""
    program = f"""
import signal, sys, types
import bipointnet.extras as extras
class Torch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            signal.raise_signal(signal.SIGINT)
            print("imported", flush=True)
            sys.modules["torch"] = types.ModuleType("torch")
            return __import__("importlib.machinery").machinery.ModuleSpec("torch", self)
    def create_module(self, spec): return sys.modules["torch"]
    def exec_module(self, module): pass
if {ignored}: signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.meta_path.insert(0, Torch())
try:
    extras.import_whole("torch")
    print("no interrupt")
except KeyboardInterrupt:
    print("interrupt", "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.split("\n")[:2] == ["imported", "no interrupt" if ignored else "interrupt True"]


def test_commands_that_need_no_core_run_without_it(tmp_path: Path):
    """As from a clone in which it is not built."""
    program = "import sys; sys.modules['bipointnet._core'] = None; from bipointnet.cli import main; main()"
    train = ["train", "shapes", "--points", "16", "--epochs", "1", "--batch", "256", "--device", "cpu", "-o"]
    for words in (["models"], [*train, str(tmp_path / "run")]):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "result.json").exists()
