"""Export: a trained network becomes a packed file (docs/format.md) that the core runs without PyTorch.

How a layer becomes a comparison of integers. A row of weights w of +-1 meets K inputs of +-1. Let c be the number of
columns where they agree; then their product is c agreements less K - c disagreements,

    z = 2 c - K,    c in 0 ... K

Everything up to the next sign is a line in z. With the method's scale s and bias b, and BatchNorm's mean m, variance v,
weight g and bias h, so slope t = g / sqrt(v + eps),

    y = t (s z + b - m) + h = p z + q,    p = t s,    q = t (b - m) + h

(without BatchNorm t = 1, m = h = 0). Hardtanh does not move a sign and falls away. The bit is [y >= d], with d = 0
after a plain layer, and d the shift of the pool after a pooled one, as max_i y_i - d >= 0 just where some y_i >= d.

- p > 0: the bit is [c >= T] with p (2 T - K) + q >= d, that is T(d) = ceil(a + b d),
  a = (K - q / p) / 2 and b = 1 / (2 p).
- p < 0: negating the row turns z into -z and c into K - c, and p into -p: the case above, with the row flipped.
  A maximum stays a maximum: y is the same number, only its line is written in the other count.
- p = 0: the bit is [q >= d] whatever c is: T = 0 (always) or T = K + 1 (never).

A mean over n points compares mean y_i = p (2 sum c_i / n - K) + q with 0: sum c_i >= n a, with the same a.

Rounding. The bits must be those of PyTorch in float64 even where p z + q meets d exactly, and the algebra above rounds
otherwise than PyTorch does. But c takes only K + 1 values, and y rises with c in floating point too, as every step of
its computation does. So the layer's own arithmetic is evaluated at every c, and T is the number of counts whose y is
below d: exact by construction. Where d = delta(n) moves with n, a line (a, b) is written that gives this T for every n
up to MOST_POINTS; `_fit_line` finds one in float32 or, failing that, float64.

Where floats are needed (a float layer reads the value, or it is a T-Net's matrix), p and q are written as they are.
"""

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from torch import Tensor, nn

from bipointnet import _core, checkpoint
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.models import PointNet
from bipointnet.models.pointnet import TNet
from bipointnet.nn import BinaryLinear, EntropyMax, MaxPool, MeanPool, MeasuredMax, PooledLayer, delta
from bipointnet.nn.methods import Method
from bipointnet.nn.sign import hard_sign
from bipointnet.reference import Packed, golden_cloud, pack_bits, run_program

FORMAT = 1
WIDEST = 32766  # inputs or outputs of a layer: K + 1 must fit a 16-bit threshold
LARGEST_MATRIX = 181  # its square is a width
MOST_POINTS = 16384  # up to here every threshold T(delta(n)) is PyTorch's
GOLDEN_SEEDS = 32
CLEAR = 1e-5  # of a golden cloud: how far from 0, relative to the largest, floats should be whose signs are taken
LAST = {"f16": np.float16, "f32": np.float32}


def export(
    model: nn.Module,
    path: str | Path,
    *,
    classes: Sequence[str],
    training: dict[str, Any] | None = None,
    normalize: str = "sphere",
    last: str = "f16",
    golden_points: int = 64,
) -> int:
    """Write `model` as a packed file, and return its size in bytes.

    Args:
        model: a PointNet; it is left as it is.
        path: the file, replaced in one step; a model that is refused leaves it untouched.
        classes: their names, in the order of the logits.
        training: facts for people, anything JSON can say.
        normalize: what the core does to a cloud first, "sphere" or "none".
        last: how a float last layer's weights are stored, "f16" or "f32".
        golden_points: points of the made-up cloud that is checked at load.
    """
    content = packed_bytes(model, tuple(classes), training or {}, normalize, last, golden_points)
    try:
        _core.Model(content, "portable")
    except _core.FormatError as error:
        raise UserError(f"the network cannot be packed: {error} (docs/format.md lists the limits)") from error
    write_beside(Path(path), content)
    return len(content)


