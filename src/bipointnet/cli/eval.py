"""The command eval."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bipointnet import shipped
from bipointnet.cli.common import (
    AS_JSON,
    DATA,
    MODEL,
    SKIP_BAD,
    counting_bar,
    empty_table,
    open_predictor,
    out,
    plain,
    print_json,
    print_line,
    print_summary,
    require_axis,
    warn,
)
from bipointnet.errors import UserError

WORST = 10  # files in the table of scans

if TYPE_CHECKING:
    from bipointnet.data.dataset import PointClouds
    from bipointnet.evaluation.evaluate import Classification
    from bipointnet.evaluation.predictor import Predictor
    from bipointnet.evaluation.robustness import Robustness
    from bipointnet.evaluation.segmentation import Scores


def evaluate(
    model: Path = MODEL,
    data: str = DATA,
    files: bool = typer.Option(False, "--files", metavar="", help="List every misclassified file."),
    every: bool = typer.Option(
        False, "--all", metavar="", help="Test on all files of a folder, also those it may have been trained on."
    ),
    corruptions: bool = typer.Option(
        False,
        "--corruptions",
        metavar="",
        help="Test on clouds with noise, missing or added points, other proportions, and rotations.",
    ),
    up: str | None = typer.Option(
        None, "--up", help="Axis that points up in the files of objects: x, y or z (default: as in training)."
    ),
    picture: Path | None = typer.Option(None, "--picture", help="Labeled scans: write the confusion matrix as PNG."),
    skip_bad: bool = SKIP_BAD,
    as_json: bool = AS_JSON,
) -> None:
    """Evaluate a trained or packed network on the test split of DATA.

    On a folder of your own files, a run is tested on all files that it has not
    seen: those it held out, and new ones. A packed model does not record its
    training files: without --all it is tested on the fifth that `train` holds
    out.

    Labeled scans of your own are labeled whole: IoU per class and per file.

    --corruptions shows how robust a classifier is: its accuracy under the seven
    corruptions of ModelNet-C in five severities, on clouds of 1024 points.

    Example: bipointnet eval runs/chairs data/chairs
    """
    require_axis(up)
    predictor = open_predictor(model)
    if up is not None and predictor.task == "semantic":
        raise UserError(f"{model}: labels rooms and scans, in which z is up; --up is for objects; leave it out")
    for option, given in (("--files", files), ("--corruptions", corruptions)):
        if given and predictor.task != "classify":
            raise UserError(
                f"{model}: labels points (task {predictor.task}); {option} is for classifiers; leave it out"
            )
    if picture is not None and predictor.scans is None:
        raise UserError(f"{model}: not trained on labeled scans; --picture needs a model that was; leave it out")
    if corruptions:
        if files:
            raise UserError("found --files and --corruptions; expected one of them; evaluate twice")
        _evaluate_corruptions(predictor, data, skip_bad, every, up, as_json)
        return
    if predictor.scans is not None:
        _evaluate_scans(predictor, data, every, skip_bad, picture, as_json)
        return
    from bipointnet.evaluation.evaluate import evaluate_classifier, evaluate_segmenter, open_test_data

    clouds = open_test_data(predictor, data, skip_bad, every, up=up)
    print_summary(clouds)
    _warn_of_axes(predictor, clouds, up)
    if predictor.task == "classify":
        with counting_bar("evaluating") as progress:
            found = evaluate_classifier(predictor, clouds, progress)
        if as_json:
            listed = {"mistakes": [mistake._asdict() for mistake in found.mistakes]} if files else {}
            print_json(predictor.facts | found.as_json() | listed)
        else:
            _print_classification(found, predictor.facts["epoch"])
            if files:
                _print_mistakes(found)
        return
    with counting_bar("evaluating") as progress:
        scores = evaluate_segmenter(predictor, clouds, progress)
    if as_json:
        print_json({"dataset": clouds.name, "clouds": len(clouds.test), **scores.as_json()})
    else:
        print_scores(f"{clouds.name}, {len(clouds.test)} test clouds", scores)


def _evaluate_scans(
    predictor: "Predictor", data: str, every: bool, skip_bad: bool, picture: Path | None, as_json: bool
) -> None:
    from bipointnet.evaluation.scans import evaluate_scans
    from bipointnet.viz.picture import check_file

    if picture is not None:
        check_file("--picture", picture, ".png", predictor.path)
    with counting_bar("evaluating") as progress:
        found = evaluate_scans(predictor, data, every, skip_bad, lambda name: progress)
    if as_json:
        print_json({"data": data, **found.as_json()})
    else:
        for note in found.notes:
            print_line(plain(note))
        print_scores(f"{data}, {len(found.files)} files", found.total)
        columns = {"file": "left", "points": "right", "mIoU": "right", "accuracy": "right"}
        table = empty_table("the files with the lowest mIoU", columns)
        for score in found.worst[:WORST]:
            table.add_row(plain(score.file), f"{score.points:,}", f"{score.miou:.1f} %", f"{score.oa:.1f} %")
        out.print(table)
    if picture is not None:  # last, so that the scores are not lost if it cannot be written
        from bipointnet.viz.confusion import write_confusion

        title = f"{Path(data).name}: points in percent of the true class"
        write_confusion(picture, found.total.confusion, predictor.classes, title)
        if not as_json:
            print_line(f"Written: {plain(picture)}")


def _warn_of_axes(predictor: "Predictor", clouds: "PointClouds", up: str | None) -> None:
    """Files of one's own say nothing of their axes; with a network of one's own they are as in training."""
    is_shipped = predictor.path.parent == shipped.FOLDER
    if up is None and is_shipped and predictor.task != "semantic" and predictor.up != clouds.up:
        warn(
            f"{predictor.path.stem} was trained with {predictor.up} up; if another axis points up in these files, name "
            "it with --up"
        )


def _evaluate_corruptions(
    predictor: "Predictor", data: str, skip_bad: bool, every: bool, up: str | None, as_json: bool
) -> None:
    from bipointnet.data.corruptions import POINTS
    from bipointnet.evaluation.evaluate import open_test_data
    from bipointnet.evaluation.robustness import evaluate_robustness

    clouds = open_test_data(predictor, data, skip_bad, every, POINTS, up)
    print_summary(clouds)
    _warn_of_axes(predictor, clouds, up)
    with counting_bar("evaluating") as progress:
        found = evaluate_robustness(predictor, clouds, progress)
    if as_json:
        print_json(predictor.facts | {"dataset": clouds.name} | found.as_json())
    else:
        _print_robustness(clouds.name, found)


def _print_robustness(dataset: str, found: "Robustness") -> None:
    """A table with one row per corruption and one column per severity."""
    severities = ["severity 1", "2", "3", "4", "5"]
    table = empty_table(
        plain(f"{dataset}: {found.clouds} test clouds, accuracy in percent"),
        {"corruption": "left", **dict.fromkeys([*severities, "mean"], "right")},
    )
    table.add_row("clean", *[""] * len(severities), f"{found.clean:.1f}", end_section=True)
    for name, accuracies in found.corrupted.items():
        table.add_row(name, *(f"{accuracy:.1f}" for accuracy in (*accuracies, found.mean_of(name))))
    table.add_section()
    table.add_row("mean", *(f"{accuracy:.1f}" for accuracy in (*found.by_severity, found.mean)))
    out.print(table)


def _print_classification(found: "Classification", epoch: int | None) -> None:
    from bipointnet.evaluation import metrics

    table = empty_table(
        plain(f"{found.dataset}: {found.clouds} test clouds") + ("" if epoch is None else f", epoch {epoch}"),
        {"class": "left", "clouds": "right", "accuracy": "right", "most often mistaken for": "left"},
    )
    totals = found.confusion.sum(axis=1)
    for i, accuracy in enumerate(metrics.class_accuracies(found.confusion)):
        other = found.most_confused(i)
        table.add_row(
            plain(found.classes[i]),
            str(totals[i]),
            f"{accuracy:.1f} %" if totals[i] else "-",
            f"{plain(other[0])} ({other[1]})" if other else "",
        )
    out.print(table)
    out.print(f"overall accuracy {found.overall:.2f} %   mean class accuracy {found.mean_class:.2f} %")


def _print_mistakes(found: "Classification") -> None:
    """One line per misclassified file, in any width: the lines are also read by programs."""
    print_line(f"{len(found.mistakes)} of {found.clouds} misclassified" + (":" if found.mistakes else ""))
    for mistake in found.mistakes:
        print_line(
            f"  {plain(mistake.file)}  {plain(mistake.truth)}, predicted {plain(mistake.prediction)}  "
            f"{100 * mistake.probability:.1f} %"
        )


def print_scores(title: str, scores: "Scores") -> None:
    """Tables of the categories and of the classes, and the means."""
    for what, counted, rows in (("category", "shapes", scores.categories), ("class", "points", scores.classes)):
        table = empty_table(f"{plain(title)}: IoU by {what}", {what: "left", counted: "right", "IoU": "right"})
        known = [row for row in rows if row.iou == row.iou]  # not NaN: present, or predicted
        for row in known:
            table.add_row(plain(row.name), f"{row.size:,}", f"{row.iou:.1f} %")
        if known:
            out.print(table)
    named = {"miou": "mIoU", "category_miou": "mean over categories", "paper_miou": "weighted as in the paper"}
    means = [f"{named[key]} {value:.2f} %" for key, value in scores.figures.items() if key in named]
    print_line("   ".join([*means, f"point accuracy {scores.figures['oa']:.2f} %"]))
