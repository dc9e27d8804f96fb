"""Colors for the classes of a picture, distinguishable for people with any kind of color vision."""

import numpy as np

# The palette of Okabe and Ito (2008), with a dark gray instead of black, which would vanish on a dark page. A lighter
# gray would look like their purple to deuteranopes.
_FIRST = ("0072B2", "E69F00", "56B4E9", "009E73", "D55E00", "CC79A7", "F0E442", "555555")
_DISTINCT = 256  # more than anyone can distinguish; after them the colors repeat
_STEP = 15  # between the levels of red, green and blue of candidates
_LIGHTNESS = (0.42, 0.88)  # visible on black and on white
_NEIGHBORS = 4

# OKLab (Ottosson 2020, https://bottosson.github.io/posts/oklab): distances in it are perceived differences.
_TO_CONES = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
])  # fmt: skip
_TO_OKLAB = np.array([
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
])  # fmt: skip
# Linear red, green and blue as people without the cones for red, or for green, see them (Vienot et al. 1999).
_PROTANOPE = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
_DEUTERANOPE = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])


def colors(count: int) -> np.ndarray:  # (count, 3) uint8
    """Red, green and blue of `count` classes; a class keeps its color when others are added after it.

    The first eight are those of Okabe and Ito. Each further color is the one of a grid that is farthest from all
    previous ones, where distances to the last few are halved: neighbors in a list, such as the parts of one object,
    shall differ most.

    >>> colors(2).tolist()
    [[0, 114, 178], [230, 159, 0]]
    """
    first = np.array([list(bytes.fromhex(code)) for code in _FIRST])  # (8, 3)
    if count <= len(first):
        return first[:count].astype(np.uint8)
    levels = np.arange(0, 256, _STEP)
    grid = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    lightness = perceived(grid)[0][:, 0]
    candidates = np.concatenate([first, grid[(lightness > _LIGHTNESS[0]) & (lightness < _LIGHTNESS[1])]])  # (M, 3)
    views = perceived(candidates)
    chosen = list(range(len(first)))
    distances = [_differences(views, k) for k in chosen]  # each (M,)
    nearest = np.min(distances, axis=0)
    while len(chosen) < min(count, _DISTINCT):
        chosen.append(int(np.minimum(nearest, np.min(distances[-_NEIGHBORS:], axis=0) / 2).argmax()))
        distances.append(_differences(views, chosen[-1]))
        nearest = np.minimum(nearest, distances[-1])
    return candidates[np.resize(chosen, count)].astype(np.uint8)


def perceived(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Colors (M, 3) in 0 to 255 as OKLab, each (M, 3): for most people, for protanopes, for deuteranopes."""
    unit = np.asarray(rgb) / 255
    linear = np.where(unit <= 0.04045, unit / 12.92, ((unit + 0.055) / 1.055) ** 2.4)
    return _oklab(linear), _oklab(linear @ _PROTANOPE.T), _oklab(linear @ _DEUTERANOPE.T)


def _oklab(linear: np.ndarray) -> np.ndarray:
    return np.cbrt(linear @ _TO_CONES.T) @ _TO_OKLAB.T


def _differences(views: tuple[np.ndarray, ...], k: int) -> np.ndarray:  # (M,)
    """The distance of each color from color k: for most people, or twice that for the color-blind if it is less.

    Without the factor of two, the choice would use only two of the three dimensions of color.
    """
    most, *blind = (np.linalg.norm(view - view[k], axis=1) for view in views)
    return np.minimum(most, 2 * np.minimum(*blind))
