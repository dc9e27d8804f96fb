"""Write the program of a packed file (docs/format.md): operations, their names and tensors."""

import re
from typing import Any

import numpy as np

from bipointnet.errors import UserError
from bipointnet.packing.graph import Node

WIDEST = 32766  # channels of a value: K + 1 must fit a 16-bit threshold
LONGEST = 180  # characters of a name, before a number is added


class Program:
    """The operations and tensors written so far.

    ops: as in the manifest. tensors: by name, such as "first.weight". meaning: for each value the node that it stands
    for, and for bits the number that the node is compared with.
    """

    def __init__(self) -> None:
        self.ops: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.meaning: dict[str, tuple[Node, float | None]] = {}
        self._names: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """A name that no value has yet."""
        base = re.sub(r"[^A-Za-z0-9_.-]", "_", wanted)[:LONGEST] or "value"
        self._names[base] = self._names.get(base, 0) + 1
        return base if self._names[base] == 1 else self.unique(f"{base}-{self._names[base]}")

    def add(
        self,
        op: str,
        name: str,
        inputs: list[str],
        node: Node,
        compared: float | None = None,
        tensors: dict[str, np.ndarray] | None = None,
        **fields: Any,
    ) -> str:
        """Append one operation; returns the name of its first result. compared: what bits are compared with."""
        if node.channels > WIDEST:
            raise UserError(f"export: {node.name}: {node.channels} channels; expected at most {WIDEST}")
        made = self.unique(name)
        for key, tensor in (tensors or {}).items():
            self.tensors[f"{made}.{key}"] = np.ascontiguousarray(tensor)
        self.ops.append({"op": op, "in": inputs, "out": [made], **fields})
        self.meaning[made] = (node, compared)
        return made

    def add_result(self, name: str, node: Node, at: float | None) -> str:
        """A second result of the last operation."""
        made = self.unique(name)
        self.ops[-1]["out"].append(made)
        self.meaning[made] = (node, at)
        return made


def rounded(name: str, values: np.ndarray, dtype: type[np.floating]) -> np.ndarray:
    """float64 values, rounded once."""
    with np.errstate(over="ignore"):
        result = values.astype(dtype)
    if not np.isfinite(result).all():
        remedy = "; export with last='f32'" if dtype is np.float16 else ""
        largest = float(np.abs(values).max())
        raise UserError(
            f"export: {name}: a value of size {largest:.3g} after folding BatchNorm; expected the range of "
            f"{dtype.__name__}{remedy}"
        )
    return result
