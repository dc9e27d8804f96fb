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

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.listing import Listing, listing_of, read_splits, require_both_splits, subfolders
from bipointnet.data.published import (
    checked_clouds,
    cloud_labels,
    hdf5_arrays,
    join,
    lines,
    listed_files,
    require_listed,
)
from bipointnet.errors import UserError


def recognizes(folder: Path) -> bool:
    return _has_hdf5(folder) or bool(_text_variant(folder)) or _has_meshes(folder)


def modelnet(folder: Path, points: int, seed: int = 0) -> PointClouds:
    """The data set in any of its layouts, with at least `points` points per cloud.

    `seed` chooses the points of text and meshes; HDF5 keeps all points in the order of the file.
    """
    if _has_hdf5(folder):
        classes, splits = _open_hdf5(folder, points)
    elif variant := _text_variant(folder):
        classes, splits = _open_text(folder, variant, points, seed)
    elif _has_meshes(folder):
        classes, splits = _open_meshes(folder, points, seed)
    else:
        raise UserError(
            f"{folder}: not a ModelNet folder; expected train_files.txt (HDF5), modelnet40_train.txt (text) or"
            " CLASS/train/*.off (meshes); name the folder as it was unpacked"
        )
    name = {40: "modelnet40", 10: "modelnet10"}.get(len(classes), "modelnet")
    return PointClouds(name, classes, *splits, up="z" if _has_meshes(folder) else "y")


def _has_hdf5(folder: Path) -> bool:
    return (folder / "train_files.txt").is_file() or (folder / "test_files.txt").is_file()


def _open_hdf5(folder: Path, points: int) -> tuple[tuple[str, ...], tuple[Split, Split]]:
    classes = tuple(lines(folder / "shape_names.txt"))
    train, test = (
        join([_read_hdf5(file, classes, points) for file in listed_files(folder / list_name)])
        for list_name in ("train_files.txt", "test_files.txt")
    )
    require_both_splits(classes, train.labels, test.labels, folder)
    return classes, (train, test)


def _read_hdf5(file: Path, classes: Sequence[str], points: int) -> tuple[Path, Split]:
    data, label = hdf5_arrays(file, ("data", "label"))
    data = checked_clouds(file, data, 3, points)
    return file, Split(data, cloud_labels(file, label, len(data), len(classes), "shape_names.txt"))


def _text_variant(folder: Path) -> str | None:
    """The data set whose lists the folder has; the published folder has both, and ModelNet40 is chosen."""
    variants = ("modelnet40", "modelnet10")
    return next(
        (name for name in variants for split in ("train", "test") if _id_list(folder, name, split).is_file()), None
    )


def _id_list(folder: Path, variant: str, split: str) -> Path:
    return folder / f"{variant}_{split}.txt"


def _open_text(folder: Path, variant: str, points: int, seed: int) -> tuple[tuple[str, ...], tuple[Split, Split]]:
    classes = tuple(lines(folder / f"{variant}_shape_names.txt"))
    train = _listed_text(_id_list(folder, variant, "train"), classes, in_file_order=False)
    # As in the literature, a test cloud consists of the first points of its file.
    test = _listed_text(_id_list(folder, variant, "test"), classes, in_file_order=True)
    require_both_splits(classes, np.array(train.labels), np.array(test.labels), folder)
    return classes, read_splits(f"{variant}-text", folder, (train, test), points, seed)


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


def _meshes(folder: Path) -> list[Path]:
    return sorted(f for f in folder.glob("*") if f.suffix.lower() == ".off" and not f.name.startswith("."))


def _has_meshes(folder: Path) -> bool:
    return any(_meshes(sub / split) for sub in subfolders(folder) for split in ("train", "test"))


def _open_meshes(folder: Path, points: int, seed: int) -> tuple[tuple[str, ...], tuple[Split, Split]]:
    classes = tuple(sub.name for sub in subfolders(folder) if (sub / "train").is_dir() or (sub / "test").is_dir())
    train, test = (_listed_meshes(folder, classes, split) for split in ("train", "test"))
    require_both_splits(classes, np.array(train.labels), np.array(test.labels), folder)
    return classes, read_splits("modelnet-off", folder, (train, test), points, seed)


def _listed_meshes(folder: Path, classes: Sequence[str], split: str) -> Listing:
    return listing_of(classes, {name: _meshes(folder / name / split) for name in classes})
