"""The command verify."""

from pathlib import Path
from typing import Any

import typer

from bipointnet.cli.common import AS_JSON, PACKED, counting_bar, plain, print_json, print_line, require_packed
from bipointnet.errors import UserError
from bipointnet.evaluation.model_file import identify
from bipointnet.extras import import_whole, require


def verify(
    path: Path = PACKED,
    run: Path | None = typer.Option(None, "--run", help="Run it was exported from: compare with PyTorch too."),
    data: str | None = typer.Option(None, "--data", help="Compare on test clouds too: shapes, rooms, or a folder."),
    as_json: bool = AS_JSON,
) -> None:
    """Check that a packed model computes what it should, bit by bit.

    Compares every instruction set of this machine, an independent implementation
    in NumPy and, with --run, PyTorch. The exit code is 1 if a check fails.
    """
    require_packed(path)
    from bipointnet.runtime import model as runtime
    from bipointnet.runtime.verify import verify as compare

    model = runtime.load(path)
    if run is not None:
        if identify(run).packed:
            raise UserError(f"{run}: a packed model; expected the run folder that {path} was exported from")
        require("--run", "torch", "safetensors")
    clouds = None
    if data is not None:
        from bipointnet.data import open_dataset
        from bipointnet.evaluation.predictor import open_model

        scans = open_model(path).scan_options(model.points)
        clouds = open_dataset(data, model.points, scans=scans).test.points[:, : model.points]
        if clouds.shape[-1] != model.channels:
            raise UserError(
                f"{data}: {clouds.shape[-1]} channels per point; expected the {model.channels} that {path} reads"
            )
    with counting_bar("verifying") as progress:
        if run is None:
            report = compare(path, data=clouds, progress=progress)
        else:
            import_whole("torch")
            from bipointnet.evaluation.verify_torch import verify_against_run

            report = verify_against_run(path, run, data=clouds, progress=progress)
    if as_json:
        print_json(report)
    else:
        print_verification(report)
    if not report["ok"]:
        raise typer.Exit(1)


def print_verification(report: dict[str, Any]) -> None:
    """What was compared, how many values differ and why that is acceptable, and the verdict."""
    from bipointnet.runtime.verify import count_failures, failures, summary

    print_line(f"Compared on {report['clouds']} clouds:")
    for name, text in summary(report):
        print_line(f"  {name:18}{text}")
    for place in failures(report):
        print_line(f"  [red]wrong:[/] {plain(place)}")
    if report["ok"]:
        print_line("OK: all checks passed")
    else:
        print_line(f"[bold red]FAILED:[/] {count_failures(report):,} values differ that must be equal")
