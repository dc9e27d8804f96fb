"""A manifest: a CSV or JSON file that lists clouds with their classes and, if you like, their splits.

CSV has a line with the names of its columns (path, class and, optionally, split), separated by commas, semicolons or
tabs. JSON is a list of objects with these keys. Paths are relative to the folder of the manifest.

    path,class,split
    scans/0001.ply,chair,train
    scans/0002.ply,table,test

Splits have the names that folders may have (see folder.py). Either all entries have a split or none; without splits, a
fifth of each class is held out for the test.
"""

import csv
import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from bipointnet.data import clouds
from bipointnet.data.listing import SPLITS, split_of
from bipointnet.data.own import Found, Source
from bipointnet.data.parsed import unreadable
from bipointnet.data.summary import first_names
from bipointnet.errors import UserError

_COLUMNS = ("path", "class", "split")
_NAMES = ("manifest.csv", "manifest.json")

Row = tuple[int, dict[str, str]]  # the line of an entry, and its values


def recognizes(place: Path) -> bool:
    """Whether `place` is a manifest, or a folder that holds one."""
    if place.is_file():
        return place.suffix.lower() in (".csv", ".json")
    return any((place / name).is_file() for name in _NAMES)


def find(place: Path) -> Found:
    """The files that a manifest lists."""
    path = place if place.is_file() else _in_folder(place)
    rows, ignored = _json_rows(path) if path.suffix.lower() == ".json" else _csv_rows(path)
    sources: dict[str, Source] = {}
    lines: dict[str, int] = {}
    for line, row in rows:
        source = _source(path, line, row)
        # Paths may differ in their ".." and still name one file.
        real = os.path.join(os.path.realpath(source.file.parent), source.file.name)
        if real in lines:
            raise UserError(f"{path}: line {line} lists {source.name} again, as line {lines[real]}; remove one")
        sources[real], lines[real] = source, line
    if not sources:
        raise UserError(f"{path}: lists no files, expected one line or object per file; add some")
    _require_all_or_none(path, sources, lines)
    unused = first_names(name or "one without a name" for name in ignored)
    notes = (f"columns that are not used: {unused}",) if ignored else ()
    found = sorted(sources.values(), key=lambda source: (source.label, source.name))
    splits = {source.split for source in found}
    if "val" in splits and "test" in splits:
        left = [source for source in found if source.split == "val"]
        found = [source for source in found if source.split != "val"]
        notes += (f"the split val with {len(left):,} files is not used: test is the test split",)
    elif "val" in splits:
        found = [replace(source, split="test" if source.split == "val" else source.split) for source in found]
        notes += ("val is the test split, as there is no split test",)
    return Found(path, "manifest", tuple(found), notes=notes)


def _in_folder(folder: Path) -> Path:
    found = [folder / name for name in _NAMES if (folder / name).is_file()]
    if len(found) > 1:
        raise UserError(f"{folder}: holds {' and '.join(_NAMES)}; expected one of the two; name one of them")
    return found[0]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not text in UTF-8; save the manifest as CSV in UTF-8 or as JSON") from error


def _csv_rows(path: Path) -> tuple[list[Row], list[str]]:
    """The entries of a table, and the columns that are not used."""
    content = _text(path)
    first = next(iter(content.splitlines()), "")
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)
    try:
        header = [name.strip().casefold() for name in next(reader, [])]
        if [header.count(name) for name in _COLUMNS] not in ([1, 1, 0], [1, 1, 1]):
            raise UserError(
                f"{path}: line 1 is {first[:60]!r}, expected the names of the columns path, class and, optionally,"
                " split, each once; a manifest starts with them"
            )
        rows: list[Row] = []
        begin = reader.line_num + 1
        for fields in reader:
            line, begin = begin, reader.line_num + 1
            if not any(map(str.strip, fields)):
                continue
            if len(fields) != len(header):
                raise UserError(f"{path}: line {line} has {len(fields)} fields, expected {len(header)} as in line 1")
            rows.append((line, {name: field.strip() for name, field in zip(header, fields, strict=True)}))
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.line_num} is not CSV ({error}); correct the line") from error
    return rows, [name for name in header if name not in _COLUMNS]


def _json_rows(path: Path) -> tuple[list[Row], list[str]]:
    """The entries of a list of objects, and the keys that are not used."""
    content = _text(path)
    rows: list[Row] = []
    ignored: dict[str, None] = {}
    for line, value in _json_list(path, content):
        if isinstance(value, dict) and value.get("split", "") is None:  # as pandas writes an empty cell
            del value["split"]
        if not isinstance(value, dict) or not all(isinstance(value.get(key, ""), str) for key in _COLUMNS):
            raise UserError(
                f'{path}: line {line} holds {json.dumps(value)[:60]}, expected an object like {{"path": "scans/1.ply",'
                ' "class": "chair"}; correct the entry'
            )
        rows.append((line, {key: value[key].strip() for key in _COLUMNS if key in value}))
        ignored |= dict.fromkeys(key for key in value if key not in _COLUMNS)
    return rows, list(ignored)


def _json_list(path: Path, content: str) -> Iterator[tuple[int, Any]]:
    """The values of a list with the line of each, which json.loads() does not tell."""
    try:
        whole = json.loads(content)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: line {error.lineno} is not JSON ({error.msg}); correct the line") from error
    except RecursionError as error:
        raise UserError(f"{path}: is nested too deeply, expected a list of objects; correct the file") from error
    except ValueError as error:  # a number of 5000 digits
        raise UserError(f"{path}: is not JSON ({error}); expected a list of objects; correct the file") from error
    if not isinstance(whole, list):
        raise UserError(f"{path}: is not a list of objects in JSON; write [{{...}}, {{...}}]")
    decoder, at = json.JSONDecoder(), content.index("[") + 1
    while True:
        while content[at] in " \t\r\n,":
            at += 1
        if content[at] == "]":
            return
        line = content.count("\n", 0, at) + 1
        value, at = decoder.raw_decode(content, at)
        yield line, value


def _source(path: Path, line: int, row: dict[str, str]) -> Source:
    for column in _COLUMNS[:2]:
        if not row.get(column):
            raise UserError(f"{path}: line {line} has no {column}; expected path and class; complete the line")
        if any(ord(character) < 32 for character in row[column]):
            raise UserError(f"{path}: line {line} has the {column} {row[column]!r}; expected one without line breaks")
    split = row.get("split") or None
    if split is not None and split_of(split) is None:
        raise UserError(f"{path}: line {line} has the split '{split}'; expected one of {', '.join(SPLITS)}")
    file = path.parent / row["path"]
    if not file.is_file():
        raise UserError(f"{path}: line {line} names {row['path']}, but {file} is no file; correct the path")
    if file.suffix.lower() not in clouds.SUFFIXES:
        raise UserError(
            f"{path}: line {line} names {row['path']}, whose suffix no reader knows; expected one of"
            f" {' '.join(clouds.SUFFIXES)}"
        )
    return Source(PurePath(row["path"]).as_posix(), file, row["class"], split and split_of(split))


def _require_all_or_none(path: Path, sources: dict[str, Source], lines: dict[str, int]) -> None:
    with_split = [name for name, source in sources.items() if source.split]
    without = [name for name, source in sources.items() if not source.split]
    if with_split and without:
        raise UserError(
            f"{path}: line {lines[without[0]]} has no split, while line {lines[with_split[0]]} has one; give all"
            " entries a split, or none"
        )
