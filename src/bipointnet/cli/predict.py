"""Commands that ask a trained or packed network: eval and predict."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import track

from bipointnet.cli.common import (
    AS_JSON,
    MODEL,
    app,
    empty_table,
    err,
    is_packed,
    need_torch,
    out,
    plain,
    print_json,
    require_same_classes,
)
from bipointnet.cli.segment import evaluate_points, print_scores, task_of
from bipointnet.errors import UserError

if TYPE_CHECKING:
    import numpy as np


def _evaluate_run(model: Path, data: str) -> tuple[Any, "np.ndarray", dict[str, Any]]:
    """The data set, the confusion of a trained network on its test split, and facts for the report."""
    need_torch()
    import torch

    from bipointnet.data import open_dataset
    from bipointnet.evaluation.networks import evaluate
    from bipointnet.models import checkpoint

    network, facts = checkpoint.load_run(model)
    points = facts["config"]["points"]
    clouds = open_dataset(data, points)
    require_same_classes(data, clouds.classes, model, facts["classes"], facts["data"])
    with err.status("evaluating"):
        evaluation = evaluate(
            network, torch.from_numpy(clouds.test.points), clouds.test.labels, len(clouds.classes), points
        )
    return clouds, evaluation.confusion, {"epoch": facts["epoch"], "entropy": evaluation.entropy}


def _evaluate_packed(path: Path, data: str) -> tuple[Any, "np.ndarray", dict[str, Any]]:
    """The same of a packed model, without PyTorch."""
    import numpy as np

    from bipointnet.data import open_dataset
    from bipointnet.evaluation import metrics
    from bipointnet.runtime import model as runtime

    model = runtime.load(path)
    training = model.manifest["training"]
    clouds = open_dataset(data, model.points)
    require_same_classes(data, clouds.classes, path, model.classes, training.get("data", "the data"))
    points, step = clouds.test.points[:, : model.points], 64
    parts = track(
        range(0, len(points), step), description="evaluating", console=err, transient=True, disable=len(points) <= step
    )
    labels = [model.predict(points[i : i + step], threads=os.cpu_count() or 1).labels for i in parts]
    confusion = metrics.confusion_matrix(clouds.test.labels, np.concatenate(labels), len(clouds.classes))
    return clouds, confusion, {"epoch": training.get("epochs"), "isa": model.isa}


@app.command("eval")
def evaluate(
    model: Path = MODEL, data: str = typer.Argument(help="shapes, rooms, or a folder."), as_json: bool = AS_JSON
) -> None:
    """Evaluate a trained or packed network on the test split of DATA."""
    from bipointnet.evaluation import metrics

    if task_of(model) != "classify":
        evaluated, found = evaluate_points(model, data)
        if as_json:
            print_json({"dataset": evaluated.name, "clouds": len(evaluated.test), **found.as_json()})
        else:
            print_scores(f"{evaluated.name}, {len(evaluated.test)} test clouds", found)
        return
    clouds, confusion, facts = (_evaluate_packed if is_packed(model) else _evaluate_run)(model, data)
    overall, mean_class = metrics.overall_accuracy(confusion), metrics.mean_class_accuracy(confusion)
    accuracies = metrics.class_accuracies(confusion)
    if as_json:
        print_json(
            {
                "dataset": clouds.name,
                "clouds": len(clouds.test),
                "oa": overall,
                "macc": mean_class,
                **facts,
                "class_accuracy": {c: float(a) for c, a in zip(clouds.classes, accuracies, strict=True) if a == a},
                "confusion": confusion.tolist(),
            }
        )
        return
    table = empty_table(
        f"{clouds.name}: {len(clouds.test)} test clouds, epoch {facts['epoch']}",
        {"class": "left", "clouds": "right", "accuracy": "right", "most often taken for": "left"},
    )
    for i, name in enumerate(clouds.classes):
        row = confusion[i].copy()
        total, row[i] = int(row.sum()), 0
        other = f"{clouds.classes[row.argmax()]} ({row.max()})" if row.any() else ""
        table.add_row(name, str(total), f"{accuracies[i]:.1f} %" if total else "-", other)
    out.print(table)
    out.print(f"overall {overall:.2f} %   mean class {mean_class:.2f} %")


def _run_namer(model: Path) -> tuple[Callable[["np.ndarray"], tuple[str, float]], int, int]:
    """What names a cloud (N, 3), the points a cloud it was trained with, and the numbers a point."""
    need_torch()
    import torch

    from bipointnet.evaluation.networks import classify
    from bipointnet.models import checkpoint

    network, facts = checkpoint.load_run(model)

    def name(points: "np.ndarray") -> tuple[str, float]:
        logits, _ = classify(network, torch.from_numpy(points)[None], len(points))
        p = logits.softmax(dim=1)[0]
        best = int(p.argmax())
        return facts["classes"][best], float(p[best])

    return name, facts["config"]["points"], facts["channels"]


def _packed_namer(path: Path) -> tuple[Callable[["np.ndarray"], tuple[str, float]], int, int]:
    """The same of a packed model, without PyTorch."""
    from bipointnet.runtime import model as runtime

    model = runtime.load(path)

    def name(points: "np.ndarray") -> tuple[str, float]:
        said = model.predict(points)
        return said.names, float(said.probabilities[said.labels])

    return name, model.points, model.channels


@app.command()
def predict(
    model: Path = MODEL,
    files: list[Path] = typer.Argument(help="Clouds or meshes: ply, off, obj, stl, xyz, npy, pcd, las, ..."),
    as_json: bool = AS_JSON,
) -> None:
    """Name what is in each FILE. Larger clouds are thinned to the number of points the network was trained with."""
    import numpy as np

    from bipointnet.data import clouds

    if task_of(model) != "classify":
        raise UserError(f"{model}: labels points and names no clouds; ask it with `bipointnet segment`")
    namer, most, channels = (_packed_namer if is_packed(model) else _run_namer)(model)
    if channels != 3:
        raise UserError(f"{model}: it reads {channels} numbers a point; expected 3, all that predict takes from a file")
    rows = []
    for path in track(files, description="predicting", console=err, transient=True, disable=len(files) == 1):
        cloud = clouds.read(path)
        count = most if cloud.faces is not None else min(most, len(cloud.points))
        label, probability = namer(clouds.sample(cloud, count, np.random.default_rng(0), str(path)))
        rows.append({"file": str(path), "label": label, "probability": probability, "points": count})
    if as_json:
        print_json(rows)
        return
    for row in rows:
        out.print(
            f"{plain(row['file'])}  {plain(row['label'])}  {100 * row['probability']:.1f} %",
            highlight=False,
            soft_wrap=True,
        )
