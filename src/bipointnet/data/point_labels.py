"""The labels of the points of a scan: where they are, and how they are read.

A label is a code from 0 to 65535. It is a column of the scan itself, or in a parallel file with one label per point.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.arrays import load_array
from bipointnet.data.class_tables import HIGHEST_CODE
from bipointnet.data.clouds import Cloud
from bipointnet.data.summary import first_names
from bipointnet.errors import UserError

FIELDS = (
    *("classification", "label", "labels", "class", "category", "sem_class", "semantic"),
    *("scalar_Classification", "scalar_Label", "scalar_Class"),
)

_BESIDE = (".labels", ".label", ".npy", "_labels.npy", ".labels.npy", ".seg")
_IN_LABELS = (".npy", ".label", ".labels", ".seg", ".txt")
_TEXT_AT_ONCE = 1 << 24  # bytes
_SHOWN = 8  # fields in a sentence


def read_codes(file: Path, cloud: Cloud, name: str | None = None, remedy: str | None = None) -> np.ndarray:
    """The label of each point of a cloud that was read from a file, (N,) int64.

    Labels are in the field `name`, else in the first of FIELDS that the cloud has, in upper or lower case, else in the
    file's `parallel_file`. UserError if there are none, or if they are not whole numbers from 0 to 65535.

    remedy: what to do if there are none; None: an option of `train`.

    >>> cloud = Cloud(np.zeros((2, 3), np.float32), fields={"Label": np.array([3.0, 5.0])})
    >>> read_codes(Path("a.ply"), cloud).tolist()
    [3, 5]
    """
    labels = parallel_file(file) if name is None else None
    for wanted in FIELDS if name is None else (name,):
        field = _field(cloud, wanted)
        if field is None:
            continue
        codes = _whole(cloud.fields[field], f"{file}: the field '{field}'")
        if labels is None:
            return codes
        # A LAS file that is not classified has a column of zeros and ones all the same.
        if codes.max(initial=0) > 1 or field != "classification" or file.suffix.lower() not in clouds.LAS:
            raise UserError(
                f"{file}: has labels in the column {field} and in {labels}; expected one of the two; move the "
                "file away, or name the column when you train (`train --labels`)"
            )
    if name is not None:
        raise UserError(
            f"{file}: has no field '{name}'; expected one of {_names(cloud.fields)}; {remedy or 'name one of these'}"
        )
    if labels is None:
        raise UserError(
            f"{file}: no labels found, its fields are {_names(cloud.fields)}; expected a field {', '.join(FIELDS)}, or "
            f"a file {', '.join(path.name for path in _beside(file) if path != file)} beside it or in a folder "
            f"'labels' beside its folder; {remedy or f'add one of these, or train with {_option(cloud)}'}"
        )
    codes = read_label_file(labels, file, len(cloud.points) + cloud.dropped)
    return codes if cloud.kept is None else codes[cloud.kept]


def parallel_file(file: Path) -> Path | None:
    """The file with the labels of the points of `file`: beside it, or in a folder `labels` beside its folder.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.labels").write_text("1")
    >>> parallel_file(folder / "a.txt").name
    'a.labels'
    """
    return next((path for path in _candidates(file) if path.is_file() and _may_be_labels(file, path)), None)


def label_files(files: Iterable[Path]) -> set[Path]:
    """Those of the files that are the parallel labels of another one, and no clouds of their own.

    >>> sorted(path.name for path in label_files([Path("a.ply"), Path("a.seg"), Path("b.seg"), Path("a_labels.npy")]))
    ['a.seg', 'a_labels.npy']
    """
    listed = set(files)
    owners = (file for file in listed if file.suffix.lower() in clouds.SUFFIXES)
    return {path for file in owners for path in _candidates(file) if path in listed and _may_be_labels(file, path)}


# Where labels are


def _field(cloud: Cloud, name: str) -> str | None:
    """The cloud's own spelling of a field's name."""
    if name in cloud.fields:
        return name
    return next((field for field in cloud.fields if field.casefold() == name.casefold()), None)


def _option(cloud: Cloud) -> str:
    """The option of `train` that says which column holds the labels."""
    if any(name.startswith("column ") for name in cloud.fields):
        return "--columns, which names the columns, such as x,y,z,label"
    return "--labels, which names the column that holds them"


def _beside(file: Path) -> list[Path]:
    return [file.with_name(file.stem + end) for end in _BESIDE]


def _candidates(file: Path) -> list[Path]:
    folder = file.parent if file.parent.name not in ("", "..") else Path(os.path.abspath(file.parent))
    places = (folder.parent / "labels", folder / "labels")
    parallel = [place / (file.stem + end) for place in places for end in _IN_LABELS]
    return [path for path in (*_beside(file), *parallel) if path != file]


def _may_be_labels(file: Path, path: Path) -> bool:
    """Whether a candidate holds labels: a.npy beside a.ply may be the same cloud in another format."""
    if path.name != f"{file.stem}.npy" or path.parent != file.parent:
        return True
    if file.suffix.lower() == ".npy":
        return False
    try:
        found = load_array(path, "r")
    except Exception:  # NumPy raises many types for broken files; reading it tells what is wrong
        return True
    return found.dtype.names is None and found.shape[1:] in ((), (1,))


# Reading labels


def read_label_file(path: Path, file: Path, count: int) -> np.ndarray:
    """The labels of the `count` points of `file` in another file: .npy, .label, or text with one number per line."""
    try:
        if path.suffix == ".label":
            values = _semantic_kitti(path)
        elif path.suffix == ".npy":
            values = _array(path)
        else:
            values = _text(path)
    except UserError:
        raise
    except Exception as error:  # NumPy raises many types for broken files
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise UserError(
            f"{path}: cannot be read as labels ({reason}); expected {_form(path)}; write it again"
        ) from error
    if len(values) != count:
        raise UserError(
            f"{path}: holds {len(values)} labels, expected {count}, one per point of {file}; write one label per point"
        )
    return _whole(values, str(path))


def _form(path: Path) -> str:
    forms = {".label": "uint32 numbers", ".npy": "an array of integers"}
    return forms.get(path.suffix, "text with one number per line")


def _semantic_kitti(path: Path) -> np.ndarray:
    """The class is in the lower 16 bits; the upper ones count objects."""
    return np.frombuffer(path.read_bytes(), "<u4") & np.uint32(0xFFFF)


def _array(path: Path) -> np.ndarray:
    found = load_array(path, "r")  # not yet read: its header may declare more than fits into memory
    if found.ndim == 0 or found.shape[1:] not in ((), (1,)) or found.dtype.kind not in "iuf":
        raise UserError(
            f"{path}: holds {found.dtype} values of shape {found.shape}, expected integers of shape (points,); save "
            "one label per point"
        )
    return np.array(found).reshape(-1)


def _text(path: Path) -> np.ndarray:
    """Numbers, one per line; 13 may be written 13.000000. In parts: the lines of a scan may need much memory."""
    parts = [np.empty(0)]
    read = 0
    with open(path, encoding="utf-8-sig") as file:
        while lines := file.readlines(_TEXT_AT_ONCE):
            try:
                parts.append(np.array([line for line in lines if not line.isspace()], np.float64))
            except ValueError:
                at = next(i for i, line in enumerate(lines) if not line.isspace() and not _is_number(line))
                raise UserError(
                    f"{path}: line {read + at + 1} is {lines[at].strip()[:40]!r}, expected one number per line; write "
                    "one label per point"
                ) from None
            read += len(lines)
    return np.concatenate(parts)


def _is_number(line: str) -> bool:
    try:
        np.array([line], np.float64)
    except ValueError:
        return False
    return True


def _whole(values: np.ndarray, source: str) -> np.ndarray:
    """Labels as int64; UserError for the first that is no code."""
    bad = np.flatnonzero(~((values >= 0) & (values <= HIGHEST_CODE) & (values == np.floor(values))))  # also NaN
    if len(bad):
        raise UserError(
            f"{source}: has the label {values[bad[0]]:g} for point {bad[0]} (counted from 0), expected whole numbers "
            f"from 0 to {HIGHEST_CODE}; write the number of a class per point"
        )
    return values.astype(np.int64)


def _names(fields: Iterable[str]) -> str:
    return first_names(fields, _SHOWN) or "(none)"
