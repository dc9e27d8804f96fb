"""Packed models: load one and predict with it. Needs numpy and the compiled core, not PyTorch.

    model = bipointnet.load("chairs.bpn")
    label, name, probabilities = model.predict(points)  # (N, 3)

    labels = bipointnet.load("parts.bpn").segment(points, category="Chair")  # (N,)
    labels = bipointnet.label(bipointnet.load("rooms.bpn"), "scan.ply")  # (N,), for a file of any size

docs/format.md describes the content of a packed file.
"""

import errno
import operator
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bipointnet import _core, shipped
from bipointnet.errors import FormatError, UserError
from bipointnet.evaluation.metrics import argmax_among
from bipointnet.runtime.header import Tensor, parse_header, peek
from bipointnet.runtime.operations import Operation, list_operations

if TYPE_CHECKING:
    from bipointnet.data.blocks import BlockLayout

MOST_THREADS = 1024
MOST_POINTS = 2**20  # a larger number of training points in a file is taken for a mistake


def kept_points(cloud: np.ndarray, most: int | None) -> np.ndarray:
    """The points of a cloud (N, C) float32 that a prediction uses: all but copies, at most `most`, in their order.

    >>> kept_points(np.float32([[1, 2, 3], [0, 0, 0], [1, 2, 3]]), None)[:, 0]
    array([1., 0.], dtype=float32)
    """
    kept = _core.kept_points(np.ascontiguousarray(cloud, np.float32), most or 0)
    return cloud if kept is None else cloud[kept]


class Prediction(NamedTuple):
    """The prediction for one cloud, or for each cloud of a batch.

    Attributes:
        labels: class indices, an int for one cloud or (B,) int64 for a batch.
        names: class names, a str for one cloud or a list of B for a batch.
        probabilities: (classes,) for one cloud or (B, classes) for a batch, float32.

    Examples:
        >>> label, name, probabilities = model.predict(cloud)  # doctest: +SKIP
        >>> model.predict(batch).names  # doctest: +SKIP
        ['chair', 'table']
    """

    labels: Any
    names: Any
    probabilities: np.ndarray


