"""The tasks: what a network's output is compared with, and how."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet import augment, metrics
from bipointnet.models import Output


def orthogonality(transform: Tensor) -> Tensor:
    """Mean over the batch of ||I - Z Z^T||_F for (B, D, D) matrices Z."""
    identity = torch.eye(transform.shape[-1], device=transform.device, dtype=transform.dtype)
    return torch.linalg.matrix_norm(identity - transform @ transform.mT).mean()


def classification_loss(output: Output, labels: Tensor, label_smoothing: float, transform_penalty: float) -> Tensor:
    """Cross-entropy, and where there is a feature transform, its distance from orthogonality."""
    loss = F.cross_entropy(output.logits, labels, label_smoothing=label_smoothing)
    if output.transform is not None:
        loss = loss + transform_penalty * orthogonality(output.transform)
    return loss


@dataclass(frozen=True)
class Judgement:
    """A network judged on a split. Accuracies in percent; entropy in bits, mean over the pooled channels."""

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
def classify(model: nn.Module, clouds: Tensor, points: int, batch: int = 256) -> tuple[Tensor, Tensor]:
    """Logits (M, classes) and pooled signs (M, channels) of clouds (M, P, C), each judged by its first `points`."""
    training = model.training
    model.eval()
    try:
        outputs = [model(augment.normalize(part[:, :points])) for part in clouds.split(batch)]
    finally:
        model.train(training)
    return torch.cat([o.logits for o in outputs]), torch.cat([o.pooled >= 0 for o in outputs])


def judge(model: nn.Module, clouds: Tensor, labels: np.ndarray, classes: int, points: int) -> Judgement:
    """Accuracy of `model` on clouds (M, P, C) with labels (M,), and the entropy of its binarized pooled feature."""
    logits, bits = classify(model, clouds, points)
    confusion = metrics.confusion_matrix(labels, logits.argmax(dim=1).cpu().numpy(), classes)
    entropy = float(metrics.bit_entropy(bits.cpu().numpy()).mean())
    return Judgement(confusion, logits.softmax(dim=1).cpu().numpy(), entropy)
