"""Predictions for a file with one cloud: the class of the cloud, or the class of each of its points."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet.data import clouds, scan_files
from bipointnet.data.clouds import Cloud
from bipointnet.data.las_units import UNITS
from bipointnet.data.reading import cores
from bipointnet.data.shuffle import Ranks
from bipointnet.data.up_axis import rotate_up
from bipointnet.errors import UserError, describe_os_error
from bipointnet.evaluation import metrics, segmentation
from bipointnet.evaluation.inputs import STDIN, Input
from bipointnet.evaluation.predictor import Predictor
from bipointnet.evaluation.unlike import warnings
from bipointnet.runtime import label as scan
from bipointnet.runtime.model import kept_points
from bipointnet.runtime.progress import Progress, no_progress


class FilePrediction(NamedTuple):
    """The most probable classes of the cloud in a file.

    top: the names and probabilities, the most probable first. points: how many points the network was given. warnings:
    on points that were left out, and how the cloud is unlike the training data.
    """

    file: str
    top: list[tuple[str, float]]
    points: int
    warnings: list[str]

    def as_json(self) -> dict[str, Any]:
        """The keys of `bipointnet-run --json`."""
        label, probability = self.top[0]
        top = [{"label": name, "probability": value} for name, value in self.top]
        answer = {"file": self.file, "task": "classify", "label": label, "probability": probability}
        return {**answer, "points": self.points, "top": top, "warnings": self.warnings}


class FileError(NamedTuple):
    """A file that cannot be classified, and one sentence that says why."""

    file: str
    error: str

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def require_coordinates_only(predictor: Predictor) -> None:
    """Raise UserError for a network that reads more than x, y and z: `predict` takes no more from a file."""
    if predictor.channels != 3:
        raise UserError(
            f"{predictor.path}: reads {predictor.channels} channels per point; expected 3 (x, y, z), all that predict "
            "takes from a file"
        )


def classify_files(
    predictor: Predictor,
    inputs: Iterable[Input],
    top: int,
    read: Callable[[str], Cloud] = clouds.read,
    up: str | None = None,
) -> Iterator[FilePrediction | FileError]:
    """Classify the cloud in each file, in order, while the next files are read on the other cores.

    A file that cannot be read does not keep the others from being classified.
    """
    # Only the points that the network reads wait for it, not the whole cloud.
    for name, prepared in _read_ahead(inputs, lambda name: prepare(predictor, read(name), name, up)):
        if isinstance(prepared, FileError):
            yield prepared
            continue
        predictor.prepare()  # a network that cannot be loaded is not the file's fault
        try:
            yield _classified(predictor, prepared, name, top)
        except UserError as failure:
            yield FileError(name, str(failure))


def _read_ahead(
    inputs: Iterable[Input], read: Callable[[str], "Prepared"]
) -> Iterator[tuple[str, "Prepared | FileError"]]:
    """Each name with what is read, or with what is wrong. The readers of files leave Python's lock to others."""

    def attempt(name: str, error: str | None) -> Prepared | FileError:
        if error is not None:
            return FileError(name, error)
        try:
            return read(name)
        except (UserError, OSError) as failure:
            return FileError(name, describe_os_error(failure) if isinstance(failure, OSError) else str(failure))

    workers = cores()
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[tuple[str, Future[Prepared | FileError]]] = deque()
        try:
            for name, error in inputs:
                waiting.append((name, pool.submit(attempt, name, error)))
                if len(waiting) > workers:
                    first, prepared = waiting.popleft()
                    yield first, prepared.result()
            while waiting:
                first, prepared = waiting.popleft()
                yield first, prepared.result()
        finally:
            pool.shutdown(cancel_futures=True)


def classify_cloud(
    predictor: Predictor, cloud: Cloud, name: str, top: int = 1, up: str | None = None
) -> FilePrediction:
    """Classify a cloud; `name` is the file it comes from.

    up: the axis that points up in the cloud, which is rotated so that the one of the training data does. None: the
    cloud is classified as it is.

    The network reads the points that the core would keep; a mesh is sampled. The C++ tool bipointnet-run reads the same
    points.
    """
    return _classified(predictor, prepare(predictor, cloud, name, up), name, top)


def _classified(predictor: Predictor, prepared: "Prepared", name: str, top: int) -> FilePrediction:
    probabilities = predictor.predict(prepared.points[None])[0]
    best = np.argsort(-probabilities, kind="stable")[:top]
    chosen = [(predictor.classes[index], float(probabilities[index])) for index in best]
    return FilePrediction(name, chosen, len(prepared.points), prepared.warnings(predictor, chosen[0][1]))


