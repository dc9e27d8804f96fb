"""ShapeNet Part (Yi et al., SIGGRAPH Asia 2016): 16,881 shapes of 16 categories, whose points belong to 50 parts.

hdf5_data/  {train,val,test}_hdf5_file_list.txt, all_object_categories.txt, *.h5 (`data`, `label`, `pid`)
shapenetcore_partanno_segmentation_benchmark_v0_normal/  synsetoffset2category.txt, SYNSET/ID.txt (x y z, normal, part),
    train_test_split/shuffled_{train,val,test}_file_list.json

The training split is train and val together. Parts are numbered 0 to 49 over all categories, in both layouts.

| category | shapes | parts | category | shapes | parts | category | shapes | parts | category | shapes | parts |
|---|---|---|---|---|---|---|---|---|---|---|---|
| Airplane | 2690 | 4 | Chair | 3758 | 4 | Lamp | 1547 | 4 | Pistol | 283 | 3 |
| Bag | 76 | 2 | Earphone | 69 | 3 | Laptop | 451 | 2 | Rocket | 66 | 3 |
| Cap | 55 | 2 | Guitar | 787 | 3 | Motorbike | 202 | 6 | Skateboard | 152 | 3 |
| Car | 898 | 4 | Knife | 392 | 2 | Mug | 184 | 2 | Table | 5271 | 3 |
"""

import json
import os
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from bipointnet.data.cache import cached
from bipointnet.data.clouds import require_finite
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.listing import Listing, rng_of, size_and_time, with_progress
from bipointnet.data.published import (
    checked_clouds,
    cloud_labels,
    hdf5_arrays,
    join,
    lines,
    listed_files,
    numbers,
    point_labels,
    require_listed,
    text,
)
from bipointnet.errors import UserError

# The files number the parts but do not name them; these names are ours, from the look of the parts.
_KINDS: dict[str, tuple[str, ...]] = {
    "Airplane": ("body", "wing", "tail", "engine"),
    "Bag": ("handle", "body"),
    "Cap": ("crown", "brim"),
    "Car": ("roof", "hood", "wheel", "body"),
    "Chair": ("back", "seat", "leg", "arm"),
    "Earphone": ("earpiece", "headband", "joint"),
    "Guitar": ("head", "neck", "body"),
    "Knife": ("blade", "handle"),
    "Lamp": ("base", "shade", "canopy", "pole"),
    "Laptop": ("keyboard", "screen"),
    "Motorbike": ("tank", "seat", "wheel", "handlebar", "light", "frame"),
    "Mug": ("handle", "body"),
    "Pistol": ("barrel", "grip", "trigger"),
    "Rocket": ("body", "fin", "nose"),
    "Skateboard": ("wheel", "deck", "truck"),
    "Table": ("top", "leg", "drawer"),
}
CLASSES: tuple[str, ...] = tuple(_KINDS)
POINT_CLASSES: tuple[str, ...] = tuple(f"{name}/{part}" for name, parts in _KINDS.items() for part in parts)
PARTS: tuple[tuple[int, ...], ...] = tuple(
    tuple(range(start, stop)) for start, stop in pairwise(accumulate(map(len, _KINDS.values()), initial=0))
)

_STORED = 2048  # points per shape in HDF5; as many are drawn from text
_COLUMNS = ("x", "y", "z", "nx", "ny", "nz", "part")
_CACHE_VERSION = 1


def recognizes(folder: Path) -> bool:
    return _has_hdf5(folder) or _has_text(folder)


def shapenet_part(folder: Path, points: int, seed: int = 0) -> PointClouds:
    """The data set in either layout, with 2048 points per shape, or `points` if that is more and the layout is text.

    `seed` chooses the points of text, some twice if a file has too few; HDF5 keeps the file's points in their order.
    """
    train, test = _open_hdf5(folder, points) if _has_hdf5(folder) else _open_text(folder, max(points, _STORED), seed)
    return PointClouds("shapenet-part", CLASSES, train, test, POINT_CLASSES, up="y", parts=PARTS)


def _synsets(path: Path) -> dict[str, str]:
    """The category of each synset, from lines such as "Airplane  02691156"."""
    found = {}
    for line in lines(path):
        name, _, synset = line.partition("\t" if "\t" in line else " ")
        if name not in CLASSES:
            raise UserError(
                f"{path}: names the category '{name}', expected one of {', '.join(CLASSES)}; restore the published file"
            )
        found[synset.strip()] = name
    return found


def _require_own_parts(labels: np.ndarray, parts: np.ndarray, sources: list[str]) -> None:
    """UserError for a shape (label (M,), parts (M, P)) with a part of another category."""
    first, last = (np.array([own[end] for own in PARTS])[labels, None] for end in (0, -1))  # each (M, 1)
    foreign = (parts < first) | (parts > last) | (parts % 1 != 0)
    for shape in np.flatnonzero(foreign.any(axis=1))[:1]:
        point = int(foreign[shape].argmax())
        raise UserError(
            f"{sources[shape]}: point {point} has the part {parts[shape, point]:g}, expected {first[shape, 0]} to"
            f" {last[shape, 0]}, the parts of {CLASSES[labels[shape]]}; unpack the data again"
        )


