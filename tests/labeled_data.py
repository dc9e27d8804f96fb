"""Small data sets with labeled points, in the layouts of the published ones."""

from pathlib import Path

import h5py
import numpy as np

from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.rooms import make_room
from bipointnet.data.shapenet_part import CLASSES, PARTS, POINT_CLASSES

POINTS = 48


def layered(rows: int, seed: int) -> Split:
    """Balls whose parts are layers, one above the other; the categories take turns."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % len(CLASSES)
    points = rng.normal(size=(rows, POINTS, 3)).astype(np.float32)
    place = points[..., 2].argsort(axis=1).argsort(axis=1)  # (M, P), 0 for the lowest point
    counts = np.array([len(PARTS[label]) for label in labels])[:, None]
    firsts = np.array([PARTS[label][0] for label in labels])[:, None]
    return Split(points, labels.astype(np.int64), firsts + place * counts // POINTS)


def parts(train: int = 96, test: int = 32) -> PointClouds:
    return PointClouds("layers", CLASSES, layered(train, 0), layered(test, 1), POINT_CLASSES, parts=PARTS)


def write_parts(folder: Path) -> Path:
    """Write `parts` in the HDF5 layout of ShapeNet Part."""
    folder.mkdir(parents=True)
    data = parts()
    for name, split in (("train", data.train), ("val", layered(16, 2)), ("test", data.test)):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["data"], file["label"], file["pid"] = split.points, split.labels[:, None], split.point_labels
        (folder / f"{name}_hdf5_file_list.txt").write_text(f"{name}.h5\n")
    lines = [f"{name}\t{i:08d}\n" for i, name in enumerate(CLASSES)]
    (folder / "all_object_categories.txt").write_text("".join(lines))
    return folder


def write_rooms(folder: Path, areas: int = 6, points: int = 4000) -> Path:
    """Write one room per area in the .npy layout of S3DIS."""
    folder.mkdir(parents=True)
    for area in range(1, areas + 1):
        room, labels = make_room(np.random.default_rng(area), points)
        table = np.hstack([room[:, :3], np.round(room[:, 3:] * 255), labels[:, None]])
        np.save(folder / f"Area_{area}_office_1.npy", table)
    return folder
