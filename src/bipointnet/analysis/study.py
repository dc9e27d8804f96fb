"""What a trained network does with its bits: entropy, scales, zero gradients, distinct codes.

Everything is measured through forward hooks on bi-linear layers and T-Nets, so it works for every backbone, and for
every network that `binarize` has converted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bipointnet.analysis.doubling import double_scales, logits_of
from bipointnet.data.normalize import normalize
from bipointnet.evaluation import metrics
from bipointnet.evaluation.probe import (
    BitCounts,
    bilinear_layers,
    channels_last,
    evenly_spaced,
    signs_and_zero_gradients,
)
from bipointnet.models.pointnet import TNet, orthogonality
from bipointnet.nn import BinaryLinear, in_full
from bipointnet.nn.distinct import distinct_rows
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
    entropy: of the bits it reads, in bits, mean over its input channels.
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
    entropy: float


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

    accuracy: in percent, None without labels. entropy: bits of each pooled channel (C,). pooled: signs of the pooled
    feature (M, C), bool; in a network that does not return it, the signs that the first bi-linear layer with one row
    per cloud reads; C = 0 without such a layer.
    """

    clouds: int
    accuracy: float | None
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
    bits: BitCounts = field(default_factory=BitCounts)
    zero_gradients: int = 0
    inputs: int = 0
    codes: list[int] = field(default_factory=list)
    single: list[Tensor] = field(default_factory=list)
    rows: int = 1

    def add(self, layer: BinaryLinear, x: Tensor, z: Tensor, clouds: int) -> None:
        x = channels_last(layer, x)
        self.output.add(z)
        self.float_output.add(layer.product(layer.centered(x), layer.weight - layer.weight.mean()))
        signs, zero_gradients = signs_and_zero_gradients(layer, x)
        self.bits.add(signs)
        self.zero_gradients += int(zero_gradients.sum())
        self.inputs += x.numel()
        rows = x.numel() // x.shape[-1]
        # In a graph of several clouds, their rows cannot be told apart: it counts as one cloud.
        signs = signs.reshape(1 if rows % clouds else clouds, -1, x.shape[-1])  # (B, R, K)
        self.rows = signs.shape[1]
        if self.rows == 1:
            self.single.append(signs[:, 0])
        else:
            self.codes += distinct_rows(signs).tolist()


def study(
    model: nn.Module,
    clouds: np.ndarray,
    labels: np.ndarray,
    points: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    center: str = "mean",
) -> Study:
    """Measure a network that classifies normalized clouds, from the first `points` of each cloud.

    Args:
        model: a network of this library; it is left unchanged.
        clouds: (M, P, C) as files hold them, not normalized.
        labels: (M,), the class index of each cloud.
        points: points per cloud.
        on_progress: called with the steps done and their total.
        center: what becomes the origin of a cloud, "mean" or "box", as in the training.

    Examples:
        >>> from bipointnet import LSR, BinaryLinear, EntropyMax, vanilla_pointnet
        >>> network = vanilla_pointnet(num_classes=4, linear=BinaryLinear.of(LSR()), pool=EntropyMax())
        >>> clouds = np.random.default_rng(0).standard_normal((8, 32, 3), np.float32)
        >>> found = study(network, clouds, np.arange(8) % 4, points=32)
        >>> [layer.name for layer in found.layers]
        ['points.0.0', 'pooled.linear', 'head.0.0', 'head.1.0']
    """
    inputs = torch.cat([normalize(part, center) for part in torch.from_numpy(clouds[:, :points].copy()).split(BATCH)])
    return analyze(model, inputs, torch.from_numpy(labels), on_progress)


