"""Distillation: a run learns from the labels and from the outputs of a trained network, its teacher.

    loss = (1 - w) L + w T^2 KL(softmax(t / T) || softmax(s / T)) + v mean of (z_s - z_t)^2

L is the loss of the task, s and t are the logits of the run and of its teacher, w is `teacher_weight`, T `temperature`
and v `feature_weight`. The factor T^2 keeps the size of the gradient when T changes. (Hinton, Vinyals and Dean 2015,
arXiv:1503.02531.) z are the global features after the last pool, standardized over the batch: those of a 1-bit network
have another scale and mean than those of a float network, and only their order within the batch decides its bits. The
teacher sees the same augmented clouds as the run. On a GPU it computes in bfloat16.
"""

from itertools import zip_longest
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.config import Config, from_mapping
from bipointnet.data.dataset import PointClouds
from bipointnet.errors import UserError
from bipointnet.models import Output, checkpoint

EPS = 1e-5  # of standard deviations; some features of a teacher are constant


def distillation(student: Tensor, teacher: Tensor, temperature: float, counts: Tensor | None = None) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)), mean over rows: two (..., classes) -> ().

    counts: which rows count, bool; None: all.

    Examples:
        >>> logits = torch.tensor([[1.0, 2.0, 3.0]])
        >>> distillation(logits + 5, logits, temperature=2).abs() < 1e-6
        tensor(True)
    """
    ours = F.log_softmax(student.flatten(0, -2) / temperature, dim=-1)
    theirs = F.log_softmax(teacher.flatten(0, -2) / temperature, dim=-1)
    if counts is None:
        return temperature**2 * F.kl_div(ours, theirs, reduction="batchmean", log_target=True)
    rows = F.kl_div(ours, theirs, reduction="none", log_target=True).sum(dim=-1)
    return temperature**2 * (rows * counts.flatten()).sum() / counts.sum().clamp(min=1)


def feature_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """The mean squared distance of features that are standardized over the batch: two (B, F) -> ().

    Examples:
        >>> features = torch.randn(8, 4)
        >>> feature_distance(3 * features + 1, features) < 1e-6
        tensor(True)
    """

    def standardized(x: Tensor) -> Tensor:
        return (x - x.mean(dim=0)) / (x.std(dim=0, unbiased=False) + EPS)

    return F.mse_loss(standardized(student), standardized(teacher))


class Teacher:
    """A trained network whose outputs a run learns from.

    Args:
        config: of the run; names the teacher.
        classes, categories: what the run predicts, and the categories that it reads; the teacher must agree.
        data: of the run. The teacher must not have seen its test clouds.
        device: where the run computes.
    """

    def __init__(
        self,
        config: Config,
        classes: tuple[str, ...],
        categories: tuple[str, ...],
        data: PointClouds,
        device: torch.device,
    ) -> None:
        assert config.teacher is not None
        path = Path(config.teacher)
        network, facts = checkpoint.load_run(path)
        theirs = from_mapping(str(path), facts["config"])
        for name, found, expected in (
            ("task", theirs.task, config.task),
            ("channels", facts["channels"], data.channels),
            ("center", theirs.center, config.center),
            ("classes", facts["classes"], list(classes)),
            ("categories", facts.get("categories", []), list(categories)),
            ("training data", theirs.fold, config.fold),
        ):
            if found != expected:
                raise UserError(
                    f"{path}: a teacher with other {name} than this run ({_difference(found, expected)}); name another "
                    "run with --teacher"
                )
        seen = {file for file, *_ in facts.get("trained_on", ())} & set(data.held_out)
        if seen:
            raise UserError(
                f"{path}: a teacher that was trained on {len(seen)} of the test files of this run, such as "
                f"{min(seen)}; name another run with --teacher"
            )
        self.weight, self.temperature = config.teacher_weight, config.temperature
        self.feature_weight = config.feature_weight
        self.network: nn.Module = network.to(device).requires_grad_(False)
        if config.compile:
            self.network = torch.compile(self.network)  # pyright: ignore[reportAttributeAccessIssue]

    def loss(self, loss: Tensor, output: Output, inputs: tuple[Tensor, ...], counts: Tensor | None = None) -> Tensor:
        """The loss of the task and the distances from the teacher's outputs for the same inputs, weighted.

        counts: which points count, bool; None: all.
        """
        device = output.logits.device.type
        rounded = torch.autocast(device, torch.bfloat16, enabled=device == "cuda", cache_enabled=False)
        with torch.no_grad(), rounded:  # half the memory traffic; a graph of captured steps must not cache
            theirs = self.network(*inputs)
        known = Output(theirs.logits.float(), theirs.pooled.float())
        total = (1 - self.weight) * loss + self.weight * distillation(
            output.logits, known.logits, self.temperature, counts
        )
        if not self.feature_weight:
            return total
        if output.pooled.shape != known.pooled.shape:
            raise UserError(
                f"feature_weight compares {output.pooled.shape[1]} global features with {known.pooled.shape[1]} of the "
                "teacher; expected as many; leave --feature-weight out"
            )
        return total + self.feature_weight * feature_distance(output.pooled, known.pooled)


def _difference(found: object, expected: object) -> str:
    """The first difference of two lists, or the two values."""
    if isinstance(found, list) and isinstance(expected, list):
        pairs = enumerate(zip_longest(found, expected, fillvalue="none"), 1)
        place, (one, other) = next(pair for pair in pairs if pair[1][0] != pair[1][1])
        return f"number {place} is {one}, expected {other}"
    return f"{found}, expected {expected}"
