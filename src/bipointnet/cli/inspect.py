"""The command inspect."""

from pathlib import Path
from typing import Any

from rich.table import Table

from bipointnet.cli.common import AS_JSON, MODEL, empty_table, out, plain, print_json, print_line
from bipointnet.evaluation.model_file import identify


def inspect_model(model: Path = MODEL, as_json: bool = AS_JSON) -> None:
    """Show what a model consists of and how it was trained.

    Lists the operations of a packed model or the layers of a run, with bits,
    bytes and multiply-adds.
    """
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
    training = ", ".join(f"{name} {_short(value)}" for name, value in facts["training"].items() if value is not None)
    out.print(f"Training: {plain(training) or 'not recorded in the file'}")
    epoch, epochs = (facts["training"].get(name) for name in ("epoch", "epochs"))
    if isinstance(epoch, int) and isinstance(epochs, int) and epoch < epochs:
        print_line(f"Unfinished: trained for {epoch} of {epochs} epochs")


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _operations(title: str, facts: dict[str, Any]) -> Table:
    right = dict.fromkeys(("in", "out", "multiply-adds", "bytes"), "right")
    table = empty_table(plain(title), {"#": "right", "operation": "left"} | right | {"weights": "left"})
    for i, o in enumerate(facts["operations"]):
        details = [str(o[key]) for key in ("pool", "activation", "matrix") if o.get(key, "none") != "none"]
        products = f"{o['multiply_adds']:,} per {'point' if o['on_points'] else 'cloud'}" if o["multiply_adds"] else ""
        size = f"{o['bytes']:,}" if o["bytes"] else ""
        name = " ".join([o["op"], *details])
        table.add_row(str(i), name, str(o["inputs"] or ""), str(o["outputs"]), products, size, o["weights"] or "")
    return table


def _layers(title: str, facts: dict[str, Any]) -> Table:
    right = dict.fromkeys(("parameters", "scales", "multiply-adds"), "right")
    table = empty_table(plain(title), {"layer": "left", "kind": "left", "shape": "left"} | right)
    for layer in facts["layers"]:
        scales = f"{layer['scales']:,}" if layer["kind"] == "1 bit" else ""
        products = f"{layer['multiply_adds']:,}" if layer["multiply_adds"] else ""
        table.add_row(layer["layer"], layer["kind"], layer["shape"], f"{layer['parameters']:,}", scales, products)
    return table
