"""The command segment."""

from pathlib import Path
from typing import Any

import typer

from bipointnet.cli.common import (
    AS_JSON,
    COLUMNS,
    STRICT,
    column_names,
    counting_bar,
    empty_table,
    err,
    model_option,
    open_predictor,
    out,
    plain,
    print_json,
    print_line,
    require_axis,
    warn,
)
from bipointnet.cli.eval import print_scores
from bipointnet.errors import UserError
from bipointnet.extras import install_hint


def segment(
    file: Path = typer.Argument(
        metavar="FILE", help="Cloud: ply, xyz, npy, pcd, las, ...; rooms and scans in meters, z up."
    ),
    model: Path | None = model_option(default=". Required"),
    stem: Path | None = typer.Option(
        None, "-o", "--out", help="Name of the files to write, without suffix (default: FILE's name with -labels)."
    ),
    category: str | None = typer.Option(
        None, "--category", help="Category of the object, if the network has a category input."
    ),
    truth: Path | None = typer.Option(
        None, "--truth", help="True labels to compare with: .npy, or text with one label per line."
    ),
    up: str | None = typer.Option(None, "--up", help="Axis that points up in the picture: x, y or z."),
    columns: str | None = COLUMNS,
    strict: bool = STRICT,
    as_json: bool = AS_JSON,
) -> None:
    """Label every point of FILE.

    Writes a PLY with colors, the labels as NPY, a picture (PNG), and a page that
    shows the cloud in a browser (HTML).

    Example: bipointnet segment room.ply --model rooms.bpn
    """
    require_axis(up)
    if model is None:
        raise UserError(
            "no model; expected --model FILE; to make one, run `bipointnet train DATA -o RUN`, then "
            "`bipointnet export RUN -o FILE`"
        )
    predictor = open_predictor(model)
    predictor.require_segmenter()
    file.stat()  # raises OSError if it cannot be found
    from bipointnet.data import clouds
    from bipointnet.evaluation import from_file
    from bipointnet.runtime.label import read_labels
    from bipointnet.viz.write import output_files, write_labeled

    number = predictor.category_index(category)
    files = output_files(stem, file, [file, predictor.path, *([truth] if truth else [])])
    cloud = clouds.read(file, columns=column_names(columns), strict=strict)
    note = clouds.dropped_note(cloud)
    if note:
        warn(f"{file}: {note}")
    true_labels = None
    if truth is not None:
        true_labels = read_labels(truth, len(cloud.points) + cloud.dropped, predictor.accepted(number))
        true_labels = true_labels if cloud.kept is None else true_labels[cloud.kept]
    with counting_bar("labeling") as progress:
        labels = from_file.label_cloud(predictor, cloud, file, number, progress)
    written = write_labeled(files, cloud, labels, predictor.classes, file.name, up or predictor.up or "z")
    if len(written) < len(files):
        hint = plain(install_hint("matplotlib"))
        err.print(f"No picture: matplotlib is not installed; install it with: {hint}", highlight=False, soft_wrap=True)
    counts = from_file.count_classes(predictor, labels)
    scores = None if true_labels is None else from_file.compare_with_truth(predictor, labels, true_labels, number)
    if as_json:
        report: dict[str, Any] = {"file": str(file), "points": len(labels), "classes": counts}
        report |= {"written": [str(path) for path in written]}
        print_json(report | ({} if scores is None else {"truth": scores.as_json()}))
        return
    table = empty_table(
        plain(f"{file.name}: {len(labels):,} points"), {"class": "left", "points": "right", "": "right"}
    )
    for name, count in counts.items():
        table.add_row(plain(name), f"{count:,}", f"{100 * count / len(labels):.1f} %")
    out.print(table)
    if scores is not None:
        print_scores("compared with the true labels", scores)
    print_line("Written: " + ", ".join(plain(path) for path in written))
