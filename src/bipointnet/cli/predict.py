"""The command predict."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bipointnet import shipped
from bipointnet.cli.common import (
    ADDRESS,
    AS_JSON,
    COLUMNS,
    ENGINE,
    FILES_FROM,
    STRICT,
    WORKERS,
    column_names,
    complain,
    counting_bar,
    err,
    model_option,
    open_predictor,
    out,
    plain,
    print_default_model,
    print_json,
    print_line,
    require_axis,
    require_packed,
    run_job,
    warn,
)
from bipointnet.errors import UserError

if TYPE_CHECKING:
    from bipointnet.evaluation.from_file import FileError, FilePrediction

TOP_IN_JSON = 3


def predict(
    files: list[str] | None = typer.Argument(
        None,
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
    folder: Path | None = typer.Option(
        None,
        "-o",
        "--out",
        help="Write Parquet files into this folder, one row per cloud (default: print the predictions).",
    ),
    files_from: Path | None = FILES_FROM,
    engine: str | None = ENGINE,
    address: str | None = ADDRESS,
    workers: int | None = WORKERS,
    as_json: bool = AS_JSON,
) -> None:
    """Classify the cloud in each FILE.

    A PointNet with EMA-max uses up to four times as many points as in training,
    but no more than 1024 if training had fewer; other networks use as many as in
    training. Of a larger cloud they use a sample. If a file cannot be read, the
    others are classified, and the exit code is 2. With --up, clouds are rotated
    so that the axis that points up is that of the training data.

    With -o, a job for many files: results go to Parquet, all cores or a Ray
    cluster work on it, and a job that was stopped continues where it was.

    Example: bipointnet predict scan.ply --model chairs.bpn
    """
    require_axis(up)
    if folder is None and (engine or address or workers):
        raise UserError("--engine, --address and --workers are for jobs; expected -o FOLDER with them; add it")
    if folder is not None and top is not None:
        raise UserError(
            f"--top is {top} with -o; expected it without, as the results of a job have the probabilities of all "
            "classes; leave it out"
        )
    predictor = open_predictor(model or shipped.locate(Path(shipped.DEFAULT_CLASSIFIER)))
    predictor.require_classifier()
    from bipointnet.data.clouds import SUFFIXES
    from bipointnet.evaluation.from_file import FileError, classify_files, read_input, require_coordinates_only
    from bipointnet.evaluation.inputs import expand, listed_in

    require_coordinates_only(predictor)
    if up is not None:
        predictor.require_up(up)
    inputs = expand(files or [], SUFFIXES) + (listed_in(files_from, SUFFIXES) if files_from else [])
    if not inputs:
        raise UserError("no files were named; expected FILE arguments, or a list with --files-from")
    if model is None:
        on_axis = "" if up else " (if another axis points up in your files, name it with --up)"
        print_default_model(shipped.DEFAULT_CLASSIFIER, on_axis)
    if folder is not None:
        from bipointnet.scale.jobs import classify_job

        require_packed(predictor.path)
        options = {"up": up, "columns": column_names(columns), "strict": strict}
        where = {"engine": engine or "local", "address": address, "workers": workers}
        run_job(classify_job(predictor.path, folder, options, **where), inputs, as_json)
        return
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
