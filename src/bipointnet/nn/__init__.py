"""Building blocks of 1-bit point networks: methods, layers, pools, operations on points, calibration, cost.

May import: delta, errors.
"""

from bipointnet.delta import delta
from bipointnet.nn.calibrate import Calibrated, calibrate
from bipointnet.nn.concat_linear import ConcatLinear
from bipointnet.nn.conv import BinaryConv, PointPool
from bipointnet.nn.cost import Operations, deployed_bytes, operations
from bipointnet.nn.fused_layer import NormalizedLayer
from bipointnet.nn.fused_pool import PooledLayer, fused_layers, in_full
from bipointnet.nn.grouped import BinaryGrouped, GroupedLinear
from bipointnet.nn.init import Reads, init_biases, mark_input
from bipointnet.nn.linear import BinaryFactory, BinaryLinear, LinearFactory, as_linear, set_progress
from bipointnet.nn.methods import BNN, LSR, METHODS, XNOR, ABCNet, BiReal, IRNet, Method, XNORPlusPlus
from bipointnet.nn.names import as_method, as_pool
from bipointnet.nn.pools import POOLS, EntropyMax, EntropyMean, MaxPool, MeanPool, MeasuredMax
from bipointnet.nn.scatter import ScatterPool
from bipointnet.nn.sign import clipped, hard_sign, narrowing, polynomial, sign, straight

__all__ = [
    "BNN",
    "LSR",
    "METHODS",
    "POOLS",
    "XNOR",
    "ABCNet",
    "BiReal",
    "BinaryConv",
    "BinaryFactory",
    "BinaryGrouped",
    "BinaryLinear",
    "Calibrated",
    "ConcatLinear",
    "EntropyMax",
    "EntropyMean",
    "GroupedLinear",
    "IRNet",
    "LinearFactory",
    "MaxPool",
    "MeanPool",
    "MeasuredMax",
    "Method",
    "NormalizedLayer",
    "Operations",
    "PointPool",
    "PooledLayer",
    "Reads",
    "ScatterPool",
    "XNORPlusPlus",
    "as_linear",
    "as_method",
    "as_pool",
    "calibrate",
    "clipped",
    "delta",
    "deployed_bytes",
    "fused_layers",
    "hard_sign",
    "in_full",
    "init_biases",
    "mark_input",
    "narrowing",
    "operations",
    "polynomial",
    "set_progress",
    "sign",
    "straight",
]
