"""A data set of one's own: a folder a class, a file a cloud.

DATA/train/CLASS/* and DATA/test/CLASS/*, or DATA/CLASS/* of which a fifth becomes the test split.
"""

import os
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.cache import cached
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.errors import UserError

_TEST_SHARE = 0.2
_CACHE_VERSION = 1


@dataclass(frozen=True)
class Listing:
    """The files of a split and the class of each; `in_file_order` keeps a file's first points, not a random subset."""

    files: Sequence[Path]
    labels: Sequence[int]
    in_file_order: bool = False


def recognizes(folder: Path) -> bool:
    if _is_split(folder):
        return any(cloud_files(sub) for half in _halves(folder) for sub in subfolders(half))
    return any(cloud_files(sub) for sub in subfolders(folder))


def folder(path: Path, points: int, seed: int = 0) -> PointClouds:
    """The data set in a folder, with at least `points` points a cloud; `seed` draws them and the test split."""
    classes, train, test = _given_split(path) if _is_split(path) else _drawn_split(path, seed)
    return PointClouds("folder", classes, *read_splits("folder", path, (train, test), points, seed))


def subfolders(folder: Path) -> list[Path]:
    return [sub for sub in _entries(folder) if sub.is_dir()]


def cloud_files(folder: Path) -> list[Path]:
    """The files clouds.read() knows by their suffix, in the order of their names."""
    return [file for file in _entries(folder) if file.suffix.lower() in clouds.SUFFIXES and file.is_file()]


def _entries(folder: Path) -> list[Path]:
    """What the folder shows, hidden files left out."""
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise UserError(f"{folder}: cannot be listed ({error.strerror}); check the folder's permissions") from error


def require_both_splits(
    classes: Sequence[str], train_labels: np.ndarray, test_labels: np.ndarray, source: str | Path
) -> None:
    """A class without clouds in a split can be neither learnt nor evaluated."""
    for label, name in enumerate(classes):
        lacking = [split for split, labels in (("train", train_labels), ("test", test_labels)) if label not in labels]
        if lacking:
            raise UserError(
                f"{source}: class '{name}' has no cloud in the {' and the '.join(lacking)} split where each class needs"
                " at least one in both; add some or remove the class"
            )


def read_splits(
    layout: str, root: Path, listings: tuple[Listing, Listing], points: int, seed: int
) -> tuple[Split, Split]:
    """The train and test clouds of files below `root`, read once and then kept in the cache."""
    names = [[file.relative_to(root).as_posix() for file in listing.files] for listing in listings]
    stats = [[size_and_time(file) for file in listing.files] for listing in listings]
    key = (layout, os.fspath(root.absolute()), names, stats, points, seed, _CACHE_VERSION)
    stored = cached(layout, key, lambda: dict(zip(("train", "test"), _read(root, listings, points, seed), strict=True)))
    train, test = (
        Split(stored[split], np.array(listing.labels, np.int64))
        for split, listing in zip(("train", "test"), listings, strict=True)
    )
    return train, test


def size_and_time(file: Path) -> tuple[int, int]:
    """What a cache remembers a file by: it is read again once either changes."""
    try:
        status = file.stat()
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); check the file and its permissions") from error
    return status.st_size, status.st_mtime_ns


def _read(root: Path, listings: Sequence[Listing], points: int, seed: int) -> list[np.ndarray]:
    progress = with_progress([file for listing in listings for file in listing.files])
    return [
        _stack([_pool(root, next(progress), points, seed, listing.in_file_order) for _ in listing.files])
        for listing in listings
    ]


def _pool(root: Path, file: Path, points: int, seed: int, in_file_order: bool) -> np.ndarray:
    """(points to 2 * points, 3) float32: more than training draws an epoch, where the file holds more."""
    cloud = clouds.read(file)
    if in_file_order:
        clouds.require_points(len(cloud.points), points, file)
        return cloud.points[: 2 * points]
    # Seeded by the file's name, so that the points of a cloud stay the same when others come or go.
    rng = np.random.default_rng([seed, zlib.crc32(file.relative_to(root).as_posix().encode())])
    most = 2 * points if cloud.faces is not None else len(cloud.points)
    return clouds.sample(cloud, max(points, min(2 * points, most)), rng, file)


def _stack(pools: list[np.ndarray]) -> np.ndarray:
    smallest = min(map(len, pools))
    return np.stack([pool[:smallest] for pool in pools])  # (M, P, 3)


def with_progress(files: Sequence[Path]) -> Iterator[Path]:
    """The files in turn; a bar appears on stderr once a second has gone by."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    bar = Progress(console=console, transient=True)
    task = bar.add_task("reading clouds", total=len(files))
    begun, shown = time.monotonic(), False
    try:
        for done, file in enumerate(files):
            if not shown and console.is_terminal and time.monotonic() - begun > 1:
                bar.start()
                shown = True
            bar.update(task, completed=done)
            yield file
    finally:
        if shown:
            bar.stop()


def _halves(folder: Path) -> list[Path]:
    return [half for half in (folder / "train", folder / "test") if half.is_dir()]


def _is_split(folder: Path) -> bool:
    """Whether train/ or test/ hold class folders; a class of files may itself be named "train"."""
    return any(subfolders(half) for half in _halves(folder))


def _files_of_class(folder: Path) -> list[Path]:
    files = cloud_files(folder)
    if not files:
        raise UserError(
            f"{folder}: the folder of this class holds no file that can be read; add files with one of the suffixes"
            f" {' '.join(clouds.SUFFIXES)} or remove the folder"
        )
    return files


def _given_split(path: Path) -> tuple[tuple[str, ...], Listing, Listing]:
    for half in (path / "train", path / "test"):
        if not half.is_dir():
            raise UserError(f"{path}: there is no folder {half.name}/ beside the other split; add it with its classes")
    halves = [{sub.name: _files_of_class(sub) for sub in subfolders(half)} for half in (path / "train", path / "test")]
    classes = tuple(sorted(halves[0].keys() | halves[1].keys()))
    train, test = (_listing(classes, files) for files in halves)
    require_both_splits(classes, np.array(train.labels), np.array(test.labels), path)
    return classes, train, test


def _drawn_split(path: Path, seed: int) -> tuple[tuple[str, ...], Listing, Listing]:
    train: dict[str, list[Path]] = {}
    test: dict[str, list[Path]] = {}
    for sub in subfolders(path):
        files = _files_of_class(sub)
        if len(files) < 2:
            raise UserError(
                f"{sub}: the folder of this class holds one cloud ({files[0].name}) where two are needed, one to train"
                " and one to test; add another or remove the folder"
            )
        rng = np.random.default_rng([seed, zlib.crc32(sub.name.encode())])
        tested = set(rng.permutation(len(files))[: max(1, round(_TEST_SHARE * len(files)))].tolist())
        test[sub.name] = [file for index, file in enumerate(files) if index in tested]
        train[sub.name] = [file for index, file in enumerate(files) if index not in tested]
    if not train:
        raise UserError(f"{path}: holds no folders where one a class is expected; put the clouds into CLASS/ folders")
    classes = tuple(train)
    return classes, _listing(classes, train), _listing(classes, test)


def _listing(classes: Sequence[str], files: dict[str, list[Path]]) -> Listing:
    chosen = [(file, label) for label, name in enumerate(classes) for file in files.get(name, [])]
    return Listing([file for file, _ in chosen], [label for _, label in chosen])
