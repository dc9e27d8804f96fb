"""PointNets as if they were trained, for the tests of packing."""

import numpy as np
import torch
from torch import nn

from bipointnet.data.normalize import normalize
from bipointnet.models import PointNet
from bipointnet.nn import (
    METHODS,
    POOLS,
    BinaryLinear,
    calibrate,
)

CLASSES = ("ball", "stick", "plate", "cône", "tube")


def cloud(points: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng((seed, points)).normal(size=(points, channels))
    return normalize(numbers.astype(np.float32))


def shaken(model: nn.Module, channels: int = 3, seed: int = 0, *told: torch.Tensor) -> nn.Module:
    """The network with everything random that training would set: rising, falling and flat channels, scales < 0.

    told: what it is given besides the clouds, of which there are 8.
    """
    rng = torch.Generator().manual_seed(seed)

    def normal(like):
        return torch.randn(like.shape, generator=rng)

    batch = torch.from_numpy(np.stack([cloud(64, channels, i) for i in range(8)]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("alpha", "beta")):
                parameter.mul_(normal(parameter).sign() * 2)
            elif name.endswith("offset"):
                parameter.add_(normal(parameter) * 0.3)
            elif name.endswith("bias"):
                parameter.copy_(normal(parameter))
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
        for norm in norms:
            norm.momentum = 1.0
        calibrate_pools(model, batch, *told)
        model.train()(batch, *told)
        for norm in norms:
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean += normal(norm.running_mean) * norm.running_var.sqrt()
            norm.running_var *= torch.rand(norm.running_var.shape, generator=rng) + 0.5
            norm.weight.copy_(normal(norm.weight))
            norm.bias.copy_(normal(norm.bias))
            flat = torch.rand(norm.weight.shape, generator=rng) < 0.1
            norm.weight[flat] = 0
            norm.bias[flat] *= 3
    return model.eval()


def calibrate_pools(model: nn.Module, *batch: torch.Tensor) -> None:
    """Measured shifts, without new scales."""
    alphas = {name: p.clone() for name, p in model.named_parameters() if name.endswith("alpha")}
    calibrate(model, *batch)
    for name, parameter in model.named_parameters():
        if name in alphas:
            parameter.copy_(alphas[name])


def network(method: str = "lsr", pool: str = "ema-max", tnets: bool = False, seed: int = 0, **options) -> PointNet:
    linear = nn.Linear if method == "fp" else BinaryLinear.of(METHODS[method])
    torch.manual_seed(seed)
    model = PointNet(len(CLASSES), linear=linear, pool=POOLS[pool](), tnets=tnets, **options)
    return shaken(model, options.get("in_channels", 3), seed)  # pyright: ignore[reportReturnType]


def with_layer(name: str, layer: nn.Module, pool: str = "ema-max") -> PointNet:
    model = network(pool=pool)
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)
    return model
