"""The backbones, one file and one or more rows in MODELS each; networks that label points; `build`; checkpoints.

May import: config, errors, files, nn.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import nn

from bipointnet.config import Config
from bipointnet.models.blueprint import Output
from bipointnet.models.dgcnn import DGCNN, DGCNNSegmenter
from bipointnet.models.local import SIZES, LocalNet
from bipointnet.models.pointcnn import PointCNN
from bipointnet.models.pointconv import PointConvNet
from bipointnet.models.pointnet import PointNet, vanilla_pointnet
from bipointnet.models.pointnet2 import OBJECTS, ROOMS, PointNet2, PointNet2Segmenter
from bipointnet.models.segmentation import PartPointNet, ScenePointNet
from bipointnet.nn import Method, as_method, clipped, polynomial

MODELS: dict[str, Callable[..., nn.Module]] = {
    "pointnet-vanilla": vanilla_pointnet,
    "pointnet": PointNet,
    "pointnet2": PointNet2,
    "dgcnn": DGCNN,
    "pointcnn": PointCNN,
    "pointconv": PointConvNet,
    **{f"local-{size}": partial(LocalNet, size=size) for size in SIZES},
}
# Networks that label points, by task and backbone.
SEGMENTERS: dict[str, dict[str, Callable[..., nn.Module]]] = {
    "part": {
        "pointnet": PartPointNet,
        "pointnet-vanilla": partial(PartPointNet, tnets=False),
        "pointnet2": partial(PointNet2Segmenter, levels=OBJECTS),
        "dgcnn": DGCNNSegmenter,
    },
    "semantic": {
        "pointnet": ScenePointNet,
        "pointnet-vanilla": partial(ScenePointNet, tnets=False),
        "pointnet2": partial(PointNet2Segmenter, levels=ROOMS),
        "dgcnn": DGCNNSegmenter,
    },
}
SLOPES = {"clip": clipped, "polynomial": polynomial}  # the names of --gradient

__all__ = [
    "DGCNN",
    "MODELS",
    "SEGMENTERS",
    "DGCNNSegmenter",
    "LocalNet",
    "Output",
    "PartPointNet",
    "PointCNN",
    "PointConvNet",
    "PointNet",
    "PointNet2",
    "PointNet2Segmenter",
    "ScenePointNet",
    "build",
    "method_of",
    "vanilla_pointnet",
]


def method_of(config: Config) -> Method:
    """The binarization method of a configuration, with its gradient.

    Examples:
        >>> method_of(Config(method="lsr", gradient="polynomial"))
        LSR(slope=polynomial)
    """
    method = as_method(config.method, "method")
    return method if config.gradient is None else replace(method, slope=SLOPES[config.gradient])


def build(config: Config, num_classes: int, in_channels: int, categories: int = 0) -> nn.Module:
    """The untrained network of a configuration.

    Args:
        config: task, model, method, pool and variant.
        num_classes: number of classes, or of parts.
        in_channels: channels per point.
        categories: number of categories of the category input, for task "part" only.

    Examples:
        >>> model = build(Config(model="pointnet", method="lsr", pool="ema-max"), num_classes=40, in_channels=3)
    """
    own: dict[str, int] = {"categories": categories} if config.task == "part" else {}
    if config.first_width is not None:
        own["first_width"] = config.first_width
    make = MODELS[config.model] if config.task == "classify" else SEGMENTERS[config.task][config.model]
    return make(
        num_classes=num_classes,
        in_channels=in_channels,
        **own,
        linear="fp" if config.method == "fp" else method_of(config),
        pool=config.pool or None,
        binary_first=config.binary_first,
        binary_last=config.binary_last,
        norm=config.norm,
    )
