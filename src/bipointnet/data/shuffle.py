"""The one shuffle of predictions: it needs no state, so C++ and any other language repeat it in a few lines.

Index i has the rank mix((i + 1) * 0x9e3779b97f4a7c15), the output i of the generator SplitMix64 (Steele et al. 2014)
with seed 0; an index with a lower rank comes first. Both steps are bijections of 64-bit numbers, so no two indices have
the same rank. core/src/scan/shuffle.h is the same in C++. Training draws from NumPy's generators instead.
"""

import math

import numpy as np


def ranks(count: int, first: int = 0) -> np.ndarray:
    """The ranks of `count` indices that start at `first`, (count,) uint64.

    >>> ranks(2).tolist()
    [16294208416658607535, 7960286522194355700]
    """
    z = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def shuffled(count: int) -> np.ndarray:
    """The indices 0 to count - 1, sorted by rank: (count,) int64.

    >>> shuffled(5).tolist()
    [2, 4, 1, 0, 3]
    """
    return np.argsort(ranks(count))


class Ranks:
    """Draws for `clouds.sample` in place of a NumPy generator: each instance gives the same ones, as does the C++ tool.

    >>> Ranks().random((1, 2)).round(3).tolist()
    [[0.883, 0.432]]
    >>> Ranks().permutation(3).tolist()
    [2, 1, 0]
    """

    def __init__(self) -> None:
        self._used = 0

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        """Ranks as numbers in [0, 1) with 53 bits, each index once per instance."""
        count = math.prod(shape)
        numbers = (ranks(count, self._used) >> np.uint64(11)) * 2.0**-53
        self._used += count
        return numbers.reshape(shape)

    def permutation(self, count: int) -> np.ndarray:
        """The same as `shuffled`."""
        return shuffled(count)
