"""Run a network on many clouds, in batches, and evaluate its answers."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.data.normalize import normalize
from bipointnet.evaluation import metrics
from bipointnet.models import Output


@dataclass(frozen=True)
class Evaluation:
    """A network evaluated on a split. Accuracies in percent; entropy in bits, mean over the pooled channels."""

    confusion: np.ndarray
    probabilities: np.ndarray
    entropy: float

    @property
    def overall(self) -> float:
        return metrics.overall_accuracy(self.confusion)

    @property
    def mean_class(self) -> float:
        return metrics.mean_class_accuracy(self.confusion)


@torch.no_grad()
def run_all(model: nn.Module, inputs: tuple[Tensor, ...], batch: int) -> Output:
    """What `model`, in eval mode, says of all clouds, `batch` at a time; of the pooled features the signs."""
    training = model.training
    model.eval()
    try:
        outputs = [model(*parts) for parts in zip(*(x.split(batch) for x in inputs), strict=True)]
    finally:
        model.train(training)
    return Output(torch.cat([o.logits for o in outputs]), torch.cat([o.pooled >= 0 for o in outputs]))


def classify(model: nn.Module, clouds: Tensor, points: int, batch: int = 256) -> tuple[Tensor, Tensor]:
    """Logits (M, classes) and pooled signs (M, channels) of clouds (M, P, C), each evaluated by its first `points`."""
    said = run_all(model, (normalize(clouds[:, :points]),), batch)
    return said.logits, said.pooled


def evaluate(model: nn.Module, clouds: Tensor, labels: np.ndarray, classes: int, points: int) -> Evaluation:
    """Accuracy of `model` on clouds (M, P, C) with labels (M,), and the entropy of its binarized pooled feature."""
    logits, bits = classify(model, clouds, points)
    confusion = metrics.confusion_matrix(labels, logits.argmax(dim=1).cpu().numpy(), classes)
    return Evaluation(confusion, logits.softmax(dim=1).cpu().numpy(), pooled_entropy(bits))


def pooled_entropy(bits: Tensor) -> float:
    return float(metrics.bit_entropy(bits.cpu().numpy()).mean())
