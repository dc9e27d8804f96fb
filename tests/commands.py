"""Run commands as a user does, each in its own process."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@functools.cache
def _server() -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("command_server.py"))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run(*arguments: str | Path, cwd: Path | None = None) -> Result:
    """The exit code and the output of `bipointnet ARGUMENTS` in the folder `cwd`."""
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
        return Result(code, out.read(), err.read())


def complaint(*arguments: str | Path, cwd: Path | None = None) -> str:
    """The one sentence on stderr with which a command reports a mistake; its exit code must be 2."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


def succeed(*arguments: str | Path, cwd: Path | None = None) -> str:
    """What a command prints on stdout; its exit code must be 0."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout
