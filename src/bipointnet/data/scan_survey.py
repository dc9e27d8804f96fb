"""What labeled scans hold: points, size, codes and features of each file, before it is cut."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data.blocks import COLORS
from bipointnet.data.own import Found, Source
from bipointnet.data.reading import in_order, with_progress
from bipointnet.data.scan_files import ScanReader
from bipointnet.data.summary import Skipped
from bipointnet.errors import UserError


@dataclass(frozen=True)
class Survey:
    """What is known about a file before it is cut: its points, size (3,), codes with their counts, and features."""

    points: int
    size: np.ndarray
    codes: Counter[int]
    has_colors: bool
    largest: dict[str, float]  # the 99th percentile of the absolute values of each field


def _survey(file: Path, reader: ScanReader) -> Survey:
    scan = reader.read(file)
    codes, counts = np.unique(scan.codes, return_counts=True)
    return Survey(
        len(scan.points),
        np.ptp(scan.points, axis=0),
        Counter(dict(zip(codes.tolist(), counts.tolist(), strict=True))),
        COLORS[0] in scan.columns,
        {name: float(np.percentile(np.abs(scan.columns[name]), 99)) for name in reader.fields},
    )


def survey_all(found: Found, reader: ScanReader, skip_bad: bool) -> tuple[list[Source], list[Survey], list[Skipped]]:
    """The files that can be read, what is known about each, and the others."""

    def attempt(source: Source) -> Survey | UserError:
        try:
            return _survey(source.file, reader)
        except UserError as error:
            return error

    results = in_order(attempt, found.sources)
    surveyed = [next(results) for _ in with_progress([source.file for source in found.sources])]
    errors = [
        (source, error) for source, error in zip(found.sources, surveyed, strict=True) if isinstance(error, UserError)
    ]
    if errors and (not skip_bad or len(errors) == len(surveyed)):
        if len(errors) == len(surveyed):  # a mistake in the options, more likely than in all files
            raise errors[0][1]
        raise UserError(f"{errors[0][1]}, or pass --skip-bad to leave out {len(errors):,} such files")
    good = [(source, found) for source, found in zip(found.sources, surveyed, strict=True) if isinstance(found, Survey)]
    bad = [
        Skipped(source.name, str(error).removeprefix(f"{source.file}: ").partition(";")[0]) for source, error in errors
    ]
    return [source for source, _ in good], [survey for _, survey in good], bad
