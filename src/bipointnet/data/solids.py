"""Surfaces made of triangles, and points sampled from them uniformly by area.

Curved surfaces are divided so finely that a cloud of points does not show the facets. In return, every surface can be
stretched, sheared and joined to others, and its points remain exactly uniform by area.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bipointnet.data.shuffle import Ranks

Axis = Literal["x", "y", "z"]
Vector = Sequence[float] | np.ndarray
Rng = np.random.Generator

ROUND_SIDES = 28
ROD_SIDES = 8


@dataclass(frozen=True)
class Surface:
    triangles: np.ndarray  # (T, 3, 3): triangle, corner, xyz

    def mapped(self, matrix: np.ndarray) -> "Surface":
        """Multiply every corner by a matrix (3, 3)."""
        return Surface(self.triangles @ matrix.T)

    def moved(self, offset: Vector) -> "Surface":
        return Surface(self.triangles + np.asarray(offset, dtype=float))

    def scaled(self, factors: Vector) -> "Surface":
        return Surface(self.triangles * np.asarray(factors, dtype=float))

    def turned(self, axis: Axis, angle: float) -> "Surface":
        return self.mapped(rotation(axis, angle))

    def areas(self) -> np.ndarray:  # (T,)
        return _areas(self.triangles)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:  # (3,), (3,)
        return self.triangles.min(axis=(0, 1)), self.triangles.max(axis=(0, 1))


Assembly = list[tuple[Surface, str]]  # the surfaces of an object, each with the name of its part


def rotation(axis: Axis, angle: float) -> np.ndarray:  # (3, 3)
    """The matrix of the right-handed rotation by `angle` radians about a coordinate axis."""
    first, second = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    matrix = np.eye(3)
    matrix[first, first] = matrix[second, second] = np.cos(angle)
    matrix[second, first] = np.sin(angle)
    matrix[first, second] = -matrix[second, first]
    return matrix


def joined(surfaces: Sequence[Surface]) -> Surface:
    return Surface(np.concatenate([surface.triangles for surface in surfaces]))


@dataclass(frozen=True)
class Density:
    """The density of points: exp(slope . u + bend . u^2), where u = (xyz - center) / reach."""

    slope: np.ndarray  # (3,)
    bend: np.ndarray  # (3,)
    center: np.ndarray  # (3,)
    reach: np.ndarray  # (3,)

    def log(self, xyz: np.ndarray) -> np.ndarray:  # (D,)
        u = (xyz - self.center) / self.reach  # (D, 3)
        return u @ self.slope + u**2 @ self.bend

    def log_ceiling(self, triangles: np.ndarray) -> np.ndarray:  # (T,)
        """An upper bound of the logarithm on each triangle: its maximum over the triangle's bounding box."""
        u = (triangles - self.center) / self.reach  # (T, 3, 3)
        low, high = u.min(axis=1), u.max(axis=1)  # (T, 3)
        vertex = np.clip(-self.slope / (2 * np.where(self.bend == 0, 1e-9, self.bend)), low, high)
        return np.max([at * (self.slope + self.bend * at) for at in (low, high, vertex)], axis=0).sum(axis=1)


def sample(
    assembly: Sequence[tuple[Surface, int]], points: int, rng: Rng | Ranks, density: Density | None = None
) -> tuple[np.ndarray, np.ndarray]:  # (P, 3) float64, (P,) int64
    """Sample points from all surfaces together, each with the label of its surface; by default uniform by area.

    Point i does not depend on the number of points drawn after it: a larger cloud begins with the smaller one.
    """
    triangles = np.concatenate([surface.triangles for surface, _ in assembly])  # (T, 3, 3)
    counts = [len(surface.triangles) for surface, _ in assembly]
    labels = np.repeat(np.array([label for _, label in assembly], dtype=np.int64), counts)  # (T,)
    # Rejection sampling: triangles are drawn as if the density were at its upper bound, then points are rejected.
    ceiling = np.zeros(len(triangles)) if density is None else density.log_ceiling(triangles)  # (T,)
    reach = np.cumsum(_areas(triangles) * np.exp(ceiling))  # (T,)
    found, origins, missing = [], [], points
    while missing > 0:
        draws = rng.random(
            (2 * missing + 16, 4)
        )  # (D, 4): the triangle, two coordinates in it, whether to keep the point
        chosen = np.searchsorted(reach, draws[:, 0] * reach[-1], side="right")  # (D,)
        xyz = _inside(triangles[chosen], draws[:, 1:2], draws[:, 2:3])  # (D, 3)
        chance = 1.0 if density is None else np.exp(density.log(xyz) - ceiling[chosen])
        kept = np.flatnonzero(draws[:, 3] < chance)[:missing]
        found.append(xyz[kept])
        origins.append(chosen[kept])
        missing -= len(kept)
    return np.concatenate(found), labels[np.concatenate(origins)]