class Model:
    """A packed model, as `bipointnet.load` returns it. It is immutable and safe to use from many threads at once.

    Attributes:
        classes: names of the classes of clouds or, if the model `segments`, of points.
        categories: names of the categories, if the model has a category input; else empty.
        task: "classify" (clouds), "part" (points of objects) or "semantic" (points of rooms).
        segments: whether the model labels points (`segment`) instead of clouds (`predict`).
        channels: channels per point that the model reads.
        isa: the instruction set it runs on.
        manifest: the description in the file.
        tensors: dtype, shape and place of each tensor in the file.
        bytes: size of the file.

    Examples:
        >>> import bipointnet, numpy as np
        >>> model = bipointnet.load("chairs.bpn")  # doctest: +SKIP
        >>> model  # doctest: +SKIP
        <Model pointnet-vanilla: 10 classes, 93,248 bytes, avx2>
        >>> model.predict(np.zeros((1024, 3))).names  # doctest: +SKIP
        'chair'
    """

    def __init__(self, core: Any, data: bytes) -> None:
        self._core = core
        self.classes: list[str] = list(core.classes)
        self.categories: list[str] = list(core.categories)
        self._accepted: list[list[int]] = core.parts
        self.task: str = core.task
        self.segments: bool = core.segments
        self.channels: int = core.channels
        self.isa: str = core.isa
        header = parse_header(data)
        self.manifest: dict[str, Any] = header.metadata
        self.tensors: dict[str, Tensor] = header.tensors
        self.bytes = len(data)
        self._normalizes = self.manifest["normalize"] != "none"

    @classmethod
    def of_bytes(cls, data: bytes) -> "Model":
        """The model in the bytes of a file that `load` accepts, as another process or machine gets it."""
        return cls(_core.Model(data, None, False), data)

    @property
    def points(self) -> int:
        """The number of points per cloud in training; 1024 if the file does not say."""
        points = self.manifest["training"].get("points")
        return points if type(points) is int and 0 < points <= MOST_POINTS else 1024

    @property
    def max_points(self) -> int | None:
        """The most points of a cloud that a prediction uses; of a larger one it takes a fixed sample. None: all."""
        return self.manifest.get("max_points")

    @property
    def blocks(self) -> "BlockLayout | None":
        """How scans are cut into blocks, for task semantic; None if the file does not say."""
        from bipointnet.data.blocks import BlockLayout  # classifiers do without the readers of files

        blocks = self.manifest.get("blocks")
        return None if blocks is None else BlockLayout.from_json(blocks)

    def __repr__(self) -> str:
        return f"<Model {self.manifest['model']}: {len(self.classes)} classes, {self.bytes:,} bytes, {self.isa}>"

    def predict(self, points: Any, *, normalize: bool = True, threads: int = 1) -> Prediction:
        """Classify a cloud (N, C), or each cloud of a batch (B, N, C).

        Args:
            points: an array of any real type, with at least one point.
            normalize: center and scale each cloud if the manifest says so; False leaves the coordinates unchanged.
            threads: number of threads. They share the clouds of a batch, or the points of a single cloud. The result
                does not depend on it, nor on the other clouds of a batch.

        Examples:
            >>> prediction = model.predict(batch, threads=4)  # doctest: +SKIP
            >>> prediction.names, prediction.probabilities.max(axis=1)  # doctest: +SKIP
            (['chair', 'table'], array([0.98, 0.71], dtype=float32))
        """
        if self.segments:
            raise UserError(f"the model labels points ({self.manifest['model']}); use segment instead of predict")
        logits = self.logits(points, normalize=normalize, threads=threads)
        if logits.ndim == 1:
            best = int(logits.argmax())
            weights = np.exp(logits - logits[best])
            weights /= np.add.reduce(weights)
            return Prediction(best, self.classes[best], weights)
        labels = logits.argmax(axis=1)  # (B,)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))  # (B, classes)
        # Along contiguous rows numpy adds as for one cloud, so a cloud's probabilities do not depend on its batch.
        weights /= np.add.reduce(weights, axis=1, keepdims=True)
        return Prediction(labels, [self.classes[label] for label in labels], weights)

    def segment(
        self, points: Any, *, category: str | int | None = None, normalize: bool = True, threads: int = 1
    ) -> np.ndarray:
        """The class of each point of a cloud (N, C) or of a batch (B, N, C): (N,) or (B, N) int64.

        Args:
            points: as in `predict`.
            category: name or index of the category of all clouds, for a model with a category input. Only the classes
                that this category accepts are predicted.
            normalize: as in `predict`.
            threads: as in `predict`.

        Examples:
            >>> labels = model.segment(cloud, category="Chair")  # doctest: +SKIP
            >>> [model.classes[label] for label in labels[:2]]  # doctest: +SKIP
            ['Chair/back', 'Chair/leg']
        """
        self.require_segments()
        logits = self.logits(points, category=category, normalize=normalize, threads=threads)
        return argmax_among(logits, self.accepted_classes(category))

    def require_segments(self) -> None:
        """Raise UserError for a model that classifies clouds."""
        if not self.segments:
            raise UserError(f"the model classifies clouds ({self.manifest['model']}); use predict instead of segment")

    def accepted_classes(self, category: str | int | None) -> np.ndarray:
        """Indices of the classes that points of a category can have, ascending: (accepted,) int64.

        Examples:
            >>> model.accepted_classes("Chair")  # doctest: +SKIP
            array([12, 13, 14, 15])
        """
        index = self._category(category)
        return np.array(self._accepted[index]) if self._accepted else np.arange(len(self.classes))

    def _category(self, category: str | int | None) -> int:
        """The index of a category, -1 for none; upper and lower case do not matter where only one has the name."""
        if not self.categories:
            if category is not None:
                raise UserError(f"category is {category!r}; the model has no category input; leave it out")
            return -1
        if category in self.categories:
            return self.categories.index(category)  # pyright: ignore[reportArgumentType]
        if isinstance(category, (int, np.integer)) and 0 <= category < len(self.categories):
            return int(category)
        alike = [own for own in self.categories if own.lower() == str(category).lower()]
        if len(alike) == 1:
            return self.categories.index(alike[0])
        raise UserError(f"category is {category!r}; expected one of: {', '.join(self.categories)}")

    def logits(
        self, points: Any, *, category: str | int | None = None, normalize: bool = True, threads: int = 1
    ) -> np.ndarray:
        """The logits, float32; arguments as in `predict` and `segment`.

        (classes,) for a cloud or, if the model segments, (N, classes). A batch adds a dimension in front.

        Examples:
            >>> model.logits(batch).shape  # doctest: +SKIP
            (2, 40)
        """
        clouds, index = self._input(points, normalize), self._category(category)
        try:
            batch = clouds if clouds.ndim == 3 else clouds[None]
            logits = self._core.predict(batch, not normalize, _thread_count(threads), index)
        except _core.InputError as error:
            raise _input_error(points, error) from error
        return logits if clouds.ndim == 3 else logits[0]

    def trace(self, points: Any, *, category: str | int | None = None, normalize: bool = True) -> dict[str, np.ndarray]:
        """All values of the program by name, for all points of one cloud (N, C).

        A prediction leaves out copies of points, and of a large cloud all but a sample: see `kept_points`.

        Values of the cloud have the shape (K,), of a set (n, K), of groups of neighbors (m, k, K). Bits are uint8,
        floats are float32; indices are int64 and have no channels: (n,) or (m, k).

        Examples:
            >>> for name, value in model.trace(cloud).items():  # doctest: +SKIP
            ...     print(name, value.dtype, value.shape)
        """
        cloud = self._input(points, normalize)
        if cloud.ndim != 2:
            raise UserError(
                f"points: a batch of {len(cloud)} clouds; expected one cloud (points, channels); trace them one by one"
            )
        try:
            return self._core.trace(cloud, not normalize, self._category(category))
        except _core.InputError as error:
            raise _input_error(points, error) from error

    def kept_points(self, cloud: np.ndarray) -> np.ndarray:
        """The points of a cloud (N, C) float32 that a prediction uses: all but copies, at most `max_points`.

        Which ones does not depend on the order of the points; docs/format.md, "Input", has the rule.
        """
        return kept_points(cloud, self.max_points)

    def operations(self, points: int | None = None) -> list[Operation]:
        """The operations of the program, with the cost of each.

        Args:
            points: number of points of the cloud. Default: as in training.

        Examples:
            >>> sum(o.bit_multiply_adds for o in model.operations(1024))  # doctest: +SKIP
            143261696
        """
        points = self.points if points is None else points
        if not 1 <= points <= MOST_POINTS:
            raise UserError(f"points is {points}; expected an integer from 1 to {MOST_POINTS}")
        return list_operations(self._core.program(points), self.manifest, self.tensors)

    def _input(self, points: Any, normalize: bool) -> np.ndarray:
        """(N, C) or (B, N, C) float32 for the core, from anything that numpy converts to an array of real numbers."""
        clouds = _array(points)
        if clouds.ndim not in (2, 3):
            raise UserError(
                f"points: an array of shape {clouds.shape}; expected (points, {self.channels}) for one cloud or "
                f"(clouds, points, {self.channels}) for a batch; reshape it"
            )
        if clouds.shape[-1] != self.channels:
            raise UserError(
                f"points: {clouds.shape[-1]} channels per point (shape {clouds.shape}); expected {self.channels}, xyz "
                "first; select the columns that the model was trained with"
            )
        if clouds.size == 0:
            what = "clouds" if len(clouds) == 0 and clouds.ndim == 3 else "points"
            raise UserError(f"points: no {what} (shape {clouds.shape}); expected at least one; leave this input out")
        if clouds.dtype == np.float32:
            return np.ascontiguousarray(clouds)
        return _as_float32(clouds, relative=normalize and self._normalizes)


