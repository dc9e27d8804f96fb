"""ModelNet40 and ModelNet10 as published: HDF5 of 2048 points, resampled text, or OFF meshes.

modelnet40_ply_hdf5_2048/  train_files.txt, test_files.txt, shape_names.txt, *.h5 (`data`, `label`)
modelnet40_normal_resampled/  modelnet40_train.txt, modelnet40_test.txt, modelnet40_shape_names.txt, CLASS/ID.txt
ModelNet40/  CLASS/train/*.off, CLASS/test/*.off
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bipointnet.clouds import require_finite, require_points
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.folder import Listing, read_splits, require_both_splits, subfolders
from bipointnet.errors import UserError


def recognizes(folder: Path) -> bool:
    return _has_hdf5(folder) or bool(_text_variant(folder)) or _has_meshes(folder)


def modelnet(folder: Path, points: int, seed: int = 0) -> PointClouds:
    """The data set in any of its layouts, with at least `points` points a cloud.

    `seed` draws the stored points of text and meshes; HDF5 keeps all of them in the file's order.
    """
    if _has_hdf5(folder):
        classes, splits = _open_hdf5(folder, points)
    elif variant := _text_variant(folder):
        classes, splits = _open_text(folder, variant, points, seed)
    elif _has_meshes(folder):
        classes, splits = _open_meshes(folder, points, seed)
    else:
        raise UserError(
            f"{folder}: holds none of train_files.txt (HDF5), modelnet40_train.txt (text), CLASS/train/*.off (meshes);"
            " name the folder of ModelNet as it was unpacked"
        )
    name = {40: "modelnet40", 10: "modelnet10"}.get(len(classes), "modelnet")
    return PointClouds(name, classes, *splits, up="z" if _has_meshes(folder) else "y")


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: there is no such file, though this layout of ModelNet has it; unpack it again"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not a readable list of names; unpack it again") from error
    lines = [line for line in lines if line]
    if not lines:
        raise UserError(f"{path}: the list is empty where a name a line is expected; unpack it again")
    return lines


def _has_hdf5(folder: Path) -> bool:
    return (folder / "train_files.txt").is_file() or (folder / "test_files.txt").is_file()


def _open_hdf5(folder: Path, points: int) -> tuple[tuple[str, ...], tuple[Split, Split]]:
    classes = tuple(_lines(folder / "shape_names.txt"))
    train, test = (
        _join([_read_hdf5(file, classes, points) for file in _listed_hdf5(folder / list_name)])
        for list_name in ("train_files.txt", "test_files.txt")
    )
    require_both_splits(classes, train.labels, test.labels, folder)
    return classes, (train, test)


def _listed_hdf5(listing: Path) -> list[Path]:
    """The lines name paths of the machine that made them; only the last component is ours."""
    files = [listing.parent / Path(line).name for line in _lines(listing)]
    for file in files:
        if not file.is_file():
            raise UserError(f"{file}: there is no such file, though {listing.name} names it; unpack the data again")
    return files


def _join(parts: list[tuple[Path, Split]]) -> Split:
    first_file, first = parts[0]
    for file, part in parts:
        if part.points.shape[1] != first.points.shape[1]:
            raise UserError(
                f"{file}: has clouds of {part.points.shape[1]} points where {first_file.name} has"
                f" {first.points.shape[1]}; keep files of one size in a folder"
            )
    return Split(np.concatenate([part.points for _, part in parts]), np.concatenate([part.labels for _, part in parts]))


def _read_hdf5(file: Path, classes: Sequence[str], points: int) -> tuple[Path, Split]:
    data, label = _hdf5_arrays(file)
    if data.ndim != 3 or data.shape[2] != 3 or data.dtype.kind != "f" or len(data) == 0:
        raise UserError(
            f"{file}: 'data' is {data.dtype} of shape {data.shape} where float32 of shape (clouds, points, 3) is"
            " expected; unpack the data again"
        )
    if label.shape not in ((len(label),), (len(label), 1)) or label.dtype.kind not in "iu":
        raise UserError(
            f"{file}: 'label' is {label.dtype} of shape {label.shape} where whole numbers of shape (clouds, 1) are"
            " expected; unpack the data again"
        )
    if len(label) != len(data):
        raise UserError(f"{file}: has {len(label)} labels for {len(data)} clouds; unpack the data again")
    labels = label.reshape(-1).astype(np.int64)
    beyond = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if len(beyond):
        raise UserError(
            f"{file}: cloud {beyond[0]} has the label {labels[beyond[0]]} where 0 to {len(classes) - 1} are expected,"
            f" as shape_names.txt names {len(classes)} classes; restore the published shape_names.txt"
        )
    require_points(data.shape[1], points, file)
    data = data.astype(np.float32, copy=False)
    broken = np.flatnonzero(~np.isfinite(data).all(axis=(1, 2)))
    if len(broken):
        require_finite(data[broken[0]], f"{file}, cloud {broken[0]}")
    return file, Split(data, labels)


def _hdf5_arrays(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """`data` and `label` as stored."""
    try:
        import h5py
    except ImportError as error:
        raise UserError(f"{file}: reading HDF5 needs h5py; install it with: pip install 'bipointnet[train]'") from error
    try:
        with h5py.File(file, "r") as stored:
            found = ", ".join(stored) or "nothing"
            parts = {name: stored[name] for name in ("data", "label") if name in stored}
            arrays = {name: part[()] for name, part in parts.items() if isinstance(part, h5py.Dataset)}
    except Exception as error:  # h5py has no error type of its own: a cut file raises OSError, RuntimeError, ...
        raise UserError(
            f"{file}: is not a whole HDF5 file; it may be cut short, unpack or download it again"
        ) from error
    for name in ("data", "label"):
        if not isinstance(arrays.get(name), np.ndarray):
            raise UserError(f"{file}: has no array '{name}' (it holds {found}); unpack the data again")
    return arrays["data"], arrays["label"]


def _text_variant(folder: Path) -> str | None:
    """Which lists the folder has: the published one has those of ModelNet10 beside those of ModelNet40."""
    variants = ("modelnet40", "modelnet10")
    return next(
        (name for name in variants for split in ("train", "test") if _id_list(folder, name, split).is_file()), None
    )


def _id_list(folder: Path, variant: str, split: str) -> Path:
    return folder / f"{variant}_{split}.txt"


def _open_text(folder: Path, variant: str, points: int, seed: int) -> tuple[tuple[str, ...], tuple[Split, Split]]:
    classes = tuple(_lines(folder / f"{variant}_shape_names.txt"))
    train = _listed_text(_id_list(folder, variant, "train"), classes, in_file_order=False)
    # The protocol of the literature: a test cloud is the first points of its file.
    test = _listed_text(_id_list(folder, variant, "test"), classes, in_file_order=True)
    require_both_splits(classes, np.array(train.labels), np.array(test.labels), folder)
    return classes, read_splits(f"{variant}-text", folder, (train, test), points, seed)


def _listed_text(listing: Path, classes: Sequence[str], in_file_order: bool) -> Listing:
    files, labels = [], []
    for identity in _lines(listing):
        name = identity.rpartition("_")[0]
        if name not in classes:
            raise UserError(
                f"{listing}: the id '{identity}' is of no class in the list of shape names; unpack the data again"
            )
        file = listing.parent / name / f"{identity}.txt"
        if not file.is_file():
            raise UserError(f"{file}: there is no such file, though {listing.name} names it; unpack the data again")
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
    chosen = [(file, label) for label, name in enumerate(classes) for file in _meshes(folder / name / split)]
    return Listing([file for file, _ in chosen], [label for _, label in chosen])
