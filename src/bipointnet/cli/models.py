"""The command models."""

from typing import Any

import typer

from bipointnet import shipped
from bipointnet.cli.common import AS_JSON, empty_table, out, plain, print_json, print_line


def models(
    name: str | None = typer.Argument(None, metavar="[NAME]", help="Print the card of this model."),
    as_json: bool = AS_JSON,
) -> None:
    """List the models that come with the package, or print the card of one.

    Every command that reads a packed model accepts these names.

    Example: bipointnet models pointnet-vanilla-modelnet40
    """
    cards = [shipped.card(each) for each in ([name] if name else shipped.names())]
    if as_json:
        print_json(cards[0] if name else cards)
    elif name:
        _print_card(cards[0])
    else:
        _print_list(cards)


def _print_list(cards: list[dict[str, Any]]) -> None:
    columns = {"name": "left", "task": "left", "classes": "right", "bytes": "right", "accuracy": "right"}
    table = empty_table("Shipped models", columns | {"trained on": "left"})
    for card in cards:
        accuracy = f"{card['accuracy']['file']:.2f} %" + ("" if card["task"] == "classify" else " mIoU")
        figures = f"{card['classes']}", f"{card['bytes']:,}", accuracy
        table.add_row(plain(card["name"]), card["task"], *figures, plain(card["trained_on"]))
    out.print(table)


def _print_card(card: dict[str, Any]) -> None:
    accuracy, latency = card["accuracy"], card["latency"]
    lines = {
        card["name"]: card["title"],
        "Task": f"{card['task']}, {card['classes']} classes",
        "Size": f"{card['bytes']:,} bytes",
        "Time": f"{latency['microseconds']} us for {latency['points']} points ({latency['machine']})",
        "Data": card["data"],
        "License": card["license"],
        "Points per cloud in training": card["points"],
        "Up axis": card["up"],
        "Recipe": card["recipe"],
        "Accuracy": f"{accuracy['file']:.2f} % ({accuracy['metric']} of this file, {accuracy['test_clouds']:,} clouds)",
    }
    for label, text in lines.items():
        print_line(plain(f"{label}: {text}"))
    for each in accuracy["trainings"]:
        print_line(plain(f"Last epoch: {each['last_epoch']:.2f} % (seed {each['seed']}; {each['note']})"))
    for note in card["notes"]:
        print_line(plain(f"Note: {note}"))
    table = empty_table("", {"test clouds": "left", accuracy["metric"]: "right"})
    table.add_row("as they are", f"{accuracy['file']:.2f} %")
    for limit in card["limits"]:
        table.add_row(plain(limit["clouds"]), f"{limit['accuracy']:.2f} %")
    out.print(table)
