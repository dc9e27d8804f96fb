"""Write the program of a packed file: the stages of a network become operations and tensors (docs/format.md).

Each stage (linear, norm, activation, pool) produces what the next stage reads: bits, with everything in between folded
into integer thresholds (fold.py), or floats.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.nn import EntropyMax, MaxPool, MeanPool, MeasuredMax, hard_sign
from bipointnet.packing.bits import pack_bits
from bipointnet.packing.fold import Stage, fold_thresholds, norm_line, weight_bits
from bipointnet.packing.fold import line as stage_line

WIDEST = 32766  # inputs or outputs of a layer: K + 1 must fit a 16-bit threshold


class Program:
    """The operations and tensors written so far, and the state of the value after them.

    ops: operations, as in the manifest. tensors: by name, such as "3.weight" for operation 3. bits: whether the current
    value consists of bits. width: its channels. kept: widths of the values kept for `join`.
    last_dtype: of the weights of a float last layer.

        program = Program(np.float16)
        program.start(3)  # a pass over the points, which have 3 channels
        program.write_stages([first, second], reader=third)  # writes first and second; third reads their result
    """

    def __init__(self, last_dtype: type[np.floating]) -> None:
        self.last_dtype = last_dtype
        self.ops: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.bits = False
        self.width = 0
        self.kept: list[int] = []

    def add(self, op: str, tensors: dict[str, np.ndarray] | None = None, **fields: Any) -> None:
        """Append one operation."""
        for name, tensor in (tensors or {}).items():
            self.tensors[f"{len(self.ops)}.{name}"] = np.ascontiguousarray(tensor)
        self.ops.append({"op": op, **fields})
        self.width = fields.get("outputs", self.width)

    def start(self, channels: int) -> None:
        """Start a pass over the points."""
        self.add("points")
        self.bits, self.width = False, channels

    def transform(self, matrix: int) -> None:
        """Multiply the points by a kept matrix."""
        self.add("transform", matrix=matrix)

    def keep_matrix(self, size: int) -> None:
        """Keep the current value as a matrix (size, size)."""
        self.add("matrix", size=size)

    def keep(self, reader: Stage | None = None) -> None:
        """Keep the bits of the current value for `join`; `reader` is the 1-bit layer that reads them next, if any.

        Several layers read these bits, so all of them must binarize the value in the same way.
        """
        if reader is not None and not self.bits:
            self._binarize(reader)
        self.add("keep")
        self.kept.append(self.width)

    def category(self, count: int) -> None:
        """Keep the category of the cloud, as one bit per category."""
        self.add("category")
        self.width, self.bits = count, True
        self.keep()

    def join(self) -> None:
        """Concatenate all kept values at every point."""
        self.add("join", kept=list(range(len(self.kept))))
        self.width, self.bits = sum(self.kept), True

    def write_stages(self, stages: Sequence[Stage], reader: Stage | None = None) -> None:
        """Write stages in order; `reader` is the stage that reads the result, None if no stage does."""
        for stage, following in zip(stages, [*stages[1:], reader], strict=True):
            self._stage(stage, following)

    def write_last(self, stage: Stage) -> None:
        """Write the stage whose outputs are the logits."""
        self._stage(stage, None, self.last_dtype)

    def write_pooled(self, stage: Stage, reader: Stage) -> None:
        """Write a 1-bit layer whose outputs `reader` reads twice: per point, and pooled per cloud."""
        _check(stage, self.width)
        if not self.bits:
            self._binarize(stage)
        self._pooled_bits(stage, reader, fold_thresholds(stage).thresholds(reader.binarize_input).astype(np.int16))
        self.kept.append(self.width)

    def _stage(self, stage: Stage, reader: Stage | None, weights: type[np.floating] = np.float32) -> None:
        _check(stage, self.width)
        if reader is not None and (not reader.binary or reader.scales_points):
            reader = None
        if not stage.binary:
            self._float_stage(stage, reader, weights)
            return
        if not self.bits:
            self._binarize(stage)
        if stage.scales_points or reader is None:
            self._floats_of_bits(stage)
        elif stage.pool is not None:
            self._pooled_bits(stage, reader)
        else:
            self._bits_of_bits(stage, reader)

    def _binarize(self, stage: Stage) -> None:
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
        """dense, and the float pool if there is one. In front of a sign Hardtanh is dropped."""
        if self.bits:
            raise stage.error("a float layer that reads bits; expected a float layer in front of it")
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
                raise stage.error(f"{kind(stage.pool)} over a float layer; expected MaxPool, MeanPool or EntropyMax")
            self._pool(stage.pool)

    def _pool(self, pool: nn.Module) -> None:
        self.add("pool", pool="mean" if isinstance(pool, MeanPool) else "max")
        if type(pool) is EntropyMax:
            self.add("shift")

    def _bits_of_bits(self, stage: Stage, reader: Stage) -> None:
        """bilinear: bits to bits."""
        activation = _activation(stage)
        if activation == "relu":
            raise stage.error("ReLU in front of a sign makes every bit 1; expected Hardtanh")
        folded = fold_thresholds(stage)
        clipped = activation == "hardtanh"
        threshold = folded.thresholds(lambda y: reader.binarize_input(np.clip(y, -1, 1) if clipped else y))
        self.add("bilinear", {"weight": folded.words, "threshold": threshold.astype(np.int16)}, outputs=len(threshold))

    def _pooled_bits(self, stage: Stage, reader: Stage, threshold: np.ndarray | None = None) -> None:
        """bilinear_pool: bits per point to bits per cloud. With a threshold, the bits per point are kept too."""
        folded, pool, shift = fold_thresholds(stage), "max", "none"
        fixed = _fixed_shift(stage)
        if isinstance(stage.pool, MeanPool):
            pool, line = "mean", folded.minus(reader.input_threshold).mean_line()
        elif fixed is not None:
            line = folded.fixed_line(lambda y: reader.binarize_input(y - fixed))
        else:
            shift, line = "delta", folded.minus(reader.input_threshold).moving_line()
        tensors = {"weight": folded.words, "line": line}
        tensors |= {} if threshold is None else {"threshold": threshold}
        self.add("bilinear_pool", tensors, outputs=len(line), pool=pool, shift=shift)

    def _floats_of_bits(self, stage: Stage) -> None:
        """bilinear_float or bilinear_scaled: bits to floats, and the float pool if there is one."""
        p, q = stage_line(stage)
        fixed = _fixed_shift(stage) if stage.pool is not None else None
        line = _rounded(stage, torch.stack([p, q - (fixed or 0.0)], dim=1), np.float32)
        tensors = {"weight": pack_bits(weight_bits(stage)), "line": line}
        op = "bilinear_scaled" if stage.scales_points else "bilinear_float"
        self.add(op, tensors, outputs=len(line), activation=_activation(stage))
        self.bits = False
        if stage.pool is not None:
            self._pool(stage.pool)


def _fixed_shift(stage: Stage) -> float | None:
    """The constant that the pool of a 1-bit layer subtracts from a maximum; None if it depends on n, or for a mean."""
    pool = stage.pool
    if stage.activation is not None:
        raise stage.error(f"{kind(stage.activation)} between a 1-bit layer and its pool; expected no activation")
    if isinstance(pool, MeanPool) or type(pool) is EntropyMax:
        return None
    if isinstance(pool, MeasuredMax):
        return float(pool.shift)
    if type(pool) is MaxPool:
        return 0.0
    raise stage.error(f"{kind(pool)} as a pool; expected MaxPool, MeanPool, EntropyMax, EntropyMean or MeasuredMax")


def kind(module: Any) -> str:
    """The name of a module's class, for error messages."""
    return type(module).__name__


