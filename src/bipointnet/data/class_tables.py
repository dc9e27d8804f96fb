"""Tables of the classes that the labels of points stand for.

A label is a code from 0 to 65535. A ClassTable gives the class of each code; codes that are ignored are neither learned
nor evaluated.
"""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data.summary import first_names
from bipointnet.errors import UserError

ASPRS = {
    0: "never classified",
    1: "unclassified",
    2: "ground",
    3: "low vegetation",
    4: "medium vegetation",
    5: "high vegetation",
    6: "building",
    7: "low noise",
    8: "model key point",
    9: "water",
    10: "rail",
    11: "road",
    12: "overlap",
    13: "wire guard",
    14: "wire conductor",
    15: "transmission tower",
    16: "wire connector",
    17: "bridge deck",
    18: "high noise",
}
IGNORED = (0, 7, 18)

HIGHEST_CODE = 65535
_IGNORE = "ignore"  # as a name in a table
_SHOWN = 8  # codes in a sentence


@dataclass(frozen=True)
class ClassTable:
    """Classes of points, and the codes that stand for them in files.

    Attributes:
        names: of the classes, in the order of their indices.
        codes: of each class, at least one.
        ignored: codes that are neither learned nor evaluated.

    >>> table = ClassTable(("ground", "plant"), ((2,), (3, 4, 5)), frozenset({7}))
    >>> table.index_of(np.array([5, 2, 7]), "a.las").tolist(), table.written
    ([1, 0, -1], (2, 3))
    """

    names: tuple[str, ...]
    codes: tuple[tuple[int, ...], ...]
    ignored: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        every = [code for group in (*self.codes, self.ignored) for code in group]
        if (
            len(self.names) != len(self.codes)
            or not all(self.codes)
            or len(set(every)) != len(every)
            or not all(0 <= code <= HIGHEST_CODE for code in every)
        ):
            raise UserError(
                f"a table of the classes {', '.join(self.names) or '(none)'} with the codes {self.codes}; expected one "
                f"or more codes from 0 to {HIGHEST_CODE} per class and each code once; check the table"
            )

    @property
    def written(self) -> tuple[int, ...]:
        """The code to write for each class."""
        return tuple(codes[0] for codes in self.codes)

    def require_known(self, counts: Mapping[int, int], source: str | Path, remedy: str | None = None) -> None:
        """UserError for codes without a class. counts: the number of points of each code. `source` names the codes.

        remedy: what to do about it; None: add them to the table.
        """
        known = {code for group in (*self.codes, self.ignored) for code in group}
        lost = sorted(counts.keys() - known)
        if not lost:
            return
        listed = [f"{code} ({counts[code]:,} point{'s' * (counts[code] != 1)})" for code in lost]
        added = f'name each in a table given with --classes, for example {lost[0]} = "car", or {lost[0]} = "{_IGNORE}"'
        raise UserError(
            f"{source}: holds codes without a class: {first_names(listed, _SHOWN)}; expected "
            f"{first_names((str(code) for group in self.codes for code in group), _SHOWN)}; {remedy or added}"
        )

    def index_of(self, codes: np.ndarray, source: str | Path, remedy: str | None = None) -> np.ndarray:
        """The class index (N,) int64 of each code (N,), -1 if it is ignored; UserError as in `require_known`."""
        unknown = -2
        indices = np.full(HIGHEST_CODE + 2, unknown, np.int64)
        indices[list(self.ignored)] = -1
        for index, group in enumerate(self.codes):
            indices[list(group)] = index
        outside = (codes < 0) | (codes > HIGHEST_CODE)
        found = indices[np.where(outside, HIGHEST_CODE + 1, codes)]
        lost = codes[found == unknown]
        if len(lost):
            values, counts = np.unique(lost, return_counts=True)
            self.require_known(dict(zip(values.tolist(), counts.tolist(), strict=True)), source, remedy)
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "codes": [list(codes) for codes in self.codes],
            "ignored": sorted(self.ignored),
        }

    @classmethod
    def from_json(cls, value: Any) -> "ClassTable":
        """The table of which `as_json` is the value; UserError for any other value.

        >>> table = ClassTable(("ground",), ((2,),), frozenset({7}))
        >>> ClassTable.from_json(table.as_json()) == table
        True
        """
        try:
            names, codes, ignored = value["names"], value["codes"], value["ignored"]
            numbers = [code for group in (*codes, ignored) for code in group]
            if not all(type(name) is str for name in names) or not all(type(code) is int for code in numbers):
                raise TypeError("a name that is no text, or a code that is no integer")
            return cls(tuple(names), tuple(tuple(group) for group in codes), frozenset(ignored))
        except (TypeError, KeyError, IndexError) as error:
            raise UserError(
                f"the table of classes cannot be read ({error}); expected names, codes and ignored codes; the file "
                "is damaged, copy it again"
            ) from error


