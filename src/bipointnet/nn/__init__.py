"""Building blocks of 1-bit point networks."""

from bipointnet.delta import delta
from bipointnet.nn.calibrate import calibrate
from bipointnet.nn.concat_linear import ConcatLinear
from bipointnet.nn.conv import BinaryConv, PointPool
from bipointnet.nn.cost import Operations, deployed_bytes, operations
from bipointnet.nn.fused_pool import PooledLayer, fused_layers, in_full
from bipointnet.nn.grouped import BinaryGrouped, GroupedLinear
from bipointnet.nn.init import init_biases
from bipointnet.nn.linear import Binary, BinaryLinear, LinearFactory, set_progress
from bipointnet.nn.methods import BNN, LSR, METHODS, XNOR, ABCNet, BiReal, IRNet, Method, XNORPlusPlus
from bipointnet.nn.pools import POOLS, EntropyMax, EntropyMean, MaxPool, MeanPool, MeasuredMax
from bipointnet.nn.sign import clipped, hard_sign, narrowing, polynomial, sign, straight

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
    "Operations",
    "PointPool",
    "PooledLayer",
    "XNORPlusPlus",
    "calibrate",
    "clipped",
    "delta",
    "deployed_bytes",
    "fused_layers",
    "hard_sign",
    "in_full",
    "init_biases",
    "narrowing",
    "operations",
    "polynomial",
    "set_progress",
    "sign",
    "straight",
]
