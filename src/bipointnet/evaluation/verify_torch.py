"""Verify a packed model against the PyTorch network it was exported from.

PyTorch computes in float64, the core sums floats in float32. Two comparisons show that nothing but rounding differs:

1. Each operation alone: it reads PyTorch's values (bits are the signs of PyTorch's floats), and its results are
   compared with PyTorch's. Bits that follow from bits must be equal. A bit that follows from a float may differ only
   where the float is within rounding of its threshold; a float only within rounding (`rounding.error_bound`); an index
   only where distances are equal within rounding.
2. The whole program: bits and labels of the core are compared with PyTorch's. A bit may differ if its float is within
   the rounding of all operations before it, or if a value that it depends on differs.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import nn

from bipointnet.errors import UserError
from bipointnet.evaluation.rounding import EPSILON, error_bound
from bipointnet.models import checkpoint
from bipointnet.packing.distances import Pair, farthest_starts
from bipointnet.packing.group_search import fit
from bipointnet.packing.neighbors import recorded_groups
from bipointnet.packing.values import TorchValues
from bipointnet.runtime import reference
from bipointnet.runtime.model import Model, load
from bipointnet.runtime.progress import Progress, no_progress
from bipointnet.runtime.reference_ops import Domain, Value
from bipointnet.runtime.verify import MOST_DIFFERENCES, cases, verify

TIE = 1e-9  # relative to the largest value: float64 itself cannot decide a sign closer to the threshold than this


class TorchValue(Protocol):
    """A value of the program in PyTorch: numbers (elements, channels); bits are numbers >= at; indices are integers."""

    @property
    def numbers(self) -> np.ndarray: ...

    @property
    def at(self) -> float | None: ...


TorchRun = Callable[[np.ndarray, int | None], Mapping[str, TorchValue]]


def verify_against_run(
    path: str | Path, run: str | Path, *, data: np.ndarray | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """All checks of `runtime.verify.verify`, and under "torch" the comparison with the network of a run.

    Args:
        path: the packed model.
        run: the run folder or checkpoint it was exported from.
        data: clouds (M, P, C) float32, in addition to the random ones.
        progress: called with (done, total) clouds; each cloud counts twice.

    Examples:
        >>> report = verify_against_run("chairs.bpn", "runs/chairs")  # doctest: +SKIP
        >>> report["torch"]["bits_compared"], report["torch"]["bits_different"]  # doctest: +SKIP
        (490297728, 0)
    """
    network, facts = checkpoint.load_run(run)
    model = load(path, "portable")
    differing = [pair for pair in zip(facts["classes"], model.classes, strict=False) if pair[0] != pair[1]]
    if len(facts["classes"]) == len(model.classes) and differing:
        own, packed = differing[0]
        raise UserError(
            f"{run}: a network with the class {own!r}; expected {packed!r} in its place, as in the packed model; name "
            "the run it was exported from"
        )
    if (len(facts["classes"]), facts["channels"]) != (len(model.classes), model.channels):
        raise UserError(
            f"{run}: a network for {len(facts['classes'])} classes and {facts['channels']} channels per point; "
            f"expected {len(model.classes)} and {model.channels}, as in the packed model; name the run it was "
            "exported from"
        )
    _require_same_run(run, facts, model.manifest["training"])
    categories = len(facts.get("categories", ()))
    return _verify(path, model, TorchValues(network, len(model.classes), categories=categories), data, progress)


def verify_network(
    path: str | Path,
    network: nn.Module,
    clouds: Sequence[np.ndarray] | np.ndarray = (),
    *,
    example: Any = None,
    replace: Mapping[Callable[..., Any], str] | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """The same report for a network of your own: compare a packed model with the network that was exported.

    Args:
        path: the packed model.
        network: what was given to `export`.
        clouds: clouds (N, C) float32 to compare on, in addition to random ones.
        example, replace: as they were given to `export`.
        progress: called with (done, total) clouds; each cloud counts twice.

    Examples:
        >>> report = verify_network("mine.bpn", network, clouds)  # doctest: +SKIP
        >>> report["ok"], report["torch"]["labels_different"]  # doctest: +SKIP
        (True, 0)
    """
    model = load(path, "portable")
    values = TorchValues(network, len(model.classes), example, len(model.categories), replace)
    return _verify(path, model, values, clouds if len(clouds) else None, progress)


def _verify(
    path: str | Path, model: Model, values: TorchValues, data: Any, progress: Progress = no_progress
) -> dict[str, Any]:
    packed = reference.read(path)
    if values.program.ops != packed.manifest["program"]:
        raise UserError(
            f"{path}: another program than that of the network; expected the network that was exported; name that one, "
            "or export it again"
        )
    comparison = TorchComparison(packed, lambda cloud, category: values(cloud, category or 0))
    report = verify(path, data=data, progress=lambda done, total: progress(done, 2 * total))
    compared = cases(model, data)
    for i, (name, cloud, category) in enumerate(compared):
        trace = model.trace(cloud, category=category, normalize=False)
        try:
            comparison.compare(name, cloud, category, trace)
        except (RuntimeError, IndexError):  # a network may fail on clouds smaller than its example, as `export` says
            if len(cloud) >= values.analysis.recording.runs[0].points:
                raise
        progress(len(compared) + i + 1, 2 * len(compared))
    facts = comparison.facts()
    unexplained = ("bits_unexplained", "floats_unexplained", "indices_unexplained", "labels_unexplained")
    return report | {"torch": facts, "ok": report["ok"] and not any(facts[name] for name in unexplained)}


def _require_same_run(run: str | Path, facts: dict[str, Any], training: dict[str, Any]) -> None:
    """UserError if the packed model is of another run, or of another epoch; a model may record neither."""
    config = facts["config"]
    found = {name: config.get(name) for name in ("model", "method", "pool", "seed")} | {"epoch": facts["epoch"]}
    for name, value in found.items():
        if name in training and training[name] != value:
            raise UserError(
                f"{run}: {name} {value}; expected {name} {training[name]}, as the packed model records; name the "
                "run it was exported from, or export it again"
            )


class TorchComparison:
    """How many bits, floats, indices and labels of a packed model differ from PyTorch's, and which without a reason."""

    def __init__(self, packed: reference.Packed, torch: TorchRun) -> None:
        self.packed, self.torch = packed, torch
        self.program = packed.manifest["program"]
        self.tensors = {op["out"][0]: _tensors(packed, op) for op in self.program}
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        self.first_unexplained: list[str] = []
        # By domain of one cloud: centers whose last neighbor is as far as the next one, so that either may be chosen.
        self.undecided: dict[int, np.ndarray] = {}

    def compare(self, name: str, cloud: np.ndarray, category: int | None, trace: dict[str, np.ndarray]) -> None:
        """Compare one cloud (N, C); trace: the values of the core by name."""
        torch = self.torch(cloud, category)
        domains = self._compare_operations(name, cloud, category, torch)
        arrays = {value: x.astype(bool) if x.dtype == np.uint8 else x for value, x in trace.items()}
        values = {value: Value(arrays[value], domain) for value, domain in domains.items()}
        self._compare_trace(name, torch, values)
        self.counts["clouds"] += 1

    def _compare_operations(
        self, name: str, cloud: np.ndarray, category: int | None, torch: Mapping[str, TorchValue]
    ) -> dict[str, Domain]:
        """Each operation alone, on PyTorch's values. Returns the domains of all values."""
        values = _sources(self.packed, cloud, category)
        values = {op["out"][0]: values[op["op"]] for op in self.program if op["op"] in values}
        self.undecided = {}
        errors = {value: np.zeros(values[value].array.shape) for value in values}
        for op in self.program:
            if op["op"] in ("points", "category"):
                continue
            operands, tensors = [values[value] for value in op["in"]], self.tensors[op["out"][0]]
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                results = reference.OPERATIONS[op["op"]](op, tensors, *operands)
            bounds = [errors[value] for value in op["in"]]
            for i, (value, result) in enumerate(zip(op["out"], results, strict=True)):
                kind = result.array.dtype.kind
                error = error_bound(op, tensors, operands, bounds) if kind == "f" and i == 0 else np.zeros(())
                values[value], errors[value] = result, np.broadcast_to(error, result.array.shape)
                if op["op"] in ("nearest", "ball") and value not in torch:
                    self.undecided[id(result.domain)] = _undecided(op, operands, result.array.shape[-1])
                if value in torch:
                    place = f"{name}, {value} ({op['op']})"
                    numbers = torch[value].numbers.reshape(result.array.shape)
                    self._compare_result(place, op, operands, bounds, result, error, numbers, torch[value].at)
                    values[value] = result._replace(array=_as_read(numbers, torch[value].at, kind))
                    errors[value] = np.abs(numbers) * EPSILON / 2 if kind == "f" else np.zeros(numbers.shape)
        return {value: found.domain for value, found in values.items()}

    def _compare_result(
        self,
        place: str,
        op: dict[str, Any],
        operands: list[Value],
        errors: list[np.ndarray],
        result: Value,
        error: np.ndarray,
        numbers: np.ndarray,
        at: float | None,
    ) -> None:
        """One result of one operation with PyTorch's numbers, of the same shape."""
        kind = result.array.dtype.kind
        decided = self._decided(operands, result)
        if kind == "f":
            self.counts["floats_compared"] += numbers.size
            far = ~(np.abs(result.array - numbers) <= error + TIE * _largest(numbers))
            self._unexplained("floats", int((far & decided).sum()), place)
        elif kind == "b":
            bound = errors[0] if op["op"] == "sign" else 0.0
            wrong = (result.array != (numbers >= at)) & decided
            self._unexplained("bits", int((wrong & ~_near(numbers, at, bound)).sum()), place)
        else:
            different = int((result.array != numbers).sum())
            self.counts["indices_compared"] += numbers.size
            self.counts["indices_different"] += different
            if different and not _is_answer(op, operands, numbers):
                self._unexplained("indices", different, place)

    def _decided(self, operands: list[Value], result: Value) -> np.ndarray | bool:
        """Where a pool over neighbors that PyTorch has in another order must be equal: (..., 1), or True."""
        for operand in operands:
            undecided = self.undecided.get(id(operand.domain))
            if undecided is not None and result.domain is operand.domain.parent:
                return ~undecided.reshape(*result.domain.shape, 1)
        return True

    def _compare_trace(self, name: str, torch: Mapping[str, TorchValue], values: dict[str, Value]) -> None:
        """The whole program: the bits and labels of the core, with the rounding of all operations before."""
        errors: dict[str, np.ndarray] = {}
        follows = any(x.any() for x in self.undecided.values())  # whether an earlier bit or index differs
        for op in self.program:
            operands = [values[value] for value in op["in"]]
            bounds = [errors[value] for value in op["in"]]
            for i, value in enumerate(op["out"]):
                found = values[value].array
                floats = found.dtype.kind == "f" and op["in"] and i == 0
                error = error_bound(op, self.tensors[op["out"][0]], operands, bounds) if floats else np.zeros(())
                errors[value] = np.broadcast_to(error, found.shape)
                if value not in torch or found.dtype.kind == "f":
                    continue
                numbers, at = torch[value].numbers.reshape(found.shape), torch[value].at
                if at is None:
                    follows |= bool((found != numbers).any())
                    continue
                wrong = found != (numbers >= at)
                near = wrong & _near(numbers, at, bounds[0] if op["op"] == "sign" else 0.0)
                self.counts["bits_compared"] += wrong.size
                self.counts["bits_different"] += int(wrong.sum())
                self.counts["bits_within_rounding"] += int(near.sum())
                follows |= bool(wrong.any())
        last = self.program[-1]["out"][0]
        self._compare_labels(name, torch[last].numbers, values[last].array, errors[last], follows)

    def _compare_labels(
        self, name: str, logits: np.ndarray, found: np.ndarray, error: np.ndarray, follows: bool
    ) -> None:
        """The label of the cloud, or of each of its points."""
        classes = found.shape[-1]
        logits, found, error = (x.reshape(-1, classes) for x in (logits, found, error))
        row, best, other = np.arange(len(logits)), logits.argmax(axis=1), found.argmax(axis=1)
        wrong = best != other
        self.counts["labels_compared"] += len(logits)
        self.counts["labels_different"] += int(wrong.sum())
        far = logits[row, best] - logits[row, other] > error[row, best] + error[row, other]
        for i in np.flatnonzero(wrong & far) if not follows else ():
            of_point = f" of point {i}" if len(row) > 1 else ""
            self._unexplained("labels", 1, f"{name}: label {other[i]}{of_point}, expected {best[i]} as in PyTorch")

    def _unexplained(self, what: str, count: int, place: str) -> None:
        self.counts[f"{what}_unexplained"] += count
        if count and len(self.first_unexplained) < MOST_DIFFERENCES:
            more = "" if what == "labels" else f": {count:,} {what} differ by more than rounding"
            self.first_unexplained.append(place + more)

    def facts(self) -> dict[str, Any]:
        """For the report. bits_different of the whole program are within rounding of their threshold, or they follow.

        The unexplained ones are those of single operations; then the packed model is wrong.
        """
        counts = self.counts
        follow = counts["bits_different"] - counts["bits_within_rounding"]
        return counts | {"bits_that_follow": follow, "first_unexplained": self.first_unexplained}


