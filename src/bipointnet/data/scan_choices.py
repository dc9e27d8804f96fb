"""How labeled scans are read and cut: what the user asks for, and what follows from the files."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data.blocks import COLORS, PLACES, BlockLayout
from bipointnet.data.class_tables import ClassTable, numbered_table, read_table, standard_table
from bipointnet.data.clouds import LAS
from bipointnet.data.own import Found, Source, hold_out
from bipointnet.data.point_labels import FIELDS, parallel_file
from bipointnet.data.scan_facts import ScanFacts
from bipointnet.data.scan_files import ScanReader
from bipointnet.data.scan_survey import Survey
from bipointnet.data.summary import Skipped, first_names
from bipointnet.errors import UserError

_FILES_FOR_A_SPLIT = 5  # with fewer, places are held out instead of files
_WIDE = 40.0  # meters: a wider scan is of the outdoors
_SIDE = 1.0  # of a block of a scan that is not so wide
_POINTS = 128, 4096  # per block, if they are not given
_SPARSE = 64  # points in a block of that side, on average; with fewer, many blocks have too few to be used
_UNCLASSIFIED = 0, 1  # codes of LAS
_MOST_CODES = 100  # without a table; more are probably numbers of objects


@dataclass(frozen=True)
class ScanOptions:
    """How labeled scans are read; None: follow the files.

    Attributes:
        points: per block; if it is not given, three in four blocks have as many.
        block: side of a block in meters.
        wide_block: the same for scans wider than 40 m, and for sparse ones, if `block` is not given.
        channels: features beside x, y and height: "rgb", or columns of the files, such as "intensity".
        labels: the column that holds the labels.
        columns: the names of the columns of text and npy files, which have none.
        classes: a TOML file with the names of the codes, or a table.
        split: hold out "files" or a "place" in each.
        unit: of the coordinates: "m", "ft" or "us-ft".
        layout: how another run cut its scans; it has precedence over `block` and `channels`.
    """

    points: int | None = None
    block: float | None = None
    wide_block: float = 20.0
    channels: tuple[str, ...] | None = None
    labels: str | None = None
    columns: tuple[str, ...] = ()
    classes: Path | ClassTable | None = None
    split: str | None = None
    unit: str | None = None
    layout: BlockLayout | None = None

    @classmethod
    def of_run(cls, facts: ScanFacts, layout: BlockLayout, points: int) -> "ScanOptions":
        """How the scans of a run were read."""
        return cls(
            points=points,
            labels=facts.labels,
            columns=facts.columns,
            classes=facts.table,
            split=facts.split,
            unit=facts.unit,
            layout=layout,
        )

    @property
    def given(self) -> list[str]:
        """The options that have a meaning for labeled scans only, and are given."""
        names = ("block", "channels", "labels", "columns", "classes", "split", "unit")
        return [name for name in names if getattr(self, name)]

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns to read beside coordinates and colors."""
        if self.layout is not None:
            return tuple(self.layout.scales)
        return tuple(name for name in self.channels or () if name != "rgb")


def require_columns(fields: Sequence[str], labels: str) -> None:
    """UserError for channels that are no columns to learn from. labels: the column with the labels, or ""."""
    for name in fields:
        if name in (*PLACES, *COLORS):
            raise UserError(
                f"channels has {name!r}; expected rgb, or columns such as intensity; x, y and height are always there"
            )
        if name.casefold() in {labels.casefold(), *map(str.casefold, FIELDS)}:
            raise UserError(
                f"channels has {name!r}, a column of labels; expected what is known without them; leave it out"
            )
        if fields.count(name) > 1:
            raise UserError(f"channels has {name!r} twice; expected each channel once; leave one out")


def choose_table(
    found: Found, sources: Sequence[Source], surveys: Sequence[Survey], options: ScanOptions
) -> ClassTable:
    """The classes of the codes; UserError for files without classes."""
    codes = sum((survey.codes for survey in surveys), Counter[int]())
    las = all(source.file.suffix.lower() in LAS for source in sources)
    if options.labels is None:
        _require_classified(sources, surveys)
    if options.classes is None and len(codes) > _MOST_CODES:
        raise UserError(
            f"{found.root}: {len(codes):,} different labels; expected at most {_MOST_CODES} classes; if they number "
            "objects, name the column with the classes with --labels, else name the classes in a table with --classes"
        )
    if isinstance(options.classes, ClassTable):
        table = options.classes
    elif options.classes is not None:
        table = read_table(options.classes)
    else:
        table = standard_table(codes) if las else numbered_table(codes)
    for source, survey in zip(sources, surveys, strict=True):
        table.require_known(survey.codes, source.file)
    present = [name for name, own in zip(table.names, table.codes, strict=True) if any(codes[code] for code in own)]
    if len(present) < 2:
        raise UserError(
            f"{found.root}: all labeled points are of one class, {' '.join(present) or 'which is ignored'}; "
            "expected two or more classes; check the labels, or name the column that holds them with --labels"
        )
    return table


