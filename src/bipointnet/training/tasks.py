"""The tasks: what a network is given, what its output is compared with, and how it is evaluated.

classify: a class for every cloud. part: a part for every point of an object. semantic: a class for every point of a
block of a room. A run asks its task for the few things in which they differ.
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
from bipointnet.evaluation.networks import evaluate, pooled_entropy, run_all
from bipointnet.models import Output
from bipointnet.models.pointnet import orthogonality

POINTS_AT_ONCE = 2**16  # in evaluating, of networks that label points: their features take 20 KB a point


@dataclass(frozen=True)
class Task:
    """Classification of clouds, and what the other tasks have in common with it."""

    config: Config
    data: PointClouds
    score: ClassVar[str] = "test_oa"  # which of the figures makes an epoch the best

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the logits."""
        return self.data.classes

    @property
    def categories(self) -> tuple[str, ...]:
        """What a cloud may be said to be beforehand."""
        return ()

    def check(self) -> None:
        """UserError where the data have nothing to learn for this task."""
        if len(self.data.classes) < 2:
            remedy = "; use --task semantic" if self.data.point_classes else "; name other data"
            raise UserError(
                f"{self.data.name}: its clouds are all of one class, {' '.join(self.data.classes)}; expected two or "
                f"more to tell apart{remedy}"
            )

    def target(self, split: Split) -> np.ndarray:
        """What is to be learned of a split: (M,) or, of points, (M, P)."""
        return split.labels

    def inputs(self, clouds: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """What the network is given for clouds (B, N, C) of these classes (B,)."""
        return (normalize(clouds),)

    def loss(self, output: Output, target: Tensor) -> Tensor:
        """Cross-entropy, and where there is a feature transform, its distance from orthogonality."""
        loss = self.cross_entropy(output.logits.flatten(0, -2), target.flatten())
        if output.transform is not None:
            loss = loss + self.config.transform_penalty * orthogonality(output.transform)
        return loss

    def cross_entropy(self, logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(logits, target, label_smoothing=self.config.label_smoothing)

    def evaluate(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> dict[str, float]:
        """Figures of the test split, whose clouds (M, P, C) and classes (M,) these are, by the name in a log."""
        found = evaluate(model, clouds, labels.cpu().numpy(), len(self.classes), self.config.points)
        return {"test_oa": found.overall, "test_macc": found.mean_class, "entropy": found.entropy}

    def final(self, model: nn.Module, clouds: Tensor, labels: Tensor) -> dict:
        """What result files say of the last epoch beyond these figures."""
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
        batch = max(1, POINTS_AT_ONCE // self.config.points)
        inputs = self.inputs(clouds[:, : self.config.points], labels)
        said = run_all(model, inputs, batch)
        return self.pick(said.logits, labels).cpu().numpy(), said.pooled

    def pick(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The class of each point, (M, P, classes) and (M,) -> (M, P)."""
        return logits.argmax(dim=-1)

    @abstractmethod
    def scores(self, predictions: np.ndarray) -> scores.Scores:
        """How well classes (M, P) of the test split's points are."""

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
    """Parts of objects: of one category, or of several, where the network is told the category of a cloud."""

    @property
    def categories(self) -> tuple[str, ...]:
        return self.data.classes if len(self.data.classes) > 1 else ()

    def check(self) -> None:
        if not self.data.parts:
            remedy = "; use --task semantic" if self.data.point_classes else ""
            raise UserError(f"{self.data.name}: its points belong to no parts; expected data such as shapes{remedy}")

    def inputs(self, clouds: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        return (normalize(clouds), labels) if self.categories else (normalize(clouds),)

    def pick(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Among the parts of the cloud's category."""
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
    """Objects in blocks of rooms, whose coordinates stay as they are; rare classes weigh more in the loss."""

    def check(self) -> None:
        if not self.data.point_classes or self.data.parts:
            remedy = "; use --task part" if self.data.parts else ""
            raise UserError(f"{self.data.name}: holds no labelled rooms; expected data such as rooms{remedy}")

    def inputs(self, clouds: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        return (clouds,)

    @cached_property
    def class_weights(self) -> Tensor:
        counts = np.bincount(self.target(self.data.train).ravel(), minlength=len(self.classes))
        return torch.from_numpy(metrics.class_weights(counts))

    def cross_entropy(self, logits: Tensor, target: Tensor) -> Tensor:
        weights = self.class_weights.to(logits)
        return F.cross_entropy(logits, target, weights, label_smoothing=self.config.label_smoothing)

    def scores(self, predictions: np.ndarray) -> scores.Scores:
        return scores.of_blocks(self.data, predictions)


TASKS: dict[str, type[Task]] = {"classify": Task, "part": PartSegmentation, "semantic": SemanticSegmentation}
