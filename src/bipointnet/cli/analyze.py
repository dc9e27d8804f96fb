"""The command that shows why it works: analyze."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import typer

from bipointnet.cli.common import (
    AS_JSON,
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


class Studied(NamedTuple):
    """A run: its name here, the facts of its checkpoint, what was found, and for pictures the labels of the clouds
    looked at, all points (P, 3) of the first of them, normalised, and the rows of the run's log."""

    name: str
    facts: dict[str, Any]
    found: Any
    labels: Any
    cloud: Any
    log: list[dict[str, float | None]]


def _need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UserError(
            "pictures need matplotlib, which is not installed; pip install 'bipointnet[train]', or leave out -o"
        ) from error


def _print_theory(survey: dict[str, Any]) -> None:
    right: dict[str, str] = dict.fromkeys(
        ("n", "max", "EMA-max", "EMA-avg", "delta(n)", "Monte-Carlo", "standard error"), "right"
    )
    table = empty_table("Bits left in a binarized pool of n values from N(0, 1), and the shift of EMA-max", right)
    for row in survey["pools"]:
        entropies = (
            f"{row[key]:.2f}" if row[key] >= 0.005 or not row[key] else f"{row[key]:.0e}"
            for key in ("max", "ema_max", "ema_avg")
        )
        shifts = (f"{row[key]:.4f}" for key in ("delta", "monte_carlo", "standard_error"))
        table.add_row(str(row["n"]), *entropies, *shifts)
    out.print(table)
    table = empty_table(
        "delta for n, used on another number of elements", {"elements / n": "right", "bits lost": "right"}
    )
    for row in survey["wrong_n"]:
        table.add_row(f"{row['ratio']:.3g}", f"{row['bits_lost']:.3f}")
    out.print(table)
    right = dict.fromkeys(("inputs", "scale, exact", "scale, simulated", "away from N(0, inputs)"), "right")
    table = empty_table("Product of random signs (Theorem 2)", right)
    for row in survey["products"]:
        figures = (f"{row[key]:.2f}" for key in ("deviation", "simulated_deviation"))
        table.add_row(str(row["inputs"]), *figures, f"{100 * row['normal_gap']:.2f} %")
    out.print(table)


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


def _check_run(run: Path) -> None:
    if not run.is_dir() and is_packed(run):
        raise UserError(
            f"{run}: a packed model, which has lost its floats and gradients; expected the run it was exported from"
        )


def _log_of(run: Path) -> list[dict[str, float | None]]:
    """The rows of the run's metrics.csv; none where it is not there."""
    path = (run if run.is_dir() else run.parent) / "metrics.csv"
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [{key: float(value) if value else None for key, value in row.items()} for row in csv.DictReader(file)]


