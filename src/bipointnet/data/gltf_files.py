"""glTF 2.0, as .glb or .gltf: the vertices of all meshes in a scene, in the order of its nodes.

Materials, textures and cameras are not read. Of other files, only buffers in the same folder are.
"""

import base64
import binascii
import json
import struct
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data.parsed import Table, not_whole
from bipointnet.errors import UserError

_TYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
_POINTS, _TRIANGLES, _STRIP, _FAN = 0, 4, 5, 6
_MOST_RATIO = 100  # vertices per byte: nodes may repeat a mesh, but not without bound
_COMPRESSED = ("KHR_draco_mesh_compression", "EXT_meshopt_compression")
# What a document of another shape than glTF has raises.
_NOT_GLTF = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError)


def read_gltf(path: Path) -> Table:
    """x, y, z and colors of the vertices, and the triangles."""
    try:
        document, chunk = _split(path.read_bytes())
        return _File(path, document, chunk).table()
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except _NOT_GLTF as error:
        raise UserError(f"{path}: {not_whole(path, error)}") from error


def buffer_files(files: Iterable[Path]) -> list[Path]:
    """The files with the buffers of those that are .gltf: parts of their clouds, whatever their suffix.

    A .gltf that cannot be read has none here; reading its cloud tells what is wrong.

    >>> buffer_files([Path("chair.ply"), Path("no such file.gltf")])
    []
    """
    return [buffer for file in files if file.suffix.lower() == ".gltf" for buffer in _buffers_beside(file)]


def _buffers_beside(path: Path) -> list[Path]:
    try:
        document, _ = _split(path.read_bytes())
        uris = [buffer["uri"] for buffer in document.get("buffers", []) if "uri" in buffer]
        named = [path.parent / _local_name(uri) for uri in uris if not uri.startswith("data:")]
        return [file for file in named if file.is_file()]
    except (UserError, OSError, *_NOT_GLTF):
        return []


def _split(data: bytes) -> tuple[dict[str, Any], bytes | None]:
    """The JSON document and the binary chunk of a .glb, or the document of a .gltf."""
    if not data.startswith(b"glTF"):
        return json.loads(data.decode("utf-8-sig")), None
    if len(data) < 20:
        raise UserError("ends within its header; the file is cut short, copy it again")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise UserError(f"is glTF version {version}, expected 2; convert it")
    if length > len(data):
        raise UserError(f"declares {length} bytes but holds {len(data)}; the file is cut short, copy it again")
    document, chunk, at = None, None, 12
    while at + 8 <= length:
        size, kind = struct.unpack_from("<I4s", data, at)
        if at + 8 + size > length:
            raise UserError("a chunk ends behind the end of the file; the file is cut short, copy it again")
        content = data[at + 8 : at + 8 + size]
        if kind == b"JSON" and document is None:
            document = json.loads(content.decode())
        elif kind == b"BIN\0" and chunk is None:
            chunk = content
        at += 8 + size
    if document is None:
        raise UserError("has no JSON chunk; export it again from its source")
    return document, chunk


