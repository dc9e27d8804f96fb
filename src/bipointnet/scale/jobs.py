"""Jobs over many files: what is done already is skipped, the rest goes to an engine, rows and errors are written.

A job may be stopped at any time and started again with the same arguments: in the end every file has one row.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bipointnet import __version__
from bipointnet.data.listing import JOB
from bipointnet.data.reading import cores
from bipointnet.errors import UserError
from bipointnet.evaluation.inputs import STDIN, Input
from bipointnet.runtime.model import load
from bipointnet.runtime.progress import Progress, no_progress
from bipointnet.scale.local import run_local
from bipointnet.scale.results import Results
from bipointnet.scale.work import Classify, LabelFiles, Row, Work

ENGINES = ("local", "ray")
# Clouds that a worker takes at a time: so many that it is busy for longer than it takes to give it more.
_AT_ONCE = {"local": 64, "ray": 2048}
_ROUNDS = 4  # each worker takes files so many times at least, so that all end at about the same time
_ENGINE_OPTIONS = ("engine", "workers", "address", "save_seconds")


@dataclass
class Outcome:
    """What a job did.

    done: files with a result. skipped: of these, those that had it before. warned: of the others, those with warnings
    in their rows. errors: path and sentence of each file that could not be used.
    """

    done: int = 0
    skipped: int = 0
    warned: int = 0
    errors: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        before = f", {self.skipped:,} of them before" if self.skipped else ""
        warned = f"; {self.warned:,} with warnings" if self.warned else ""
        failed = f"; {len(self.errors):,} cannot be used" if self.errors else ""
        return f"{self.done:,} files done{before}{warned}{failed}"


@dataclass(frozen=True)
class Job:
    """One job: the work, the files, and where the results go.

    engine: "local" or "ray". workers: how many; None: one per core of this machine. address: of a Ray cluster. chunk:
    files that a worker takes at a time, at most. save_seconds: rows wait at most so long before they are written; if
    the job is killed, these are lost, and the work on the files that workers hold.
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
        if self.address is not None and self.engine != "ray":
            raise UserError(
                f"address is {self.address!r}, but the engine is {self.engine}; expected the engine ray; name it"
            )
        inputs = [_in_utf8(found) for found in inputs]
        outcome = Outcome(errors=[(found.name, found.error) for found in inputs if found.error is not None])
        paths = list(dict.fromkeys(os.path.normpath(found.name) for found in inputs if found.error is None))
        if STDIN in paths:
            raise UserError("standard input cannot be part of a job; expected files; save it in one")
        if not paths:
            raise UserError(outcome.errors[0][1] if outcome.errors else "no files were named; expected at least one")
        if not (self.out / JOB).exists() and not any(map(os.path.exists, paths)):
            raise UserError(f"{paths[0]}: no such file or folder; check the path")
        paths = self._without_copies(paths)
        self._require_outputs(paths)
        results = Results(self.out, self.options, self.save_seconds)
        try:
            self._require_own_outputs(paths, results.outputs())
            missing = results.missing(paths)
            outcome.done = outcome.skipped = len(paths) - len(missing)
            total = len(paths) + len(outcome.errors)
            progress(outcome.done + len(outcome.errors), total)
            for rows in self._rows(missing):
                results.add(rows)
                errors = [(row["path"], row["error"]) for row in rows if row["error"] is not None]
                outcome.errors += errors
                outcome.done += len(rows) - len(errors)
                outcome.warned += sum(bool(row["warnings"]) for row in rows)
                progress(outcome.done + len(outcome.errors), total)
        finally:
            results.close()
        return outcome

    def _without_copies(self, paths: Sequence[str]) -> list[str]:
        """The files outside of the folder for the results, if files are written to it."""
        out = os.path.realpath(self.out)
        left = [
            path
            for path in paths
            if self.work.output(Path(path)) is None or not Path(os.path.realpath(path)).is_relative_to(out)
        ]
        if not left:
            raise UserError(
                f"{paths[0]}: is in the folder for the results; expected scans outside of it; choose another folder "
                "with -o"
            )
        return left

    def _require_outputs(self, paths: Sequence[str]) -> None:
        """UserError for two files whose results would be written to one, and for a result that would replace a file."""
        is_new = not (self.out / JOB).exists()
        sources: dict[Path, str] = {}
        for path in paths:
            output = self.work.output(Path(path))
            other = path if output is None else sources.setdefault(output, path)
            if other != path:
                raise UserError(
                    f"{path}: its labeled copy would be {output}, as that of {other}; expected different names; name "
                    "the folder that holds both files, or label them in two jobs"
                )
            if is_new and output is not None and output.exists():
                raise UserError(
                    f"{path}: its labeled copy would replace {output}; expected a folder without such a file; choose "
                    "another with -o"
                )

    def _require_own_outputs(self, paths: Sequence[str], written: Mapping[str, str]) -> None:
        """UserError for a result that would replace that of another file, which an earlier call of this job wrote."""
        for path in paths:
            output = self.work.output(Path(path))
            other = path if output is None else written.get(str(output), path)
            if os.path.realpath(other) != os.path.realpath(path):
                raise UserError(
                    f"{path}: its labeled copy would replace {output}, that of {other}; expected different names; "
                    "choose another folder with -o"
                )

    def _rows(self, paths: Sequence[str]) -> Iterator[list[Row]]:
        if not paths:
            return iter(())
        workers = self.workers or cores()
        chunk = max(1, min(self.chunk, len(paths) // (_ROUNDS * workers)))
        chunks = [list(paths[start : start + chunk]) for start in range(0, len(paths), chunk)]
        if self.engine == "ray":
            from bipointnet.scale.on_ray import run_ray

            return run_ray(self.work, chunks, workers, self.address)
        return run_local(self.work, chunks, min(workers, len(chunks)))


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
    if options.get("root"):
        options = options | {"root": os.path.normpath(options["root"])}
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
        files: the files; those in the folder `out` are left out.
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
    if isinstance(files, (str, Path)):
        raise UserError(f"files is {os.fspath(files)!r}, one path; expected a list of files; put it into a list")
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
    given.pop("memory", None)  # changes no result
    digest = hashlib.blake2b(model, digest_size=16).hexdigest()
    return {"command": command, "model": digest, "options": given, "version": __version__}


def _in_utf8(found: Input) -> Input:
    """A name that is not UTF-8 cannot be written to Parquet: the file becomes an error, under a readable name."""
    readable = os.fsencode(found.name).decode("utf-8", "backslashreplace")
    if readable == found.name:
        return found
    return Input(readable, f"{readable}: its name is not UTF-8; expected UTF-8, as in Parquet; rename the file")
