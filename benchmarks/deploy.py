"""Bytes and time of the paper's variants for deployment (a to f) of the vanilla PointNet, all in one run, taking turns.

    python benchmarks/deploy.py

Size and time hardly depend on the training, so the weights are random; `bipointnet reproduce deploy` has the
accuracies. Variant (a), float32, runs in ONNX Runtime; the others are packed. Writes benchmarks/results/deploy.json,
which benchmarks/results_page.py reads.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from backbones_latency import CLASSES, WARM_UP, Call, onnxruntime_call, packed, take_turns, with_statistics

from bipointnet.config import from_mapping
from bipointnet.data.normalize import normalize
from bipointnet.data.shapes import shapes
from bipointnet.files import write_beside
from bipointnet.models import build
from bipointnet.reproduce.tables import TABLES, Row
from bipointnet.runtime import bench
from bipointnet.runtime.model import Model

RESULT = Path(__file__).parent / "results" / "deploy.json"
POINTS, ROUNDS = 1024, 60


def packed_variant(row: Row, clouds: torch.Tensor) -> Model:
    """A 1-bit variant with random weights whose scales and BatchNorm statistics come from clouds (B, N, 3)."""
    torch.manual_seed(0)
    return packed(with_statistics(build(from_mapping(row.name, row.options), CLASSES, 3), clouds))


def main() -> None:
    torch.set_num_threads(1)
    data = shapes(train=40, test=20, points=POINTS)
    clouds, cloud = torch.from_numpy(normalize(data.train.points)), normalize(data.test.points[0])
    full, *variants = TABLES["deploy"].rows
    models = {row.name: packed_variant(row, clouds) for row in variants}
    calls: dict[str, Call] = {
        name: lambda model=model: model.logits(cloud, normalize=False, threads=1) for name, model in models.items()
    }
    calls[full.name] = onnxruntime_call(models[variants[0].name], cloud)["onnxruntime"]
    used = take_turns(calls, ROUNDS)
    network = build(from_mapping(full.name, full.options), CLASSES, 3)
    sizes = {name: model.bytes for name, model in models.items()}
    sizes[full.name] = 4 * sum(p.numel() for p in network.parameters())
    report: dict[str, Any] = {
        "cpu": bench.cpu_name(),
        "instruction_set": models[variants[0].name].isa,
        "points": POINTS,
        "rounds": [WARM_UP, ROUNDS],
        "rows": {
            row.name: {
                "label": row.label,
                "bytes": sizes[row.name],
                "best_microseconds": round(min(used[row.name]), 1),
                "median_microseconds": round(float(np.median(used[row.name])), 1),
            }
            for row in (full, *variants)
        },
    }
    write_beside(RESULT, (json.dumps(report, indent=1) + "\n").encode())
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
