"""Whether a packed model computes what it should, value by value.

1. The golden vector in the file: checked by the core when it loads, on every instruction set.
2. The numpy oracle (`reference`) against the portable core: the value after every operation, bit for bit.
3. Every instruction set of this machine against the portable core: the same values, and the logits, also of normalised
   clouds and shared by threads, bit for bit.
4. Given the run that was exported: PyTorch in float64 against the portable core. The core sums floats in float32, so a
   sign may differ where the float lies within rounding of zero. How far rounding can carry each float is bounded by
   running error analysis (`rounding`); a bit that differs by more, or behind no float at all, is an error.

Clouds are made up, of awkward sizes, and taken from a test split where one is given.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet import _core
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.runtime import reference
from bipointnet.runtime.model import Model, is_packed, load

SIZES = (1, 2, 63, 511, 512, 513, 5000)
MOST_FOR_ORACLE = 32  # test clouds that the oracle sees: it is slow
MOST_DIFFERENCES = 20
EPSILON = float(np.finfo(np.float32).eps)
TIE = 1e-9  # of the largest value: how near zero float64 itself cannot tell the sign
Watch = Callable[[int, int], None]


class Tally:
    """How many values were compared, how many differ, and where the first of these are."""

    def __init__(self) -> None:
        self.values = self.different = 0
        self.places: list[str] = []

    def compare(self, place: str, found: np.ndarray, expected: np.ndarray) -> None:
        """Count the values that are not the same bits."""
        self.values += expected.size
        if found.shape != expected.shape:
            self._note(f"{place}: shape {found.shape}, expected {expected.shape}", expected.size)
            return
        if found.dtype == np.float32:
            found, expected = found.view(np.uint32), expected.astype(np.float32).view(np.uint32)
        wrong = int((found != expected).sum())
        if wrong:
            self._note(f"{place}: {wrong} of {expected.size} values differ", wrong)

    def _note(self, place: str, count: int) -> None:
        self.different += count
        if len(self.places) < MOST_DIFFERENCES:
            self.places.append(place)

    def facts(self) -> dict[str, Any]:
        return {"values": self.values, "different": self.different, "places": self.places}


def made_up_clouds(channels: int) -> list[np.ndarray]:
    """A cloud (N, C) of each size in SIZES, normalised; some points of the larger ones occur twice."""
    rng = np.random.default_rng(0)
    clouds = [rng.standard_normal((n, channels), np.float32) for n in SIZES]
    for cloud in clouds:
        cloud[len(cloud) // 2 : len(cloud) // 2 + len(cloud) // 8] = cloud[: len(cloud) // 8]
    return [np.ascontiguousarray(normalize(cloud), np.float32) for cloud in clouds]


def verify(
    path: str | Path,
    *,
    data: np.ndarray | None = None,
    run: str | Path | None = None,
    watch: Watch = lambda done, of: None,
) -> dict[str, Any]:
    """Compare all that can be compared; what --json prints. "ok" says whether all is well.

    Args:
        path: the packed model.
        data: clouds (M, P, C) float32, in addition to the made-up ones.
        run: the run folder or checkpoint that was exported; needs PyTorch.
        watch: called after every cloud with how many are done, and of how many.
    """
    path = Path(path)
    models = {name: load(path, name) for name in _core.isas()}
    portable = models.pop("portable")
    packed = reference.read(path)
    clouds = [(f"made-up cloud of {len(cloud)}", cloud) for cloud in made_up_clouds(portable.channels)]
    with_oracle = len(clouds) + MOST_FOR_ORACLE
    if data is not None:
        as_seen = normalize if packed.manifest["normalize"] == "sphere" else np.asarray
        clouds += [(f"test cloud {i}", np.ascontiguousarray(as_seen(x), np.float32)) for i, x in enumerate(data)]
    oracle, isas = Tally(), {name: Tally() for name in models}
    torch_reference = None if run is None else TorchReference(Path(run), portable, packed)
    for i, (name, cloud) in enumerate(clouds):
        category = i % len(portable.categories) if portable.categories else None
        values = portable.trace(cloud, category=category, normalize=False)
        if i < with_oracle:
            _, expected = reference.run_program(packed, cloud, raw=True, category=category)
            _compare_values(oracle, name, expected, values, packed)
        logits = _all_logits(portable, cloud, category, 1)
        oracle.compare(f"{name}, logits without trace", logits[0], values[-1])
        for isa, model in models.items():
            _compare_values(isas[isa], name, model.trace(cloud, category=category, normalize=False), values, packed)
            isas[isa].compare(f"{name}, logits", _all_logits(model, cloud, category, 2), logits)
        if torch_reference is not None:
            torch_reference.compare(name, cloud, category, values)
        watch(i + 1, len(clouds))
    report = {
        "model": portable.manifest["model"],
        "clouds": len(clouds),
        "golden": {"isas": [*models, "portable"], "tolerance": portable.manifest["golden"]["tolerance"]},
        "oracle": {"clouds": min(with_oracle, len(clouds)), **oracle.facts()},
        "isas": {name: tally.facts() for name, tally in isas.items()},
        "torch": None if torch_reference is None else torch_reference.facts(),
    }
    tallies = [report["oracle"], *report["isas"].values()]
    report["ok"] = not any(tally["different"] for tally in tallies) and (
        torch_reference is None or torch_reference.unexplained == 0
    )
    return report


def _all_logits(model: Model, cloud: np.ndarray, category: int | None, threads: int) -> np.ndarray:
    """(2, ..., classes): of the cloud as it is, and normalised."""
    return np.stack([model.logits(cloud, category=category, normalize=n, threads=threads) for n in (False, True)])


def _compare_values(
    tally: Tally, name: str, found: Iterable[np.ndarray], expected: list[np.ndarray], packed: reference.Packed
) -> None:
    for i, (f, e, op) in enumerate(zip(found, expected, packed.manifest["program"], strict=True)):
        tally.compare(f"{name}, operation {i} ({op['op']})", f.astype(np.uint8) if f.dtype == bool else f, e)


def readers(program: list[dict[str, Any]]) -> list[int]:
    """The operations that read the bits of a 1-bit layer, each layer once, in the network's order.

    A pass that starts as an earlier one did, to have floats where that had bits or to keep them, runs the layers of
    that start again.
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


