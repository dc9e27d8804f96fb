"""Lists of files, one cloud per file, and their clouds: read once, then kept in the cache."""

import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.cache import cached
from bipointnet.data.dataset import Split
from bipointnet.data.parsed import unreadable
from bipointnet.errors import UserError

_CACHE_VERSION = 2  # raise it whenever the same seed draws other points of a file


@dataclass(frozen=True)
class Listing:
    """The files of a split and the class of each; `in_file_order` keeps a file's first points, not a random subset."""

    files: Sequence[Path]
    labels: Sequence[int]
    in_file_order: bool = False


def listing_of(classes: Sequence[str], files: Mapping[str, Sequence[Path]]) -> Listing:
    """The files of each class, class after class."""
    chosen = [(file, label) for label, name in enumerate(classes) for file in files.get(name, [])]
    return Listing([file for file, _ in chosen], [label for _, label in chosen])


def name_below(root: Path, file: Path) -> str:
    """The name of a file in keys of the cache and in lists of files, the same on every machine."""
    return file.relative_to(root).as_posix()


def subfolders(folder: Path) -> list[Path]:
    return [sub for sub in _entries(folder) if sub.is_dir()]


def cloud_files(folder: Path) -> list[Path]:
    """The files that clouds.read() knows by their suffix, sorted by name."""
    return [file for file in _entries(folder) if file.suffix.lower() in clouds.SUFFIXES and file.is_file()]


def _entries(folder: Path) -> list[Path]:
    """The content of the folder without hidden files."""
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise UserError(f"{folder}: cannot be listed ({error.strerror}); check the folder's permissions") from error


def require_both_splits(
    classes: Sequence[str], train_labels: np.ndarray, test_labels: np.ndarray, source: str | Path
) -> None:
    """UserError for a class without clouds in a split: it can be neither learned nor evaluated."""
    for label, name in enumerate(classes):
        lacking = [split for split, labels in (("train", train_labels), ("test", test_labels)) if label not in labels]
        if lacking:
            raise UserError(
                f"{source}: class '{name}' has no cloud in the {' and the '.join(lacking)} split; expected at least one"
                " per class in both; add some or remove the class"
            )


def read_splits(
    layout: str, root: Path, listings: tuple[Listing, Listing], points: int, seed: int
) -> tuple[Split, Split]:
    """The train and test clouds of files below `root`, read once and then kept in the cache."""
    names = [[name_below(root, file) for file in listing.files] for listing in listings]
    stats = [[size_and_time(file) for file in listing.files] for listing in listings]
    key = (layout, os.fspath(root.absolute()), names, stats, points, seed, _CACHE_VERSION)
    stored = cached(layout, key, lambda: dict(zip(("train", "test"), _read(root, listings, points, seed), strict=True)))
    train, test = (
        Split(stored[split], np.array(listing.labels, np.int64), files=tuple(own))
        for split, listing, own in zip(("train", "test"), listings, names, strict=True)
    )
    return train, test


def size_and_time(file: Path) -> tuple[int, int]:
    """What the cache compares: a file is read again once either changes."""
    try:
        status = file.stat()
    except OSError as error:
        raise unreadable(file, error) from error
    return status.st_size, status.st_mtime_ns


def _read(root: Path, listings: Sequence[Listing], points: int, seed: int) -> list[np.ndarray]:
    progress = with_progress([file for listing in listings for file in listing.files])
    return [
        _stack([_pool(root, next(progress), points, seed, listing.in_file_order) for _ in listing.files], points)
        for listing in listings
    ]


def _pool(root: Path, file: Path, points: int, seed: int, in_file_order: bool) -> np.ndarray:
    """(points to 2 * points, 3) float32: more than training draws per epoch, where the file has more."""
    cloud = clouds.read(file)
    if in_file_order:
        clouds.require_points(len(cloud.points), points, file)
        return cloud.points[: 2 * points]
    most = 2 * points if cloud.faces is not None else len(cloud.points)
    return clouds.sample(cloud, max(points, min(2 * points, most)), rng_of(name_below(root, file), seed), file)


def rng_of(name: str, seed: int) -> np.random.Generator:
    """Random numbers seeded by the name of a cloud, so that its points stay the same when other clouds come or go."""
    return np.random.default_rng([seed, zlib.crc32(os.fsencode(name))])


def _stack(pools: list[np.ndarray], points: int) -> np.ndarray:
    smallest = min(map(len, pools), default=points)
    return np.stack([pool[:smallest] for pool in pools]) if pools else np.empty((0, points, 3), np.float32)  # (M, P, 3)


def with_progress(files: Sequence[Path]) -> Iterator[Path]:
    """Iterate over the files; a progress bar appears on stderr after one second."""
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