def load(path: str | Path, isa: str | None = None, *, plain: bool = False) -> Model:
    """Load a packed model. Its golden vector is checked: the model computes the stored logits, or loading fails.

    Args:
        path: a file written by `bipointnet export` or `bipointnet.export`, or the name of a model that comes with the
            package (docs/models.md); a file of that name has precedence. (`bipointnet.load_run` loads run folders and
            checkpoints.)
        isa: an instruction set of this machine, such as avx2 (`bipointnet._core.isas()` lists them). Default:
            the environment variable BIPOINTNET_ISA, or else the fastest one.
        plain: run every point through every layer, for benchmarks. The answers are the same.

    Raises:
        FormatError: the file is damaged or not a packed model. It is a UserError.
        UserError: the file cannot be read, or this machine lacks the instruction set.

    Examples:
        >>> bipointnet.load("chairs.bpn").predict(points).names  # doctest: +SKIP
        'chair'
        >>> bipointnet.load("pointnet-vanilla-modelnet40")  # doctest: +SKIP
        <Model pointnet-vanilla: 40 classes, 135,808 bytes, avx2>
    """
    path = shipped.locate(Path(path))
    try:
        data = _core.read_packed_file(os.fsencode(path))
        return Model(_core.Model(data, isa, plain), data)
    except _core.FileError as error:
        raise UserError(f"{path}: {_why_unreadable(path, error)}") from error
    except _core.IsaError as error:
        raise UserError(_sentence(error)) from error
    except MemoryError as error:
        raise UserError(
            f"{path}: not enough memory for this model; expected a smaller one, or a larger machine"
        ) from error
    except _core.FormatError as error:
        if path.is_file() and "config" in (peek(path) or {}):
            raise FormatError(
                f"{path}: a checkpoint; expected a packed model; load it with bipointnet.load_run, or export "
                f"it first: bipointnet export {path} -o FILE"
            ) from error
        raise FormatError(
            f"{path}: not a packed model, or a damaged one ({_sentence(error)}); copy it again, or export it again "
            "with `bipointnet export`"
        ) from error


