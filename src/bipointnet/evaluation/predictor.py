"""One way to ask a trained network, whether it comes as a run folder, a checkpoint or a packed model.

`open_model` reads the description of a model and checks it. PyTorch is imported only for a run, and only when the run
computes its first prediction: a mistake in a path or a data set is reported before that.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bipointnet.config import Config, from_mapping
from bipointnet.data.blocks import BlockLayout
from bipointnet.data.dataset import TrainedOn
from bipointnet.data.reading import cores
from bipointnet.data.scan_choices import ScanOptions
from bipointnet.data.scan_facts import ScanFacts, recorded_facts
from bipointnet.errors import UserError
from bipointnet.evaluation.metrics import argmax_among
from bipointnet.evaluation.model_file import ModelFile, identify
from bipointnet.extras import import_whole, require
from bipointnet.runtime import model as runtime

if TYPE_CHECKING:
    from torch import nn


class Answer(NamedTuple):
    """What a network computes for a batch of clouds.

    logits: (B, classes), or (B, P, classes) if it labels points. pooled: (B, channels) the signs of the pooled
    features as bool, or None for a packed model, which does not keep them.
    """

    logits: np.ndarray
    pooled: np.ndarray | None


@dataclass(frozen=True)
class Predictor(ABC):
    """A trained network, ready to predict.

    path: as the user named it. task: classify, part or semantic. classes: names of the classes of clouds or points.
    categories: names of the categories, if the network has a category input. channels: numbers per point. points: the
    number of points per cloud in training. blocks: how scans are cut, for task semantic. max_points: the most points of
    a cloud that a prediction uses; None: all. up: the axis that points up in the training data; None if it is not
    recorded. data: name of the training data, or "". held_out: the files of the test split, if it was chosen from a
    folder of the user's own files and is recorded. trained_on: `PointClouds.trained_on` of the training data; None if
    it is not recorded. training: facts about the training data, for `unlike.warnings`. facts: what reports say about
    the model beyond that.

    >>> model = open_model("chairs.bpn")  # doctest: +SKIP
    >>> model.predict(clouds).argmax(axis=1)  # doctest: +SKIP
    """

    path: Path
    task: str
    classes: list[str]
    categories: list[str]
    channels: int
    points: int
    blocks: BlockLayout | None
    max_points: int | None
    up: str | None
    data: str
    held_out: tuple[str, ...]
    trained_on: tuple[tuple[str, str], ...] | None
    training: dict[str, Any] = field(compare=False)
    facts: dict[str, Any] = field(compare=False)

    @property
    def trained(self) -> TrainedOn | None:
        """What `open_dataset` needs to return clouds that this network has not seen; None if it labels points."""
        own = TrainedOn(tuple(self.classes), self.trained_on, self.held_out)
        return own if self.task == "classify" else None

    @property
    def scans(self) -> ScanFacts | None:
        """What is recorded about labeled scans that it was trained on; None if it was trained on other data."""
        return recorded_facts(self.training, self.path)

    @property
    def codes(self) -> tuple[int, ...]:
        """The label of each class in files: its code in the scans of the training, or else its number."""
        return tuple(range(len(self.classes))) if self.scans is None else self.scans.table.written

    def scan_options(self, points: int) -> ScanOptions | None:
        """How labeled scans are read for this network; None if it was trained on other data."""
        facts = self.scans
        return None if facts is None or self.blocks is None else ScanOptions.of_run(facts, self.blocks, points)

    @abstractmethod
    def run(self, clouds: np.ndarray, category: int | None = None) -> Answer:
        """Logits, and pooled signs where there are any, of clouds (B, P, C) float32, all of one category."""

    @abstractmethod
    def predict(self, clouds: np.ndarray) -> np.ndarray:
        """Probabilities (B, classes) of clouds (B, P, C) float32, for a network that classifies clouds."""

    @abstractmethod
    def accepted(self, category: int | None = None) -> np.ndarray:
        """The classes that points of a category can have, in ascending order."""

    def prepare(self) -> None:  # noqa: B027 - most networks are ready
        """Load what the first prediction needs, so that a damaged model is found before a file is blamed for it."""

    def logits(self, clouds: np.ndarray, category: int | None = None) -> np.ndarray:
        """Logits of clouds (B, P, C) float32: (B, classes), or (B, P, classes) if the network labels points."""
        return self.run(clouds, category).logits

    def label(self, clouds: np.ndarray, category: int | None = None) -> np.ndarray:
        """The class of each point of clouds (B, P, C), among the accepted ones: (B, P)."""
        return argmax_among(self.logits(clouds, category), self.accepted(category))

    def category_index(self, name: str | None) -> int | None:
        """The index of a category, or None for a network without a category input.

        Upper and lower case do not matter where only one category has the name.
        """
        if not self.categories:
            if name is not None:
                raise UserError(f"{self.path}: has no category input; found --category {name}; leave it out")
            return None
        alike = [own for own in self.categories if name is not None and own.lower() == name.lower()]
        if name not in self.categories and len(alike) == 1:
            return self.categories.index(alike[0])
        if name not in self.categories:
            found = "no --category" if name is None else f"--category {name}"
            raise UserError(f"{self.path}: found {found}; expected one of: {', '.join(self.categories)}")
        return self.categories.index(name)

    def require_up(self, up: str) -> str:
        """The axis that points up in the training data; UserError if it is not recorded, as clouds have to follow it.

        up: the axis that points up in the clouds.
        """
        if self.up is None:
            raise UserError(
                f"{self.path}: does not record which axis points up in its training data; found --up {up}; leave it "
                "out, or export the run again"
            )
        return self.up

    def require_classifier(self) -> None:
        """Raise UserError for a network that labels points."""
        if self.task != "classify":
            raise UserError(
                f"{self.path}: labels points (task {self.task}); expected a network that classifies clouds; use "
                "`bipointnet segment`"
            )

    def require_segmenter(self) -> None:
        """Raise UserError for a network that classifies clouds."""
        if self.task == "classify":
            raise UserError(
                f"{self.path}: classifies whole clouds; expected a network trained with --task part or semantic; use "
                "`bipointnet predict`"
            )


@dataclass(frozen=True)
class PackedPredictor(Predictor):
    """A packed model; needs no PyTorch. threads: how many predictions use, which never changes a result."""

    model: runtime.Model = field(compare=False)
    threads: int = field(compare=False)

    def run(self, clouds: np.ndarray, category: int | None = None) -> Answer:
        return Answer(self.model.logits(clouds, category=category, threads=self.threads), None)

    def predict(self, clouds: np.ndarray) -> np.ndarray:
        threads = min(self.threads, len(clouds))  # one cloud takes less time than a second thread to start
        return self.model.predict(clouds, threads=threads).probabilities

    def accepted(self, category: int | None = None) -> np.ndarray:
        return self.model.accepted_classes(category)


@dataclass(frozen=True)
class RunPredictor(Predictor):
    """The network of a run folder or a checkpoint; needs PyTorch. parts: the classes of each category."""

    file: Path
    config: Config
    parts: list[list[int]]

    @cached_property
    def network(self) -> "nn.Module":
        """The network in eval mode. It is loaded, and PyTorch imported, on first use."""
        import_whole("torch")
        from bipointnet.models import checkpoint

        return checkpoint.load_run(self.file)[0]

    def prepare(self) -> None:
        _ = self.network

    def run(self, clouds: np.ndarray, category: int | None = None) -> Answer:
        if clouds.ndim != 3 or clouds.shape[-1] != self.channels or clouds.size == 0:
            raise UserError(
                f"points: an array of shape {clouds.shape}; expected (clouds, points, {self.channels}), with at least "
                "one cloud and one point"
            )
        import torch

        from bipointnet.data.normalize import normalize

        network = self.network
        x = torch.from_numpy(np.ascontiguousarray(clouds))
        x = x if self.task == "semantic" else normalize(x, self.config.center)
        category_input = [] if category is None else [torch.full((len(x),), category)]
        try:
            with torch.no_grad():
                output = network(x, *category_input)
        except (
            RuntimeError,
            ValueError,
            IndexError,
        ) as error:  # few points, little memory
            reason = str(error).strip().partition("\n")[0][:120]
            raise UserError(
                f"points: {len(clouds)} clouds of {clouds.shape[1]} points, for which {self.path} cannot be computed "
                f"({reason}); expected {self.points} points as in training"
            ) from error
        return Answer(output.logits.numpy(), (output.pooled >= 0).numpy())

    def predict(self, clouds: np.ndarray) -> np.ndarray:
        logits = self.logits(clouds)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def accepted(self, category: int | None = None) -> np.ndarray:
        return np.arange(len(self.classes)) if category is None else np.array(self.parts[category])


def open_model(path: Path) -> Predictor:
    """The network in a run folder (its last epoch), a checkpoint or a packed model; UserError for anything else."""
    source = identify(path)
    return _open_packed(path) if source.packed else _open_run(source)


def open_run(path: Path) -> RunPredictor:
    """The network in a run folder (its last epoch) or a checkpoint; UserError for anything else.

    The description is checked here, the tensors when the network is loaded.
    """
    source = identify(path)
    if source.packed:
        raise UserError(f"{path}: a packed model; expected the run folder or checkpoint that it was exported from")
    return _open_run(source)


def _open_run(source: ModelFile) -> RunPredictor:
    require("a run", "torch", "safetensors")
    facts = source.facts
    try:
        config = from_mapping(str(source.file), facts["config"])
        return RunPredictor(
            path=source.path,
            task=config.task,
            classes=list(facts["classes"]),
            categories=list(facts.get("categories", [])),
            channels=int(facts["channels"]),
            points=config.points,
            blocks=None if facts.get("blocks") is None else BlockLayout.from_json(facts["blocks"]),
            max_points=config.max_points,
            up=facts.get("up"),
            data=str(facts.get("dataset", facts["data"])),
            held_out=tuple(facts.get("held_out", ())),
            trained_on=_trained_on(facts),
            training={**facts, "points": config.points},
            facts={"epoch": facts["epoch"]},
            file=source.file,
            config=config,
            parts=facts.get("parts", []),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{source.file}: a checkpoint with an incomplete description ({type(error).__name__}: {error}); expected "
            "one written by `bipointnet train`; copy it again"
        ) from error


def _trained_on(facts: dict[str, Any]) -> tuple[tuple[str, str], ...] | None:
    if "trained_on" not in facts:
        return None
    return tuple((str(name), str(content)) for name, content in facts["trained_on"])


def _open_packed(path: Path) -> PackedPredictor:
    return packed_predictor(runtime.load(path), path, min(cores(), runtime.MOST_THREADS))


def packed_predictor(model: runtime.Model, path: Path, threads: int) -> PackedPredictor:
    """A packed model as a Predictor; `path` names it in errors."""
    training = model.manifest["training"]
    return PackedPredictor(
        path=path,
        task=model.task,
        classes=model.classes,
        categories=model.categories,
        channels=model.channels,
        points=model.points,
        blocks=model.blocks,
        max_points=model.max_points,
        up=training["up"] if training.get("up") in ("x", "y", "z") else None,
        data=str(training.get("dataset", training.get("data", ""))),
        held_out=(),
        trained_on=None,
        training=training,
        facts={"epoch": training.get("epoch"), "isa": model.isa},
        model=model,
        threads=threads,
    )
