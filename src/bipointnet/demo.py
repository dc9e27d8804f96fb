"""The demo: train a 1-bit PointNet, its float twin and a naive 1-bit network on built-in shapes, in minutes.

Then pack the first one, verify the packed file and benchmark it.
"""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bipointnet.config import Config
from bipointnet.data import open_dataset
from bipointnet.data.dataset import PointClouds
from bipointnet.evaluation.bench_torch import bench
from bipointnet.evaluation.networks import Evaluation, evaluate
from bipointnet.evaluation.verify_torch import verify_against_run
from bipointnet.models import checkpoint
from bipointnet.nn import deployed_bytes
from bipointnet.packing import pack
from bipointnet.runtime import model as runtime
from bipointnet.training.loop import train
from bipointnet.training.progress import OnProgress, Progress
from bipointnet.training.run_folder import Row
from bipointnet.viz import demo_figure

POINTS = 128
VERIFIED_CLOUDS, BENCH_ROUNDS = 50, 50
LENGTH: dict[str, Any] = {"points": POINTS, "epochs": 18, "batch": 32, "device": "cpu", "center": "box"}
SHORT_RECIPE: dict[str, Any] = {**LENGTH, "lr": 0.01, "warmup": 1.0, "clip": 1.0, "label_smoothing": 0.1}
# The naive network trains as long as the others, but with the paper's recipe. Clipped gradients would keep it from
# collapsing: BatchNorm's bias then learns some of the shift that EMA-max has from the start.
NETWORKS = {
    "1-bit (LSR + EMA-max)": Config(method="lsr", pool="ema-max", **SHORT_RECIPE),
    "float": Config(method="fp", **SHORT_RECIPE),
    "naive 1-bit (BNN + max)": Config(method="bnn", pool="max", **LENGTH),
}


@dataclass(frozen=True)
class TrainedNetwork:
    """One network of the demo: its run folder, result.json, size, evaluation of the last epoch, and metrics.csv."""

    name: str
    run: Path
    figures: dict[str, Any]
    bytes: int
    evaluation: Evaluation
    history: list[Row]


def train_alone(config: Config, data: PointClouds, folder: Path, on_progress: OnProgress) -> dict[str, Any]:
    """Train on one thread into `folder`, or continue the run there."""
    torch.set_num_threads(1)
    return train(config, data, folder, resume=True, on_progress=on_progress)


def train_all(
    data: PointClouds, folders: dict[str, Path], on_progress: Callable[[str, Progress], None]
) -> dict[str, Any]:
    """Train each network in a process of its own; returns their figures.

    Steps this small lose more by synchronizing threads than they gain, and the results of one thread do not depend on
    the number of cores.
    """
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(len(folders), context) as pool:
        queues = {name: manager.Queue() for name in folders}
        runs = {
            name: pool.submit(train_alone, NETWORKS[name], data, folder, queues[name].put)
            for name, folder in folders.items()
        }
        while not all(run.done() for run in runs.values()) or not all(queue.empty() for queue in queues.values()):
            for name, queue in queues.items():
                while not queue.empty():
                    on_progress(name, queue.get())
            time.sleep(0.1)
        return {name: run.result() for name, run in runs.items()}


def load_trained(name: str, figures: dict[str, Any], data: PointClouds, folder: Path) -> TrainedNetwork:
    """Load the last epoch of a finished run and evaluate it."""
    model, facts = checkpoint.load_run(folder)
    history = checkpoint.load(folder / "resume.safetensors")[1]["history"]
    clouds = torch.from_numpy(data.test.points)
    center = facts["config"]["center"]
    evaluation = evaluate(model, clouds, data.test.labels, len(data.classes), figures["points"], center)
    return TrainedNetwork(name, folder, figures, deployed_bytes(model), evaluation, history)


def draw(path: Path, data: PointClouds, networks: list[TrainedNetwork]) -> None:
    """Draw predictions and confusion of the first network, and the curves of all."""
    first = networks[0]
    shown = np.random.default_rng(1).permutation(len(data.test))[:16]
    demo_figure.demo_picture(
        path,
        clouds=data.test.points[shown],
        labels=data.test.labels[shown],
        probabilities=first.evaluation.probabilities[shown],
        classes=data.classes,
        confusion=first.evaluation.confusion,
        accuracy={
            n.name: [(r["epoch"], r["test_oa"]) for r in n.history if r["test_oa"] is not None] for n in networks
        },
        loss={n.name: [(r["epoch"], r["loss"]) for r in n.history] for n in networks},
    )


def demo(folder: Path, on_progress: Callable[[str, Progress], None]) -> tuple[PointClouds, list[TrainedNetwork]]:
    """Train and evaluate the three networks and write FOLDER/demo.png; returns the shapes and the networks.

    Args:
        folder: where the runs and the picture go. Finished runs in it are not repeated.
        on_progress: called with the name of a network and its progress after every step and epoch. For a log without
            a terminal, print `f"{name}: {progress}"` where `progress.evaluated` is true.
    """
    data = open_dataset("shapes", POINTS)
    folders = {name: folder / f"{config.method}-{config.pool}" for name, config in NETWORKS.items()}
    figures = train_all(data, folders, on_progress)
    networks = [load_trained(name, figures[name], data, folders[name]) for name in NETWORKS]
    draw(folder / "demo.png", data, networks)
    return data, networks


def deploy(
    folder: Path, data: PointClouds, network: TrainedNetwork, on_progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Pack a network into FOLDER/demo.bpn, verify it, run it on the held-out shapes, and benchmark it.

    on_progress: called with the steps done and their total, once for the verification and once for the benchmark.
    """
    clouds = data.test.points[:, : network.figures["points"]]  # (M, P, 3)
    path = folder / "demo.bpn"
    pack.export_run(network.run, path)
    verified = verify_against_run(path, network.run, data=clouds[:VERIFIED_CLOUDS], progress=on_progress)
    predictions = runtime.load(path).predict(clouds)
    return {
        "file": str(path),
        "verify": verified,
        "clouds": len(clouds),
        "accuracy": 100 * float((predictions.labels == data.test.labels).mean()),
        "as_torch": int((predictions.labels == network.evaluation.probabilities.argmax(axis=1)).sum()),
        "truth": data.classes[data.test.labels[0]],
        "name": predictions.names[0],
        "probability": float(predictions.probabilities[0].max()),
        "bench": bench(path, rounds=BENCH_ROUNDS, progress=on_progress),
    }