def _activation(stage: Stage) -> str:
    """The name of the activation in the format."""
    return {type(None): "none", nn.ReLU: "relu", nn.Hardtanh: "hardtanh"}[type(stage.activation)]


def _rounded(stage: Stage, values: Tensor, dtype: type[np.floating]) -> np.ndarray:
    """float64 values, rounded once."""
    with np.errstate(over="ignore"):
        rounded = values.numpy().astype(dtype)
    if not np.isfinite(rounded).all():
        remedy = "; export with last='f32'" if dtype is np.float16 else ""
        largest = float(values.abs().max())
        raise stage.error(
            f"a value of size {largest:.3g} after folding BatchNorm; expected the range of {dtype.__name__}{remedy}"
        )
    return rounded


def _check(stage: Stage, width: int) -> None:
    """Raise UserError for a stage that the format cannot express."""
    linear: Any = stage.linear
    if not stage.binary and type(linear) is not nn.Linear:
        raise stage.error(f"a {kind(linear)}; expected nn.Linear or BinaryLinear")
    outputs, inputs = linear.weight.shape
    if max(inputs, outputs) > WIDEST:
        raise stage.error(f"{inputs} inputs and {outputs} outputs; expected at most {WIDEST}")
    if inputs != width:
        raise stage.error(f"{inputs} inputs; expected {width}, the outputs of the layer before it")
    if stage.norm is not None and (not isinstance(stage.norm, nn.BatchNorm1d) or stage.norm.running_mean is None):
        raise stage.error(f"a {kind(stage.norm)} as norm; expected BatchNorm1d with running statistics")
    activation = stage.activation
    if type(activation) not in (type(None), nn.ReLU, nn.Hardtanh):
        raise stage.error(f"{kind(activation)} as activation; expected Hardtanh or ReLU")
    if isinstance(activation, nn.Hardtanh) and (activation.min_val, activation.max_val) != (-1, 1):
        raise stage.error(f"Hardtanh from {activation.min_val} to {activation.max_val}; expected -1 to 1")
    if stage.binary:
        _check_method(stage)


def _check_method(stage: Stage) -> None:
    """Raise UserError unless a layer is a product of +-1 with a bias and scales per layer, per output or per point.

    The layer's output for random inputs, of sizes from 0.01 to 100, must equal the formula.
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
        raise stage.error(
            f"the method {kind(method)} is not a product of signs with scales; expected a layer that computes what the "
            "methods of bipointnet.nn.METHODS compute"
        )
