"""Seconds and bytes from a wheel to a first prediction, with all base dependencies and with NumPy alone.

    python benchmarks/install_size.py WHEEL [--rounds 3]

Every round makes two new environments per choice of dependencies: pip fills one from the index without its cache, the
other from files on the disk. Seconds are medians. Writes benchmarks/results/install.json.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data.shapes import held_out
from bipointnet.files import write_beside
from bipointnet.runtime import bench

RESULT = Path(__file__).parent / "results" / "install.json"
HEADER = "ply\nformat ascii 1.0\nelement vertex 512\nproperty float x\nproperty float y\nproperty float z\nend_header"
IN_PYTHON = """
import bipointnet, numpy
chair = numpy.loadtxt("chair.ply", skiprows=7)
print(bipointnet.load("pointnet-vanilla-modelnet40").predict(chair).names)
"""
# What pip installs besides the wheel, with its options.
CHOICES = {"base": (), "numpy only": ("--no-deps", "numpy")}


def seconds(*command: str | Path, cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def sizes(python: Path) -> dict[str, int]:
    """Bytes of each distribution in an environment, bytecode included, without pip and setuptools."""
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    return {
        found.name: sum(Path(str(found.locate_file(file))).stat().st_size for file in found.files or [])
        for found in metadata.distributions(path=[str(site)])
        if found.name not in {"pip", "setuptools"}
    }


def measure(wheel: Path, wanted: tuple[str, ...], source: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """One environment: the seconds of each of the three commands, and the bytes."""
    report: dict[str, Any] = {"venv": seconds(sys.executable, "-m", "venv", "env", cwd=folder)}
    python = folder / "env" / "bin" / "python"
    report["pip install"] = seconds(python, "-m", "pip", "install", "--quiet", *source, *wanted, wheel, cwd=folder)
    if "--no-deps" in wanted:
        report["predict"] = seconds(python, "-c", IN_PYTHON, cwd=folder)
    else:
        report["predict"] = seconds(python.with_name("bipointnet"), "predict", "chair.ply", "--up", "z", cwd=folder)
    report["bytes"] = sizes(python)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    rounds: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        files = Path(name) / "files"
        seconds(sys.executable, "-m", "pip", "download", "--quiet", "--dest", files, wheel, cwd=Path(name))
        sources = {"index": ("--no-cache-dir",), "disk": ("--no-index", "--find-links", str(files))}
        for i in range(options.rounds):
            for choice, wanted in CHOICES.items():
                for place, source in sources.items():
                    folder = Path(name) / f"{choice}-{place}-{i}"
                    folder.mkdir()
                    np.savetxt(folder / "chair.ply", held_out(7, 512)[0], "%.6f", header=HEADER, comments="")
                    rounds.setdefault(f"{choice}, from the {place}", []).append(measure(wheel, wanted, source, folder))
    steps = ("venv", "pip install", "predict")
    report = {
        "wheel": wheel.name,
        "wheel_bytes": wheel.stat().st_size,
        "seconds": {
            choice: {step: round(statistics.median(each[step] for each in made), 1) for step in steps}
            for choice, made in rounds.items()
        },
        "installed_bytes": {choice: rounds[f"{choice}, from the disk"][0]["bytes"] for choice in CHOICES},
        "rounds": options.rounds,
        "machine": bench.machine(),
        "python": platform.python_version(),
    }
    for each in report["installed_bytes"].values():
        each["all"] = sum(each.values())
    write_beside(RESULT, (json.dumps(report, indent=2) + "\n").encode())
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
