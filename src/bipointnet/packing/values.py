"""The numbers of PyTorch behind every value of a program, in float64, for comparisons bit by bit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from bipointnet.packing.analysis import Analysis, analyze
from bipointnet.packing.cost import size_within
from bipointnet.packing.fold import apply_chain, is_monotonic
from bipointnet.packing.graph import Node
from bipointnet.packing.lower import LAST, lower
from bipointnet.packing.record import Call, Run, Value
from bipointnet.packing.searches import canonical


@dataclass(frozen=True)
class TorchValue:
    """A value of the network. numbers: float64 (elements, channels). at: for bits, +1 is numbers >= at; else None."""

    numbers: np.ndarray
    at: float | None


class TorchValues:
    """Values of a network for any cloud, by their names in the program that `export` writes.

    Args:
        network, example, replace, last: as for `export`. classes, categories: their numbers.

    Examples:
        >>> values = TorchValues(network, classes=40)  # doctest: +SKIP
        >>> values(cloud)["pooled.linear"].numbers.shape  # doctest: +SKIP
        (1, 1024)
    """

    def __init__(
        self,
        network: nn.Module,
        classes: int,
        example: Any = None,
        categories: int = 0,
        replace: Mapping[Callable[..., Any], str] | None = None,
        last: str = "f16",
    ) -> None:
        self.analysis: Analysis = analyze(network, example, classes, categories, replace or {})
        self.program = lower(self.analysis.graph, self.analysis.output, LAST[last])
        self.analysis.recording.release()

    @torch.no_grad()
    def __call__(self, cloud: np.ndarray, category: int = 0) -> dict[str, TorchValue]:
        """Values for a cloud (N, C), which is taken as it is. Values without a counterpart are left out."""
        run = self.analysis.recording.run_on(np.asarray(cloud, np.float64), category)
        calls, found = run.by_key(), {}
        for name, (node, at) in self.program.meaning.items():
            numbers = self._numbers(node, run, calls)
            if numbers is not None:
                found[name] = TorchValue(numbers, at)
        run.release()
        return found

    def _numbers(self, node: Node, run: Run, calls: dict[Any, list[Call]]) -> np.ndarray | None:
        if any(domain.unordered for domain in node.domain.chain):
            return None
        if node.seen is None:
            return self._derived(node, run, calls)
        value, sym = node.seen
        if sym.node is not node or any(atom.role == "edges" for atom in sym.atoms()):
            return None
        data = self._found(value, run, calls)
        if data is None:
            return None
        atoms = sym.atoms()
        sizes = {atom: size_within(atom.domain, run.points) for atom in atoms if atom.domain is not None}
        fixed = [sizes.get(atom, atom.size if atom.role == "channel" else 0) for atom in atoms]
        if fixed.count(0) > 1 or any(atom.role == "free" for atom in atoms):
            return None
        return canonical(data, sym, fixed)

    def _derived(self, node: Node, run: Run, calls: dict[Any, list[Call]]) -> np.ndarray | None:
        """Numbers that the network has no tensor for, such as the inputs of a layer minus its center."""
        if not (is_monotonic(node) or node.op in ("concat", "slice")):
            return None
        inputs = [self._numbers(x, run, calls) for x in node.inputs]
        parts = [numbers for numbers in inputs if numbers is not None]
        if len(parts) < len(inputs):
            return None
        if node.op == "concat":
            return np.concatenate(parts, axis=1)
        if node.op == "slice":
            return parts[0][:, node.fields["from"] : node.fields["to"]]
        return apply_chain([node], parts[0])

    def _found(self, value: Value, run: Run, calls: dict[Any, list[Call]]) -> np.ndarray | None:
        """The same value in this run."""
        recording = self.analysis.recording
        if value.call is None:
            place = recording.runs[0].inputs.index(value) if value in recording.runs[0].inputs else None
            found = None if place is None else run.inputs[place]
        else:
            same, (place, count) = calls.get(value.call.key, []), recording.place(value.call)
            found = same[place].outputs[value.output] if len(same) == count else None
        return None if found is None or found.data is None else found.data.detach().double().numpy()