def _inside(corners: np.ndarray, across: np.ndarray, along: np.ndarray) -> np.ndarray:  # (D, 3)
    """Map two uniform numbers (D, 1) in [0, 1) to a point of each triangle (D, 3, 3), uniform by area."""
    first, second, third = corners[:, 0], corners[:, 1], corners[:, 2]
    # The part of a triangle up to a fraction t of the way from its first corner has t^2 of its area: hence the root.
    return first + np.sqrt(across) * ((second - first) + along * (third - second))


def _areas(triangles: np.ndarray) -> np.ndarray:  # (T,)
    ax, ay, az = (triangles[:, 1] - triangles[:, 0]).T
    bx, by, bz = (triangles[:, 2] - triangles[:, 0]).T
    return 0.5 * np.sqrt((ay * bz - az * by) ** 2 + (az * bx - ax * bz) ** 2 + (ax * by - ay * bx) ** 2)


def grid(vertices: np.ndarray) -> Surface:
    """The surface through a grid of vertices (N, M, 3), two triangles per cell."""
    rows, columns = vertices.shape[0] - 1, vertices.shape[1] - 1
    triangles = np.empty((rows, columns, 2, 3, 3))
    triangles[:, :, :, 0] = vertices[:-1, :-1, None]
    triangles[:, :, 0, 1] = vertices[1:, :-1]
    triangles[:, :, 0, 2] = triangles[:, :, 1, 1] = vertices[1:, 1:]
    triangles[:, :, 1, 2] = vertices[:-1, 1:]
    return Surface(triangles.reshape(-1, 3, 3))


def panel(outline: np.ndarray | Sequence[Vector]) -> Surface:
    """The flat polygon with these corners (N, 3); it must be star-shaped about their mean."""
    corners = np.asarray(outline, dtype=float)  # (N, 3)
    middle = np.broadcast_to(corners.mean(axis=0), corners.shape)
    return Surface(np.stack([middle, corners, np.roll(corners, -1, axis=0)], axis=1))


def extrusion(outline: np.ndarray | Sequence[Vector], height: float) -> Surface:
    """The closed solid between the polygon (N, 2) at z = 0 and its copy at z = height; see `panel` for the polygon."""
    flat = np.asarray(outline, dtype=float)  # (N, 2)
    low = np.column_stack([flat, np.zeros(len(flat))])  # (N, 3)
    high = low + np.array([0.0, 0.0, height])
    ring = np.stack([low, high])  # (2, N, 3)
    return joined([grid(np.concatenate([ring, ring[:, :1]], axis=1)), panel(low), panel(high)])


def across(outline: np.ndarray | Sequence[Vector], width: float) -> Surface:
    """The polygon of (y, z) extruded along x, by half the width to either side."""
    turned = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    return extrusion(outline, width).mapped(turned).moved((-width / 2, 0.0, 0.0))


_BOX_FACES = np.array(
    [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]]
)  # corners are numbered 4 x + 2 y + z
_BOX_TRIANGLES = np.concatenate([_BOX_FACES[:, [0, 1, 2]], _BOX_FACES[:, [0, 2, 3]]])  # (12, 3)
_BOX_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (0.0, 1.0)])  # (8, 3)


