"""The command segment."""

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    counting_bar,
    empty_table,
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
from bipointnet.cli.eval import print_scores
from bipointnet.errors import UserError
from bipointnet.extras import install_hint

if TYPE_CHECKING:
    from bipointnet.evaluation.predictor import Predictor


def segment(
    files: list[str] | None = typer.Argument(
        None, metavar="FILE", help="Cloud: ply, xyz, npy, pcd, las, ...; scans in meters, z up. Folders for a job."
    ),
    model: Path | None = model_option(default=f" (default: {shipped.DEFAULT_SEGMENTER})"),
    stem: Path | None = typer.Option(
        None, "-o", "--out", help="Name of the files to write, without suffix (default: FILE's name with -labels)."
    ),
    files_from: Path | None = FILES_FROM,
    engine: str | None = ENGINE,
    address: str | None = ADDRESS,
    workers: int | None = WORKERS,
    category: str | None = typer.Option(
        None, "--category", help="Category of the object, if the network has a category input."
    ),
    truth: Path | None = typer.Option(
        None, "--truth", help="True labels to compare with: .npy, text with one per line, or a file such as LAS."
    ),
    up: str | None = typer.Option(
        None, "--up", help="Axis that points up in the file: x, y or z (default: z; models for parts: as in training)."
    ),
    unit: str | None = typer.Option(
        None, "--unit", help="Unit of a scan's coordinates: m, ft or us-ft (default: as in training)."
    ),
    columns: str | None = COLUMNS,
    strict: bool = STRICT,
    as_json: bool = AS_JSON,
) -> None:
    """Label every point of FILE, or of many files.

    Writes a PLY with colors, the labels as NPY, a picture (PNG), and a page that
    shows the cloud in a browser (HTML). If the network was trained on labeled LAS
    files, also a copy of FILE with the labels as its classification.

    Without --model, it labels rooms: scans in meters, z up, with colors.

    Several files, folders or patterns make a job: -o is the folder for labeled
    copies of all files, and for results as Parquet. All cores or a Ray cluster
    work on it, and a job that was stopped continues where it was.

    Example: bipointnet segment room.ply --model rooms.bpn
    """
    require_axis(up)
    predictor = open_predictor(model or shipped.locate(Path(shipped.DEFAULT_SEGMENTER)))
    predictor.require_segmenter()
    named = files or []
    if not named and files_from is None:
        raise UserError("no files were named; expected FILE arguments, or a list with --files-from")
    if files_from or engine or address or workers or len(named) != 1 or not Path(named[0]).is_file():
        if len(named) == 1 and not files_from and not Path(named[0]).is_dir() and not glob.has_magic(named[0]):
            Path(named[0]).stat()  # raises OSError if it cannot be found
        if truth is not None or category is not None or up is not None or strict:
            raise UserError("--truth, --category, --up and --strict are for one file; found a job; leave them out")
        if model is None:
            print_default_model(shipped.DEFAULT_SEGMENTER)
        _label_many(predictor, named, files_from, stem, unit, columns, (engine, address, workers), as_json)
        return
    file = Path(named[0])
    from bipointnet.data import clouds
    from bipointnet.data.clouds import LAS
    from bipointnet.data.las_files import require_codes
    from bipointnet.data.scan_facts import training_columns
    from bipointnet.evaluation import from_file, scans
    from bipointnet.evaluation.truth import read_truth
    from bipointnet.viz.write import output_files, write_labeled

    number = predictor.category_index(category)
    facts = predictor.scans
    las = facts is not None and file.suffix.lower() in LAS
    targets = output_files(stem, file, [file, predictor.path, *([truth] if truth else [])], las)
    unit = from_file.unit_of(predictor, file, unit)
    if facts is not None and las:
        require_codes(file, facts.table.written)
    cloud = clouds.read(file, columns=column_names(columns) or training_columns(facts, file), strict=strict)
    for note in clouds.dropped_notes(cloud.dropped, len(cloud.points)):
        warn(f"{file}: {note}")
    true_labels = None if truth is None else read_truth(truth, cloud, file, predictor, number)
    if model is None:
        print_default_model(shipped.DEFAULT_SEGMENTER)
    scan = from_file.upright_in_meters(predictor, cloud, up, unit)
    for sentence in scans.warnings(predictor, scan):
        warn(f"{file}: {sentence}")
    with counting_bar("labeling") as progress:
        labels = from_file.label_cloud(predictor, scan, file, number, progress)
    shown_up = up or predictor.up or "z"
    source = file if las else None
    written = write_labeled(targets, cloud, labels, predictor.classes, file.name, shown_up, predictor.codes, source)
    if not any(path.suffix == ".png" for path in written):
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


def _label_many(
    predictor: "Predictor",
    named: list[str],
    files_from: Path | None,
    folder: Path | None,
    unit: str | None,
    columns: str | None,
    where: tuple[str | None, str | None, int | None],
    as_json: bool,
) -> None:
    """Label many files; where: engine, address and workers."""
    from bipointnet.data.clouds import SUFFIXES
    from bipointnet.data.point_labels import label_files
    from bipointnet.data.scan_files import is_written
    from bipointnet.data.summary import first_names
    from bipointnet.evaluation.inputs import expand, listed_in
    from bipointnet.scale.jobs import label_job

    require_packed(predictor.path)
    if folder is None:
        raise UserError("a job writes more than one labeled file; expected a folder for them; name one with -o")
    inputs = expand(named, SUFFIXES) + (listed_in(files_from, SUFFIXES) if files_from else [])
    files = [Path(each.name) for each in inputs]
    stems = {file.with_suffix("") for file in files}
    written = {file for file in files if is_written(file, stems)}
    labels = label_files(files) - written
    for left_out, what in ((written, "labels that `segment` wrote"), (labels, "files with the labels of others")):
        if left_out:
            warn(f"{what} are left out: {first_names(sorted(map(str, left_out)))}")
    inputs = [each for each, file in zip(inputs, files, strict=True) if file not in written | labels]
    root = named[0] if len(named) == 1 and os.path.isdir(named[0]) else None
    options = {"root": root, "unit": unit, "columns": column_names(columns)}
    engine, address, workers = where
    job = label_job(predictor.path, folder, options, engine=engine or "local", address=address, workers=workers)
    run_job(job, inputs, as_json)
