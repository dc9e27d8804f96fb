"""Several trainings with common scores: one network per category of objects, or one per fold of rooms.

The folder holds one run folder per network, and result.json with the totals. Finished runs are not repeated, so an
interrupted series continues where it stopped, and its runs may also be started one by one, several at a time.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.config import Config, from_mapping
from bipointnet.data.dataset import PointClouds
from bipointnet.evaluation import metrics
from bipointnet.evaluation import segmentation as scores
from bipointnet.training.interrupts import Interrupted, Interrupts
from bipointnet.training.loop import train
from bipointnet.training.progress import OnProgress
from bipointnet.training.resume_options import require_same_options
from bipointnet.training.run_folder import write_json

OnProgressOf = Callable[[str], OnProgress]  # the progress callback of the run with this name


def finished_result(folder: Path, config: Config) -> dict[str, Any] | None:
    """The content of result.json, None if the run is not finished; UserError if it has another configuration."""
    path = folder / "result.json"
    if not path.exists():
        return None
    figures = json.loads(path.read_text())
    require_same_options(folder, from_mapping(str(path), figures["config"]), dataclasses.asdict(config))
    return figures


def every_category(
    config: Config, data: PointClouds, folder: Path, on_progress: OnProgressOf, data_path: str | None = None
) -> dict[str, Any]:
    """The paper's protocol for parts: one network per category, and three means over all of them."""
    configs = {name: dataclasses.replace(config, category=name) for name in data.classes}
    return _write(folder, category_totals(data, _train_all(configs, data.only, folder, on_progress, data_path)))


def _train_all(
    configs: dict[str, Config],
    open_data: Callable[[str], PointClouds],
    folder: Path,
    on_progress: OnProgressOf,
    data_path: str | None,
) -> dict[str, dict[str, Any]]:
    """The results of all runs by name. A signal in the last epoch of a run finishes it and stops the series."""
    results: dict[str, dict[str, Any]] = {}
    for name, config in configs.items():
        found = finished_result(folder / name, config)
        if found is None:
            data = open_data(name)
            with Interrupts() as interrupts:
                found = train(
                    config, data, folder / name, resume=True, data_path=data_path, on_progress=on_progress(name)
                )
            if interrupts.number is not None and len(results) + 1 < len(configs):
                raise Interrupted(interrupts.number, config.epochs, config.epochs)
        results[name] = found
    return results


def category_totals(data: PointClouds, runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Scores over all categories of `data`, from one run per category."""
    tested = np.bincount(data.test.labels, minlength=len(data.classes))
    totals = _head(data.name, runs)
    for when in ("last", "best"):
        ious = np.array([runs[name][f"{when}_miou"] for name in data.classes])
        totals |= {
            f"{when}_category_miou": metrics.category_mean_iou(ious),
            f"{when}_instance_miou": float(np.average(ious, weights=tested)),
            f"{when}_paper_miou": metrics.weighted_mean_iou(ious, data.class_sizes),
        }
    # The names without a prefix are figures of the last epoch.
    totals |= {name: totals[f"last_{name}"] for name in ("category_miou", "instance_miou", "paper_miou")}
    return {**totals, "categories": {name: _line(runs[name]) for name in data.classes}}


def every_fold(
    config: Config,
    names: list[str],
    open_fold: Callable[[str], PointClouds],
    folder: Path,
    on_progress: OnProgressOf,
    data_path: str | None = None,
) -> dict[str, Any]:
    """Cross-validation: one network per fold, trained on the other folds and tested on this one."""
    configs = {name: dataclasses.replace(config, fold=name) for name in names}
    return _write(folder, fold_totals(_train_all(configs, open_fold, folder, on_progress, data_path)))


def fold_totals(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Scores over all folds, from the sum of their confusions."""
    first = next(iter(runs.values()))
    confusion = metrics.summed_over_folds([np.array(run["confusion"]) for run in runs.values()])
    total = scores.of_scenes(tuple(first["point_classes"]), confusion)
    folds = {name: _line(run) for name, run in runs.items()}
    return {**_head(first["dataset"].split("/")[0], runs), **total.as_json(), "folds": folds}


def _head(dataset: str, runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The entries that all runs share, and the sum of their times."""
    first = next(iter(runs.values()))
    shared = ("task", "model", "method", "pool", "recipe", "seed", "points", "epochs", "device")
    shared += ("version", "commit", "torch")
    seconds = sum(run["seconds"] for run in runs.values())
    each = {name: "each" for name in ("category", "fold") if first["config"].get(name) is not None}
    config = first["config"] | each
    return {"dataset": dataset, **{key: first[key] for key in shared}, "seconds": seconds, "config": config}


def _line(run: dict[str, Any]) -> dict[str, Any]:
    return {key: run[key] for key in ("last_miou", "best_miou", "last_oa", "entropy", "seconds")}


def _write(folder: Path, totals: dict[str, Any]) -> dict[str, Any]:
    write_json(folder / "result.json", totals)
    return totals
