"""Try ways to train in stages, and to calm weights that flip around 0, on a validation split.

    python benchmarks/validation_split.py modelnet40_ply_hdf5_2048 VALIDATION
    python benchmarks/stages.py VALIDATION RESULTS.jsonl --ways plain,two-stage --seeds 0,1

A vanilla PointNet with LSR, small enough for a CPU: 128 points and 40 epochs. RESULTS.jsonl has one line per training.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bipointnet.config import Config
from bipointnet.data import open_dataset
from bipointnet.data.dataset import PointClouds
from bipointnet.nn import LSR, BinaryLinear, fused_pool
from bipointnet.nn.sign import hard_sign
from bipointnet.training import loop
from bipointnet.training.devices import Workers, keep_freed_memory, pick_device
from bipointnet.training.progress import ignore

LATE = 0.7  # of the training: from then on weights are calmed
LAST = 8  # epochs whose mean is compared


@dataclass(frozen=True, repr=False)
class TwoStage(LSR):
    """LSR whose weights are float in the first part of the training, while the inputs are 1-bit from the beginning."""

    float_until: ClassVar[float] = 0.5

    def scheduled(self) -> dict[str, Tensor]:
        return {"narrowness": torch.tensor(0.0)}  # the fraction of the training that is complete

    def binarize_weight(self, layer: BinaryLinear) -> Tensor:
        if layer.narrowness < self.float_until:
            return layer.weight - layer.weight.mean()
        return super().binarize_weight(layer)

    def set_progress(self, layer: BinaryLinear, fraction: float) -> None:
        layer.narrowness.fill_(fraction)


class Run(loop.Run):
    """A training that counts how many 1-bit weights change their sign in a step."""

    flips: float = 0.0  # of the last epoch, percent per step
    calmed: float = 0.0  # percent of the weights that are held in place

    def __init__(self, config: Config, data: PointClouds) -> None:
        device = pick_device(config.device)
        super().__init__(config, data, Workers(device), device)
        self.layers = [module for module in self.model.modules() if isinstance(module, BinaryLinear)]
        self.signs = [self.sign(layer) for layer in self.layers]
        self.done = 0

    @staticmethod
    def sign(layer: BinaryLinear) -> Tensor:
        return hard_sign(layer.weight.detach() - layer.weight.detach().mean())

    @property
    def late(self) -> bool:
        return self.done >= LATE * self.steps * self.config.epochs

    def step(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        found = super().step(rows)
        self.done += 1
        with torch.no_grad():
            self.calm()
        flipped, total = 0.0, 0
        for i, layer in enumerate(self.layers):
            signs = self.sign(layer)
            self.flipped(i, signs)
            flipped += float((signs != self.signs[i]).sum())
            total += signs.numel()
            self.signs[i] = signs
        share = 1 / self.steps
        self.flips = (1 - share) * self.flips + share * 100 * flipped / total
        return found

    def calm(self) -> None:
        """Change the weights after a step."""

    def flipped(self, layer: int, signs: Tensor) -> None:
        """Called with the new signs of a layer after each step."""


class Frozen(Run):
    """Weights that flip often get the sign that they had most of the time, and keep it.

    (Nagel et al. 2022, arXiv:2203.11086, for weights of several bits.)
    """

    OFTEN = 0.01  # flips per step

    def __init__(self, config: Config, data: PointClouds) -> None:
        super().__init__(config, data)
        weights = [layer.weight for layer in self.layers]
        self.rate = [torch.zeros_like(weight) for weight in weights]
        self.mean = [signs.clone() for signs in self.signs]
        self.frozen = [torch.zeros_like(weight, dtype=torch.bool) for weight in weights]
        self.kept = [torch.zeros_like(weight) for weight in weights]

    def flipped(self, layer: int, signs: Tensor) -> None:
        self.rate[layer].lerp_((signs != self.signs[layer]).float(), 0.01)
        self.mean[layer].lerp_(signs, 0.01)
        if self.late:
            new = (self.rate[layer] > self.OFTEN) & ~self.frozen[layer]
            self.frozen[layer] |= new
            self.kept[layer][new] = hard_sign(self.mean[layer][new])
            self.calmed = 100 * float(torch.cat([frozen.flatten() for frozen in self.frozen]).float().mean())

    def calm(self) -> None:
        for layer, frozen, kept in zip(self.layers, self.frozen, self.kept, strict=True):
            size = (layer.weight - layer.weight.mean()).abs().mean()
            layer.weight.copy_(torch.where(frozen, layer.weight.mean() + size * kept, layer.weight))


class Repelled(Run):
    """Weights are pushed away from the threshold of their sign, by a share of the learning rate."""

    PUSH = 0.3

    def calm(self) -> None:
        if not self.late:
            return
        rate = float(self.optimizer.param_groups[0]["lr"])
        for layer in self.layers:
            layer.weight.add_(self.PUSH * rate * self.sign(layer))


WAYS: dict[str, tuple[type[Run], dict[str, object]]] = {
    "plain": (Run, {}),
    "two-stage": (Run, {"method": "stages:TwoStage"}),
    "frozen": (Frozen, {}),
    "repelled": (Repelled, {}),
}


def measure(way: str, seed: int, data: PointClouds, epochs: int) -> dict[str, object]:
    kind, options = WAYS[way]
    recipe = {"batch": 64, "lr": 3e-3, "label_smoothing": 0.1, "scale": 1.25, "shift": 0.1, "gradient": "polynomial"}
    shape = {"model": "pointnet-vanilla", "points": 128, "epochs": epochs, "device": "cpu"}
    config = Config(**{**recipe, **shape, "seed": seed, **options})
    loop.is_evaluated = lambda epoch, epochs: epoch > epochs - LAST
    started = time.process_time()
    run = kind(config, data)
    rows = [row for epoch in range(1, epochs + 1) if (row := run.run_epoch(epoch, ignore))]
    accuracy = [row["test_oa"] for row in rows[-LAST:]]
    return {
        "way": way,
        "seed": seed,
        "mean": round(float(np.mean(accuracy)), 2),
        "last": round(accuracy[-1], 2),
        "spread": round(float(np.std(accuracy)), 2),
        "accuracy": [round(value, 2) for value in accuracy],
        "train_oa": round(rows[-1]["train_oa"], 2),
        "loss": round(rows[-1]["loss"], 4),
        "flips": round(run.flips, 4),
        "calmed": round(run.calmed, 2),
        "epochs": epochs,
        "seconds": round(time.process_time() - started),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("results", type=Path)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    # The fast maximum of integers is wrong for the float weights of TwoStage; this one takes any numbers.
    fused_pool._integer_peak = fused_pool._peak
    data = open_dataset(given.data, 128)
    for seed in map(int, given.seeds.split(",")):
        for way in given.ways.split(","):
            done = measure(way, seed, data, given.epochs)
            with given.results.open("a") as file:
                file.write(json.dumps(done) + "\n")
            print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
