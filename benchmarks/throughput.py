"""Clouds per second of a packed model on batches, and of other runtimes with the same network in float32 and int8.

    python benchmarks/throughput.py MODEL [--points 128,1024] [--rounds 40]

Batches of 256 built-in objects, on one thread and on all cores. The other runtimes get one cloud per call, one thread.
All take turns; the best round counts, because other load on the machine only ever slows a round down. Writes
benchmarks/results/throughput.json.
"""

import argparse
import json
import os
import time
from functools import partial
from pathlib import Path

import numpy as np

from bipointnet.data.shapes import held_out
from bipointnet.files import write_beside
from bipointnet.runtime import bench
from bipointnet.runtime.float_twin import float_twin
from bipointnet.runtime.model import load

RESULT = Path(__file__).parent / "results" / "throughput.json"
CLOUDS = 256
CALLS = 8  # of a runtime with one cloud per call, per round


def several(call: bench.Call) -> None:
    for _ in range(CALLS):
        call()


def measure(path: Path, points: int, rounds: int) -> dict[str, float]:
    """Clouds per second by runtime."""
    model = load(path)
    batch = np.stack([held_out(i, points)[0] for i in range(CLOUDS)])  # (B, N, 3)
    cores = os.cpu_count() or 1
    steps = float_twin(model)
    assert steps is not None, "expected a PointNet"
    calls: dict[str, tuple[bench.Call, int]] = {
        "packed, 1 thread": (lambda: model.predict(batch), CLOUDS),
        f"packed, {cores} threads": (lambda: model.predict(batch, threads=cores), CLOUDS),
    }
    for name, call in bench.installed_peers(steps, bench.as_input(model, batch[0]), 1).items():
        calls[f"{name}, 1 thread"] = (partial(several, call), CALLS)
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, (call, clouds) in calls.items():
            started = time.perf_counter()
            call()
            best[name] = min(best[name], (time.perf_counter() - started) / clouds)
    return {name: round(1 / seconds) for name, seconds in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--points", default="128,1024")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    sizes = [int(size) for size in options.points.split(",")]
    report = {
        "clouds_per_second": {size: measure(options.model, size, options.rounds) for size in sizes},
        "isa": load(options.model).isa,
        "machine": bench.machine(),
        "versions": bench.versions(["onnxruntime", "openvino"]),
    }
    write_beside(RESULT, (json.dumps(report, indent=2) + "\n").encode())
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
