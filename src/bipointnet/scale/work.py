"""What is done with each file: classes that hold a model and map batches of files to rows of results.

They are what Ray calls actors: constructed once per worker, then called with batches, dictionaries of columns. A file
that cannot be used becomes a row with an error; it never stops the others. A worker uses one thread: there is one per
core.
"""

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bipointnet.data import clouds
from bipointnet.data.clouds import LAS, Cloud
from bipointnet.data.las_units import UNITS
from bipointnet.data.ply_files import labeled_text
from bipointnet.data.ply_header import PlyHeader, read_header
from bipointnet.data.scan_facts import training_columns
from bipointnet.errors import UserError, describe_os_error
from bipointnet.evaluation import from_file, scans
from bipointnet.evaluation.from_file import Prepared
from bipointnet.evaluation.predictor import PackedPredictor, packed_predictor
from bipointnet.files import write_beside
from bipointnet.runtime.model import Model

Row = dict[str, Any]
_HELD = 1 << 20  # points of clouds that wait to be classified together
_TEXT = 6  # a PLY file of text needs so many times its size in memory
_ONLY_POINTS = (
    "the copy has points and labels only: the vertices have lists or more than 100 properties, or elements with lists "
    "come before them"
)


def content_hash(file: Path) -> str:
    """A hash of the whole content of a file: BLAKE2b, 128 bits, in hexadecimal."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


class Work(ABC):
    """Maps files to rows. Every row has path, size, time, content, seconds and error; subclasses add more.

    model: the bytes of a packed model. name: of the model, in errors.
    """

    def __init__(self, model: bytes, name: str = "the model") -> None:
        self._data, self._name = model, name

    def __getstate__(self) -> dict[str, Any]:
        """Without the predictor, which every process makes for itself."""
        return {name: value for name, value in vars(self).items() if name != "predictor"}

    @cached_property
    def predictor(self) -> PackedPredictor:
        return packed_predictor(Model.of_bytes(self._data), Path(self._name), threads=1)

    def output(self, file: Path) -> Path | None:
        """The file that is written for a file, or None."""
        return None

    @abstractmethod
    def use(self, file: Path) -> Row:
        """`content`, the hash of a file, and the further columns of its row. Errors become the error of the row."""

    @property
    @abstractmethod
    def empty(self) -> Row:
        """The further columns of a file that cannot be used."""

    def row(self, path: str) -> Row:
        """The row of one file."""
        begun = time.perf_counter()
        row: Row = {"path": path, "size": 0, "time": 0, "content": "", **self.empty, "error": None}
        try:
            status = os.stat(path)
            row |= {"size": status.st_size, "time": status.st_mtime_ns}
            found = self.use(Path(path))
            if _identity(os.stat(path)) != _identity(status):
                output = self.output(Path(path))
                if output is not None:
                    output.unlink(missing_ok=True)
                raise UserError(f"{path}: changed while it was read; expected a finished file; start the job again")
            row |= found
        except Exception as error:  # one file must not stop a job of many, whatever is wrong with it
            row["error"] = _sentence(path, error)
        row["seconds"] = time.perf_counter() - begun
        return row

    def rows(self, paths: Sequence[str]) -> list[Row]:
        return [self.row(path) for path in paths]

    def __call__(self, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """A batch with the column `path` -> the columns of the rows."""
        rows = self.rows([str(path) for path in batch["path"]])
        return {name: [row[name] for row in rows] for name in rows[0]}


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    """What changes if a file is written to or replaced."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def _sentence(path: str, error: Exception) -> str:
    """Why a file could not be used."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        return describe_os_error(error)
    if isinstance(error, MemoryError):
        return f"{path}: needs more memory than there is; use fewer workers, or a larger machine"
    found = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{path}: an unexpected error, which is a defect of bipointnet ({found}); please report it"


class Classify(Work):
    """Classifies the cloud in each file: label, probability, probabilities of all classes, points, warnings.

    A batch with the column `points` instead of `path`, clouds (B, N, 3) with the same number of points, gets label,
    probability and probabilities.

    Args:
        model: the bytes of a packed model that classifies clouds.
        name: of the model, in errors.
        up: the axis that points up in the files; None: as in training.
        columns: the names of the columns of text and npy files, which have none.
        strict: refuse files with NaN or infinite coordinates.

    >>> import ray  # doctest: +SKIP
    >>> dataset = ray.data.read_parquet("clouds")  # doctest: +SKIP
    >>> dataset.map_batches(Classify, fn_constructor_args=(model,), concurrency=8, batch_size=256)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: bytes,
        name: str = "the model",
        up: str | None = None,
        columns: Sequence[str] = (),
        strict: bool = False,
    ) -> None:
        super().__init__(model, name)
        self._up, self._columns, self._strict = up, tuple(columns), strict

    @property
    def empty(self) -> Row:
        return {"label": None, "probability": None, "probabilities": None, "points": 0, "warnings": []}

    def rows(self, paths: Sequence[str]) -> list[Row]:
        """Files are read one after the other; then all their clouds with as many points are classified in one call."""
        rows: list[Row] = []
        waiting: dict[int, list[Row]] = defaultdict(list)  # by number of points
        held = 0
        for path in paths:
            row = self.row(path)
            rows.append(row)
            if row["error"] is None:
                waiting[row["points"]].append(row)
                held += row["points"]
            if held > _HELD:
                self._classify(waiting)
                held = 0
        self._classify(waiting)
        return rows

    def use(self, file: Path) -> Row:
        """With the entry `prepared` instead of the prediction, which `rows` adds."""
        content, cloud = self._read(file)
        prepared = from_file.prepare(self.predictor, cloud, str(file), self._up)
        return {"content": content, "points": len(prepared.points), "prepared": prepared}

    def _classify(self, waiting: dict[int, list[Row]]) -> None:
        """Complete the rows, and forget them."""
        for same in waiting.values():
            begun = time.perf_counter()
            prepared: list[Prepared] = [row.pop("prepared") for row in same]
            try:
                found = self.predictor.predict(np.stack([each.points for each in prepared]))
            except Exception:  # of one of them
                found = [self._probabilities(row, each) for row, each in zip(same, prepared, strict=True)]
            for row, each, probabilities in zip(same, prepared, found, strict=True):
                if probabilities is not None:
                    row |= self._prediction(each, probabilities)
            seconds = (time.perf_counter() - begun) / len(same)
            for row in same:
                row["seconds"] += seconds
        waiting.clear()

    def _probabilities(self, row: Row, prepared: Prepared) -> np.ndarray | None:
        """Those of one cloud; None, and an error in its row, if it cannot be classified."""
        try:
            return self.predictor.predict(prepared.points[None])[0]
        except Exception as error:
            row |= {**self.empty, "error": _sentence(row["path"], error)}
            return None

    def _prediction(self, prepared: Prepared, probabilities: np.ndarray) -> Row:
        best = int(probabilities.argmax())
        probability = float(probabilities[best])
        return {
            "label": self.predictor.classes[best],
            "probability": probability,
            "probabilities": probabilities,
            "warnings": prepared.warnings(self.predictor, probability),
        }

    def _read(self, file: Path) -> tuple[str, Cloud]:
        """The hash of a file and its cloud. A file that the core parses is read once."""
        suffix = file.suffix.lower()
        if suffix not in clouds.SUFFIXES or suffix in clouds.LIBRARY_SUFFIXES:
            return content_hash(file), clouds.read(file, columns=self._columns, strict=self._strict)
        with open(file, "rb") as stream:
            data = stream.read()
        cloud = clouds.read_bytes(data, suffix, file, columns=self._columns, strict=self._strict)
        return hashlib.blake2b(data, digest_size=16).hexdigest(), cloud

    def __call__(self, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
        if "points" not in batch:
            return super().__call__(batch)
        found = self.predictor.model.predict(np.stack(list(batch["points"])))
        others = {name: values for name, values in batch.items() if name != "points"}
        return {
            **others,
            "label": list(found.names),
            "probability": found.probabilities.max(axis=1).tolist(),
            "probabilities": found.probabilities.tolist(),
        }


class LabelFiles(Work):
    """Labels every point of each file and writes a labeled copy: output, points, points per class (counts), warnings.

    LAS and LAZ get the labels as their classification, if the model was trained on labeled scans, and the vertices of
    PLY the property `label`; all else is kept, unless a warning in the row says that a PLY file has a header of which
    only the points can be read. LAS, LAZ and binary PLY of any size need at most about `memory` bytes.
    Other files are read whole, and all but PLY become a PLY with one color per class. A label is the code of the class
    in the training scans; for a model of other data, the number of the class.

    Args:
        model: the bytes of a packed model that labels points of scans.
        name: of the model, in errors.
        out: the folder to write to.
        root: the folder below which files keep their places; files outside of it go to `out` itself.
        unit: of the coordinates, a key of UNITS; None: as in training.
        columns: the names of the columns of text and npy files, which have none; default: as in training.
        memory: bytes to use for a tile.
    """

    def __init__(
        self,
        model: bytes,
        name: str = "the model",
        out: str = ".",
        root: str | None = None,
        unit: str | None = None,
        columns: Sequence[str] = (),
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(model, name)
        if unit is not None and unit not in UNITS:
            raise UserError(f"unit is {unit!r}; expected one of {', '.join(UNITS)}")
        self._out, self._root, self._unit = Path(out), root, unit
        self._columns, self._memory = tuple(columns), memory

    @property
    def empty(self) -> Row:
        return {"output": None, "points": 0, "counts": None, "warnings": []}

    def output(self, file: Path) -> Path:
        """Where the labeled copy of a file goes."""
        below = os.path.relpath(file, self._root) if self._root else file.name
        place = Path(file.name if below.startswith("..") else below)
        suffix = file.suffix.lower() if self._has_codes(file) else ".ply"
        name = place.name.removesuffix(file.suffix).removesuffix(".copc")  # the copy has no index
        return self._out / place.with_name(name + suffix)

    def _has_codes(self, file: Path) -> bool:
        """Whether labels become the classification of a LAS file."""
        return file.suffix.lower() in LAS and self.predictor.scans is not None

    def use(self, file: Path) -> Row:
        target = self.output(file)
        if target.exists() and target.resolve() == file.resolve():
            raise UserError(f"{file}: would be overwritten by its labeled copy; choose another folder with -o")
        unit = from_file.unit_of(self.predictor, file, self._unit)
        label = self._label_tile if self._is_tile(file) else self._label_cloud
        counts, warnings = label(file, target, unit)
        found = {"output": str(target), "points": int(counts.sum()), "counts": counts.tolist(), "warnings": warnings}
        return {"content": content_hash(file), **found}

    def _is_tile(self, file: Path) -> bool:
        from bipointnet.runtime.label_large import is_tile

        return self._has_codes(file) or (file.suffix.lower() == ".ply" and is_tile(file))

    def _label_tile(self, file: Path, target: Path, unit: str | None) -> tuple[np.ndarray, list[str]]:
        """Points per class, and warnings."""
        from bipointnet.runtime.label_large import label_tile

        predictor = self.predictor
        tile = label_tile(predictor.model, file, target, codes=predictor.codes, unit=unit, memory=self._memory)
        warnings = clouds.dropped_notes(tile.dropped, int(tile.counts.sum()))
        return tile.counts, warnings + scans.density_warnings(predictor, tile.density)

    def _label_cloud(self, file: Path, target: Path, unit: str | None) -> tuple[np.ndarray, list[str]]:
        """Points per class, and warnings."""
        from bipointnet.viz.labeled import write_ply

        predictor, header = self.predictor, self._text_header(file)
        given = self._columns if file.suffix.lower() in clouds.UNNAMED else ()
        cloud = clouds.read(file, columns=given or training_columns(predictor.scans, file))
        scan = from_file.upright_in_meters(predictor, cloud, None, unit)
        labels = from_file.label_cloud(predictor, scan, file, None)
        codes = predictor.codes
        if header is not None:
            every = np.full(len(labels) + cloud.dropped, -1)
            every[slice(None) if cloud.kept is None else cloud.kept] = np.array(codes)[labels]
            named = dict(zip(codes, predictor.classes, strict=True))
            write_beside(target, labeled_text(file.read_bytes(), header, every, named))
        else:
            points = cloud.points.astype(np.float64) + cloud.origin if any(cloud.origin) else cloud.points
            write_ply(target, points, labels, predictor.classes, codes)
        warnings = clouds.dropped_notes(cloud.dropped, len(labels)) + scans.warnings(predictor, scan)
        if file.suffix.lower() == ".ply" and header is None:
            warnings.append(_ONLY_POINTS)
        return np.bincount(labels, minlength=len(predictor.classes)), warnings

    def _text_header(self, file: Path) -> PlyHeader | None:
        """The header of a PLY file that is text; UserError if it is too large to be read whole."""
        if file.suffix.lower() != ".ply":
            return None
        with open(file, "rb") as stream:
            header = read_header(stream)
        if header is None or not header.is_text:
            return None
        size, most = file.stat().st_size, self._memory // _TEXT
        if size > most:
            raise UserError(
                f"{file}: {size / 1e6:.0f} MB of text, expected at most {most / 1e6:.0f} MB, since text is read whole; "
                "convert it to binary PLY, which may have any size"
            )
        return header
