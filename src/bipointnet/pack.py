"""Export: a trained network becomes a packed file (docs/format.md) that the core runs without PyTorch.

A network is walked stage by stage (linear, norm, activation, pool), and each stage is written as what the next one
reads: as bits, with everything in between folded into integer thresholds (fold.py), or as floats.
"""

import copy
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from torch import Tensor, nn

from bipointnet import _core, checkpoint, reference
from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.fold import Stage, fold, norm_line, weight_bits
from bipointnet.fold import line as line_of
from bipointnet.models import PointNet
from bipointnet.models.pointnet import TNet
from bipointnet.nn import EntropyMax, MaxPool, MeanPool, MeasuredMax, PooledLayer, hard_sign
from bipointnet.reference import Packed, golden_cloud, pack_bits, run_program

FORMAT = 1
WIDEST = 32766  # inputs or outputs of a layer: K + 1 must fit a 16-bit threshold
LARGEST_MATRIX = 181  # its square is a width
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
    program = packed.manifest["program"]
    taken = [(v, op) for v, op in zip(values, program[1:], strict=False) if op["op"] in reference.SIGNS]
    read = [v - np.float32(op.get("at", 0)) for v, op in taken]
    return min((_clearance(v) for v in read), default=math.inf)


def _clearance(x: np.ndarray) -> float:
    """How near 0 the numbers come, relative to the largest. Exact zeros are constant channels, and safe."""
    sizes = np.abs(x[x != 0])
    return float(sizes.min() / sizes.max()) if sizes.size else math.inf


class _Program:
    """Operations and their tensors, written one stage after the other, and what the current value is.

    last: dtype of the weights of a float last layer.
    """

    def __init__(self, last: type[np.floating]) -> None:
        self.last = last
        self.ops: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.bits = False
        self.width = 0

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

    def run(self, stages: Sequence[Stage], reader: Stage | None = None) -> None:
        """All stages in order; `reader` is the one that reads what they leave, None where it is no stage."""
        for stage, following in zip(stages, [*stages[1:], reader], strict=True):
            self._stage(stage, following)

    def run_last(self, stage: Stage) -> None:
        """The stage whose outputs are the logits."""
        self._stage(stage, None, self.last)

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
                raise stage.refuse(f"{_kind(stage.pool)} over a float layer; expected MaxPool, MeanPool or EntropyMax")
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

    def _pooled_bits(self, stage: Stage, reader: Stage) -> None:
        """bilinear_pool: bits of points to bits of the cloud."""
        folded, pool, shift = fold(stage), "max", "none"
        fixed = _fixed_shift(stage)
        if isinstance(stage.pool, MeanPool):
            pool, line = "mean", folded.less(reader.input_threshold).mean_line()
        elif fixed is not None:
            line = folded.fixed_line(lambda y: reader.takes(y - fixed))
        else:
            shift, line = "delta", folded.less(reader.input_threshold).moving_line()
        self.add("bilinear_pool", {"weight": folded.words, "line": line}, outputs=len(line), pool=pool, shift=shift)

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
        raise stage.refuse(f"{_kind(stage.activation)} between a 1-bit layer and its pool; expected nothing")
    if isinstance(pool, MeanPool) or type(pool) is EntropyMax:
        return None
    if isinstance(pool, MeasuredMax):
        return float(pool.shift)
    if type(pool) is MaxPool:
        return 0.0
    raise stage.refuse(f"{_kind(pool)} as a pool; expected MaxPool, MeanPool, EntropyMax, EntropyMean or MeasuredMax")


def _kind(module: Any) -> str:
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
            f"the method {_kind(method)} is not a product of signs with scales; expected what the methods of "
            "bipointnet.nn.METHODS compute"
        )


def _layer_stage(name: str, layer: nn.Module) -> Stage:
    """A stage from linear -> [norm] -> activation as a Sequential."""
    steps = list(layer.children()) if isinstance(layer, nn.Sequential) else []
    norm: Any = steps.pop(1) if len(steps) > 1 and isinstance(steps[1], nn.BatchNorm1d) else None
    if len(steps) != 2:
        raise UserError(
            f"{name}: a {_kind(layer)} of {', '.join(map(_kind, layer.children()))}; expected a linear layer, "
            "BatchNorm or none, and an activation"
        )
    return Stage(f"{name}.0", steps[0], norm, steps[1])


def _layer_stages(name: str, layers: nn.Sequential) -> list[Stage]:
    return [_layer_stage(f"{name}.{i}", layer) for i, layer in enumerate(layers)]


def _pooled_stages(name: str, layer: nn.Module) -> list[Stage]:
    if not isinstance(layer, PooledLayer):
        raise UserError(f"{name}: a {_kind(layer)}; expected a PooledLayer")
    activation = None if type(layer.activation) is nn.Identity else layer.activation
    return [Stage(name, layer.linear, layer.norm, activation, layer.pool)]


def _trunk(name: str, net: TNet | PointNet) -> list[Stage]:
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
    first, last = _layer_stage("first", net.first), Stage("last", net.last)
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
        program.run(_trunk("", net), reader=last)
    else:
        program.start(channels)
        program.run([first, *_trunk("", net)], reader=last)
    program.run_last(last)
    return channels


def _tnet(program: _Program, name: str, net: TNet, before: list[Stage]) -> None:
    """The stages before a T-Net, the T-Net itself, and its matrix."""
    if net.size > LARGEST_MATRIX:
        raise UserError(f"{name}last: a matrix of size {net.size}; expected at most {LARGEST_MATRIX}")
    program.run([*before, *_trunk(name, net), Stage(f"{name}last", net.last)])
    program.keep_matrix(net.size)


def _walker(model: nn.Module) -> tuple[str, Callable[[_Program, Any], int]]:
    """The backbone's name and what writes its program."""
    if type(model).forward is PointNet.forward:  # a subclass with another one is another network
        assert isinstance(model, PointNet)
        return "pointnet-vanilla" if model.input_transform is None else "pointnet", _pointnet
    raise UserError(
        f"the network is a {_kind(model)}; expected a PointNet, the only backbone that can be packed so far"
    )