def _array(points: Any) -> np.ndarray:
    """`points` as an array of real numbers."""
    if isinstance(points, np.ndarray) and points.dtype == np.float32:
        return points
    try:
        clouds = np.asarray(points)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"points: numpy makes no array of them ({_sentence(error)}); expected clouds of equal size; pass clouds of "
            "different sizes one by one"
        ) from error
    if clouds.dtype.kind not in "fiu":
        raise UserError(
            f"points: values of type {clouds.dtype}; expected real numbers such as float32; convert them first"
        )
    return clouds


def _as_float32(clouds: np.ndarray, relative: bool) -> np.ndarray:
    """Any other real type as float32.

    relative: xyz may be shifted by the cloud's first point. It is shifted where float32 would round the coordinates: a
    scan far from the origin (UTM) would lose its shape. The shift is not the mean, because rounding of the mean would
    spread identical points.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the core rejects values that are not finite
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
        raise UserError(f"threads is {threads!r}; expected an integer from 1 to {MOST_THREADS}")
    return count


def _input_error(points: Any, error: Exception) -> UserError:
    """Why the core rejected the clouds, with the first bad point."""
    clouds = np.asarray(points)
    bad = np.argwhere(~np.isfinite(clouds).all(axis=-1))  # (bad points, 1 or 2)
    if len(bad):
        where = f"point {bad[0][-1]}" + (f" of cloud {bad[0][0]}" if clouds.ndim == 3 else "")
        total = clouds[..., 0].size
        return UserError(
            f"points: {len(bad)} of {total} points are NaN or infinite, the first is {where} (counted from 0); "
            "expected finite numbers; remove these points"
        )
    if np.abs(clouds).max() > np.finfo(np.float32).max:
        return UserError("points: coordinates too large for float32; scale them down")
    return UserError(f"points: {_sentence(error)}")


def _why_unreadable(path: Path, error: OSError) -> str:
    if str(error) == os.strerror(errno.ENOENT):
        return f"no such file; check the path{shipped.hint(path)}"
    if os.path.exists(path / "last.safetensors"):
        return (
            "a run folder; expected a packed model; load it with bipointnet.load_run, or export it first: "
            f"bipointnet export {path} -o FILE"
        )
    if os.path.isdir(path):
        return "a folder; expected a packed model; name the file"
    return f"cannot be read ({_sentence(error)}); expected a packed model; check its name and permissions"


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")
