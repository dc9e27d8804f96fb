"""Trainings that belong together: one a category of objects, or one a fold of rooms, and the scores of all of them.

The folder of a protocol holds a run folder each, and result.json with the totals. What is finished is not run again, so
a protocol that was cut off goes on, and its runs may also be started one by one, several side by side.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.config import Config
from bipointnet.data.dataset import PointClouds
from bipointnet.evaluation import metrics
from bipointnet.evaluation import segmentation as scores
from bipointnet.files import write_beside
from bipointnet.training.loop import Moment, require_same_config, train

Watch = Callable[[str], Callable[[Moment], None]]


def finished(place: Path, config: Config) -> dict[str, Any] | None:
    """What a finished run of this configuration left; UserError where it is of another."""
    result = place / "result.json"
    if not result.exists():
        return None
    figures = json.loads(result.read_text())
    require_same_config(place, figures["config"], config)
    return figures


def every_category(config: Config, data: PointClouds, folder: Path, watch: Watch) -> dict[str, Any]:
    """The paper's protocol for parts: a network for each category, and the three means over all of them."""
    runs = {}
    for name in data.classes:
        own = dataclasses.replace(config, category=name)
        place = folder / name
        runs[name] = finished(place, own) or train(own, data.only(name), place, resume=True, watch=watch(name))
    return _write(folder, category_totals(data, runs))


def category_totals(data: PointClouds, runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Scores over all categories of `data`, of which each has a run of its own."""
    tested = np.bincount(data.test.labels, minlength=len(data.classes))
    totals = _head(data.name, runs)
    for when in ("last", "best"):
        ious = np.array([runs[name][f"{when}_miou"] for name in data.classes])
        totals |= {
            f"{when}_category_miou": metrics.category_mean_iou(ious),
            f"{when}_instance_miou": float(np.average(ious, weights=tested)),
            f"{when}_paper_miou": metrics.weighted_mean_iou(ious, data.class_sizes),
        }
    # The last epoch stands for a run.
    totals |= {name: totals[f"last_{name}"] for name in ("category_miou", "instance_miou", "paper_miou")}
    return {**totals, "categories": {name: _line(runs[name]) for name in data.classes}}


def every_fold(
    config: Config, names: list[str], open_fold: Callable[[str], PointClouds], folder: Path, watch: Watch
) -> dict[str, Any]:
    """Cross-validation: a network for each fold, tested on what the others learn from."""
    runs = {}
    for name in names:
        place, own = folder / name, dataclasses.replace(config, fold=name)
        runs[name] = finished(place, own) or train(own, open_fold(name), place, resume=True, watch=watch(name))
    return _write(folder, fold_totals(runs))


def fold_totals(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Scores over all folds, from the sum of their confusions."""
    first = next(iter(runs.values()))
    confusion = metrics.summed_over_folds([np.array(run["confusion"]) for run in runs.values()])
    total = scores.of_scenes(tuple(first["point_classes"]), confusion)
    folds = {name: _line(run) for name, run in runs.items()}
    return {**_head(first["dataset"].split("/")[0], runs), **total.as_json(), "folds": folds}


def _head(dataset: str, runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What all runs share, and the time they took together."""
    first = next(iter(runs.values()))
    shared = ("task", "model", "method", "pool", "recipe", "seed", "points", "epochs", "device", "commit", "torch")
    seconds = sum(run["seconds"] for run in runs.values())
    each = {name: "each" for name in ("category", "fold") if first["config"].get(name) is not None}
    config = first["config"] | each
    return {"dataset": dataset, **{key: first[key] for key in shared}, "seconds": seconds, "config": config}


def _line(run: dict[str, Any]) -> dict[str, Any]:
    return {key: run[key] for key in ("last_miou", "best_miou", "last_oa", "entropy", "seconds")}


def _write(folder: Path, totals: dict[str, Any]) -> dict[str, Any]:
    write_beside(folder / "result.json", json.dumps(totals, indent=2).encode())
    return totals
