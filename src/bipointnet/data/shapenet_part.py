"""ShapeNet Part (Yi et al., SIGGRAPH Asia 2016): 16,881 shapes of 16 categories, whose points belong to 50 parts.

hdf5_data/  {train,val,test}_hdf5_file_list.txt, all_object_categories.txt, *.h5 (`data`, `label`, `pid`)
shapenetcore_partanno_segmentation_benchmark_v0_normal/  synsetoffset2category.txt, SYNSET/ID.txt (x y z, normal, part),
    train_test_split/shuffled_{train,val,test}_file_list.json
shapenetcore_partanno_segmentation_benchmark_v0/  synsetoffset2category.txt, SYNSET/points/ID.pts (x y z),
    SYNSET/points_label/ID.seg (a part per line, from 1 in each category), train_test_split/ as above or missing

The training split is train and val together. Parts are numbered 0 to 49 over all categories, in all layouts. Without
lists, a fifth of each category is held out for the test.

| category | shapes | parts | category | shapes | parts | category | shapes | parts | category | shapes | parts |
|---|---|---|---|---|---|---|---|---|---|---|---|
| Airplane | 2690 | 4 | Chair | 3758 | 4 | Lamp | 1547 | 4 | Pistol | 283 | 3 |
| Bag | 76 | 2 | Earphone | 69 | 3 | Laptop | 451 | 2 | Rocket | 66 | 3 |
| Cap | 55 | 2 | Guitar | 787 | 3 | Motorbike | 202 | 6 | Skateboard | 152 | 3 |
| Car | 898 | 4 | Knife | 392 | 2 | Mug | 184 | 2 | Table | 5271 | 3 |
"""

import json
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from bipointnet.data.clouds import require_finite
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.listing import Listing, name_below, rng_of
from bipointnet.data.own import hold_out
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
from bipointnet.data.reading import Job, read_all
from bipointnet.data.summary import Summary, class_sizes
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
_SYNSETS = "synsetoffset2category.txt"


def recognizes(folder: Path) -> bool:
    return folder.is_dir() and (_has_hdf5(folder) or _has_text(folder) or _has_pairs(folder))


def shapenet_part(folder: Path, points: int, seed: int = 0) -> PointClouds:
    """The data set in any layout, with 2048 points per shape, or `points` if that is more and the layout is text.

    `seed` chooses the points of text, some twice if a file has too few; HDF5 keeps the file's points in their order.
    """
    if not _has_hdf5(folder):
        return _open_text(folder, max(points, _STORED), seed)
    return _dataset(*_open_hdf5(folder, points))


def _dataset(train: Split, test: Split, held_out: tuple[str, ...] = (), summary: Summary | None = None) -> PointClouds:
    name = "shapenet-part"
    return PointClouds(
        name, CLASSES, train, test, POINT_CLASSES, up="y", parts=PARTS, held_out=held_out, summary=summary
    )


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


def _has_pairs(folder: Path) -> bool:
    """Whether points and parts are in separate files, as in version 0."""
    return (folder / _SYNSETS).is_file() and any(folder.glob("*/points/*.pts"))


def _open_text(folder: Path, points: int, seed: int) -> PointClouds:
    synsets = _synsets(folder / _SYNSETS)
    pairs = _has_pairs(folder)
    held_out: tuple[str, ...] = ()
    if _has_text(folder):
        train, test = (_listed(folder, splits, synsets, pairs) for splits in (("train", "val"), ("test",)))
        layout = "train_test_split/*.json with SYNSET/"
    else:
        train, test = _held_out(folder, synsets, seed)
        held_out = tuple(name_below(folder, file) for file in test.files)
        layout = "SYNSET/"
    files, labels = [*train.files, *test.files], np.array([*train.labels, *test.labels], np.int64)
    jobs = [_job(folder, file, int(label), points, seed) for file, label in zip(files, labels, strict=True)]
    read = read_all(jobs, folder)
    rows = np.stack([entry.rows for entry in read.entries if entry])  # (M, P, 4)
    first = len(train.files)
    splits = [
        Split(np.ascontiguousarray(own[..., :3]), own_labels, own[..., 3].astype(np.int64))
        for own, own_labels in ((rows[:first], labels[:first]), (rows[first:], labels[first:]))
    ]
    layout += "points/*.pts with points_label/*.seg" if pairs else "ID.txt"
    sizes = class_sizes(CLASSES, train.labels, test.labels)
    return _dataset(splits[0], splits[1], held_out, Summary(str(folder), layout, sizes, read.points, held_out=held_out))


