"""The tour: a 1-bit PointNet, its float twin and the naive 1-bit network, trained on built-in shapes in minutes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bipointnet import checkpoint, report
from bipointnet.config import Config
from bipointnet.data import open_dataset
from bipointnet.data.dataset import PointClouds
from bipointnet.nn import deployed_bytes
from bipointnet.tasks import Judgement, judge
from bipointnet.train import Moment, Row, train

POINTS = 128
COMMON: dict[str, Any] = {"points": POINTS, "epochs": 16, "batch": 64, "lr": 0.01, "warmup": 1.0, "device": "cpu"}
NETWORKS = {
    "1-bit (LSR + EMA-max)": Config(method="lsr", pool="ema-max", **COMMON),
    "float": Config(method="fp", **COMMON),
    "naive 1-bit (BNN + max)": Config(method="bnn", pool="max", **COMMON),
}


@dataclass(frozen=True)
class Contestant:
    """One trained network of the demo. Accuracies in percent; entropy in bits a pooled channel."""

    name: str
    run: Path
    figures: dict[str, Any]
    bytes: int
    judgement: Judgement
    history: list[Row]


def contest(name: str, config: Config, data: PointClouds, folder: Path, watch: Callable[[Moment], None]) -> Contestant:
    """Train one network into `folder`, or take up what lies there, and judge its last epoch."""
    figures = train(config, data, folder, resume=True, watch=watch)
    model, _ = checkpoint.load_model(folder)
    history = checkpoint.load(folder / "resume.safetensors")[1]["history"]
    judgement = judge(model, torch.from_numpy(data.test.points), data.test.labels, len(data.classes), config.points)
    return Contestant(name, folder, figures, deployed_bytes(model), judgement, history)


def draw(path: Path, data: PointClouds, contestants: list[Contestant]) -> None:
    """Predictions and confusion of the first contestant, curves of all."""
    first = contestants[0]
    shown = np.random.default_rng(1).permutation(len(data.test))[:16]
    report.demo_picture(
        path,
        clouds=data.test.points[shown],
        labels=data.test.labels[shown],
        probabilities=first.judgement.probabilities[shown],
        classes=data.classes,
        confusion=first.judgement.confusion,
        accuracy={
            c.name: [(r["epoch"], r["test_oa"]) for r in c.history if r["test_oa"] is not None] for c in contestants
        },
        loss={c.name: [(r["epoch"], r["loss"]) for r in c.history] for c in contestants},
    )


def demo(folder: Path, watch: Callable[[str, Config, Moment], None]) -> list[Contestant]:
    """Train and judge all three, and write FOLDER/demo.png."""
    data = open_dataset("shapes", POINTS)
    contestants = [
        contest(
            name, config, data, folder / f"{config.method}-{config.pool}", lambda m, n=name, c=config: watch(n, c, m)
        )
        for name, config in NETWORKS.items()
    ]
    draw(folder / "demo.png", data, contestants)
    return contestants
