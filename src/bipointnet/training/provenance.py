"""Where a result comes from: version, commit, PyTorch and device. Finding it out never fails a run."""

import os
import platform
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import torch

from bipointnet import __version__

PACKAGE = Path(__file__).resolve().parents[1]


def provenance(device: torch.device) -> dict[str, Any]:
    """The entries of a result file that name the software and the device it was computed with.

    Examples:
        >>> sorted(provenance(torch.device("cpu")))
        ['commit', 'device', 'torch', 'version']
    """
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "version": __version__,
        "commit": commit(),
        "torch": torch.__version__,
    }


def commit(package: Path = PACKAGE) -> str | None:
    """The commit of this project's work tree if `package` runs from its src folder; else None.

    None too without git, for a copy without history, and for a package installed into another repository: the HEAD of
    that repository says nothing about this code.
    """
    root = package.parents[1]
    if package != root / "src" / "bipointnet":
        return None
    # A git hook sets GIT_DIR and the like, which would point git at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        if tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"] != "bipointnet":
            return None
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10, env=environment)
        top, head = found.stdout.splitlines()
        return head if Path(top).resolve() == root else None
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return None
