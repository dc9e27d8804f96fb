"""Data sets by name or folder, and one cloud from any file (`clouds`), as NumPy arrays.

May import: errors, extras, files, and the core to read cloud files. Never torch.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from bipointnet.data import folder, modelnet, s3dis, shapenet_part
from bipointnet.data.dataset import PointClouds
from bipointnet.data.listing import subfolders
from bipointnet.errors import UserError


class Layout(NamedTuple):
    """A kind of data set: how to recognize and open a folder that holds it, and a description for errors."""

    recognizes: Callable[[Path], bool]
    open: Callable[[Path, int, int], PointClouds]
    description: str


DATASETS: dict[str, Layout] = {
    "modelnet": Layout(
        modelnet.recognizes,
        modelnet.modelnet,
        "ModelNet as published (train_files.txt with *.h5, modelnet40_train.txt with CLASS/ID.txt,"
        " or CLASS/train/*.off with CLASS/test/*.off)",
    ),
    "shapenet-part": Layout(
        shapenet_part.recognizes,
        shapenet_part.shapenet_part,
        "ShapeNet Part as published (train_hdf5_file_list.txt with *.h5, or train_test_split/*.json with"
        " SYNSET/ID.txt)",
    ),
    "s3dis": Layout(
        s3dis.recognizes,
        s3dis.s3dis,
        "S3DIS as published (room_filelist.txt with *.h5, Area_N/ROOM/Annotations/*.txt, or Area_N_ROOM.npy)",
    ),
    # Must be the last: it accepts any folders of files, also a published data set.
    "folder": Layout(
        folder.recognizes,
        folder.folder,
        "your own files (train/CLASS/* with test/CLASS/*, or CLASS/*)",
    ),
}


def open_dataset(
    data: str, points: int, seed: int = 0, fold: str | None = None, held_out: Collection[str] = ()
) -> PointClouds:
    """Open the built-in "shapes" or "rooms", or the data set in a folder.

    Args:
        data: "shapes", "rooms", or a folder. Its layout is recognized. The data set may also be in a subfolder, if it
            is the only one there.
        points: each cloud has at least this many points, so that training can draw that many.
        seed: chooses among a file's points, and the test split where the folder has none. The built-in data sets are
            the same for every seed.
        fold: the fold to test on, for data that come in folds (see `fold_names`).
        held_out: the files to test on, as an earlier call returned them in `PointClouds.held_out`, for folders of your
            own files without a test split. Ignored for data with a test split of their own.

    >>> data = open_dataset("shapes", points=512)
    >>> len(data.classes), data.train.points.shape, data.test.points.shape
    (20, (4800, 1024, 3), (800, 1024, 3))
    """
    if points < 1:
        raise UserError(f"--points is {points}, expected at least 1")
    if data in ("shapes", "rooms") and fold is not None:
        raise UserError(f"{data}: has no folds; found fold {fold!r}; leave --fold out")
    if data == "rooms":
        from bipointnet.data.rooms import room_blocks

        return room_blocks(points)
    if data == "shapes":
        from bipointnet.data.shapes import shapes

        return shapes(points=max(1024, 2 * points), seed=0)
    layout, place = _find(data)
    if layout is DATASETS["s3dis"]:
        return s3dis.s3dis(place, points, seed, fold)
    if fold is not None:
        raise UserError(f"{place}: has no folds, unlike S3DIS; found fold {fold!r}; leave --fold out")
    if layout is DATASETS["folder"]:
        return folder.folder(place, points, seed, held_out)
    return layout.open(place, points, seed)


def fold_names(data: str) -> list[str]:
    """The folds that `open_dataset` accepts for this data; an empty list where there are none.

    >>> fold_names("shapes")
    []
    """
    if data in ("shapes", "rooms"):
        return []
    layout, place = _find(data)
    return [fold.name for fold in s3dis.folds(place)] if layout is DATASETS["s3dis"] else []


def _find(data: str) -> tuple[Layout, Path]:
    """The data set in a folder, or in the one subfolder that holds any."""
    path = Path(data)
    if not path.is_dir():
        found = "is a file, not a folder" if path.exists() else "there is no such folder"
        raise UserError(f"{path}: {found}; name a data folder, or 'shapes' or 'rooms' for a built-in set")
    *published, own = DATASETS.values()
    for layouts in (published, [own]):
        matches = _matches(path, layouts)
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(place.name for _, place in matches)
            raise UserError(f"{path}: holds {len(matches)} data sets ({names}); name one of them")
    raise UserError(
        f"{path}: {_content(path)}, not a recognized layout; expected one of:"
        f" {'; '.join(layout.description for layout in DATASETS.values())}"
    )


def _matches(path: Path, layouts: Sequence[Layout]) -> list[tuple[Layout, Path]]:
    """The folder itself with the first layout that recognizes it, or all its subfolders that have one."""
    for places in ([path], subfolders(path)):
        matches = [next(((layout, place) for layout in layouts if layout.recognizes(place)), None) for place in places]
        if any(matches):
            return [match for match in matches if match]
    return []


def _content(path: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in path.iterdir())
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"the folder holds {', '.join(names[:5])}{more}"
