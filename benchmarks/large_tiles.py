"""Time and memory of labeling a large LAZ tile, beside reading and writing the same tile with laspy.

    python benchmarks/large_tiles.py WORK MODEL [--points 20000000]

Writes a tile of generated scenes side by side. Each measurement is a process of its own, so that its memory is known.
Writes benchmarks/results/large-tiles.json.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import laspy
import numpy as np

from bipointnet.data.outdoors import CLASSES, CODES, make_scene
from bipointnet.files import write_beside

RESULTS = Path(__file__).parent / "results"
SIDE = 200.0  # meters of a scene

LABEL = """
from pathlib import Path
import sys, bipointnet
from bipointnet.runtime.label_large import label_tile
model = bipointnet.load(sys.argv[1])
codes = model.manifest["training"]["scans"]["table"]["codes"]
label_tile(model, Path(sys.argv[2]), Path(sys.argv[3]), codes=[own[0] for own in codes], threads=int(sys.argv[4]))
"""
COPY = """
import laspy, sys
with laspy.open(sys.argv[2]) as source, laspy.open(sys.argv[3], "w", header=source.header) as target:
    for points in source.chunk_iterator(1_000_000):
        target.write_points(points)
"""
JOB = """
import resource, sys, tempfile
from pathlib import Path
from bipointnet import scale
with tempfile.TemporaryDirectory(dir=Path(sys.argv[3]).parent) as out:
    assert not scale.segment([sys.argv[2]], sys.argv[1], out, engine=sys.argv[4], workers=1).errors
if sys.argv[4] == "local":
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    sys.exit()
"""
PEAK = "\nprint([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"


def write_tile(file: Path, points: int) -> int:
    """A tile of at least so many points; returns their number."""
    scene = make_scene(np.random.default_rng(0), SIDE, SIDE, 8)
    across = int(np.ceil(np.sqrt(points / len(scene.points))))
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.scales, header.offsets = np.full(3, 0.001), np.array([500_000.0, 5_400_000.0, 0.0])
    codes = np.array([CODES[name] for name in CLASSES])[scene.labels]
    with laspy.open(file, "w", header=header) as target:
        for x in range(across):
            for y in range(across):
                part = laspy.ScaleAwarePointRecord.zeros(len(scene.points), header=header)
                corner = np.array([500_000 + SIDE * x, 5_400_000 + SIDE * y, 0])
                part.x, part.y, part.z = (scene.points + corner).T
                part.classification, part.intensity = codes, scene.intensity
                part.return_number, part.number_of_returns = scene.return_number, scene.number_of_returns
                target.write_points(part)
    return across**2 * len(scene.points)


def measured(program: str, *arguments: str | Path) -> dict[str, float]:
    """Seconds and megabytes of a program."""
    begun = time.perf_counter()
    command = [sys.executable, "-c", program + PEAK, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {"seconds": round(time.perf_counter() - begun, 1), "peak_mb": round(int(done.stdout.split()[-1]) / 1024, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--points", type=int, default=20_000_000)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    tile, out = given.work / "tile.laz", given.work / "out.laz"
    points = write_tile(tile, given.points)
    kinds = {
        "laspy, read and write": lambda: measured(COPY, "-", tile, out),
        "label, 1 thread": lambda: measured(LABEL, given.model, tile, out, "1"),
        "label, 2 threads": lambda: measured(LABEL, given.model, tile, out, "2"),
        "job, local, 1 worker": lambda: measured(JOB, given.model, tile, out, "local"),
        "job, ray, 1 worker": lambda: measured(JOB, given.model, tile, out, "ray"),
    }
    found = {kind: measure() for kind, measure in kinds.items()}
    speed = points / found["label, 1 thread"]["seconds"]
    report = {"points": points, "bytes": tile.stat().st_size, "points_per_second_per_core": speed, **found}
    write_beside(RESULTS / "large-tiles.json", (json.dumps(report, indent=1) + "\n").encode())
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
