"""The page about a finished run: one HTML file that needs no server and loads nothing."""

import base64
import html
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet.viz.confusion import confused_pairs, confusion_table
from bipointnet.viz.curves import Curve, chart
from bipointnet.viz.palette import colors
from bipointnet.viz.viewer import on_one_line, quantized, upright, viewer_script

_FOLDER = Path(__file__).parent
MOST_POINTS = 1024  # of a cloud in the page
COLUMNS = {  # of the table of epochs: name in metrics.csv -> title
    "epoch": "epoch",
    "lr": "learning rate",
    "loss": "loss",
    "train_oa": "training accuracy, %",
    "test_oa": "test accuracy, %",
    "test_macc": "mean class accuracy, %",
    "test_miou": "test mIoU, %",
    "entropy": "entropy of pooled bits",
}


class Figure(NamedTuple):
    """A large number at the top of the page, and what it is."""

    value: str
    name: str


class ClassScore(NamedTuple):
    """A class, the number of its clouds or points, and its accuracy or IoU in percent; NaN if it does not occur."""

    name: str
    size: int
    score: float


class Example(NamedTuple):
    """A cloud to look at, of points (N, 3).

    name: its file or number. lines: what the page says about it. labels: (2, N) the true and the predicted class of
    each point, or None if the cloud has one class.
    """

    name: str
    lines: tuple[str, ...]
    points: np.ndarray
    labels: np.ndarray | None = None


class LayerEntropy(NamedTuple):
    """The bits that a 1-bit layer reads: entropy in bits, mean over its input channels; channels that never change."""

    name: str
    inputs: int
    entropy: float
    constant: int


class Option(NamedTuple):
    """An option of the run; changed: whether it differs from the default."""

    name: str
    value: str
    help: str
    changed: bool


@dataclass(frozen=True)
class RunReport:
    """What the page shows.

    title: the data. network: the network and the recipe. history: rows as in metrics.csv. confusion: counts of `unit`,
    "clouds" or "points"; row: true class. class_scores: `score_name` of each class. examples: clouds that were
    predicted worst. up: the axis that points up in them. layers: empty for a float network. data: lines of text about
    what was read. command: repeats the run. facts: names and values for the end of the page.
    """

    title: str
    network: str
    figures: Sequence[Figure]
    history: Sequence[dict[str, Any]]
    classes: Sequence[str]
    confusion: np.ndarray
    unit: str
    class_scores: Sequence[ClassScore]
    score_name: str
    examples: Sequence[Example]
    up: str
    layers: Sequence[LayerEntropy]
    data: Sequence[str]
    options: Sequence[Option]
    command: str
    facts: Sequence[tuple[str, str]]


def report_bytes(report: RunReport) -> bytes:
    """The page."""
    palette = [f"#{bytes(color).hex()}" for color in colors(len(report.classes))]
    data = {
        "examples": [_example(example, report.up) for example in report.examples],
        "classes": [on_one_line(name) for name in report.classes],
        "colors": palette,
    }
    page = (_FOLDER / "run_report.html").read_text(encoding="utf-8")
    # Text of the user comes last, so that no part of it is taken for a name in braces.
    for name, content in (
        ("style", (_FOLDER / "run_report.css").read_text(encoding="utf-8")),
        ("viewer", viewer_script()),
        ("script", (_FOLDER / "run_report.js").read_text(encoding="utf-8")),
    ):
        page = page.replace(f"{{{{{name}}}}}", content)
    before, _, after = page.partition("{{body}}")
    # Without <, no text in the data can end its script.
    inside = f"{_body(report)}\n" + '<script type="application/json" id="data">'
    inside += json.dumps(data).replace("<", "\\u003c") + "</script>"
    title = f"{_text(report.title)}: {_text(report.network)}"
    # Names of files need not be UTF-8.
    return (before.replace("{{title}}", title) + inside + after).encode("utf-8", "backslashreplace")


def _text(text: str) -> str:
    return html.escape(on_one_line(text))


