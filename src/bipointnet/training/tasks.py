"""The tasks: what a network reads, what its output is compared with, and how it is evaluated.

classify: one class per cloud. part: one part per point of an object. semantic: one class per point in a room.
A run asks its task for the few things in which they differ.
"""

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
from bipointnet.evaluation.networks import evaluate, map_batches, pooled_entropy
from bipointnet.models import Output
from bipointnet.models.pointnet import orthogonality
from bipointnet.training.devices import pick_device

POINTS_AT_ONCE = 2**16  # per batch, when networks that label points are evaluated: features take 20 KB per point


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

    def evaluate(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> dict[str, float]:
        """The figures of the test split, clouds (M, P, C) of classes (M,), by their names in metrics.csv."""
        found = evaluate(model, clouds, labels.cpu().numpy(), len(self.classes), self.config.points, self.config.center)
        confidence = float(np.percentile(found.probabilities.max(axis=1), 5))
        figures = {"test_oa": found.overall, "test_macc": found.mean_class, "confidence": confidence}
        return figures | {"entropy": found.entropy}

    def final(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> dict:
        """Further entries of result.json about the last epoch."""
        return {}


@dataclass(frozen=True)
class _Segmentation(Task, ABC):
    score: ClassVar[str] = "test_miou"

    @property
    def classes(self) -> tuple[str, ...]:
        return self.data.point_classes

    def target(self, split: Split) -> np.ndarray:
        assert split.point_labels is not None
        return split.point_labels

    def predict(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> tuple[np.ndarray, Tensor]:
        """Classes (M, P) of the points of clouds (M, P, C), and the pooled signs (M, channels)."""

        def run(rows: slice) -> tuple[Tensor, Tensor]:
            output = model(*self.inputs(clouds[rows, : self.config.points], labels[rows]))
            return self.pick(output.logits, labels[rows]).to(torch.int16).cpu(), output.pooled >= 0

        batch = max(1, POINTS_AT_ONCE // self.config.points)
        predictions, bits = zip(*map_batches(model, run, len(clouds), batch), strict=True)
        return torch.cat(predictions).numpy(), torch.cat(bits)

    def pick(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The class of each point, (M, P, classes) and (M,) -> (M, P)."""
        return logits.argmax(dim=-1)

    @abstractmethod
    def scores(self, predictions: np.ndarray) -> scores.Scores:
        """The scores of predicted classes (M, P) of the points of the test split."""

    def evaluate(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> dict[str, float]:
        predictions, bits = self.predict(model, clouds, labels)
        figures = self.scores(predictions).figures
        return {"test_oa": figures["oa"], "test_miou": figures["miou"], "entropy": pooled_entropy(bits)}

    def final(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> dict:
        found = self.scores(self.predict(model, clouds, labels)[0])
        return {
            "scores": found.as_json(),
            "point_classes": list(self.classes),
            "confusion": found.confusion.tolist(),
        }


@dataclass(frozen=True)
class PartSegmentation(_Segmentation):
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


@dataclass(frozen=True)
class SemanticSegmentation(_Segmentation):
    """Objects in blocks of rooms. Blocks are not normalized; rare classes weigh more in the loss."""

    def check(self) -> None:
        if not self.data.point_classes or self.data.parts:
            remedy = "; use --task part" if self.data.parts else ""
            raise UserError(f"{self.data.name}: has no labeled rooms; expected data such as rooms{remedy}")

    def inputs(self, clouds: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        return (clouds,)

    @cached_property
    def class_weights(self) -> Tensor:
        counts = np.bincount(self.target(self.data.train).ravel(), minlength=len(self.classes))
        return torch.from_numpy(metrics.class_weights(counts)).to(pick_device(self.config.device))

    def cross_entropy(self, logits: Tensor, target: Tensor) -> Tensor:
        weights = self.class_weights.to(logits.dtype)
        return F.cross_entropy(logits, target, weights, label_smoothing=self.config.label_smoothing)

    def scores(self, predictions: np.ndarray) -> scores.Scores:
        return scores.of_blocks(self.data, predictions)


TASKS: dict[str, type[Task]] = {"classify": Task, "part": PartSegmentation, "semantic": SemanticSegmentation}
