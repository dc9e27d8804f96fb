"""The compiled core: packed models, packing of signs, and the readers of cloud files."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

class FormatError(ValueError):
    """A file is not a valid packed model."""

class FileError(OSError):
    """The operating system cannot read a file; the message is its reason."""

class InputError(ValueError):
    """Clouds or a category do not fit the model."""

class IsaError(ValueError):
    """An instruction set is unknown or not available on this machine."""

class CloudError(ValueError):
    """A file is not a valid cloud."""

class Model:
    """A packed model, ready to run. `bipointnet.Model` wraps it."""

    def __init__(self, data: bytes, isa: str | None = None, plain: bool = False) -> None: ...
    @property
    def manifest(self) -> str: ...
    @property
    def isa(self) -> str: ...
    @property
    def channels(self) -> int: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def categories(self) -> list[str]: ...
    @property
    def parts(self) -> list[list[int]]: ...
    @property
    def task(self) -> str: ...
    @property
    def segments(self) -> bool: ...
    def predict(self, points: NDArray[np.float32], raw: bool, threads: int, category: int = -1) -> NDArray[np.float32]:
        """Logits (B, classes) of clouds (B, N, C), or (B, N, classes) if the model labels points."""

    def trace(self, points: NDArray[np.float32], raw: bool, category: int = -1) -> dict[str, NDArray[Any]]:
        """All values by name, for a cloud (N, C): bits as uint8, floats as float32, indices as int64."""

    def program(self, points: int) -> list[dict[str, Any]]:
        """What each operation reads, makes and costs, for a cloud of `points` points."""

def read_cloud(data: bytes, name: str, columns: list[str] = ..., strict: bool = False) -> dict[str, Any]:
    """The cloud or mesh in the bytes of a file, whose name gives the format; `bipointnet.data.clouds.read` wraps it."""

def finish_cloud(
    format: str,
    names: list[str],
    bits: list[int],
    columns: NDArray[np.float64],
    faces: NDArray[np.int64] | None,
    strict: bool,
) -> dict[str, Any]:
    """The cloud in the columns (C, N) of a file that was parsed elsewhere."""

def cloud_suffixes() -> str:
    """The suffixes that read_cloud() accepts, separated by blanks."""

def pack_signs(values: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Pack the signs of (rows, columns) into (rows, ceil(columns / 64)) words; a bit is 1 where the value is >= 0."""

def kept_points(points: NDArray[np.float32], most: int) -> NDArray[np.uint32] | None:
    """Indices of the points of a cloud (N, C) that predictions use, ascending, or None for all. most = 0: no limit."""

def delta(n: int) -> float:
    """The shift of a max pool over n points."""

def read_packed_file(path: bytes) -> bytes:
    """The bytes of a packed model, given its path as bytes. After a wrong header nothing else is read."""

def operations() -> list[dict[str, Any]]:
    """The table of all operations: op, operands, results, fields, tensors."""

def isas() -> list[str]:
    """The instruction sets of this machine, fastest first."""

def default_isa() -> str:
    """The instruction set in use: the environment variable BIPOINTNET_ISA, or else the fastest one."""
