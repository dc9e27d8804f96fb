"""What labeled scans hold: points, size, codes and features of each file, before it is cut."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data.blocks import COLORS
from bipointnet.data.own import Found, Source
from bipointnet.data.reading import cores, in_order, with_progress
from bipointnet.data.scan_files import ScanReader
from bipointnet.data.summary import Skipped, first_names
from bipointnet.errors import UserError

_AT_ONCE = 4  # files, whatever their size, that are in memory


@dataclass(frozen=True)
class Survey:
    """What is known about a file before it is cut: its points, size (3,), codes with their counts, and features.

    content: a hash of the coordinates, which a copy of the scan in another format has, too.
    """

    points: int
    size: np.ndarray
    codes: Counter[int]
    has_colors: bool
    largest: dict[str, float]  # the 99th percentile of the absolute values of each field
    content: bytes


def _survey(file: Path, reader: ScanReader) -> Survey:
    scan = reader.read(file)
    for name in reader.fields:
        if not np.isfinite(scan.columns[name]).all():
            raise UserError(f"{file}: has {name} that is NaN or infinite, expected finite numbers; correct the file")
    codes, counts = np.unique(scan.codes, return_counts=True)
    return Survey(
        len(scan.points),
        np.ptp(scan.points, axis=0),
        Counter(dict(zip(codes.tolist(), counts.tolist(), strict=True))),
        COLORS[0] in scan.columns,
        {name: float(np.percentile(np.abs(scan.columns[name]), 99)) for name in reader.fields},
        hashlib.blake2b(scan.points.tobytes(), digest_size=16).digest(),
    )


def survey_all(found: Found, reader: ScanReader, skip_bad: bool) -> tuple[list[Source], list[Survey], list[Skipped]]:
    """The files that can be read, what is known about each, and the others."""

    def attempt(source: Source) -> Survey | UserError:
        try:
            return _survey(source.file, reader)
        except UserError as error:
            return error

    results = in_order(attempt, found.sources, min(_AT_ONCE, cores()))
    surveyed = [next(results) for _ in with_progress([source.file for source in found.sources])]
    errors = [
        (source, error) for source, error in zip(found.sources, surveyed, strict=True) if isinstance(error, UserError)
    ]
    if errors and (not skip_bad or len(errors) == len(surveyed)):
        if len(errors) == len(surveyed):  # a mistake in the options, more likely than in all files
            raise errors[0][1]
        others = first_names(source.name for source, _ in errors[1:])
        too = f"; {others} cannot be read either" if others else ""
        raise UserError(f"{errors[0][1]}, or pass --skip-bad to leave it out{too}")
    good = [(source, found) for source, found in zip(found.sources, surveyed, strict=True) if isinstance(found, Survey)]
    bad = [
        Skipped(source.name, str(error).removeprefix(f"{source.file}: ").partition(";")[0]) for source, error in errors
    ]
    return [source for source, _ in good], [survey for _, survey in good], bad
