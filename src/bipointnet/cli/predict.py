"""The command predict."""

from pathlib import Path

import typer

from bipointnet.cli.common import (
    AS_JSON,
    COLUMNS,
    MODEL_OPTION,
    STRICT,
    column_names,
    counting_bar,
    open_predictor,
    plain,
    print_json,
    print_line,
    print_note,
    require_model,
)


def predict(
    files: list[Path] = typer.Argument(
        metavar="FILE", help="Clouds or meshes: ply, off, obj, stl, xyz, npy, pcd, las, ..."
    ),
    model: Path | None = MODEL_OPTION,
    columns: str | None = COLUMNS,
    strict: bool = STRICT,
    as_json: bool = AS_JSON,
) -> None:
    """Classify the cloud in each FILE.

    A cloud with more points than the network was trained with is sampled down
    to that number.

    Example: bipointnet predict scan.ply --model chairs.bpn
    """
    predictor = open_predictor(require_model(model))
    predictor.require_classifier()
    from bipointnet.evaluation.from_file import classify_file, require_coordinates_only

    require_coordinates_only(predictor)
    rows = []
    with counting_bar("predicting") as progress:
        for file in files:
            rows.append(classify_file(predictor, file, columns=column_names(columns), strict=strict))
            print_note(rows[-1].note)
            progress(len(rows), len(files))
    if as_json:
        print_json([row._asdict() for row in rows])
        return
    for row in rows:
        print_line(f"{plain(row.file)}  {plain(row.label)}  {100 * row.probability:.1f} %")
