"""The seven corruptions of ModelNet-C (Ren, Pan and Liu 2022, arXiv:2202.03377), in five severities, on NumPy arrays.

| corruption | severities 1 to 5 |
|---|---|
| jitter | normal noise on each coordinate, standard deviation 0.01, 0.02, 0.03, 0.04, 0.05 |
| drop-global | 25, 37.5, 50, 62.5, 75 % of the points are removed, chosen at random |
| drop-local | 100, 200, 300, 400, 500 points are removed around 1 to 7 random points |
| add-global | 10, 20, 30, 40, 50 points are added, uniform in the unit sphere |
| add-local | 100, 200, 300, 400, 500 points are added around 1 to 7 random points, standard deviation 0.075 to 0.125 |
| scale | each axis times a factor from 1/s to s, s = 1.6, 1.7, 1.8, 1.9, 2.0; then normalized to the unit sphere |
| rotate | about the axes z, y and x, each by an angle from -a to a, a = 6, 12, 18, 24, 30 degrees |

The numbers are those of the authors' program. Their text differs from it in two places: it drops 67.5 % of the points
at the fourth severity, and has 1 to 8 clusters. Counts of points are for clouds of 1024 points; they stay the same for
clouds of other sizes. The corruptions have the published distributions, but not the random numbers of the published
files.
"""

from collections.abc import Callable

import numpy as np

from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError

POINTS = 1024  # per cloud in the definitions
SEVERITIES = (1, 2, 3, 4, 5)

_DROPPED_SHARE = (0.25, 0.375, 0.5, 0.625, 0.75)
_SCALE = (1.6, 1.7, 1.8, 1.9, 2.0)
_MOST_CLUSTERS = 7
_CLUSTER_STD = (0.075, 0.125)

Corruption = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]  # (N, C), severity -> (M, C)


def _jitter(cloud: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    return _moved(cloud, cloud[:, :3] + rng.normal(scale=0.01 * severity, size=(len(cloud), 3)))


def _drop_global(cloud: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    kept = int(len(cloud) * (1 - _DROPPED_SHARE[severity - 1]))
    _require_rest(cloud, kept)
    return cloud[np.sort(rng.permutation(len(cloud))[:kept])]


def _drop_local(cloud: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    _require_rest(cloud, len(cloud) - 100 * severity)
    for size in _cluster_sizes(100 * severity, rng):
        center = cloud[rng.integers(len(cloud)), :3]
        nearest = np.argsort(((cloud[:, :3] - center) ** 2).sum(axis=1), kind="stable")
        cloud = cloud[np.sort(nearest[size:])]
    return cloud


def _add_global(cloud: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    count = 10 * severity
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # The volume of a ball grows with the cube of its radius, so the cube of the radius is uniform.
    added = directions * np.cbrt(rng.random((count, 1)))
    return np.concatenate([cloud, _moved(cloud[rng.integers(len(cloud), size=count)], added)])


def _add_local(cloud: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    sizes = _cluster_sizes(100 * severity, rng)
    centers = cloud[np.repeat(rng.choice(len(cloud), len(sizes), replace=len(cloud) < len(sizes)), sizes)]
    std = np.repeat(rng.uniform(*_CLUSTER_STD, size=len(sizes)), sizes)[:, None]
    added = centers[:, :3] + std * rng.normal(size=(len(centers), 3))
    # A point outside the unit sphere is inverted at it: at the distance r > 1 it moves to 1 / r.
    added /= np.maximum((added**2).sum(axis=1, keepdims=True), 1)
    return np.concatenate([cloud, _moved(centers, added)])


def _scale(cloud: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    most = _SCALE[severity - 1]
    return normalize(_moved(cloud, cloud[:, :3] * rng.uniform(1 / most, most, size=3)))


def _rotate(cloud: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    most = severity * np.pi / 30
    rotation = np.eye(3)
    for axis, angle in enumerate(rng.uniform(-most, most, size=3)):
        i, j = (axis + 1) % 3, (axis + 2) % 3
        about_axis = np.eye(3)
        about_axis[[i, j], [i, j]] = np.cos(angle)
        about_axis[i, j], about_axis[j, i] = -np.sin(angle), np.sin(angle)
        rotation = about_axis @ rotation
    return _moved(cloud, cloud[:, :3] @ rotation)


CORRUPTIONS: dict[str, Corruption] = {
    "jitter": _jitter,
    "drop-global": _drop_global,
    "drop-local": _drop_local,
    "add-global": _add_global,
    "add-local": _add_local,
    "scale": _scale,
    "rotate": _rotate,
}


def corrupt(cloud: np.ndarray, name: str, severity: int, rng: np.random.Generator) -> np.ndarray:
    """A corrupted copy of a cloud (N, C): (M, C) float32, where M is less than N for drop and more for add.

    Only xyz change. The other channels of an added point are those of a random point (add-global) or of the point that
    it was added around (add-local).

    Args:
        cloud: xyz and any other channels, in the unit sphere (see `normalize`).
        name: a key of CORRUPTIONS.
        severity: 1 to 5.
        rng: see `cloud_rng`.

    Examples:
        >>> cloud = normalize(np.random.default_rng(0).normal(size=(1024, 3)).astype(np.float32))
        >>> corrupt(cloud, "drop-local", 5, cloud_rng("drop-local", 5, seed=0, index=0)).shape
        (524, 3)
    """
    if name not in CORRUPTIONS:
        raise UserError(f"corruption is {name!r}; expected one of {', '.join(CORRUPTIONS)}")
    if severity not in SEVERITIES:
        raise UserError(f"severity is {severity}; expected an integer from {SEVERITIES[0]} to {SEVERITIES[-1]}")
    if cloud.ndim != 2 or cloud.shape[1] < 3 or len(cloud) == 0:
        raise UserError(
            f"cloud: an array of shape {cloud.shape}; expected (points, channels), with at least one point and x, y, z"
        )
    return CORRUPTIONS[name](cloud, severity, rng).astype(np.float32)


def cloud_rng(name: str, severity: int, seed: int, index: int) -> np.random.Generator:
    """The generator for cloud number `index` of a data set: no other cloud, severity or corruption changes it.

    Examples:
        >>> cloud_rng("jitter", 1, seed=0, index=7).random() == cloud_rng("jitter", 1, seed=0, index=7).random()
        True
    """
    return np.random.default_rng((*name.encode(), severity, seed, index))


def _moved(cloud: np.ndarray, xyz: np.ndarray) -> np.ndarray:
    """The points of a cloud (N, C) at other places (N, 3)."""
    return np.concatenate([xyz, cloud[:, 3:]], axis=1)


def _cluster_sizes(total: int, rng: np.random.Generator) -> np.ndarray:
    """The sizes of a random number of clusters; each of the `total` points is in a random one."""
    clusters = int(rng.integers(1, _MOST_CLUSTERS, endpoint=True))
    return rng.multinomial(total, np.full(clusters, 1 / clusters))


def _require_rest(cloud: np.ndarray, kept: int) -> None:
    if kept < 1:
        raise UserError(
            f"cloud: {len(cloud)} points, all of which would be dropped; expected {POINTS}, as in ModelNet-C"
        )
