"""Packed files of earlier versions still load and still predict the same."""

from pathlib import Path

import numpy as np
import pytest

import bipointnet
from bipointnet.data.shapes import CLASSES, make_object

FOLDER = Path(__file__).parents[1] / "golden"
# Points, and an accuracy slightly below the one when the file was made. Together the files have most operations;
# T-Nets are missing.
FILES = {"shapes-v1": (128, 0.88), "shapes-xnor-v1": (64, 0.6), "shapes-abc-net-v1": (64, 0.6)}


PARTS = "shapes-parts-v1"


def test_every_golden_file_is_tested():
    assert {path.stem for path in FOLDER.iterdir()} == {*FILES, PARTS}


@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_still_classifies_the_built_in_shapes(name):
    points, share = FILES[name]
    model = bipointnet.load(FOLDER / f"{name}.bpn")
    rng = np.random.default_rng(11)
    labels = np.arange(200) % len(CLASSES)
    clouds = np.stack([make_object(CLASSES[label], rng, points)[0] for label in labels])
    assert tuple(model.classes) == CLASSES
    found = (model.predict(clouds).labels == labels).mean()
    assert found > share


def test_a_golden_file_still_labels_the_parts_of_the_built_in_shapes():
    model = bipointnet.load(FOLDER / f"{PARTS}.bpn")
    rng = np.random.default_rng(11)
    assert tuple(model.categories) == CLASSES
    right = []
    for category in CLASSES:
        for _ in range(10):
            cloud, parts = make_object(category, rng, 64)
            labels = model.segment(cloud, category=category)
            assert all(model.classes[label].startswith(f"{category}/") for label in labels)
            right.append((labels == parts).mean())
    assert np.mean(right) > 0.8
