"""Checks an installed wheel: `python tests/installed_wheel.py`, in an environment with the package but without PyTorch.

tests/test_wheel.py runs it on this machine, cibuildwheel on every platform. It imports nothing but the package and its
dependencies.
"""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import bipointnet
from bipointnet import shipped
from bipointnet.data.shapes import CLASSES, held_out

SHAPES = "pointnet-vanilla-shapes"


def write_chair(path: Path) -> None:
    """Write a built-in chair as text PLY."""
    cloud, label = held_out(7, 512)
    assert CLASSES[label] == "chair"
    header = ["ply", "format ascii 1.0", f"element vertex {len(cloud)}", *(f"property float {axis}" for axis in "xyz")]
    rows = [" ".join(f"{value:.6f}" for value in point) for point in cloud.tolist()]
    path.write_text("\n".join([*header, "end_header", *rows]) + "\n")


def command(*arguments: str, cwd: str) -> str:
    """What the installed command `bipointnet` prints."""
    program = shutil.which("bipointnet", path=sysconfig.get_path("scripts"))
    assert program is not None, "the command bipointnet is not installed"
    return subprocess.run([program, *arguments], cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    package = Path(bipointnet.__file__).resolve().parent
    assert package.is_relative_to(Path(sys.prefix).resolve()), f"{package}: expected the installed package"
    assert importlib.util.find_spec("torch") is None, "expected an environment without PyTorch"
    with tempfile.TemporaryDirectory() as folder:
        write_chair(Path(folder) / "chair.ply")
        label = command("predict", "chair.ply", "--up", "z", cwd=folder)
        assert label.startswith("chair.ply  "), label
        assert " chair " in command("predict", "chair.ply", "--model", SHAPES, cwd=folder)
        command("web", "-o", "site", cwd=folder)
        for name in shipped.names():
            command("verify", name, cwd=folder)
    assert bipointnet.load(SHAPES).predict(held_out(7, 512)[0]).names == "chair"
    print(f"{package}: OK")
    print(label, end="")


if __name__ == "__main__":
    main()
