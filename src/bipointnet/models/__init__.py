"""Backbones. One file each, one row in MODELS each."""

from collections.abc import Callable

from torch import nn

from bipointnet.models.blueprint import Output
from bipointnet.models.dgcnn import DGCNN
from bipointnet.models.pointcnn import PointCNN
from bipointnet.models.pointconv import PointConvNet
from bipointnet.models.pointnet import PointNet, vanilla_pointnet
from bipointnet.models.pointnet2 import PointNet2

MODELS: dict[str, Callable[..., nn.Module]] = {
    "pointnet-vanilla": vanilla_pointnet,
    "pointnet": PointNet,
    "pointnet2": PointNet2,
    "dgcnn": DGCNN,
    "pointcnn": PointCNN,
    "pointconv": PointConvNet,
}

__all__ = ["DGCNN", "MODELS", "Output", "PointCNN", "PointConvNet", "PointNet", "PointNet2", "vanilla_pointnet"]
