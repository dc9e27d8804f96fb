"""Distillation: a run learns from the labels and from the outputs of a trained network, its teacher.

    loss = (1 - w) L + w T^2 KL(softmax(t / T) || softmax(s / T))

L is the loss of the task, s and t are the logits of the run and of its teacher, w is `teacher_weight` and T
`temperature`. The factor T^2 keeps the size of the gradient when T changes. (Hinton, Vinyals and Dean 2015,
arXiv:1503.02531.) The teacher sees the same augmented clouds as the run.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.config import Config
from bipointnet.errors import UserError
from bipointnet.models import checkpoint


def distillation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)), mean over rows: two (..., classes) -> ().

    Example:
        >>> logits = torch.tensor([[1.0, 2.0, 3.0]])
        >>> distillation(logits + 5, logits, temperature=2).abs() < 1e-6
        tensor(True)
    """
    ours = F.log_softmax(student.flatten(0, -2) / temperature, dim=-1)
    theirs = F.log_softmax(teacher.flatten(0, -2) / temperature, dim=-1)
    return temperature**2 * F.kl_div(ours, theirs, reduction="batchmean", log_target=True)


class Teacher:
    """A trained network whose outputs a run learns from.

    Args:
        config: of the run; names the teacher.
        classes, categories, channels: what the run classifies and reads; the teacher must agree.
        device: where the run computes.
    """

    def __init__(
        self, config: Config, classes: tuple[str, ...], categories: tuple[str, ...], channels: int, device: torch.device
    ) -> None:
        assert config.teacher is not None
        path = Path(config.teacher)
        network, facts = checkpoint.load_run(path)
        own = {
            "task": config.task,
            "classes": list(classes),
            "categories": list(categories),
            "channels": channels,
            "center": config.center,
        }
        for name, expected in own.items():
            found = facts["config"].get(name, "mean") if name in ("task", "center") else facts.get(name, [])
            if found != expected:
                raise UserError(
                    f"{path}: a teacher with {name} {_short(found)}, expected {_short(expected)} as in this run; name "
                    "another run with --teacher"
                )
        self.weight, self.temperature = config.teacher_weight, config.temperature
        self.network: nn.Module = network.to(device).requires_grad_(False)
        if config.compile:
            self.network = torch.compile(self.network)  # pyright: ignore[reportAttributeAccessIssue]

    def loss(self, loss: Tensor, logits: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        """The loss of the task and the distance from the teacher's outputs for the same inputs, weighted."""
        with torch.no_grad():
            known = self.network(*inputs).logits
        return (1 - self.weight) * loss + self.weight * distillation(logits, known, self.temperature)


def _short(value: object) -> str:
    if not isinstance(value, list):
        return repr(value)
    return ", ".join(value[:3]) + (f" and {len(value) - 3} more" if len(value) > 3 else "") or "none"
