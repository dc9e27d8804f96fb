"""Meshes and clouds in the formats of 3D programs: OFF with a reader of our own; PLY, OBJ, STL, GLB with trimesh."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data.parsed import Parsed, missing_package, require_whole
from bipointnet.data.text_files import meaningful_lines
from bipointnet.errors import UserError


def read_off(path: Path) -> Parsed:
    """Object File Format, also with the counts in the first line as in ModelNet ("OFF123 456 0")."""
    lines = meaningful_lines(path)
    header = re.fullmatch(r"(?:ST)?C?N?OFF(.*)", lines[0]) if lines else None
    if header is None:
        raise UserError(f"{path}: does not begin with OFF as an OFF file does; check that its suffix is right")
    joined = header[1].strip()
    counts, body = (joined, lines[1:]) if joined else (lines[1], lines[2:])
    vertex_count, face_count = map(int, counts.split()[:2])
    require_whole(path, "vertices and faces", len(body), vertex_count + face_count)
    if vertex_count == 0:
        return Parsed.nothing()
    xyz = np.loadtxt(body[:vertex_count], usecols=(0, 1, 2), ndmin=2)  # (V, 3)
    return Parsed(xyz, faces=_triangles(body[vertex_count : vertex_count + face_count]))


def _triangles(lines: list[str]) -> np.ndarray | None:
    """(F, 3): the faces "n i j k ..." with polygons cut into fans; None without faces."""
    if not lines:
        return None
    if all(line.startswith(("3 ", "3\t")) for line in lines):
        return np.loadtxt(lines, dtype=np.int64, usecols=(1, 2, 3), ndmin=2)
    triangles = []
    for line in lines:
        size, *rest = map(int, line.split("#")[0].split()[: 1 + int(line.split()[0])])
        if len(rest) < size:
            raise ValueError(f"a face declares {size} vertices but names {len(rest)}")
        triangles += [(rest[0], rest[i], rest[i + 1]) for i in range(1, size - 1)]
    return np.array(triangles, np.int64).reshape(-1, 3)


def read_with_trimesh(path: Path) -> Parsed:
    try:
        import trimesh
    except ImportError as error:
        raise missing_package("trimesh", path, "pip install trimesh") from error
    log = logging.getLogger("trimesh")
    if not log.handlers:  # otherwise Python prints the tracebacks that trimesh logs for broken files
        log.addHandler(logging.NullHandler())
    scene: Any = trimesh.load(path, force="scene", process=False)
    points, colors, faces, offset = [], [], [], 0
    for node in scene.graph.nodes_geometry:
        transform, name = scene.graph[node]
        geometry = scene.geometry[name]
        points.append(trimesh.transform_points(geometry.vertices, transform))
        colors.append(_vertex_colors(geometry))
        faces.append(offset + np.asarray(getattr(geometry, "faces", np.empty((0, 3), np.int64))))
        offset += len(points[-1])
    if not points:
        return Parsed.nothing()
    parsed = Parsed(
        np.concatenate(points),
        None if any(part is None for part in colors) else np.concatenate(colors),
        np.concatenate(faces),
    )
    if path.suffix.lower() == ".ply":
        _check_ply_counts(path, parsed)
    return parsed


def _vertex_colors(geometry: Any) -> np.ndarray | None:
    colors = getattr(geometry, "colors", None)
    if colors is None and geometry.visual.kind == "vertex":
        colors = geometry.visual.vertex_colors
    if colors is None or len(colors) != len(geometry.vertices):
        return None
    return np.asarray(colors)[:, :3] / 255


def _check_ply_counts(path: Path, parsed: Parsed) -> None:
    """trimesh reads an ASCII PLY that ends early as a smaller cloud."""
    header = path.read_bytes().split(b"end_header", 1)[0]
    declared = {name: int(count) for name, count in re.findall(rb"(?m)^element\s+(vertex|face)\s+(\d+)", header)}
    require_whole(path, "vertices", len(parsed.xyz), declared.get(b"vertex", 0))
    require_whole(path, "faces", 0 if parsed.faces is None else len(parsed.faces), declared.get(b"face", 0))
