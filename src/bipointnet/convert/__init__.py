"""`binarize`: any PyTorch network in 1 bit, with a report of what changed and why not.

May import: nn.
"""

from bipointnet.convert.binarize import binarize
from bipointnet.convert.report import Report, Row

__all__ = ["Report", "Row", "binarize"]
