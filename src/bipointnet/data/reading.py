"""Read many cloud files: in parallel, each kept in the cache, all bad files named together."""

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.cache import Entry, load_entry, prune, save_entry
from bipointnet.data.dataset import Split
from bipointnet.data.gltf_files import buffer_files
from bipointnet.data.listing import Listing, name_below, rng_of, size_and_time
from bipointnet.data.parsed import unreadable
from bipointnet.data.summary import Skipped, first_names
from bipointnet.errors import UserError

_CACHE_VERSION = 4  # raise it whenever the same seed draws other points of a file
_LOOK_AHEAD = 4  # files per thread that are read before the first one is used
_END = 16 << 10  # bytes at each end of a file that its fingerprint covers

Item = TypeVar("Item")
Result = TypeVar("Result")


class TooFewPoints(UserError):
    """A cloud with `found` points, fewer than wanted."""

    def __init__(self, message: str, found: int) -> None:
        super().__init__(message)
        self.found = found


@dataclass(frozen=True)
class Job:
    """One cloud to read.

    name: in lists and keys. files: all that the cloud is read from, the main one first. read: returns the points drawn,
    (P, C) float32, the number of points in the file, 0 for a mesh, and how many points were left out. key: what the
    result depends on beside the files.
    """

    name: str
    files: tuple[Path, ...]
    read: Callable[[], tuple[np.ndarray, int, int]]
    key: tuple[object, ...]

    def run(self) -> tuple[Entry | UserError, bool]:
        """The cloud, and whether it was read: it is in the cache if its files did not change.

        A UserError is returned, not raised.
        """
        try:
            stats = [(os.fspath(file.absolute()), *size_and_time(file)) for file in self.files]
            key = (self.name, stats, self.key, _CACHE_VERSION)
            entry = load_entry(key)
            if entry is not None:
                return entry, False
            rows, points, dropped = self.read()
            entry = Entry(rows, points, fingerprint(self.files[0]), dropped)
            save_entry(key, entry)
            return entry, True
        except UserError as error:
            return error, False


def cloud_job(name: str, file: Path, points: int, seed: int, in_file_order: bool = False, strict: bool = False) -> Job:
    """Draw `points` to 2 * `points` points of a file: more than training draws per epoch, where the file has more."""

    def read() -> tuple[np.ndarray, int, int]:
        cloud = clouds.read(file, strict=strict)
        count = 0 if cloud.faces is not None else len(cloud.points)
        try:
            clouds.require_points(count or points, points, file)
        except UserError as error:
            raise TooFewPoints(str(error), count) from error
        if in_file_order and count:
            return cloud.points[: 2 * points], count, cloud.dropped
        most = min(2 * points, count) if count else 2 * points
        return clouds.sample(cloud, max(points, most), rng_of(name, seed), file), count, cloud.dropped

    return Job(name, (file, *buffer_files([file])), read, (points, seed, in_file_order, strict))


