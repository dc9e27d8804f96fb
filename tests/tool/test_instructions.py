"""How many instructions a prediction takes, counted by callgrind: a regression of speed that no clock is needed for.

The counts depend on the compiler by some percent, so a limit is 15 % above what GCC 12 gives. If a change makes a
prediction cheaper, lower its limit.
"""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tool_runs import GOLDEN

from bipointnet import _core

# The golden file, the number of points, and millions of instructions per instruction set.
MEASURED = [
    ("shapes", 128, {"avx2": 0.553, "portable": 1.445}),
    ("shapes-tnets", 1024, {"avx2": 0.933, "portable": 2.600}),
    ("shapes-xnor", 1024, {"avx2": 6.740, "portable": 45.773}),
    ("neighbors", 256, {"avx2": 9.794, "portable": 38.510}),
]
MARGIN = 1.15


def instructions(run_tool: Path, model: str, cloud: Path, isa: str) -> int:
    """Instructions of the call of bipointnet_predict, in one thread."""
    counted = ["valgrind", "--tool=callgrind", "--toggle-collect=bipointnet_predict", "--callgrind-out-file=/dev/null"]
    command = [*counted, run_tool, GOLDEN / f"{model}.bpn", cloud, "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"BIPOINTNET_ISA": isa})
    assert done.returncode == 0, done.stderr
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


@pytest.mark.instructions
@pytest.mark.parametrize("isa", sorted({"avx2", "portable"} & set(_core.isas())))
@pytest.mark.parametrize(("model", "points", "millions"), MEASURED, ids=[row[0] for row in MEASURED])
def test_a_prediction_takes_no_more_instructions_than_before(run_tool, tmp_path, model, points, millions, isa):
    cloud = tmp_path / "cloud.xyz"
    np.savetxt(cloud, np.random.default_rng(0).normal(size=(points, 3)), fmt="%.6f")
    assert instructions(run_tool, model, cloud, isa) / 1e6 <= MARGIN * millions[isa]