def box(size: Vector, base: Vector = (0.0, 0.0, 0.0)) -> Surface:
    """A box; `base` is the center of its bottom face."""
    corners = _BOX_CORNERS * np.asarray(size, dtype=float) + np.asarray(base, dtype=float)  # (8, 3)
    return Surface(corners[_BOX_TRIANGLES])


def revolution(profile: np.ndarray | Sequence[Vector], sides: int = ROUND_SIDES, arc: float = 2 * np.pi) -> Surface:
    """The polyline of (radius, z), (N, 2), rotated about the z axis by `arc` radians from +x.

    A profile that starts or ends at radius 0 is closed there; one of two equal radii is the side of a cylinder.
    """
    radius, z = np.asarray(profile, dtype=float).T  # (N,), (N,)
    angle = np.linspace(0.0, arc, sides + 1)  # (S + 1,)
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)  # (S + 1, 3)
    return grid(radius[:, None, None] * ring + z[:, None, None] * np.array([0.0, 0.0, 1.0]))


def cylinder(radius: float, height: float, top_radius: float | None = None, sides: int = ROUND_SIDES) -> Surface:
    """A cylinder, frustum or cone on z = 0 with both ends closed."""
    top = radius if top_radius is None else top_radius
    return revolution([(0.0, 0.0), (radius, 0.0), (top, height), (0.0, height)], sides)


def ellipsoid(radii: Vector, low: float = -np.pi / 2, high: float = np.pi / 2, sides: int = ROUND_SIDES) -> Surface:
    """The zone of an ellipsoid about the origin between two latitudes, in radians, of the unit sphere."""
    bands = max(3, round(sides / 2 * (high - low) / np.pi))
    latitude = np.linspace(low, high, bands + 1)
    return revolution(np.column_stack([np.cos(latitude), np.sin(latitude)]), sides).scaled(radii)


def tube(
    path: np.ndarray | Sequence[Vector], radius: float | np.ndarray | Sequence[float], sides: int = ROD_SIDES
) -> Surface:
    """A round tube along a polyline (N, 3) with one radius or one per vertex, open at both ends.

    The path may bend, but there must be a coordinate axis to which it is never parallel.
    """
    line = np.asarray(path, dtype=float)  # (N, 3)
    step = _unit(line[1:] - line[:-1])
    tangent = _unit(np.concatenate([step[:1], step[:-1] + step[1:], step[-1:]]))  # (N, 3)
    # All rings are aligned with the coordinate axis the path follows least, so that the tube does not twist.
    bearing = int(np.abs(tangent).max(axis=0).argmin())
    other = -tangent * tangent[:, bearing, None]
    other[:, bearing] += 1.0
    other = _unit(other)  # (N, 3): that axis, made perpendicular to the path
    side = tangent[:, [1, 2, 0]] * other[:, [2, 0, 1]] - tangent[:, [2, 0, 1]] * other[:, [1, 2, 0]]  # cross product
    angle = np.linspace(0.0, 2 * np.pi, sides + 1)[:, None]  # (S + 1, 1)
    ring = np.cos(angle) * side[:, None] + np.sin(angle) * other[:, None]  # (N, S + 1, 3)
    reach = np.broadcast_to(np.asarray(radius, dtype=float), len(line))
    return grid(line[:, None] + reach[:, None, None] * ring)


def _unit(vectors: np.ndarray) -> np.ndarray:  # (N, 3)
    return vectors / np.sqrt((vectors**2).sum(axis=1, keepdims=True))


def torus(radius: float, thickness: float, start: float = 0.0, stop: float = 2 * np.pi, steps: int = 24) -> Surface:
    """A ring, or an arc of one, in the xz plane about the origin; angles go from +x to +z."""
    angle = np.linspace(start, stop, steps + 1)
    path = np.stack([radius * np.cos(angle), np.zeros_like(angle), radius * np.sin(angle)], axis=1)
    return tube(path, thickness)


def rod(start: Vector, end: Vector, radius: float, end_radius: float | None = None) -> Surface:
    """A straight round bar between two points."""
    return tube([start, end], [radius, radius if end_radius is None else end_radius])