def _example(example: Example, up: str) -> dict[str, Any]:
    """A cloud in the form of the viewer: of many points, evenly spaced ones."""
    kept = np.arange(min(len(example.points), MOST_POINTS)) * len(example.points) // MOST_POINTS
    kept = kept if len(example.points) > MOST_POINTS else np.arange(len(example.points))
    steps, lower, upper = quantized(upright(example.points[kept], up))
    found: dict[str, Any] = {"steps": _base64(steps), "sides": (upper - lower).tolist()}
    if example.labels is not None:
        truth, predicted = example.labels[:, kept].astype("<u2")
        found |= {"truth": _base64(truth), "predicted": _base64(predicted)}
    return found


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).data).decode()


def _body(report: RunReport) -> str:
    of_points = report.unit == "points"
    sections = {
        "Curves": _curves(report),
        "Worst clouds" if of_points else "Mistakes": _examples(report),
        "Confusion": _confusion(report),
        f"{report.score_name} per class": _class_scores(report),
        "Entropy per layer": _layers(report),
        "Data set": _data(report),
        "Configuration": _options(report),
    }
    sections = {title: content for title, content in sections.items() if content}
    links = "".join(f'<a href="#{_anchor(title)}">{_text(title)}</a>' for title in sections)
    tiles = "".join(f"<li><b>{_text(f.value)}</b>{_text(f.name)}</li>" for f in report.figures)
    parts = [
        f"<header><p>Run report</p><h1>{_text(report.title)}</h1><p>{_text(report.network)}</p>",
        f'<ul class="figures">{tiles}</ul><nav aria-label="Sections">{links}</nav></header>\n<main>',
    ]
    for title, content in sections.items():
        anchor = _anchor(title)
        parts.append(f'<section id="{anchor}" aria-label="{_text(title)}"><h2>{_text(title)}</h2>\n{content}</section>')
    facts = "".join(f"<span>{_text(name)} {_text(value)}</span>" for name, value in report.facts)
    return "\n".join([*parts, f"</main>\n<footer>{facts}</footer>"])


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _line(report: RunReport, column: str, name: str, style: str) -> Curve:
    found = [(row["epoch"], row[column]) for row in report.history if row.get(column) is not None]
    return Curve(name, style, found)


def _curves(report: RunReport) -> str:
    of_points = any(row.get("test_miou") is not None for row in report.history)
    scores = [_line(report, "train_oa", "training", "second"), _line(report, "test_oa", "test", "first")]
    charts = [
        chart("Loss in training", [_line(report, "loss", "loss", "second")], from_zero=True),
        chart("Accuracy of points" if of_points else "Accuracy", scores, " %"),
    ]
    if of_points:
        charts.append(chart("mIoU", [_line(report, "test_miou", "test", "first")], " %"))
    if report.layers:
        charts.append(chart("Entropy of pooled bits", [_line(report, "entropy", "test", "first")], from_zero=True))
    charts.append(chart("Learning rate", [_line(report, "lr", "at the start of an epoch", "second")], from_zero=True))
    return f'<div class="charts">{"".join(charts)}</div>{_epochs(report)}'


