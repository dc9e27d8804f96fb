"""The program of examples/cortex-m7 under qemu: the bits of this machine, in no more memory than was published."""

import json
import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "cortex-m7.json"
MARGIN = 1.05  # for other compilers


@pytest.mark.cortex_m7
def test_a_microcontroller_gives_the_bits_of_this_machine(run_tool: Path, tmp_path: Path):
    script, published = runpy.run_path(str(ROOT / "benchmarks" / "cortex_m7.py")), json.loads(RESULT.read_text())
    found = script["measure"](published["model"])
    printed, _ = script["run"](script["BUILD"] / "classify-cloud")

    includes = [f"-I{ROOT / 'core' / 'include'}", f"-I{script['BUILD']}"]
    libraries = [run_tool.with_name("libbipointnet.a"), "-lstdc++", "-lm", "-pthread"]
    native = tmp_path / "native"
    source = ROOT / "examples" / "cortex-m7" / "main.c"
    subprocess.run(["cc", *includes, source, *libraries, "-o", native], check=True)
    expected = subprocess.run([native], capture_output=True, text=True, check=True).stdout
    assert len(expected.splitlines()) == 41  # the class, and nine digits of each logit, which identify a float32
    assert printed == expected
    assert expected.startswith("table\n")

    assert found["model_bytes"] == published["model_bytes"]
    for memory in ("flash_bytes", "ram_bytes"):
        assert found[memory] <= MARGIN * published[memory]
