"""ModelNet40 and ModelNet10 (Wu et al. 2015, arXiv 1406.5670): HDF5 of 2048 points, resampled text, or OFF meshes.

modelnet40_ply_hdf5_2048/  train_files.txt, test_files.txt, shape_names.txt, *.h5 (`data`, `label`)
modelnet40_normal_resampled/  modelnet40_train.txt, modelnet40_test.txt, modelnet40_shape_names.txt, CLASS/ID.txt
ModelNet40/  CLASS/train/*.off, CLASS/test/*.off

| data set | classes | train | test | points per cloud |
|---|---|---|---|---|
| ModelNet40, HDF5 | 40 | 9840 | 2468 | 2048 |
| ModelNet40, text or OFF | 40 | 9843 | 2468 | 10,000, or any number |
| ModelNet10, text or OFF | 10 | 3991 | 908 | 10,000, or any number |
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bipointnet.data import folder as folders
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.listing import Listing, require_both_splits
from bipointnet.data.own import open_own
from bipointnet.data.published import (
    checked_clouds,
    cloud_labels,
    hdf5_arrays,
    join,
    lines,
    listed_files,
    require_listed,
)
from bipointnet.data.reading import read_splits
from bipointnet.data.summary import Summary, class_sizes
from bipointnet.errors import UserError

_VARIANTS = ("modelnet40", "modelnet10")
_LIST = re.compile(r"(modelnet40|modelnet10)_(?:train|test|shape_names)\.txt")


def recognizes(place: Path) -> bool:
    """Whether `place` is a folder of ModelNet, or one of the lists of ModelNet40 or ModelNet10 in it."""
    if place.is_file():
        return bool(_LIST.fullmatch(place.name))
    return _has_hdf5(place) or bool(_text_variants(place)) or _has_meshes(place)


def modelnet(place: Path, points: int, seed: int = 0) -> PointClouds:
    """The data set in any of its layouts, with at least `points` points per cloud.

    `seed` chooses the points of text and meshes; HDF5 keeps all points in the order of the file. The published text has
    the lists of ModelNet40 and of ModelNet10. ModelNet40 is opened, unless `place` is a list of ModelNet10.
    """
    match = _LIST.fullmatch(place.name) if place.is_file() else None
    if match:
        return _open_text(place.parent, match[1], points, seed)
    if _has_hdf5(place):
        return _open_hdf5(place, points)
    if variants := _text_variants(place):
        return _open_text(place, variants[0], points, seed)
    if _has_meshes(place):
        found = open_own(folders.find(place), points, seed, skip_bad=None)
        return replace(found, name=_name(found.classes), trained_on=())
    raise UserError(
        f"{place}: not a ModelNet folder; expected train_files.txt (HDF5), modelnet40_train.txt (text) or"
        " CLASS/train/*.off (meshes); name the folder as it was unpacked"
    )


def _name(classes: Sequence[str]) -> str:
    return {40: "modelnet40", 10: "modelnet10"}.get(len(classes), "modelnet")


def _has_hdf5(folder: Path) -> bool:
    return (folder / "train_files.txt").is_file() or (folder / "test_files.txt").is_file()


def _open_hdf5(folder: Path, points: int) -> PointClouds:
    classes = tuple(lines(folder / "shape_names.txt"))
    train, test = (
        join([_read_hdf5(file, classes, points) for file in listed_files(folder / list_name)])
        for list_name in ("train_files.txt", "test_files.txt")
    )
    require_both_splits(classes, train.labels, test.labels, folder)
    return PointClouds(_name(classes), classes, train, test, up="y")


def _read_hdf5(file: Path, classes: Sequence[str], points: int) -> tuple[Path, Split]:
    data, label = hdf5_arrays(file, ("data", "label"))
    data = checked_clouds(file, data, 3, points)
    return file, Split(data, cloud_labels(file, label, len(data), len(classes), "shape_names.txt"))


def _text_variants(folder: Path) -> list[str]:
    """The data sets whose lists the folder has."""
    return [name for name in _VARIANTS if any(_id_list(folder, name, split).is_file() for split in ("train", "test"))]


def _id_list(folder: Path, variant: str, split: str) -> Path:
    return folder / f"{variant}_{split}.txt"


def _open_text(folder: Path, variant: str, points: int, seed: int) -> PointClouds:
    classes = tuple(lines(folder / f"{variant}_shape_names.txt"))
    train = _listed_text(_id_list(folder, variant, "train"), classes, in_file_order=False)
    # As in the literature, a test cloud consists of the first points of its file.
    test = _listed_text(_id_list(folder, variant, "test"), classes, in_file_order=True)
    require_both_splits(classes, np.array(train.labels), np.array(test.labels), folder)
    splits, read = read_splits(folder, (train, test), points, seed)
    others = [name for name in _text_variants(folder) if name != variant]
    notes = tuple(f"{name} is here, too; to open it, name {folder / f'{name}_train.txt'}" for name in others)
    sizes = class_sizes(classes, train.labels, test.labels)
    summary = Summary(str(folder), f"{variant}_train.txt with CLASS/ID.txt", sizes, read.points, notes=notes)
    return PointClouds(_name(classes), classes, *splits, up="y", summary=summary)


def _listed_text(listing: Path, classes: Sequence[str], in_file_order: bool) -> Listing:
    files, labels = [], []
    for identity in lines(listing):
        name = identity.rpartition("_")[0]
        if name not in classes:
            raise UserError(
                f"{listing}: the class of the id '{identity}' is not in the list of shape names; unpack the data again"
            )
        file = listing.parent / name / f"{identity}.txt"
        require_listed(file, listing)
        files.append(file)
        labels.append(classes.index(name))
    return Listing(files, labels, in_file_order)


def _has_meshes(folder: Path) -> bool:
    """Whether all files are meshes with the names of ModelNet, CLASS/train/CLASS_0001.off; others may be anybody's."""
    if folders.layout_of(folder) != folders.SPLITS_OF_CLASSES:
        return False
    sources = folders.find(folder).sources
    return all(
        re.fullmatch(rf"{re.escape(source.label)}_\d+\.off", source.file.name, re.IGNORECASE) for source in sources
    )