def _hdf5_list(folder: Path, split: str) -> Path:
    return folder / f"{split}_hdf5_file_list.txt"


def _has_hdf5(folder: Path) -> bool:
    return any(_hdf5_list(folder, split).is_file() for split in ("train", "test"))


def _open_hdf5(folder: Path, points: int) -> tuple[Split, Split]:
    names = folder / "all_object_categories.txt"
    if tuple(_synsets(names).values()) != CLASSES:
        raise UserError(
            f"{names}: has other categories than the labels, or another order; expected {', '.join(CLASSES)}; restore"
            " the published file"
        )
    train, test = (
        join([_read_hdf5(file, points) for split in splits for file in listed_files(_hdf5_list(folder, split))])
        for splits in (("train", "val"), ("test",))
    )
    return train, test


def _read_hdf5(file: Path, points: int) -> tuple[Path, Split]:
    data, label, pid = hdf5_arrays(file, ("data", "label", "pid"))
    data = checked_clouds(file, data, 3, points)
    labels = cloud_labels(file, label, len(data), len(CLASSES), "all_object_categories.txt")
    parts = point_labels(file, "pid", pid, data.shape[:2])
    _require_own_parts(labels, parts, [f"{file}, cloud {index}" for index in range(len(data))])
    return file, Split(data, labels, parts)


def _shape_list(folder: Path, split: str) -> Path:
    return folder / "train_test_split" / f"shuffled_{split}_file_list.json"


def _has_text(folder: Path) -> bool:
    return any(_shape_list(folder, split).is_file() for split in ("train", "test"))


def _open_text(folder: Path, points: int, seed: int) -> tuple[Split, Split]:
    synsets = _synsets(folder / "synsetoffset2category.txt")
    train, test = (_listed(folder, splits, synsets) for splits in (("train", "val"), ("test",)))
    files = [*train.files, *test.files]
    labels = np.array([*train.labels, *test.labels], np.int64)
    names = [file.relative_to(folder).as_posix() for file in files]
    key = (os.fspath(folder.absolute()), names, [size_and_time(file) for file in files], points, seed, _CACHE_VERSION)
    stored = cached("shapenet-part", key, lambda: _read_text(files, labels, points, seed))
    rows = len(train.files)
    return (
        Split(stored["points"][:rows], labels[:rows], stored["parts"][:rows].astype(np.int64)),
        Split(stored["points"][rows:], labels[rows:], stored["parts"][rows:].astype(np.int64)),
    )


def _listed(folder: Path, splits: tuple[str, ...], synsets: dict[str, str]) -> Listing:
    chosen = [shape for split in splits for shape in _listed_shapes(_shape_list(folder, split), synsets)]
    return Listing([file for file, _ in chosen], [label for _, label in chosen])


def _listed_shapes(listing: Path, synsets: dict[str, str]) -> Iterator[tuple[Path, int]]:
    """The files of a list of "shape_data/SYNSET/ID", each with its category."""
    content = text(listing)
    try:
        shapes = [str(shape).split("/") for shape in list(json.loads(content))]
    except (ValueError, TypeError) as error:
        raise UserError(f"{listing}: is not a list of names in JSON; unpack the data again") from error
    if not shapes:
        raise UserError(f"{listing}: the list is empty, expected one name per shape; unpack the data again")
    for shape in shapes:
        *_, synset, identity = ["", *shape]
        if synset not in synsets:
            raise UserError(
                f"{listing}: the category of '{'/'.join(shape)}' is not in synsetoffset2category.txt; restore the"
                " published files"
            )
        file = listing.parent.parent / synset / f"{identity}.txt"
        require_listed(file, listing)
        yield file, CLASSES.index(synsets[synset])


def _read_text(files: list[Path], labels: np.ndarray, points: int, seed: int) -> dict[str, np.ndarray]:
    """points (M, P, 3) float32 and parts (M, P) uint8."""
    drawn = np.empty((len(files), points, 3), np.float32)
    parts = np.empty((len(files), points), np.uint8)
    for index, file in enumerate(with_progress(files)):
        table = numbers(file, _COLUMNS)  # (N, 7)
        require_finite(table, file)
        _require_own_parts(labels[index : index + 1], table[None, :, 6], [str(file)])
        rng = rng_of(f"{file.parent.name}/{file.name}", seed)
        rows = np.resize(rng.permutation(len(table)), points)
        drawn[index], parts[index] = table[rows, :3], table[rows, 6]
    return {"points": drawn, "parts": parts}
