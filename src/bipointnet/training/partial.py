"""An epoch that was interrupted between two steps: what a checkpoint must hold so that the rest repeats exactly."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from bipointnet.training.random_state import RandomState


@dataclass(frozen=True)
class Partial:
    """The first steps of an epoch: their losses and accuracies, and the states of the random generators.

    At the start of an epoch all generators are seeded.
    """

    losses: Tensor  # (step,)
    correct: Tensor  # (step,)
    random: RandomState

    @property
    def step(self) -> int:
        return len(self.losses)

    @classmethod
    def of(cls, losses: list[Tensor], correct: list[Tensor], points_rng: Generator) -> "Partial":
        return cls(torch.stack(losses), torch.stack(correct), RandomState.of(points_rng))

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Partial":
        """What `tensors` returned."""
        random = RandomState(tensors["points_rng"], tensors["dropout_rng"])
        return cls(tensors["losses"], tensors["correct"], random)

    def tensors(self) -> dict[str, Tensor]:
        """Everything by name, for a checkpoint."""
        return {
            "losses": self.losses,
            "correct": self.correct,
            "points_rng": self.random.points,
            "dropout_rng": self.random.dropout,
        }
