"""Study trained runs on clouds of their test splits: what `bipointnet analyze RUN...` prints and draws.

PyTorch is imported when the first run is studied, after everything that a user can get wrong has been checked.
"""

import csv
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bipointnet.data import open_dataset
from bipointnet.data.dataset import PointClouds, TrainedOn
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.evaluation.evaluate import require_matching_data
from bipointnet.evaluation.model_file import identify
from bipointnet.evaluation.predictor import RunPredictor, open_run

if TYPE_CHECKING:
    from bipointnet.analysis.study import Study

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]  # title -> progress callback
LogRow = dict[str, float | None]


class StudiedRun(NamedTuple):
    """One run and what was found in it.

    name: how it is called here. labels: (M,) classes of the clouds it was studied on. cloud: (P, 3) all points of the
    first of these, normalized. log: the rows of its metrics.csv.
    """

    name: str
    run: RunPredictor
    study: "Study"
    labels: np.ndarray
    cloud: np.ndarray
    log: list[LogRow]

    @property
    def network(self) -> str:
        """Backbone, method and pool in a few words."""
        config = self.run.config
        return f"{config.model} {config.method} {config.pool}{'' if config.norm else ', no BatchNorm'}"

    def as_json(self) -> dict[str, Any]:
        """The figures as `analyze --json` prints them; None where a network has nothing to measure."""
        found, config = self.study, self.run.config
        return {
            "run": self.name,
            "dataset": self.run.data,
            "epoch": self.run.facts["epoch"],
            **{key: getattr(config, key) for key in ("model", "method", "pool", "norm", "points", "seed")},
            "clouds": found.clouds,
            "accuracy": found.accuracy,
            "entropy": float(found.entropy.mean()) if found.layers and found.entropy.size else None,
            "constant_channels": int((found.entropy == 0).sum()) if found.layers and found.entropy.size else None,
            "channels": len(found.entropy),
            "zero_gradient": found.zero_gradient,
            "regularizer": found.regularizer,
            "transforms": [
                {"name": t.name, "size": t.size, "regularizer": t.regularizer, "spectral_norm": t.spectral_norm}
                for t in found.transforms
            ],
            "layers": [layer._asdict() for layer in found.layers],
        }


def read_log(run: Path) -> list[LogRow]:
    """The rows of the metrics.csv of a run folder or beside a checkpoint; an empty list if there is none."""
    path = (run if run.is_dir() else run.parent) / "metrics.csv"
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [{key: float(value) if value else None for key, value in row.items()} for row in csv.DictReader(file)]


def open_runs(paths: list[Path]) -> list[RunPredictor]:
    """The runs to study; UserError unless all classify clouds and at least one is a 1-bit network."""
    for path in paths:
        if identify(path).packed:
            raise UserError(
                f"{path}: a packed model, which holds no floats and gradients to study; expected the run it was "
                "exported from"
            )
    runs = [open_run(path) for path in paths]
    for run in runs:
        if run.task != "classify":
            raise UserError(
                f"{run.path}: labels points (task {run.task}); expected a run that classifies clouds; analyze supports "
                "no other task yet"
            )
    if all(run.config.method == "fp" for run in runs):
        raise UserError(
            f"{runs[0].path}: a float network, without bits to count or scales to compare; expected a run of a 1-bit "
            "method (a float run beside it is compared by accuracy and T-Nets)"
        )
    return runs


def open_data(runs: list[RunPredictor], data: str | None, skip_bad: bool = False) -> list[PointClouds]:
    """The data set of each run: `data`, or what it was trained on."""
    opened: dict[tuple[str, int, TrainedOn | None], PointClouds] = {}
    datasets = []
    for run in runs:
        source = data or str(run.training.get("data") or run.data)
        if data is None and source != "shapes" and not Path(source).exists():
            raise UserError(f"{run.path}: trained on {source}, which is not here; name the data with --data")
        key = source, run.points, run.trained
        if key not in opened:
            same_classes = run.trained and replace(run.trained, classes=())  # or require_matching_data complains
            opened[key] = open_dataset(source, run.points, trained=same_classes, skip_bad=skip_bad)
        require_matching_data(source, opened[key], run)
        datasets.append(opened[key])
    return datasets


def study_runs(paths: list[Path], data: str | None, count: int, bar: Bar, skip_bad: bool = False) -> list[StudiedRun]:
    """Study every run on `count` clouds of its test split, evenly spaced; `bar` shows the progress of each."""
    runs = open_runs(paths)
    datasets = open_data(runs, data, skip_bad)
    from bipointnet.analysis.study import study
    from bipointnet.evaluation.probe import evenly_spaced
    from bipointnet.nn import set_progress

    studied = []
    for run, name, clouds in zip(runs, _names(paths), datasets, strict=True):
        # The slopes of scheduled methods are those of the run's last epoch.
        set_progress(run.network, max(run.facts["epoch"] - 1, 0) / run.config.epochs)
        chosen = evenly_spaced(count, len(clouds.test))
        points, labels = clouds.test.points[chosen], clouds.test.labels[chosen]
        with bar(name) as progress:
            found = study(run.network, points, labels, run.points, progress, run.config.center)
        studied.append(
            StudiedRun(name, run, found, labels, normalize(points[0], run.config.center)[:, :3], read_log(run.path))
        )
    return studied


def _names(paths: list[Path]) -> list[str]:
    """Short names of runs; their whole paths where short names are not unique."""
    names = [path.name if path.is_dir() else f"{path.resolve().parent.name}/{path.name}" for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
