"""Size and latency of every backbone: our runtime, PyTorch in float32 and, if it can run the network, ONNX Runtime.

    python benchmarks/backbones_latency.py                    # all backbones; writes results/backbones-latency.json
    python benchmarks/backbones_latency.py --only dgcnn       # prints one backbone, writes nothing
    python benchmarks/backbones_latency.py --markdown         # prints the table of docs/backbones.md from the JSON

All runtimes take turns in one process, on one thread. Each reads a normalized cloud and computes logits. The 1-bit
networks have random weights, and BatchNorm statistics of built-in shapes; PyTorch runs the same backbones in full
precision, ONNX Runtime their float twins (bipointnet.runtime.float_twin), which do not exist for networks with
neighbors.

All times are CPU times of the thread: on a busy machine, others interrupt a call of milliseconds but not one of
microseconds, so ratios of elapsed times would flatter the faster runtime. Others that share the core itself, as on
rented machines, still slow down some calls by a factor of up to two. So the table shows the best call of each, and the
ratio of the medians beside the ratio of the best calls.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import bipointnet
from bipointnet.data.normalize import normalize
from bipointnet.data.shapes import shapes
from bipointnet.files import write_beside
from bipointnet.models import MODELS
from bipointnet.reproduce.tables import BACKBONES
from bipointnet.runtime import bench
from bipointnet.runtime.model import Model

RESULT = Path(__file__).parent / "results" / "backbones-latency.json"
CLASSES = 40
CALLS, WARM_UP = 4, 3  # calls per turn, of which the first is not counted; rounds that are not counted
PEERS = ("torch", "onnxruntime")
Call = Callable[[], object]


def one_bit_network(name: str, clouds: torch.Tensor) -> nn.Module:
    """A network with random weights whose scales and BatchNorm statistics come from clouds (B, N, 3)."""
    torch.manual_seed(0)
    pool = {} if name == "pointconv" else {"pool": "ema-avg" if name == "pointcnn" else "ema-max"}
    return with_statistics(MODELS[name](num_classes=CLASSES, linear="lsr", **pool), clouds)


def with_statistics(network: nn.Module, clouds: torch.Tensor) -> nn.Module:
    """The network with scales and BatchNorm statistics of clouds (B, N, 3), in eval mode."""
    bipointnet.calibrate(network, clouds[:8])
    with torch.no_grad():
        for batch in clouds.split(8):
            network.train()(batch)
    return network.eval()


def packed(network: nn.Module) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bpn"
        bipointnet.export(network, path, classes=[f"class {i}" for i in range(CLASSES)])
        return bipointnet.load(path)


def onnxruntime_call(model: Model, cloud: np.ndarray) -> dict[str, Call]:
    """ONNX Runtime with the float twin of a model; nothing if there is no twin, or if it is not installed."""
    steps = bench.float_twin(model)
    found = {} if steps is None else bench.installed_peers(steps, cloud, 1)
    return {name: call for name, call in found.items() if name == "onnxruntime"}


def take_turns(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Microseconds of the calls, in CPU time of this thread."""
    used: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(-WARM_UP, rounds):
        for name, call in calls.items():
            for i in range(CALLS):
                start = time.thread_time()
                call()
                if turn >= 0 and i > 0:
                    used[name].append(1e6 * (time.thread_time() - start))
    return used


def measure(name: str, clouds: torch.Tensor, cloud: np.ndarray, rounds: int) -> dict[str, Any]:
    """One backbone: times for `cloud` (N, 3), and the bytes of the packed file and of the float32 parameters."""
    model = packed(one_bit_network(name, clouds))
    plain, batch = MODELS[name](num_classes=CLASSES).eval(), torch.from_numpy(cloud)[None]

    @torch.inference_mode()
    def torch_float32() -> object:
        return plain(batch)

    calls: dict[str, Call] = {"ours": lambda: model.logits(cloud, normalize=False, threads=1), "torch": torch_float32}
    used = take_turns(calls | onnxruntime_call(model, cloud), rounds)
    best = {name: round(min(times), 1) for name, times in used.items()}
    median = {name: round(float(np.median(times)), 1) for name, times in used.items()}
    return {
        "model": name,
        "instruction_set": model.isa,
        "best_microseconds": best,
        "best_times_faster": faster(best),
        "median_microseconds": median,
        "median_times_faster": faster(median),
        "packed_bytes": model.bytes,
        "float32_bytes": 4 * sum(p.numel() for p in plain.parameters()),
    }


def faster(micro: dict[str, float]) -> dict[str, float]:
    return {peer: round(micro[peer] / micro["ours"], 1) for peer in micro if peer != "ours"}


def markdown(facts: dict[str, Any]) -> str:
    """The table of docs/backbones.md."""
    head = "float32, kB", "packed, kB", "smaller", "PyTorch, ms", "ONNX Runtime, ms", "packed, ms"
    lines = [line("", *head, "faster than PyTorch", "than ONNX Runtime", "by medians"), "|---" * 10 + "|"]
    for row in facts["rows"]:
        times, full, small = row["best_microseconds"], row["float32_bytes"], row["packed_bytes"]
        sizes = f"{full / 1000:,.0f}", f"{small / 1000:,.0f}", times_as_text(full / small)
        peers = [f"{times[peer] / 1000:.1f}" if peer in times else "" for peer in PEERS]
        ratios = [times_as_text(times[peer] / times["ours"]) if peer in times else "" for peer in PEERS]
        medians = " and ".join(f"{row['median_times_faster'][peer]:.0f}" for peer in PEERS if peer in times)
        lines.append(line(BACKBONES[row["model"]], *sizes, *peers, f"**{times['ours'] / 1000:.2f}**", *ratios, medians))
    return "\n".join(lines)


def line(*cells: str) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def times_as_text(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", choices=list(MODELS), action="append")
    parser.add_argument("--markdown", action="store_true", help="print the table of the last results, measure nothing")
    options = parser.parse_args()
    if options.markdown:
        print(markdown(json.loads(RESULT.read_text())))
        return
    torch.set_num_threads(1)
    data = shapes(train=40, test=20, points=options.points)
    clouds, cloud = torch.from_numpy(normalize(data.train.points)), normalize(data.test.points[0])
    rows = []
    for name in options.only or MODELS:
        rows.append(measure(name, clouds, cloud, options.rounds))
        print(json.dumps(rows[-1]), flush=True)
    facts = {
        "cpu": bench.cpu_name(),
        "threads": 1,
        "points": options.points,
        "rounds": options.rounds,
        "torch": torch.__version__,
        "rows": rows,
    }
    print(markdown(facts))
    if not options.only:
        write_beside(RESULT, (json.dumps(facts, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
