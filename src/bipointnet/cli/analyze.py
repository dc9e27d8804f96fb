"""The command analyze."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bipointnet.cli.common import AS_JSON, SKIP_BAD, counting_bar, empty_table, err, out, plain, print_json, print_line
from bipointnet.errors import UserError
from bipointnet.evaluation.model_file import identify
from bipointnet.extras import require

if TYPE_CHECKING:
    from bipointnet.analysis.runs import StudiedRun


def analyze(
    runs: list[Path] | None = typer.Argument(None, metavar="RUN", help="Run folders or checkpoints."),
    data: str | None = typer.Option(
        None, "--data", help="shapes, or a folder (default: what each run was trained on)."
    ),
    folder: Path | None = typer.Option(None, "-o", "--out", help="Draw pictures into this folder."),
    count: int = typer.Option(256, "--clouds", min=2, help="Test clouds to study, evenly spaced over the split."),
    skip_bad: bool = SKIP_BAD,
    as_json: bool = AS_JSON,
) -> None:
    """Measure entropy, scales and gradients in the layers of trained networks.

    Without a run, print the theory in numbers.

    Example: bipointnet analyze runs/lsr runs/bnn -o pictures
    """
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: a file; expected a folder for pictures; choose another place with -o")
        require("drawing pictures (-o)", "matplotlib")
    if runs:
        _analyze_runs(runs, data, count, folder, skip_bad, as_json)
    elif data is not None:
        raise UserError(f"--data {data} is given without a run to study on it; name runs, or leave --data out")
    else:
        _explain_theory(folder, as_json)
    if folder is not None and not as_json:
        print_line(f"Pictures: {plain(folder)}/")


def _analyze_runs(
    runs: list[Path], data: str | None, count: int, folder: Path | None, skip_bad: bool, as_json: bool
) -> None:
    for run in runs:
        identify(run)
    from bipointnet.analysis.runs import study_runs

    studied = study_runs(runs, data, count, lambda name: counting_bar(f"studying {plain(name)}"), skip_bad)
    if folder is not None:
        with err.status("drawing"):
            _draw_studies(studied, folder)
    if as_json:
        print_json([run.as_json() for run in studied])
    else:
        _print_studies(studied)


def _print_studies(studied: "list[StudiedRun]") -> None:
    sides = {"run": "left", "network": "left"} | dict.fromkeys(
        ("accuracy", "entropy", "constant channels", "no grad", "T-Net regularizer"), "right"
    )
    table = empty_table(f"{studied[0].study.clouds} test clouds of each run's data", sides)
    for run in studied:
        row = run.as_json()
        table.add_row(
            plain(run.name),
            run.network,
            f"{row['accuracy']:.1f} %",
            "-" if row["entropy"] is None else f"{row['entropy']:.2f} bits",
            "-" if row["entropy"] is None else f"{row['constant_channels']} of {row['channels']}",
            "-" if row["zero_gradient"] is None else f"{row['zero_gradient']:.0f} %",
            "-" if row["regularizer"] is None else f"{row['regularizer']:.3g}",
        )
    out.print(table)
    for run in studied:
        if run.study.layers:
            _print_layers(run)
        for t in run.study.transforms:
            print_line(
                f"{plain(run.name)}: {t.name} has spectral norm {t.spectral_norm:.3g}, regularizer {t.regularizer:.3g}"
            )
    out.print(
        "scale: standard deviation of the output; floats: of the same product with float inputs and weights. "
        "no grad: inputs that pass no gradient back. codes: distinct rows of signs per cloud, or among all clouds if "
        "a cloud has one row. entropy: of the bits that the layer reads, in bits per channel. "
        "2x: the output is doubled; how far the logits move, and how far the gradient of the "
        "layer's weights turns (not at all where BatchNorm follows).",
        style="dim",
        highlight=False,
    )


def _print_layers(run: "StudiedRun") -> None:
    right = dict.fromkeys(("scale", "floats", "no grad", "codes", "entropy", "2x: logits", "turn"), "right")
    table = empty_table(plain(run.name), {"layer": "left"} | right)
    table.columns[0].overflow = "fold"
    for layer in run.study.layers:
        table.add_row(
            layer.name,
            f"{layer.scale:.3g}",
            f"{layer.float_scale:.3g}",
            f"{layer.zero_gradient:.0f} %",
            f"{layer.codes:.0f} of {layer.rows}",
            f"{layer.entropy:.2f}",
            f"{layer.logits_moved:.1f} %",
            f"{layer.gradient_turned:.1f}°",
        )
    out.print(table)


def _draw_studies(studied: "list[StudiedRun]", folder: Path) -> None:
    import numpy as np

    from bipointnet.analysis import figures

    one_bit = [run for run in studied if run.study.layers]
    bits = {r.name: (r.study.pooled[np.argsort(r.labels, kind="stable")], r.study.entropy) for r in one_bit}
    figures.pooled_picture(folder / "pooled.png", bits)
    figures.scale_picture(folder / "scale.png", {run.name: run.study.layers for run in one_bit})
    turned = {run.name: t.matrices[0] for run in studied for t in run.study.transforms if t.size == 3}
    if turned:
        figures.transform_picture(folder / "transform.png", studied[0].cloud, turned)
    logs = {run.name: run.log for run in studied if any(row.get("test_oa") is not None for row in run.log)}
    if logs:
        figures.training_picture(folder / "training.png", logs)


def _explain_theory(folder: Path | None, as_json: bool) -> None:
    from bipointnet.analysis import theory

    with err.status("simulating"):
        survey = theory.survey()
        if folder is not None:
            from bipointnet.analysis import figures

            figures.pooling_picture(folder / "pooling.png")
            figures.theory_picture(folder / "theory.png", survey)
    if as_json:
        print_json(survey)
    else:
        _print_theory(survey)


def _print_theory(survey: dict[str, Any]) -> None:
    right: dict[str, str] = dict.fromkeys(
        ("n", "max", "EMA-max", "EMA-avg", "delta(n)", "Monte Carlo", "standard error"), "right"
    )
    table = empty_table("Entropy in bits of a binarized pool of n values from N(0, 1), and the shift of EMA-max", right)
    for row in survey["pools"]:
        entropies = (
            f"{row[key]:.2f}" if row[key] >= 0.005 or not row[key] else f"{row[key]:.0e}"
            for key in ("max", "ema_max", "ema_avg")
        )
        shifts = (f"{row[key]:.4f}" for key in ("delta", "monte_carlo", "standard_error"))
        table.add_row(str(row["n"]), *entropies, *shifts)
    out.print(table)
    table = empty_table(
        "delta(n) applied to a different number of elements", {"elements / n": "right", "bits lost": "right"}
    )
    for row in survey["wrong_n"]:
        table.add_row(f"{row['ratio']:.3g}", f"{row['bits_lost']:.3f}")
    out.print(table)
    right = dict.fromkeys(("inputs", "scale, exact", "scale, simulated", "distance from N(0, inputs)"), "right")
    table = empty_table("Product of random signs (Theorem 2)", right)
    for row in survey["products"]:
        figures = (f"{row[key]:.2f}" for key in ("deviation", "simulated_deviation"))
        table.add_row(str(row["inputs"]), *figures, f"{100 * row['normal_gap']:.2f} %")
    out.print(table)
