"""PointNets with random values for everything that training sets, for the tests of packing and of the runtime."""

import dataclasses
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bipointnet.config import Config
from bipointnet.data.normalize import normalize
from bipointnet.models import PointNet, build, checkpoint
from bipointnet.nn import (
    METHODS,
    POOLS,
    BinaryLinear,
    calibrate,
)

CLASSES = ("ball", "stick", "plate", "cône", "tube")
RUN_CLASSES = ["ball", "stick", "plate", "[cone]", "cube"]  # with characters that rich could take for markup


def cloud(points: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """A normalized random cloud."""
    numbers = np.random.default_rng((seed, points)).normal(size=(points, channels))
    return normalize(numbers.astype(np.float32))


def shaken(model: nn.Module, channels: int = 3, seed: int = 0, *category_input: torch.Tensor) -> nn.Module:
    """The network with random values for all that training sets: slopes of both signs and of zero, negative scales.

    category_input: categories of 8 clouds, for a network with a category input.
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
        calibrate_pools(model, batch, *category_input)
        model.train()(batch, *category_input)
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
    """Measure the shifts of pools without changing the scales of layers."""
    alphas = {name: p.clone() for name, p in model.named_parameters() if name.endswith("alpha")}
    calibrate(model, batch)
    for name, parameter in model.named_parameters():
        if name in alphas:
            parameter.copy_(alphas[name])


def network(method: str = "lsr", pool: str = "ema-max", tnets: bool = False, seed: int = 0, **options) -> PointNet:
    """A shaken PointNet."""
    linear = nn.Linear if method == "fp" else BinaryLinear.of(METHODS[method])
    torch.manual_seed(seed)
    model = PointNet(len(CLASSES), linear=linear, pool=POOLS[pool](), tnets=tnets, **options)
    return shaken(model, options.get("in_channels", 3), seed)  # pyright: ignore[reportReturnType]


def with_layer(name: str, layer: nn.Module, pool: str = "ema-max") -> PointNet:
    """A shaken PointNet with one layer replaced."""
    model = network(pool=pool)
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)
    return model


def run_network(config: Config, channels: int = 3, seed: int = 0) -> nn.Module:
    """The network of a configuration with its own statistics, and slopes of both signs."""
    torch.manual_seed(seed)
    model = build(config, len(RUN_CLASSES), channels)
    for name, parameter in model.named_parameters():
        if name.endswith("offset"):
            nn.init.normal_(parameter, 0.5, 0.2)
    clouds = torch.randn(4, 32, channels) / 2
    calibrate(model, clouds)
    with torch.no_grad():
        model.train()(clouds)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias, std=0.3)
    return model.eval()


def save_run(folder: Path, config: Config, seed: int = 0) -> Path:
    """A run folder with an untrained network, with all that export reads."""
    facts = {"config": dataclasses.asdict(config), "classes": RUN_CLASSES, "channels": 3, "data": "none", "epoch": 0}
    checkpoint.save(folder / "last.safetensors", dict(run_network(config, seed=seed).state_dict()), facts)
    return folder
