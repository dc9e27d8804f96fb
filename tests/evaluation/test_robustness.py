"""Accuracy under corruptions: the right clouds are counted, and runs and packed models agree."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from conftest import blobs
from packed_networks import save_run

from bipointnet.config import Config
from bipointnet.data.corruptions import CORRUPTIONS, SEVERITIES, cloud_rng, corrupt
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError
from bipointnet.evaluation import evaluate
from bipointnet.evaluation.predictor import open_model
from bipointnet.evaluation.robustness import Robustness, evaluate_robustness, robustness
from bipointnet.packing import pack

TESTS = 1 + len(CORRUPTIONS) * len(SEVERITIES)  # per cloud


@pytest.fixture(scope="module")
def data() -> PointClouds:
    return PointClouds("blobs", ("ball", "stick", "plate"), blobs(0, 60, 64), blobs(1, 12, 1100))


def by_shape(clouds: np.ndarray) -> np.ndarray:
    """Balls, sticks and plates by the lengths of their main axes."""
    longest, middle, shortest = np.linalg.svd(clouds - clouds.mean(axis=1, keepdims=True), full_matrices=False)[1].T
    return np.where(middle < 0.5 * longest, 1, np.where(shortest < 0.5 * middle, 2, 0))


def test_accuracies_are_those_of_the_corrupted_clouds(data):
    points, labels = data.test.points[:, :1024], data.test.labels
    seen: list[np.ndarray] = []

    def predict(batch: np.ndarray) -> np.ndarray:
        seen.extend(batch)
        return by_shape(batch)

    found = robustness(predict, points, labels, seed=3)
    assert found.clean == 100, "the rule is wrong"
    assert (found.clouds, found.points) == (12, 1024)
    assert len(seen) == 12 * TESTS
    np.testing.assert_array_equal(seen[:12], points)
    after = iter(seen[12:])
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            expected = [
                corrupt(cloud, name, severity, cloud_rng(name, severity, 3, i))
                for i, cloud in enumerate(normalize(points))
            ]
            for cloud in expected:
                np.testing.assert_array_equal(next(after), cloud)
            right = by_shape(np.stack(expected)) == labels
            assert found.corrupted[name][severity - 1] == pytest.approx(100 * right.mean())
    assert found.corrupted["jitter"] == found.corrupted["drop-global"] == (100,) * 5
    assert found.mean_of("scale") < 100


def test_a_subset_of_clouds_gets_the_same_corruptions(data):
    """Right or wrong is decided cloud by cloud, so the accuracies of parts add up to that of the whole."""
    points, labels = data.test.points[:, :1024], data.test.labels
    whole, first = (robustness(by_shape, points[:n], labels[:n]) for n in (12, 5))
    last = [
        by_shape(corrupt(normalize(points[i]), "scale", 5, cloud_rng("scale", 5, 0, i))[None])[0] == labels[i]
        for i in range(5, 12)
    ]
    assert 12 * whole.corrupted["scale"][4] == pytest.approx(5 * first.corrupted["scale"][4] + 100 * sum(last))


def test_means_are_over_severities_and_over_all():
    rows = {name: tuple(10.0 * i + severity for severity in SEVERITIES) for i, name in enumerate(CORRUPTIONS)}
    found = Robustness(4, 1024, 95.0, rows)
    assert found.mean_of("jitter") == 3
    assert found.by_severity == (31, 32, 33, 34, 35)
    assert found.mean == 33, "clean clouds do not count"
    shown = found.as_json()
    assert (shown["clean"], shown["mean"], list(shown["corruptions"])) == (95.0, 33, list(CORRUPTIONS))
    assert shown["corruptions"]["drop-global"] == {"severities": [11, 12, 13, 14, 15], "mean": 13}


def test_the_seed_changes_the_corruptions_and_nothing_else(data):
    points, labels = data.test.points[:4, :1024], data.test.labels[:4]

    def all_batches(seed: int) -> list[np.ndarray]:
        seen: list[np.ndarray] = []
        robustness(lambda batch: seen.append(batch) or labels, points, labels, seed)
        return seen

    first, again, other = all_batches(0), all_batches(0), all_batches(1)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert np.array_equal(first[0], other[0])
    assert not any(np.array_equal(a, b) for a, b in zip(first[1:], other[1:], strict=True))


def test_progress_counts_all_clouds(data):
    calls: list[tuple[int, int]] = []
    few = np.zeros(12, np.int64)
    robustness(lambda batch: few, data.test.points[:, :600], few, progress=lambda *call: calls.append(call))
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert calls[-1] == (12 * TESTS, 12 * TESTS)


@pytest.mark.parametrize(("shape", "labels"), [((4, 1024, 3), 3), ((1024, 3), 1024), ((0, 1024, 3), 0)])
def test_arrays_that_are_no_test_set_are_refused(shape, labels):
    with pytest.raises(UserError, match=r"^clouds: an array of shape .* expected \(clouds, points, channels\)"):
        robustness(by_shape, np.zeros(shape, np.float32), np.zeros(labels, np.int64))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained network that does not give all clouds the same class."""
    return save_run(tmp_path_factory.mktemp("run"), Config(points=64, model="pointnet-vanilla"), seed=5)


def test_a_packed_model_is_as_robust_as_its_run(run, data, tmp_path):
    pack.export_run(run, tmp_path / "m.bpn", "f32")
    of_run, of_packed = (evaluate_robustness(open_model(path), data) for path in (run, tmp_path / "m.bpn"))
    assert of_run == of_packed
    assert of_run.points == 1024
    assert len({accuracy for row in of_run.corrupted.values() for accuracy in row}) > 1, "nothing changes an answer"


def test_clean_accuracy_is_that_of_eval_for_clouds_of_1024_points(run, data, tmp_path):
    """`eval` tests the first points of each cloud, as many as in training."""
    pack.export_run(run, tmp_path / "m.bpn", "f32")
    predictor = dataclasses.replace(open_model(tmp_path / "m.bpn"), points=1024)
    assert evaluate_robustness(predictor, data).clean == evaluate.evaluate_classifier(predictor, data).overall


def test_copied_points_do_not_change_an_answer(run, data):
    """Clouds of one batch may have different numbers of copies; a prediction uses each point once."""
    predictor = open_model(run)
    points = data.test.points[:, :1024].copy()
    copied = points.copy()
    for i, cloud in enumerate(copied):
        cloud[1024 - 20 * i :] = cloud[0]
    shortened = [points[i : i + 1, : max(1, 1024 - 20 * i)] for i in range(len(points))]
    right = [
        predictor.logits(cloud)[0].argmax() == label for cloud, label in zip(shortened, data.test.labels, strict=True)
    ]
    split = Split(copied, data.test.labels)
    found = evaluate_robustness(predictor, PointClouds("copied", data.classes, data.train, split))
    assert found.clean == pytest.approx(100 * np.mean(right))


def test_a_network_that_labels_points_is_refused(data):
    predictor = open_model(Path(__file__).parents[1] / "golden" / "shapes-parts.bpn")
    with pytest.raises(UserError, match="labels points"):
        evaluate_robustness(predictor, data)
