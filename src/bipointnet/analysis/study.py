"""What a trained network does with its bits: entropy, scales, gradients that stop, distinct codes.

Everything is seen through forward hooks on bi-linear layers and T-Nets, wherever a network has them; no backbone is
known by name.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bipointnet.data.normalize import normalize
from bipointnet.evaluation import metrics
from bipointnet.evaluation.probe import bilinear_layers, evenly_spaced, signs_and_stops
from bipointnet.models.pointnet import TNet, orthogonality
from bipointnet.nn import BinaryLinear, fused_layers, in_full
from bipointnet.nn.hooks import hooked

BATCH, PROBED = 16, 16  # clouds in one pass, in the doubling of scales


class Layer(NamedTuple):
    """One bi-linear layer, over all points of all clouds.

    scale: standard deviation of its output. float_scale: of A . W'^T, the same inputs and centred weights in floats.
    zero_gradient: share of its inputs that pass no gradient back, in percent.
    codes: different rows of signs among the `rows` of a cloud, mean over clouds; where a cloud is one row, among all
    clouds. logits_moved, gradient_turned: what doubling its output does, see `double_scales`.
    """

    name: str
    inputs: int
    outputs: int
    scale: float
    float_scale: float
    zero_gradient: float
    codes: float
    rows: int
    logits_moved: float
    gradient_turned: float


class Transform(NamedTuple):
    """The matrices (M, size, size) of one T-Net.

    regularizer: mean of ||I - Z Z^T||_F. stretch: mean of their largest singular value, 1 for a rotation.
    """

    name: str
    size: int
    regularizer: float
    stretch: float
    matrices: np.ndarray


@dataclass(frozen=True)
class Study:
    """What a network does on M clouds. entropy: bits of each pooled channel (C,); pooled: its signs (M, C) as bool."""

    clouds: int
    accuracy: float
    entropy: np.ndarray
    pooled: np.ndarray
    layers: list[Layer]
    transforms: list[Transform]

    @property
    def zero_gradient(self) -> float | None:
        """Mean over the layers, in percent; None without a bi-linear layer."""
        return float(np.mean([layer.zero_gradient for layer in self.layers])) if self.layers else None

    @property
    def regularizer(self) -> float | None:
        """Of the largest T-Net, which is the one that training keeps near orthogonal; None without one."""
        return max(self.transforms, key=lambda t: t.size).regularizer if self.transforms else None


def distinct_rows(signs: np.ndarray) -> int:
    """Different rows of a (R, K) array of truth values."""
    packed = np.packbits(signs, axis=1)
    return len(set(packed.view(f"V{packed.shape[1]}").ravel().tolist()))


@dataclass
class Spread:
    """Standard deviation of all numbers shown to it."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, x: Tensor) -> None:
        self.count += x.numel()
        self.total += x.sum(dtype=torch.float64).item()
        self.squares += x.square().sum(dtype=torch.float64).item()

    @property
    def deviation(self) -> float:
        mean = self.total / max(self.count, 1)
        return math.sqrt(max(self.squares / max(self.count, 1) - mean**2, 0.0))


@dataclass
class _Tally:
    """What is gathered of one layer while batches pass."""

    output: Spread = field(default_factory=Spread)
    twin: Spread = field(default_factory=Spread)
    stopped: int = 0
    inputs: int = 0
    codes: list[int] = field(default_factory=list)
    single: list[np.ndarray] = field(default_factory=list)
    rows: int = 1

    def add(self, layer: BinaryLinear, x: Tensor, z: Tensor, clouds: int) -> None:
        self.output.add(z)
        self.twin.add(layer.product(x, layer.weight - layer.weight.mean()))
        signs, stops = signs_and_stops(layer, x)
        self.stopped += int(stops.sum())
        self.inputs += x.numel()
        signs = signs.reshape(clouds, -1, x.shape[-1]).cpu().numpy()  # (B, R, K)
        self.rows = signs.shape[1]
        if self.rows == 1:
            self.single.append(signs[:, 0])
        else:
            self.codes += [distinct_rows(cloud) for cloud in signs]


