"""Results as Parquet files in a folder, one row per file; a job that was stopped finds in them what is done.

OUT/_job.json           what was asked for: the model and the options
OUT/_lock               locked while a job runs, so that a second one does not write to the same folder
OUT/part-00000.parquet  rows of files that could be used, in the order in which they were finished
OUT/errors-*.parquet    rows of files that could not; they are removed when a job continues, and tried again

Each file is written beside its place and renamed, so that a reader never sees half of it. One process writes them: the
one that started the job.
"""

import io
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from bipointnet.data.listing import JOB
from bipointnet.errors import UserError
from bipointnet.extras import require
from bipointnet.files import lock, remove_leftovers, write_beside
from bipointnet.scale.work import Row, content_hash

_ROWS = 20_000  # per file of Parquet


class Results:
    """The results of one job in a folder.

    job: what identifies the job: the model's hash and the options. UserError if the folder has results of another, or
    if another process writes to it. seconds: at most so many pass between two writes, while rows are added.
    """

    def __init__(self, out: Path, job: dict[str, Any], seconds: float) -> None:
        require("writing Parquet", "pyarrow")
        self._out, self._seconds = out, seconds
        self._good: list[Row] = []
        self._bad: list[Row] = []
        self._flushed = time.monotonic()
        self._lock = self._locked()
        try:
            self._prepare(job)
        except BaseException:
            self._lock.close()
            raise
        self._number = 1 + max((_number(part) for part in self._parts("part")), default=-1)

    def _locked(self) -> IO[bytes]:
        """The open file that keeps other jobs out of the folder."""
        if self._out.exists() and not self._out.is_dir():
            raise UserError(f"{self._out}: a file; expected a folder for the results; choose another with -o")
        self._out.mkdir(parents=True, exist_ok=True)
        file = open(self._out / "_lock", "ab")  # noqa: SIM115 - closed at the end of the job
        if lock(file):
            return file
        file.close()
        raise UserError(
            f"{self._out}: another job writes its results there; expected no other; wait until it ends, or choose "
            "another folder with -o"
        )

    def _prepare(self, job: dict[str, Any]) -> None:
        path = self._out / JOB
        foreign = [*self._parts("part"), *self._parts("errors")]
        if path.exists():
            _require_same(path, job)
        elif foreign:
            raise UserError(
                f"{self._out}: holds {foreign[0].name} but no _job.json; expected an empty folder or results of this "
                "job; choose another folder with -o"
            )
        else:
            write_beside(path, json.dumps(job, indent=2).encode())
        remove_leftovers(self._out)
        for errors in self._parts("errors"):
            errors.unlink()

    def _parts(self, kind: str) -> list[Path]:
        return sorted((part for part in self._out.glob(f"{kind}-*.parquet") if _number(part) >= 0), key=_number)

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Those of these columns that there are, of all rows that are written."""
        import pyarrow.parquet

        for part in (*self._parts("part"), *self._parts("errors")):
            found = set(pyarrow.parquet.read_schema(part).names)
            yield from pyarrow.parquet.read_table(part, columns=[name for name in columns if name in found]).to_pylist()

    def missing(self, paths: Sequence[str]) -> list[str]:
        """The files that have no row yet.

        The row of a file is removed if its content has changed or its output is gone, but not if the file cannot be
        reached now.
        """
        done = {row["path"]: row for row in self.rows(("path", "size", "time", "content", "output"))}
        changed = {path for path in paths if path in done and not _current(Path(path), done[path])}
        if changed:
            self._remove(changed)
        return [path for path in paths if path not in done or path in changed]

    def outputs(self) -> dict[str, str]:
        """The file that each output was made from, of the rows that have outputs."""
        return {row["output"]: row["path"] for row in self.rows(("path", "output")) if row.get("output")}

    def _remove(self, paths: set[str]) -> None:
        """Remove the rows of these files."""
        import pyarrow.parquet

        for part in self._parts("part"):
            rows = pyarrow.parquet.read_table(part).to_pylist()
            kept = [row for row in rows if row["path"] not in paths]
            if not kept:
                part.unlink()
            elif len(kept) < len(rows):
                write_beside(part, _parquet(kept))

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows; they are written now and then."""
        for row in rows:
            (self._good if row["error"] is None else self._bad).append(row)
        late = time.monotonic() - self._flushed > self._seconds
        if late or len(self._good) + len(self._bad) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are not written yet."""
        for kind, rows in (("part", self._good), ("errors", self._bad)):
            if rows:
                write_beside(self._out / f"{kind}-{self._number:05d}.parquet", _parquet(rows))
                rows.clear()
        self._number += 1
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Write the rows that are not written yet, and let other jobs use the folder."""
        try:
            self.flush()
        finally:
            self._lock.close()


def _number(part: Path) -> int:
    """The number in the name of a file with rows, which has five digits at least; -1 for other files."""
    number = part.stem.partition("-")[2]
    return int(number) if len(number) >= 5 and number.isascii() and number.isdigit() else -1


def _require_same(path: Path, job: dict[str, Any]) -> None:
    """UserError unless a folder has results of this job."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        differs = [name for name in job if found[name] != job[name]]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path}: is damaged, so it is unknown which job wrote the results beside it; choose another folder with -o"
        ) from error
    others = {
        "command": "another command",
        "model": "another model",
        "options": "other options",
        "version": f"another version of bipointnet, {found['version']}",
    }
    if differs:
        raise UserError(
            f"{path.parent}: holds results of {others[differs[0]]}; expected those of this job; choose another folder "
            "with -o"
        )


def _current(file: Path, row: Row) -> bool:
    """Whether a row is still true. The hash of a file is computed only if its size or time differ."""
    try:
        status = file.stat()
        if (status.st_size, status.st_mtime_ns) != (row["size"], row["time"]) and (
            status.st_size != row["size"] or content_hash(file) != row["content"]
        ):
            return False
    except OSError:  # a disk that is not there now, for example
        return True
    return row.get("output") is None or os.path.exists(row["output"])


def _parquet(rows: Sequence[Row]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    types = {
        "size": pyarrow.int64(),
        "time": pyarrow.int64(),
        "points": pyarrow.int64(),
        "seconds": pyarrow.float64(),
        "probability": pyarrow.float32(),
        "probabilities": pyarrow.list_(pyarrow.float32()),
        "warnings": pyarrow.list_(pyarrow.string()),
        "counts": pyarrow.list_(pyarrow.int64()),
    }
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in rows[0]])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema), buffer, compression="zstd")
    return buffer.getvalue()
