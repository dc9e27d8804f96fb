"""The formats that the core does not parse: npz and glTF with NumPy; LAZ and E57 with other libraries.

Other libraries trust what a file declares: a damaged one aborts the process or uses up its memory. They run in a child
process with limits (`child_process`).
"""

import zipfile
import zlib
from pathlib import Path

from bipointnet import extras
from bipointnet.data import child_process
from bipointnet.data.gltf_files import read_gltf
from bipointnet.data.parsed import CoreFile, Table, not_whole
from bipointnet.errors import UserError

# suffix -> the library that reads it
_LIBRARIES = {".laz": "lazrs", ".e57": "pye57"}

SUFFIXES = (".glb", ".gltf", ".npz", *_LIBRARIES)
NAMED = (".glb", ".gltf", *_LIBRARIES)  # formats that name their columns

# A compressed array may have this size, or this multiple of its compressed size.
_MOST_BYTES = 16 << 20
_MOST_RATIO = 50


def read(path: Path) -> Table | CoreFile:
    """The content of a file with one of SUFFIXES."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _read_npz(path)
    if suffix in (".glb", ".gltf"):
        return read_gltf(path)
    extras.require(f"{path}: reading {suffix}", _LIBRARIES[suffix])
    return child_process.read(path)


def _read_npz(path: Path) -> CoreFile:
    """The array `points` of an archive, or the only one."""
    try:
        with zipfile.ZipFile(path) as archive:
            return CoreFile(".npy", _array(path, archive))
    except UserError:
        raise
    # What zipfile raises for a damaged archive: the last two for versions and encryption that it does not support.
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path}: {not_whole(path, error)}") from error


def _array(path: Path, archive: zipfile.ZipFile) -> bytes:
    entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
    if "points" not in entries and len(entries) != 1:
        names = ", ".join(list(entries)[:12]) or "(none)"
        raise UserError(
            f"{path}: holds the arrays {names}, expected one named 'points'; rename the array with the coordinates"
        )
    entry = entries["points"] if "points" in entries else next(iter(entries.values()))
    # Other methods of compression can ask for gigabytes before the first byte.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UserError(f"{path}: compression method {entry.compress_type}, expected stored or deflated; save it again")
    if entry.file_size > max(_MOST_BYTES, _MOST_RATIO * entry.compress_size):
        raise UserError(
            f"{path}: declares {entry.file_size} bytes in {entry.compress_size} compressed ones, expected at most "
            f"{_MOST_RATIO} times as many; save it without compression"
        )
    with archive.open(entry) as file:
        # zipfile stops at the declared size, also if the compressed data has more.
        return file.read(entry.file_size)
