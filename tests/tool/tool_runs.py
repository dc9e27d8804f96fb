"""Run bipointnet-run as a user does."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden"


def call(tool: Path, *arguments: str | Path | int, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(tool), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, input=text, timeout=300)


def answers(tool: Path, *arguments: str | Path | int, text: str | None = None) -> list[dict[str, Any]]:
    """What --json prints; the exit code must be 0."""
    done = call(tool, *arguments, "--json", text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def complaint(tool: Path, *arguments: str | Path | int) -> str:
    """The one sentence of a mistake; the exit code must be 2 and nothing else is printed."""
    done = call(tool, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    sentence = line
    for argument in arguments:  # the sentence is short; paths may be long
        sentence = sentence.replace(str(argument), "")
    assert len(sentence) < 250
    return line.removeprefix("error: ")


def write_xyz(path: Path, xyz: np.ndarray, rgb: np.ndarray | None = None) -> Path:
    """Text with nine digits, which give back every float32."""
    names = "x y z" if rgb is None else "x y z red green blue"
    table = xyz if rgb is None else np.hstack([xyz, rgb])
    np.savetxt(path, np.asarray(table, np.float64), fmt="%.9g", header=names)
    return path
