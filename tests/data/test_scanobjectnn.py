"""ScanObjectNN as published: its variants, and the errors for broken files."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from dataset_errors import error_of

from bipointnet.data import open_dataset
from bipointnet.data.scanobjectnn import CLASSES

HARD = "objectdataset_augmentedrot_scale75"


def write_variant(folder: Path, variant: str, clouds: int = 30, **instead: np.ndarray) -> np.ndarray:
    """Both files of a variant; returns the labels."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(clouds)
    labels = rng.permutation(np.arange(clouds) % 15).astype(np.int32)
    for split in ("training", "test"):
        arrays = {
            "data": rng.normal(size=(clouds, 64, 3)).astype(np.float32),
            "label": labels,
            "mask": rng.integers(-1, 2, (clouds, 64)),
        } | instead
        with h5py.File(folder / f"{split}_{variant}.h5", "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
    return labels


@pytest.fixture
def main_split(tmp_path: Path) -> Path:
    folder = tmp_path / "h5_files" / "main_split"
    write_variant(folder, "objectdataset")
    return folder


@pytest.mark.parametrize("given", [".", "..", "training_objectdataset.h5", "test_objectdataset.h5"])
def test_one_variant(main_split: Path, given: str) -> None:
    data = open_dataset(str(main_split / given), 16)
    assert (data.name, data.classes, data.up) == ("scanobjectnn", CLASSES, "y")
    assert len(CLASSES) == 15
    with h5py.File(main_split / "test_objectdataset.h5") as file:
        np.testing.assert_array_equal(data.test.points, np.asarray(file["data"]))
        np.testing.assert_array_equal(data.test.labels, np.asarray(file["label"]))


def test_several_variants_need_a_choice(main_split: Path) -> None:
    write_variant(main_split, HARD, clouds=45)
    assert error_of(main_split) == (
        f"{main_split}: holds 2 variants of ScanObjectNN (objectdataset, {HARD}); name the file of one, like"
        f" {main_split / 'training_objectdataset.h5'}"
    )
    assert len(open_dataset(str(main_split / f"training_{HARD}.h5"), 16).train) == 45
    assert len(open_dataset(str(main_split / "training_objectdataset.h5"), 16).train) == 30


def test_several_folders_need_a_choice(main_split: Path) -> None:
    write_variant(main_split.parent / "main_split_nobg", "objectdataset")
    assert error_of(main_split.parent) == (
        f"{main_split.parent}: holds 2 data sets (main_split, main_split_nobg); name one of them"
    )


def test_mistakes(main_split: Path) -> None:
    write_variant(main_split, "objectdataset", label=np.full(30, 15))
    assert "cloud 0 has the label 15, expected 0 to 14 for the 15 classes of ScanObjectNN" in error_of(main_split)
    write_variant(main_split, "objectdataset", label=np.zeros(30, int))
    assert "class 'bin' has no cloud in the train and the test split" in error_of(main_split)
    (main_split / "test_objectdataset.h5").unlink()
    write_variant(main_split, "objectdataset")
    (main_split / "test_objectdataset.h5").unlink()
    message = error_of(main_split)
    assert message.startswith(f"{main_split / 'test_objectdataset.h5'}: there is no such file beside the other split")