def without_unclassified(
    sources: Sequence[Source], surveys: Sequence[Survey]
) -> tuple[list[Source], list[Survey], list[Skipped]]:
    """The files with a classification, what is known about each, and the others; all files if none has one."""
    pairs = list(zip(sources, surveys, strict=True))
    good = [(source, survey) for source, survey in pairs if not is_unclassified(source.file, survey.codes)] or pairs
    kept = [source for source, _ in good]
    skipped = [Skipped(source.name, "no classification") for source in sources if source not in kept]
    return kept, [survey for _, survey in good], skipped


def is_unclassified(file: Path, codes: Iterable[int]) -> bool:
    """Whether a LAS file has no labels: all its points have the codes 0 or 1, and no other file has labels for it."""
    return file.suffix.lower() in LAS and set(codes) <= set(_UNCLASSIFIED) and parallel_file(file) is None


def _require_classified(sources: Sequence[Source], surveys: Sequence[Survey]) -> None:
    pairs = zip(sources, surveys, strict=True)
    names = [source.name for source, survey in pairs if is_unclassified(source.file, survey.codes)]
    if names:
        what = "has" if len(names) == 1 else "have"
        raise UserError(
            f"{first_names(names)}: {what} no classification, all points have the code 0 or 1; expected classified "
            "scans; leave unclassified ones out, or name the column that holds the labels with --labels"
        )


def choose_layout(
    sources: Sequence[Source], surveys: Sequence[Survey], options: ScanOptions, trained: set[str]
) -> BlockLayout:
    """How the files are cut; trained: the names of those to train on, which decide the scales."""
    wide = float(np.median([survey.size[:2].max() for survey in surveys]))
    if options.block is not None and options.block > wide:
        raise UserError(
            f"--block is {options.block:g} m, but the scans are {wide:.0f} m wide; expected a fraction of that; use a "
            "smaller one"
        )
    side = options.block or _side(surveys, wide, options.wide_block)
    colored = all(survey.has_colors for survey in surveys)
    channels = ("rgb",) if options.channels is None and colored else options.channels or ()
    if "rgb" in channels and not colored:
        without = [source.name for source, survey in zip(sources, surveys, strict=True) if not survey.has_colors]
        raise UserError(f"{first_names(without)}: no colors; expected them for --channels rgb; leave rgb out")
    names = [each for name in channels for each in (COLORS if name == "rgb" else (name,))]
    learned = [survey for source, survey in zip(sources, surveys, strict=True) if source.name in trained]
    scales = {name: max(survey.largest[name] for survey in learned) or 1.0 for name in channels if name != "rgb"}
    return BlockLayout(side, ("x", "y", "height", *names), scales)


def _side(surveys: Sequence[Survey], wide: float, wide_block: float) -> float:
    """The side of a block: 1 m in rooms. In sparse scans such a block has too few points, however wide they are."""
    density = float(np.median([survey.points / max(np.prod(survey.size[:2]), 1e-9) for survey in surveys]))
    if wide <= _WIDE and density * _SIDE**2 >= _SPARSE:
        return _SIDE
    return max(_SIDE, min(wide_block, float(f"{wide / 2:.1g}")))


def choose_points(sources: Sequence[Source], reader: ScanReader, side: float) -> int:
    """Points per block: a power of two that three in four blocks reach."""
    counts = []
    for source in sources:
        xy = reader.read(source.file).points[:, :2]
        x, y = np.floor((xy - xy.min(axis=0)) / side).astype(np.int64).T
        counts.append(np.unique(x * (1 + y.max()) + y, return_counts=True)[1])
    usual = max(1.0, float(np.percentile(np.concatenate(counts), 25)))
    return int(np.clip(2 ** int(np.log2(usual)), *_POINTS))


def choose_split(found: Found, sources: Sequence[Source], options: ScanOptions) -> str:
    if found.has_splits:
        if options.split == "place":
            raise UserError(f"{found.root}: has train/ and test/; found --split place; leave one of the two out")
        return "files"
    split = options.split or ("files" if len(sources) >= _FILES_FOR_A_SPLIT else "place")
    if split == "files" and len(sources) < 2:
        raise UserError(f"{found.root}: one file; expected two or more for --split files; use --split place")
    return split


def divide(found: Found, sources: Sequence[Source], split: str, seed: int) -> tuple[list[Source], list[Source]]:
    """The files to train and to test on; with a split by place, both are all files."""
    if split == "place":
        return list(sources), list(sources)
    if not found.has_splits:
        tested = hold_out([source.name for source in sources], seed)
        return [s for s in sources if s.name not in tested], [s for s in sources if s.name in tested]
    divided = [[source for source in sources if source.split == name] for name in ("train", "test")]
    for name, own in zip(("train", "test"), divided, strict=True):
        if not own:
            raise UserError(f"{found.root}: there are no {name} files beside the other split; add them")
    return divided[0], divided[1]
