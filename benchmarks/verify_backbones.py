"""Export, verify and compare labels: every backbone, both segmenters and networks in the manner of other repositories.

    python benchmarks/verify_backbones.py [--clouds 200] [--points 1024] [--only dgcnn]

For each network: export it, compare it bit by bit with PyTorch in float64 (`verify_network`), and compare the labels of
the runtime with PyTorch's on many clouds. Weights are random, with BatchNorm statistics from clouds. Writes
benchmarks/results/verify-backbones.json after every network; networks that are not measured again keep their figures.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import bipointnet
from bipointnet import _core
from bipointnet.data.normalize import normalize
from bipointnet.data.shapes import shapes
from bipointnet.evaluation.verify_torch import verify_network
from bipointnet.files import write_beside
from bipointnet.models import MODELS, PartPointNet, ScenePointNet
from bipointnet.packing.runs import Inputs
from bipointnet.runtime import verify

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import foreign_networks_export as foreign  # pyright: ignore[reportMissingImports]

RESULT = Path(__file__).parent / "results" / "verify-backbones.json"
CLASSES = 10
FOREIGN_POINTS = 128  # of the clouds of the small networks
VERIFIED = 3  # test clouds that verify_network gets besides random ones


def shape_clouds(points: int) -> np.ndarray:
    return normalize(shapes(train=20, test=200, points=points).test.points)  # (200, points, 3)


def trained_like(network: nn.Module, clouds: np.ndarray, *category: Tensor) -> nn.Module:
    """The network with its own BatchNorm statistics."""
    batch = torch.from_numpy(clouds[:8])
    bipointnet.calibrate(network, (batch, *category))
    with torch.no_grad():
        network.train()(batch, *category)
    return network.eval()


def library_network(name: str, points: int) -> nn.Module:
    torch.manual_seed(0)
    clouds = shape_clouds(points)
    if name == "parts":
        return trained_like(
            PartPointNet(CLASSES, linear="lsr", pool="ema-max", categories=4), clouds, torch.arange(8) % 4
        )
    if name == "rooms":
        return trained_like(ScenePointNet(CLASSES, in_channels=3, linear="lsr", pool="ema-max"), clouds)
    pool = {} if name == "pointconv" else {"pool": "ema-avg" if name == "pointcnn" else "ema-max"}
    return trained_like(MODELS[name](CLASSES, linear="lsr", **pool), clouds)


def inputs_of(name: str) -> Inputs:
    """How a cloud becomes the inputs of a foreign network."""
    layouts = {foreign.channels_first: "channels", foreign.six_channels: "points", foreign.points_first: "points"}
    example = foreign.NETWORKS[name][1]
    if example is foreign.with_batch:
        return Inputs("rows", 3, ["batch"])
    if example is foreign.with_category:
        return Inputs("channels", 3, [(1, 1, foreign.CATEGORIES)])
    return Inputs(layouts[example], 6 if example is foreign.six_channels else 3)


def foreign_clouds(name: str, count: int) -> np.ndarray:
    channels = 6 if foreign.NETWORKS[name][1] is foreign.six_channels else 3
    return np.stack([foreign.random_cloud(FOREIGN_POINTS, seed, channels).numpy() for seed in range(count)])


@torch.no_grad()
def torch_labels(network: nn.Module, inputs: Inputs, cloud: np.ndarray, category: int, classes: int) -> np.ndarray:
    output: Any = network(*inputs.make(cloud, category))
    logits = output.logits if hasattr(output, "logits") else foreign.logits(output)
    return logits.numpy().reshape(-1, classes).argmax(axis=1)


def measure(name: str, points: int, count: int) -> dict[str, Any]:
    """Bits, labels, sizes and seconds of one network; "foreign dgcnn" is another network than "dgcnn"."""
    known = inputs_of(name.removeprefix("foreign ")) if name.startswith("foreign ") else None
    name = name.removeprefix("foreign ")
    clouds = shape_clouds(points)[:count] if known is None else foreign_clouds(name, count)
    network = library_network(name, points) if known is None else foreign.one_bit(name)
    categories = [f"category {i}" for i in range(4)] if name in ("parts", "pointnet-parts") else []
    inputs = known or Inputs("points", 3, ["category"] if categories else [])
    example = None if known is None else foreign.NETWORKS[name][1](points=FOREIGN_POINTS)
    with torch.no_grad():
        output: Any = network.double()(*inputs.make(clouds[0]))
        classes = (output.logits if hasattr(output, "logits") else foreign.logits(output)).shape[-1]
        network.float()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bpn"
        start = time.process_time()
        names = [f"class {i}" for i in range(classes)]
        bipointnet.export(network, path, classes=names, example=example, categories=categories, normalize="none")
        seconds = time.process_time() - start
        report = verify_network(path, network, clouds[:VERIFIED], example=example)
        model = bipointnet.load(path)
    network.double()
    different = compared = 0
    for i, cloud in enumerate(clouds):
        category = i % 4 if categories else None
        logits = model.logits(cloud, category=category, normalize=False).reshape(-1, classes)
        expected = torch_labels(network, inputs, cloud, category or 0, classes)
        different, compared = different + int((logits.argmax(axis=1) != expected).sum()), compared + len(expected)
    return {
        "model": name,
        "points": clouds.shape[1],
        "export_cpu_seconds": round(seconds, 1),
        "bytes": model.bytes,
        "float_bytes": 4 * sum(p.numel() for p in network.parameters()),
        "verified": report["ok"],
        "failures": verify.failures(report),
        "values_compared_with_reference": report["reference"]["values_compared"],
        "bits_compared_with_torch": report["torch"]["bits_compared"],
        "bits_different": report["torch"]["bits_different"],
        "label_clouds": len(clouds),
        "labels_compared": compared,
        "labels_different": different,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*MODELS, "parts", "rooms", *(f"foreign {name}" for name in foreign.NETWORKS)]
    parser.add_argument("--clouds", type=int, default=200)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(verify.SIZES), help="points of random clouds")
    parser.add_argument("--only", choices=every, action="append")
    options = parser.parse_args()
    verify.SIZES = tuple(options.sizes)
    chosen = options.only or every
    before = json.loads(RESULT.read_text())["networks"] if RESULT.exists() else []
    rows: list[dict[str, Any]] = [row for row in before if row["model"] not in chosen]
    for name in chosen:
        rows.append(measure(name, options.points, options.clouds) | {"model": name})
        print(rows[-1], flush=True)
        rows[-1] |= {"random_clouds": list(verify.SIZES)}
        facts = {"isas": _core.isas(), "networks": rows}
        write_beside(RESULT, (json.dumps(facts, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
