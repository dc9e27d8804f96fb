"""Copies of PLY files with one label per vertex.

A copy has the property `label`, an int, at the end of each vertex, and comments with the name of each label. A
property of this name, and comments of this form, are replaced. All else is kept; what follows the vertices is not read.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from bipointnet import files
from bipointnet.data.ply_header import PlyHeader
from bipointnet.data.ply_parts import PlyParts

_NAME = b"label"
_AT_ONCE = 1 << 24  # bytes


def write_labels(parts: PlyParts, target: Path, labels: np.ndarray, names: Mapping[int, str]) -> None:
    """Copy an open binary file with labels (N,). The target is replaced once the copy is whole; it may be the source.

    >>> with open_ply(Path("scan.ply")) as parts:  # doctest: +SKIP
    ...     write_labels(parts, Path("labeled.ply"), labels, {0: "floor", 1: "chair"})
    """
    header, done = parts.header, 0
    fields = [(str(number), header.row[str(number)]) for number in _kept(header)]
    with files.replacing(target) as temporary, open(temporary, "r+b") as out:
        out.writelines(_head(header, names))
        out.writelines(_bytes(parts, header.body, header.vertices_at))
        for points in parts.read(max(1, _AT_ONCE // parts.point_bytes)):
            records = parts.records(points)
            copied = np.empty(len(records), [*fields, ("label", header.order + "i4")])
            for name, _ in fields:
                copied[name] = records[name]
            copied["label"] = labels[done : done + len(records)]
            out.write(copied.data)
            done += len(records)
        out.writelines(_bytes(parts, header.vertices_at + parts.count * parts.point_bytes, None))


def labeled_text(data: bytes, header: PlyHeader, labels: np.ndarray, names: Mapping[int, str]) -> bytes:
    """The content of a text file with labels (N,).

    >>> labeled_text(Path("scan.ply").read_bytes(), header, labels, {0: "floor"})  # doctest: +SKIP
    """
    lines = data[header.body :].splitlines(keepends=True)  # at \n, \r\n and \r, like the core
    items = [number for number, line in enumerate(lines) if line.strip()]
    first = sum(element.count for element in header.front if element.properties)
    kept = _kept(header)
    for number, label in zip(items[first : first + header.vertices.count], labels.tolist(), strict=True):
        words = lines[number].split()
        end = lines[number][len(lines[number].rstrip(b"\r\n")) :]
        lines[number] = b" ".join([*(words[column] for column in kept), b"%d" % label]) + end
    return b"".join([*_head(header, names), *lines])


def _kept(header: PlyHeader) -> list[int]:
    """The numbers of the properties that a copy has."""
    return [number for number, (name, _) in enumerate(header.vertices.properties) if name != _NAME]


def _head(header: PlyHeader, names: Mapping[int, str]) -> Iterator[bytes]:
    """The lines of the header of a copy."""
    vertices = header.vertices
    ending = b"\r\n" if header.lines[0].endswith(b"\r\n") else b"\n"
    for number, line in enumerate(header.lines):
        words = line.split()
        if number == vertices.end:
            yield b"property int " + _NAME + ending
        if words[:2] == [b"comment", _NAME] and words[3:4] == [b"is"] and words[2].isdigit():
            continue
        if vertices.line < number < vertices.end and words[:1] == [b"property"] and words[2] == _NAME:
            continue
        yield line
        if words[:1] == [b"format"]:
            for label, name in names.items():
                # Some readers end the header at this word, even within a line.
                text = " ".join(name.split()).replace("end_header", "end-header")
                yield f"comment label {label} is {text}".encode() + ending


def _bytes(parts: PlyParts, start: int, stop: int | None) -> Iterator[bytes]:
    """The bytes of a file from `start` to `stop`, or to its end."""
    while stop is None or start < stop:
        parts.file.seek(start)
        part = parts.file.read(_AT_ONCE if stop is None else min(_AT_ONCE, stop - start))
        if not part:
            return
        start += len(part)
        yield part
