"""Building blocks of 1-bit point networks."""

from bipointnet.nn.aggregate import POOLS, EntropyMax, EntropyMean, MaxPool, MeanPool, MeasuredMax, delta
from bipointnet.nn.calibrate import calibrate
from bipointnet.nn.conversion_report import Report, Row
from bipointnet.nn.convert import binarize
from bipointnet.nn.convolution import BinaryConv, PointPool
from bipointnet.nn.grouped import BinaryGrouped, GroupedLinear
from bipointnet.nn.joined import JoinedLinear
from bipointnet.nn.linear import Binary, BinaryLinear, LinearFactory, advance
from bipointnet.nn.methods import BNN, LSR, METHODS, XNOR, ABCNet, BiReal, IRNet, Method, XNORPlus
from bipointnet.nn.operations import Operations, operations
from bipointnet.nn.pooled import PooledLayer, fused_layers, in_full
from bipointnet.nn.sign import clipped, hard_sign, narrowing, polynomial, sign, straight
from bipointnet.nn.size import deployed_bytes
from bipointnet.nn.spread import spread_planes

__all__ = [
    "BNN",
    "LSR",
    "METHODS",
    "POOLS",
    "XNOR",
    "ABCNet",
    "BiReal",
    "Binary",
    "BinaryConv",
    "BinaryGrouped",
    "BinaryLinear",
    "EntropyMax",
    "EntropyMean",
    "GroupedLinear",
    "IRNet",
    "JoinedLinear",
    "LinearFactory",
    "MaxPool",
    "MeanPool",
    "MeasuredMax",
    "Method",
    "Operations",
    "PointPool",
    "PooledLayer",
    "Report",
    "Row",
    "XNORPlus",
    "advance",
    "binarize",
    "calibrate",
    "clipped",
    "delta",
    "deployed_bytes",
    "fused_layers",
    "hard_sign",
    "in_full",
    "narrowing",
    "operations",
    "polynomial",
    "sign",
    "spread_planes",
    "straight",
]
