"""Backbones. One file each, one row in MODELS each."""

from collections.abc import Callable
from functools import partial

from torch import nn

from bipointnet.models.blueprint import Output
from bipointnet.models.dgcnn import DGCNN
from bipointnet.models.pointcnn import PointCNN
from bipointnet.models.pointconv import PointConvNet
from bipointnet.models.pointnet import PointNet, vanilla_pointnet
from bipointnet.models.pointnet2 import PointNet2
from bipointnet.models.segmentation import PartPointNet, ScenePointNet

MODELS: dict[str, Callable[..., nn.Module]] = {
    "pointnet-vanilla": vanilla_pointnet,
    "pointnet": PointNet,
    "pointnet2": PointNet2,
    "dgcnn": DGCNN,
    "pointcnn": PointCNN,
    "pointconv": PointConvNet,
}
# Networks that label points, by task and backbone.
SEGMENTERS: dict[str, dict[str, Callable[..., nn.Module]]] = {
    task: {"pointnet": network, "pointnet-vanilla": partial(network, tnets=False)}
    for task, network in {"part": PartPointNet, "semantic": ScenePointNet}.items()
}

__all__ = [
    "DGCNN",
    "MODELS",
    "SEGMENTERS",
    "Output",
    "PartPointNet",
    "PointCNN",
    "PointConvNet",
    "PointNet",
    "PointNet2",
    "ScenePointNet",
    "vanilla_pointnet",
]
