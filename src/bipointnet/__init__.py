"""1-bit neural networks for point clouds.

Run a packed model (no PyTorch needed):

    import bipointnet

    model = bipointnet.load("chairs.bpn")
    prediction = model.predict(points)  # an array (N, 3); prediction.names is the class

Make one:

    network = bipointnet.PointNet(num_classes=40, linear="lsr", pool="ema-max")  # then train it
    bipointnet.export(network, "chairs.bpn", classes=names)

Convert a network of your own, to train it in 1 bit:

    network = bipointnet.binarize(network)  # print(network.report) shows what changed

The public names are imported on first use, so `import bipointnet` takes milliseconds and does not import PyTorch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> the module that defines it.
_PUBLIC = {
    "ABCNet": "nn",
    "BNN": "nn",
    "BiReal": "nn",
    "BinaryConv": "nn",
    "BinaryLinear": "nn",
    "Config": "config",
    "DGCNN": "models",
    "DGCNNSegmenter": "models",
    "EntropyMax": "nn",
    "EntropyMean": "nn",
    "FormatError": "errors",
    "IRNet": "nn",
    "LSR": "nn",
    "LocalNet": "models",
    "MaxPool": "nn",
    "MeanPool": "nn",
    "Method": "nn",
    "Model": "runtime.model",
    "PartPointNet": "models",
    "PointCNN": "models",
    "PointConvNet": "models",
    "PointNet": "models",
    "PointNet2": "models",
    "PointNet2Segmenter": "models",
    "PointPool": "nn",
    "Prediction": "runtime.model",
    "ScenePointNet": "models",
    "UserError": "errors",
    "XNOR": "nn",
    "XNORPlusPlus": "nn",
    "analyze": "analysis.study",
    "binarize": "convert",
    "calibrate": "nn",
    "export": "packing.pack",
    "label": "runtime.label",
    "load": "runtime.model",
    "load_run": "models.checkpoint",
    "open_dataset": "data",
    "report_of": "convert",
    "set_progress": "nn",
    "vanilla_pointnet": "models",
}
__all__ = ["__version__", *_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:  # the same names for type checkers and editors; a test compares the two lists
    from bipointnet.analysis.study import analyze as analyze
    from bipointnet.config import Config as Config
    from bipointnet.convert import binarize as binarize
    from bipointnet.convert import report_of as report_of
    from bipointnet.data import open_dataset as open_dataset
    from bipointnet.errors import FormatError as FormatError
    from bipointnet.errors import UserError as UserError
    from bipointnet.models import DGCNN as DGCNN
    from bipointnet.models import DGCNNSegmenter as DGCNNSegmenter
    from bipointnet.models import LocalNet as LocalNet
    from bipointnet.models import PartPointNet as PartPointNet
    from bipointnet.models import PointCNN as PointCNN
    from bipointnet.models import PointConvNet as PointConvNet
    from bipointnet.models import PointNet as PointNet
    from bipointnet.models import PointNet2 as PointNet2
    from bipointnet.models import PointNet2Segmenter as PointNet2Segmenter
    from bipointnet.models import ScenePointNet as ScenePointNet
    from bipointnet.models import vanilla_pointnet as vanilla_pointnet
    from bipointnet.models.checkpoint import load_run as load_run
    from bipointnet.nn import BNN as BNN
    from bipointnet.nn import LSR as LSR
    from bipointnet.nn import XNOR as XNOR
    from bipointnet.nn import ABCNet as ABCNet
    from bipointnet.nn import BinaryConv as BinaryConv
    from bipointnet.nn import BinaryLinear as BinaryLinear
    from bipointnet.nn import BiReal as BiReal
    from bipointnet.nn import EntropyMax as EntropyMax
    from bipointnet.nn import EntropyMean as EntropyMean
    from bipointnet.nn import IRNet as IRNet
    from bipointnet.nn import MaxPool as MaxPool
    from bipointnet.nn import MeanPool as MeanPool
    from bipointnet.nn import Method as Method
    from bipointnet.nn import PointPool as PointPool
    from bipointnet.nn import XNORPlusPlus as XNORPlusPlus
    from bipointnet.nn import calibrate as calibrate
    from bipointnet.nn import set_progress as set_progress
    from bipointnet.packing.pack import export as export
    from bipointnet.runtime.label import label as label
    from bipointnet.runtime.model import Model as Model
    from bipointnet.runtime.model import Prediction as Prediction
    from bipointnet.runtime.model import load as load
else:

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'bipointnet' has no attribute {name!r}")
        return getattr(importlib.import_module(f"bipointnet.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
