"""What commands do with networks that label points: evaluate them, and the command segment."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from bipointnet.cli.common import (
    AS_JSON,
    MODEL,
    app,
    counting_bar,
    empty_table,
    err,
    is_packed,
    need_torch,
    out,
    plain,
    print_json,
    require_same_classes,
)
from bipointnet.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from bipointnet.data.dataset import PointClouds
    from bipointnet.evaluation.segmentation import Scores


LONGEST_NAME = 220  # in bytes; files are written beside under a longer one


class Labeller(NamedTuple):
    """A trained or packed network that labels points.

    logits: of clouds (B, P, C) of one category, -1 for none. own_parts: the classes that points of a category can have,
    ascending. data: what it was trained on, as result files call it.
    """

    logits: Callable[["np.ndarray", int], "np.ndarray"]
    own_parts: Callable[[int], "np.ndarray"]
    classes: list[str]
    categories: list[str]
    channels: int
    points: int
    task: str
    data: str
    up: str


def task_of(model: Path) -> str:
    """What a trained or packed network does: classify, part or semantic."""
    from bipointnet.runtime import model as runtime

    if is_packed(model):
        return runtime.load(model).task
    facts = runtime.peek(model / "last.safetensors" if model.is_dir() else model) or {}
    return facts.get("config", {}).get("task", "classify")


def _packed_labeller(path: Path) -> Labeller:
    from bipointnet.runtime import model as runtime

    model = runtime.load(path)
    training = model.manifest["training"]

    def logits(clouds: "np.ndarray", category: int) -> "np.ndarray":
        return model.logits(clouds, category=category if category >= 0 else None, threads=os.cpu_count() or 1)

    return Labeller(
        logits,
        lambda category: model.accepted_classes(category if category >= 0 else None),
        model.classes,
        model.categories,
        model.channels,
        model.points,
        model.task,
        str(training.get("data", "")),
        training["up"] if training.get("up") in ("x", "y", "z") else "z",
    )


def _run_labeller(path: Path) -> Labeller:
    """The same of a trained network."""
    need_torch()
    import numpy as np
    import torch

    from bipointnet.data.normalize import normalize
    from bipointnet.models import checkpoint

    model, facts = checkpoint.load_run(path)
    config, categories = facts["config"], facts.get("categories", [])

    def logits(clouds: "np.ndarray", category: int) -> "np.ndarray":
        x = torch.from_numpy(clouds)
        x = x if config["task"] == "semantic" else normalize(x)
        told = [torch.full((len(x),), category)] if categories else []
        with torch.no_grad():
            return model(x, *told).logits.numpy()

    return Labeller(
        logits,
        lambda category: np.array(facts["parts"][category]) if categories else np.arange(len(facts["classes"])),
        facts["classes"],
        categories,
        facts["channels"],
        config["points"],
        config.get("task", "classify"),
        facts["data"],
        facts.get("up", "z"),
    )


def labeller(model: Path) -> Labeller:
    """The network of a run or packed file; UserError where it names whole clouds."""
    network = (_packed_labeller if is_packed(model) else _run_labeller)(model)
    if network.task == "classify":
        raise UserError(f"{model}: names whole clouds; expected a network trained with --task part or semantic")
    return network


def evaluate_points(model: Path, data: str) -> tuple["PointClouds", "Scores"]:
    """The data set, and how well a network labels the points of its test split."""
    import numpy as np

    from bipointnet.data import fold_names, open_dataset
    from bipointnet.evaluation import segmentation as scores

    network = labeller(model)
    # Data trained on in part say which: a category of objects, or the fold of rooms that was left out.
    _, _, part = network.data.partition("/")
    semantic = network.task == "semantic"
    folds = fold_names(data) if semantic and part else []
    if folds and part not in folds:
        raise UserError(
            f"{data}: {model} was trained on all folds but {part} and may have learned from any of these: "
            f"{', '.join(folds)}; expected data with {part}"
        )
    clouds = open_dataset(data, network.points, fold=part if folds else None)
    clouds = clouds.only(part) if part and not semantic else clouds
    require_same_classes(data, clouds.point_classes, model, network.classes, network.data)
    test = clouds.test.points[:, : network.points]
    found = np.empty(test.shape[:2], np.int64)
    step = max(1, 2**15 // network.points)
    with counting_bar("evaluating") as watch:
        for category in range(len(clouds.classes)) if network.categories else [-1]:
            own = network.own_parts(category)
            rows = np.flatnonzero(clouds.test.labels == category) if category >= 0 else np.arange(len(test))
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                found[some] = own[network.logits(test[some], category)[..., own].argmax(axis=-1)]
                watch(int((clouds.test.labels < category).sum()) + start, len(test))
    return clouds, (scores.of_blocks if semantic else scores.of_parts)(clouds, found)


def print_scores(title: str, found: "Scores") -> None:
    """Tables of the categories and of the classes, and the means."""
    for what, counted, rows in (("category", "shapes", found.categories), ("class", "points", found.classes)):
        table = empty_table(f"{title}: IoU by {what}", {what: "left", counted: "right", "IoU": "right"})
        known = [row for row in rows if row.iou == row.iou]  # there, or predicted
        for row in known:
            table.add_row(plain(row.name), f"{row.size:,}", f"{row.iou:.1f} %")
        if known:
            out.print(table)
    named = {"miou": "mIoU", "category_miou": "mean of categories", "paper_miou": "weighted as in the paper"}
    parts = [f"{named[key]} {value:.2f} %" for key, value in found.figures.items() if key in named]
    out.print("   ".join([*parts, f"points right {found.figures['oa']:.2f} %"]), highlight=False)


def _named_category(network: Labeller, model: Path, category: str | None) -> int:
    if not network.categories:
        if category is not None:
            raise UserError(f"{model}: knows no categories; found --category {category}; leave it out")
        return -1
    if category not in network.categories:
        found = "no --category" if category is None else f"--category {category}"
        raise UserError(f"{model}: found {found}; expected one of: {', '.join(network.categories)}")
    return network.categories.index(category)


@app.command()
def segment(
    model: Path = MODEL,
    file: Path = typer.Argument(help="Cloud: ply, xyz, npy, pcd, las, ...; a room or scan in metres, z up."),
    to: Path | None = typer.Option(
        None, "-o", "--out", help="Name of the files to write, without suffix (default: the cloud's, with -labels)."
    ),
    category: str | None = typer.Option(
        None, "--category", help="What the object is, for a network of all categories."
    ),
    truth: Path | None = typer.Option(
        None, "--truth", help="True labels to compare with: .npy, or text with one a line."
    ),
    up: str | None = typer.Option(None, "--up", help="The axis that points up in the picture: x, y or z."),
    as_json: bool = AS_JSON,
) -> None:
    """Label every point of FILE: writes a PLY with colors, the labels as NPY, a picture (PNG) and a page (HTML)."""
    import numpy as np

    from bipointnet.data import clouds
    from bipointnet.evaluation import metrics
    from bipointnet.evaluation import segmentation as scores
    from bipointnet.runtime import label as scan

    if up not in (None, "x", "y", "z"):
        raise UserError(f"up is {up!r}; expected x, y or z")
    network = labeller(model)
    number = _named_category(network, model, category)
    targets = _targets(to, file, [file, model, *([truth] if truth else [])])
    cloud = clouds.read(file)
    expected = None if truth is None else scan.read_labels(truth, len(cloud.points), len(network.classes))
    with counting_bar("labelling") as watch:
        asked = scan.Network(
            lambda x: network.logits(x, number),
            network.own_parts(number),
            network.task,
            network.points,
            network.channels,
        )
        labels = scan.label_by(asked, cloud, file, watch)
    written = _write(targets, cloud, labels, network.classes, up or network.up, file.name)
    found = np.bincount(labels, minlength=len(network.classes))
    figures: dict[str, Any] = {
        "file": str(file),
        "points": len(labels),
        "classes": {name: int(count) for name, count in zip(network.classes, found, strict=True) if count},
        "written": [str(path) for path in written],
    }
    evaluated = None
    if expected is not None:
        confusion = metrics.confusion_matrix(expected, labels, len(network.classes))
        evaluated = scores.of_scenes(tuple(network.classes), confusion)
        if network.task == "part":
            own = network.own_parts(number).tolist()
            iou = metrics.shape_ious(expected[None], labels[None], np.zeros(1, int), [own])
            evaluated = evaluated._replace(figures=evaluated.figures | {"miou": float(iou[0])})
        figures |= {"truth": evaluated.as_json()}
    if as_json:
        print_json(figures)
        return
    table = empty_table(
        plain(f"{file.name}: {len(labels):,} points"), {"class": "left", "points": "right", "": "right"}
    )
    for name, count in figures["classes"].items():
        table.add_row(plain(name), f"{count:,}", f"{100 * count / len(labels):.1f} %")
    out.print(table)
    if evaluated is not None:
        print_scores("compared with the truth", evaluated)
    out.print("Written: " + ", ".join(plain(path) for path in written), highlight=False, soft_wrap=True)


def _targets(to: Path | None, file: Path, sources: list[Path]) -> list[Path]:
    """The files to write, none of which is one that was read, or a folder."""
    usual = f"{file.stem}-labels"
    stem = to or Path(usual)
    if len(os.fsencode(stem.name)) <= LONGEST_NAME and stem.is_dir():
        stem = stem / usual
    if not stem.name or len(os.fsencode(stem.name)) > LONGEST_NAME:
        raise UserError(
            f"--out is '{stem}'; expected the name of the files to write, without suffix, {LONGEST_NAME} bytes at most"
        )
    targets = [stem.with_name(stem.name + suffix) for suffix in (".ply", ".npy", ".html", ".png")]
    for target in targets:
        if target.is_dir():
            raise UserError(f"{target}: is a folder where a file is to be written; choose another name with -o")
        if any(source.exists() and target.resolve() == source.resolve() for source in sources):
            raise UserError(f"{target}: would be overwritten, and it was read; choose another name with -o")
    return targets


def _write(
    targets: list[Path], cloud: Any, labels: "np.ndarray", classes: list[str], up: str, title: str
) -> list[Path]:
    """All files of a labelled cloud; the picture is left out where there is no matplotlib."""
    import numpy as np

    from bipointnet.viz import labeled

    points = cloud.points
    if any(cloud.origin):
        points = points.astype(np.float64) + cloud.origin
    ply, npy, html, png = targets
    labeled.write_ply(ply, points, labels, classes)
    labeled.write_npy(npy, labels)
    labeled.write_html(html, points, labels, classes, title, up=up)
    if importlib.util.find_spec("matplotlib") is None:
        err.print("No picture: matplotlib is not installed; pip install 'bipointnet\\[train]'")
        return targets[:-1]
    labeled.write_png(png, points, labels, classes, up=up)
    return targets
