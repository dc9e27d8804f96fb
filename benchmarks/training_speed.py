"""Time per training step on a GPU: the plain loop, compiled, captured in a CUDA graph, and both.

    python benchmarks/training_speed.py [--models pointnet-vanilla,pointnet2] [--ways plain,both] [--profile FOLDER]

Each way trains the same network from the same start, so the losses of its first steps are compared too: a captured
step computes what the plain one computes, and compiled code rounds differently. Steps have 256 clouds of 1024 points.
Writes benchmarks/results/training-speed.json; `--profile` also writes tables of the kernels of each way.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from bipointnet.config import CHOICES, Config
from bipointnet.data.shapes import shapes
from bipointnet.files import write_beside
from bipointnet.training.devices import Workers, pick_device
from bipointnet.training.loop import Run
from bipointnet.training.provenance import provenance

RESULT = Path(__file__).parent / "results" / "training-speed.json"
CLOUDS = 1024  # four steps per epoch
STEPS_OF_MODELNET40 = 9843 // 256
WAYS = {"plain": (False, False), "compiled": (True, False), "captured": (False, True), "both": (True, True)}


def losses(run: Run, steps: int) -> torch.Tensor:
    """The losses of the first steps."""
    found, epoch = [], 0
    run.network.train()
    while len(found) < steps:
        epoch += 1
        found += [run.take_step(rows)[0] for rows in run.batches(epoch)]
    return torch.stack(found[:steps]).cpu()


def milliseconds(run: Run, steps: int) -> float:
    """The median over five times per step."""
    rows = next(run.batches(1))
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            run.take_step(rows)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / steps)
    return 1000 * statistics.median(times)


def measure(run: Run, steps: int) -> tuple[dict[str, Any], torch.Tensor]:
    """The figures of a run, and the losses of its first steps."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    if run.config.compile:
        run.warm_up()
    first = losses(run, 8)
    started = time.perf_counter() - start
    each = milliseconds(run, steps)
    figures = {
        "milliseconds_per_step": round(each, 3),
        "seconds_per_epoch_of_modelnet40": round(each * STEPS_OF_MODELNET40 / 1000, 2),
        "seconds_to_start": round(started, 1),
        "gigabytes": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }
    return figures, first


def kernels(run: Run) -> str:
    """A table of the kernels of five steps."""
    rows = next(run.batches(1))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(5):
            run.take_step(rows)
        torch.cuda.synchronize()
    return found.key_averages().table(sort_by="cuda_time_total", row_limit=45, max_name_column_width=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(CHOICES["model"]))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--profile", type=Path, help="write tables of kernels to this folder")
    args = parser.parse_args()
    device = pick_device("cuda")
    data = shapes(CLOUDS, 64, points=2048)
    found: list[dict[str, Any]] = []
    for model in args.models.split(","):
        plain = None
        for way in args.ways.split(","):
            compile, capture = WAYS[way]
            config = Config(model=model, compile=compile, capture=capture, device="cuda")
            run = Run(config, data, Workers(device), device)
            figures, first = measure(run, args.steps)
            plain = first if plain is None else plain
            figures["largest_difference_of_losses"] = (first - plain).abs().max().item()
            found.append({"model": model, "way": way, **figures, "losses": [round(x, 6) for x in first.tolist()]})
            print(json.dumps(found[-1]), flush=True)
            content = json.dumps({**provenance(device), "runs": found}, indent=1)
            write_beside(RESULT, content.encode() + b"\n")
            if args.profile:
                write_beside(args.profile / f"{model}-{way}.txt", kernels(run).encode())


if __name__ == "__main__":
    main()
