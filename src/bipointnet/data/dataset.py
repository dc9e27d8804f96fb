"""The form that every data set has once it is in memory: NumPy arrays and names."""

from dataclasses import dataclass, replace

import numpy as np

from bipointnet.data.blocks import BlockLayout
from bipointnet.data.scan_facts import ScanFacts
from bipointnet.data.summary import Summary
from bipointnet.errors import UserError


@dataclass(frozen=True)
class Split:
    """Clouds of one size, stacked.

    Attributes:
        points: (M, P, C) float32, xyz first, as stored in the files (not normalized).
        labels: (M,) int64, the class of each cloud; zeros where clouds have no class of their own.
        point_labels: (M, P) int64, the part or object each point belongs to, or None.
        names: of the M clouds: the file of each, relative to the data folder, or file and place; else empty.

    >>> len(Split(np.zeros((5, 1024, 3), np.float32), np.array([0, 0, 1, 1, 2])))
    5
    """

    points: np.ndarray
    labels: np.ndarray
    point_labels: np.ndarray | None = None
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class TrainedOn:
    """What a network was trained on, so that `open_dataset` returns only clouds that it has not seen.

    Attributes:
        classes: the names of its classes; they number the labels, and others are left out. Empty: use the classes of
            the files.
        files: `PointClouds.trained_on` of its data; None where that is not recorded, as for a packed model.
        held_out: `PointClouds.held_out` of its data.
        every: return all clouds nevertheless.

    >>> TrainedOn(("cup", "vase"), files=(("cup/a.ply", "84ad0f7ce3a7b0c6"),)).held_out
    ()
    """

    classes: tuple[str, ...]
    files: tuple[tuple[str, str], ...] | None = None
    held_out: tuple[str, ...] = ()
    every: bool = False


@dataclass(frozen=True)
class PointClouds:
    """A data set, as `open_dataset` returns it.

    Attributes:
        name: the name in result files.
        classes: the names of the labels of clouds.
        train: the clouds to learn from.
        test: the clouds to evaluate.
        point_classes: the names of the labels of points; empty where points have none.
        up: the axis that points up.
        parts: the point labels that occur in each class, in order; empty where points are not parts of an object, as
            in rooms.
        blocks: how scans were cut into blocks, where clouds are blocks.
        scans: what an evaluation must know about labeled scans of the user's own.
        held_out: the files of the test split, as paths relative to the data folder ("chair/a.ply"), where it was chosen
            by `open_dataset`; empty where the data set has a test split of its own.
        trained_on: the names and fingerprints of the training files, where clouds are files of the user's own; empty
            for others.
        summary: what was read.

    >>> cup, bowl = np.zeros((1, 8, 3), np.float32), np.ones((1, 8, 3), np.float32)
    >>> split = Split(np.concatenate([cup, bowl]), np.array([0, 1]))
    >>> data = PointClouds("dishes", ("cup", "bowl"), train=split, test=split)
    >>> data.channels, data.class_sizes.tolist()
    (3, [2, 2])
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    point_classes: tuple[str, ...] = ()
    up: str = "z"
    parts: tuple[tuple[int, ...], ...] = ()
    blocks: BlockLayout | None = None
    held_out: tuple[str, ...] = ()
    trained_on: tuple[tuple[str, str], ...] = ()
    scans: ScanFacts | None = None
    summary: Summary | None = None

    @property
    def channels(self) -> int:
        """Numbers per point: 3 for xyz."""
        return self.train.points.shape[-1]

    @property
    def class_sizes(self) -> np.ndarray:  # (classes,)
        """The number of clouds of each class, train and test together."""
        return np.bincount(np.concatenate([self.train.labels, self.test.labels]), minlength=len(self.classes))

    @property
    def test_names(self) -> tuple[str, ...]:
        """The names of the test clouds, or their numbers where they have none."""
        numbers = tuple(f"test cloud {i}" for i in range(len(self.test)))
        return next(names for names in (self.test.names, self.held_out, numbers) if len(names) == len(self.test))

    def only(self, name: str) -> "PointClouds":
        """The clouds of one class, with its parts numbered from 0."""
        if name not in self.classes or not self.parts:
            known = ", ".join(self.classes) if self.parts else "none, as its classes have no parts"
            raise UserError(f"{self.name}: has no class '{name}' to segment; expected one of: {known}")
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
        return replace(
            self,
            name=f"{self.name}/{name}",
            classes=(name,),
            train=splits[0],
            test=splits[1],
            point_classes=tuple(self.point_classes[part] for part in parts),
            parts=(tuple(range(len(parts))),),
        )
