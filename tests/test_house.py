"""Rules of the house: who imports whom, what an import costs, what the compiled core does."""

import ast
import functools
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import bipointnet

ROOT = Path(bipointnet.__file__).parent
NEVER_TORCH = (
    "data",
    "clouds",
    "metrics",
    "config",
    "errors",
    "files",
    "cli",
    "report",
    "figures",
    "colours",
    "splat",
    "labelled",
    "scores",
    "scan",
    "theory",
    "reference",
    "runtime",
    "__init__",
    "__main__",
)
MAY_IMPORT = {
    "nn": {"errors", "nn"},
    "models": {"models", "nn"},
    "tasks": {"augment", "config", "data", "errors", "metrics", "models", "nn", "scores"},
    "scores": {"data", "metrics"},
    "scan": {"clouds", "data", "errors", "runtime"},
    "protocol": {"config", "data", "files", "metrics", "scores", "train"},
    "augment": {"config"},
    "data": {"data", "clouds", "errors", "files"},
    "clouds": {"errors"},
    "metrics": set(),
    "config": {"errors"},
    "report": {"files"},
    "theory": {"reference"},
    "figures": {"files", "reference", "theory"},
    "colours": set(),
    "splat": set(),
    "labelled": {"clouds", "colours", "errors", "files", "splat"},
    "analysis": {"augment", "metrics", "models", "nn", "tasks"},
    "fold": {"errors", "nn", "reference"},
    "program": {"fold", "nn", "reference"},
    "walk": {"errors", "fold", "models", "nn", "program"},
    "pack": {"_core", "checkpoint", "errors", "files", "program", "reference", "walk"},
    "reference": {"clouds"},
    "runtime": {"_core", "errors"},
}


@functools.cache
def modules() -> dict[str, ast.Module]:
    return {str(p.relative_to(ROOT).with_suffix("")): ast.parse(p.read_text()) for p in sorted(ROOT.rglob("*.py"))}


def imports(tree: ast.AST) -> set[str]:
    """Dotted names of all that is imported, anywhere in the module."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def top_level(tree: ast.Module) -> set[str]:
    return imports(ast.Module([n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))], []))


@pytest.mark.parametrize("name", modules())
def test_nothing_imports_the_command_line(name):
    if name != "__main__" and name.split("/")[0] != "cli":
        assert not any(i.startswith("bipointnet.cli") for i in imports(modules()[name]))


@pytest.mark.parametrize("name", modules())
def test_rooms_import_only_whom_they_may(name):
    room = name.split("/")[0]
    if room in MAY_IMPORT:
        rooms = {i.split(".")[1] for i in imports(modules()[name]) if i.startswith("bipointnet.")}
        assert rooms <= MAY_IMPORT[room]


@pytest.mark.parametrize("name", [n for n in modules() if n.split("/")[0] in NEVER_TORCH])
def test_torch_free_rooms_import_no_torch(name):
    assert not any(i.split(".")[0] in ("torch", "safetensors") for i in top_level(modules()[name]))


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in shown.stdout.split()}


def test_importing_the_package_is_quick_and_takes_no_torch():
    assert "torch" not in loaded_after("import bipointnet")
    assert "torch" not in loaded_after("import bipointnet.data, bipointnet.clouds, bipointnet.metrics, bipointnet.cli")
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import bipointnet"], check=True)
        with_import = time.perf_counter() - started
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(with_import - (time.perf_counter() - started))
    assert min(times) < 0.3


def test_every_public_name_can_be_had_from_the_package():
    for name in bipointnet.__all__:
        assert getattr(bipointnet, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        bipointnet.nothing_of_the_kind  # noqa: B018


floats = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(arrays(np.float32, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=140), elements=floats))
def test_core_packs_the_signs_that_training_takes(values):
    from bipointnet._core import pack_signs
    from bipointnet.nn import hard_sign

    words = pack_signs(values)
    rows, columns = values.shape
    assert words.shape == (rows, -(-columns // 64))
    bits = np.unpackbits(words.view(np.uint8).reshape(rows, words.shape[1] * 8), axis=1, bitorder="little")
    assert np.array_equal(bits[:, :columns], hard_sign(torch.from_numpy(values.copy())).numpy() > 0)
    assert not bits[:, columns:].any(), "pad bits are zero"
