"""docs/format.md and the table of operations in the core list the same operations, fields, choices and tensors."""

import re
from pathlib import Path

import pytest

from bipointnet import _core

PAGE = Path(__file__).parents[1] / "docs" / "format.md"
ROWS = {row["op"]: row for row in _core.operations()}


def names(cell: str) -> list[str]:
    """The words between backquotes."""
    return re.findall(r"`([a-z_]+)`", cell)


def tables() -> list[list[dict[str, str]]]:
    """The tables of the page: one dictionary per row, from the head of each column to its cell."""
    found: list[list[dict[str, str]]] = []
    for block in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


OPERATIONS = {name: row for table in tables() for row in table if "op" in row for name in names(row["op"])}
FIELDS = {
    (operation, field): row["values"]
    for table in tables()
    for row in table
    if "field" in row
    for operation in names(row["of"])
    for field in names(row["field"])
}


def test_the_page_lists_every_operation():
    assert sorted(OPERATIONS) == sorted(ROWS)


@pytest.mark.parametrize("op", ROWS)
def test_an_operation_has_the_same_fields_and_tensors(op):
    row = OPERATIONS[op]
    assert names(row.get("fields", "")) == [field.partition(":")[0] for field in ROWS[op]["fields"]]
    tensors = re.findall(r"`(\w+)` (?:bits|[IF]\d\d)", row.get("tensors", ""))
    assert tensors == [tensor.partition(":")[0] for tensor in ROWS[op]["tensors"]]


@pytest.mark.parametrize("op", ROWS)
def test_a_field_has_the_same_choices(op):
    for field in ROWS[op]["fields"]:
        name, _, values = field.partition(": ")
        choices = re.split(", | or ", values)
        if all(re.fullmatch("[a-z_]+", choice) for choice in choices):
            assert [word for word in names(FIELDS[op, name]) if word in choices] == choices
        else:
            assert (op, name) in FIELDS


def test_the_page_lists_no_other_field():
    assert set(FIELDS) == {(op, field.partition(":")[0]) for op, row in ROWS.items() for field in row["fields"]}
