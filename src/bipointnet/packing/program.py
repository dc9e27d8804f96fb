"""Writes the program of a packed file: stages of a network become operations and their tensors (docs/format.md).

Each stage (linear, norm, activation, pool) is written as what the next one reads: as bits, with everything in between
folded into integer thresholds (fold.py), or as floats.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.nn import EntropyMax, MaxPool, MeanPool, MeasuredMax, hard_sign
from bipointnet.packing.fold import Stage, fold, norm_line, weight_bits
from bipointnet.packing.fold import line as line_of
from bipointnet.runtime.reference import pack_bits

WIDEST = 32766  # inputs or outputs of a layer: K + 1 must fit a 16-bit threshold


class Program:
    """Operations and their tensors, written one stage after the other, and what the current value is.

    last: dtype of the weights of a float last layer.
    """

    def __init__(self, last: type[np.floating]) -> None:
        self.last = last
        self.ops: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.bits = False
        self.width = 0
        self.kept: list[int] = []  # widths

    def add(self, op: str, tensors: dict[str, np.ndarray] | None = None, **fields: Any) -> None:
        for name, tensor in (tensors or {}).items():
            self.tensors[f"{len(self.ops)}.{name}"] = np.ascontiguousarray(tensor)
        self.ops.append({"op": op, **fields})
        self.width = fields.get("outputs", self.width)

    def start(self, channels: int) -> None:
        """A new pass over the points."""
        self.add("points")
        self.bits, self.width = False, channels

    def transform(self, matrix: int) -> None:
        self.add("transform", matrix=matrix)

    def keep_matrix(self, size: int) -> None:
        self.add("matrix", size=size)

    def keep(self, reader: Stage | None = None) -> None:
        """Remember the bits of the current value for `join`; `reader` is the 1-bit layer that reads them next, if any.

        Several layers read these bits, so all must take the same ones.
        """
        if reader is not None and not self.bits:
            self._take_bits(reader)
        self.add("keep")
        self.kept.append(self.width)

    def category(self, count: int) -> None:
        """The category of the cloud, as bits that are remembered."""
        self.add("category")
        self.width, self.bits = count, True
        self.keep()

    def join(self) -> None:
        """All that was remembered, side by side at every point."""
        self.add("join", kept=list(range(len(self.kept))))
        self.width, self.bits = sum(self.kept), True

    def run(self, stages: Sequence[Stage], reader: Stage | None = None) -> None:
        """All stages in order; `reader` is the one that reads what they leave, None where it is no stage."""
        for stage, following in zip(stages, [*stages[1:], reader], strict=True):
            self._stage(stage, following)

    def run_last(self, stage: Stage) -> None:
        """The stage whose outputs are the logits."""
        self._stage(stage, None, self.last)

    def run_pooled(self, stage: Stage, reader: Stage) -> None:
        """A 1-bit layer whose outputs `reader` reads both at every point and, pooled, of the cloud."""
        _check(stage, self.width)
        if not self.bits:
            self._take_bits(stage)
        self._pooled_bits(stage, reader, fold(stage).thresholds(reader.takes).astype(np.int16))
        self.kept.append(self.width)

    def _stage(self, stage: Stage, reader: Stage | None, weights: type[np.floating] = np.float32) -> None:
        _check(stage, self.width)
        if reader is not None and (not reader.binary or reader.scales_points):
            reader = None
        if not stage.binary:
            self._float_stage(stage, reader, weights)
            return
        if not self.bits:
            self._take_bits(stage)
        if stage.scales_points or reader is None:
            self._floats_of_bits(stage)
        elif stage.pool is not None:
            self._pooled_bits(stage, reader)
        else:
            self._bits_of_bits(stage, reader)

    def _take_bits(self, stage: Stage) -> None:
        """sign, compare or sign_scaled: the bits that a 1-bit layer reads."""
        at = float(np.float32(stage.input_threshold))
        if stage.scales_points:
            self.add("sign_scaled")
        elif at == 0:
            self.add("sign")
        else:
            self.add("compare", at=at)
        self.bits = True

    def _float_stage(self, stage: Stage, reader: Stage | None, weights: type[np.floating]) -> None:
        """dense, and the float pool if there is one. A sign reads through Hardtanh."""
        if self.bits:
            raise stage.refuse("a float layer behind bits; expected the layer in front of it to be float")
        activation = _activation(stage)
        if reader is not None and reader.input_threshold == 0 and stage.pool is None and activation == "hardtanh":
            activation = "none"
        slope, offset = norm_line(stage)
        linear: Any = stage.linear
        bias = 0.0 if linear.bias is None else linear.bias
        tensors = {
            "weight": _rounded(stage, slope.unsqueeze(1) * linear.weight, weights),
            "bias": _rounded(stage, slope * bias + offset, np.float32),
        }
        self.add("dense", tensors, outputs=len(linear.weight), activation=activation)
        if stage.pool is not None:
            if not isinstance(stage.pool, MeanPool) and type(stage.pool) not in (MaxPool, EntropyMax):
                raise stage.refuse(f"{kind(stage.pool)} over a float layer; expected MaxPool, MeanPool or EntropyMax")
            self._pool(stage.pool)

    def _pool(self, pool: nn.Module) -> None:
        self.add("pool", pool="mean" if isinstance(pool, MeanPool) else "max")
        if type(pool) is EntropyMax:
            self.add("shift")

    def _bits_of_bits(self, stage: Stage, reader: Stage) -> None:
        """bilinear: bits to bits."""
        activation = _activation(stage)
        if activation == "relu":
            raise stage.refuse("ReLU in front of a sign makes every bit 1; expected Hardtanh")
        folded = fold(stage)
        clipped = activation == "hardtanh"
        threshold = folded.thresholds(lambda y: reader.takes(np.clip(y, -1, 1) if clipped else y))
        self.add("bilinear", {"weight": folded.words, "threshold": threshold.astype(np.int16)}, outputs=len(threshold))

    def _pooled_bits(self, stage: Stage, reader: Stage, threshold: np.ndarray | None = None) -> None:
        """bilinear_pool: bits of points to bits of the cloud; those of points are remembered where they have a
        threshold.
        """
        folded, pool, shift = fold(stage), "max", "none"
        fixed = _fixed_shift(stage)
        if isinstance(stage.pool, MeanPool):
            pool, line = "mean", folded.less(reader.input_threshold).mean_line()
        elif fixed is not None:
            line = folded.fixed_line(lambda y: reader.takes(y - fixed))
        else:
            shift, line = "delta", folded.less(reader.input_threshold).moving_line()
        tensors = {"weight": folded.words, "line": line}
        tensors |= {} if threshold is None else {"threshold": threshold}
        self.add("bilinear_pool", tensors, outputs=len(line), pool=pool, shift=shift)

    def _floats_of_bits(self, stage: Stage) -> None:
        """bilinear_float or bilinear_scaled: bits to the floats that are needed, and the float pool if there is one."""
        p, q = line_of(stage)
        fixed = _fixed_shift(stage) if stage.pool is not None else None
        line = _rounded(stage, torch.stack([p, q - (fixed or 0.0)], dim=1), np.float32)
        tensors = {"weight": pack_bits(weight_bits(stage)), "line": line}
        op = "bilinear_scaled" if stage.scales_points else "bilinear_float"
        self.add(op, tensors, outputs=len(line), activation=_activation(stage))
        self.bits = False
        if stage.pool is not None:
            self._pool(stage.pool)


def _fixed_shift(stage: Stage) -> float | None:
    """What the pool of a 1-bit layer takes off a maximum: a number, or None where it moves or there is none."""
    pool = stage.pool
    if stage.activation is not None:
        raise stage.refuse(f"{kind(stage.activation)} between a 1-bit layer and its pool; expected nothing")
    if isinstance(pool, MeanPool) or type(pool) is EntropyMax:
        return None
    if isinstance(pool, MeasuredMax):
        return float(pool.shift)
    if type(pool) is MaxPool:
        return 0.0
    raise stage.refuse(f"{kind(pool)} as a pool; expected MaxPool, MeanPool, EntropyMax, EntropyMean or MeasuredMax")


def kind(module: Any) -> str:
    """What an error message calls it."""
    return type(module).__name__


def _activation(stage: Stage) -> str:
    return {type(None): "none", nn.ReLU: "relu", nn.Hardtanh: "hardtanh"}[type(stage.activation)]


def _rounded(stage: Stage, values: Tensor, dtype: type[np.floating]) -> np.ndarray:
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


def _check(stage: Stage, width: int) -> None:
    """Refuse a stage that the format cannot say."""
    linear: Any = stage.linear
    if not stage.binary and type(linear) is not nn.Linear:
        raise stage.refuse(f"a {kind(linear)}; expected nn.Linear or BinaryLinear")
    outputs, inputs = linear.weight.shape
    if max(inputs, outputs) > WIDEST:
        raise stage.refuse(f"{inputs} inputs and {outputs} outputs; expected at most {WIDEST}")
    if inputs != width:
        raise stage.refuse(f"{inputs} inputs; expected {width}, the outputs of what stands before it")
    if stage.norm is not None and (not isinstance(stage.norm, nn.BatchNorm1d) or stage.norm.running_mean is None):
        raise stage.refuse(f"a {kind(stage.norm)} as norm; expected BatchNorm1d with running statistics")
    activation = stage.activation
    if type(activation) not in (type(None), nn.ReLU, nn.Hardtanh):
        raise stage.refuse(f"{kind(activation)} as activation; expected Hardtanh or ReLU")
    if isinstance(activation, nn.Hardtanh) and (activation.min_val, activation.max_val) != (-1, 1):
        raise stage.refuse(f"Hardtanh from {activation.min_val} to {activation.max_val}; expected -1 to 1")
    if stage.binary:
        _check_method(stage)


def _check_method(stage: Stage) -> None:
    """Refuse a layer that is anything else than a product of +-1 with a bias and scales a layer, an output and a point.

    The layer itself is asked: its output at random inputs, of sizes from 0.01 to 100, must be that of the formula.
    """
    layer: Any = stage.linear
    method, scale = layer.method, layer.method.scale(layer)
    plain = scale.shape in ((), (layer.out_features,))
    if plain:
        random = torch.Generator().manual_seed(0)
        x = torch.randn(16, layer.in_features, generator=random, dtype=torch.float64)
        x *= torch.logspace(-2, 2, 16, dtype=torch.float64).unsqueeze(1)
        z = hard_sign(x - method.input_threshold(layer)) @ method.binarize_weight(layer).T * scale  # (16, M)
        z = z * x.abs().mean(dim=1, keepdim=True) if method.scales_points else z
        plain = torch.allclose(layer(x), z if layer.bias is None else z + layer.bias, rtol=1e-9, atol=1e-12)
    if not plain:
        raise stage.refuse(
            f"the method {kind(method)} is not a product of signs with scales; expected what the methods of "
            "bipointnet.nn.METHODS compute"
        )