@torch.no_grad()
def analyze(
    network: nn.Module,
    inputs: Any,
    labels: Tensor | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Study:
    """Measure entropy, scales, gradients and distinct codes in the bi-linear layers of any network.

    Args:
        network: a network with 1-bit layers, such as one that `binarize` has converted; it is left unchanged. It may
            return a tensor, a tuple, a dictionary or an object; its logits are `output.logits`, output["logits"] or the
            first float tensor.
        inputs: an input, or a tuple of inputs. If they all have one element per cloud, they are split into batches.
        labels: (M,), the class index of each cloud. Without them, or if the network has no logits (M, classes), there
            is no accuracy.
        on_progress: called with the steps done and their total.

    Examples:
        >>> import torch, bipointnet
        >>> network = bipointnet.binarize(bipointnet.PointNet(num_classes=4, tnets=False))  # or a network of your own
        >>> found = bipointnet.analyze(network, torch.rand(8, 64, 3), labels=torch.arange(8) % 4)
        >>> [layer.name for layer in found.layers]
        ['points.0.0', 'pooled.linear', 'head.0.0', 'head.1.0']
        >>> bits = found.entropy.mean()  # of the pooled feature, per channel
    """
    batches = _batches(inputs if isinstance(inputs, tuple) else (inputs,))
    layers = bilinear_layers(network)
    transformers = {name: module for name, module in network.named_modules() if isinstance(module, TNet)}
    seen = _Seen({name: _LayerStatistics() for name in layers}, {name: [] for name in transformers})
    steps = len(batches) + len(layers)
    with in_full(network):
        # A graph has many rows per cloud; how many clouds it has is known from the output only.
        clouds = len(logits_of(network(*batches[0]))) if len(batches) == 1 else None
        with hooked({**layers, **transformers}, seen.record):
            for i, batch in enumerate(batches):
                seen.run(network, batch, clouds or len(batch[0]))
                on_progress(i + 1, steps)
    logits = torch.cat(seen.logits)
    few, few_labels = _few(batches, labels)
    doubled = double_scales(network, few, few_labels, lambda done: on_progress(len(batches) + done, steps))
    pooled = torch.cat(seen.pooled).cpu().numpy() if seen.pooled else np.zeros((len(logits), 0), bool)
    accuracy = None
    if labels is not None and logits.dim() == 2 and labels.shape == logits.shape[:1]:
        accuracy = 100 * (logits.argmax(dim=1).cpu() == labels.cpu()).double().mean().item()
    return Study(
        clouds=len(logits),
        accuracy=accuracy,
        entropy=metrics.bit_entropy(pooled) if pooled.size else np.zeros(0),
        pooled=pooled,
        layers=[_layer(name, layers[name], seen.statistics[name], *doubled[name]) for name in layers],
        transforms=[_transform(name, torch.cat(found)) for name, found in seen.matrices.items()],
    )


@dataclass
class _Seen:
    """What hooks see while a network runs on batch after batch."""

    statistics: dict[str, _LayerStatistics]
    matrices: dict[str, list[Tensor]]
    logits: list[Tensor] = field(default_factory=list)
    pooled: list[Tensor] = field(default_factory=list)
    clouds: int = 1  # in the batch that runs
    read: Tensor | None = None  # the signs that the first layer with one row per cloud reads in this batch

    def record(self, name: str, module: nn.Module, x: Tensor, output: Tensor) -> None:
        if not isinstance(module, BinaryLinear):
            self.matrices[name].append(output)
            return
        self.statistics[name].add(module, x, output, self.clouds)
        if self.read is None and x.numel() == self.clouds * module.in_features:
            self.read = module.factors(x.reshape(self.clouds, -1))[0] > 0

    def run(self, network: nn.Module, batch: tuple[Any, ...], clouds: int) -> None:
        self.clouds, self.read = clouds, None
        output = network(*batch)
        self.logits.append(logits_of(output))
        pooled = getattr(output, "pooled", None)
        signs = pooled >= 0 if isinstance(pooled, Tensor) else self.read
        if signs is not None:
            self.pooled.append(signs)


def _batches(inputs: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The inputs in batches of clouds, or as they are if something in them has another length."""
    if len({len(x) if isinstance(x, Tensor) and x.dim() else -1 for x in inputs}) > 1 or not isinstance(
        inputs[0], Tensor
    ):
        return [inputs]
    return list(zip(*(x.split(BATCH) for x in inputs), strict=True))


def _few(batches: list[tuple[Any, ...]], labels: Tensor | None) -> tuple[tuple[Any, ...], Tensor | None]:
    """Inputs and labels of a few evenly spaced clouds for `double_scales`; the whole batch if it cannot be split."""
    if len(batches) == 1:
        return batches[0], labels
    inputs = [torch.cat(parts) for parts in zip(*batches, strict=True)]
    chosen = torch.from_numpy(evenly_spaced(DOUBLED_CLOUDS, len(inputs[0])))
    return tuple(x[chosen] for x in inputs), None if labels is None else labels[chosen]


def _layer(
    name: str, layer: BinaryLinear, statistics: _LayerStatistics, logits_moved: float, gradient_turned: float
) -> Layer:
    single = torch.cat(statistics.single) if statistics.single else torch.empty(0, layer.in_features)
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
        entropy=float(statistics.bits.entropy.mean()),
    )


def _transform(name: str, matrices: Tensor) -> Transform:
    norm = torch.linalg.matrix_norm(matrices, ord=2).mean().item()
    return Transform(name, matrices.shape[-1], orthogonality(matrices).item(), norm, matrices.cpu().numpy())
