"""The operations of a packed model, as `inspect` lists them and the float twin of a benchmark copies them.

It lists for each operation the width of the value before and after it, and its cost. The computation itself is written
twice, in the core and in `reference`. docs/format.md defines the operations.
"""

from typing import Any, NamedTuple

from bipointnet.runtime.header import Tensor

WEIGHTS = {"U64": "1 bit", "F16": "float16", "F32": "float32"}


class Operation(NamedTuple):
    """One operation of a program. Its value has `inputs` channels before and `outputs` channels after it.

    on_points: it computes one value per point, not one per cloud. one_bit: its weights have 1 bit. weights: the type of
    its weights, or None. multiply_adds: per point if `on_points`, else per cloud. bytes: of its tensors.
    pools: it reduces the points to one value per cloud. keeps: bits of its value are kept for a later `join`.
    fields: the operation as written in the manifest.
    """

    op: str
    inputs: int
    outputs: int
    on_points: bool
    one_bit: bool
    weights: str | None
    multiply_adds: int
    bytes: int
    pools: bool
    keeps: bool
    fields: dict[str, Any]

    @property
    def is_layer(self) -> bool:
        """Whether it multiplies by a weight matrix of its own."""
        return self.weights is not None


def list_operations(manifest: dict[str, Any], tensors: dict[str, Tensor]) -> list[Operation]:
    """The operations of a valid program, in order."""
    found: list[Operation] = []
    matrices: list[int] = []  # sizes of the matrices so far
    kept: list[int] = []  # widths of the values kept so far
    width, on_points = 0, False  # of the current value
    for i, fields in enumerate(manifest["program"]):
        op, inputs, multiply_adds = fields["op"], width, 0
        own = {name.partition(".")[2]: t for name, t in tensors.items() if name.startswith(f"{i}.")}
        weights = WEIGHTS[own["weight"].dtype] if "weight" in own else None
        if op in ("points", "join"):
            on_points = True
            width = manifest["channels"] if op == "points" else sum(kept[number] for number in fields["kept"])
        elif op == "category":
            width, on_points = len(manifest["categories"]), False
        elif op == "matrix":
            matrices.append(fields["size"])
        elif op == "transform":
            multiply_adds = matrices[fields["matrix"]] ** 2
        elif weights is not None:
            width = fields["outputs"]
            multiply_adds = inputs * width
        pools = "pool" in fields
        keeps = op == "keep" or (pools and "threshold" in own)
        if keeps:
            kept.append(width)
        size = sum(tensor.bytes for tensor in own.values())
        found.append(
            Operation(
                op, inputs, width, on_points, weights == "1 bit", weights, multiply_adds, size, pools, keeps, fields
            )
        )
        on_points = on_points and not pools
    return found