class _File:
    def __init__(self, path: Path, document: dict[str, Any], chunk: bytes | None) -> None:
        self.path, self.document = path, document
        version = str(document["asset"]["version"])
        if version.split(".")[0] != "2":
            raise UserError(f"is glTF version {version}, expected 2; convert it")
        for extension in _COMPRESSED:
            if extension in document.get("extensionsRequired", []):
                raise UserError(f"is compressed with {extension}; export it again without compression")
        self.buffers = [self._buffer(buffer, chunk) for buffer in document.get("buffers", [])]
        self.most = _MOST_RATIO * (1000 + sum(map(len, self.buffers)))  # vertices and indices in all

    def _buffer(self, buffer: dict[str, Any], chunk: bytes | None) -> bytes:
        uri, length = buffer.get("uri"), int(buffer["byteLength"])
        if uri is None:
            if chunk is None:
                raise UserError("has no binary chunk for its buffer; the file is cut short, copy it again")
            data = chunk
        elif uri.startswith("data:"):
            try:
                data = base64.b64decode(uri.partition(",")[2], validate=True)
            except binascii.Error as error:
                raise UserError(f"a buffer is not base64 ({error}); export it again from its source") from error
        else:
            data = self._beside(uri)
        if len(data) < length:
            raise UserError(
                f"a buffer declares {length} bytes but holds {len(data)}; the file is cut short, copy it again"
            )
        return data[:length]

    def _beside(self, uri: str) -> bytes:
        """A file in the same folder, and no other one: the document may come from a stranger."""
        name = _local_name(uri)
        file = self.path.parent / name
        if not file.is_file():
            raise UserError(f"its buffer is the file {name[:60]!r}, which is not in the same folder; copy it there")
        return file.read_bytes()

    def table(self) -> Table:
        points: list[np.ndarray] = []
        colors: list[np.ndarray | None] = []
        faces: list[np.ndarray] = []
        offset = cost = 0
        for mesh, matrix in self._placed_meshes():
            for primitive in self.document["meshes"][mesh]["primitives"]:
                mode = primitive.get("mode", _TRIANGLES)
                if mode not in (_POINTS, _TRIANGLES, _STRIP, _FAN):
                    continue  # lines
                xyz = self._accessor(primitive["attributes"]["POSITION"], 3).astype(np.float64)
                triangles = self._triangles(primitive, mode, len(xyz))
                cost += len(xyz) + triangles.size
                if cost > self.most:
                    raise UserError(f"repeats its meshes to more than {self.most} vertices; export it again")
                points.append(xyz @ matrix[:3, :3].T + matrix[:3, 3])
                colors.append(self._colors(primitive, len(xyz)))
                faces.append(triangles + offset)
                offset += len(xyz)
        xyz = np.concatenate([np.empty((0, 3)), *points])
        names, columns = ["x", "y", "z"], [xyz]
        colored = [part for part in colors if part is not None]
        if points and len(colored) == len(points):
            names, columns = [*names, "red", "green", "blue"], [xyz, np.concatenate(colored)]
        all_faces = np.concatenate([np.empty((0, 3), np.int64), *faces])
        return Table(
            f"glTF {self.document['asset']['version']}, {'binary' if self.path.suffix.lower() == '.glb' else 'JSON'}",
            names,
            [0] * len(names),
            np.ascontiguousarray(np.concatenate(columns, axis=1).T),
            all_faces if len(all_faces) else None,
            ("its colors are in textures, which are not read",) if self.document.get("images") and not colored else (),
        )

    def _placed_meshes(self) -> Iterator[tuple[int, np.ndarray]]:
        """The meshes of the scene with their transforms (4, 4), each node before its children."""
        nodes, scenes = self.document.get("nodes", []), self.document.get("scenes", [])
        roots = scenes[self.document.get("scene", 0)].get("nodes", []) if scenes else []
        if not scenes:  # then every mesh is in its own place
            yield from ((mesh, np.eye(4)) for mesh in range(len(self.document.get("meshes", []))))
        stack = [(node, np.eye(4)) for node in reversed(roots)]
        seen: set[int] = set()
        while stack:
            index, parent = stack.pop()
            if index in seen:
                raise UserError(f"node {index} is in its scene twice, expected a tree; export it again from its source")
            seen.add(index)
            node = nodes[index]
            matrix = parent @ _transform(node)
            if "mesh" in node:
                yield node["mesh"], matrix
            stack += [(child, matrix) for child in reversed(node.get("children", []))]

    def _triangles(self, primitive: dict[str, Any], mode: int, count: int) -> np.ndarray:
        if mode == _POINTS:
            return np.empty((0, 3), np.int64)
        if "indices" in primitive:
            indices = self._accessor(primitive["indices"], 1)[:, 0].astype(np.int64)
            if len(indices) and not 0 <= indices.min() <= indices.max() < count:
                raise UserError(
                    f"a triangle has the vertex {indices.max()}, expected 0 to {count - 1}; export it again"
                )
        else:
            indices = np.arange(count, dtype=np.int64)
        if mode == _TRIANGLES:
            return indices[: len(indices) // 3 * 3].reshape(-1, 3)
        if mode == _FAN:
            return np.stack([np.broadcast_to(indices[:1], indices[2:].shape), indices[1:-1], indices[2:]], axis=1)
        strip = np.stack([indices[:-2], indices[1:-1], indices[2:]], axis=1)
        strip[1::2] = strip[1::2, [1, 0, 2]]  # every second triangle runs the other way around
        return strip

    def _colors(self, primitive: dict[str, Any], count: int) -> np.ndarray | None:
        index = primitive["attributes"].get("COLOR_0")
        if index is None:
            return None
        stored = self._accessor(index, None)
        if stored.shape[1] < 3 or len(stored) != count:
            raise UserError(f"{len(stored)} colors for {count} vertices, expected one each; export it again")
        scale = 1 if stored.dtype.kind == "f" else np.iinfo(stored.dtype).max
        return np.clip(stored[:, :3].astype(np.float64) / scale, 0, 1)

    def _accessor(self, index: int, width: int | None) -> np.ndarray:
        """(count, components) of the type in the file; normalized integers are divided for coordinates only."""
        accessor = self.document["accessors"][index]
        count, dtype = int(accessor["count"]), np.dtype(_TYPES[accessor["componentType"]])
        components = _WIDTHS[accessor["type"]]
        if width is not None and components != width:
            raise UserError(f"accessor {index} has {components} components, expected {width}; export it again")
        if count < 0 or count > self.most:
            raise UserError(f"accessor {index} declares {count} elements, more than the file can hold; export it again")
        if "bufferView" in accessor:
            values = self._elements(accessor, count, dtype, components)
        else:
            values = np.zeros((count, components), dtype)
        if "sparse" in accessor:
            values = values.copy()
            sparse = accessor["sparse"]
            few = int(sparse["count"])
            where = self._elements(sparse["indices"], few, np.dtype(_TYPES[sparse["indices"]["componentType"]]), 1)[
                :, 0
            ]
            values[where.astype(np.int64)] = self._elements(sparse["values"], few, dtype, components)
        if accessor.get("normalized") and width == 3 and dtype.kind in "iu":
            values = np.maximum(values.astype(np.float64) / np.iinfo(dtype).max, -1)
        return values

    def _elements(self, accessor: dict[str, Any], count: int, dtype: np.dtype, components: int) -> np.ndarray:
        view = self.document["bufferViews"][accessor["bufferView"]]
        data = self.buffers[view["buffer"]]
        begin, length = int(view.get("byteOffset", 0)), int(view["byteLength"])
        if begin < 0 or length < 0 or begin + length > len(data):
            raise UserError("a view ends behind its buffer; the file is cut short, copy it again")
        size = dtype.itemsize * components
        step, start = int(view.get("byteStride", size)), int(accessor.get("byteOffset", 0))
        if count < 0 or step < size or start < 0 or (count and start + (count - 1) * step + size > length):
            raise UserError(f"a view of {length} bytes for {count} elements is too short; export it again")
        return np.ndarray((count, components), dtype, data, begin + start, (step, dtype.itemsize))


def _local_name(uri: str) -> str:
    name = urllib.parse.unquote(uri).removeprefix("./")
    if not name or name in (".", "..") or any(mark in name for mark in ("/", "\\", ":", "\0")):
        raise UserError(f"its buffer is {uri[:60]!r}, expected a file in the same folder; copy it there")
    return name


def _transform(node: dict[str, Any]) -> np.ndarray:
    if "matrix" in node:
        return np.array(node["matrix"], np.float64).reshape(4, 4).T
    x, y, z, w = map(float, node.get("rotation", (0, 0, 0, 1)))
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, :3] *= np.array(node.get("scale", (1, 1, 1)), np.float64)
    matrix[:3, 3] = np.array(node.get("translation", (0, 0, 0)), np.float64)
    return matrix
