"""`binarize`: any PyTorch network in 1 bit, with a report of what changed, what did not, and why.

May import: errors, nn.
"""

from bipointnet.convert.binarize import binarize
from bipointnet.convert.report import Report, Row, report_of

__all__ = ["Report", "Row", "binarize", "report_of"]
