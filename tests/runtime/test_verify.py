"""verify without PyTorch: it compares bits, finds differences, and reports them in words."""

from pathlib import Path

import numpy as np
import pytest
from packed_networks import save_run

from bipointnet import _core
from bipointnet.config import Config
from bipointnet.packing import pack
from bipointnet.runtime import reference, verify
from bipointnet.runtime.model import load

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verify")
    pack.export_run(save_run(root / "run", Config(points=100)), root / "plain.bpn")
    return root / "plain.bpn"


@pytest.fixture(autouse=True)
def few_sizes(monkeypatch):
    monkeypatch.setattr(verify, "SIZES", (1, 2, 65))


def test_a_sound_model_passes(packed):
    seen = []
    clouds = np.random.default_rng(0).normal(size=(3, 70, 3)).astype(np.float32)
    report = verify.verify(packed, data=clouds, progress=lambda done, total: seen.append((done, total)))
    assert report["ok"], report
    assert seen == [(i + 1, 6) for i in range(6)]
    assert report["clouds"] == report["reference"]["clouds"] == 6
    assert report["torch"] is None
    assert set(report["isas"]) | {"portable"} == set(report["golden_vector"]["isas"]) == set(_core.isas())
    tallies = [report["reference"], *report["isas"].values()]
    per_point = 3 + 64 + 64 + 128  # points, dense, sign, bilinear
    assert all(t["values_compared"] > (1 + 2 + 65 + 3 * 70) * per_point for t in tallies)
    assert all(t["values_different"] == 0 for t in tallies)
    assert verify.failures(report) == []
    rows = dict(verify.summary(report))
    compared = report["reference"]["values_compared"]
    assert rows["numpy reference"] == f"{compared:,} values compared with the portable core, none differs"


def test_a_difference_is_found_counted_and_named(packed, monkeypatch):
    """A reference that negates the first dense layer."""
    run_program = reference.run_program

    first = next(op["out"][0] for op in reference.read(packed).manifest["program"] if op["op"] == "dense")

    def wrong(*arguments, **options):
        logits, values = run_program(*arguments, **options)
        return logits, values | {first: -values[first]}

    monkeypatch.setattr(reference, "run_program", wrong)
    report = verify.verify(packed)
    assert not report["ok"]
    assert report["reference"]["values_different"] == 64 * (1 + 2 + 65)
    assert f"random cloud of 1, {first} (dense): 64 of 64 values differ" in verify.failures(report)
    assert dict(verify.summary(report))["numpy reference"].endswith("portable core, 4,352 differ")


def test_a_model_with_neighbors_passes():
    report = verify.verify(GOLDEN / "neighbors.bpn")
    assert report["ok"], report
    assert report["clouds"] == 3
    assert report["reference"]["values_compared"] > 65 * 6 * 72


def test_a_cloud_whose_values_take_too_much_memory_is_left_out(monkeypatch):
    model = load(GOLDEN / "neighbors.bpn")
    numbers = sum(o.elements * o.outputs for o in model.operations(65))
    monkeypatch.setattr(verify, "MOST_NUMBERS", numbers)
    assert [len(case.cloud) for case in verify.cases(model, None)] == [1, 2, 65]
    monkeypatch.setattr(verify, "MOST_NUMBERS", numbers - 1)
    assert [len(case.cloud) for case in verify.cases(model, None)] == [1, 2]


def test_a_tally_compares_bits_not_values():
    tally = verify.Tally()
    tally.compare("a", np.array([0.0, 1.0], np.float32), np.array([-0.0, 1.0], np.float32))
    tally.compare("b", np.array([1, 0], np.uint8), np.array([1, 0], np.uint8))
    tally.compare("c", np.zeros(3, np.uint8), np.zeros((1, 3), np.uint8))
    assert (tally.compared, tally.different) == (7, 4)
    nan = np.array([np.nan, -np.nan], np.float32)
    tally.compare("all NaN are equal", nan, nan[::-1].copy())
    tally.compare("indices", np.array([3, 5]), np.array([3, 5]))
    assert tally.different == 4
    assert [place[0] for place in tally.first] == ["a", "c"]


FACTS = {
    "bits_compared": 9000,
    "bits_different": 0,
    "bits_within_rounding": 0,
    "bits_that_follow": 0,
    "bits_unexplained": 0,
    "labels_compared": 30,
    "labels_different": 0,
    "labels_unexplained": 0,
    "first_unexplained": [],
}


@pytest.mark.parametrize(
    ("facts", "bits", "labels"),
    [
        ({}, "9,000 bits compared, none differs", "30 labels compared, none differs"),
        (
            {"bits_different": 33, "bits_within_rounding": 2, "bits_that_follow": 31, "labels_different": 1},
            "33 differ, as expected: 2 float sums are within float32 rounding of the threshold; the other 31 follow "
            "from these",
            "1 differs, as expected: they follow from such bits",
        ),
        (
            {"bits_different": 1, "bits_within_rounding": 1},
            "1 differs, as expected: 1 float sum is within float32 rounding of the threshold",
            "none differs",
        ),
        (
            {"bits_different": 7, "bits_unexplained": 3, "labels_different": 2, "labels_unexplained": 1},
            "7 differ, 3 of them without explanation",
            "2 differ, 1 of them without explanation",
        ),
    ],
)
def test_the_summary_says_why_bits_may_differ(packed, facts, bits, labels):
    report = verify.verify(packed) | {"torch": FACTS | facts}
    (_, shown_bits), (_, shown_labels) = verify.summary(report)[-2:]
    assert bits in shown_bits
    assert labels in shown_labels