def standard_table(found: Mapping[int, int]) -> ClassTable:
    """The classes of the codes in LAS files, with the names that ASPRS gives them. found: the points of each code.

    >>> standard_table({2: 900, 6: 80, 7: 1}).names
    ('ground', 'building')
    """
    unnamed = sorted(int(code) for code in found if code not in ASPRS)
    if unnamed:
        codes = first_names((f"{code} ({found[code]:,} points)" for code in unnamed), _SHOWN)
        raise UserError(
            f"codes without a standard name: {codes}; expected 0 to {max(ASPRS)}; name all codes in a TOML table given "
            'with --classes, one per line, for example 64 = "car"'
        )
    codes = sorted({int(code) for code in found} - set(IGNORED))
    return ClassTable(tuple(ASPRS[code] for code in codes), tuple((code,) for code in codes), frozenset(IGNORED))


def numbered_table(found: Collection[int]) -> ClassTable:
    """A class per code, for files that do not name them.

    >>> numbered_table({5, 0}).names
    ('label 0', 'label 5')
    """
    codes = sorted({int(code) for code in found})
    return ClassTable(tuple(f"label {code}" for code in codes), tuple((code,) for code in codes))


def read_table(path: Path) -> ClassTable:
    """Read a table of classes from a TOML file with lines like `2 = "ground"`, also below `[classes]`.

    Codes with one name are one class; those named "ignore" are ignored. Classes are ordered by their lowest codes.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "classes.toml"
    >>> _ = path.write_text('3 = "plant"\\n2 = "ground"\\n5 = "plant"\\n7 = "ignore"\\n')
    >>> table = read_table(path)
    >>> table.names, table.codes, sorted(table.ignored)
    (('ground', 'plant'), ((2,), (3, 5)), [7])
    """
    name_of: dict[int, str] = {}
    for key, value in _entries(path).items():
        code = _code_of(path, key)
        if code in name_of:
            raise UserError(f"{path}: names the code {code} twice, expected one name per code; remove one line")
        name_of[code] = _name_of(path, key, value)
    _check_spelling(path, name_of)
    groups: dict[str, list[int]] = {}
    for code in sorted(name_of):
        groups.setdefault(name_of[code], []).append(code)
    ignored = groups.pop(_IGNORE, [])
    if len(groups) < 2:
        raise UserError(
            f"{path}: names {len(groups)} classes beside '{_IGNORE}', expected at least 2; add lines like "
            '2 = "ground"'
        )
    return ClassTable(tuple(groups), tuple(tuple(codes) for codes in groups.values()), frozenset(ignored))


def _entries(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    except (ValueError, RecursionError) as error:  # also bytes that are no text
        reason = " ".join(str(error).split())[:120]
        raise UserError(f'{path}: is not TOML ({reason}); expected lines like 2 = "ground"; correct it') from error
    classes = content.get("classes")
    if not isinstance(classes, dict):
        return content
    if len(content) > 1:
        other = next(key for key in content if key != "classes")
        raise UserError(f"{path}: has '{other}' beside the table [classes], expected it alone; move all codes into it")
    return classes


def _code_of(path: Path, key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= 5 and int(key) <= HIGHEST_CODE):
        raise UserError(
            f'{path}: the key {key[:40]!r}, expected a code from 0 to {HIGHEST_CODE}; write lines like 2 = "ground"'
        )
    return int(key)


def _name_of(path: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise UserError(
            f'{path}: the code {key} has the value {str(value)[:40]!r}, expected a name in quotes; write {key} = "car"'
        )
    name = value.strip()
    return _IGNORE if name.casefold() == _IGNORE else name


def _check_spelling(path: Path, name_of: dict[int, str]) -> None:
    spelled: dict[str, str] = {}
    for name in name_of.values():
        other = spelled.setdefault(name.casefold(), name)
        if other != name:
            raise UserError(
                f"{path}: the classes '{other}' and '{name}' differ only in upper and lower case, expected one name or "
                "two different ones; rename one"
            )
