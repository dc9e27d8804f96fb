"""Jobs over many files: what is done already is skipped, the rest goes to an engine, rows and errors are written.

A job may be stopped at any time and started again with the same arguments: in the end every file has one row.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bipointnet import __version__
from bipointnet.errors import UserError
from bipointnet.evaluation.inputs import Input
from bipointnet.runtime.model import load
from bipointnet.runtime.progress import Progress, no_progress
from bipointnet.scale.local import run_local
from bipointnet.scale.results import Results
from bipointnet.scale.work import Classify, LabelFiles, Row, Work

ENGINES = ("local", "ray")
# Clouds that a worker takes at a time: so many that it is busy for longer than it takes to give it more.
_AT_ONCE = {"local": 64, "ray": 512}
_ENGINE_OPTIONS = ("engine", "workers", "address", "save_seconds")


@dataclass
class Outcome:
    """What a job did.

    done: files that have a row now. skipped: of these, those that had one before. errors: path and sentence of each
    file that could not be used.
    """

    done: int = 0
    skipped: int = 0
    errors: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        before = f", {self.skipped:,} of them before" if self.skipped else ""
        failed = f"; {len(self.errors):,} cannot be used" if self.errors else ""
        return f"{self.done:,} files done{before}{failed}"


@dataclass(frozen=True)
class Job:
    """One job: the work, the files, and where the results go.

    engine: "local" or "ray". workers: how many; None: one per core of this machine. address: of a Ray cluster. chunk:
    files that a worker takes at a time. save_seconds: the work of at most so many seconds is lost if the job is killed.
    """

    work: Work
    options: dict[str, Any]
    out: Path
    engine: str = "local"
    workers: int | None = None
    address: str | None = None
    chunk: int = 1
    save_seconds: float = 20.0

    def run(self, inputs: Sequence[Input], progress: Progress = no_progress) -> Outcome:
        """Do what is not done yet. progress: called with (done, total) files."""
        if self.engine not in ENGINES:
            raise UserError(f"engine is {self.engine!r}; expected one of {', '.join(ENGINES)}")
        if self.workers is not None and self.workers < 1:
            raise UserError(f"workers is {self.workers}; expected at least 1")
        paths = list(dict.fromkeys(found.name for found in inputs if found.error is None))
        outcome = Outcome(errors=[(found.name, found.error) for found in inputs if found.error is not None])
        if not paths:
            raise UserError(outcome.errors[0][1] if outcome.errors else "no files were named; expected at least one")
        self._require_outputs(paths)
        results = Results(self.out, self.options, self.save_seconds)
        missing = results.missing(paths)
        outcome.done = outcome.skipped = len(paths) - len(missing)
        progress(outcome.done, len(paths))
        try:
            for rows in self._rows(missing):
                results.add(rows)
                errors = [(row["path"], row["error"]) for row in rows if row["error"] is not None]
                outcome.errors += errors
                outcome.done += len(rows) - len(errors)
                progress(outcome.done + len(outcome.errors), len(paths))
        finally:
            results.flush()
        return outcome

    def _require_outputs(self, paths: Sequence[str]) -> None:
        """UserError for two files whose results would be written to one."""
        sources: dict[Path, str] = {}
        for path in paths:
            output = self.work.output(Path(path))
            other = path if output is None else sources.setdefault(output, path)
            if other != path:
                raise UserError(
                    f"{path}: its labeled copy would be {output}, as that of {other}; expected different names; name "
                    "the folder that holds both files, or label them in two jobs"
                )

    def _rows(self, paths: Sequence[str]) -> Iterator[list[Row]]:
        if not paths:
            return iter(())
        chunks = [list(paths[start : start + self.chunk]) for start in range(0, len(paths), self.chunk)]
        if self.engine == "ray":
            from bipointnet.scale.on_ray import run_ray

            return run_ray(self.work, chunks, self.workers or _cores(), self.address)
        return run_local(self.work, chunks, min(self.workers or _cores(), len(chunks)))


def classify_job(model: str | Path, out: str | Path, options: dict[str, Any], **engine: Any) -> Job:
    """The job of `bipointnet predict -o`; options: those of `Classify`."""
    loaded, data = _loaded(model)
    if loaded.segments:
        raise UserError(f"{model}: labels points; expected a model that classifies clouds; use `bipointnet segment`")
    chunk = _AT_ONCE.get(engine.get("engine", "local"), 1)
    work = Classify(data, str(model), **options)
    return Job(work, _key(data, "predict", options), Path(out), chunk=chunk, **engine)


def label_job(model: str | Path, out: str | Path, options: dict[str, Any], **engine: Any) -> Job:
    """The job of `bipointnet segment` on many files; options: those of `LabelFiles`."""
    loaded, data = _loaded(model)
    if loaded.task != "semantic":
        raise UserError(f"{model}: has the task {loaded.task}; expected semantic, a model that labels scans")
    work = LabelFiles(data, str(model), out=str(out), **options)
    return Job(work, _key(data, "segment", options), Path(out), **engine)


def predict(files: Iterable[str | Path], model: str | Path, out: str | Path, **options: Any) -> Outcome:
    """Classify files and write one row per cloud into the folder `out`, as Parquet.

    Args:
        files: the files.
        model: a packed model, or the name of a shipped one.
        out: the folder. If it holds results of the same job, only the rest is done.
        options: engine ("local" or "ray"), workers, address, save_seconds and progress, as in `Job`; and those of
            `Classify`: up, columns, strict.

    >>> outcome = bipointnet.scale.predict(files, "local-small-modelnet40", "results")  # doctest: +SKIP
    >>> pandas.read_parquet("results").label.value_counts()  # doctest: +SKIP
    """
    return _run(classify_job, files, model, out, options)


def segment(files: Iterable[str | Path], model: str | Path, out: str | Path, **options: Any) -> Outcome:
    """Label the points of scans and write a labeled copy of each, and one row per scan, into the folder `out`.

    Args:
        files: the files.
        model: a packed model that labels scans.
        out: the folder. If it holds results of the same job, only the rest is done.
        options: engine, workers, address, save_seconds and progress, as in `Job`; and those of `LabelFiles`: root,
            unit, columns, memory.

    >>> bipointnet.scale.segment(tiles, "tiles.bpn", "labeled", engine="ray", address="auto")  # doctest: +SKIP
    """
    return _run(label_job, files, model, out, options)


def _run(
    make: Any, files: Iterable[str | Path], model: str | Path, out: str | Path, options: dict[str, Any]
) -> Outcome:
    engine = {name: options.pop(name) for name in _ENGINE_OPTIONS if name in options}
    progress = options.pop("progress", no_progress)
    return make(model, out, options, **engine).run([Input(os.fspath(file)) for file in files], progress)


def _loaded(model: str | Path) -> tuple[Any, bytes]:
    from bipointnet import shipped

    loaded = load(model)
    return loaded, shipped.locate(Path(model)).read_bytes()


def _key(model: bytes, command: str, options: dict[str, Any]) -> dict[str, Any]:
    """What identifies a job: results of another one are never taken for its own."""
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value}
    digest = hashlib.blake2b(model, digest_size=16).hexdigest()
    return {"command": command, "model": digest, "options": given, "version": __version__}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
