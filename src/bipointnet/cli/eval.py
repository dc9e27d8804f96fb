"""The command eval."""

from pathlib import Path
from typing import TYPE_CHECKING

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
)

if TYPE_CHECKING:
    from bipointnet.evaluation.evaluate import Classification
    from bipointnet.evaluation.segmentation import Scores


def evaluate(model: Path = MODEL, data: str = DATA, skip_bad: bool = SKIP_BAD, as_json: bool = AS_JSON) -> None:
    """Evaluate a trained or packed network on the test split of DATA.

    Of a folder of your own files, a run is tested on all that it has not seen:
    those it held out, and new ones.

    Example: bipointnet eval runs/chairs data/chairs
    """
    predictor = open_predictor(model)
    from bipointnet.evaluation.evaluate import evaluate_classifier, evaluate_segmenter, open_test_data

    clouds = open_test_data(predictor, data, skip_bad)
    print_summary(clouds)
    if predictor.task == "classify":
        with counting_bar("evaluating") as progress:
            found = evaluate_classifier(predictor, clouds, progress)
        if as_json:
            print_json(predictor.facts | found.as_json())
        else:
            _print_classification(found, predictor.facts["epoch"])
        return
    with counting_bar("evaluating") as progress:
        scores = evaluate_segmenter(predictor, clouds, progress)
    if as_json:
        print_json({"dataset": clouds.name, "clouds": len(clouds.test), **scores.as_json()})
    else:
        print_scores(f"{clouds.name}, {len(clouds.test)} test clouds", scores)


def _print_classification(found: "Classification", epoch: int | None) -> None:
    from bipointnet.evaluation import metrics

    table = empty_table(
        f"{found.dataset}: {found.clouds} test clouds, epoch {epoch}",
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
    out.print(f"overall {found.overall:.2f} %   mean class {found.mean_class:.2f} %")


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
