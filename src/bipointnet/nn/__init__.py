"""Building blocks of 1-bit point networks."""

from bipointnet.nn.aggregate import POOLS, EntropyMax, EntropyMean, MaxPool, MeanPool, MeasuredMax, delta
from bipointnet.nn.calibrate import calibrate
from bipointnet.nn.linear import Binary, BinaryLinear, LinearFactory
from bipointnet.nn.methods import BNN, LSR, METHODS, Method
from bipointnet.nn.pooled import PooledLayer
from bipointnet.nn.sign import clipped, hard_sign, polynomial, sign
from bipointnet.nn.size import deployed_bytes

__all__ = [
    "BNN",
    "LSR",
    "METHODS",
    "POOLS",
    "Binary",
    "BinaryLinear",
    "EntropyMax",
    "EntropyMean",
    "LinearFactory",
    "MaxPool",
    "MeanPool",
    "MeasuredMax",
    "Method",
    "PooledLayer",
    "calibrate",
    "clipped",
    "delta",
    "deployed_bytes",
    "hard_sign",
    "polynomial",
    "sign",
]