@torch.no_grad()
def study(
    model: nn.Module,
    clouds: np.ndarray,
    labels: np.ndarray,
    points: int,
    watch: Callable[[int, int], None] = lambda done, of: None,
) -> Study:
    """What `model` does on clouds (M, P, C) with labels (M,), each seen by its first `points`."""
    layers = bilinear_layers(model)
    transformers = {name: module for name, module in model.named_modules() if isinstance(module, TNet)}
    tallies = {name: _Tally() for name in layers}
    matrices: dict[str, list[Tensor]] = {name: [] for name in transformers}
    tensor = torch.from_numpy(np.ascontiguousarray(clouds[:, :points]))
    steps = -(-len(tensor) // BATCH) + len(layers)

    def see(name: str, module: nn.Module, x: Tensor, output: Tensor) -> None:
        if isinstance(module, BinaryLinear):
            tallies[name].add(module, x, output, len(part))
        else:
            matrices[name].append(output)

    outputs = []
    with in_full(model), hooked({**layers, **transformers}, see):
        for i, part in enumerate(tensor.split(BATCH)):
            outputs.append(model(normalize(part)))
            watch(i + 1, steps)
    pooled = torch.cat([output.pooled >= 0 for output in outputs]).numpy()
    guesses = torch.cat([output.logits for output in outputs]).argmax(dim=1).numpy()
    few = evenly_spaced(PROBED, len(tensor))
    doubled = double_scales(
        model, tensor[few], torch.from_numpy(labels[few]), lambda done: watch(steps - len(layers) + done, steps)
    )
    return Study(
        clouds=len(tensor),
        accuracy=100 * float((guesses == labels).mean()),
        entropy=metrics.bit_entropy(pooled),
        pooled=pooled,
        layers=[_layer(name, layers[name], tallies[name], *doubled[name]) for name in layers],
        transforms=[_transform(name, torch.cat(found)) for name, found in matrices.items()],
    )


def _layer(name: str, layer: BinaryLinear, tally: _Tally, logits_moved: float, gradient_turned: float) -> Layer:
    single = np.concatenate(tally.single) if tally.single else np.empty((0, layer.in_features), bool)
    return Layer(
        name=name,
        inputs=layer.in_features,
        outputs=layer.out_features,
        scale=tally.output.deviation,
        float_scale=tally.twin.deviation,
        zero_gradient=100 * tally.stopped / max(tally.inputs, 1),
        codes=float(np.mean(tally.codes)) if tally.codes else float(distinct_rows(single)),
        rows=len(single) or tally.rows,
        logits_moved=logits_moved,
        gradient_turned=gradient_turned,
    )


def _transform(name: str, matrices: Tensor) -> Transform:
    stretch = torch.linalg.matrix_norm(matrices, ord=2).mean().item()
    return Transform(name, matrices.shape[-1], orthogonality(matrices).item(), stretch, matrices.numpy())


def double_scales(
    model: nn.Module, clouds: Tensor, labels: Tensor, watch: Callable[[int], None] = lambda done: None
) -> dict[str, tuple[float, float]]:
    """What the scale of each bi-linear layer's output matters in training: the output doubled, one layer at a time.

    For each layer: by how much the logits move, in percent of their norm, and by how many degrees the gradient of the
    layer's own weights turns (its length is nothing to Adam). BatchNorm behind a layer makes both zero: there a scale
    has no effect. Measured on one batch, in training mode, on a copy. (In an untrained network, where BatchNorm has no
    bias yet, a value that equals the mean of its channel sits on the threshold, and rounding decides its sign.)
    """
    model = copy.deepcopy(model).train()
    for layer in fused_layers(model):
        layer.fused = False
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout1d)):
            module.p = 0.0
    layers = bilinear_layers(model)
    clouds = normalize(clouds)

    def probe(names: list[str]) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.enable_grad():
            logits = model(clouds).logits
            loss = F.cross_entropy(logits, labels)
            gradients = torch.autograd.grad(loss, [layers[name].weight for name in names])
        return logits.detach(), dict(zip(names, gradients, strict=True))

    if not layers:
        return {}
    logits, gradients = probe(list(layers))
    found = {}
    for i, (name, layer) in enumerate(layers.items()):
        with hooked({name: layer}, lambda name, module, x, output: 2 * output):
            moved, turned = probe([name])
        found[name] = (
            100 * ((moved - logits).norm() / logits.norm().clamp(min=1e-30)).item(),
            degrees(gradients[name], turned[name]),
        )
        watch(i + 1)
    return found


def degrees(a: Tensor, b: Tensor) -> float:
    """The angle between two gradients; 90 where one of them is zero. By its half, which small angles keep exact."""
    a, b = a.double().flatten(), b.double().flatten()
    if not a.any() or not b.any():
        return 90.0 if a.any() or b.any() else 0.0
    a, b = a / a.norm(), b / b.norm()
    return math.degrees(2 * math.atan2((a - b).norm().item(), (a + b).norm().item()))
