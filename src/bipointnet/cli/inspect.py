"""The command inspect."""

from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from bipointnet import shipped
from bipointnet.cli.common import (
    AS_JSON,
    COLUMNS,
    STRICT,
    column_names,
    empty_table,
    locate_model,
    out,
    plain,
    print_json,
    print_line,
)
from bipointnet.errors import UserError
from bipointnet.evaluation.model_file import identify
from bipointnet.runtime.header import peek


def inspect(
    file: Path = typer.Argument(
        metavar="FILE",
        readable=False,
        callback=locate_model,
        help="Model (packed, shipped, run folder or checkpoint), or cloud or mesh.",
    ),
    columns: str | None = COLUMNS,
    strict: bool = STRICT,
    as_json: bool = AS_JSON,
) -> None:
    """Show what a model, or a cloud file, consists of.

    Of a model: its operations or layers with bits, bytes and multiply-adds, and
    how it was trained. Of a cloud: format, columns, extent, spacing of points,
    and a guess at unit and up axis.

    Example: bipointnet inspect scan.ply
    """
    if not file.exists():
        raise UserError(
            f"{file}: does not exist; expected a packed model, a run folder, a checkpoint or a cloud file"
            f"{shipped.hint(file)}"
        )
    from bipointnet.data.clouds import SUFFIXES

    if file.suffix.lower() in SUFFIXES and file.is_file() and peek(file) is None:
        _inspect_cloud(file, column_names(columns), strict, as_json)
    else:
        _inspect_model(file, as_json)


def _inspect_cloud(file: Path, columns: tuple[str, ...], strict: bool, as_json: bool) -> None:
    from bipointnet.data.cloud_facts import inspect_cloud

    facts = inspect_cloud(file, columns=columns, strict=strict)
    if as_json:
        print_json({"file": str(file), **facts})
        return
    faces = f", {facts['faces']:,} triangles" if facts["faces"] else ""
    print_line(plain(f"{file.name}: {facts['format']}, {_points(facts['points'])}{faces}"))
    table = empty_table("", {"column": "left", "least": "right", "largest": "right"})
    for name, ends in facts["ranges"].items():
        table.add_row(plain(name), *(["no number"] * 2 if ends is None else [f"{end:.9g}" for end in ends]))
    out.print(table)
    scale = {None: "none", 1: "from 0 to 1", 255: "from 0 to 255", 65535: "from 0 to 65535"}
    print_line(f"Colors: {scale[facts['color_scale']]}")
    print_line("Extent: " + " x ".join(f"{size:.4g}" for size in facts["extent"]) + _unit(facts["unit"]))
    if facts["spacing"] is not None:
        print_line(f"Spacing: {facts['spacing']:.4g} (median distance to the nearest point)")
    print_line(f"Up axis: {facts['up']['value'] or 'not known'} ({facts['up']['reason']})")
    if facts["dropped"]:
        print_line(f"Left out: {_points(facts['dropped'])} without finite coordinates")
    for note in facts["notes"]:
        print_line(plain(f"Note: {note}"))
    print_line(f"Use: {facts['use']}")


def _points(count: int) -> str:
    return f"{count:,} point{'' if count == 1 else 's'}"


def _unit(guess: dict[str, Any]) -> str:
    if guess["value"] is None:
        return f" (unit not known: {guess['reason']})"
    sure = "" if guess["certain"] else "a guess: "
    return f" ({sure}{guess['value']}, as {guess['reason']})"


def _inspect_model(model: Path, as_json: bool) -> None:
    identify(model)
    from bipointnet.evaluation import inspection

    facts = inspection.inspect_model(model)
    if as_json:
        print_json(facts)
        return
    packed = "operations" in facts
    out.print(_operations(model.name, facts) if packed else _layers(model.name, facts))
    if packed:
        size = f"{facts['bytes']['file']:,} bytes, {facts['bytes']['header']:,} of these in the header."
    else:
        size = (
            f"{facts['parameters']:,} parameters, {facts['scales']:,} scaling factors; {facts['bytes']['deployed']:,} "
            "bytes once BatchNorm is folded and bits are packed."
        )
    counts = facts["multiply_adds"]
    total, distances = counts["one_bit"] + counts["float"], counts.get("distances", 0)
    out.print(
        f"{size} A cloud of {counts['points']} points takes {total:,} multiply-adds, "
        f"{100 * counts['one_bit'] / total:.1f} % of these with 1 bit"
        f"{f', and {distances:,} for distances between points' if distances else ''}."
    )
    out.print(f"{len(facts['classes'])} classes: {plain(', '.join(facts['classes']))}")
    known = {name: value for name, value in facts["training"].items() if not isinstance(value, dict | None)}
    training = ", ".join(f"{name} {_short(value)}" for name, value in known.items())
    out.print(f"Training: {plain(training) or 'not recorded in the file'}")
    epoch, epochs = (facts["training"].get(name) for name in ("epoch", "epochs"))
    if isinstance(epoch, int) and isinstance(epochs, int) and epoch < epochs:
        print_line(f"Unfinished: trained for {epoch} of {epochs} epochs")


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _operations(title: str, facts: dict[str, Any]) -> Table:
    points = facts["multiply_adds"]["points"]
    left, right = ("operation", "name", "elements"), ("in", "out", "bytes", "cost")
    columns = dict.fromkeys(left, "left") | dict.fromkeys(right, "right") | {"weights": "left"}
    table = empty_table(f"{plain(title)}, for a cloud of {points:,} points", columns)
    for o in facts["operations"]:
        details = [str(o[key]) for key in ("function", "pool", "over", "activation", "order") if key in o]
        operation = " ".join([o["op"], *(detail for detail in details if detail not in ("none", "points"))])
        elements = o["domain"] if o["elements"] == 1 else f"{o['domain']}: {o['elements']:,}"
        size = f"{o['bytes']:,}" if o["bytes"] else ""
        share = f"{100 * o['share']:.1f} %" if o["share"] >= 0.0005 else ""
        weights = o["weights"] or ""
        channels = str(o["inputs"] or ""), str(o["outputs"])
        table.add_row(operation, plain(o["results"][0]), elements, *channels, size, share, weights)
    return table


def _layers(title: str, facts: dict[str, Any]) -> Table:
    right = dict.fromkeys(("parameters", "scales", "multiply-adds"), "right")
    table = empty_table(plain(title), {"layer": "left", "kind": "left", "shape": "left"} | right)
    for layer in facts["layers"]:
        scales = f"{layer['scales']:,}" if layer["kind"] == "1 bit" else ""
        products = f"{layer['multiply_adds']:,}" if layer["multiply_adds"] else ""
        table.add_row(layer["layer"], layer["kind"], layer["shape"], f"{layer['parameters']:,}", scales, products)
    return table
