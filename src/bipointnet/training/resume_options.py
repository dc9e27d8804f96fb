"""The options of an interrupted run; --resume takes them from its folder. Imports no PyTorch: mistakes show at once."""

import json
from pathlib import Path
from typing import Any

from bipointnet.config import Config, from_mapping
from bipointnet.errors import UserError

STATE = "resume.safetensors"
MAY_CHANGE = ("device", "capture")  # options that change how a run computes, but no number beyond rounding


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run that was started, finished or not."""
    return (folder / "config.json").is_file() or (folder / STATE).is_file()


def started_config(folder: Path, given: dict[str, Any]) -> Config:
    """The configuration a run was started with; UserError if an option that is given now has another value."""
    path = folder / "config.json"
    try:
        started = from_mapping(str(path), json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}); expected the file that `bipointnet train` wrote") from error
    for name, value in given.items():
        before = getattr(started, name)
        if name not in MAY_CHANGE and before != value:
            raise UserError(
                f"{folder}: the run was started with {name} = {before!r}, found {value!r} now; "
                "resume with the same options, or choose another folder with -o"
            )
    return started
