"""The tasks: what a network reads, what its output is compared with, and how it is evaluated.

classify: one class per cloud. part: one part per point of an object. semantic: one class per point in a room.
A run asks its task for the few things in which they differ.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.config import Config
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.evaluation import metrics
from bipointnet.evaluation import segmentation as scores
from bipointnet.evaluation.networks import classify, map_batches, pooled_entropy
from bipointnet.models import Output
from bipointnet.models.pointnet import orthogonality
from bipointnet.training.devices import pick_device

POINTS_AT_ONCE = 2**16  # per batch, when networks that label points are evaluated: features take 20 KB per point


@dataclass(frozen=True)
class Answers:
    """What a network predicts for the test split.

    labels: (M,) the class of each cloud, or (M, P) of each point. probabilities: (M, classes) of clouds, or None.
    entropy: bits per channel of the binarized pooled feature, mean over its channels.
    """

    labels: np.ndarray
    probabilities: np.ndarray | None
    entropy: float


@dataclass(frozen=True)
class Task:
    """Classification of clouds, and what the other tasks share with it."""

    config: Config
    data: PointClouds
    score: ClassVar[str] = "test_oa"  # the figure by which the best epoch is chosen

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, one per logit."""
        return self.data.classes

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories a network takes as input beside a cloud; empty if it takes none."""
        return ()

    def check(self) -> None:
        """Raise UserError if the data cannot be used for this task."""
        if len(self.data.classes) < 2:
            remedy = "; use --task semantic" if self.data.point_classes else "; use other data"
            raise UserError(
                f"{self.data.name}: all clouds are of one class, {' '.join(self.data.classes)}; expected two or more "
                f"classes{remedy}"
            )

    def target(self, split: Split) -> np.ndarray:
        """The labels to learn: (M,) of clouds or (M, P) of points."""
        return split.labels

    def inputs(self, clouds: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """The inputs of the network for clouds (B, N, C) of these classes (B,)."""
        return (normalize(clouds, self.config.center),)

    def loss(self, output: Output, target: Tensor) -> Tensor:
        """Cross-entropy, plus the weighted distance of the feature transform from orthogonal, if there is one."""
        loss = self.cross_entropy(output.logits.flatten(0, -2), target.flatten())
        if output.transform is not None:
            loss = loss + self.config.transform_penalty * orthogonality(output.transform)
        return loss

    def cross_entropy(self, logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(logits, target, label_smoothing=self.config.label_smoothing)

    def correct(self, logits: Tensor, target: Tensor) -> Tensor:
        """The fraction of correct predictions."""
        return (logits.argmax(dim=-1) == target).float().mean()

    def predict(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> Answers:
        """The predictions for the test split, clouds (M, P, C) of classes (M,)."""
        logits, bits = classify(model, clouds, self.config.points, self.config.center)
        probabilities = logits.softmax(dim=1).cpu().numpy()
        return Answers(logits.argmax(dim=1).cpu().numpy(), probabilities, pooled_entropy(bits))

    def confusion(self, answers: Answers) -> np.ndarray:
        """(classes, classes) counts of clouds or points; row: true class, column: predicted class."""
        return metrics.confusion_matrix(self.data.test.labels, answers.labels, len(self.classes))

    def figures(self, answers: Answers) -> dict[str, float]:
        """The figures of the test split by their names in metrics.csv."""
        assert answers.probabilities is not None
        found = metrics.Accuracy(self.confusion(answers))
        # Rounded down: a cloud with just this probability is not unlike the test clouds, whatever the rounding.
        confidence = math.floor(1000 * np.percentile(answers.probabilities.max(axis=1), 5)) / 1000
        figures = {"test_oa": found.overall, "test_macc": found.mean_class, "confidence": confidence}
        return figures | {"entropy": answers.entropy}

    def final(self, answers: Answers) -> dict:
        """Further entries of result.json about the last epoch."""
        return {}


@dataclass(frozen=True)
class Segmentation(Task, ABC):
    """What the tasks share that label points."""

    score: ClassVar[str] = "test_miou"

    @property
    def classes(self) -> tuple[str, ...]:
        return self.data.point_classes

    def target(self, split: Split) -> np.ndarray:
        assert split.point_labels is not None
        return split.point_labels

    def predict(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> Answers:

        def run(rows: slice) -> tuple[Tensor, Tensor]:
            output = model(*self.inputs(clouds[rows, : self.config.points], labels[rows]))
            return self.pick(output.logits, labels[rows]).to(torch.int16).cpu(), output.pooled >= 0

        batch = max(1, POINTS_AT_ONCE // self.config.points)
        predictions, bits = zip(*map_batches(model, run, len(clouds), batch), strict=True)
        return Answers(torch.cat(predictions).numpy(), None, pooled_entropy(torch.cat(bits)))

    def pick(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The class of each point, (M, P, classes) and (M,) -> (M, P)."""
        return logits.argmax(dim=-1)

    @abstractmethod
    def scores(self, predictions: np.ndarray) -> scores.Scores:
        """The scores of predicted classes (M, P) of the points of the test split."""

    def cloud_ious(self, predictions: np.ndarray) -> np.ndarray:
        """(M,) mIoU of each cloud of the test split, from the predicted classes (M, P) of its points."""
        labels = self.target(self.data.test)[:, : predictions.shape[1]]
        return metrics.cloud_ious(labels, predictions, len(self.classes))

    def confusion(self, answers: Answers) -> np.ndarray:
        return self.scores(answers.labels).confusion

    def figures(self, answers: Answers) -> dict[str, float]:
        figures = self.scores(answers.labels).figures
        return {"test_oa": figures["oa"], "test_miou": figures["miou"], "entropy": answers.entropy}

    def final(self, answers: Answers) -> dict:
        found = self.scores(answers.labels)
        return {
            "scores": found.as_json(),
            "point_classes": list(self.classes),
            "confusion": found.confusion.tolist(),
        }


