"""Collect what the page about a finished run shows, and write it: report.html in the run folder."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bipointnet.config import Config
from bipointnet.evaluation import metrics
from bipointnet.evaluation.probe import read_bits
from bipointnet.files import write_beside
from bipointnet.nn import deployed_bytes
from bipointnet.training.repeat import command
from bipointnet.training.tasks import Answers, Segmentation
from bipointnet.viz.run_report import ClassScore, Example, Figure, LayerEntropy, Option, RunReport, report_bytes

if TYPE_CHECKING:  # the loop imports this module
    from bipointnet.training.loop import Run

EXAMPLES = 12


def write_report(run: "Run", figures: dict[str, Any], path: Path) -> None:
    """Write the page about a finished run; figures: the content of its result.json."""
    write_beside(path, report_bytes(collect(run, figures)))


def collect(run: "Run", figures: dict[str, Any]) -> RunReport:
    """What the page shows, from the predictions of the last epoch."""
    config, task, answers = run.config, run.task, run.last_answers()
    confusion = task.confusion(answers)
    if isinstance(task, Segmentation):
        scores = [ClassScore(row.name, row.size, row.iou) for row in task.scores(answers.labels).classes]
        examples = worst_clouds(run, task, answers)
    else:
        accuracies = metrics.class_accuracies(confusion)
        rows = zip(task.classes, confusion.sum(axis=1), accuracies, strict=True)
        scores = [ClassScore(name, int(size), float(accuracy)) for name, size, accuracy in rows]
        examples = confident_mistakes(run, answers)
    inputs = task.inputs(run.test_clouds[:, : config.points], run.test_labels)
    return RunReport(
        title=_title(run),
        network=_network(config),
        figures=_figures(run, figures),
        history=run.history,
        classes=task.classes,
        confusion=confusion,
        unit="points" if isinstance(task, Segmentation) else "clouds",
        class_scores=scores,
        score_name="IoU" if isinstance(task, Segmentation) else "Accuracy",
        examples=examples,
        up=config.up or run.data.up,
        layers=[LayerEntropy(*bits) for bits in read_bits(run.model, *inputs)],
        data=run.data.summary.lines() if run.data.summary else (),
        options=_options(config),
        command=command(config, run.data, run.data_path, run.init),
        facts=_facts(run, figures),
    )


def _title(run: "Run") -> str:
    """The name of the data, with that of their folder."""
    name = run.data.name
    return name if run.data_path == name else f"{Path(run.data_path).resolve().name} ({name})"


def confident_mistakes(run: "Run", answers: Answers) -> list[Example]:
    """The misclassified test clouds with the largest probabilities, the largest first; points as the network reads."""
    assert answers.probabilities is not None
    test, names, classes = run.data.test, run.data.test_names, run.task.classes
    wrong = np.flatnonzero(answers.labels != test.labels)
    probabilities = answers.probabilities[wrong, answers.labels[wrong]]
    return [
        Example(
            names[i],
            (classes[test.labels[i]], f"predicted {classes[answers.labels[i]]}", f"{100 * probability:.1f} %"),
            test.points[i, : run.config.points, :3],
        )
        for i, probability in _first(wrong, -probabilities)
    ]


def worst_clouds(run: "Run", task: Segmentation, answers: Answers) -> list[Example]:
    """The test clouds with the smallest IoU, the smallest first. Clouds without a wrong point are left out."""
    test, names, points = run.data.test, run.data.test_names, answers.labels.shape[1]
    truth = task.target(test)[:, :points]
    known = truth >= 0
    shares = ((truth == answers.labels) & known).sum(axis=1) / known.sum(axis=1)
    wrong = np.flatnonzero(shares < 1)
    ious = task.cloud_ious(answers.labels)[wrong]
    return [
        Example(
            names[i],
            (
                f"{run.data.classes[test.labels[i]]}, IoU {iou:.1f} %" if run.data.parts else f"IoU {iou:.1f} %",
                f"{100 * (1 - shares[i]):.1f} % of the points wrong",
            ),
            test.points[i, :points, :3][known[i]],
            np.stack([truth[i], answers.labels[i]])[:, known[i]],
        )
        for i, iou in _first(wrong, ious)
    ]


def _first(rows: np.ndarray, keys: np.ndarray) -> list[tuple[int, float]]:
    """The rows with the smallest keys, and the sizes of these keys."""
    order = np.argsort(keys, kind="stable")[:EXAMPLES]
    return [(int(rows[i]), abs(float(keys[i]))) for i in order]


def _network(config: Config) -> str:
    bits = "float32" if config.method == "fp" else "1-bit"
    task = {"classify": "classification", "part": "part segmentation", "semantic": "semantic segmentation"}[config.task]
    parts = [f"{bits} {config.model}", *([] if config.method == "fp" else [config.method]), config.pool or "no pool"]
    return ", ".join([task, *parts, f"recipe {config.recipe}", f"seed {config.seed}"])


def _figures(run: "Run", figures: dict[str, Any]) -> list[Figure]:
    if "last_miou" in figures:
        scores = [
            Figure(f"{figures['last_miou']:.2f} %", "test mIoU, last epoch"),
            Figure(f"{figures['last_oa']:.2f} %", "point accuracy, last epoch"),
            Figure(f"{figures['best_miou']:.2f} %", "test mIoU, best epoch"),
        ]
    else:
        scores = [
            Figure(f"{figures['last_oa']:.2f} %", "test accuracy, last epoch"),
            Figure(f"{figures['last_macc']:.2f} %", "mean class accuracy, last epoch"),
            Figure(f"{figures['best_oa']:.2f} %", "test accuracy, best epoch"),
        ]
    if run.config.method != "fp":
        scores.append(Figure(f"{figures['entropy']:.2f} bits", "entropy of a pooled feature"))
    size = Figure(f"{deployed_bytes(run.model) / 1000:,.0f} kB", "weights and thresholds")
    return [*scores, size, Figure(_duration(run.seconds), f"{run.config.epochs} epochs, {figures['device']}")]


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _options(config: Config) -> list[Option]:
    usual = Config(task=config.task)
    return [
        Option(
            field.name,
            "none" if (value := getattr(config, field.name)) is None else f"{value}",
            field.metadata["help"],
            value != getattr(usual, field.name),
        )
        for field in dataclasses.fields(config)
    ]


def _facts(run: "Run", figures: dict[str, Any]) -> list[tuple[str, str]]:
    facts = {
        "layout:": figures["layout"],
        "training clouds:": f"{len(run.data.train):,}",
        "test clouds:": f"{len(run.data.test):,}",
        "points per cloud:": f"{run.config.points:,}",
        "bipointnet": figures["version"],
        "commit": (figures["commit"] or "")[:12],
        "PyTorch": figures["torch"],
        "device:": figures["device"],
    }
    return [(name, value) for name, value in facts.items() if value]
