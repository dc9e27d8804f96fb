"""Train on folders of files as a newcomer would: README's command, no other options.

    python benchmarks/small_folders.py WORK [--draws 10] [--classes 5] [--files 12] [--workers 1] [--to RESULTS.json]

Each draw is a new folder: random built-in classes, files in mixed formats, meshes and scans of 1,500 to 6,000 points.
The accuracy is that of the files that `train` holds out; a draw of 60 files has about 12 of them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from recipe_sweep import drawn_classes, posed

from bipointnet.data import shapes
from bipointnet.files import write_beside

Triangles = np.ndarray  # (T, 3, 3)
COMMAND = ["train", "FOLDER", "--points", "512", "-o", "RUN"]  # as in README.md


def _rows(values: np.ndarray, separator: str = " ") -> str:
    return "".join(separator.join(f"{number:.6g}" for number in row) + "\n" for row in values)


def _faces(triangles: Triangles, first: int, prefix: str) -> str:
    return "".join(f"{prefix} {i} {i + 1} {i + 2}\n" for i in range(first, first + 3 * len(triangles), 3))


def write_off(path: Path, triangles: Triangles) -> None:
    corners = triangles.reshape(-1, 3)
    path.write_text(f"OFF\n{len(corners)} {len(triangles)} 0\n" + _rows(corners) + _faces(triangles, 0, "3"))


def write_obj(path: Path, triangles: Triangles) -> None:
    vertices = "".join(f"v {line}\n" for line in _rows(triangles.reshape(-1, 3)).splitlines())
    path.write_text(vertices + _faces(triangles, 1, "f"))


def write_stl(path: Path, triangles: Triangles) -> None:
    facets = np.zeros(len(triangles), np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("extra", "<u2")]))
    facets["corners"] = triangles
    path.write_bytes(b"\0" * 80 + np.uint32(len(triangles)).tobytes() + facets.tobytes())


def write_ply(path: Path, points: np.ndarray) -> None:
    names = "".join(f"property float {axis}\n" for axis in "xyz")
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n{names}end_header\n"
    path.write_bytes(header.encode() + points.astype("<f4").tobytes())


def write_pcd(path: Path, points: np.ndarray) -> None:
    fields = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\n"
    size = f"WIDTH {len(points)}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {len(points)}\nDATA ascii\n"
    path.write_text("VERSION 0.7\n" + fields + size + _rows(points))


MESHES: dict[str, Callable[[Path, Triangles], None]] = {"off": write_off, "obj": write_obj, "stl": write_stl}
SCANS: dict[str, Callable[[Path, np.ndarray], object]] = {
    "ply": write_ply,
    "xyz": lambda path, points: path.write_text(_rows(points)),
    "npy": np.save,
    "csv": lambda path, points: path.write_text("x,y,z\n" + _rows(points, ",")),
    "pcd": write_pcd,
    "txt": lambda path, points: path.write_text(_rows(points)),
}


def write_folder(folder: Path, draw: int, classes: int, files: int) -> None:
    formats = [*MESHES, *SCANS]
    for label, name in enumerate(drawn_classes(draw, classes)):
        (folder / name).mkdir(parents=True)
        for number in range(files):
            rng = np.random.default_rng([draw, label, number])
            kind = formats[(number + label) % len(formats)]
            path = folder / name / f"{name}_{number:03}.{kind}"
            if kind in MESHES:
                MESHES[kind](path, posed(name, rng).triangles)
            else:
                SCANS[kind](path, shapes.make_object(name, rng, int(rng.integers(1500, 6000)))[0])


def measure(work: Path, draw: int, classes: int, files: int) -> dict:
    folder, run = work / f"{classes}x{files}-{draw}", work / f"run-{classes}x{files}-{draw}"
    for old in (folder, run):
        shutil.rmtree(old, ignore_errors=True)
    write_folder(folder, draw, classes, files)
    command = [{"FOLDER": str(folder), "RUN": str(run)}.get(word, word) for word in COMMAND]
    started = time.perf_counter()
    environment = {**os.environ, "BIPOINTNET_CACHE": str(work / "cache")}
    process = subprocess.Popen([sys.executable, "-m", "bipointnet", *command], env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)}: failed")
    seconds, cpu = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    figures = json.loads((run / "result.json").read_text())
    kept = ("last_oa", "best_oa", "num_classes", "train_clouds", "test_clouds", "recipe", "picks", "device", "commit")
    return {"draw": draw, "files": classes * files, "wall_seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1)} | {
        k: figures[k] for k in kept
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    for option, default in (("--draws", 10), ("--classes", 5), ("--files", 12), ("--workers", 1)):
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    results = []
    with ThreadPoolExecutor(given.workers) as pool:
        for done in pool.map(lambda draw: measure(given.work, draw, given.classes, given.files), range(given.draws)):
            results.append(done)
            print(done["draw"], done["last_oa"], done["wall_seconds"], done["cpu_seconds"], flush=True)
            if given.to:
                write_beside(given.to, json.dumps(results, indent=1).encode())
    tested = np.array([result["test_clouds"] for result in results])
    accuracy = np.array([result["last_oa"] for result in results])
    print(f"mean of draws {accuracy.mean():.1f} %, of files {np.average(accuracy, weights=tested):.1f} %")


if __name__ == "__main__":
    main()
