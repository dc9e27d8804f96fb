"""Warnings for clouds unlike the training data: what gives one, what gives none, and how often there is a false one."""

import numpy as np
import pytest

from bipointnet.data import open_dataset
from bipointnet.evaluation.unlike import warnings

FACTS = {"points": 128, "extent": [0.5, 2.0], "cloud_points": [100, 9000], "confidence": 0.4}


@pytest.mark.parametrize(
    ("extent", "points", "probability", "words"),
    [
        (1.0, 128, 0.9, []),
        (0.5 / 3, 33, 0.4, []),
        (6.0, 10**6, 1.0, []),
        (6.01, 128, 0.9, ["largest side is 6.01, in training 0.5 to 2: wrong units?"]),
        (1500.0, 128, 0.9, ["wrong units?"]),
        (0.16, 128, 0.9, ["wrong units?"]),
        (0.0, 128, 0.9, ["all points are in one place"]),
        (1.0, 32, 0.9, ["number of points 32, in training 128"]),
        (1.0, 128, 0.39, ["probability 39.0 %, 95 % of the test clouds had 40.0 % or more"]),
        (9.0, 1, 0.1, ["wrong units?", "number of points 1, in training 128", "probability 10.0 %"]),
    ],
)
def test_each_finding_is_one_clause(extent, points, probability, words):
    found = warnings(FACTS, extent, points, probability)
    assert len(found) == len(words)
    for clause, word in zip(found, words, strict=True):
        assert word in clause


@pytest.mark.parametrize(
    "facts",
    [
        {},
        dict.fromkeys(FACTS),
        {"extent": "large", "points": "many", "confidence": True},
        {"extent": [1.0], "points": [128], "confidence": {}},
        {"extent": [None, 2.0]},
    ],
)
def test_facts_that_are_absent_or_odd_give_no_warning(facts):
    """A packed file may hold any JSON there."""
    assert warnings(facts, 1e9, 1, 0.0) == []


def test_no_built_in_shape_has_a_wrong_extent():
    data = open_dataset("shapes", 128)
    sides = {name: np.ptp(split.points, axis=1).max(axis=1) for name, split in (("a", data.train), ("b", data.test))}
    facts = {"extent": np.percentile(sides["a"], [1, 99]).tolist(), "points": 128}
    assert not any(warnings(facts, float(side), 1024, 1.0) for side in np.concatenate([*sides.values()]))
    for factor in (0.001, 0.0254, 39.37, 1000):  # millimeters, inches
        assert all(warnings(facts, float(side) * factor, 1024, 1.0) for side in sides["b"])
