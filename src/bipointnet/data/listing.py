"""Lists of files: the content of folders, and the names that folders and manifests give to splits."""

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.gltf_files import buffer_files
from bipointnet.data.parsed import unreadable
from bipointnet.data.summary import Skipped
from bipointnet.errors import UserError

SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
}
JOB = "_job.json"  # in each folder that a job over many files writes
_OUTPUTS = (JOB, "last.safetensors", "resume.safetensors")  # the last two are in run folders


@dataclass(frozen=True)
class Listing:
    """The files of a split and the class of each; `in_file_order` keeps a file's first points, not a random subset."""

    files: Sequence[Path]
    labels: Sequence[int]
    in_file_order: bool = False


def name_below(root: Path, file: Path) -> str:
    """The name of a file in keys of the cache and in lists of files, the same on every machine."""
    return file.relative_to(root).as_posix()


def split_of(name: str) -> str | None:
    """The split that a folder or an entry of a manifest names: "train", "test", "val" or None.

    >>> split_of("Training"), split_of("valid"), split_of("chair")
    ('train', 'val', None)
    """
    return SPLITS.get(name.casefold())


def subfolders(folder: Path) -> list[Path]:
    return [sub for sub in entries(folder) if sub.is_dir()]


def is_output(folder: Path) -> bool:
    """Whether a command wrote a folder: a run, a folder of runs, or the results of a job. Its files are no clouds."""
    return any((place / name).is_file() for place in (folder, *subfolders(folder)) for name in _OUTPUTS)


def cloud_files(folder: Path) -> list[Path]:
    """The files that clouds.read() knows by their suffix, sorted by name, without the buffers of glTF files."""
    found = [file for file in entries(folder) if is_cloud(file)]
    buffers = set(buffer_files(found))
    return [file for file in found if file not in buffers]


def is_cloud(file: Path) -> bool:
    return file.suffix.lower() in clouds.SUFFIXES and file.is_file()


def why_skipped(entry: Path) -> str:
    """The reason for which an entry of a class folder is not one of its clouds."""
    if entry.is_dir():
        return "a folder inside the folder of a class"
    if not entry.exists():
        return "a broken link"
    return f"no reader for '{entry.suffix}'" if entry.suffix else "no suffix"


def skipped_in(root: Path, folder: Path) -> list[Skipped]:
    """The entries of a class folder that are neither clouds nor parts of clouds."""
    found = entries(folder)
    buffers = set(buffer_files(found))
    others = [entry for entry in found if not is_cloud(entry) and entry not in buffers]
    return [Skipped(name_below(root, entry) + "/" * entry.is_dir(), why_skipped(entry)) for entry in others]


def entries(folder: Path) -> list[Path]:
    """The content of the folder without hidden files. Links are followed."""
    try:
        found = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError as error:
        raise UserError(f"{folder}: cannot be listed ({error.strerror}); check the folder's permissions") from error
    return sorted(found, key=lambda entry: entry.name)


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


def require_class_names(classes: Mapping[str, str], source: str | Path) -> None:
    """UserError for names of classes that are names of splits, or that differ in letter case only.

    `classes` gives the place where each name was found. A class may be named "train", as the vehicle, if the others
    have names of objects.
    """
    of_splits = [name for name in classes if split_of(name)]
    if of_splits and (len(of_splits) == len(classes) or any(name.casefold() != "train" for name in of_splits)):
        raise UserError(
            f"{source}: the classes would be named {', '.join(sorted(classes))}, and {sorted(of_splits)[0]} is the name"
            " of a split; expected names of objects: CLASS/*, CLASS/train/* with CLASS/test/*, or train/CLASS/* with"
            " test/CLASS/*; name the folder that holds them, or rename the class"
        )
    spelled: dict[str, str] = {}
    for name, place in classes.items():
        other = spelled.setdefault(name.casefold(), name)
        if other != name:
            raise UserError(
                f"{source}: the classes '{other}' ({classes[other]}) and '{name}' ({place}) differ only in upper and"
                " lower case; give them one name, or two different ones"
            )


def size_and_time(file: Path) -> tuple[int, int]:
    """What the cache compares: a file is read again once either changes."""
    try:
        status = file.stat()
    except OSError as error:
        raise unreadable(file, error) from error
    return status.st_size, status.st_mtime_ns


def rng_of(name: str, seed: int) -> np.random.Generator:
    """Random numbers seeded by the name of a cloud, so that its points stay the same when other clouds come or go."""
    return np.random.default_rng([seed, zlib.crc32(os.fsencode(name))])
