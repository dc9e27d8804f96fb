"""The command predict."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bipointnet import shipped
from bipointnet.cli.common import (
    AS_JSON,
    COLUMNS,
    STRICT,
    column_names,
    complain,
    counting_bar,
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

if TYPE_CHECKING:
    from bipointnet.evaluation.from_file import FileError, FilePrediction

TOP_IN_JSON = 3


def predict(
    files: list[str] = typer.Argument(
        metavar="FILE",
        help="Clouds or meshes (ply, off, obj, stl, xyz, npy, pcd, las, ...), folders, patterns such as "
        "'scans/**/*.ply', or - for text from standard input.",
    ),
    model: Path | None = model_option(default=f" (default: {shipped.DEFAULT_CLASSIFIER})"),
    top: int | None = typer.Option(
        None, "--top", min=1, help=f"Show the K most probable classes (default: 1; in JSON {TOP_IN_JSON}).", metavar="K"
    ),
    up: str | None = typer.Option(
        None, "--up", help="Axis that points up in the files: x, y or z (default: as in training)."
    ),
    columns: str | None = COLUMNS,
    strict: bool = STRICT,
    as_json: bool = AS_JSON,
) -> None:
    """Classify the cloud in each FILE.

    A PointNet with EMA-max uses up to four times as many points as in training,
    but no more than 1024 if training had fewer; other networks use as many as in
    training. Of a larger cloud they use a sample. If a file cannot be read, the
    others are classified, and the exit code is 2. With --up, clouds are rotated
    so that the axis that points up is that of the training data.

    Example: bipointnet predict scan.ply --model chairs.bpn
    """
    require_axis(up)
    predictor = open_predictor(model or shipped.locate(Path(shipped.DEFAULT_CLASSIFIER)))
    predictor.require_classifier()
    from bipointnet.data.clouds import SUFFIXES
    from bipointnet.evaluation.from_file import FileError, classify_files, read_input, require_coordinates_only
    from bipointnet.evaluation.inputs import expand

    require_coordinates_only(predictor)
    if up is not None:
        predictor.require_up(up)
    inputs = expand(files, SUFFIXES)
    if model is None:
        _name_default_model()
    rows: list[FilePrediction | FileError] = []
    read = partial(read_input, columns=column_names(columns), strict=strict)
    # Without a bar where the predictions themselves, printed one by one, show the progress.
    with counting_bar("predicting", shown=err.is_terminal and (as_json or not out.is_terminal)) as progress:
        for row in classify_files(predictor, inputs, top or (TOP_IN_JSON if as_json else 1), read, up):
            rows.append(row)
            progress(len(rows), len(inputs))
            _report(row, as_json)
    if as_json:
        print_json([row.as_json() for row in rows])
    if any(isinstance(row, FileError) for row in rows):
        raise typer.Exit(2)


def _name_default_model() -> None:
    card = shipped.card(shipped.DEFAULT_CLASSIFIER)
    err.print(
        f"Model: {card['name']}, {card['classes']} classes, trained on {card['trained_on']} with {card['up']} up; "
        "choose another with --model",
        highlight=False,
        soft_wrap=True,
    )


def _report(row: "FilePrediction | FileError", as_json: bool) -> None:
    """What is wrong on stderr, and predictions on stdout unless they will be printed as JSON."""
    from bipointnet.evaluation.from_file import FileError

    if isinstance(row, FileError):
        complain(row.error)
        return
    if not as_json:
        for label, probability in row.top:
            print_line(f"{plain(row.file)}  {plain(label)}  {100 * probability:.1f} %")
    if row.warnings:
        warn(f"{row.file}: {'; '.join(row.warnings)}")
