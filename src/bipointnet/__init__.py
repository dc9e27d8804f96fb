"""1-bit neural networks for point clouds.

The names below are imported when they are first used, so that `import bipointnet` costs nothing and needs no PyTorch.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ABCNet": "nn",
    "BNN": "nn",
    "BiReal": "nn",
    "BinaryConv": "nn",
    "BinaryLinear": "nn",
    "Config": "config",
    "DGCNN": "models",
    "EntropyMax": "nn",
    "EntropyMean": "nn",
    "IRNet": "nn",
    "LSR": "nn",
    "MaxPool": "nn",
    "MeanPool": "nn",
    "Method": "nn",
    "Model": "runtime.model",
    "PartPointNet": "models",
    "PointCNN": "models",
    "PointConvNet": "models",
    "PointNet": "models",
    "PointNet2": "models",
    "PointPool": "nn",
    "ScenePointNet": "models",
    "UserError": "errors",
    "XNOR": "nn",
    "XNORPlusPlus": "nn",
    "binarize": "convert",
    "calibrate": "nn",
    "export": "packing.pack",
    "label": "runtime.label",
    "load": "runtime.model",
    "load_model": "models.checkpoint",
    "open_dataset": "data",
    "set_progress": "nn",
    "vanilla_pointnet": "models",
}
__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bipointnet' has no attribute {name!r}")
    return getattr(importlib.import_module(f"bipointnet.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