@dataclass(frozen=True)
class PartSegmentation(Segmentation):
    """Parts of objects of one category, or of several; then the category of a cloud is an input of the network."""

    @property
    def categories(self) -> tuple[str, ...]:
        return self.data.classes if len(self.data.classes) > 1 else ()

    def check(self) -> None:
        if not self.data.parts:
            remedy = "; use --task semantic" if self.data.point_classes else ""
            raise UserError(f"{self.data.name}: has no part labels; expected data with parts, such as shapes{remedy}")

    def inputs(self, clouds: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        normalized = normalize(clouds, self.config.center)
        return (normalized, labels) if self.categories else (normalized,)

    def pick(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The most likely part of the category of its cloud."""
        predictions = labels.new_empty(logits.shape[:-1])
        for category in labels.unique().tolist():
            rows = labels == category
            parts = torch.tensor(self.data.parts[category], device=logits.device)
            predictions[rows] = metrics.argmax_among(logits[rows], parts)
        return predictions

    def scores(self, predictions: np.ndarray) -> scores.Scores:
        return scores.of_parts(self.data, predictions)

    def cloud_ious(self, predictions: np.ndarray) -> np.ndarray:
        labels = self.target(self.data.test)[:, : predictions.shape[1]]
        return metrics.shape_ious(labels, predictions, self.data.test.labels, self.data.parts)


@dataclass(frozen=True)
class SemanticSegmentation(Segmentation):
    """Objects in blocks of rooms and scans. Blocks are not normalized; rare classes weigh more in the loss.

    Points with the label -1 are neither learned nor evaluated.
    """

    def check(self) -> None:
        if not self.data.point_classes or self.data.parts:
            remedy = "; use --task part" if self.data.parts else ""
            raise UserError(f"{self.data.name}: has no labeled scans; expected data such as rooms{remedy}")

    def inputs(self, clouds: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        return (clouds,)

    @cached_property
    def class_weights(self) -> Tensor:
        labels = self.target(self.data.train)
        counts = np.bincount(labels[labels >= 0], minlength=len(self.classes))
        return torch.from_numpy(metrics.class_weights(counts)).to(pick_device(self.config.device))

    def cross_entropy(self, logits: Tensor, target: Tensor) -> Tensor:
        weights = self.class_weights.to(logits.dtype)
        smoothing = self.config.label_smoothing
        return F.cross_entropy(logits, target, weights, ignore_index=-1, label_smoothing=smoothing)

    def correct(self, logits: Tensor, target: Tensor) -> Tensor:
        right = (logits.argmax(dim=-1) == target).float().sum()
        return right / (target >= 0).sum().clamp(min=1)

    def scores(self, predictions: np.ndarray) -> scores.Scores:
        return scores.of_blocks(self.data, predictions)


TASKS: dict[str, type[Task]] = {"classify": Task, "part": PartSegmentation, "semantic": SemanticSegmentation}
