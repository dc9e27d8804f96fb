"""The states of the random generators of a run: one for points and augmentations, and PyTorch's own for dropout."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from bipointnet.errors import UserError


@dataclass(frozen=True)
class RandomState:
    """The states at one moment.

    Examples:
        >>> rng = Generator().manual_seed(0)
        >>> state = RandomState.of(rng)
        >>> first = torch.rand(3, generator=rng)
        >>> state.restore(rng)
        >>> torch.equal(torch.rand(3, generator=rng), first)
        True
    """

    points: Tensor
    dropout: Tensor

    @classmethod
    def of(cls, points_rng: Generator) -> "RandomState":
        on_gpu = points_rng.device.type == "cuda"
        return cls(points_rng.get_state(), torch.cuda.get_rng_state() if on_gpu else torch.get_rng_state())

    def restore(self, points_rng: Generator) -> None:
        if self.points.shape != points_rng.get_state().shape:
            found = points_rng.device.type
            before = "cpu" if found == "cuda" else "cuda"
            raise UserError(
                f"the run was stopped within an epoch on {before}, found {found}; continue with --device {before}"
            )
        points_rng.set_state(self.points)
        set_state = torch.cuda.set_rng_state if points_rng.device.type == "cuda" else torch.set_rng_state
        set_state(self.dropout)