def _epochs(report: RunReport) -> str:
    used = [name for name in COLUMNS if any(row.get(name) is not None for row in report.history)]
    used = [name for name in used if name != "entropy" or report.layers]
    head = "".join(f'<th scope="col">{COLUMNS[name]}</th>' for name in used)
    rows = []
    for row in report.history:
        cells = ("" if row.get(name) is None else f"{row[name]:.5g}" for name in used)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return (
        f"<details><summary>All {len(rows)} epochs as a table</summary>"
        '<div class="wide" role="region" aria-label="All epochs" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _examples(report: RunReport) -> str:
    total = int(report.confusion.sum())
    if not report.examples:
        return f"<p>None: all {total:,} test {report.unit} are predicted correctly.</p>"
    if report.unit == "clouds":
        wrong = total - int(np.trace(report.confusion))
        intro = f"{wrong:,} of {total:,} test clouds are misclassified. "
        intro += f"These are the {len(report.examples)} with the highest probability of the wrong class."
        modes = ""
    else:
        intro = f"The {len(report.examples)} test clouds with the lowest IoU."
        modes = "".join(
            f'<button data-mode="{mode}" aria-pressed="false">{title}</button>'
            for mode, title in (("predicted", "prediction"), ("truth", "truth"), ("wrong", "right or wrong"))
        )
        modes = f'<div class="modes" role="group" aria-label="Colors">{modes}</div>'
    cards = []
    for example in report.examples:
        lines = "".join(f"<span>{_text(line)}</span>" for line in example.lines)
        cards.append(
            f'<li><button aria-pressed="false"><canvas aria-hidden="true"></canvas>{lines}'
            f"<small>{_text(example.name)}</small></button></li>"
        )
    label = "The chosen cloud. Arrow keys rotate it, plus and minus zoom."
    return (
        f'<p>{intro}</p><div class="examples"><div class="stage"><canvas id="view" tabindex="0" aria-label="{label}">'
        f'</canvas>{modes}<p id="caption" aria-live="polite">This page needs JavaScript to show clouds.</p>'
        f'<div id="legend"></div></div><ul class="cards">{"".join(cards)}</ul></div>'
    )


def _confusion(report: RunReport) -> str:
    names = [on_one_line(name) for name in report.classes]
    table, intro = confusion_table(report.confusion, names, report.unit), ""
    if table:
        shown = "counts" if report.unit == "clouds" else "percentages of the row"
        intro = f"<p>Row: true class. Column: prediction. Cells are {shown}; the shade is the share of the row.</p>"
        table = f'<div class="wide" role="region" aria-label="Confusion matrix" tabindex="0">{table}</div>'
    pairs = "".join(
        f"<li><span>{html.escape(pair.truth)} <i>predicted as</i> {html.escape(pair.prediction)}</span>"
        f"<b>{pair.wrong:,} of {pair.total:,}</b></li>"
        for pair in confused_pairs(report.confusion, names)
    )
    pairs = f'<div><h3>Confused most often</h3><ol class="pairs">{pairs}</ol></div>' if pairs else ""
    return f'{intro}<div class="beside">{table}{pairs}</div>'


def _bar(name: str, share: float, value: str, note: str) -> str:
    return (
        f'<li><span>{_text(name)}</span><span class="track"><i style="width:{100 * share:.1f}%"></i></span>'
        f"<b>{value}</b><small>{note}</small></li>"
    )


def _class_scores(report: RunReport) -> str:
    known = sorted((row for row in report.class_scores if row.score == row.score), key=lambda row: row.score)
    bars = [_bar(row.name, row.score / 100, f"{row.score:.1f} %", f"{row.size:,} {report.unit}") for row in known]
    missing = [_text(row.name) for row in report.class_scores if row.score != row.score]
    note = f"<p>Without test {report.unit}: {', '.join(missing)}.</p>" if missing else ""
    return f'<p>Lowest first.</p><ul class="bars">{"".join(bars)}</ul>{note}'


def _layers(report: RunReport) -> str:
    if not report.layers:
        return ""
    bars = "".join(
        _bar(
            layer.name,
            layer.entropy,
            f"{layer.entropy:.2f} bits",
            f"{layer.constant:,} of {layer.inputs:,} channels constant",
        )
        for layer in report.layers
    )
    return (
        "<p>The bits that each 1-bit layer reads on test clouds, mean over its input channels: 1 if +1 and -1 are "
        f'equally frequent, 0 if a bit never changes.</p><ul class="bars layers">{bars}</ul>'
    )


def _data(report: RunReport) -> str:
    lines = "\n".join(html.escape(line) for line in report.data)
    return f'<pre tabindex="0">{lines}</pre>' if lines else ""


def _options(report: RunReport) -> str:
    rows = "".join(
        f'<tr{" class=changed" if option.changed else ""}><th scope="row">{_text(option.name)}</th>'
        f"<td>{_text(option.value)}</td><td>{_text(option.help)}</td></tr>"
        for option in report.options
    )
    # A line of the command ends between two words, never at a hyphen.
    words = " ".join(f"<span>{html.escape(shlex.quote(word))}</span>" for word in shlex.split(report.command))
    return (
        f'<p>To repeat this run:</p><pre tabindex="0"><code>{words}</code></pre>'
        "<p>Options that differ from the defaults are bold.</p>"
        '<div class="wide" role="region" aria-label="Options" tabindex="0"><table class="options"><thead><tr>'
        '<th scope="col">option</th><th scope="col">value</th><th scope="col">meaning</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