def _listed(folder: Path, splits: tuple[str, ...], synsets: dict[str, str], pairs: bool) -> Listing:
    chosen = [shape for split in splits for shape in _listed_shapes(_shape_list(folder, split), synsets, pairs)]
    return Listing([file for file, _ in chosen], [label for _, label in chosen])


def _listed_shapes(listing: Path, synsets: dict[str, str], pairs: bool) -> Iterator[tuple[Path, int]]:
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
                f"{listing}: the category of '{'/'.join(shape)}' is not in {_SYNSETS}; restore the published files"
            )
        folder = listing.parent.parent / synset
        file = folder / "points" / f"{identity}.pts" if pairs else folder / f"{identity}.txt"
        require_listed(file, listing)
        yield file, CLASSES.index(synsets[synset])


def _held_out(folder: Path, synsets: dict[str, str], seed: int) -> tuple[Listing, Listing]:
    """The shapes of all categories; a fifth of each is for the test."""
    splits: tuple[list[tuple[Path, int]], list[tuple[Path, int]]] = ([], [])
    for synset, category in synsets.items():
        files = sorted((folder / synset / "points").glob("*.pts"))
        if len(files) < 2:
            raise UserError(
                f"{folder / synset / 'points'}: holds {len(files)} files, expected at least two *.pts, one to train and"
                f" one to test, or no {category} in {_SYNSETS}; unpack the data again"
            )
        tested = hold_out([name_below(folder, file) for file in files], seed)
        for file in files:
            splits[name_below(folder, file) in tested].append((file, CLASSES.index(category)))
    train, test = (Listing([file for file, _ in split], [label for _, label in split]) for split in splits)
    return train, test


def _job(folder: Path, file: Path, label: int, points: int, seed: int) -> Job:
    """Draw points of a shape: rows of x, y, z and part."""
    seg = file.parent.parent / "points_label" / f"{file.stem}.seg" if file.suffix == ".pts" else None

    def read() -> tuple[np.ndarray, int, int]:
        table = numbers(file, _COLUMNS)[:, [0, 1, 2, 6]] if seg is None else _read_pair(file, seg, label)  # (N, 4)
        require_finite(table, file)
        _require_own_parts(np.array([label]), table[None, :, 3], [str(file)])
        rows = np.resize(rng_of(f"{file.parent.name}/{file.name}", seed).permutation(len(table)), points)
        return table[rows].astype(np.float32), len(table), 0

    return Job(name_below(folder, file), (file, seg) if seg else (file,), read, ("part", label, points, seed))


def _read_pair(file: Path, seg: Path, label: int) -> np.ndarray:
    """(N, 4): points, and their parts numbered over all categories."""
    xyz, parts = numbers(file, ("x", "y", "z")), numbers(seg, ("part",))
    if len(xyz) != len(parts):
        raise UserError(
            f"{seg}: has {len(parts)} parts for the {len(xyz)} points of {file.name}; unpack the data again"
        )
    own = PARTS[label]
    beyond = np.flatnonzero((parts < 1) | (parts > len(own)) | (parts % 1 != 0))
    if len(beyond):
        raise UserError(
            f"{seg}: point {beyond[0]} has the part {parts[beyond[0], 0]:g}, expected 1 to {len(own)}, the parts of"
            f" {CLASSES[label]}; unpack the data again"
        )
    return np.hstack([xyz, parts - 1 + own[0]])
