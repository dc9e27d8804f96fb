"""Packed models: load one and ask it. Needs numpy and the compiled core, not PyTorch.

    model = bipointnet.load("chairs.bpn")
    label, name, probabilities = model.predict(points)  # (N, 3)

    labels = bipointnet.load("parts.bpn").segment(points, category="Chair")  # (N,)
    labels = bipointnet.label(bipointnet.load("rooms.bpn"), "scan.ply")  # (N,), of any size

docs/format.md says what a packed file holds.
"""

import json
import operator
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet import _core
from bipointnet.errors import UserError

LONGEST_HEADER = 2**24
MOST_THREADS = 1024
MOST_POINTS = 2**20  # that a file is believed to have been trained with


class Prediction(NamedTuple):
    """What a model says of one cloud, or of each of a batch.

    labels: an int, or (B,) int64. names: a str, or a list of B. probabilities: (classes,) or (B, classes) float32.
    """

    labels: Any
    names: Any
    probabilities: np.ndarray


class Tensor(NamedTuple):
    """How a tensor lies in a file; `start` counts from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    bytes: int


class Operation(NamedTuple):
    """One operation of a program: (inputs) -> (outputs) numbers, a point or a cloud, by 1-bit or float weights.

    fields: the operation as the manifest has it. multiply_adds: a point where `on_points`, else a cloud.
    """

    op: str
    inputs: int
    outputs: int
    on_points: bool
    one_bit: bool
    multiply_adds: int
    bytes: int
    fields: dict[str, Any]


class Model:
    """A packed model. It never changes, and may be used from many threads at once.

    classes: names of the classes, of clouds or, where it `segments`, of points. categories: what a cloud may be said
    to be, where it must be said. channels: numbers a point. manifest: what the file says of itself.
    task: "classify" for clouds; "part" (of objects) or "semantic" (rooms) for points.
    isa: the instruction set it runs on. bytes: size of the file.
    """

    def __init__(self, core: Any, data: bytes) -> None:
        self._core = core
        self.classes: list[str] = list(core.classes)
        self.categories: list[str] = list(core.categories)
        self._parts: list[list[int]] = core.parts
        self.task: str = core.task
        self.segments: bool = core.segments
        self.channels: int = core.channels
        self.isa: str = core.isa
        self.manifest: dict[str, Any] = json.loads(core.manifest, parse_int=_whole)
        self.bytes = len(data)
        self.tensors: dict[str, Tensor] = _tensors(data)
        self._centres = self.manifest["normalize"] == "sphere"

    @property
    def points(self) -> int:
        """Points of a cloud the network was trained with; 1024 where the file does not say."""
        points = self.manifest["training"].get("points")
        return points if type(points) is int and 0 < points <= MOST_POINTS else 1024

    def __repr__(self) -> str:
        return f"<Model {self.manifest['model']}: {len(self.classes)} classes, {self.bytes:,} bytes, {self.isa}>"

    def predict(self, points: Any, *, normalize: bool = True, threads: int = 1) -> Prediction:
        """Name a cloud (N, C), or each of a batch (B, N, C), of any real type; any number of points from 1 up.

        normalize: as the manifest says; False takes the numbers as they are. threads: they share the clouds of a
        batch, or the points of a single cloud, and never change an answer.
        """
        if self.segments:
            raise UserError(f"the model labels points ({self.manifest['model']}); ask it with segment, not predict")
        logits = self.logits(points, normalize=normalize, threads=threads)
        if logits.ndim == 1:
            best = int(logits.argmax())
            weights = np.exp(logits - logits[best])
            weights /= np.add.reduce(weights)
            return Prediction(best, self.classes[best], weights)
        labels = logits.argmax(axis=1)  # (B,)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))  # (B, classes)
        # A row is summed as it is alone, so that a cloud's probabilities do not depend on its batch.
        weights /= np.array([np.add.reduce(row) for row in weights])[:, None]
        return Prediction(labels, [self.classes[label] for label in labels], weights)

    def segment(
        self, points: Any, *, category: str | int | None = None, normalize: bool = True, threads: int = 1
    ) -> np.ndarray:
        """The class of each point of a cloud (N, C) or of a batch (B, N, C): (N,) or (B, N) int64.

        category: its name or number, of a model with categories, for all clouds; only its own parts are named.
        normalize, threads: as in `predict`.
        """
        self.require_segments()
        logits = self.logits(points, category=category, normalize=normalize, threads=threads)
        parts = self.parts(category)
        return parts[logits[..., parts].argmax(axis=-1)]

    def require_segments(self) -> None:
        """UserError for a model that names clouds."""
        if not self.segments:
            raise UserError(f"the model names clouds ({self.manifest['model']}); ask it with predict")

    def parts(self, category: str | int | None) -> np.ndarray:
        """The classes that points of a category can have, ascending."""
        number = self._category(category)
        return np.array(self._parts[number]) if self._parts else np.arange(len(self.classes))

    def _category(self, category: str | int | None) -> int:
        """Its number, -1 for none."""
        if not self.categories:
            if category is not None:
                raise UserError(f"category is {category!r}; the model is of one category and takes none; leave it out")
            return -1
        if category in self.categories:
            return self.categories.index(category)  # pyright: ignore[reportArgumentType]
        if isinstance(category, (int, np.integer)) and 0 <= category < len(self.categories):
            return int(category)
        raise UserError(f"category is {category!r}; expected one of: {', '.join(self.categories)}")

    def logits(
        self, points: Any, *, category: str | int | None = None, normalize: bool = True, threads: int = 1
    ) -> np.ndarray:
        """(classes,) of a cloud or, of a model that segments, (N, classes) of its points; a batch has one dimension
        more. float32; arguments as in `predict` and `segment`.
        """
        clouds, number = self._input(points, normalize), self._category(category)
        try:
            batch = clouds if clouds.ndim == 3 else clouds[None]
            logits = self._core.predict(batch, not normalize, _thread_count(threads), number)
        except _core.InputError as error:
            raise _refused(points, error) from error
        return logits if clouds.ndim == 3 else logits[0]

    def trace(self, points: Any, *, category: str | int | None = None, normalize: bool = True) -> list[np.ndarray]:
        """The value after every operation of the program, for one cloud (N, C).

        Bits as uint8, floats as float32; (N, K) for points, (K,) for a vector, (D, D) for `matrix`.
        """
        cloud = self._input(points, normalize)
        if cloud.ndim != 2:
            raise UserError(
                f"points: a batch of {len(cloud)} clouds; trace takes one cloud, pass one (points, channels)"
            )
        try:
            return self._core.trace(cloud, not normalize, self._category(category))
        except _core.InputError as error:
            raise _refused(points, error) from error

    def operations(self) -> list[Operation]:
        """The program, with what each operation costs."""
        found, width, on_points, sizes, kept = [], 0, False, [], []
        for i, fields in enumerate(self.manifest["program"]):
            op, inputs, of_points, products = fields["op"], width, on_points, 0
            if op == "points":
                width, on_points, of_points = self.channels, True, True
            elif op == "transform":
                products = sizes[fields["matrix"]] ** 2
            elif op == "matrix":
                sizes.append(fields["size"])
            elif op == "keep":
                kept.append(width)
            elif op == "category":
                width = len(self.categories)
            elif op == "join":
                width, on_points, of_points = sum(kept[number] for number in fields["kept"]), True, True
            elif "outputs" in fields:
                width = fields["outputs"]
                products = inputs * width
            if op == "bilinear_pool" and f"{i}.threshold" in self.tensors:
                kept.append(width)
            on_points = on_points and op not in ("bilinear_pool", "pool")
            size = sum(tensor.bytes for name, tensor in self.tensors.items() if name.startswith(f"{i}."))
            found.append(Operation(op, inputs, width, of_points, op.startswith("bilinear"), products, size, fields))
        return found

    def _input(self, points: Any, normalize: bool) -> np.ndarray:
        """(N, C) or (B, N, C) float32 for the core, of anything that numpy takes for an array of real numbers."""
        clouds = _array(points)
        if clouds.ndim not in (2, 3):
            raise UserError(
                f"points: an array of shape {clouds.shape}; expected (points, {self.channels}) for one cloud or "
                f"(clouds, points, {self.channels}) for a batch; reshape it"
            )
        if clouds.shape[-1] != self.channels:
            raise UserError(
                f"points: {clouds.shape[-1]} numbers a point (shape {clouds.shape}); the model reads {self.channels}, "
                "xyz first; choose the columns it was trained with"
            )
        if clouds.size == 0:
            what = "clouds" if len(clouds) == 0 and clouds.ndim == 3 else "points"
            raise UserError(f"points: no {what} (shape {clouds.shape}); expected at least one; leave this input out")
        if clouds.dtype == np.float32:
            return np.ascontiguousarray(clouds)
        return _narrowed(clouds, relative=normalize and self._centres)


def load(path: str | Path, isa: str | None = None) -> Model:
    """The packed model in a file, checked against its golden vector; UserError for a file that holds none.

    isa: an instruction set of this machine (`bipointnet._core.isas()`); by default BIPOINTNET_ISA, or the best one.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {_why_unreadable(path, error)}") from error
    try:
        return Model(_core.Model(data, isa), data)
    except _core.IsaError as error:
        raise UserError(_sentence(error)) from error
    except _core.FormatError as error:
        if "config" in (peek(path) or {}):
            raise UserError(
                f"{path}: a checkpoint where a packed model is expected; export it first: bipointnet export {path} "
                "-o FILE"
            ) from error
        raise UserError(
            f"{path}: not a packed model, or a damaged one ({_sentence(error)}); copy it again, or export it anew with "
            "`bipointnet export`"
        ) from error


