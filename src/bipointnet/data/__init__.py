"""Data sets by name or folder, and one cloud from any file (`clouds`), as NumPy arrays.

May import: errors, extras, files, and the core to read cloud files. Never torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bipointnet.data import folder, manifest, modelnet, s3dis, scanobjectnn, shapenet_part
from bipointnet.data.dataset import PointClouds, TrainedOn
from bipointnet.data.listing import subfolders
from bipointnet.data.own import Found, open_own
from bipointnet.data.scan_choices import ScanOptions
from bipointnet.data.scans import open_scans
from bipointnet.data.summary import Summary, class_sizes, first_names
from bipointnet.errors import UserError

BUILT_IN = ("shapes", "rooms", "outdoors")


class Layout(NamedTuple):
    """A kind of data set, with a description for errors.

    recognizes: whether a folder or file holds it. open: opens a published one. find: lists the files of one's own.
    """

    recognizes: Callable[[Path], bool]
    description: str
    open: Callable[[Path, int, int], PointClouds] | None = None
    find: Callable[[Path], Found] | None = None


DATASETS: dict[str, Layout] = {
    "modelnet": Layout(
        modelnet.recognizes,
        "ModelNet as published (train_files.txt with *.h5, modelnet40_train.txt with CLASS/ID.txt,"
        " or CLASS/train/*.off with CLASS/test/*.off)",
        modelnet.modelnet,
    ),
    "scanobjectnn": Layout(
        scanobjectnn.recognizes,
        "ScanObjectNN as published (training_objectdataset*.h5 with test_objectdataset*.h5)",
        scanobjectnn.scanobjectnn,
    ),
    "shapenet-part": Layout(
        shapenet_part.recognizes,
        "ShapeNet Part as published (train_hdf5_file_list.txt with *.h5, train_test_split/*.json with"
        " SYNSET/ID.txt, or SYNSET/points/*.pts with SYNSET/points_label/*.seg)",
        shapenet_part.shapenet_part,
    ),
    "s3dis": Layout(
        s3dis.recognizes,
        "S3DIS as published (room_filelist.txt with *.h5, Area_N/ROOM/Annotations/*.txt, or Area_N_ROOM.npy)",
        s3dis.s3dis,
    ),
    "manifest": Layout(
        manifest.recognizes,
        "a manifest (FILE.csv, FILE.json, or a folder with manifest.csv or manifest.json; columns path, class, split)",
        find=manifest.find,
    ),
    # Must be the last: it accepts any folders of files, also a published data set.
    "folder": Layout(
        folder.recognizes,
        "your own files (CLASS/*, CLASS/train/* with CLASS/test/*, or train/CLASS/* with test/CLASS/*)",
        find=folder.find,
    ),
}


def open_dataset(
    data: str,
    points: int,
    seed: int = 0,
    fold: str | None = None,
    trained: TrainedOn | None = None,
    skip_bad: bool = False,
    scans: ScanOptions | None = None,
) -> PointClouds:
    """Open the built-in "shapes", "rooms" or "outdoors", or the data set in a folder.

    Args:
        data: "shapes", "rooms", "outdoors", or a folder. Its layout is recognized. The data set may also be in a
            subfolder, if it is the only one there. A file names a manifest, or one of several data sets in its folder:
            modelnet10_train.txt, training_objectdataset.h5.
        points: each cloud has at least this many points, so that training can draw that many.
        seed: chooses among a file's points, and the test split where the folder has none. The built-in data sets are
            the same for every seed.
        fold: the fold to test on, for data that come in folds (see `fold_names`).
        trained: what a network to evaluate was trained on. Of your own files, only those that it has not seen are then
            read, as the test split. Ignored for published data, which have a test split of their own.
        skip_bad: leave out those of your own files that cannot be read or have too few points, instead of raising a
            UserError that names them.
        scans: read a folder that is not built in or published as labeled scans, with these options.

    Examples:
        >>> data = open_dataset("shapes", points=512)
        >>> len(data.classes), data.train.points.shape, data.test.points.shape
        (20, (4800, 1024, 3), (800, 1024, 3))
    """
    if points < 1:
        raise UserError(f"--points is {points}, expected at least 1")
    clouds, layout = _open(data, points, seed, fold, trained, skip_bad, scans)
    if clouds.summary is None:
        sizes = class_sizes(clouds.classes, clouds.train.labels, clouds.test.labels)
        stored = (clouds.train.points.shape[1],) * 3
        return replace(clouds, summary=Summary(data, layout, sizes, None if layout == "built in" else stored))
    return replace(clouds, summary=replace(clouds.summary, data=data))


def _open(
    data: str,
    points: int,
    seed: int,
    fold: str | None,
    trained: TrainedOn | None,
    skip_bad: bool,
    scans: ScanOptions | None,
) -> tuple[PointClouds, str]:
    """The data set and the name of its layout."""
    if data in BUILT_IN:
        require_no_fold(data, fold)
        if skip_bad:
            raise UserError(f"{data}: built in; --skip-bad is for files of your own; leave it out")
        _require_no_scan_options(data, scans)
        return _built_in(data, points), "built in"
    if scans is not None and not _is_published(data):
        require_no_fold(data, fold)
        return open_scans(Path(data), scans, seed, skip_bad), "scans"
    _require_no_scan_options(data, scans)
    name, place = _find(data)
    layout = DATASETS[name]
    if layout.find:
        require_no_fold(place, fold)
        return open_own(layout.find(place), points, seed, trained, skip_bad), name
    if skip_bad:
        raise UserError(f"{place}: a published data set; --skip-bad is for files of your own; leave it out")
    if name == "s3dis":
        return s3dis.s3dis(place, points, seed, fold), name
    require_no_fold(place, fold)
    assert layout.open is not None
    return layout.open(place, points, seed), name


def require_no_fold(source: str | Path, fold: str | None) -> None:
    """UserError for a fold of data that have none."""
    if fold is not None:
        raise UserError(f"{source}: has no folds, unlike S3DIS; found fold {fold!r}; leave --fold out")


def _require_no_scan_options(data: str, scans: ScanOptions | None) -> None:
    if scans is not None and scans.layout is not None:  # the user named a network, not its options
        raise UserError(
            f"{data}: not labeled scans of your own, as the network was trained on; expected a folder or a file with "
            "such scans; name one"
        )
    if scans is not None and scans.given:
        raise UserError(f"{data}: not labeled scans of your own, which --{scans.given[0]} is for; leave it out")


def _is_published(data: str) -> bool:
    """Whether a folder, or one of its subfolders, has the layout of a published data set."""
    path = Path(data)
    return path.is_dir() and bool(_matches(path, _published()))


def _published() -> list[str]:
    return [name for name, layout in DATASETS.items() if layout.open]


def _built_in(data: str, points: int) -> PointClouds:
    if data == "outdoors":
        from bipointnet.data.outdoors import outdoor_blocks

        return outdoor_blocks(points)
    if data == "rooms":
        from bipointnet.data.rooms import room_blocks

        return room_blocks(points)
    from bipointnet.data.shapes import shapes

    return shapes(points=max(1024, 2 * points), seed=0)


def layout_name(data: str) -> str:
    """The layout of the data set that `open_dataset` would open: a name in DATASETS or BUILT_IN.

    >>> layout_name("shapes")
    'shapes'
    """
    return data if data in BUILT_IN else _find(data)[0]


def fold_names(data: str) -> list[str]:
    """The folds that `open_dataset` accepts for this data; an empty list where there are none.

    >>> fold_names("shapes")
    []
    """
    if data in BUILT_IN:
        return []
    name, place = _find(data)
    return [fold.name for fold in s3dis.folds(place)] if name == "s3dis" else []


def _find(data: str) -> tuple[str, Path]:
    """The name of the layout and the place of the data set: a file, a folder, or the one subfolder that holds any."""
    path = Path(data)
    if path.is_file():
        name = next((name for name, layout in DATASETS.items() if layout.recognizes(path)), None)
        if name:
            return name, path
        raise UserError(
            f"{path}: is a file, not a folder; name a data folder, a manifest (*.csv or *.json), or a built-in set:"
            f" {', '.join(BUILT_IN)}"
        )
    if not path.is_dir():
        raise UserError(
            f"{path}: there is no such folder; name a data folder, or a built-in set: {', '.join(BUILT_IN)}"
        )
    if manifest.recognizes(path):
        return "manifest", path
    for names in (_published(), [name for name, layout in DATASETS.items() if layout.find]):
        matches = _matches(path, names)
        if len(matches) == 1:
            return matches[0]
        if matches:
            found = ", ".join(place.name for _, place in matches)
            raise UserError(f"{path}: holds {len(matches)} data sets ({found}); name one of them")
    raise UserError(
        f"{path}: {_content(path)}, not a recognized layout; expected one of:"
        f" {'; '.join(layout.description for layout in DATASETS.values())}; labeled scans need `train --task semantic`"
    )


def _matches(path: Path, names: Sequence[str]) -> list[tuple[str, Path]]:
    """The folder itself with the first layout that recognizes it, or all its subfolders that have one."""
    for places in ([path], subfolders(path)):
        matches = [
            next(((name, place) for name in names if DATASETS[name].recognizes(place)), None) for place in places
        ]
        if any(matches):
            return [match for match in matches if match]
    return []


def _content(path: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in path.iterdir())
    if not names:
        return "the folder is empty"
    return f"the folder holds {first_names(names)}"
