"""Labeled scans of your own as a data set for the task semantic: files are cut into blocks, as described in `blocks`.

What is not given follows the files: the side of a block their size, the points per block their density, the channels
what all of them have, the classes the standard of LAS or the labels found. The summary says what was picked.

A fifth is held out for the test: of the files, or, if there are fewer than five, the far end of each scan along its
longer side, with a strip one block wide between the two that is not used. Training blocks overlap by half, test blocks
do not.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bipointnet.data.blocks import FEWEST, BlockLayout, Blocks, Columns, grid_blocks
from bipointnet.data.class_tables import ClassTable
from bipointnet.data.clouds import LAS
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.listing import rng_of
from bipointnet.data.own import Found, Source
from bipointnet.data.reading import fingerprint
from bipointnet.data.scan_choices import (
    ScanOptions,
    choose_layout,
    choose_points,
    choose_split,
    choose_table,
    divide,
    require_columns,
    without_unclassified,
)
from bipointnet.data.scan_facts import ScanFacts
from bipointnet.data.scan_files import KIND, Scan, ScanReader, find_scans
from bipointnet.data.scan_survey import Survey, survey_all
from bipointnet.data.summary import ClassSize, Summary, first_names
from bipointnet.errors import UserError

NAME = "scans"
_TEST_SHARE = 0.2
_GROUND = 2  # a code of LAS


def open_scans(data: Path, options: ScanOptions, seed: int = 0, skip_bad: bool = False) -> PointClouds:
    """The blocks of labeled scans.

    Args:
        seed: chooses the points of blocks, and the files that are held out.
        skip_bad: leave out files that cannot be read instead of raising an error.
    """
    found = find_scans(data)
    require_columns(options.fields, options.labels or "")
    reader = ScanReader(options.fields, options.labels, options.columns, options.unit)
    sources, surveys, bad = survey_all(found, reader, skip_bad)
    if skip_bad and options.labels is None:
        sources, surveys, unclassified = without_unclassified(sources, surveys)
        bad += unclassified
    table = choose_table(found, sources, surveys, options)
    split = choose_split(found, sources, options)
    train_files, test_files = divide(found, sources, split, seed)
    layout = options.layout or choose_layout(sources, surveys, options, {source.name for source in train_files})
    points = options.points or choose_points(sources, reader, layout.side)

    def cut(source: Source, which: str) -> "_Cut":
        return _cut(reader.read(source.file), source, layout, table, points, seed, which, split == "place")

    train, test = (
        [cut(source, which) for source in files]
        for which, files in zip(("train", "test"), (train_files, test_files), strict=True)
    )
    splits = [_stacked(cuts, layout, points) for cuts in (train, test)]
    _require_blocks(found, splits, table)
    by_files = split == "files" and not found.has_splits
    held_out = tuple(source.name for source in test_files) if by_files else ()
    density = float(np.median([density for own in train for density in own.densities]))
    facts = ScanFacts(table, options.labels, options.columns, split, options.unit, density)
    prints = {source.name: fingerprint(source.file).hex() for source in sources}
    notes = _notes(layout, table, surveys, points, split, sources)
    if split == "files":
        contents = {source.name: survey.content for source, survey in zip(sources, surveys, strict=True)}
        learned = {contents[source.name] for source in train_files}
        copies = [source.name for source in test_files if contents[source.name] in learned]
        notes += (f"the test has copies of training files: {first_names(copies)}",) if copies else ()
    sizes = (ClassSize(KIND, len(splits[0]), len(splits[1])),)
    counts = sorted(survey.points for survey in surveys)
    spread = counts[0], counts[len(counts) // 2], counts[-1]
    skipped = (*found.skipped, *bad)
    return PointClouds(
        NAME,
        (KIND,),
        splits[0],
        splits[1],
        table.names,
        blocks=layout,
        held_out=held_out,
        trained_on=tuple((source.name, prints[source.name]) for source in train_files),
        scans=facts,
        summary=Summary(str(data), found.layout, sizes, spread, 0, held_out, skipped, notes, len(table.names)),
    )


# Blocks


@dataclass(frozen=True)
class _Cut:
    """The blocks of one file with their names, the classes (B, P) of their points, and the densities of the blocks."""

    blocks: Blocks
    names: tuple[str, ...]
    labels: np.ndarray
    densities: np.ndarray


def held_out_cells(columns: Columns) -> Callable[[np.ndarray], np.ndarray]:
    """Which cells (M, 2) of a scan are held out, if places are: its far end along the longer side."""
    axis, first = _far_end(columns)
    return lambda cells: cells[:, axis] >= first


def _training_blocks(columns: Columns) -> Callable[[np.ndarray], np.ndarray]:
    """Which blocks, by their lowest cells (M, 2), are to train on: two cells beside the far end are not used."""
    axis, first = _far_end(columns)
    return lambda corners: corners[:, axis] + 1 < first - 2


def _far_end(columns: Columns) -> tuple[int, int]:
    """The longer axis, and the first cell of its last fifth: an even one, so that adjacent blocks begin there."""
    axis = int(columns.shape[1] > columns.shape[0])
    return axis, max(2, 2 * round((1 - _TEST_SHARE) * columns.shape[axis] / 2))


def _cut(
    scan: Scan,
    source: Source,
    layout: BlockLayout,
    table: ClassTable,
    points: int,
    seed: int,
    which: str,
    by_place: bool,
) -> _Cut:
    columns = Columns.of(layout, scan.points, scan.features(layout.features), source.file)
    step = 1 if which == "train" else 2
    place = _training_blocks if which == "train" else held_out_cells
    chosen = place(columns) if by_place else None
    blocks = grid_blocks(columns, points, rng_of(source.name, seed), step, chosen, _fewest(points))
    labels = table.index_of(scan.codes, source.file)[blocks.index]
    known = (labels >= 0).any(axis=1)
    kept = Blocks(*(getattr(blocks, name)[known] for name in ("points", "index", "votes", "corners")))
    places = kept.corners * float(layout.cell)
    names = tuple(f"{source.name}, {x:g} m and {y:g} m from its corner" for x, y in places)
    return _Cut(kept, names, labels[known], _densities(columns))


def _fewest(points: int) -> int:
    """Blocks with fewer points are not used: they are mere edges of scans."""
    return min(FEWEST, max(1, points // 4))


def _densities(columns: Columns) -> np.ndarray:
    """Points per square meter of each cell that has points."""
    counts = np.unique(columns.cells, return_counts=True)[1]
    return counts / float(columns.layout.cell) ** 2


def _stacked(cuts: Sequence[_Cut], layout: BlockLayout, points: int) -> Split:
    blocks = np.concatenate(
        [np.empty((0, points, len(layout.channels)), np.float32), *(cut.blocks.points for cut in cuts)]
    )
    labels = np.concatenate([np.empty((0, points), np.int64), *(cut.labels for cut in cuts)])
    return Split(blocks, np.zeros(len(blocks), np.int64), labels, tuple(name for cut in cuts for name in cut.names))


def _require_blocks(found: Found, splits: Sequence[Split], table: ClassTable) -> None:
    for name, split in zip(("train", "test"), splits, strict=True):
        if len(split) == 0:
            raise UserError(
                f"{found.root}: no block is left to {name} on; expected scans of several blocks with enough points; "
                "use a smaller --block, a larger one if the scans are sparse, or add files"
            )
    assert splits[0].point_labels is not None
    learned = np.bincount(splits[0].point_labels[splits[0].point_labels >= 0], minlength=len(table.names))
    missing = [name for name, count in zip(table.names, learned, strict=True) if count == 0]
    if missing:
        raise UserError(
            f"{found.root}: no training block has a point of class {first_names(missing)}; expected all classes; use a "
            "larger --block if many blocks have too few points, add files with it, merge it with another class in a "
            "table given with --classes, or ignore it there"
        )


def _notes(
    layout: BlockLayout,
    table: ClassTable,
    surveys: Sequence[Survey],
    points: int,
    split: str,
    sources: Sequence[Source],
) -> tuple[str, ...]:
    """What was picked, and what deserves a look."""
    scales = "".join(f"; {name} is divided by {scale:g}" for name, scale in layout.scales.items())
    notes = [f"blocks of {layout.side:g} m with {points:,} points: {', '.join(layout.channels)}{scales}"]
    notes.append(f"blocks with fewer than {_fewest(points)} points are not used")
    without = [source.name for source, survey in zip(sources, surveys, strict=True) if not survey.has_colors]
    if 0 < len(without) < len(sources) and "red" not in layout.channels:
        notes.append(f"colors are not used, as some files have none: {first_names(without)}")
    if split == "place":
        notes.append("held out for the test: the last fifth of each scan along its longer side")
    codes = sum((survey.codes for survey in surveys), Counter[int]())
    total = sum(codes.values())
    shares = [
        f"{name} {100 * sum(codes[code] for code in own) / total:.1f} %"
        for name, own in zip(table.names, table.codes, strict=True)
    ]
    notes.append(f"points per class: {', '.join(shares)}")
    if "label 0" in table.names:
        notes.append(
            'label 0 is learned like the others; if it means "no label", put 0 = "ignore" into a table (--classes)'
        )
    ignored = {code: codes[code] for code in sorted(table.ignored) if codes[code]}
    if ignored:
        listed = ", ".join(f"code {code} ({count:,} points)" for code, count in ignored.items())
        notes.append(f"neither learned nor evaluated: {listed}")
    if codes[_GROUND] and all(source.file.suffix.lower() in LAS for source in sources):
        no_ground = [source.name for source, survey in zip(sources, surveys, strict=True) if not survey.codes[_GROUND]]
        if no_ground:
            notes.append(
                f"no point has the code 2 (ground), unlike in other files; check their labels: {first_names(no_ground)}"
            )
    return tuple(notes)
