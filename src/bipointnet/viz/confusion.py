"""A confusion matrix as an HTML table and as a picture, and the classes that are confused most often."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bipointnet.extras import require
from bipointnet.files import write_beside
from bipointnet.viz.picture import PLAIN, png_of
from bipointnet.viz.viewer import on_one_line

MOST_CLASSES = 64  # in a table; more would not be readable
NUMBERED = 24  # classes up to which the cells have numbers
LISTED = 12  # pairs


class Pair(NamedTuple):
    """`wrong` clouds or points of the class `truth`, out of `total`, are predicted as `prediction`."""

    truth: str
    prediction: str
    wrong: int
    total: int


def confused_pairs(confusion: np.ndarray, names: Sequence[str], limit: int = LISTED) -> list[Pair]:
    """The pairs of different classes with the largest counts, the largest first.

    >>> confused_pairs(np.array([[8, 2], [0, 5]]), ["cup", "vase"])
    [Pair(truth='cup', prediction='vase', wrong=2, total=10)]
    """
    wrong = confusion * (1 - np.eye(len(confusion), dtype=confusion.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:limit]
    totals = confusion.sum(axis=1)
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True) if wrong[i, j]]
    return [Pair(names[i], names[j], int(wrong[i, j]), int(totals[i])) for i, j in pairs]


def confusion_table(confusion: np.ndarray, names: Sequence[str], unit: str) -> str:
    """The table; row: true class, column: predicted class, shade: share of the row. "" for too many classes.

    A cell shows the count, or of points, which are many, the percentage of the row.

    unit: "clouds" or "points".
    """
    if len(names) > MOST_CLASSES:
        return ""
    names = [html.escape(name) for name in names]
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    head = "".join(f'<th scope="col"><span>{name}</span></th>' for name in names)
    rows = []
    for i, name in enumerate(names):
        cells = []
        for j, (count, share) in enumerate(zip(confusion[i], shares[i], strict=True)):
            if not count:
                cells.append("<td></td>")
                continue
            number = f"{count}" if unit == "clouds" else f"{100 * share:.0f}"
            title = f"{name} predicted as {names[j]}: {count:,} {unit}, {100 * share:.1f} %"
            kind = "" if i != j else ' class="hit most"' if share > 0.5 else ' class="hit"'
            cells.append(f'<td{kind} style="--share:{share:.3f}" title="{title}">{number}</td>')
        rows.append(f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>')
    size = "numbered" if len(names) <= NUMBERED else "dense"
    return (
        f'<table class="confusion {size}"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def draw_confusion(
    axes,
    confusion: np.ndarray,
    classes: Sequence[str],
    title: str,
    unit: str = "clouds",
    sizes: tuple[float, float] = (6.5, 5),
) -> None:
    """Draw a confusion matrix. Rows: true class; columns: predicted class; shade: share of the row.

    unit: "clouds" shows counts, "points" the percentage of the row. sizes: of the letters of names and numbers.
    """
    share = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    names = [on_one_line(name) for name in classes]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=sizes[0], **PLAIN)
    axes.set_yticks(range(len(names)), names, fontsize=sizes[0], **PLAIN)
    for i, j in zip(*np.nonzero(confusion), strict=True):
        text = f"{confusion[i, j]}" if unit == "clouds" else f"{100 * share[i, j]:.1f}"
        shade = "white" if share[i, j] > 0.6 else "black"
        axes.text(j, i, text, ha="center", va="center", fontsize=sizes[1], color=shade)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_title(on_one_line(title), fontsize=10, **PLAIN)


def write_confusion(path: Path, confusion: np.ndarray, classes: Sequence[str], title: str) -> None:
    """Write a PNG of the confusion matrix of points, in percent of each true class."""
    require("a picture", "matplotlib")
    from matplotlib.figure import Figure

    side = 2.5 + 0.45 * len(classes)
    figure = Figure(figsize=(side, side), layout="constrained")
    draw_confusion(figure.subplots(), confusion, classes, title, "points", (9, 7))
    write_beside(path, png_of(figure, 150))
