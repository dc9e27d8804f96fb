"""What was read: the layout, the classes, the splits, and what was left out, as data and as a few lines of text."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_ROWS = 8  # classes in the table of lines()
_NAMES = 5  # files in a list of lines() and in an error


@dataclass(frozen=True)
class ClassSize:
    """The number of clouds of one class in each split.

    >>> ClassSize("chair", train=8, test=2)
    ClassSize(name='chair', train=8, test=2)
    """

    name: str
    train: int
    test: int


@dataclass(frozen=True)
class Skipped:
    """A file or folder that is not part of the data set, and why.

    >>> str(Skipped("chair/notes.md", "no reader for .md"))
    'chair/notes.md (no reader for .md)'
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


@dataclass(frozen=True)
class Summary:
    """What `open_dataset` read.

    Attributes:
        data: the data as the user named it.
        layout: the layout that was recognized, in words.
        classes: the clouds per class and split.
        points: the least, median and largest number of points per file; None for meshes and generated clouds.
        meshes: the number of files that are meshes, whose surface was sampled.
        held_out: the files that were chosen for the test, as in `PointClouds.held_out`.
        skipped: files and folders that were left out.
        notes: sentences about anything else that was decided.
        point_classes: the number of classes of points, for blocks of labeled scans; else 0.

    >>> found = Summary("scans", "CLASS/*", (ClassSize("cup", 8, 2), ClassSize("vase", 4, 1)), (812, 9000, 10000))
    >>> print(*found.lines(), sep="\\n")
    scans: layout CLASS/*, 2 classes, 12 clouds to train, 3 to test
      class  train   test
      cup        8      2
      vase       4      1
    points per file: 812 to 10,000, median 9,000
    """

    data: str
    layout: str
    classes: tuple[ClassSize, ...]
    points: tuple[int, int, int] | None = None
    meshes: int = 0
    held_out: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    point_classes: int = 0

    def as_json(self) -> dict[str, Any]:
        """All fields as JSON stores them."""
        return asdict(self) | {"points": self.points and dict(zip(("min", "median", "max"), self.points, strict=True))}

    def lines(self) -> list[str]:
        """A short text: at most 9 classes and 5 names of each list. Without training clouds, only the test is named."""
        train, test = (sum(getattr(size, split) for size in self.classes) for split in ("train", "test"))
        classes, what = (self.point_classes, "blocks") if self.point_classes else (len(self.classes), "clouds")
        count = f"{classes} class{'es' * (classes != 1)}"
        sizes = f"{train:,} {what} to train, {test:,} to test" if train else f"{test:,} {what} to test"
        text = [f"{self.data}: layout {self.layout}, {count}, {sizes}"]
        text += self._table()
        text += self._sizes()
        if self.held_out:
            text.append(f"held out for the test: {first_names(self.held_out)}")
        if self.skipped:
            text.append(f"left out: {first_names(map(str, self.skipped))}")
        return [*text, *self.notes]

    def _table(self) -> list[str]:
        if len(self.classes) < 2:
            return []
        rows = self.classes if len(self.classes) <= _ROWS + 1 else self.classes[:_ROWS]
        width = max(5, *(len(size.name) for size in rows))
        splits = ("train", "test") if any(size.train for size in self.classes) else ("test",)
        table = [f"  {'class':{width}}" + "".join(f" {split:>6}" for split in splits)]
        table += [
            f"  {size.name:{width}}" + "".join(f" {getattr(size, split):>6,}" for split in splits) for size in rows
        ]
        rest = len(self.classes) - len(rows)
        return [*table, f"  and {rest} more classes"] if rest else table

    def _sizes(self) -> list[str]:
        found = []
        if self.points:
            least, median, most = self.points
            found.append(f"points per file: {least:,}" + (f" to {most:,}, median {median:,}" if least < most else ""))
        if self.meshes:
            found.append(f"{self.meshes:,} mesh{'es' * (self.meshes > 1)}, sampled on the surface")
        return ["; ".join(found)] if found else []


def first_names(names: Iterable[str], limit: int = _NAMES) -> str:
    """The first names of a list and the number of the others.

    >>> first_names(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    found = list(names)
    more = f" and {len(found) - limit:,} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more


def class_sizes(classes: Sequence[str], train: Iterable[int], test: Iterable[int]) -> tuple[ClassSize, ...]:
    """The clouds per class and split, from the labels of both.

    >>> class_sizes(["cup", "vase"], [0, 0, 1], [1])
    (ClassSize(name='cup', train=2, test=0), ClassSize(name='vase', train=1, test=1))
    """
    counts = [[0] * len(classes), [0] * len(classes)]
    for count, labels in zip(counts, (train, test), strict=True):
        for label in labels:
            count[label] += 1
    return tuple(ClassSize(name, counts[0][i], counts[1][i]) for i, name in enumerate(classes))
