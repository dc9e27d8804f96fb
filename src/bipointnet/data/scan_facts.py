"""What an evaluation must know about the labeled scans that a network was trained on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bipointnet.data.class_tables import ClassTable
from bipointnet.data.clouds import UNNAMED
from bipointnet.errors import UserError


@dataclass(frozen=True)
class ScanFacts:
    """The classes and the split of labeled scans, as a checkpoint and a packed model keep them.

    table: the classes and their codes. labels: the column that holds the labels, or None. columns: the names of the
    columns of text and npy files, which have none. split: "files" or "place". unit: of the coordinates, or None.
    density: points per square meter, the median over cells with points.

    >>> from bipointnet.data.class_tables import numbered_table
    >>> facts = ScanFacts(numbered_table({3, 5}), None, (), "files", None, 12.5)
    >>> ScanFacts.from_json(facts.as_json()) == facts
    True
    """

    table: ClassTable
    labels: str | None
    columns: tuple[str, ...]
    split: str
    unit: str | None
    density: float

    def as_json(self) -> dict[str, Any]:
        return {
            "table": self.table.as_json(),
            "labels": self.labels,
            "columns": list(self.columns),
            "split": self.split,
            "unit": self.unit,
            "density": self.density,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ScanFacts":
        table = ClassTable.from_json(value["table"])
        columns = tuple(value["columns"])
        return cls(table, value["labels"], columns, value["split"], value["unit"], float(value["density"]))


def training_columns(facts: ScanFacts | None, file: Path) -> tuple[str, ...]:
    """The names of the columns of a file that names none: those of the training scans."""
    return facts.columns if facts is not None and file.suffix.lower() in UNNAMED else ()


def recorded_facts(training: Mapping[str, Any], source: str | Path) -> ScanFacts | None:
    """Those among the facts about the training of a network; None if it was trained on other data.

    source: the network's file, for errors.
    """
    facts = training.get("scans")
    try:
        return None if facts is None else ScanFacts.from_json(facts)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{source}: its facts about training scans are damaged ({error}); export it again") from error
