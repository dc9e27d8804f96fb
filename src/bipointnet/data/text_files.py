"""Clouds in text files (xyz, txt, csv, pts): one point per line, xyz first unless a header names the columns."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bipointnet.data.parsed import Parsed, as_colors, is_number, require_whole
from bipointnet.errors import UserError


def text_of(path: Path) -> str:
    """The text of a file. Bytes that are not UTF-8 are replaced: they occur in comments only, if the file is valid."""
    return path.read_text(encoding="utf-8-sig", errors="replace")


def meaningful_lines(path: Path) -> list[str]:
    """The lines of a text file, stripped, without empty lines and comments."""
    lines = (line.strip() for line in text_of(path).splitlines())
    return [line for line in lines if line and not line.startswith(("#", "//"))]


class _Table(NamedTuple):
    """The lines of a text file, read up to its first row of numbers.

    rows: the lines with numbers.
    declared: the number of points that the file declares above them, or None.
    xyz: the columns of x, y and z.
    rgb: the columns that may be colors, or None.
    """

    rows: list[str]
    declared: int | None
    xyz: Sequence[int]
    rgb: Sequence[int] | None


def read_text(path: Path) -> Parsed:
    """Rows of numbers; apart from xyz, only colors are read."""
    # Leica's .pts has the intensity between xyz and the colors.
    table = _table(meaningful_lines(path), has_intensity=path.suffix.lower() == ".pts")
    rows = table.rows
    if not rows:
        return Parsed.nothing()
    separator = _separator(rows[0])
    try:
        xyz = _columns(rows, separator, table.xyz)
    except ValueError as error:
        raise UserError(_bad_row(path, rows, separator, table.xyz)) from error
    if len(_fields(rows[-1], separator)) < len(_fields(rows[0], separator)):
        raise UserError(f"{path}: the last line has fewer columns than the first; the file is cut short, copy it again")
    if table.declared is not None:
        require_whole(path, "points", len(xyz), table.declared)
    if table.rgb is None:
        return Parsed(xyz)
    try:
        return Parsed(xyz, as_colors(_columns(rows, separator, table.rgb)))
    except ValueError:
        return Parsed(xyz)


def _separator(line: str) -> str | None:
    return next((mark for mark in ";," if mark in line), None)


def _fields(line: str, separator: str | None) -> list[str]:
    return [field.strip().strip('"') for field in line.split(separator)]


def _columns(rows: list[str], separator: str | None, columns: Sequence[int]) -> np.ndarray:  # (N, len(columns))
    return np.loadtxt(rows, delimiter=separator, usecols=columns, comments=None, quotechar='"', ndmin=2)


def _table(lines: list[str], has_intensity: bool) -> _Table:
    """`has_intensity`: whether the fourth of seven columns without names is the intensity."""
    declared, xyz, rgb = None, (0, 1, 2), (3, 4, 5)
    if lines and lines[0].isdecimal():
        declared, lines = int(lines[0]), lines[1:]
    if lines:
        names = [name.lower() for name in _fields(lines[0], _separator(lines[0]))]
        if not any(is_number(name) or re.match(r"[-+.\d]", name) for name in names):
            lines = lines[1:]
            if {"x", "y", "z"} <= set(names):
                xyz = tuple(names.index(axis) for axis in "xyz")
            colors = next((c for c in (("red", "green", "blue"), ("r", "g", "b")) if set(c) <= set(names)), None)
            rgb = None if colors is None else tuple(names.index(color) for color in colors)
        elif has_intensity and len(names) == 7:
            rgb = (4, 5, 6)
    return _Table(lines, declared, xyz, rgb)


def _bad_row(path: Path, rows: list[str], separator: str | None, columns: Sequence[int]) -> str:
    def is_bad(row: str) -> bool:
        fields = _fields(row, separator)
        return len(fields) <= max(columns) or not all(is_number(fields[column]) for column in columns)

    bad = next(filter(is_bad, rows), rows[0])
    number = 1 + next(index for index, line in enumerate(text_of(path).splitlines()) if line.strip() == bad)
    return f"{path}: line {number} is {bad[:60]!r}, expected the numbers x, y and z; correct or remove the line"
