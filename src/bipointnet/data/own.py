"""Files of your own as a data set: which are for the test, and what was read.

A folder (folder.py) or a manifest (manifest.py) lists the files. They may name the split of each. Otherwise a fifth of
each class is held out for the test, see `hold_out`.

A trained network is evaluated on files that it has not seen (see `TrainedOn`): on the test split where there is one, on
all files otherwise, in both cases without its training files. These are recognized by their content, whatever their
names. In the folder that the network was trained on they are also recognized by their names, as a file may have been
edited since. So the held-out files are tested, and new files, in the old folder or in another one. Classes that the
network does not know are left out.
"""

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bipointnet.data.cache import Entry
from bipointnet.data.dataset import PointClouds, Split, TrainedOn
from bipointnet.data.listing import require_both_splits, require_class_names
from bipointnet.data.reading import Clouds, cloud_job, fingerprint, in_order, read_all, stack
from bipointnet.data.summary import Skipped, Summary, class_sizes, first_names
from bipointnet.errors import UserError

_TEST_SHARE = 0.2


@dataclass(frozen=True)
class Source:
    """One file: its name below the data folder, its class, and its split ("train", "test" or None)."""

    name: str
    file: Path
    label: str
    split: str | None = None


@dataclass(frozen=True)
class Found:
    """The files of a data set before they are read, and what was left out.

    root: as the user named it. layout: in words.
    """

    root: Path
    layout: str
    sources: tuple[Source, ...]
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({source.label for source in self.sources}))

    @property
    def has_splits(self) -> bool:
        return any(source.split for source in self.sources)


def hold_out(names: Collection[str], seed: int = 0) -> set[str]:
    """The files of one class that are held out for the test: the fifth with the lowest hashes, rounded, at least one.

    The hash depends on the file's name and the seed only (BLAKE2b, 64 bits). A file that is added or removed therefore
    moves at most one other file to the other split, and every class has the same share.

    >>> sorted(hold_out({"cup/a.ply", "cup/b.ply", "cup/c.ply", "cup/d.ply", "cup/e.ply"}))
    ['cup/b.ply']
    """
    order = sorted(names, key=lambda name: (_hash(name, seed), name))
    count = int(_TEST_SHARE * len(order) + 0.5)
    return set(order[: min(max(count, 1), len(order) - 1)])


def _hash(name: str, seed: int) -> bytes:
    """The same on every machine."""
    return hashlib.blake2b(os.fsencode(name), digest_size=8, key=str(seed).encode()).digest()


def open_own(
    found: Found, points: int, seed: int = 0, trained: TrainedOn | None = None, skip_bad: bool | None = False
) -> PointClouds:
    """The data set of these files, with at least `points` points per cloud.

    Args:
        seed: chooses among a file's points, and the test split where the files name none.
        trained: what a network to evaluate was trained on. Only the test split is then read.
        skip_bad: leave out files that cannot be read, or have too few points, instead of raising an error.
            None is like False, for data without this option.
    """
    if trained is not None and not trained.classes:
        trained = replace(trained, classes=found.classes)
    require_class_names({source.label: source.name for source in found.sources}, found.root)
    notes: tuple[str, ...] = found.notes
    skipped = found.skipped
    if trained is None:
        classes = found.classes
        splits, note = _splits(found, seed), None
    else:
        classes = trained.classes
        skipped += _unknown(found, trained)
        test, note = unseen(found, seed, trained)
        splits = (), test
    jobs = [cloud_job(source.name, source.file, points, seed) for split in splits for source in split]
    read = read_all(jobs, found.root, skip_bad)
    train, test = (_kept(split, read, start) for split, start in zip(splits, (0, len(splits[0])), strict=True))
    labels = [[classes.index(source.label) for source, _ in split] for split in (train, test)]
    if trained is None:
        require_both_splits(classes, np.array(labels[0]), np.array(labels[1]), found.root)
    elif not test:
        raise UserError(f"{found.root}: no test file can be used ({first_names(map(str, read.bad))}); add others")
    notes += (note([source for source, _ in test]),) if note else ()
    notes += read.notes + _copies(train, test)
    held_out = () if found.has_splits else tuple(source.name for source, _ in test)
    summary = Summary(
        str(found.root),
        found.layout,
        class_sizes(classes, *labels),
        read.points,
        read.meshes,
        held_out if trained is None else (),
        (*skipped, *read.bad),
        notes,
    )
    clouds = [
        Split(
            stack([entry.rows for _, entry in split], points),
            np.array(own, np.int64),
            names=tuple(source.name for source, _ in split),
        )
        for split, own in zip((train, test), labels, strict=True)
    ]
    return PointClouds(
        "folder",
        classes,
        clouds[0],
        clouds[1],
        held_out=held_out,
        trained_on=tuple((source.name, entry.fingerprint.hex()) for source, entry in train),
        summary=summary,
    )


