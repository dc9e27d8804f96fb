"""Verify a packed model against the PyTorch network it was exported from.

PyTorch computes in float64, the core sums floats in float32. So a bit may differ where the float it is taken from is
within rounding of its threshold, and further bits may differ as a consequence. How far rounding can move each float is
bounded by running error analysis (`rounding_errors`). A difference beyond this bound, or one behind no float at all, is
an error.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from bipointnet.errors import UserError
from bipointnet.models import checkpoint
from bipointnet.nn import BinaryLinear, fused_layers
from bipointnet.runtime import reference
from bipointnet.runtime.model import Model, load
from bipointnet.runtime.progress import Progress, no_progress
from bipointnet.runtime.verify import MOST_DIFFERENCES, cases, verify

EPSILON = float(np.finfo(np.float32).eps)
TIE = 1e-9  # relative to the largest value: float64 itself cannot decide a sign closer to the threshold than this


def verify_against_run(
    path: str | Path, run: str | Path, *, data: np.ndarray | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """All checks of `runtime.verify.verify`, and under "torch" the comparison with the network of a run.

    Args:
        path: the packed model.
        run: the run folder or checkpoint it was exported from.
        data: clouds (M, P, C) float32, in addition to the random ones.
        progress: called with (done, total) clouds; each cloud counts twice.

    Example:
        >>> report = verify_against_run("chairs.bpn", "runs/chairs")  # doctest: +SKIP
        >>> report["torch"]["bits_compared"], report["torch"]["bits_different"]  # doctest: +SKIP
        (490297728, 0)
    """
    model, packed = load(path, "portable"), reference.read(path)
    comparison = TorchComparison(run, model, packed)
    report = verify(path, data=data, progress=lambda done, total: progress(done, 2 * total))
    compared = cases(model, data)
    for i, (name, cloud, category) in enumerate(compared):
        comparison.compare(name, cloud, category, model.trace(cloud, category=category, normalize=False))
        progress(len(compared) + i + 1, 2 * len(compared))
    facts = comparison.facts()
    ok = report["ok"] and not facts["bits_unexplained"] and not facts["labels_unexplained"]
    return report | {"torch": facts, "ok": ok}


def one_bit_layers(program: list[dict[str, Any]]) -> list[int]:
    """The operations that are 1-bit layers, each layer of the network once, in the network's order.

    A pass over the points may start with the same operations as an earlier pass, to get floats instead of bits or to
    keep a value. Layers in this common start are the same layers, run again.
    """
    found: list[int] = []
    starts: list[list[dict[str, Any]]] = []
    start: list[dict[str, Any]] = []
    for i, op in enumerate(program):
        if op["op"] == "keep":
            continue
        start = [op] if op["op"] in ("points", "join") else [*start, op]
        if op["op"].startswith("bilinear") and start[:-1] not in starts:
            found.append(i)
            starts.append(start[:-1])
    return found


def rounding_errors(packed: reference.Packed, values: list[np.ndarray]) -> list[np.ndarray]:
    """For each value of a trace, a bound on its distance from exact arithmetic, assuming that all bits are right.

    A sum of K products in float32, with weights rounded to float32, has an error of at most (K + 3) EPSILON / 2 times
    the sum of absolute values; the bound here is twice that. Errors of the inputs are multiplied by the absolute
    weights. Bits have no error.
    """
    errors: list[np.ndarray] = []
    matrices: list[int] = []
    scale, scale_error = np.ones(()), np.zeros(())  # of scaled bits: (N,), or one number
    for i, op in enumerate(packed.manifest["program"]):
        u, e = (np.abs(values[i - 1]), errors[-1]) if i else (values[0], values[0])
        if op["op"] == "keep":
            error = e
        elif op["op"] == "dense":
            weight = np.abs(packed.tensors[f"{i}.weight"].astype(np.float64))  # (M, K)
            size = u @ weight.T + np.abs(packed.tensors[f"{i}.bias"])
            error = e @ weight.T + (weight.shape[1] + 3) * EPSILON * size
        elif op["op"] == "transform":
            at = matrices[op["matrix"]]
            matrix, off = np.abs(values[at]).astype(np.float64), errors[at]  # (D, D)
            d = len(matrix)
            transformed = e[:, :d] @ matrix + (u[:, :d] + e[:, :d]) @ off + (d + 3) * EPSILON * (u[:, :d] @ matrix)
            error = np.concatenate([transformed, e[:, d:]], axis=1)
        elif op["op"] == "bilinear_float":
            a, b = np.abs(packed.tensors[f"{i}.line"].astype(np.float64)).T
            error = np.broadcast_to(3 * EPSILON * (a * u.shape[-1] + b), values[i].shape)
        elif op["op"] == "bilinear_scaled":
            a, b = np.abs(packed.tensors[f"{i}.line"].astype(np.float64)).T
            weight = reference.unpack_bits(packed.tensors[f"{i}.weight"], u.shape[-1])
            z = np.abs(2 * reference.agreements(values[i - 1].astype(bool), weight) - u.shape[-1])
            error = a * z * (scale_error + 4 * EPSILON * scale)[..., None] + 4 * EPSILON * b
        elif op["op"] == "sign_scaled":
            scale, scale_error = u.mean(axis=-1), e.mean(axis=-1) + EPSILON * u.mean(axis=-1)
            error = np.zeros(values[i].shape)
        elif op["op"] == "shift":
            error = e + EPSILON * (u + np.abs(values[i]))
        elif op["op"] == "pool":
            error = e.max(axis=0) if op["pool"] == "max" else e.mean(axis=0) + EPSILON * u.mean(axis=0)
        elif op["op"] == "matrix":
            matrices.append(i)
            error = e.reshape(values[i].shape) + EPSILON * np.abs(values[i])
        else:
            error = np.zeros(values[i].shape)
        errors.append(error)
    return errors


class LayerInput(NamedTuple):
    """The input of a 1-bit layer: its bits, the distance of each float from its threshold, and the largest |float|."""

    bits: np.ndarray
    distance: np.ndarray
    largest: float


class TorchComparison:
    """The exported network in float64, and how many bits and labels of the core differ from it."""

    def __init__(self, run: str | Path, model: Model, packed: reference.Packed) -> None:
        self.network, facts = checkpoint.load_run(run)
        self.packed = packed
        self.inputs: list[LayerInput] = []
        if (facts["classes"], facts["channels"]) != (model.classes, model.channels):
            raise UserError(
                f"{run}: a network for {len(facts['classes'])} classes and {facts['channels']} channels per point; "
                f"expected {len(model.classes)} and {model.channels}, as in the packed model; name the run it was "
                "exported from"
            )
        self._require_same_run(run, facts, model.manifest["training"])
        last = packed.tensors.get(f"{len(packed.manifest['program']) - 1}.weight")
        if last is not None and last.dtype == np.float16:  # compare with the weights that the packed model holds
            network: Any = self.network
            network.last.weight.data = network.last.weight.data.half().float()
        self.network.double()
        for layer in fused_layers(self.network):
            layer.fused = False  # the fused computation does not call the hook of its linear layer
        for module in self.network.modules():
            if isinstance(module, BinaryLinear):
                module.register_forward_pre_hook(self._record)
        self.layers = one_bit_layers(packed.manifest["program"])
        self.clouds = self.bits = self.bits_different = self.bits_within_rounding = self.bits_unexplained = 0
        self.labels = self.labels_different = self.labels_unexplained = 0
        self.first_unexplained: list[str] = []

    @staticmethod
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

    def _record(self, layer: Any, inputs: tuple[Any, ...]) -> None:
        """Before a 1-bit layer: record its input."""
        x = inputs[0][0]
        bits = layer.method.binarize_input(x, layer) > 0
        distance = (x - layer.method.input_threshold(layer)).abs()
        self.inputs.append(LayerInput(bits.numpy(), distance.numpy(), float(x.abs().max())))

    @torch.no_grad()
    def compare(self, name: str, cloud: np.ndarray, category: int | None, values: list[np.ndarray]) -> None:
        """Compare the core's trace of a cloud (N, C) with the network's own values."""
        self.inputs.clear()
        category_input = [] if category is None else [torch.tensor([category])]
        logits = self.network(torch.from_numpy(cloud)[None].double(), *category_input).logits[0].numpy()
        if [x.bits.shape for x in self.inputs] != [values[i - 1].shape for i in self.layers]:
            raise UserError("the run has other layers than the packed model; name the run it was exported from")
        errors = rounding_errors(self.packed, values)
        affected = np.zeros(len(cloud), bool)  # points with a bit that differs: later bits may differ as a consequence
        cloud_affected = False  # the same for the whole cloud
        ever_affected = affected.copy()  # points with a different bit in any layer: `join` reads kept bits again
        for i, layer_input in zip(self.layers, self.inputs, strict=True):
            wrong = layer_input.bits != values[i - 1].astype(bool)
            if self.packed.manifest["program"][i - 1]["op"] == "join":
                affected |= ever_affected
            if wrong.ndim == 2:
                first = wrong & ~affected[:, None] & (not cloud_affected)
                affected |= wrong.any(axis=1)
                ever_affected |= affected
            else:
                first = wrong & (not (cloud_affected or affected.any()))
                cloud_affected |= bool(wrong.any())
                affected[:] = False
            self._explain_bits(name, i - 1, layer_input, first, errors)
            self.bits += wrong.size
            self.bits_different += int(wrong.sum())
        self._compare_labels(name, logits, values[-1], errors[-1], affected | cloud_affected)

    def _explain_bits(
        self, name: str, at: int, layer_input: LayerInput, wrong: np.ndarray, errors: list[np.ndarray]
    ) -> None:
        """Count the bits of operation `at` that differ, with no different bit before them, by distance."""
        if not wrong.any():
            return
        op = self.packed.manifest["program"][at]["op"]
        bound = errors[at - 1] if op in reference.SIGNS else EPSILON if op == "join" else 0.0
        bound = bound + EPSILON if op == "compare" else bound
        far = int((wrong & (layer_input.distance > np.maximum(bound, TIE * layer_input.largest))).sum())
        self.bits_within_rounding += int(wrong.sum()) - far
        self.bits_unexplained += far
        if far:
            bits = "1 bit differs" if far == 1 else f"{far:,} bits differ"
            self._list(f"{name}, operation {at} ({op}): {bits} by more than rounding")

    def _compare_labels(
        self, name: str, logits: np.ndarray, found: np.ndarray, error: np.ndarray, affected: np.ndarray
    ) -> None:
        """Compare the label of the cloud, or of each of its points."""
        if logits.ndim == 1:
            logits, found, error, affected = logits[None], found[None], error[None], np.array([affected.any()])
        row, best, other = np.arange(len(logits)), logits.argmax(axis=1), found.argmax(axis=1)
        self.clouds += 1
        self.labels += len(logits)
        wrong = best != other
        self.labels_different += int(wrong.sum())
        far = logits[row, best] - logits[row, other] > error[row, best] + error[row, other]
        for at in np.flatnonzero(wrong & far & ~affected):
            of_point = f" of point {at}" if len(row) > 1 else ""
            self.labels_unexplained += 1
            self._list(f"{name}: label {other[at]}{of_point}, expected {best[at]} as in PyTorch")

    def _list(self, place: str) -> None:
        if len(self.first_unexplained) < MOST_DIFFERENCES:
            self.first_unexplained.append(place)

    def facts(self) -> dict[str, Any]:
        """For the report. bits_different is the sum of three counts.

        bits_within_rounding: their float is within rounding of its threshold, which is acceptable. bits_that_follow:
        they depend on a bit that differs. bits_unexplained: neither; the packed model is wrong.
        """
        return {
            "clouds": self.clouds,
            "bits_compared": self.bits,
            "bits_different": self.bits_different,
            "bits_within_rounding": self.bits_within_rounding,
            "bits_that_follow": self.bits_different - self.bits_within_rounding - self.bits_unexplained,
            "bits_unexplained": self.bits_unexplained,
            "labels_compared": self.labels,
            "labels_different": self.labels_different,
            "labels_unexplained": self.labels_unexplained,
            "first_unexplained": self.first_unexplained,
        }
