"""The options of an interrupted run; --resume takes them from its folder. Imports no PyTorch: mistakes show at once."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
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
    require_same_options(folder, started, given)
    return started


def require_same_options(folder: Path, started: Config, given: Mapping[str, Any]) -> None:
    """Raise UserError if a run was started with another value of an option that is given now."""
    if other := other_option(started, given, MAY_CHANGE):
        raise UserError(
            f"{folder}: the run was started with {other}; resume with the same options, or choose another folder with "
            "-o"
        )


def other_option(started: Config, given: Mapping[str, Any], may_change: Sequence[str]) -> str | None:
    """The first given option with another value than in `started`, and both values; None if there is none.

    Examples:
        >>> other_option(Config(lr=0.1), {"lr": 0.2}, MAY_CHANGE)
        'lr = 0.1, found 0.2 now'
    """
    before = dataclasses.asdict(started)
    changed = (name for name, value in given.items() if name not in may_change and before[name] != value)
    name = next(changed, None)
    return None if name is None else f"{name} = {before[name]!r}, found {given[name]!r} now"