def _kept(split: Sequence[Source], read: Clouds, start: int) -> list[tuple[Source, Entry]]:
    """The sources that could be read, each with its content."""
    return [(source, entry) for source, entry in zip(split, read.entries[start:], strict=False) if entry]


def _copies(train: Sequence[tuple[Source, Entry]], test: Sequence[tuple[Source, Entry]]) -> tuple[str, ...]:
    """A sentence about test files that have the content of training files."""
    contents = {entry.fingerprint for _, entry in train}
    copies = [source.name for source, entry in test if entry.fingerprint in contents]
    return (f"the test has copies of training files: {first_names(copies)}",) if copies else ()


def _of_split(sources: Iterable[Source], split: str) -> tuple[Source, ...]:
    return tuple(source for source in sources if source.split == split)


def _splits(found: Found, seed: int) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """The files to train and to test, by the splits that they name, or by hash."""
    if found.has_splits:
        splits = _of_split(found.sources, "train"), _of_split(found.sources, "test")
        for name, split in zip(("train", "test"), splits, strict=True):
            if not split:
                raise UserError(
                    f"{found.root}: there are no {name} files beside the other split (layout {found.layout}); add them"
                )
        return splits
    by_class = {name: [source.name for source in found.sources if source.label == name] for name in found.classes}
    for name, own in by_class.items():
        if len(own) < 2:
            raise UserError(
                f"{found.root}: the class '{name}' has one cloud ({own[0]}), expected at least two, one to train and"
                " one to test; add another or remove the class"
            )
    tested = set().union(*(hold_out(own, seed) for own in by_class.values()))
    train, test = (
        tuple(source for source in found.sources if (source.name in tested) == side) for side in (False, True)
    )
    return train, test


def _unknown(found: Found, trained: TrainedOn) -> tuple[Skipped, ...]:
    """The classes that the network does not know; UserError if it knows none."""
    unknown = [name for name in found.classes if name not in trained.classes]
    if len(unknown) == len(found.classes):
        raise UserError(
            f"{found.root}: the network knows none of the classes {first_names(unknown)}; expected some of"
            f" {first_names(trained.classes, 10)}; choose one with these classes"
        )
    return tuple(Skipped(name, "a class that the network does not know") for name in unknown)


def unseen(
    found: Found, seed: int, trained: TrainedOn
) -> tuple[tuple[Source, ...], Callable[[Collection[Source]], str]]:
    """The files to evaluate a network on, and a function: those of them that can be read -> what to say about them."""
    if trained.every:
        known = tuple(source for source in found.sources if source.label in trained.classes)
        return known, lambda tested: f"tested: all {len(tested):,} files, also those it may have been trained on"
    candidates = _of_split(found.sources, "test") if found.has_splits else found.sources
    candidates = tuple(source for source in candidates if source.label in trained.classes)
    if not candidates:
        raise UserError(f"{found.root}: has no test file (layout {found.layout}); add some")
    if trained.files is None:
        if found.has_splits:
            return candidates, lambda _: "tested: the test split; the model does not record its training files"
        by_class = ([source.name for source in candidates if source.label == name] for name in trained.classes)
        tested = set().union(*(hold_out(own, seed) or own for own in by_class))
        return (
            tuple(source for source in candidates if source.name in tested),
            lambda _: (
                "tested: a fifth, as `train` holds it out; the model does not record its training files"
                " (--all tests on all files)"
            ),
        )
    prints = [own.hex() for own in in_order(fingerprint, [source.file for source in candidates])]
    known = dict(trained.files)
    contents = set(known.values())
    same_folder = any(known.get(source.name) == own for source, own in zip(candidates, prints, strict=True))
    fresh = tuple(
        source
        for source, own in zip(candidates, prints, strict=True)
        if own not in contents and not (same_folder and source.name in known)
    )
    if not fresh:
        raise UserError(
            f"{found.root}: all {len(candidates)} files were used to train the network; expected files that it has not"
            " seen; add new ones or name another folder"
        )

    def note(tested: Collection[Source]) -> str:
        held_out = sum(source.name in trained.held_out for source in tested) if same_folder else 0
        kinds = [
            f"{held_out:,} that the run held out" if held_out else "",
            f"{len(tested) - held_out:,} that are new to it" if len(tested) > held_out else "",
        ]
        left = len(candidates) - len(fresh)
        edited = bool(known) and known.keys() <= {source.name for source in tested}
        remarks = [
            f"tested: {' and '.join(filter(None, kinds))}",
            f"left out: {left:,} of its training files" if left else "",
            "all its training files have namesakes here with other contents: are these edited copies?"
            if edited
            else "",
        ]
        return "; ".join(filter(None, remarks))

    return fresh, note
