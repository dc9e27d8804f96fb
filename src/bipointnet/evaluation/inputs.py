"""The files that arguments of the command line name: files, folders, patterns, standard input."""

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bipointnet.data.gltf_files import buffer_files
from bipointnet.errors import UserError, describe_os_error

STDIN = "-"


class Input(NamedTuple):
    """A file to read, by its name or STDIN; or an argument that names no file, and the sentence that says why."""

    name: str
    error: str | None = None


def expand(arguments: Sequence[str], suffixes: Collection[str]) -> list[Input]:
    """The files that arguments name, in the order of the arguments.

    A folder names all files in it and in its subfolders, a pattern (`*`, `?`, `[...]`, and `**` for any folders) all
    files that match, both sorted by their paths. Of these, only files with one of the `suffixes` count, and none whose
    name starts with a dot, or that is the buffer of a glTF file among them.

    >>> expand(["-", "a.ply"], [".ply"])
    [Input(name='-', error=None), Input(name='a.ply', error=None)]
    """
    return [found for argument in arguments for found in _expanded(argument, tuple(suffixes))]


def listed_in(file: Path, suffixes: Collection[str]) -> list[Input]:
    """The files that a text file names, one path per line; empty lines and lines that begin with # are skipped.

    Each line is expanded as `expand` does it. Relative paths are relative to the current folder.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")  # splitlines() would also divide names at U+2028
    except OSError as error:
        raise UserError(describe_os_error(error)) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not text in UTF-8 ({error.reason}); expected one path per line") from error
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return expand(names, suffixes)


def _expanded(argument: str, suffixes: tuple[str, ...]) -> Iterator[Input]:
    is_folder = os.path.isdir(argument)
    if argument == STDIN or not (is_folder or (glob.has_magic(argument) and not os.path.lexists(argument))):
        yield Input(argument)
        return
    try:
        names = _in_folder(argument) if is_folder else glob.iglob(argument, recursive=True)
        chosen = sorted(_clouds(names, suffixes), key=lambda name: Path(name).parts)
    except (OSError, UserError) as error:
        yield Input(argument, describe_os_error(error) if isinstance(error, OSError) else str(error))
        return
    if not chosen:
        found = "a folder without clouds" if is_folder else "no cloud matches this pattern"
        yield Input(argument, f"{argument}: {found}; expected files with one of the suffixes {' '.join(suffixes)}")
    yield from (Input(name) for name in chosen)


def _clouds(names: Iterable[str], suffixes: tuple[str, ...]) -> list[str]:
    found = [name for name in names if _is_cloud(name, suffixes)]
    buffers = set(buffer_files(map(Path, found)))
    return [name for name in found if Path(name) not in buffers] if buffers else found


def _is_cloud(name: str, suffixes: tuple[str, ...]) -> bool:
    base = os.path.basename(name)
    return base.lower().endswith(suffixes) and not base.startswith(".") and os.path.isfile(name)


def _in_folder(folder: str) -> Iterator[str]:
    """All files in a folder and its subfolders. Links are followed, but no folder is visited twice."""

    def fail(error: OSError) -> None:
        raise error

    seen: set[str] = set()
    for place, folders, files in os.walk(folder, onerror=fail, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if os.path.realpath(place) in seen:
            folders.clear()
            continue
        seen.add(os.path.realpath(place))
        yield from (os.path.join(place, name) for name in files)
