"""The tour: a 1-bit PointNet, its float twin and the naive 1-bit network, trained on built-in shapes in minutes; then
the first one packed, checked and raced."""

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
from bipointnet.training.loop import Moment, Row, train
from bipointnet.viz import demo_figure as report

POINTS = 128
VERIFIED, RACED = 50, 50  # test clouds compared value by value; rounds of the race
LENGTH: dict[str, Any] = {"points": POINTS, "epochs": 18, "batch": 32, "device": "cpu"}
QUICKLY: dict[str, Any] = {**LENGTH, "lr": 0.01, "warmup": 1.0, "clip": 1.0, "label_smoothing": 0.1}
# The naive network is trained for as long as the others, but as in the paper. A clipped gradient keeps it from its
# collapse: BatchNorm's bias then learns some of the shift that EMA-max has from the start.
NETWORKS = {
    "1-bit (LSR + EMA-max)": Config(method="lsr", pool="ema-max", **QUICKLY),
    "float": Config(method="fp", **QUICKLY),
    "naive 1-bit (BNN + max)": Config(method="bnn", pool="max", **LENGTH),
}


@dataclass(frozen=True)
class Contestant:
    """One trained network of the demo. Accuracies in percent; entropy in bits a pooled channel."""

    name: str
    run: Path
    figures: dict[str, Any]
    bytes: int
    evaluation: Evaluation
    history: list[Row]


def train_alone(config: Config, data: PointClouds, folder: Path, watch: Callable[[Moment], None]) -> dict[str, Any]:
    """Train on one thread into `folder`, or take up what lies there."""
    torch.set_num_threads(1)
    return train(config, data, folder, resume=True, watch=watch)


def train_all(data: PointClouds, folders: dict[str, Path], watch: Callable[[str, Moment], None]) -> dict[str, Any]:
    """Train each network in a process of its own; returns their figures.

    Steps this small lose more to threads that wait for each other than they gain, and what one thread computes does
    not depend on how many there are.
    """
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(len(folders), context) as pool:
        news = {name: manager.Queue() for name in folders}
        runs = {
            name: pool.submit(train_alone, NETWORKS[name], data, folder, news[name].put)
            for name, folder in folders.items()
        }
        while not all(run.done() for run in runs.values()) or not all(queue.empty() for queue in news.values()):
            for name, queue in news.items():
                while not queue.empty():
                    watch(name, queue.get())
            time.sleep(0.1)
        return {name: run.result() for name, run in runs.items()}


def contestant(name: str, figures: dict[str, Any], data: PointClouds, folder: Path) -> Contestant:
    """A trained network, evaluated by its last epoch."""
    model, _ = checkpoint.load_run(folder)
    history = checkpoint.load(folder / "resume.safetensors")[1]["history"]
    evaluation = evaluate(
        model, torch.from_numpy(data.test.points), data.test.labels, len(data.classes), figures["points"]
    )
    return Contestant(name, folder, figures, deployed_bytes(model), evaluation, history)


def draw(path: Path, data: PointClouds, contestants: list[Contestant]) -> None:
    """Predictions and confusion of the first contestant, curves of all."""
    first = contestants[0]
    shown = np.random.default_rng(1).permutation(len(data.test))[:16]
    report.demo_picture(
        path,
        clouds=data.test.points[shown],
        labels=data.test.labels[shown],
        probabilities=first.evaluation.probabilities[shown],
        classes=data.classes,
        confusion=first.evaluation.confusion,
        accuracy={
            c.name: [(r["epoch"], r["test_oa"]) for r in c.history if r["test_oa"] is not None] for c in contestants
        },
        loss={c.name: [(r["epoch"], r["loss"]) for r in c.history] for c in contestants},
    )


def demo(folder: Path, watch: Callable[[str, Moment], None]) -> tuple[PointClouds, list[Contestant]]:
    """Train and evaluate all three, and write FOLDER/demo.png; returns the shapes and the networks."""
    data = open_dataset("shapes", POINTS)
    folders = {name: folder / f"{config.method}-{config.pool}" for name, config in NETWORKS.items()}
    figures = train_all(data, folders, watch)
    contestants = [contestant(name, figures[name], data, folders[name]) for name in NETWORKS]
    draw(folder / "demo.png", data, contestants)
    return data, contestants


def ship(folder: Path, data: PointClouds, one_bit: Contestant, watch: Callable[[int, int], None]) -> dict[str, Any]:
    """Pack a network into FOLDER/demo.bpn, verify it, ask it about the held-out shapes, and race it."""
    clouds = data.test.points[:, : one_bit.figures["points"]]  # (M, P, 3)
    path = folder / "demo.bpn"
    pack.export_run(one_bit.run, path)
    verified = verify_against_run(path, one_bit.run, data=clouds[:VERIFIED], progress=watch)
    said = runtime.load(path).predict(clouds)
    return {
        "file": str(path),
        "verify": verified,
        "clouds": len(clouds),
        "accuracy": 100 * float((said.labels == data.test.labels).mean()),
        "as_torch": int((said.labels == one_bit.evaluation.probabilities.argmax(axis=1)).sum()),
        "truth": data.classes[data.test.labels[0]],
        "name": said.names[0],
        "probability": float(said.probabilities[0].max()),
        "bench": bench(path, rounds=RACED, progress=watch),
    }
