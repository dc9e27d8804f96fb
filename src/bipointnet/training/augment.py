"""Random changes to a batch of clouds (B, N, C), on the device of the batch. Only xyz changes.

Every function takes its random generator as an argument, so that a run is repeatable.
"""

import math

import torch
from torch import Generator, Tensor

from bipointnet.config import Config

AXES = {"x": 0, "y": 1, "z": 2}


def _uniform(shape: tuple[int, ...], low: float, high: float, like: Tensor, generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype) * (high - low) + low


def _with_xyz(x: Tensor, xyz: Tensor) -> Tensor:
    return torch.cat([xyz, x[..., 3:]], dim=-1) if x.shape[-1] > 3 else xyz


def draw_points(x: Tensor, labels: Tensor, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw `count` different points of each cloud (B, P, C), and their labels if `labels` is (B, P), one per point."""
    order = torch.rand(x.shape[:2], generator=generator, device=x.device).argsort(dim=1)[:, :count]
    drawn = x.gather(1, order.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    return drawn, labels if labels.dim() == 1 else labels.gather(1, order)


def rotate(x: Tensor, degrees: float, up: str, generator: Generator) -> Tensor:
    """Rotate each cloud about the up axis by an angle uniform in [-degrees, degrees]."""
    angle = _uniform((len(x),), -math.radians(degrees), math.radians(degrees), x, generator)
    i, j = [axis for axis in range(3) if axis != AXES[up]]
    matrix = torch.eye(3, device=x.device, dtype=x.dtype).repeat(len(x), 1, 1)  # (B, 3, 3)
    matrix[:, i, i] = matrix[:, j, j] = angle.cos()
    matrix[:, i, j], matrix[:, j, i] = angle.sin(), -angle.sin()
    return _with_xyz(x, x[..., :3] @ matrix)


def scale_axes(x: Tensor, factor: float, generator: Generator) -> Tensor:
    """Scale each axis of each cloud by its own factor, uniform in [1 / factor, factor]."""
    return _with_xyz(x, x[..., :3] * _uniform((len(x), 1, 3), 1 / factor, factor, x, generator))


def shift(x: Tensor, distance: float, generator: Generator) -> Tensor:
    """Move each cloud by a vector whose coordinates are uniform in [-distance, distance]."""
    return _with_xyz(x, x[..., :3] + _uniform((len(x), 1, 3), -distance, distance, x, generator))


def jitter(x: Tensor, sigma: float, generator: Generator) -> Tensor:
    """Add normal noise to each coordinate, clamped to five standard deviations."""
    xyz = x[..., :3]
    noise = torch.randn(xyz.shape, generator=generator, device=x.device, dtype=x.dtype).clamp(-5, 5)
    return _with_xyz(x, xyz + sigma * noise)


def drop_points(x: Tensor, fraction: float, generator: Generator) -> Tensor:
    """Replace a random fraction of the points of each cloud, uniform in [0, fraction], by its first point."""
    limit = _uniform((len(x), 1), 0, fraction, x, generator)
    dropped = _uniform((len(x), x.shape[1]), 0, 1, x, generator) < limit  # (B, N)
    return torch.where(dropped.unsqueeze(-1), x[:, :1], x)


def augment(x: Tensor, config: Config, up: str, generator: Generator) -> Tensor:
    """Apply the augmentations of `config` in the order rotate, scale, shift, jitter, drop.

    Examples:
        >>> clouds = torch.randn(8, 64, 3)
        >>> augment(clouds, Config(jitter=0.01), "z", torch.Generator().manual_seed(0)).shape
        torch.Size([8, 64, 3])
    """
    if config.rotate:
        x = rotate(x, config.rotate, up, generator)
    if config.scale > 1:
        x = scale_axes(x, config.scale, generator)
    if config.shift:
        x = shift(x, config.shift, generator)
    if config.jitter:
        x = jitter(x, config.jitter, generator)
    if config.drop:
        x = drop_points(x, config.drop, generator)
    return x