class Prepared(NamedTuple):
    """What a network reads of a cloud, and what is compared with its training data.

    points: those that are used, (P, 3). own: number of points in the file. extent: largest side of the bounding box.
    dropped: notes on points of the file that were left out.
    """

    points: np.ndarray
    own: int
    extent: float
    dropped: list[str]

    def warnings(self, predictor: Predictor, probability: float) -> list[str]:
        """On points that were left out, and how the cloud is unlike the training data; probability: of its class."""
        unlike = warnings(predictor.training, self.extent, self.own, probability)
        return self.dropped + unlike


def prepare(predictor: Predictor, cloud: Cloud, name: str, up: str | None = None) -> Prepared:
    """What a network that classifies clouds reads of a cloud; arguments as in `classify_cloud`."""
    if up is not None:
        cloud = replace(cloud, points=rotate_up(cloud.points, up, predictor.require_up(up)))
    if cloud.faces is None:
        own, points = len(cloud.points), kept_points(cloud.points, predictor.max_points)
    else:
        own, points = predictor.points, clouds.sample(cloud, predictor.max_points or predictor.points, Ranks(), name)
    # Along contiguous rows NumPy finds extremes ten times as fast.
    extent = float(np.ptp(np.ascontiguousarray(cloud.points.T), axis=1).max())
    return Prepared(points, own, extent, clouds.dropped_notes(cloud.dropped, len(cloud.points)))


def read_input(name: str, columns: Sequence[str] = (), strict: bool = False) -> Cloud:
    """The cloud in a file, or in the text on standard input."""
    if name != STDIN:
        return clouds.read(name, columns=columns, strict=strict)
    return clouds.read_bytes(sys.stdin.buffer.read(), ".txt", "standard input", columns=columns, strict=strict)


def label_cloud(
    predictor: Predictor, cloud: Cloud, source: Path, category: int | None, progress: Progress = no_progress
) -> np.ndarray:
    """The class of each point of a cloud of any size, (N,)."""
    network = scan.Network(
        lambda points: predictor.logits(points, category),
        predictor.accepted(category),
        predictor.task,
        predictor.points,
        predictor.blocks,
    )
    return scan.label_by(network, cloud, source, progress)


def unit_of(predictor: Predictor, file: Path, unit: str | None) -> str | None:
    """The unit of a scan's coordinates: `unit`, or that of the training scans; None: meters.

    UserError for a unit that is unknown, that does not matter, or that differs from the one a scan declares.
    """
    if unit is not None and unit not in UNITS:
        raise UserError(f"--unit is {unit!r}; expected one of {', '.join(UNITS)}")
    if predictor.task != "semantic":
        if unit is not None:
            raise UserError(f"{predictor.path}: labels parts of objects of any size; found --unit {unit}; leave it out")
        return None
    chosen = unit or (None if predictor.scans is None else predictor.scans.unit)
    scan_files.require_unit(file, chosen)
    return chosen


def upright_in_meters(predictor: Predictor, cloud: Cloud, up: str | None, unit: str | None) -> Cloud:
    """A cloud as a network that labels points reads it: a scan in meters with z up, an object as in training.

    up: the axis that points up in the cloud; None: z in scans, and in objects that of the training data.
    """
    if predictor.task == "semantic":
        return replace(cloud, points=scan_files.in_meters(rotate_up(cloud.points, up or "z", "z"), unit))
    return cloud if up is None else replace(cloud, points=rotate_up(cloud.points, up, predictor.require_up(up)))


def compare_with_truth(
    predictor: Predictor, labels: np.ndarray, truth: np.ndarray, category: int | None
) -> segmentation.Scores:
    """How well the points of one cloud are labeled; labels, truth: (N,).

    For parts, miou is that of the shape, as in `metrics.shape_ious`: a part that is neither there nor predicted counts
    as 100.
    """
    confusion = metrics.confusion_matrix(truth, labels, len(predictor.classes))
    scores = segmentation.of_scenes(tuple(predictor.classes), confusion)
    if predictor.task == "part":
        parts = [predictor.accepted(category).tolist()]
        iou = metrics.shape_ious(truth[None], labels[None], np.zeros(1, np.int64), parts)
        scores = scores._replace(figures=scores.figures | {"miou": float(iou[0])})
    return scores


def count_classes(predictor: Predictor, labels: np.ndarray) -> dict[str, int]:
    """The number of points of each class that occurs among labels (N,)."""
    counts: Any = np.bincount(labels, minlength=len(predictor.classes))
    return {name: int(count) for name, count in zip(predictor.classes, counts, strict=True) if count}
