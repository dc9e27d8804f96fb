"""What every data set is, once it is in memory: numpy arrays and names."""

from dataclasses import dataclass

import numpy as np

from bipointnet.errors import UserError


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
    """A data set: its name in result files, the names behind the labels, its splits, and the axis that points up.

    parts: for each class the labels its points may carry, in order; empty where points are no parts of their cloud's
        class, as in rooms.
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    point_classes: tuple[str, ...] = ()
    up: str = "z"
    parts: tuple[tuple[int, ...], ...] = ()

    @property
    def channels(self) -> int:
        return self.train.points.shape[-1]

    @property
    def class_sizes(self) -> np.ndarray:  # (classes,)
        """How many clouds of each class there are, train and test together."""
        return np.bincount(np.concatenate([self.train.labels, self.test.labels]), minlength=len(self.classes))

    def only(self, name: str) -> "PointClouds":
        """The clouds of one class, whose parts are numbered from 0."""
        if name not in self.classes or not self.parts:
            known = ", ".join(self.classes) if self.parts else "none, as its classes have no parts"
            raise UserError(f"{self.name}: has no class '{name}' to segment; expected is one of: {known}")
        label = self.classes.index(name)
        parts = self.parts[label]
        renumbered = np.full(len(self.point_classes), -1)
        renumbered[list(parts)] = np.arange(len(parts))
        splits = []
        for which, split in (("train", self.train), ("test", self.test)):
            rows = np.flatnonzero(split.labels == label)
            if len(rows) == 0 or split.point_labels is None:
                raise UserError(f"{self.name}: class '{name}' has no cloud in the {which} split; choose another class")
            splits.append(
                Split(split.points[rows], np.zeros(len(rows), np.int64), renumbered[split.point_labels[rows]])
            )
        return PointClouds(
            f"{self.name}/{name}",
            (name,),
            splits[0],
            splits[1],
            tuple(self.point_classes[part] for part in parts),
            self.up,
            (tuple(range(len(parts))),),
        )
