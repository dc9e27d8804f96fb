"""The header of PLY files, as far as it is needed to read binary vertices in parts and to write copies with labels.

Turk, "The PLY polygon file format", 1994. The core parses whole files (core/src/clouds/ply.cpp).
"""

from dataclasses import dataclass
from io import BufferedReader
from itertools import accumulate

import numpy as np

_FORMATS = {b"ascii": "", b"binary_little_endian": "<", b"binary_big_endian": ">"}
_TYPES = {
    b"char": "i1",
    b"uchar": "u1",
    b"short": "i2",
    b"ushort": "u2",
    b"int": "i4",
    b"uint": "u4",
    b"long": "i8",
    b"ulong": "u8",
    b"float": "f4",
    b"double": "f8",
}
# int8, uint16, float32, ... are other names of the same types.
_TYPES |= {np.dtype(code).name.encode(): code for code in list(_TYPES.values())}
_LONGEST = 100_000  # bytes per line of a header
_MOST_LINES = 10_000
_MOST_PROPERTIES = 100


@dataclass(frozen=True)
class Element:
    """An element of a file.

    line: the number of its line in the header. properties: the name and the type, as NumPy writes it, of each property
    that is no list. end: the number of the first line behind its properties.
    """

    name: bytes
    count: int
    line: int
    properties: tuple[tuple[bytes, str], ...] = ()
    has_lists: bool = False
    end: int = 0

    @property
    def item_bytes(self) -> int:
        """The bytes of an item of a binary file without lists."""
        return sum(int(code[1]) for _, code in self.properties)


@dataclass(frozen=True)
class PlyHeader:
    """A header of which the vertices, and the elements in front of them, have no lists.

    Attributes:
        lines: the lines of the header with their ends, from "ply" to "end_header".
        order: "<" or ">" for binary files, "" for text.
        front: the elements in front of the vertices.
        vertices: the element of the vertices.
        body: the byte at which the body begins.
    """

    lines: tuple[bytes, ...]
    order: str
    front: tuple[Element, ...]
    vertices: Element
    body: int

    @property
    def is_text(self) -> bool:
        return not self.order

    @property
    def row(self) -> np.dtype:
        """The bytes of a vertex in a binary file; the fields are called "0", "1" and so on."""
        codes = [code for _, code in self.vertices.properties]
        return np.dtype(
            {
                "names": [str(number) for number in range(len(codes))],
                "formats": [self.order + code for code in codes],
                "offsets": list(accumulate((int(code[1]) for code in codes), initial=0))[:-1],
                "itemsize": self.vertices.item_bytes,
            }
        )

    @property
    def vertices_at(self) -> int:
        """The byte at which the vertices of a binary file begin."""
        return self.body + sum(element.count * element.item_bytes for element in self.front)

    def vertex_head(self, count: int) -> bytes:
        """The header of a binary file that has `count` vertices and nothing else."""
        name = next(name for name, order in _FORMATS.items() if order == self.order)
        own = b"".join(self.lines[self.vertices.line + 1 : self.vertices.end])
        return b"ply\nformat %b 1.0\nelement vertex %d\n%bend_header\n" % (name, count, own)


def read_header(file: BufferedReader) -> PlyHeader | None:
    """The header of an open file, or None if it is not understood here, so that only the core can read the file.

    That is so if the vertices, or elements in front of them, have lists; for more than 100 properties; if a carriage
    return alone ends a line; and if the header is damaged. The core says what is wrong with damaged ones.

    >>> import io
    >>> text = b"ply\\nformat ascii 1.0\\nelement vertex 7\\nproperty float x\\nend_header\\n"
    >>> header = read_header(io.BufferedReader(io.BytesIO(text)))
    >>> header.vertices.count, header.vertices.properties
    (7, ((b'x', 'f4'),))
    """
    file.seek(0)
    lines: list[bytes] = []
    while not lines or lines[-1].split() != [b"end_header"]:
        lines.append(file.readline(_LONGEST))
        content = lines[-1].removesuffix(b"\n").removesuffix(b"\r")
        if not lines[-1].endswith(b"\n") or b"\r" in content or len(lines) > _MOST_LINES:
            return None
    words = [line.split() for line in lines]
    if words[0] != [b"ply"]:
        return None
    order: str | None = None
    elements: list[Element] = []
    for number, own in enumerate(words[1:-1], start=1):
        if not own or own[0] in (b"comment", b"obj_info"):
            continue
        if own[0] == b"format" and order is None and not elements:
            order = _FORMATS.get(own[1]) if own[2:] == [b"1.0"] else None
            if order is None:
                return None
        elif own[0] == b"element" and len(own) == 3 and own[2].isdigit() and len(own[2]) < 18:
            elements.append(Element(own[1], int(own[2]), number, end=number + 1))
        elif own[0] == b"property" and elements:
            element = _with_property(elements[-1], own[1:], number + 1)
            if element is None:
                return None
            elements[-1] = element
        else:
            return None
    at = [number for number, element in enumerate(elements) if element.name == b"vertex"]
    if order is None or len(at) != 1 or any(element.has_lists for element in elements[: at[0] + 1]):
        return None
    vertices = elements[at[0]]
    if not 1 <= len(vertices.properties) <= _MOST_PROPERTIES:
        return None
    return PlyHeader(tuple(lines), order, tuple(elements[: at[0]]), vertices, file.tell())


def _with_property(element: Element, words: list[bytes], end: int) -> Element | None:
    """An element with one more property; None if the words are not understood."""
    own, count, line = element.properties, element.count, element.line
    if len(words) == 2 and words[0] in _TYPES:
        own = (*own, (words[1], _TYPES[words[0]]))
        return Element(element.name, count, line, own, element.has_lists, end)
    if len(words) == 4 and words[0] == b"list" and words[1] in _TYPES and words[2] in _TYPES:
        return Element(element.name, count, line, own, True, end)
    return None
