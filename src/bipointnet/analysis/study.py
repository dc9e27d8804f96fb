"""What a trained network does with its bits: entropy, scales, zero gradients, distinct codes.

Everything is measured through forward hooks on bi-linear layers and T-Nets, so it works for every backbone.
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
from bipointnet.evaluation.probe import bilinear_layers, evenly_spaced, signs_and_zero_gradients
from bipointnet.models.pointnet import TNet, orthogonality
from bipointnet.nn import BinaryLinear, fused_layers, in_full
from bipointnet.nn.hooks import hooked

BATCH, DOUBLED_CLOUDS = 16, 16  # clouds per batch, and clouds for `double_scales`


class Layer(NamedTuple):
    """Figures of one bi-linear layer, over all points of all clouds.

    scale: standard deviation of its output.
    float_scale: standard deviation of A . W'^T, the same inputs times the centered weights, both in floats.
    zero_gradient: percentage of its inputs that pass no gradient back.
    codes: number of different rows of signs among the `rows` of a cloud, mean over clouds. If a cloud has one row only,
    the number among all clouds.
    logits_moved, gradient_turned: the effect of doubling its output, see `double_scales`.
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

    regularizer: mean of ||I - Z Z^T||_F. spectral_norm: mean of the largest singular value, 1 for a rotation.
    """

    name: str
    size: int
    regularizer: float
    spectral_norm: float
    matrices: np.ndarray


@dataclass(frozen=True)
class Study:
    """The result of `study` on M clouds.

    accuracy: in percent. entropy: bits of each pooled channel (C,). pooled: signs of the pooled feature (M, C), bool.
    """

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
        """That of the largest T-Net, which training keeps near orthogonal; None without T-Nets."""
        return max(self.transforms, key=lambda t: t.size).regularizer if self.transforms else None


def distinct_rows(signs: np.ndarray) -> int:
    """The number of different rows of a bool array (R, K)."""
    packed = np.packbits(signs, axis=1)
    return len(set(packed.view(f"V{packed.shape[1]}").ravel().tolist()))


@dataclass
class RunningStd:
    """Standard deviation of all numbers added so far."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, x: Tensor) -> None:
        self.count += x.numel()
        self.total += x.sum(dtype=torch.float64).item()
        self.squares += x.square().sum(dtype=torch.float64).item()

    @property
    def std(self) -> float:
        mean = self.total / max(self.count, 1)
        return math.sqrt(max(self.squares / max(self.count, 1) - mean**2, 0.0))


