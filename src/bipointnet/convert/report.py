"""The report of `binarize`."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from bipointnet.errors import UserError
from bipointnet.nn.linear import BinaryLinear


def bits(module: nn.Module, counted: set[Tensor]) -> int:
    """Bits of the module's own parameters: 1 per weight of a bi-linear layer, the full width for all others.

    Parameters in `counted` are skipped, and the others are added to it: modules may share parameters.
    """
    own = {name: p for name, p in module.named_parameters(recurse=False) if p not in counted}
    counted.update(own.values())
    binary = isinstance(module, BinaryLinear)
    return sum(p.numel() * (1 if binary and name == "weight" else 8 * p.element_size()) for name, p in own.items())


@dataclass(frozen=True)
class Row:
    """One row of a Report: a layer, activation, pool or dropout, or the remaining parameters, such as BatchNorm's.

    name: the module; for a function, the calling module and the function. was, now: before and after the conversion.
    why: why it did not change, or what else changed. bits_before, bits_after: of its parameters.

    Examples:
        >>> network = binarize(PointNet(num_classes=40))
        >>> [row.now for row in network.report if row.kind == "pool"]
        ['EntropyMax', 'EntropyMax', 'EntropyMax']
    """

    name: str
    kind: str
    was: str
    now: str
    why: str = ""
    bits_before: int = 0
    bits_after: int = 0


@dataclass(frozen=True)
class Report:
    """The attribute `report` of a binarized network: rows in execution order, notes, and warnings.

    notes: on code that could not be inspected. warnings: findings on the example that may be faults.

    Examples:
        >>> network = binarize(PointNet(num_classes=40, tnets=False))
        >>> network.report.binarized
        ['points.0.0', 'pooled.linear', 'head.0.0', 'head.1.0']
        >>> network.report.kept
        {'first.0': "first: reads the network's input", 'last': 'last: no other layer reads it'}
        >>> print(str(network.report).splitlines()[-1])  # print(network.report) shows every row
        4 of 6 layers in 1 bit; 25,953,536 bits before, 1,258,880 after (20.6 times fewer)
    """

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def binarized(self) -> list[str]:
        """Names of the layers that became 1-bit."""
        return [row.name for row in self.rows if row.kind == "layer" and row.now.startswith("Binary")]

    @property
    def kept(self) -> dict[str, str]:
        """Names of the layers that stayed float, and why."""
        return {row.name: row.why for row in self.rows if row.kind == "layer" and not row.now.startswith("Binary")}

    @property
    def bits_before(self) -> int:
        return sum(row.bits_before for row in self.rows)

    @property
    def bits_after(self) -> int:
        return sum(row.bits_after for row in self.rows)

    def __str__(self) -> str:
        table = [("", "was", "is", "bits before", "after", "")]
        for row in self.rows:
            before, after = (f"{n:,}" if row.bits_before else "" for n in (row.bits_before, row.bits_after))
            table.append((row.name, row.was, row.now, before, after, row.why))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        form = "  ".join(f"{{:{side}{width}}}" for side, width in zip("<<<>><", widths, strict=True))
        lines = [form.format(*cells).rstrip() for cells in table]
        layers = len(self.binarized) + len(self.kept)
        ratio = self.bits_before / max(self.bits_after, 1)
        total = f"{len(self.binarized)} of {layers} layers in 1 bit; {self.bits_before:,} bits before, "
        total = f"{total}{self.bits_after:,} after ({ratio:.1f} times fewer)"
        return "\n".join([*lines, total, *self.notes, *(f"warning: {warning}" for warning in self.warnings)])


def report_of(network: nn.Module) -> Report:
    """`network.report`, with its type: nn.Module hides the types of attributes from type checkers.

    Examples:
        >>> report_of(binarize(PointNet(num_classes=40, tnets=False))).binarized
        ['points.0.0', 'pooled.linear', 'head.0.0', 'head.1.0']
    """
    report = getattr(network, "report", None)
    if not isinstance(report, Report):
        raise UserError(f"report_of: {type(network).__name__} has no report, expected a network made by binarize")
    return report
