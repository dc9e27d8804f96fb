"""The cost of a network: bytes when deployed, and multiply-adds per cloud in 1 bit and in floats."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import FlopCounterMode

from bipointnet.nn import (
    distinct,
    geometry,  # noqa: F401  registers the operations below
)
from bipointnet.nn.fused_pool import in_full
from bipointnet.nn.hooks import hooked
from bipointnet.nn.linear import BinaryLinear
from bipointnet.nn.observe import observing

# PyTorch counts two operations per multiply-add, and passes the shapes of tensors instead of tensors.
DISTANCES = {
    torch.ops.bipointnet.farthest_points: lambda points, count, *rest, **kwargs: 2 * count * points.numel(),
    torch.ops.bipointnet.nearest: lambda centers, points, *rest, **kwargs: 2 * centers[1] * points.numel(),
    torch.ops.bipointnet.density: lambda points, *rest, **kwargs: 2 * points[1] * points.numel(),
}


class Operations(NamedTuple):
    """Multiply-adds for one cloud.

    layers: per linear layer, by name. one_bit: of all bi-linear layers. float: of all other layers, and of products of
    features with each other (T-Nets, X-convolutions, PointConv's sums). distances: of distances between points.
    """

    layers: dict[str, int]
    one_bit: int
    float: int
    distances: int


@torch.no_grad()
def operations(model: nn.Module, points: int, channels: int) -> Operations:
    """Count the multiply-adds of `model` for one cloud (1, points, channels), without fused layers.

    Examples:
        >>> operations(vanilla_pointnet(num_classes=40, linear="lsr"), points=1024, channels=3).one_bit
        143261696
    """
    linears = {name: m for name, m in model.named_modules() if isinstance(m, (nn.Linear, BinaryLinear))}
    layers: dict[str, int] = {}

    def see(name: str, module: nn.Module, x: Tensor, output: Tensor) -> None:
        layers[name] = output.numel() * linears[name].weight.shape[1]

    cloud = torch.rand(1, points, channels, generator=torch.Generator().manual_seed(0))
    category = [torch.zeros(1, dtype=torch.int64)] if getattr(model, "categories", 0) else []
    counter = FlopCounterMode(display=False, custom_mapping=DISTANCES)
    with in_full(model), hooked(linears, see), counter, observing(_uncounted_packing):
        model(cloud.to(next(model.parameters())), *category)
    counts = counter.get_flop_counts()["Global"]
    distances = sum(counts.get(op, 0) for op in DISTANCES) // 2
    one_bit = sum(count for name, count in layers.items() if isinstance(linears[name], BinaryLinear))
    return Operations(layers, one_bit, sum(counts.values()) // 2 - distances - one_bit, distances)


def _uncounted_packing(function: Any, args: Any, kwargs: Any) -> Any:
    """Counts of codes pack bits by a product, which is no part of the network."""
    if function.__module__ != distinct.__name__:
        return function(*args, **kwargs)
    with _disable_current_modes():
        return function(*args, **kwargs)


def deployed_bytes(model: nn.Module) -> int:
    """Bytes of a network with BatchNorm merged into the linear layers.

    A float layer has 4 bytes per weight and one 4-byte bias per output. A bi-linear layer has 1 bit per weight and one
    4-byte threshold per output: BatchNorm, scale, bias and sign together are one comparison.

    Examples:
        >>> deployed_bytes(vanilla_pointnet(num_classes=40))
        3228320
    """
    total = 0
    for module in model.modules():
        if isinstance(module, BinaryLinear):
            total += (module.weight.numel() + 7) // 8 + 4 * module.out_features
        elif isinstance(module, nn.Linear):
            total += 4 * (module.weight.numel() + module.out_features)
    return total
