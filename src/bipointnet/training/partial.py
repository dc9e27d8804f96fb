"""An epoch that was interrupted between two steps: what a checkpoint must hold so that the rest repeats exactly."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class Partial:
    """The first steps of an epoch: their losses and accuracies, and the states of the random generators.

    At the start of an epoch all generators are seeded. Within it, the points and augmentations come from one generator
    and dropout from the generator of the device.
    """

    losses: Tensor  # (step,)
    correct: Tensor  # (step,)
    points_rng: Tensor
    dropout_rng: Tensor

    @property
    def step(self) -> int:
        return len(self.losses)

    @classmethod
    def of(cls, losses: list[Tensor], correct: list[Tensor], points_rng: Generator) -> "Partial":
        state = torch.cuda.get_rng_state() if points_rng.device.type == "cuda" else torch.get_rng_state()
        return cls(torch.stack(losses), torch.stack(correct), points_rng.get_state(), state)

    def restore_random(self, points_rng: Generator) -> None:
        points_rng.set_state(self.points_rng)
        set_state = torch.cuda.set_rng_state if points_rng.device.type == "cuda" else torch.set_rng_state
        set_state(self.dropout_rng)

    def tensors(self) -> dict[str, Tensor]:
        names = ("losses", "correct", "points_rng", "dropout_rng")
        return {f"partial.{name}": getattr(self, name) for name in names}
