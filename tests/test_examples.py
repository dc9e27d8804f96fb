"""The example of docs/your-network.md: a network is trained, packed, and gives the same answers in Python and in C."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bipointnet
from bipointnet.data.shapes import shapes

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_network.py"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the example writes after a short training."""
    path = tmp_path_factory.mktemp("example") / "own.bpn"
    small = ["--clouds", "320", "--epochs", "3", "--points", "48"]
    done = subprocess.run([sys.executable, EXAMPLE, "-o", path, *small], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "4 of 6 layers in 1 bit" in done.stdout
    assert re.search(r"^\d+\.\d % of 53 test clouds, predicted by the packed file$", done.stdout, re.MULTILINE)
    return path


def test_c_programs_give_the_answers_of_python(packed: Path, run_tool: Path, tmp_path: Path):
    model = bipointnet.load(packed)
    clouds = shapes(train=20, test=20, points=48).test.points
    expected = model.predict(clouds)
    files = [tmp_path / f"{i:02}.xyz" for i in range(len(clouds))]
    for file, cloud in zip(files, clouds, strict=True):
        np.savetxt(file, cloud, fmt="%.9g")  # nine digits give back every float32

    done = subprocess.run([run_tool, packed, *files, "--json"], capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    assert [answer["label"] for answer in answers] == expected.names
    likely = expected.probabilities.max(axis=1)
    np.testing.assert_allclose([answer["probability"] for answer in answers], likely, rtol=1e-5)

    classify = run_tool.with_name("classify")
    for file, name, probability in zip(files, expected.names, likely, strict=True):
        done = subprocess.run([classify, packed, file], capture_output=True, text=True, check=True)
        printed = re.fullmatch(r"(.*)  (\d+\.\d) %\n", done.stdout)
        assert printed is not None
        assert printed[1] == name
        assert float(printed[2]) == pytest.approx(100 * probability, abs=0.06)