@dataclass(frozen=True)
class Clouds:
    """The clouds that were read, None in the place of a bad file, and the bad files."""

    entries: list[Entry | None]
    bad: list[Skipped]

    @property
    def points(self) -> tuple[int, int, int] | None:
        """The least, median and largest number of points per file; None if all are meshes."""
        found = sorted(entry.points for entry in self.entries if entry and entry.points)
        return (found[0], found[len(found) // 2], found[-1]) if found else None

    @property
    def meshes(self) -> int:
        return sum(1 for entry in self.entries if entry and not entry.points)

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence if points were left out."""
        dropped = [entry.dropped for entry in self.entries if entry and entry.dropped]
        if not dropped:
            return ()
        files = f"{len(dropped):,} file{'s' * (len(dropped) > 1)}"
        return (f"{sum(dropped):,} points without finite coordinates were left out, in {files}",)


def read_all(
    jobs: Sequence[Job], source: str | Path, skip_bad: bool | None = None, workers: int | None = None
) -> Clouds:
    """Read all clouds; the result does not depend on the number of threads (default: one per core).

    A UserError names all files that cannot be read, unless `skip_bad` is true; where it is not None, the error
    recommends the option. The good files are then in the cache, so the next attempt is fast.
    """
    begun = time.time() - 1  # file systems may round times down
    done = in_order(Job.run, jobs, workers)
    results = [next(done) for _ in with_progress([job.files[0] for job in jobs])]
    if any(new for _, new in results):
        prune(begun)
    errors = [(job, found) for job, (found, _) in zip(jobs, results, strict=True) if isinstance(found, UserError)]
    errors.sort(key=lambda error: error[0].name)
    if errors and not skip_bad:
        raise _error_of(errors, len(jobs), source, "" if skip_bad is None else ", or pass --skip-bad")
    bad = [Skipped(job.name, _reason(job, error)) for job, error in errors]
    return Clouds([None if isinstance(found, UserError) else found for found, _ in results], bad)


def _reason(job: Job, error: UserError) -> str:
    """What is wrong with a file, without its path and without the remedy."""
    return str(error).removeprefix(f"{job.files[0]}: ").partition(";")[0]


def _error_of(errors: list[tuple[Job, UserError]], total: int, source: str | Path, remedy: str) -> UserError:
    if len(errors) == 1:
        return UserError(f"{errors[0][1]}{remedy}")
    named = first_names([f"{job.name} ({_reason(job, error)})" for job, error in errors])
    small = [error.found for _, error in errors if isinstance(error, TooFewPoints)]
    remedy = (f", train with --points {min(small)} or fewer" if small else "") + remedy
    return UserError(
        f"{source}: {len(errors):,} of {total:,} files cannot be used: {named}; correct or remove these files{remedy}"
    )


def read_splits(
    root: Path, listings: tuple[Listing, Listing], points: int, seed: int
) -> tuple[tuple[Split, Split], Clouds]:
    """The train and test clouds of files below `root`, and what was read."""
    jobs = [
        cloud_job(name_below(root, file), file, points, seed, listing.in_file_order, strict=True)
        for listing in listings
        for file in listing.files
    ]
    found = read_all(jobs, root)
    first = len(listings[0].files)
    train, test = (
        Split(
            stack([entry.rows for entry in part if entry], points),
            np.array(listing.labels, np.int64),
            names=tuple(name_below(root, file) for file in listing.files),
        )
        for part, listing in zip((found.entries[:first], found.entries[first:]), listings, strict=True)
    )
    return (train, test), found


def stack(pools: Sequence[np.ndarray], points: int) -> np.ndarray:
    """(M, P, 3): clouds cut to the size of the smallest."""
    smallest = min(map(len, pools), default=points)
    return np.stack([pool[:smallest] for pool in pools]) if pools else np.empty((0, points, 3), np.float32)


def fingerprint(file: Path) -> bytes:
    """8 bytes that identify a file's content, whatever its name: a hash of its size and of its first and last 16 KiB.

    The buffers of a glTF file count as its content.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = [(place / name).write_bytes(bytes(100_000)) for name in ("a", "b")]
    >>> fingerprint(place / "a") == fingerprint(place / "b")
    True
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in (file, *buffer_files([file])):
        try:
            with open(part, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(0)
                first = stream.read(_END)
                stream.seek(max(len(first), size - _END))
                digest.update(str(size).encode() + b":" + first + stream.read(_END))
        except OSError as error:
            raise unreadable(part, error) from error
    return digest.digest()


def in_order(function: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None) -> Iterator[Result]:
    """The results of `function` in the order of `items`, computed by threads, at most a few items ahead.

    >>> list(in_order(abs, [-3, 1, -2]))
    [3, 1, 2]
    """
    threads = workers or cores()
    waiting = iter(items)
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        submit = partial(pool.submit, function)
        try:
            pending.extend(submit(item) for item in islice(waiting, _LOOK_AHEAD * threads))
            while pending:
                result = pending.popleft().result()
                pending.extend(submit(item) for item in islice(waiting, 1))
                yield result
        finally:
            for future in pending:
                future.cancel()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
