"""Backbones. One file each, one row in MODELS each."""

from collections.abc import Callable

from torch import nn

from bipointnet.models.pointnet import Output, PointNet, vanilla_pointnet

MODELS: dict[str, Callable[..., nn.Module]] = {
    "pointnet-vanilla": vanilla_pointnet,
    "pointnet": PointNet,
}

__all__ = ["MODELS", "Output", "PointNet", "vanilla_pointnet"]