def export_run(run: str | Path, path: str | Path, last: str = "f16") -> int:
    """Write the network of a run folder or a checkpoint file as a packed file, and return its size in bytes."""
    model, facts = checkpoint.load_model(Path(run))
    config = facts["config"]
    training = {
        "data": facts.get("data"),
        **{name: config.get(name) for name in ("method", "pool", "model", "points")},
        "epochs": facts.get("epoch", config.get("epochs")),
        "seed": config.get("seed"),
        "test_oa": facts.get("test_oa"),
        "version": facts.get("version"),
    }
    return export(model, path, classes=facts["classes"], training=training, last=last)


def packed_bytes(
    model: nn.Module, classes: tuple[str, ...], training: dict, normalize: str, last: str, golden_points: int
) -> bytes:
    """The content of a packed file; the arguments are those of `export`."""
    if last not in LAST:
        raise UserError(f"last is {last!r}; expected one of {', '.join(LAST)}")
    if normalize not in ("sphere", "none"):
        raise UserError(f"normalize is {normalize!r}; expected sphere or none")
    if not 1 <= golden_points <= 4096:
        raise UserError(f"golden_points is {golden_points}; expected 1 to 4096")
    if not all(isinstance(name, str) for name in classes):
        raise UserError(f"classes are {classes!r}; expected strings, the names of the classes")
    name, walk = _walker(model)
    _require_finite(model)
    program = _Program(LAST[last])
    with torch.no_grad():
        channels = walk(program, copy.deepcopy(model).cpu().double().eval())
    if program.width != len(classes):
        raise UserError(f"classes has {len(classes)} names; expected {program.width}, one for each of the logits")
    manifest = {
        "format": FORMAT,
        "model": name,
        "classes": list(classes),
        "channels": channels,
        "normalize": normalize,
        "program": program.ops,
        "golden": {"seed": 0, "points": golden_points, "tolerance": 0.0},
        "training": training,
    }
    packed = _with_golden(Packed(manifest, program.tensors))
    try:
        text = json.dumps(packed.manifest, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise UserError(
            f"classes and training cannot be written as JSON ({error}); expected strings, numbers, lists and objects"
        ) from error
    return safetensors.numpy.save(packed.tensors, metadata={"bipointnet": text})


def _require_finite(model: nn.Module) -> None:
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise UserError(f"{name}: holds numbers that are not finite; expected a network that was trained to an end")


def _with_golden(packed: Packed) -> Packed:
    """The model with its golden vector.

    The core may round a cloud's normalisation otherwise than numpy, so a cloud is sought where no float lies so near 0
    that its sign could differ: of the first GOLDEN_SEEDS the first that is CLEAR, else the clearest.
    """
    golden, channels = packed.manifest["golden"], packed.manifest["channels"]
    clearances: list[float] = []
    while len(clearances) < GOLDEN_SEEDS and max(clearances, default=0.0) < CLEAR:
        clearances.append(_program_clearance(packed, golden_cloud(len(clearances), golden["points"], channels)))
    golden["seed"] = int(np.argmax(clearances))
    logits, _ = run_program(packed, golden_cloud(golden["seed"], golden["points"], channels))
    if not np.isfinite(logits).all():
        raise UserError("the logits of a made-up cloud are not finite in float32; expected weights of ordinary size")
    golden["tolerance"] = float(f"{max(1e-3, 1e-4 * float(np.abs(logits).max())):.1e}")
    return Packed(packed.manifest, packed.tensors | {"golden": logits})


def _program_clearance(packed: Packed, cloud: np.ndarray) -> float:
    """How near 0 the numbers come whose signs the program takes."""
    _, values = run_program(packed, cloud)
    read = [v for v, op in zip(values, packed.manifest["program"][1:], strict=False) if op["op"] == "sign"]
    return min((_clearance(v) for v in read), default=math.inf)


def _clearance(x: np.ndarray) -> float:
    """How near 0 the numbers come, relative to the largest. Exact zeros are constant channels, and safe."""
    sizes = np.abs(x[x != 0])
    return float(sizes.min() / sizes.max()) if sizes.size else math.inf


@dataclass(frozen=True)
class _Stage:
    """linear -> norm -> activation -> pool, each of the last three None where there is none; `name` is for errors."""

    name: str
    linear: nn.Module
    norm: nn.BatchNorm1d | None = None
    activation: nn.Module | None = None
    pool: nn.Module | None = None

    @property
    def binary(self) -> bool:
        return isinstance(self.linear, BinaryLinear)

    def refuse(self, why: str) -> UserError:
        return UserError(f"{self.name}: {why}")


class _Program:
    """Operations and their tensors, written one stage after the other, and what the current value is.

    last: dtype of the weights of a float last layer.
    """

    def __init__(self, last: type[np.floating]) -> None:
        self.last = last
        self.ops: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.bits = self.on_points = False
        self.width = 0

    def add(self, op: str, tensors: dict[str, np.ndarray] | None = None, **fields: Any) -> None:
        for name, tensor in (tensors or {}).items():
            self.tensors[f"{len(self.ops)}.{name}"] = np.ascontiguousarray(tensor)
        self.ops.append({"op": op, **fields})
        self.width = fields.get("outputs", self.width)

    def start(self, channels: int) -> None:
        """A new pass over the points."""
        self.add("points")
        self.bits, self.on_points, self.width = False, True, channels

    def transform(self, matrix: int) -> None:
        self.add("transform", matrix=matrix)

    def keep_matrix(self, size: int) -> None:
        self.add("matrix", size=size)

    def run(self, stages: Sequence[_Stage], then_bits: bool = False) -> None:
        """All stages in order; `then_bits` says whether what follows them reads signs alone."""
        for i, stage in enumerate(stages):
            self._stage(stage, stages[i + 1].binary if i + 1 < len(stages) else then_bits)

    def run_last(self, stage: _Stage) -> None:
        """The stage whose outputs are the logits."""
        self._stage(stage, False, self.last)

    def _stage(self, stage: _Stage, then_bits: bool, weights: type[np.floating] = np.float32) -> None:
        _check(stage, self.width)
        if not stage.binary:
            self._float_stage(stage, then_bits, weights)
            return
        if not self.bits:
            self.add("sign")
            self.bits = True
        if stage.pool is not None:
            self._pooled_stage(stage, then_bits)
        elif then_bits:
            self._sign_stage(stage)
        else:
            self._last_bits_stage(stage)

    def _float_stage(self, stage: _Stage, then_bits: bool, weights: type[np.floating]) -> None:
        """dense, and the float pool if there is one. A sign reads through Hardtanh."""
        if self.bits:
            raise stage.refuse("a float layer behind bits; expected the layer in front of it to be float")
        activation = _activation(stage)
        if then_bits and stage.pool is None and activation == "hardtanh":
            activation = "none"
        slope, offset = _norm_line(stage)
        linear: Any = stage.linear
        bias = 0.0 if linear.bias is None else linear.bias
        tensors = {
            "weight": _rounded(stage, slope.unsqueeze(1) * linear.weight, weights),
            "bias": _rounded(stage, slope * bias + offset, np.float32),
        }
        self.add("dense", tensors, outputs=len(linear.weight), activation=activation)
        if stage.pool is not None:
            if not isinstance(stage.pool, MeanPool) and type(stage.pool) is not MaxPool:
                raise stage.refuse(f"{_kind(stage.pool)} over a float layer; expected MaxPool or MeanPool")
            self.add("pool", pool="mean" if isinstance(stage.pool, MeanPool) else "max")
            self.on_points = False

    def _sign_stage(self, stage: _Stage) -> None:
        """bilinear: bits to bits."""
        if _activation(stage) == "relu":
            raise stage.refuse("ReLU in front of a sign makes every bit 1; expected Hardtanh")
        folded = _fold(stage)
        threshold = folded.thresholds(0.0)
        self.add("bilinear", {"weight": folded.words, "threshold": threshold.astype(np.int16)}, outputs=len(threshold))

    def _pooled_stage(self, stage: _Stage, then_bits: bool) -> None:
        """bilinear_pool: bits of points to bits of the cloud."""
        if not then_bits:
            raise stage.refuse("a pooled 1-bit layer in front of a float layer; expected a 1-bit layer behind its pool")
        if stage.activation is not None:
            raise stage.refuse(f"{_kind(stage.activation)} between a 1-bit layer and its pool; expected nothing")
        folded = _fold(stage)
        pool, shift = "max", "none"
        if isinstance(stage.pool, MeanPool):
            pool, line = "mean", folded.mean_line()
        elif isinstance(stage.pool, MeasuredMax):
            line = folded.fixed_line(float(stage.pool.shift))
        elif type(stage.pool) is MaxPool:
            line = folded.fixed_line(0.0)
        elif type(stage.pool) is EntropyMax:
            shift, line = "delta", folded.moving_line()
        else:
            raise stage.refuse(
                f"{_kind(stage.pool)} as a pool; expected MaxPool, MeanPool, EntropyMax, EntropyMean or MeasuredMax"
            )
        self.add("bilinear_pool", {"weight": folded.words, "line": line}, outputs=len(line), pool=pool, shift=shift)
        self.on_points = False

    def _last_bits_stage(self, stage: _Stage) -> None:
        """bilinear_float: bits to the floats that a float layer, a matrix or the logits need."""
        if self.on_points:
            raise stage.refuse(
                "a 1-bit layer whose values at every point are needed as floats; expected a float layer there "
                "(binary_first only without T-Nets)"
            )
        p, q = _line(stage)
        words = pack_bits(_weight_bits(stage))
        line = _rounded(stage, torch.stack([p, q], dim=1), np.float32)
        self.add("bilinear_float", {"weight": words, "line": line}, outputs=len(line), activation=_activation(stage))
        self.bits = False


def _kind(module: Any) -> str:
    return type(module).__name__


def _activation(stage: _Stage) -> str:
    return {type(None): "none", nn.ReLU: "relu", nn.Hardtanh: "hardtanh"}[type(stage.activation)]


def _rounded(stage: _Stage, values: Tensor, dtype: type[np.floating]) -> np.ndarray:
    """Values of float64, rounded once."""
    with np.errstate(over="ignore"):
        rounded = values.numpy().astype(dtype)
    if not np.isfinite(rounded).all():
        remedy = "; export with last='f32'" if dtype is np.float16 else ""
        largest = float(values.abs().max())
        raise stage.refuse(
            f"a number of size {largest:.3g} once BatchNorm is folded; expected one that {dtype.__name__} holds{remedy}"
        )
    return rounded


def _check(stage: _Stage, width: int) -> None:
    """Refuse a stage that the format cannot say."""
    linear: Any = stage.linear
    if not stage.binary and type(linear) is not nn.Linear:
        raise stage.refuse(f"a {_kind(linear)}; expected nn.Linear or BinaryLinear")
    outputs, inputs = linear.weight.shape
    if max(inputs, outputs) > WIDEST:
        raise stage.refuse(f"{inputs} inputs and {outputs} outputs; expected at most {WIDEST}")
    if inputs != width:
        raise stage.refuse(f"{inputs} inputs; expected {width}, the outputs of what stands before it")
    if stage.norm is not None and (not isinstance(stage.norm, nn.BatchNorm1d) or stage.norm.running_mean is None):
        raise stage.refuse(f"a {_kind(stage.norm)} as norm; expected BatchNorm1d with running statistics")
    activation = stage.activation
    if type(activation) not in (type(None), nn.ReLU, nn.Hardtanh):
        raise stage.refuse(f"{_kind(activation)} as activation; expected Hardtanh or ReLU")
    if isinstance(activation, nn.Hardtanh) and (activation.min_val, activation.max_val) != (-1, 1):
        raise stage.refuse(f"Hardtanh from {activation.min_val} to {activation.max_val}; expected -1 to 1")
    if stage.binary:
        _check_method(stage)


def _check_method(stage: _Stage) -> None:
    """Refuse a layer that is anything else than scale * (sign(A) . sign(W)^T) + bias with a scale a layer or a channel.

    The layer itself is asked: its output at random inputs, of sizes from 0.01 to 100, must be that of the formula.
    """
    layer: Any = stage.linear
    method, scale = layer.method, layer.method.scale(layer)
    plain = type(method).binarize_input is Method.binarize_input and scale.shape in ((), (layer.out_features,))
    if plain:
        random = torch.Generator().manual_seed(0)
        x = torch.randn(16, layer.in_features, generator=random, dtype=torch.float64)
        x *= torch.logspace(-2, 2, 16, dtype=torch.float64).unsqueeze(1)
        z = hard_sign(x) @ method.binarize_weight(layer.weight).T * scale  # (16, M)
        plain = torch.allclose(layer(x), z if layer.bias is None else z + layer.bias, rtol=1e-9, atol=1e-12)
    if not plain:
        raise stage.refuse(
            f"the method {_kind(method)} does not fold into a threshold; expected sign(A) . sign(W)^T with one scale "
            "a layer or an output, as BNN and LSR have"
        )


def _norm_line(stage: _Stage) -> tuple[Tensor, Tensor]:
    """t and h - t m: BatchNorm as a line, or 1 and 0; two (M,)."""
    norm: Any = stage.norm
    if norm is None:
        ones = torch.ones(len(stage.linear.weight), dtype=torch.float64)  # pyright: ignore
        return ones, torch.zeros_like(ones)
    slope = torch.rsqrt(norm.running_var + norm.eps)
    slope = slope if norm.weight is None else norm.weight * slope
    offset = -norm.running_mean * slope
    return slope, offset if norm.bias is None else offset + norm.bias


def _line(stage: _Stage) -> tuple[Tensor, Tensor]:
    """p and q of y = p z + q; two (M,)."""
    layer: Any = stage.linear
    slope, offset = _norm_line(stage)
    bias = 0.0 if layer.bias is None else layer.bias
    return slope * layer.method.scale(layer), slope * bias + offset


def _weight_bits(stage: _Stage) -> np.ndarray:
    layer: Any = stage.linear
    return (layer.method.binarize_weight(layer.weight) > 0).numpy()  # (M, K)


def _values(stage: _Stage, z: Tensor) -> np.ndarray:
    """The layer's own arithmetic from the product on: (R, M) of integers -> (R, M)."""
    layer: Any = stage.linear
    y = z * layer.method.scale(layer)
    y = y if layer.bias is None else y + layer.bias
    return (y if stage.norm is None else stage.norm(y)).numpy()


def _fold(stage: _Stage) -> "_Folded":
    """The layer with its falling rows flipped."""
    bits = _weight_bits(stage)
    columns = bits.shape[1]
    p, q = (part.numpy() for part in _line(stage))
    rising = np.where(p < 0, -1.0, 1.0)  # (M,)
    z = (2.0 * np.arange(columns + 1) - columns)[:, None] * rising  # (K + 1, M)
    values = _values(stage, torch.from_numpy(z))
    if not np.isfinite(values).all():
        raise stage.refuse("its outputs are not finite; expected BatchNorm with a variance of at least 0")
    return _Folded(stage, pack_bits(bits ^ (rising < 0)[:, None]), values, np.abs(p), q)


@dataclass(frozen=True)
class _Folded:
    """A 1-bit layer whose rows all rise with the count.

    words: its weights, (M, ceil(K / 64)). values: y at every count c, (K + 1, M). p, q: the line y = p z + q, p >= 0.
    """

    stage: _Stage
    words: np.ndarray
    values: np.ndarray
    p: np.ndarray
    q: np.ndarray

    def thresholds(self, d: float) -> np.ndarray:
        """T for a fixed d, from 0 to K + 1: the number of counts whose value is below d; (M,)."""
        bits = self.values >= d
        threshold = len(bits) - bits.sum(axis=0)
        assert (bits == (np.arange(len(bits))[:, None] >= threshold)).all(), (
            f"{self.stage.name}: y falls with the count"
        )
        return threshold

    def fixed_line(self, d: float) -> np.ndarray:
        """A line that is T, whatever the number of points: (M, 2)."""
        threshold = self.thresholds(d)
        return np.stack([threshold, np.zeros_like(threshold)], axis=1).astype(np.float32)

    def mean_line(self) -> np.ndarray:
        """(a, 0), float64. Where a is all but an integer, y there says on which side of it the layer's own zero is."""
        columns = len(self.values) - 1
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            a = np.clip((columns - self.q / self.p) / 2, 0, columns + 1)
        a = np.where(self.values[0] >= 0, 0.0, np.where(self.values[-1] < 0, columns + 1.0, a))
        whole = np.rint(a)
        reached = self.values[np.minimum(whole, columns).astype(int), np.arange(len(a))] >= 0
        sided = np.where(reached, whole, np.nextafter(whole, np.inf))
        near = (np.abs(a - whole) < 1e-9) & (whole <= columns)
        return np.stack([np.where(near, sided, a), np.zeros_like(a)], axis=1)

    def moving_line(self) -> np.ndarray:
        """(a, b) with ceil(a + b delta(n)) the right threshold for every n up to MOST_POINTS: (M, 2)."""
        columns = len(self.values) - 1
        # A count c is enough for n points just where delta(n) <= y(c): for the first reach[c] of all n.
        reach = np.searchsorted(_deltas(), self.values, side="right")  # (K + 1, M)
        for dtype in (np.float32, np.float64):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                b = 1 / (2 * self.p)
                line = np.stack([columns / 2 - self.q * b, b], axis=1).astype(dtype)  # (M, 2)
            for row in np.flatnonzero(~_holds(line, reach)):
                line[row] = _fit_line(line[row], reach[:, row], float(self.q[row]))
            if _holds(line, reach).all():
                return line
        raise self.stage.refuse("thresholds that no line in float64 gives; expected p z + q of ordinary size")


@lru_cache(maxsize=1)
def _deltas() -> np.ndarray:
    """delta(n) for n = 1 ... MOST_POINTS, rising."""
    return np.array([delta(n) for n in range(1, MOST_POINTS + 1)])


def _holds(line: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Which rows of lines (..., 2) give thresholds T(n) with c >= T(n) for the first reach[c] numbers n and no other.

    As T rises with n, that is T <= c at the last of them and T > c at the next. reach: (K + 1, ...).
    """
    deltas = _deltas()
    a, b = line[..., 0].astype(np.float64), line[..., 1].astype(np.float64)
    count = np.arange(len(reach)).reshape(-1, *[1] * a.ndim)
    with np.errstate(invalid="ignore", over="ignore"):
        inside = np.ceil(a + b * deltas[np.maximum(reach - 1, 0)]) <= count
        outside = np.ceil(a + b * deltas[np.minimum(reach, MOST_POINTS - 1)]) > count
    good = ((reach == 0) | inside) & ((reach == MOST_POINTS) | outside)
    return good.all(axis=0) & np.isfinite(a) & np.isfinite(b)


def _fit_line(line: np.ndarray, reach: np.ndarray, q: float) -> np.ndarray:
    """A line (2,) of the dtype of `line`, and near it, that holds for reach (K + 1,); `line` itself if none is found.

    For a given a, the conditions a + b delta(last reached) <= c < a + b delta(next) bound b from both sides; the
    numbers around a are tried, each with b in the middle.
    """
    deltas, count = _deltas(), np.arange(len(reach))
    some, more = reach > 1, (reach > 0) & (reach < MOST_POINTS)  # delta(1) = 0 says nothing of b
    for ulps in (0, 1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 8, -8):
        a = line[0] + ulps * np.spacing(line[0])
        if not np.isfinite(a):
            break
        most = np.min((count[some] - float(a)) / deltas[reach[some] - 1], initial=np.inf)
        least = np.max((count[more] - float(a)) / deltas[reach[more]], initial=-np.inf)
        bounded = np.isfinite(most) and np.isfinite(least)
        b = (most + least) / 2 if bounded else np.clip(float(line[1]), least, most)
        tried = np.array([a, b]).astype(line.dtype)
        if _holds(tried, reach):
            return tried
    step = _step_line(reach, q).astype(line.dtype)
    return step if _holds(step, reach) else line


def _step_line(reach: np.ndarray, q: float) -> np.ndarray:
    """For a channel all but constant in c: a line so steep that T goes from under 0 to over K where delta passes q."""
    deltas, columns, last = _deltas(), len(reach) - 1, int(reach[0])
    if last == 0:
        return np.array([columns + 1.0, 0.0])
    below = deltas[last - 1]
    above = deltas[last] if last < MOST_POINTS else max(2 * q - below, below + 1e-5)
    b = 4 * columns / (above - below)
    return np.array([-b * (below + above) / 2, b])


def _layer_stage(name: str, layer: nn.Module) -> _Stage:
    """A stage from linear -> [norm] -> activation as a Sequential."""
    steps = list(layer.children()) if isinstance(layer, nn.Sequential) else []
    norm: Any = steps.pop(1) if len(steps) > 1 and isinstance(steps[1], nn.BatchNorm1d) else None
    if len(steps) != 2:
        raise UserError(
            f"{name}: a {_kind(layer)} of {', '.join(map(_kind, layer.children()))}; expected a linear layer, "
            "BatchNorm or none, and an activation"
        )
    return _Stage(f"{name}.0", steps[0], norm, steps[1])


def _layer_stages(name: str, layers: nn.Sequential) -> list[_Stage]:
    return [_layer_stage(f"{name}.{i}", layer) for i, layer in enumerate(layers)]


def _pooled_stages(name: str, layer: nn.Module) -> list[_Stage]:
    if not isinstance(layer, PooledLayer):
        raise UserError(f"{name}: a {_kind(layer)}; expected a PooledLayer")
    return [_Stage(name, layer.linear, layer.norm, layer.activation, layer.pool)]


def _trunk(name: str, net: TNet | PointNet) -> list[_Stage]:
    """What a T-Net and the rest of PointNet have in common: points, pool, head."""
    return [
        *_layer_stages(f"{name}points", net.points),
        *_pooled_stages(f"{name}pooled", net.pooled),
        *_layer_stages(f"{name}head", net.head),
    ]


def _pointnet(program: _Program, net: PointNet) -> int:
    """PointNet's program; returns the numbers a point.

    With T-Nets it is three passes over the points: one for each matrix, and one for the logits. Nothing is kept between
    them but the matrices, as the first layers cost less than storing their outputs.
    """
    first, last = _layer_stage("first", net.first), _Stage("last", net.last)
    channels = int(first.linear.weight.shape[1])  # pyright: ignore
    if type(net.dropout) not in (nn.Identity, nn.Dropout):
        raise UserError(f"dropout: a {_kind(net.dropout)}; expected nn.Identity or nn.Dropout")
    if net.input_transform is not None and net.feature_transform is not None:
        program.start(channels)
        _tnet(program, "input_transform.", net.input_transform, [])
        program.start(channels)
        program.transform(0)
        _tnet(program, "feature_transform.", net.feature_transform, [first])
        program.start(channels)
        program.transform(0)
        program.run([first])
        program.transform(1)
        program.run(_trunk("", net), then_bits=last.binary)
    else:
        program.start(channels)
        program.run([first, *_trunk("", net)], then_bits=last.binary)
    program.run_last(last)
    return channels


def _tnet(program: _Program, name: str, net: TNet, before: list[_Stage]) -> None:
    """The stages before a T-Net, the T-Net itself, and its matrix."""
    if net.size > LARGEST_MATRIX:
        raise UserError(f"{name}last: a matrix of size {net.size}; expected at most {LARGEST_MATRIX}")
    program.run([*before, *_trunk(name, net), _Stage(f"{name}last", net.last)])
    program.keep_matrix(net.size)


def _walker(model: nn.Module) -> tuple[str, Callable[[_Program, Any], int]]:
    """The backbone's name and what writes its program."""
    if type(model).forward is PointNet.forward:  # a subclass with another one is another network
        assert isinstance(model, PointNet)
        return "pointnet-vanilla" if model.input_transform is None else "pointnet", _pointnet
    raise UserError(
        f"the network is a {_kind(model)}; expected a PointNet, the only backbone that can be packed so far"
    )
