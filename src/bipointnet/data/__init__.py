"""Data sets by name or folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bipointnet.data import folder, modelnet, s3dis, shapenet_part
from bipointnet.data.dataset import PointClouds
from bipointnet.errors import UserError


class Layout(NamedTuple):
    """A kind of data set: how to tell that a folder holds it, how to open it, and how it looks."""

    recognizes: Callable[[Path], bool]
    open: Callable[[Path, int, int], PointClouds]
    looks: str


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
    # The last: it takes any folders of files, those of a published data set too.
    "folder": Layout(
        folder.recognizes,
        folder.folder,
        "your own files (train/CLASS/* with test/CLASS/*, or CLASS/*)",
    ),
}


def open_dataset(data: str, points: int, seed: int = 0, fold: str | None = None) -> PointClouds:
    """The built-in "shapes" or "rooms", or the data set in a folder (or in the one folder of it that holds any).

    Each cloud has at least `points` points, so that training can draw that many. `seed` chooses among a file's points
    and draws the test split where the folder has none; what is built in is the same for every seed. `fold` is what to
    test on, in data that come in folds.
    """
    if points < 1:
        raise UserError(f"--points is {points} where at least 1 is expected")
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
        raise UserError(f"{place}: has no folds, as S3DIS has; found fold {fold!r}; leave --fold out")
    return layout.open(place, points, seed)


def fold_names(data: str) -> list[str]:
    """What `open_dataset` takes as fold: none of data that come in no folds."""
    if data in ("shapes", "rooms"):
        return []
    layout, place = _find(data)
    return [fold.name for fold in s3dis.folds(place)] if layout is DATASETS["s3dis"] else []


def _find(data: str) -> tuple[Layout, Path]:
    """The data set in a folder, or in the one folder of it that holds any."""
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
        f"{path}: {_found(path)}, which is no layout that is known; expected is"
        f" {', or '.join(layout.looks for layout in DATASETS.values())}"
    )


def _matches(path: Path, layouts: Sequence[Layout]) -> list[tuple[Layout, Path]]:
    """The folder itself with the first of the layouts it has, or all folders in it that have one."""
    for places in ([path], folder.subfolders(path)):
        matches = [next(((layout, place) for layout in layouts if layout.recognizes(place)), None) for place in places]
        if any(matches):
            return [match for match in matches if match]
    return []


def _found(path: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in path.iterdir())
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"the folder holds {', '.join(names[:5])}{more}"