COUNTS = (
    "clouds",
    "bits_compared",
    "bits_different",
    "bits_within_rounding",
    "bits_unexplained",
    "floats_compared",
    "floats_unexplained",
    "indices_compared",
    "indices_different",
    "indices_unexplained",
    "labels_compared",
    "labels_different",
    "labels_unexplained",
)


def _tensors(packed: reference.Packed, op: dict[str, Any]) -> dict[str, np.ndarray]:
    named = {name: f"{op['out'][0]}.{name}" for name in reference.TENSORS}
    return {name: packed.tensors[tensor] for name, tensor in named.items() if tensor in packed.tensors}


def _sources(packed: reference.Packed, cloud: np.ndarray, category: int | None) -> dict[str, Value]:
    """The values that the program starts with."""
    whole = Domain()
    chosen = np.arange(len(packed.manifest.get("categories", []))) == category
    return {"points": Value(cloud, Domain(whole, len(cloud))), "category": Value(chosen, whole)}


def _largest(numbers: np.ndarray) -> float:
    return float(np.abs(numbers).max(initial=0.0))


def _near(numbers: np.ndarray, at: float | None, bound: np.ndarray | float) -> np.ndarray:
    """Whether floats are within rounding of the threshold of their bits."""
    return np.abs(numbers - (at or 0.0)) <= bound + TIE * _largest(numbers)