def peek(path: Path) -> dict[str, Any] | None:
    """What a packed model or a checkpoint says of itself, unchecked; None for any other file."""
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length)) if length <= LONGEST_HEADER else {}
        facts = json.loads(header["__metadata__"]["bipointnet"])
    except (OSError, struct.error, ValueError, KeyError, TypeError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def is_packed(path: Path) -> bool:
    """Whether a file says that it is a packed model. `load` finds out whether it is one."""
    return "program" in (peek(path) or {})


def _whole(digits: str) -> int | float:
    """An integer of JSON; one of thousands of digits, which Python will not read, is as large as floats get."""
    return int(digits) if len(digits) < 1000 else float(digits)


def _tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file that the core has checked."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    del header["__metadata__"]
    return {
        name: Tensor(t["dtype"], tuple(t["shape"]), t["data_offsets"][0], t["data_offsets"][1] - t["data_offsets"][0])
        for name, t in header.items()
    }


def _array(points: Any) -> np.ndarray:
    """`points` as an array of real numbers."""
    if isinstance(points, np.ndarray) and points.dtype == np.float32:
        return points
    try:
        clouds = np.asarray(points)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"points: cannot be made an array ({_sentence(error)}); expected clouds of one size; pass others one by one"
        ) from error
    if clouds.dtype.kind not in "fiu":
        raise UserError(
            f"points: values of type {clouds.dtype}; expected real numbers like float32; convert them first"
        )
    return clouds


