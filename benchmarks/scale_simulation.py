"""What labeling a country costs: a simulation of a job with the measured speed, beside the formula of docs/scale.md.

    python benchmarks/scale_simulation.py

Tiles of different sizes go to N workers one by one; all of them share the bandwidth of the storage; a worker that fails
loses its tile, which is done again. The formula is

    hours = max(points / (speed cores), bytes / bandwidth) (1 + losses)

Writes benchmarks/results/scale-simulation.json.
"""

import heapq
import json
from pathlib import Path

import numpy as np

from bipointnet.files import write_beside

RESULTS = Path(__file__).parent / "results"
COUNTRY = 1e12  # points
TILE = 20e6  # points, the mean
SPREAD = 0.5  # standard deviation of the logarithm of a tile's size
LAZ = 5.0  # bytes per point
FAILURES = 1e-3  # per worker and hour
SCALE = 1000  # the simulated country is smaller by this factor, and so are cores and bandwidth: the hours are the same


def simulate(cores: int, speed: float, bandwidth: float, rng: np.random.Generator) -> float:
    """Hours until the last tile is done. speed: points per second and core; bandwidth: bytes per second for all."""
    count = int(COUNTRY / SCALE / TILE)
    sizes = TILE * rng.lognormal(-(SPREAD**2) / 2, SPREAD, count)
    workers = [0.0] * max(1, cores // SCALE)
    link = 0.0  # when the storage has sent all that was asked for
    end = 0.0
    waiting = list(sizes)
    while waiting:
        size = waiting.pop()
        begun = heapq.heappop(workers)
        link = max(link, begun) + LAZ * size * SCALE / bandwidth
        done = max(link, begun + size / speed)
        if rng.random() < 1 - np.exp(-FAILURES * (done - begun) / 3600):
            waiting.append(size)
            done = begun + rng.random() * (done - begun)
        heapq.heappush(workers, done)
        end = max(end, done)
    return end / 3600


def formula(cores: int, speed: float, bandwidth: float) -> float:
    """Hours by the formula."""
    seconds = max(COUNTRY / (speed * cores), LAZ * COUNTRY / bandwidth)
    tile = TILE / speed
    return seconds * (1 + FAILURES * tile / 3600 / 2) / 3600


def main() -> None:
    measured = json.loads((RESULTS / "large-tiles.json").read_text())
    speed = measured["points_per_second_per_core"]
    rows = []
    for cores in (1_000, 10_000, 100_000):
        for bandwidth in (1e9, 10e9):
            hours = [simulate(cores, speed, bandwidth, np.random.default_rng(seed)) for seed in range(5)]
            row = {"cores": cores, "bandwidth": bandwidth, "hours": float(np.mean(hours))}
            rows.append({**row, "formula": formula(cores, speed, bandwidth)})
            print(
                f"{cores:,} cores, {bandwidth / 1e9:g} GB/s: {row['hours']:.1f} h, formula {rows[-1]['formula']:.1f} h"
            )
    report = {"points": COUNTRY, "speed": speed, "bytes_per_point": LAZ, "rows": rows}
    write_beside(RESULTS / "scale-simulation.json", (json.dumps(report, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
