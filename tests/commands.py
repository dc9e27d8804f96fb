"""The commands as a person runs them, each in a process of its own."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@functools.cache
def _server() -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("command_server.py"))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run(*arguments: str | Path, cwd: Path | None = None) -> Said:
    """What `bipointnet ARGUMENTS` says in the folder `cwd`."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        job = {
            "arguments": [str(argument) for argument in arguments],
            "cwd": str(cwd or Path.cwd()),
            "environment": {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
            "stdout": out.name,
            "stderr": err.name,
        }
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return Said(code, out.read(), err.read())
