"""Your own files as a data set: one folder per class, one file per cloud.

DATA/train/CLASS/* and DATA/test/CLASS/*, or DATA/CLASS/*, where about a fifth of the files becomes the test split.
"""

import hashlib
import os
from collections.abc import Collection
from pathlib import Path

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.dataset import PointClouds
from bipointnet.data.listing import (
    Listing,
    cloud_files,
    listing_of,
    name_below,
    read_splits,
    require_both_splits,
    subfolders,
)
from bipointnet.errors import UserError

_TEST_SHARE = 0.2


def recognizes(folder: Path) -> bool:
    if _is_split(folder):
        return any(cloud_files(sub) for half in _halves(folder) for sub in subfolders(half))
    return any(cloud_files(sub) for sub in subfolders(folder))


def folder(path: Path, points: int, seed: int = 0, held_out: Collection[str] = ()) -> PointClouds:
    """The data set in a folder, with at least `points` points per cloud; `seed` chooses the points and the test split.

    Without train/ and test/, each file is assigned to a split by a hash of its own name, CLASS/FILE, and the seed
    (see `hash_split`). Adding, removing or renaming other files therefore does not move it.

    Args:
        held_out: names as in `PointClouds.held_out` of an earlier call. Exactly these files are then the test split,
            and all others the training split. Names of files that no longer exist are skipped. Ignored if the folder
            has train/ and test/.
    """
    if _is_split(path):
        classes, train, test = _given_split(path)
        names: tuple[str, ...] = ()
    else:
        classes, train, test = _own_split(path, seed, frozenset(held_out))
        names = tuple(name_below(path, file) for file in test.files)
    train_split, test_split = read_splits("folder", path, (train, test), points, seed)
    return PointClouds("folder", classes, train_split, test_split, held_out=names)


def hash_split(names: Collection[str], seed: int = 0) -> set[str]:
    """The files of one class that are held out for the test: those whose hash, a number in [0, 1), is below 0.2.

    The hash depends on the file's name and the seed only (BLAKE2b, 64 bits), so no file changes its split when another
    one is added, removed or renamed. The exception: each split needs a file of every class. If no hash is below 0.2,
    the file with the lowest one is held out; if all are, the file with the highest one is not. Only this one file can
    change its split because of others.

    >>> sorted(hash_split({"cup/a.ply", "cup/b.ply", "cup/c.ply", "cup/d.ply"}))
    ['cup/a.ply', 'cup/d.ply']
    """
    order = sorted(names, key=lambda name: (_hash(name, seed), name))
    count = sum(_hash(name, seed) < _TEST_SHARE for name in order)
    return set(order[: min(max(count, 1), len(order) - 1)])


def _hash(name: str, seed: int) -> float:
    """A number in [0, 1), the same on every machine."""
    digest = hashlib.blake2b(os.fsencode(name), digest_size=8, key=str(seed).encode()).digest()
    return int.from_bytes(digest, "little") / 2**64


def _halves(folder: Path) -> list[Path]:
    return [half for half in (folder / "train", folder / "test") if half.is_dir()]


def _is_split(folder: Path) -> bool:
    """Whether train/ or test/ contain class folders; a class of files may itself be named "train"."""
    return any(subfolders(half) for half in _halves(folder))


def _files_of_class(folder: Path) -> list[Path]:
    files = cloud_files(folder)
    if not files:
        raise UserError(
            f"{folder}: the folder of this class has no file that can be read; add files with one of the suffixes"
            f" {' '.join(clouds.SUFFIXES)} or remove the folder"
        )
    return files


def _given_split(path: Path) -> tuple[tuple[str, ...], Listing, Listing]:
    for half in (path / "train", path / "test"):
        if not half.is_dir():
            raise UserError(f"{path}: there is no folder {half.name}/ beside the other split; add it with its classes")
    halves = [{sub.name: _files_of_class(sub) for sub in subfolders(half)} for half in (path / "train", path / "test")]
    classes = tuple(sorted(halves[0].keys() | halves[1].keys()))
    train, test = (listing_of(classes, files) for files in halves)
    require_both_splits(classes, np.array(train.labels), np.array(test.labels), path)
    return classes, train, test


def _own_split(path: Path, seed: int, held_out: frozenset[str]) -> tuple[tuple[str, ...], Listing, Listing]:
    """Files of CLASS/ folders, split by the list `held_out`, or by hash where it is empty."""
    files = {sub.name: _files_of_class(sub) for sub in subfolders(path)}
    if not files:
        raise UserError(f"{path}: holds no folders, expected one per class; put the clouds into CLASS/ folders")
    names = {name: {name_below(path, file) for file in own} for name, own in files.items()}
    tested = held_out & set().union(*names.values())
    if held_out and not tested:
        raise UserError(
            f"{path}: none of the {len(held_out)} held-out test files is here (the first was {min(held_out)}); name the"
            " folder the model was trained on, or put new files to test on into test/CLASS/ and the others into"
            " train/CLASS/"
        )
    if not held_out:
        for name, own in files.items():
            if len(own) < 2:
                raise UserError(
                    f"{path / name}: the folder of this class has one cloud ({own[0].name}), expected at least two, one"
                    " to train and one to test; add another or remove the folder"
                )
        tested = frozenset().union(*(hash_split(own, seed) for own in names.values()))
    train, test = (
        listing_of(
            tuple(files),
            {name: [file for file in own if (name_below(path, file) in tested) == side] for name, own in files.items()},
        )
        for side in (False, True)
    )
    return tuple(files), train, test