def rounding(packed: reference.Packed, values: list[np.ndarray]) -> list[np.ndarray]:
    """How far each value of a trace may be from the same in exact arithmetic, given that all bits are right.

    A sum of K products in float32, of weights rounded to float32, is off by at most (K + 3) EPSILON / 2 of the sum of
    absolute values; EPSILON is taken whole. Errors of the inputs come through by the absolute weights. Bits: zeros.
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
            turned = e[:, :d] @ matrix + (u[:, :d] + e[:, :d]) @ off + (d + 3) * EPSILON * (u[:, :d] @ matrix)
            error = np.concatenate([turned, e[:, d:]], axis=1)
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


class Read(NamedTuple):
    """What a 1-bit layer of the network reads: its bits, how far each float is from turning, and the largest float."""

    bits: np.ndarray
    distance: np.ndarray
    largest: float


class TorchReference:
    """The network that was exported, in float64, and how often the core's bits and labels are others."""

    def __init__(self, run: Path, model: Model, packed: reference.Packed) -> None:
        import torch

        from bipointnet.models import checkpoint
        from bipointnet.nn import BinaryLinear, fused_layers

        if is_packed(run):
            raise UserError(
                f"{run}: a packed model where its run is expected; name the run folder it was exported from"
            )
        self.network, facts = checkpoint.load_run(run)
        self.packed = packed
        self.inputs: list[Read] = []
        if (facts["classes"], facts["channels"]) != (model.classes, model.channels):
            raise UserError(
                f"{run}: a network for {len(facts['classes'])} classes and {facts['channels']} numbers a point; the "
                f"packed one has {len(model.classes)} and {model.channels}; name the run it was exported from"
            )
        last = packed.tensors.get(f"{len(packed.manifest['program']) - 1}.weight")
        if last is not None and last.dtype == np.float16:  # what the packed network rounded, this one holds rounded
            network: Any = self.network
            network.last.weight.data = network.last.weight.data.half().float()
        self.network.double()
        for layer in fused_layers(self.network):
            layer.fused = False  # else its linear layer's hook is passed by
        for module in self.network.modules():
            if isinstance(module, BinaryLinear):
                module.register_forward_pre_hook(self._keep)
        self._no_grad, self._tensor = torch.no_grad, torch.from_numpy
        self._told = lambda category: [] if category is None else [torch.tensor([category])]
        self.readers = readers(packed.manifest["program"])
        self.clouds = self.bits = self.different = self.near_zero = self.unexplained = 0
        self.labels = self.labels_different = 0
        self.places: list[str] = []

    def _keep(self, layer: Any, inputs: tuple[Any, ...]) -> None:
        """Before a 1-bit layer: what it reads, the bits it makes of it, and how far each number is from turning."""
        x = inputs[0][0]
        bits = layer.method.binarize_input(x, layer) > 0
        self.inputs.append(
            Read(bits.numpy(), (x - layer.method.input_threshold(layer)).abs().numpy(), float(x.abs().max()))
        )

    def compare(self, name: str, cloud: np.ndarray, category: int | None, values: list[np.ndarray]) -> None:
        """Hold the core's trace of a cloud (N, C) against the network's own values."""
        self.inputs.clear()
        with self._no_grad():
            logits = self.network(self._tensor(cloud)[None].double(), *self._told(category)).logits[0].numpy()
        if [read.bits.shape for read in self.inputs] != [values[i - 1].shape for i in self.readers]:
            raise UserError("the run's layers are not those of the packed model; name the run it was exported from")
        errors = rounding(self.packed, values)
        suspects = np.zeros(len(cloud), bool)  # points with a bit that differs: what follows from them may differ too
        suspect = False  # the same for the whole cloud
        kept = suspects.copy()  # points any bit of which has differed: what is kept of them is read again
        for i, read in zip(self.readers, self.inputs, strict=True):
            wrong = read.bits != values[i - 1].astype(bool)
            if self.packed.manifest["program"][i - 1]["op"] == "join":
                suspects |= kept
            if wrong.ndim == 2:
                self._compare_bits(name, i - 1, read, wrong & ~suspects[:, None] & (not suspect), errors)
                suspects |= wrong.any(axis=1)
                kept |= suspects
            else:
                self._compare_bits(name, i - 1, read, wrong & (not (suspect or suspects.any())), errors)
                suspect |= bool(wrong.any())
                suspects[:] = False
            self.bits += wrong.size
            self.different += int(wrong.sum())
        self._compare_labels(name, logits, values[-1], errors[-1], suspects | suspect)

    def _compare_bits(self, name: str, at: int, read: "Read", wrong: np.ndarray, errors: list[np.ndarray]) -> None:
        """Evaluate the bits of operation `at` that differ with nothing before them to blame."""
        if not wrong.any():
            return
        op = self.packed.manifest["program"][at]["op"]
        slack = errors[at - 1] if op in reference.SIGNS else EPSILON if op == "join" else 0.0
        slack = slack + EPSILON if op == "compare" else slack
        far = int((wrong & (read.distance > np.maximum(slack, TIE * read.largest))).sum())
        self.near_zero += int(wrong.sum()) - far
        if far:
            self._unexplained(f"{name}, operation {at} ({op}): {far} bits", far)

    def _compare_labels(
        self, name: str, logits: np.ndarray, found: np.ndarray, error: np.ndarray, suspects: np.ndarray
    ) -> None:
        """Evaluate the label of the cloud, or of each of its points."""
        if logits.ndim == 1:
            logits, found, error, suspects = logits[None], found[None], error[None], np.array([suspects.any()])
        row, best, other = np.arange(len(logits)), logits.argmax(axis=1), found.argmax(axis=1)
        self.clouds += 1
        self.labels += len(logits)
        wrong = best != other
        self.labels_different += int(wrong.sum())
        far = logits[row, best] - logits[row, other] > error[row, best] + error[row, other]
        for at in np.flatnonzero(wrong & far & ~suspects):
            of = f" of point {at}" if len(row) > 1 else ""
            self._unexplained(f"{name}: label {other[at]}{of}, PyTorch says {best[at]}", 1)

    def _unexplained(self, place: str, count: int) -> None:
        self.unexplained += count
        if len(self.places) < MOST_DIFFERENCES:
            self.places.append(place)

    def facts(self) -> dict[str, Any]:
        """different: bits that differ, with those that follow from others. near_zero: those that do not, all within
        rounding of their threshold. unexplained: bits and labels that should not differ."""
        names = ("clouds", "bits", "different", "near_zero", "labels", "labels_different", "unexplained", "places")
        return {name: getattr(self, name) for name in names}
