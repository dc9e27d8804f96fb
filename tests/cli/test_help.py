"""What people see first: --help in the order of work, in 80 columns."""

import dataclasses
import os
import re
import subprocess
import sys

import pytest

from bipointnet import __version__
from bipointnet.cli import COMMANDS
from bipointnet.cli.train import PANELS, config_help
from bipointnet.config import Config

ORDER = [
    "demo",
    "train",
    "eval",
    "models",
    "predict",
    "segment",
    "view",
    "web",
    "export",
    "inspect",
    "verify",
    "bench",
    "analyze",
    "reproduce",
]


def shown(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERMINAL_WIDTH": "80"}
    command = [sys.executable, "-m", "bipointnet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout


def test_help_lists_the_commands_in_the_order_of_work():
    assert list(COMMANDS) == ORDER
    for text in (shown("--help"), shown()):
        assert [name for name in re.findall(r"^\W+(\w+) ", text, re.MULTILINE) if name in COMMANDS] == ORDER


@pytest.mark.parametrize("command", ORDER)
def test_help_of_a_command_fits_80_columns(command):
    text = shown(command, "--help")
    assert max(len(line) for line in text.splitlines()) <= 80
    # No line of prose is broken in the middle: each paragraph keeps the lines of its docstring.
    prose = [line.strip() for line in (COMMANDS[command].__doc__ or "").splitlines()]
    printed = [line.strip() for line in text.splitlines()]
    assert [line for line in prose if line and line not in printed] == []


def test_every_option_of_training_is_in_one_panel():
    names = [name for names in PANELS.values() for name in names]
    assert sorted(names) == sorted(field.name for field in dataclasses.fields(Config))
    text = shown("train", "--help")
    places = [text.index(f"─ {panel} ─") for panel in ("Arguments", "Options", *PANELS)]
    assert places == sorted(places)
    for name in names:
        assert f"--{name.replace('_', '-')} " in text


def test_help_names_the_default_once():
    for field in dataclasses.fields(Config):
        text = config_help(field)
        assert text.endswith(".")
        assert text.count("default") <= 1, text
        if field.default is not None and field.default is not False:
            assert "default" in text


def test_version():
    assert shown("--version").strip() == __version__
