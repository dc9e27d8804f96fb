"""Run a PyTorch network on many clouds, batch by batch, and evaluate its predictions.

Only small results are kept per batch, so that the memory needed does not grow with the logits of a whole split.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.data.normalize import normalize
from bipointnet.evaluation import metrics
from bipointnet.nn.hooks import preserved_modes

T = TypeVar("T")


@dataclass(frozen=True)
class Evaluation(metrics.Accuracy):
    """The result of `evaluate`.

    probabilities: (M, classes) of each cloud. entropy: bits per channel of the binarized pooled feature, mean over its
    channels.
    """

    probabilities: np.ndarray
    entropy: float


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put `model` into eval mode, then restore the mode of each module: a frozen BatchNorm stays frozen.

    Examples:
        >>> model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2).eval())
        >>> with eval_mode(model):
        ...     print([module.training for module in model])
        [False, False]
        >>> [module.training for module in model]
        [True, False]
    """
    with preserved_modes(model):
        model.eval()
        yield


@torch.no_grad()
def map_batches(model: nn.Module, function: Callable[[slice], T], count: int, batch: int) -> list[T]:
    """Call function(rows) for consecutive slices of `count` rows, with `model` in eval mode and without gradients.

    `function` prepares the inputs of these rows, runs the model and returns a small result: predictions, not logits.
    """
    with eval_mode(model):
        return [function(slice(start, min(start + batch, count))) for start in range(0, count, batch)]


def classify(
    model: nn.Module, clouds: Tensor, points: int, center: str = "mean", batch: int = 256
) -> tuple[Tensor, Tensor]:
    """Logits (M, classes) and pooled signs (M, channels) of clouds (M, P, C), from the first `points` of each."""

    def run(rows: slice) -> tuple[Tensor, Tensor]:
        output = model(normalize(clouds[rows, :points], center))
        return output.logits, output.pooled >= 0

    logits, bits = zip(*map_batches(model, run, len(clouds), batch), strict=True)
    return torch.cat(logits), torch.cat(bits)


def evaluate(
    model: nn.Module, clouds: Tensor, labels: np.ndarray, classes: int, points: int, center: str = "mean"
) -> Evaluation:
    """Accuracy of `model` on clouds (M, P, C) with labels (M,), and the entropy of its binarized pooled feature.

    Args:
        model: maps normalized clouds (B, points, C) to an `Output`.
        clouds: as files hold them; each is normalized after its first `points` were taken.
        labels: the class index of each cloud.
        classes: the number of classes.
        points: points per cloud that the network reads.
        center: as in `data.normalize`.

    Examples:
        >>> from bipointnet.models import PointNet
        >>> found = evaluate(PointNet(num_classes=4), torch.randn(8, 64, 3), np.arange(8) % 4, classes=4, points=32)
        >>> found.confusion.sum(axis=1).tolist(), found.probabilities.shape
        ([2, 2, 2, 2], (8, 4))
    """
    logits, bits = classify(model, clouds, points, center)
    confusion = metrics.confusion_matrix(labels, logits.argmax(dim=1).cpu().numpy(), classes)
    return Evaluation(confusion, logits.softmax(dim=1).cpu().numpy(), pooled_entropy(bits))


def pooled_entropy(bits: Tensor) -> float:
    """Entropy in bits of each column of pooled signs (M, channels), mean over the channels."""
    return float(metrics.bit_entropy(bits.cpu().numpy()).mean())
