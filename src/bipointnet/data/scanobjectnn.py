"""ScanObjectNN (Uy et al. 2019, arXiv 1908.04616): 2902 scanned objects of 15 classes, as HDF5 of 2048 points.

h5_files/main_split/       training_objectdataset*.h5, test_objectdataset*.h5 (`data`, `label`, `mask`), with background
h5_files/main_split_nobg/  the same without background

| variant | files | train | test |
|---|---|---|---|
| OBJ_BG, OBJ_ONLY | *_objectdataset.h5 | 2309 | 581 |
| PB_T50_RS | *_objectdataset_augmentedrot_scale75.h5 | 11416 | 2882 |

A folder holds several variants. Name the file training_*.h5 of one of them.
"""

from pathlib import Path

from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.listing import require_both_splits
from bipointnet.data.published import checked_clouds, cloud_labels, hdf5_arrays
from bipointnet.errors import UserError

CLASSES = ("bag", "bin", "box", "cabinet", "chair", "desk", "display", "door", "shelf", "table")
CLASSES += ("bed", "pillow", "sink", "sofa", "toilet")
_BEGINNINGS = ("training_objectdataset", "test_objectdataset")


def recognizes(place: Path) -> bool:
    """Whether `place` is one of the files, or a folder that holds them."""
    if place.is_file():
        return place.suffix == ".h5" and place.name.startswith(_BEGINNINGS)
    return bool(variants(place))


def variants(folder: Path) -> list[str]:
    """The names of the variants in a folder: what follows training_ or test_."""
    files = [file for beginning in _BEGINNINGS for file in folder.glob(f"{beginning}*.h5")]
    return sorted({file.stem.partition("_")[2] for file in files})


def scanobjectnn(place: Path, points: int, seed: int = 0) -> PointClouds:
    """The variant that `place` names or is the only one in it; the points keep the order of the file."""
    folder = place.parent if place.is_file() else place
    found = [place.stem.partition("_")[2]] if place.is_file() else variants(folder)
    if len(found) > 1:
        raise UserError(
            f"{folder}: holds {len(found)} variants of ScanObjectNN ({', '.join(found)}); name the file of one, like"
            f" {folder / f'training_{found[0]}.h5'}"
        )
    train, test = (_read(folder / f"{split}_{found[0]}.h5", points) for split in ("training", "test"))
    require_both_splits(CLASSES, train.labels, test.labels, folder)
    return PointClouds("scanobjectnn", CLASSES, train, test, up="y")


def _read(file: Path, points: int) -> Split:
    if not file.is_file():
        raise UserError(f"{file}: there is no such file beside the other split; unpack the data again")
    data, label = hdf5_arrays(file, ("data", "label"))
    data = checked_clouds(file, data, 3, points)
    return Split(data, cloud_labels(file, label, len(data), len(CLASSES), "ScanObjectNN"))
