"""What importing and running networks loads: torch._dynamo costs 2 to 4 seconds, so only compiling may load it."""

import subprocess
import sys

import pytest
import torch

from bipointnet.nn import pools

SLOW = {"torch._dynamo", "sympy"}
RUN = "import torch; from bipointnet.models import *; MODELS[{!r}](4, linear='lsr').eval()(torch.rand(2, 40, 3))"


@pytest.mark.parametrize(
    "statement",
    ["import bipointnet.models", "import bipointnet.convert, bipointnet.models.checkpoint", RUN.format("pointnet2")],
)
def test_networks_load_and_run_without_the_compiler(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not SLOW & set(shown.stdout.split())


def test_delta_is_marked_as_pytorch_marks_constants():
    """torch.compiler.assume_constant_result imports torch._dynamo; nn/pools.py sets its mark directly."""

    def function() -> None: ...

    marks = vars(torch.compiler.assume_constant_result(function))
    assert marks
    assert all(marks.items() <= vars(f).items() for f in (pools._constant_delta, pools._table))
