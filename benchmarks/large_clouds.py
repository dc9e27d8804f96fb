"""Clouds of 1 to 100,000 points through every backbone: an answer, its time and the memory it takes.

    python benchmarks/large_clouds.py [--only dgcnn] [--threads 2] [--most 10000]

Each cloud runs in a process of its own, which loads the packed model and classifies one cloud; its peak memory is that
of the process, less that of the process before the cloud. Writes benchmarks/results/large-clouds.json, where
models that are not measured again keep their figures.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import bipointnet
from bipointnet.files import write_beside
from bipointnet.models import MODELS
from bipointnet.runtime import bench

RESULT = Path(__file__).parent / "results" / "large-clouds.json"
POINTS = (1, 2, 3, 5, 64, 1000, 10_000, 100_000)
CLASSES = 40
LIMIT = 600  # seconds per cloud

CHILD = """
import json, sys, time
import numpy as np
import bipointnet
path, points, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def peak():  # KiB; ru_maxrss would include the parent of the process
    return int(next(x for x in open("/proc/self/status") if x.startswith("VmHWM")).split()[1])
model = bipointnet.load(path)
model.logits(np.zeros((1, 3), np.float32))
cloud = np.random.default_rng(points).normal(size=(points, 3)).astype(np.float32)
open("/proc/self/clear_refs", "w").write("5")  # the peak so far is forgotten
before = peak()
start = time.perf_counter()
logits = model.logits(cloud, threads=threads)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": round(seconds, 5), "peak_mebibytes": round((peak() - before) / 1024, 1),
                  "finite": bool(np.isfinite(logits).all()), "label": int(logits.argmax())}))
"""


def measure(path: Path, points: int, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-c", CHILD, str(path), str(points), str(threads)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return {"points": points, "failed": f"no answer within {LIMIT} s"}
    if done.returncode:
        return {"points": points, "failed": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return {"points": points, **json.loads(done.stdout)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--most", type=int, default=POINTS[-1])
    parser.add_argument("--only", choices=list(MODELS), action="append")
    options = parser.parse_args()
    chosen = options.only or list(MODELS)
    before = json.loads(RESULT.read_text())["models"] if RESULT.exists() else []
    rows: list[dict[str, Any]] = [row for row in before if row["model"] not in chosen]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            torch.manual_seed(0)
            pool = {} if name == "pointconv" else {"pool": "ema-avg" if name == "pointcnn" else "ema-max"}
            network = MODELS[name](CLASSES, linear="lsr", **pool).eval()
            path = Path(folder) / f"{name}.bpn"
            bipointnet.export(network, path, classes=[f"class {i}" for i in range(CLASSES)])
            rows.append({"model": name, "bytes": path.stat().st_size, "clouds": []})
            for points in (n for n in POINTS if n <= options.most):
                rows[-1]["clouds"].append(measure(path, points, options.threads))
                print(name, rows[-1]["clouds"][-1], flush=True)
                facts = {"cpu": bench.cpu_name(), "kernels": bipointnet.load(path).isa}
                facts |= {"threads": options.threads, "models": rows}
                write_beside(RESULT, (json.dumps(facts, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