@dataclass
class _LayerStatistics:
    """Statistics of one layer, collected batch by batch."""

    output: RunningStd = field(default_factory=RunningStd)
    float_output: RunningStd = field(default_factory=RunningStd)
    zero_gradients: int = 0
    inputs: int = 0
    codes: list[int] = field(default_factory=list)
    single: list[np.ndarray] = field(default_factory=list)
    rows: int = 1

    def add(self, layer: BinaryLinear, x: Tensor, z: Tensor, clouds: int) -> None:
        self.output.add(z)
        self.float_output.add(layer.product(x, layer.weight - layer.weight.mean()))
        signs, zero_gradients = signs_and_zero_gradients(layer, x)
        self.zero_gradients += int(zero_gradients.sum())
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
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Study:
    """Measure `model` on clouds (M, P, C) with labels (M,), from the first `points` of each cloud.

    Args:
        model: a network that classifies normalized clouds; it is left unchanged.
        clouds: as files hold them, not normalized.
        labels: the class index of each cloud.
        points: points per cloud.
        on_progress: called with the steps done and their total.

    Example:
        >>> from bipointnet import LSR, BinaryLinear, EntropyMax, vanilla_pointnet
        >>> network = vanilla_pointnet(num_classes=4, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
        >>> clouds = np.random.default_rng(0).standard_normal((8, 32, 3), np.float32)
        >>> found = study(network, clouds, np.arange(8) % 4, points=32)
        >>> [layer.name for layer in found.layers]
        ['points.0.0', 'pooled.linear', 'head.0.0', 'head.1.0']
    """
    layers = bilinear_layers(model)
    transformers = {name: module for name, module in model.named_modules() if isinstance(module, TNet)}
    statistics = {name: _LayerStatistics() for name in layers}
    matrices: dict[str, list[Tensor]] = {name: [] for name in transformers}
    tensor = torch.from_numpy(np.ascontiguousarray(clouds[:, :points]))
    steps = -(-len(tensor) // BATCH) + len(layers)

    def record(name: str, module: nn.Module, x: Tensor, output: Tensor) -> None:
        if isinstance(module, BinaryLinear):
            statistics[name].add(module, x, output, len(part))
        else:
            matrices[name].append(output)

    outputs = []
    with in_full(model), hooked({**layers, **transformers}, record):
        for i, part in enumerate(tensor.split(BATCH)):
            outputs.append(model(normalize(part)))
            on_progress(i + 1, steps)
    pooled = torch.cat([output.pooled >= 0 for output in outputs]).numpy()
    predictions = torch.cat([output.logits for output in outputs]).argmax(dim=1).numpy()
    few = evenly_spaced(DOUBLED_CLOUDS, len(tensor))
    doubled = double_scales(
        model, tensor[few], torch.from_numpy(labels[few]), lambda done: on_progress(steps - len(layers) + done, steps)
    )
    return Study(
        clouds=len(tensor),
        accuracy=100 * float((predictions == labels).mean()),
        entropy=metrics.bit_entropy(pooled),
        pooled=pooled,
        layers=[_layer(name, layers[name], statistics[name], *doubled[name]) for name in layers],
        transforms=[_transform(name, torch.cat(found)) for name, found in matrices.items()],
    )


def _layer(
    name: str, layer: BinaryLinear, statistics: _LayerStatistics, logits_moved: float, gradient_turned: float
) -> Layer:
    single = np.concatenate(statistics.single) if statistics.single else np.empty((0, layer.in_features), bool)
    return Layer(
        name=name,
        inputs=layer.in_features,
        outputs=layer.out_features,
        scale=statistics.output.std,
        float_scale=statistics.float_output.std,
        zero_gradient=100 * statistics.zero_gradients / max(statistics.inputs, 1),
        codes=float(np.mean(statistics.codes)) if statistics.codes else float(distinct_rows(single)),
        rows=len(single) or statistics.rows,
        logits_moved=logits_moved,
        gradient_turned=gradient_turned,
    )


def _transform(name: str, matrices: Tensor) -> Transform:
    norm = torch.linalg.matrix_norm(matrices, ord=2).mean().item()
    return Transform(name, matrices.shape[-1], orthogonality(matrices).item(), norm, matrices.numpy())


def double_scales(
    model: nn.Module, clouds: Tensor, labels: Tensor, on_progress: Callable[[int], None] = lambda done: None
) -> dict[str, tuple[float, float]]:
    """How much the scale of each bi-linear output matters in training: double the outputs, one layer at a time.

    For each layer: the change of the logits, in percent of their norm, and the angle in degrees by which the gradient
    of the layer's own weights turns (Adam ignores its length). If BatchNorm follows a layer, both are zero: the scale
    has no effect. Measured on one batch, in training mode, on a copy. (In an untrained network, where BatchNorm has no
    bias yet, a value that equals the mean of its channel is on the threshold, and rounding decides its sign.)
    """
    model = copy.deepcopy(model).train()
    for layer in fused_layers(model):
        layer.fused = False
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout1d)):
            module.p = 0.0
    layers = bilinear_layers(model)
    clouds = normalize(clouds)

    def run(names: list[str]) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.enable_grad():
            logits = model(clouds).logits
            loss = F.cross_entropy(logits, labels)
            gradients = torch.autograd.grad(loss, [layers[name].weight for name in names])
        return logits.detach(), dict(zip(names, gradients, strict=True))

    if not layers:
        return {}
    logits, gradients = run(list(layers))
    found = {}
    for i, (name, layer) in enumerate(layers.items()):
        with hooked({name: layer}, lambda name, module, x, output: 2 * output):
            moved, turned = run([name])
        found[name] = (
            100 * ((moved - logits).norm() / logits.norm().clamp(min=1e-30)).item(),
            degrees(gradients[name], turned[name]),
        )
        on_progress(i + 1)
    return found


def degrees(a: Tensor, b: Tensor) -> float:
    """The angle between two gradients; 90 if one of them is zero. By half the angle, exact for small ones."""
    a, b = a.double().flatten(), b.double().flatten()
    if not a.any() or not b.any():
        return 90.0 if a.any() or b.any() else 0.0
    a, b = a / a.norm(), b / b.norm()
    return math.degrees(2 * math.atan2((a - b).norm().item(), (a + b).norm().item()))
