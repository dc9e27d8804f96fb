"""Folders of your own files, one file per cloud. Three layouts are recognized by their structure:

DATA/CLASS/*                            a fifth of each class is held out for the test
DATA/CLASS/train/*, DATA/CLASS/test/*   as ModelNet is published
DATA/train/CLASS/*, DATA/test/CLASS/*

In any upper and lower case, "training", "testing", and "val", "valid" or "validation" name splits, too. A validation
split is the test split where there is no other; beside a test split it is not used.

Hidden files are ignored, links are followed. What is left out is named in the summary: other suffixes, folders inside
the folder of a class, files beside the folders of classes.
"""

from pathlib import Path

from bipointnet.data import clouds
from bipointnet.data.listing import (
    cloud_files,
    entries,
    is_output,
    name_below,
    skipped_in,
    split_of,
    subfolders,
)
from bipointnet.data.own import Found, Source
from bipointnet.data.summary import Skipped
from bipointnet.errors import UserError

OF_CLASSES = "CLASS/*"
SPLITS_OF_CLASSES = "CLASS/train/* with CLASS/test/*"
CLASSES_OF_SPLITS = "train/CLASS/* with test/CLASS/*"


def layout_of(folder: Path) -> str | None:
    """Which of the three layouts a folder has; None if it has none."""
    subs = [sub for sub in subfolders(folder) if not is_output(sub)]
    if any(_class_folders(sub) for sub in subs if split_of(sub.name)):
        return CLASSES_OF_SPLITS
    if any(_split_folders(sub) for sub in subs if not split_of(sub.name)):
        return SPLITS_OF_CLASSES
    return OF_CLASSES if any(cloud_files(sub) for sub in subs) else None


def recognizes(folder: Path) -> bool:
    return folder.is_dir() and layout_of(folder) is not None


def find(folder: Path) -> Found:
    """The files of a folder, by its layout."""
    layout = layout_of(folder)
    if layout is None:
        raise UserError(f"{folder}: holds no folders, expected one per class; put the clouds into CLASS/ folders")
    sources: list[Source] = []
    skipped = [Skipped(entry.name, "a file beside the folders") for entry in entries(folder) if not entry.is_dir()]
    if layout == OF_CLASSES:
        for sub in subfolders(folder):
            if is_output(sub):
                skipped.append(Skipped(f"{sub.name}/", "written by a command of bipointnet"))
                continue
            sources += _of_class(folder, sub, sub.name, None)
            skipped += skipped_in(folder, sub)
        return Found(folder, layout, tuple(sources), tuple(skipped))
    places = _places(folder, layout, skipped)
    splits, note = _used_splits(folder, places)
    for split, label, place in places:
        if split in splits:
            sources += _of_class(folder, place, label, splits[split], required=layout == CLASSES_OF_SPLITS)
            skipped += skipped_in(folder, place)
    patterns = {splits[split]: _pattern(folder, place, layout) for split, _, place in places if split in splits}
    names = " with ".join(patterns[split] for split in ("train", "test") if split in patterns)
    return Found(folder, names, tuple(sorted(sources, key=lambda s: (s.label, s.name))), tuple(skipped), note)


def _class_folders(split: Path) -> list[Path]:
    return [sub for sub in subfolders(split) if cloud_files(sub)]


def _split_folders(folder: Path) -> list[Path]:
    return [sub for sub in subfolders(folder) if split_of(sub.name) and cloud_files(sub)]


def _pattern(folder: Path, place: Path, layout: str) -> str:
    first, second = place.relative_to(folder).parts
    return f"{first}/CLASS/*" if layout == CLASSES_OF_SPLITS else f"CLASS/{second}/*"


def _places(folder: Path, layout: str, skipped: list[Skipped]) -> list[tuple[str, str, Path]]:
    """The folders with files: the split, the class and the path of each. Appends what is left out to `skipped`."""
    found = []
    for outer in subfolders(folder):
        if is_output(outer):
            skipped.append(Skipped(f"{outer.name}/", "written by a command of bipointnet"))
            continue
        of_splits = layout == CLASSES_OF_SPLITS
        if of_splits and not split_of(outer.name):
            skipped.append(Skipped(f"{outer.name}/", "a folder beside the splits"))
            continue
        if not of_splits and split_of(outer.name):
            skipped.append(Skipped(f"{outer.name}/", "a split beside the classes, which have splits of their own"))
            continue
        skipped += (
            Skipped(name_below(folder, entry), f"a file beside the {'classes' if of_splits else 'splits'}")
            for entry in entries(outer)
            if not entry.is_dir()
        )
        if not of_splits and not _split_folders(outer):
            _require_files(outer, cloud_files(outer))
            raise UserError(
                f"{outer}: holds files, while other classes hold train/ and test/; sort the files of this class into"
                " train/ and test/, too"
            )
        for inner in subfolders(outer):
            split, label = (outer.name, inner.name) if of_splits else (inner.name, outer.name)
            if split_of(split):
                found.append((split, label, inner))
            else:
                skipped.append(Skipped(name_below(folder, inner) + "/", "a folder beside the splits of a class"))
    return found


def _used_splits(folder: Path, places: list[tuple[str, str, Path]]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The split, "train" or "test", of each name that is used, and a sentence about a validation split."""
    names: dict[str, str] = {}
    for name in sorted({name for name, _, _ in places}):
        split = split_of(name)
        assert split is not None
        other = names.setdefault(split, name)
        if other != name:
            raise UserError(
                f"{folder}: has {other}/ and {name}/ for one split; expected one of the two; merge them under one name"
            )
    used = {name: split for split, name in names.items() if split != "val"}
    if "val" not in names:
        return used, ()
    if "test" in names:
        count = sum(len(cloud_files(place)) for name, _, place in places if name == names["val"])
        note = f"{names['val']}/ with {count:,} files is not used: {names['test']}/ is the test split"
        return used, (note,)
    return used | {names["val"]: "test"}, (f"{names['val']}/ is the test split, as there is no test/",)


def _of_class(root: Path, folder: Path, label: str, split: str | None, required: bool = True) -> list[Source]:
    files = cloud_files(folder)
    if required:
        _require_files(folder, files)
    return [Source(name_below(root, file), file, label, split) for file in files]


def _require_files(folder: Path, files: list[Path]) -> None:
    if not files:
        raise UserError(
            f"{folder}: the folder of this class has no file that can be read; add files with one of the suffixes"
            f" {' '.join(clouds.SUFFIXES)} or remove the folder"
        )
