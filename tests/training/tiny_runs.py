"""Runs of seconds for the tests of training, and a kill in one of their steps."""

from pathlib import Path

import torch

from bipointnet.config import Config
from bipointnet.data.dataset import PointClouds
from bipointnet.models import checkpoint
from bipointnet.training.devices import Workers
from bipointnet.training.loop import Run
from bipointnet.training.progress import Progress

QUICK = Config(points=24, epochs=3, batch=16, lr=3e-3, device="cpu")


def weights(folder: Path, name: str = "last") -> dict[str, torch.Tensor]:
    return checkpoint.load(folder / f"{name}.safetensors")[0]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


class Killed(Exception):
    pass


def kill_at(epoch: int, step: int):
    def on_progress(progress: Progress) -> None:
        if (progress.epoch, progress.step) == (epoch, step) and progress.row is None:
            raise Killed

    return on_progress


def new_run(config: Config, data: PointClouds, init: Path | None = None) -> Run:
    """A run before its first step."""
    device = torch.device("cpu")
    return Run(config, data, Workers(device), device, init)