def _study(runs: list[Path], data: str | None, count: int) -> list[Studied]:
    """Every run on clouds of its test split."""
    need_torch()
    from bipointnet.analysis import study as analysis
    from bipointnet.data import open_dataset
    from bipointnet.data.normalize import normalize
    from bipointnet.evaluation.probe import bilinear_layers, evenly_spaced
    from bipointnet.models import checkpoint
    from bipointnet.nn import set_progress

    for run in runs:
        _check_run(run)
    loaded = [checkpoint.load_model(run) for run in runs]
    for run, (_, facts) in zip(runs, loaded, strict=True):
        if facts["config"].get("task", "classify") != "classify":
            raise UserError(
                f"{run}: labels points; expected a run that classifies clouds, all that analyze studies yet"
            )
    if not any(bilinear_layers(network) for network, _ in loaded):
        raise UserError(
            f"{runs[0]}: a float network, without bits to count or scales to recover; expected a run of a 1-bit method "
            "(next to one, a float run is compared by what it has: accuracy and T-Nets)"
        )
    names = [run.name if run.is_dir() else f"{run.resolve().parent.name}/{run.name}" for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    opened: dict[tuple[str, int], Any] = {}
    studied = []
    for run, name, (network, facts) in zip(runs, names, loaded, strict=True):
        source, points = data or facts["data"], facts["config"]["points"]
        if data is None and source != "shapes":
            raise UserError(f"{run}: trained on {source}, whose folder is not known here; name it with --data")
        if (source, points) not in opened:
            opened[source, points] = open_dataset(source, points)
        clouds = opened[source, points]
        require_same_classes(source, clouds.classes, run, facts["classes"], facts["data"])
        if clouds.channels != facts["channels"]:
            raise UserError(f"{source}: {clouds.channels} numbers a point; expected the {facts['channels']} of {run}")
        set_progress(network, max(facts["epoch"] - 1, 0) / facts["config"]["epochs"])  # slopes as in its last epoch
        few = evenly_spaced(count, len(clouds.test))
        shown, labels = clouds.test.points[few], clouds.test.labels[few]
        with counting_bar(f"looking into {name}") as watch:
            found = analysis.study(network, shown, labels, points, watch)
        cloud = normalize(shown[0])[:, :3]
        studied.append(Studied(name, facts, found, labels, cloud, _log_of(run)))
    return studied


def _as_json(run: Studied) -> dict[str, Any]:
    config, found = run.facts["config"], run.found
    return {
        "run": run.name,
        "dataset": run.facts["data"],
        "epoch": run.facts["epoch"],
        **{key: config[key] for key in ("model", "method", "pool", "norm", "points", "seed")},
        "clouds": found.clouds,
        "accuracy": found.accuracy,
        "entropy": float(found.entropy.mean()) if found.layers else None,
        "constant_channels": int((found.entropy == 0).sum()) if found.layers else None,
        "channels": len(found.entropy),
        "zero_gradient": found.zero_gradient,
        "regularizer": found.regularizer,
        "transforms": [
            {"name": t.name, "size": t.size, "regularizer": t.regularizer, "spectral_norm": t.spectral_norm}
            for t in found.transforms
        ],
        "layers": [layer._asdict() for layer in found.layers],
    }


def _print_studies(studied: list[Studied]) -> None:
    sides = {"run": "left", "network": "left"} | dict.fromkeys(
        ("accuracy", "entropy", "constant channels", "stopped", "T-Net regulariser"), "right"
    )
    table = empty_table(f"Test clouds: {studied[0].found.clouds} of each run's data", sides)
    for run in studied:
        row, config = _as_json(run), run.facts["config"]
        network = f"{config['model']} {config['method']} {config['pool']}{'' if config['norm'] else ', no BatchNorm'}"
        table.add_row(
            plain(run.name),
            network,
            f"{row['accuracy']:.1f} %",
            "-" if row["entropy"] is None else f"{row['entropy']:.2f} bits",
            "-" if row["entropy"] is None else f"{row['constant_channels']} of {row['channels']}",
            "-" if row["zero_gradient"] is None else f"{row['zero_gradient']:.0f} %",
            "-" if row["regularizer"] is None else f"{row['regularizer']:.3g}",
        )
    out.print(table)
    for run in studied:
        right = dict.fromkeys(("scale", "floats", "stopped", "codes", "2x: logits", "turn"), "right")
        table = empty_table(plain(run.name), {"layer": "left"} | right)
        table.columns[0].overflow = "fold"
        for layer in run.found.layers:
            table.add_row(
                layer.name,
                f"{layer.scale:.3g}",
                f"{layer.float_scale:.3g}",
                f"{layer.zero_gradient:.0f} %",
                f"{layer.codes:.0f} of {layer.rows}",
                f"{layer.logits_moved:.1f} %",
                f"{layer.gradient_turned:.1f}°",
            )
        if run.found.layers:
            out.print(table)
        for t in run.found.transforms:
            out.print(
                f"{plain(run.name)}: {t.name} stretches by {t.spectral_norm:.3g}, regulariser {t.regularizer:.3g}",
                highlight=False,
            )
    out.print(
        "scale: standard deviation of the output; floats: of the same product in floats. stopped: inputs that pass no "
        "gradient back. codes: different rows of signs in a cloud, or among the clouds. 2x: what twice the output does "
        "to the logits, and by how much it turns the layer's gradient; nothing where BatchNorm follows.",
        style="dim",
        highlight=False,
    )


def _draw_studies(studied: list[Studied], folder: Path) -> None:
    import numpy as np

    from bipointnet.analysis import figures

    one_bit = [run for run in studied if run.found.layers]
    bits = {r.name: (r.found.pooled[np.argsort(r.labels, kind="stable")], r.found.entropy) for r in one_bit}
    figures.pooled_picture(folder / "pooled.png", bits)
    figures.scale_picture(folder / "scale.png", {run.name: run.found.layers for run in one_bit})
    turned = {run.name: t.matrices[0] for run in studied for t in run.found.transforms if t.size == 3}
    if turned:
        figures.transform_picture(folder / "transform.png", studied[0].cloud, turned)
    logs = {run.name: run.log for run in studied if any(row.get("test_oa") is not None for row in run.log)}
    if logs:
        figures.training_picture(folder / "training.png", logs)


@app.command()
def analyze(
    runs: list[Path] | None = typer.Argument(None, metavar="RUN", help="Run folders or checkpoints; none: the theory."),
    data: str | None = typer.Option(None, "--data", help="shapes, or a folder (default: shapes, if trained on it)."),
    folder: Path | None = typer.Option(None, "-o", "--out", help="Draw pictures into this folder."),
    count: int = typer.Option(256, "--clouds", min=2, help="Test clouds to look at, evenly spread over the split."),
    as_json: bool = AS_JSON,
) -> None:
    """Show the theory in figures or, of trained runs, what becomes of entropy, scale and gradients in their layers."""
    if folder is not None:
        _need_matplotlib()
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: a file where a folder for pictures is expected; choose another place with -o")
    if not runs:
        if data is not None:
            raise UserError(f"--data {data} is given without a run to analyse on it; name runs, or leave out --data")
        _explain_theory(folder, as_json)
    else:
        studied = _study(runs, data, count)
        if folder is not None:
            with err.status("drawing"):
                _draw_studies(studied, folder)
        if as_json:
            print_json([_as_json(run) for run in studied])
        else:
            _print_studies(studied)
    if folder is not None and not as_json:
        out.print(f"Pictures: {plain(folder)}/", highlight=False)
