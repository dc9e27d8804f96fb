"""What a packed file costs: bytes, multiply-adds, and a rough time.

The time is a model, not a measurement (`bipointnet bench` measures): one core does about 600 multiply-adds of bits, 8
of floats, and 2 distances between points per nanosecond; reading and writing a float takes a quarter of a nanosecond.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.packing.graph import Domain, Node
from bipointnet.packing.program import Program

POINTS = 1024
BITS_PER_NS, FLOATS_PER_NS, DISTANCES_PER_NS, NS_PER_NUMBER = 600.0, 8.0, 2.0, 0.25
SHOWN = 8  # operations in a table


@dataclass(frozen=True)
class Operation:
    """One operation for a cloud of 1024 points. bits, floats: multiply-adds. distances: between points."""

    name: str
    op: str
    bits: int
    floats: int
    distances: int
    numbers: int

    @property
    def microseconds(self) -> float:
        time = self.bits / BITS_PER_NS + self.floats / FLOATS_PER_NS + self.distances / DISTANCES_PER_NS
        return (time + self.numbers * NS_PER_NUMBER) / 1000


@dataclass(frozen=True)
class Exported:
    """What `export` wrote. str() is a short table.

    path, bytes: of the file. operations: of the program, with their costs for a cloud of `points` points. output: which
    output of the network the logits are.
    """

    path: Path
    bytes: int
    operations: tuple[Operation, ...]
    output: str = "output"
    points: int = POINTS

    @property
    def bit_multiply_adds(self) -> int:
        return sum(operation.bits for operation in self.operations)

    @property
    def float_multiply_adds(self) -> int:
        return sum(operation.floats for operation in self.operations)

    @property
    def microseconds(self) -> float:
        """An estimate for one core (see packing/cost.py), not a measurement."""
        return sum(operation.microseconds for operation in self.operations)

    def __str__(self) -> str:
        costly = sorted(self.operations, key=lambda operation: -operation.microseconds)[:SHOWN]
        width = max(len(operation.name) for operation in costly)
        lines = [
            f"{self.path}: {self.bytes:,} bytes, {len(self.operations)} operations",
            f"for {self.points} points: {self.bit_multiply_adds:,} multiply-adds of bits, "
            f"{self.float_multiply_adds:,} of floats, about {self.microseconds:,.0f} us on one core "
            "(an estimate; `bipointnet bench` measures)",
            *(f"  {one.name:<{width}}  {one.op:<14} {one.microseconds:10,.1f} us" for one in costly),
        ]
        return "\n".join(lines)


def size_within(domain: Domain, points: int) -> int:
    """The number of points of a set, or of neighbors in each of its groups, for a cloud."""
    if domain.search is None:
        return points
    source = domain.search.inputs[0 if domain.search.op == "farthest" else 1].domain
    return domain.search.fields["count"](elements(source, points))


def elements(domain: Domain, points: int) -> int:
    """The number of elements of a domain for a cloud."""
    if domain.kind == "cloud":
        return 1
    size = size_within(domain, points)
    return size if domain.kind == "set" else size * elements(domain.parent, points)  # pyright: ignore


def measured(path: Path, size: int, program: Program, output: str) -> Exported:
    """The cost of a program."""
    rows = [_operation(op, program.meaning.get(op["out"][0], (None, None))[0], program.tensors) for op in program.ops]
    return Exported(path, size, tuple(rows), output)


def _operation(op: dict, node: Node | None, tensors: dict[str, np.ndarray]) -> Operation:
    name, bits, floats, distances, numbers = op["out"][0], 0, 0, 0, 0
    if node is not None:
        inner = node if op["op"] not in ("bilinear_pool", "pool", "outer") else _pooled(node, op["op"])
        count = elements(inner.domain, POINTS)
        if op["op"].startswith("bilinear"):
            layer = _layer(node)
            bits = count * op["outputs"] * layer.fields["module"].in_features if layer else 0
        elif op["op"] == "dense":
            floats = count * tensors[f"{name}.weight"].size
        elif op["op"] in ("transform", "mix", "outer"):
            width = {"transform": node.inputs[0].channels, "outer": 1}.get(op["op"], 0) or _slots(node)
            floats = count * node.channels * width
        elif op["op"] in ("nearest", "ball", "interpolate"):
            centers, points = (elements(x.domain, POINTS) for x in node.inputs[:2])
            distances = centers * points * max(1, node.inputs[0].channels // 8)
        elif op["op"] in ("farthest", "density"):
            distances = elements(node.domain, POINTS) * elements(node.inputs[0].domain, POINTS)
        else:
            numbers = count * node.channels // (1 if program_floats(op) else 32)
    return Operation(name, op["op"], bits, floats, distances, numbers)


def program_floats(op: dict) -> bool:
    """Whether an operation moves floats; bits are 32 times smaller."""
    return not op["out"][0].endswith(".bits")


def _pooled(node: Node, op: str) -> Node:
    if op == "outer":
        return node.inputs[0]
    while node.op != "pool" and node.inputs:
        node = node.inputs[0]
    return node.inputs[0] if node.inputs else node


def _layer(node: Node) -> Node | None:
    while node.op != "layer" and node.inputs:
        node = node.inputs[0]
    return node if node.op == "layer" else None


def _slots(node: Node) -> int:
    search = node.domain.search
    return 1 if search is None else search.fields["count"].most
