"""The public API: exports that a type checker sees, imported on first use, never shadowed by a module."""

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bipointnet

ROOT = Path(bipointnet.__file__).parent

# Ten lines as a user writes them. The type that a checker reveals for each `reveal_type` is in REVEALED.
SCRIPT = """
import bipointnet
import numpy as np

reveal_type(bipointnet.load)
reveal_type(bipointnet.load("chairs.bpn"))
reveal_type(bipointnet.load("chairs.bpn").predict(np.zeros((1024, 3))))
reveal_type(bipointnet.load("chairs.bpn").segment(np.zeros((1024, 3))))
reveal_type(bipointnet.PointNet(num_classes=40))
reveal_type(bipointnet.binarize(bipointnet.PointNet(num_classes=40)))
reveal_type(bipointnet.report_of(bipointnet.binarize(bipointnet.PointNet(num_classes=40))))
bipointnet.no_such_name
"""
REVEALED = [
    "(path: str | Path, isa: str | None = None, *, plain: bool = False) -> Model",
    "Model",
    "Prediction",
    "ndarray",
    "PointNet",
    "PointNet",
    "Report",
]

# Triton comes with PyTorch for GPUs only.
IMPORT_ALL = """
import importlib, pkgutil, types, bipointnet
for module in pkgutil.walk_packages(bipointnet.__path__, "bipointnet."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
print(*[name for name in bipointnet.__all__ if isinstance(getattr(bipointnet, name), types.ModuleType)])
for name in ("binarize", "calibrate", "export", "label", "load"):
    assert isinstance(getattr(bipointnet, name), types.FunctionType), name
"""


def static_exports() -> set[str]:
    """What the `TYPE_CHECKING` block of the package imports under the same name (`import X as X`, which exports it)."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (block,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    aliases = [alias for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(alias.name == alias.asname for alias in aliases)
    return {alias.name for alias in aliases}


def test_static_and_lazy_exports_are_the_same_names():
    assert static_exports() | {"__version__"} == set(bipointnet.__all__)
    assert len(bipointnet.__all__) == len(set(bipointnet.__all__))


def test_every_public_name_can_be_imported():
    for name in bipointnet.__all__:
        assert getattr(bipointnet, name) is not None
    assert dir(bipointnet) == sorted(bipointnet.__all__)
    with pytest.raises(AttributeError, match="module 'bipointnet' has no attribute 'no_such_name'"):
        bipointnet.no_such_name  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_static_and_lazy_exports_are_the_same_objects():
    """Execute the block that only type checkers read, and compare each object with the lazy one."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (block,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    found: dict[str, object] = {}
    exec(compile(ast.Module(block.body, []), "__init__.py", "exec"), found)
    assert all(found[name] is getattr(bipointnet, name) for name in static_exports())


def test_no_module_shadows_a_public_name():
    """Importing a module sets an attribute on its package, which hides a public function of the same name."""
    shown = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split() == [], "public names that are modules"


@pytest.mark.parametrize("name", bipointnet._PUBLIC)
def test_a_public_name_has_a_docstring_with_an_example(name):
    documented = getattr(bipointnet, name)
    assert ">>>" in (documented.__doc__ or ""), name
    if inspect.isclass(documented):
        methods = {key: m for key, m in vars(documented).items() if inspect.isfunction(m) and not key.startswith("_")}
        inherited = {name for base in documented.__mro__[1:] for name in vars(base)}  # documented there
        assert [name for name, method in methods.items() if not method.__doc__ and name not in inherited] == []


def test_the_package_is_marked_as_typed():
    assert (ROOT / "py.typed").is_file()


def test_a_type_checker_sees_the_public_types(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    config = {"extraPaths": [str(ROOT.parent)], "typeCheckingMode": "standard", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    checker = Path(sys.executable).with_name("basedpyright")
    command = [checker, "-p", tmp_path, "--pythonpath", sys.executable, "--outputjson"]
    shown = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    found = json.loads(shown.stdout)["generalDiagnostics"]
    errors = [d["message"] for d in found if d["severity"] == "error"]
    assert len(errors) == 1, errors
    assert '"no_such_name" is not a known attribute of module "bipointnet"' in errors[0]
    revealed = [d["message"].rsplit(" is ", 1)[1].strip('"') for d in found if d["severity"] == "information"]
    assert [r.split("[")[0] if r.startswith("ndarray") else r for r in revealed] == REVEALED
