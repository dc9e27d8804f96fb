"""What every data set is, once it is in memory: numpy arrays and names."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Split:
    """A stack of clouds of one size.

    points: (M, P, C) float32, xyz first, as the files hold them (not normalised).
    labels: (M,) int64, the class of each cloud; zeros where clouds have no class of their own.
    point_labels: (M, P) int64, the part or object each point belongs to, or None.
    """

    points: np.ndarray
    labels: np.ndarray
    point_labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class PointClouds:
    """A data set: its name in result files, the names behind the labels, its splits, and the axis that points up."""

    name: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    point_classes: tuple[str, ...] = ()
    up: str = "z"

    @property
    def channels(self) -> int:
        return self.train.points.shape[-1]
