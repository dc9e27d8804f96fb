"""How well a network labels whole scans of your own: per class, per file, and which files are labeled worst.

Every point of a file is labeled, as `bipointnet segment` does it. Of a file that the network was trained on in part,
only the place that was held out counts.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipointnet.data.blocks import COLORS, Columns
from bipointnet.data.clouds import Cloud
from bipointnet.data.dataset import TrainedOn
from bipointnet.data.own import Found, Source, unseen
from bipointnet.data.reading import fingerprint
from bipointnet.data.scan_choices import is_unclassified
from bipointnet.data.scan_facts import ScanFacts
from bipointnet.data.scan_files import KIND, Scan, ScanReader, find_scans
from bipointnet.data.scans import held_out_cells
from bipointnet.errors import UserError
from bipointnet.evaluation import metrics, segmentation
from bipointnet.evaluation.from_file import label_cloud
from bipointnet.evaluation.predictor import Predictor
from bipointnet.runtime.progress import Progress, no_progress

OTHER_CLASSES = "use a model that was trained with these classes"
DENSITY_FACTOR = 5  # a scan in feet has a density that is lower by 11


class FileScore(NamedTuple):
    """The scores of one file: the number of points that count, mIoU and point accuracy in percent."""

    file: str
    points: int
    miou: float
    oa: float


class ScanScores(NamedTuple):
    """Scores of all files together, of each file, the files that could not be read, and sentences about the choice."""

    total: segmentation.Scores
    files: list[FileScore]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        return {**self.total.as_json(), "files": [score._asdict() for score in self.files], "notes": self.notes}

    @property
    def worst(self) -> list[FileScore]:
        """The files by mIoU, the lowest first."""
        return sorted(self.files, key=lambda score: (score.miou, score.file))


def evaluate_scans(
    predictor: Predictor,
    data: str,
    every: bool = False,
    skip_bad: bool = False,
    progress: Callable[[str], Progress] | None = None,
) -> ScanScores:
    """Label the scans of a folder that a network has not seen, and compare with their labels.

    Args:
        every: use all files whole, also those that it was trained on.
        skip_bad: leave out files that cannot be read.
        progress: maps the name of a file to a callback for its blocks.
    """
    facts = predictor.scans
    assert facts is not None
    found = find_scans(Path(data))
    reader = ScanReader(file_columns(predictor), facts.labels, facts.columns, facts.unit)
    notes: list[str] = []
    if skip_bad:
        found, notes = _readable(found, reader, facts)
    sources, note, partly = _chosen(found, predictor, facts, every)
    confusion = np.zeros((len(predictor.classes),) * 2, np.int64)
    files: list[FileScore] = []
    notes = [note(sources), *notes]
    for source in sources:
        own = _confusion(predictor, facts, reader.read(source.file), source, source.name in partly, progress)
        if not own.any():
            notes.append(f"left out: {source.name}, whose points are all ignored")
            continue
        confusion += own
        scores = segmentation.of_scenes(tuple(predictor.classes), own)
        files.append(FileScore(source.name, int(own.sum()), scores.figures["miou"], scores.figures["oa"]))
    if not files:
        raise UserError(f"{data}: no scan has a labeled point that counts; expected at least one; check the labels")
    return ScanScores(segmentation.of_scenes(tuple(predictor.classes), confusion), files, notes)


def _readable(found: Found, reader: ScanReader, facts: ScanFacts) -> tuple[Found, list[str]]:
    """The files that training would use, too, and sentences about the others: what is held out depends on them."""
    good, notes = [], []
    for source in found.sources:
        try:
            codes = reader.read(source.file).codes
            facts.table.index_of(codes, source.file, OTHER_CLASSES)
        except UserError as error:
            notes.append(f"left out: {error}")
            continue
        if facts.labels is None and is_unclassified(source.file, np.unique(codes).tolist()):
            notes.append(f"left out: {source.name} has no classification")
        else:
            good.append(source)
    if not good:
        raise UserError(f"{found.root}: no file can be read ({notes[0].removeprefix('left out: ')})")
    return replace(found, sources=tuple(good)), notes


def _chosen(
    found: Found, predictor: Predictor, facts: ScanFacts, every: bool
) -> tuple[tuple[Source, ...], Callable[[Any], str], set[str]]:
    """The files to evaluate, what to say about them, and which of them count only where they were held out."""
    trained = TrainedOn((KIND,), predictor.trained_on, predictor.held_out, every)
    if every or facts.split == "files":
        return *unseen(found, 0, trained), set()
    # By content or by name, as a file may have been renamed or edited since.
    known = None if predictor.trained_on is None else {part for pair in predictor.trained_on for part in pair}
    partly = {
        source.name
        for source in found.sources
        if known is None or source.name in known or fingerprint(source.file).hex() in known
    }
    new = len(found.sources) - len(partly)
    parts = [f"the last fifth of {len(partly):,} files"] if partly else []
    parts += [f"{new:,} files that are new to it"] if new else []
    return found.sources, lambda _: f"tested: {' and '.join(parts)}", partly


def _confusion(
    predictor: Predictor,
    facts: ScanFacts,
    scan: Scan,
    source: Source,
    partly: bool,
    progress: Callable[[str], Progress] | None,
) -> np.ndarray:
    """(classes, classes) counts of the points of one file."""
    assert predictor.blocks is not None
    truth = facts.table.index_of(scan.codes, source.file, OTHER_CLASSES)
    on_blocks = no_progress if progress is None else progress(source.name)
    labels = label_cloud(predictor, as_cloud(scan), source.file, None, on_blocks)
    if partly:
        columns = Columns.of(predictor.blocks, scan.points, scan.features(predictor.blocks.features), source.file)
        cells = np.stack(np.divmod(columns.cells, columns.shape[1]), axis=1)
        counted = columns.order[held_out_cells(columns)(cells)]
        truth, labels = truth[counted], labels[counted]
    return metrics.confusion_matrix(truth, labels, len(predictor.classes))


def file_columns(predictor: Predictor) -> tuple[str, ...]:
    """The columns of a file that a network reads besides coordinates and colors."""
    return () if predictor.blocks is None else tuple(predictor.blocks.scales)


def as_cloud(scan: Scan) -> Cloud:
    """A scan as the functions that label files take it."""
    colored = COLORS[0] in scan.columns
    others = {name: values for name, values in scan.columns.items() if name not in COLORS}
    return Cloud(scan.points, scan.features(COLORS) if colored else None, fields=others)


def warnings(predictor: Predictor, cloud: Cloud) -> list[str]:
    """How a scan, in meters, is unlike those that a network was trained on; empty if nothing is."""
    if predictor.scans is None or predictor.blocks is None:
        return []
    cell = predictor.blocks.side / 2
    cells = np.floor((cloud.points[:, :2] - cloud.points[:, :2].min(axis=0)) / cell).astype(np.int64)
    counts = np.unique(cells[:, 0] * (1 + cells[:, 1].max()) + cells[:, 1], return_counts=True)[1]
    return density_warnings(predictor, float(np.median(counts)) / cell**2)


def density_warnings(predictor: Predictor, density: float) -> list[str]:
    """The same for a scan with so many points per square meter: the median over cells of half a block's side."""
    facts = predictor.scans
    if facts is None:
        return []
    if facts.density / DENSITY_FACTOR < density < facts.density * DENSITY_FACTOR:
        return []
    return [f"has {density:.3g} points per square meter, in training {facts.density:.3g}: wrong units?"]