def _narrowed(clouds: np.ndarray, relative: bool) -> np.ndarray:
    """float32 of any other real type.

    relative: xyz may be taken relative to a cloud's first point, and is where float32 would round the coordinates: a
    scan far from the origin (UTM) would lose its shape. Not relative to the mean, whose rounding identical points show.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the core refuses what is not finite
        narrow = clouds.astype(np.float32, order="C")
        if relative and clouds.dtype != np.float16 and (narrow != clouds).any():
            wide = clouds[..., :3].astype(np.float64)
            narrow[..., :3] = wide - wide[..., :1, :]
    return narrow


def _thread_count(threads: Any) -> int:
    try:
        count = operator.index(threads)
    except TypeError:
        count = 0
    if not 1 <= count <= MOST_THREADS:
        raise UserError(f"threads is {threads!r}; expected a whole number from 1 to {MOST_THREADS}")
    return count


def _refused(points: Any, error: Exception) -> UserError:
    """Why the core took no such cloud, with the place."""
    clouds = np.asarray(points)
    bad = np.argwhere(~np.isfinite(clouds).all(axis=-1))  # (bad points, 1 or 2)
    if len(bad):
        where = f"point {bad[0][-1]}" + (f" of cloud {bad[0][0]}" if clouds.ndim == 3 else "")
        total = clouds[..., 0].size
        return UserError(
            f"points: {len(bad)} of {total} points have a NaN or infinite number, the first is {where} (counted from "
            "0); expected finite numbers; remove these points"
        )
    if np.abs(clouds).max() > np.finfo(np.float32).max:
        return UserError("points: coordinates too large for float32; scale them down")
    return UserError(f"points: {_sentence(error)}")


def _why_unreadable(path: Path, error: OSError) -> str:
    if not path.exists():
        return "there is no such file; check the path"
    if path.is_dir() and (path / "last.safetensors").exists():
        return f"a run folder where a packed model is expected; export it first: bipointnet export {path} -o FILE"
    if path.is_dir():
        return "a folder where a packed model is expected; name the file"
    return f"cannot be read ({error.strerror}); expected a packed model, check its permissions"


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")
