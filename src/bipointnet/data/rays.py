"""Pulses of light from an airplane, and the solids that they meet: bodies, rods and wires.

Lengths are in meters, z is up. `hits` of a solid finds where pulses meet it, without regard to what is above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bipointnet.data.solids import Rng, rotation

STEEPEST = np.tan(np.radians(20.0))  # horizontal meters per meter of height of the most slanted pulse
BEAM = 0.4  # meters from its axis at which a pulse still returns from a pole; half of it for a wire
SEPARATION = 0.6  # meters between two returns that a scanner can tell apart
MOST_RETURNS = 4


@dataclass(frozen=True)
class Pulses:
    """Straight lines from the sky to the ground, sorted by the square cell in which they meet the ground.

    The point of a pulse at a rise of t meters above its end is `ground + t * (slant, 1)`.
    """

    ground: np.ndarray  # (P, 3)
    slant: np.ndarray  # (P, 2)
    lower: np.ndarray  # (2,): corner of the first cell
    first: np.ndarray  # (rows, columns + 1): the first pulse of each cell, and the end of each row

    CELL = 2.0

    def near(self, center: np.ndarray, reach: float, height: float) -> np.ndarray:  # (K,) int64
        """The pulses that may meet an object in a disk, up to a height above the lowest ground at its foot."""
        rows, columns = self.first.shape
        around = reach + STEEPEST * (1.1 * height + 1.0)  # 1.1: the ground may fall away from the object
        low = np.floor((center - around - self.lower) / self.CELL).astype(int)
        high = np.floor((center + around - self.lower) / self.CELL).astype(int) + 1
        left, right = np.clip((low[0], high[0]), 0, columns - 1)
        found = [np.arange(row[left], row[right]) for row in self.first[max(low[1], 0) : max(min(high[1], rows), 0)]]
        return np.concatenate([*found, np.empty(0, np.int64)])

    def at(self, which: np.ndarray, rise: np.ndarray) -> np.ndarray:  # (K, 3)
        points = self.ground[which]
        points[:, :2] += self.slant[which] * rise[:, None]
        points[:, 2] += rise
        return points


class Hits(NamedTuple):
    """Where pulses meet objects or the ground, in any order."""

    pulse: np.ndarray  # (H,) int64
    rise: np.ndarray  # (H,): meters above the end of the pulse
    points: np.ndarray  # (H, 3)
    brightness: np.ndarray  # (H,): 0 to 1, later the intensity
    stop: np.ndarray  # (H,): the probability that the pulse ends here


@dataclass(frozen=True)
class Convex:
    """The points p with normals @ p <= offsets."""

    normals: np.ndarray  # (F, 3)
    offsets: np.ndarray  # (F,)

    def turned(self, yaw: float) -> "Convex":
        return Convex(self.normals @ rotation("z", yaw).T, self.offsets)

    def moved(self, offset: np.ndarray) -> "Convex":
        return Convex(self.normals, self.offsets + self.normals @ offset)

    def tilted(self, gradient: np.ndarray) -> "Convex":
        """Raise each point (x, y, z) by gradient @ (x, y): verticals remain vertical."""
        normals = self.normals.copy()
        normals[:, :2] -= normals[:, 2:] * gradient
        return Convex(normals, self.offsets)

    def chord(self, ground: np.ndarray, slant: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (P,), (P,)
        """The rises at which pulses enter from above and leave; a pulse misses where it would enter below."""
        upward = slant @ self.normals[:, :2].T + self.normals[:, 2]  # (P, F)
        upward[np.abs(upward) < 1e-9] = 1e-9  # parallel to the face: no limit inside, none possible outside
        rise = (self.offsets - ground @ self.normals.T) / upward  # (P, F)
        enter = np.where(upward > 0, rise, np.inf).min(axis=1)
        return enter, np.where(upward < 0, rise, -np.inf).max(axis=1)


def box(size: Sequence[float] | np.ndarray, bottom: float = -np.inf) -> Convex:
    """A box about the z axis up to a height size[2]; by default without a bottom."""
    normals = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    offsets = np.array([size[0] / 2, size[0] / 2, size[1] / 2, size[1] / 2, size[2], -bottom])
    bounded = np.isfinite(offsets)
    return Convex(normals[bounded], offsets[bounded])


def cut(shape: Convex, *planes: tuple[float, float, float, float]) -> Convex:
    """The part of the shape below planes (a, b, c, d): a x + b y + c z <= d."""
    more = np.array(planes)  # (K, 4)
    return Convex(np.vstack([shape.normals, more[:, :3]]), np.concatenate([shape.offsets, more[:, 3]]))


@dataclass(frozen=True)
class Ellipsoid:
    center: np.ndarray  # (3,)
    radii: np.ndarray  # (3,)

    def chord(self, ground: np.ndarray, slant: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (P,), (P,)
        """As `Convex.chord`."""
        start = (ground - self.center) / self.radii  # (P, 3)
        along = np.column_stack([slant, np.ones(len(slant))]) / self.radii
        a, b, c = (along**2).sum(axis=1), (along * start).sum(axis=1), (start**2).sum(axis=1) - 1
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        return (root - b) / a, (-root - b) / a


@dataclass(frozen=True)
class Body:
    """A shape that fills a disk of the plan up to a height above the ground.

    Attributes:
        brightness: the mean of the intensity, 0 to 1.
        leaves: returns per meter of leaves; 0 if the body is solid.
    """

    label: str
    shape: Convex | Ellipsoid
    center: np.ndarray  # (2,)
    reach: float
    height: float
    brightness: float
    leaves: float = 0.0

    def hits(self, rng: Rng, pulses: Pulses) -> list[Hits]:
        which = pulses.near(self.center, self.reach, self.height)
        enter, leave = self.shape.chord(pulses.ground[which], pulses.slant[which])
        leave = np.maximum(leave, 0.0)
        met = enter > leave
        which, enter, length = which[met], enter[met], (enter - leave)[met]
        if not self.leaves:
            return [self._returned(rng, pulses, which, enter, stop=1.0)]
        found, deep = [], np.zeros(len(which))
        for _ in range(MOST_RETURNS - 1):
            deep += rng.exponential(1 / self.leaves, len(which))
            inside = deep < length
            found.append(self._returned(rng, pulses, which[inside], (enter - deep)[inside], stop=0.5))
            deep += SEPARATION
        return found

    def _returned(self, rng: Rng, pulses: Pulses, which: np.ndarray, rise: np.ndarray, stop: float) -> Hits:
        brightness = self.brightness + rng.normal(0, 0.08, len(which))
        return Hits(which, rise, pulses.at(which, rise), brightness, np.full(len(which), stop))


@dataclass(frozen=True)
class Rod:
    """A thin vertical cylinder: a pole, or the trunk of a tree."""

    label: str
    foot: np.ndarray  # (3,)
    height: float
    radius: float
    brightness: float

    def hits(self, rng: Rng, pulses: Pulses) -> list[Hits]:
        which = pulses.near(self.foot[:2], BEAM + self.radius, self.height)
        offset, slant = pulses.ground[which, :2] - self.foot[:2], pulses.slant[which]  # (K, 2), (K, 2)
        foot = self.foot[2] - pulses.ground[which, 2]
        # The rise at which the axis of the pulse is nearest to the axis of the rod.
        rise = -(offset * slant).sum(axis=1) / np.maximum((slant**2).sum(axis=1), 1e-9)
        rise = np.clip(rise, np.maximum(foot, 0.0), foot + self.height)
        distance = np.linalg.norm(offset + slant * rise[:, None], axis=1)
        met = (distance < BEAM + self.radius) & (rise > 0.2)
        which, rise = which[met], rise[met]
        points = np.column_stack([np.tile(self.foot[:2], (len(which), 1)), pulses.ground[which, 2] + rise])
        angle = rng.uniform(0, 2 * np.pi, len(which))
        points[:, :2] += self.radius * np.column_stack([np.cos(angle), np.sin(angle)])
        brightness = self.brightness + rng.normal(0, 0.06, len(which))
        return [Hits(which, rise, points, brightness, np.ones(len(which)))]


@dataclass(frozen=True)
class Wire:
    """A conductor between two points: a catenary, sheared if one end is higher.

    >>> wire = Wire(np.array([0.0, 0, 10]), np.array([40.0, 0, 10]), sag=0.8, height=10.0)
    >>> wire.z(np.array([0.0, 0.5, 1.0])).round(2).tolist()
    [10.0, 9.2, 10.0]
    """

    start: np.ndarray  # (3,)
    stop: np.ndarray  # (3,)
    sag: float
    height: float  # above the lowest ground beneath

    label = "wire"

    def z(self, fraction: np.ndarray) -> np.ndarray:
        span = np.linalg.norm(self.stop[:2] - self.start[:2])
        bend = span**2 / (8 * self.sag)
        hang = bend * (np.cosh((fraction - 0.5) * span / bend) - np.cosh(span / bend / 2))
        return self.start[2] + fraction * (self.stop[2] - self.start[2]) + hang

    def hits(self, rng: Rng, pulses: Pulses) -> list[Hits]:
        line = self.stop[:2] - self.start[:2]
        span = float(np.linalg.norm(line))
        which = pulses.near((self.start + self.stop)[:2] / 2, span / 2, self.height)
        ground, slant = pulses.ground[which], pulses.slant[which]
        z = np.full(len(which), (self.start[2] + self.stop[2]) / 2)
        fraction = offset = np.zeros(0)
        for _ in range(3):  # the height gives the place along the wire, and that the height: converges at once
            offset = ground[:, :2] + slant * (z - ground[:, 2])[:, None] - self.start[:2]
            fraction = offset @ line / span**2
            z = self.z(np.clip(fraction, 0.0, 1.0))
        aside = np.abs(offset @ np.array([-line[1], line[0]])) / span
        met = (fraction > 0) & (fraction < 1) & (aside < BEAM / 2) & (rng.random(len(which)) < 0.5)
        which, fraction, z = which[met], fraction[met], z[met]
        points = np.column_stack([self.start[:2] + fraction[:, None] * line, z])
        points[:, :2] += rng.normal(0, 0.03, (len(which), 2))
        brightness = rng.normal(0.12, 0.06, len(which))
        return [Hits(which, z - pulses.ground[which, 2], points, brightness, np.full(len(which), 0.2))]
