"""Damaged files: no abort, no traceback, nothing above the limits on memory and time.

BIPOINTNET_MUTANTS sets the number per format: 300 by default, 10,000 in `make mutants`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import FORMATS

from bipointnet.data import clouds

COUNT = int(os.environ.get("BIPOINTNET_MUTANTS", "300"))


def test_every_format_has_mutants() -> None:
    assert {suffix for suffixes in FORMATS.values() for suffix in suffixes} == {*clouds.SUFFIXES}


@pytest.mark.parametrize("kind", FORMATS)
def test_mutants_are_read_or_refused(kind: str) -> None:
    worker = [sys.executable, str(Path(__file__).with_name("mutants.py")), kind]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    failed, first = [], 0
    while first < COUNT and len(failed) < 5:
        done = subprocess.run(
            [*worker, str(first), str(COUNT)], capture_output=True, text=True, env=environment, check=False
        )
        lines = done.stdout.splitlines()
        failed += [line for line in lines if not line.isdecimal()]
        read = [int(line) for line in lines if line.isdecimal()]
        if done.returncode == 0:
            break
        assert read, done.stderr
        failed.append(f"{read[-1]}: the worker died with status {done.returncode}: {done.stderr[-300:]}")
        first = read[-1] + 1
    assert not failed, "\n".join(failed)
