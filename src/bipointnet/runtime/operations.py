"""The operations of a packed model with their cost, for `inspect` and for the float twin of a benchmark.

The core says what each operation reads, makes and costs; the header of the file says how large its tensors are. The
computation itself is written twice, in the core and in `reference`. docs/format.md defines the operations.
"""

from typing import Any, NamedTuple

from bipointnet.runtime.header import Tensor

WEIGHTS = {"U64": "1 bit", "F16": "float16", "F32": "float32"}
BITS_PER_FLOAT = 64  # 1-bit multiply-adds that take about as long as one of floats
FLOATS_PER_DISTANCE = 4


class Operation(NamedTuple):
    """One operation of a program, with numbers for a cloud of a given size.

    operands, results: names of values; the first result names the operation. inputs, outputs: channels of the first
    operand and of the first result. domain, elements: what it runs over ("cloud", "points", "set 2", "groups 3"; of a
    pool, the elements that it reads), and how many. distances: squares of differences of coordinates. weights: the type
    of its weights, or None. bytes: of its tensors. fields: as written in the manifest.
    """

    op: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    inputs: int
    outputs: int
    domain: str
    elements: int
    float_multiply_adds: int
    bit_multiply_adds: int
    distances: int
    weights: str | None
    bytes: int
    fields: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of its first result."""
        return self.results[0]

    @property
    def cost(self) -> float:
        """An estimate of its time: the weighted multiply-adds of docs/format.md, "Limits"."""
        return self.float_multiply_adds + self.bit_multiply_adds / BITS_PER_FLOAT + self.distances * FLOATS_PER_DISTANCE


def list_operations(
    program: list[dict[str, Any]], manifest: dict[str, Any], tensors: dict[str, Tensor]
) -> list[Operation]:
    """The operations of a model, in order. program: what `_core.Model.program` says."""
    found = []
    for facts, written in zip(program, manifest["program"], strict=True):
        name = facts["out"][0]
        own = {key.rpartition(".")[2]: t for key, t in tensors.items() if key.rpartition(".")[0] == name}
        found.append(
            Operation(
                op=facts["op"],
                operands=tuple(facts["in"]),
                results=tuple(facts["out"]),
                inputs=facts["inputs"],
                outputs=facts["outputs"],
                domain=facts["domain"],
                elements=facts["elements"],
                float_multiply_adds=facts["float_multiply_adds"],
                bit_multiply_adds=facts["bit_multiply_adds"],
                distances=facts["distances"],
                weights=WEIGHTS[own["weight"].dtype] if "weight" in own else None,
                bytes=sum(tensor.bytes for tensor in own.values()),
                fields={key: value for key, value in written.items() if key not in ("op", "in", "out")},
            )
        )
    return found


def float_bytes(operations: list[Operation]) -> int:
    """Bytes of the same layers in float32: weights and one bias per output, 4 bytes each."""
    layers = (o for o in operations if o.weights is not None)
    return sum(4 * o.outputs * (o.inputs // o.fields.get("groups", 1) + 1) for o in layers)
