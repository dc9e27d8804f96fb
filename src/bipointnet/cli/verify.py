"""The command verify."""

from pathlib import Path
from typing import Any

import typer

from bipointnet.cli.common import AS_JSON, PACKED, counting_bar, plain, print_json, print_line
from bipointnet.errors import UserError
from bipointnet.evaluation.model_file import identify
from bipointnet.extras import require


def verify(
    path: Path = PACKED,
    run: Path | None = typer.Option(None, "--run", help="Run it was exported from: compare with PyTorch too."),
    data: str | None = typer.Option(None, "--data", help="Compare on test clouds too: shapes, rooms, or a folder."),
    as_json: bool = AS_JSON,
) -> None:
    """Check that a packed model computes what it should, value by value.

    Compares every instruction set of this machine, an independent implementation
    in NumPy and, with --run, PyTorch. The exit code is 1 if a check fails.
    """
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

        clouds = open_dataset(data, model.points).test.points[:, : model.points]
        if clouds.shape[-1] != model.channels:
            raise UserError(
                f"{data}: {clouds.shape[-1]} channels per point; expected the {model.channels} that {path} reads"
            )
    with counting_bar("verifying") as progress:
        report = compare(path, data=clouds, run=run, watch=progress)
    if as_json:
        print_json(report)
    else:
        print_verification(report)
    if not report["ok"]:
        raise typer.Exit(1)


def print_verification(report: dict[str, Any]) -> None:
    """What was compared, how many values differ and why that is acceptable, and the verdict."""
    golden, torch = report["golden"], report["torch"]
    isas = ", ".join(golden["isas"])
    rows = [("golden vector", f"logits within {golden['tolerance']:g} of those in the file, on {isas}")]
    exact = {"NumPy reference": report["oracle"], **report["isas"]}
    rows += [(name, f"{_tally(tally, 'values')} (bit for bit, against portable)") for name, tally in exact.items()]
    if torch:
        rows += [("PyTorch, float64", f"{_tally(torch, 'bits')}{_explained(torch)}")]
        labels = {"labels": torch["labels"], "different": torch["labels_different"]}
        rows += [("", _tally(labels, "labels"))]
    print_line(f"Compared on {report['clouds']} clouds:")
    for name, text in rows:
        print_line(f"  {name:18}{text}")
    for tally in [*exact.values(), *([torch] if torch else [])]:
        for place in tally["places"]:
            print_line(f"  [red]wrong:[/] {plain(place)}")
    if report["ok"]:
        print_line("OK: all checks passed")
    else:
        wrong = sum(tally["different"] for tally in exact.values()) + (torch["unexplained"] if torch else 0)
        print_line(f"[bold red]FAILED:[/] {wrong:,} values differ that must be equal")


def _tally(tally: dict[str, Any], counted: str) -> str:
    total, different = tally[counted], tally["different"]
    return f"{total:,} {counted}, " + (f"{different:,} differ" if different else "all equal")


def _explained(torch: dict[str, Any]) -> str:
    """Why bits may differ: the core sums in float32, so a sum that rounds across its threshold flips a bit."""
    if not torch["different"] or torch["unexplained"]:
        return ""
    others = torch["different"] - torch["near_zero"]
    follow = f"; the other {others:,} follow from these" if others else ""
    return (
        f", as expected: {torch['near_zero']:,} come from sums so close to their threshold that float32 rounding "
        f"decides{follow}"
    )
