"""Results as Parquet files in a folder, one row per file; a job that was stopped finds in them what is done.

OUT/_job.json           what was asked for: the model and the options
OUT/part-00000.parquet  rows of files that could be used, in the order in which they were finished
OUT/errors-*.parquet    rows of files that could not; they are removed when a job continues, and tried again

Each file is written beside its place and renamed, so that a reader never sees half of it. One process writes them: the
one that started the job.
"""

import io
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bipointnet.errors import UserError
from bipointnet.extras import require
from bipointnet.files import remove_leftovers, write_beside
from bipointnet.scale.work import Row, content_hash

_ROWS = 20_000  # per file of Parquet


class Results:
    """The results of one job in a folder.

    job: what identifies the job: the model's hash and the options. UserError if the folder has results of another.
    seconds: at most so many pass between two writes, while rows are added.
    """

    def __init__(self, out: Path, job: dict[str, Any], seconds: float) -> None:
        require("results as Parquet", "pyarrow")
        self._out, self._seconds = out, seconds
        self._good: list[Row] = []
        self._bad: list[Row] = []
        self._flushed = time.monotonic()
        self._prepare(job)
        self._number = 1 + max((int(part.stem.partition("-")[2]) for part in self._parts("part")), default=-1)

    def _prepare(self, job: dict[str, Any]) -> None:
        path = self._out / "_job.json"
        if self._out.exists() and not self._out.is_dir():
            raise UserError(f"{self._out}: a file; expected a folder for the results; choose another with -o")
        if path.exists():
            if json.loads(path.read_text()) != job:
                raise UserError(
                    f"{self._out}: holds results of another model or of other options; expected those of this job; "
                    "choose another folder with -o"
                )
        elif self._out.exists() and any(self._parts("part")):
            raise UserError(
                f"{self._out}: holds part-*.parquet but no _job.json; expected an empty folder or results of this job; "
                "choose another folder with -o"
            )
        else:
            write_beside(path, json.dumps(job, indent=2).encode())
        remove_leftovers(self._out)
        for errors in self._parts("errors"):
            errors.unlink()

    def _parts(self, kind: str) -> list[Path]:
        return sorted(self._out.glob(f"{kind}-*.parquet"))

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """These columns of all rows that are written."""
        import pyarrow.parquet

        for part in (*self._parts("part"), *self._parts("errors")):
            yield from pyarrow.parquet.read_table(part, columns=list(columns)).to_pylist()

    def missing(self, paths: Sequence[str]) -> list[str]:
        """The files that have no row yet. The row of a file whose content has changed is removed."""
        done = {row["path"]: row for row in self.rows(("path", "size", "time", "content"))}
        changed = {path for path in paths if path in done and not _unchanged(Path(path), done[path])}
        if changed:
            self._remove(changed)
        return [path for path in paths if path not in done or path in changed]

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


def _unchanged(file: Path, row: Row) -> bool:
    """Whether a file has the content of its row. The hash is computed only if its size or time differ."""
    try:
        status = file.stat()
        if (status.st_size, status.st_mtime_ns) == (row["size"], row["time"]):
            return True
        return status.st_size == row["size"] and content_hash(file) == row["content"]
    except OSError:
        return False


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