def _as_read(numbers: np.ndarray, at: float | None, kind: str) -> np.ndarray:
    """PyTorch's numbers as an operation reads them."""
    if kind == "b":
        return numbers >= at
    return numbers.astype(np.float32 if kind == "f" else np.int64)


def _is_answer(op: dict[str, Any], operands: list[Value], indices: np.ndarray) -> bool:
    """Whether PyTorch's indices are an answer of the search too, because distances are equal within rounding."""
    arrays = [x.array.astype(np.float64) for x in operands]
    if op["op"] == "farthest":
        return op["order"] in (farthest_starts(arrays[0], indices.astype(np.int64)) or ())
    groups = recorded_groups(indices.astype(np.int64).reshape(-1, indices.shape[-1]))
    pair = Pair(arrays[0].reshape(len(groups.indices), -1), arrays[1])
    return fit(pair, groups, op["op"], op) is not None


def _undecided(op: dict[str, Any], operands: list[Value], k: int) -> np.ndarray:
    """Centers for which rounding decides which neighbors they have: (M,)."""
    centers, points = (x.array.astype(np.float64).reshape(-1, x.array.shape[-1]) for x in operands[:2])
    pair = Pair(centers, points)
    squares, rounding = np.sort(pair.squares, axis=1), pair.rounding
    last = k * op.get("dilation", 1)
    undecided = np.zeros(len(squares), bool)
    if last < squares.shape[1] and op.get("order") != "index":
        undecided |= squares[:, last] - squares[:, last - 1] <= rounding
    if op["op"] == "ball":
        undecided |= (np.abs(squares - (op["radius"] / pair.step) ** 2) <= rounding).any(axis=1)
    return undecided
