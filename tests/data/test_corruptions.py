"""The corruptions of ModelNet-C: how many points are dropped and added, where they are, and what stays the same."""

import numpy as np
import pytest

from bipointnet.data.corruptions import CORRUPTIONS, SEVERITIES, cloud_rng, corrupt
from bipointnet.data.normalize import normalize
from bipointnet.errors import UserError

NAMES = ["jitter", "drop-global", "drop-local", "add-global", "add-local", "scale", "rotate"]
# The number of points that a cloud of 1024 points has at each severity.
COUNTS = {
    "jitter": [1024] * 5,
    "drop-global": [768, 640, 512, 384, 256],
    "drop-local": [924, 824, 724, 624, 524],
    "add-global": [1034, 1044, 1054, 1064, 1074],
    "add-local": [1124, 1224, 1324, 1424, 1524],
    "scale": [1024] * 5,
    "rotate": [1024] * 5,
}
CASES = [(name, severity) for name in NAMES for severity in SEVERITIES]


def clouds(count: int, channels: int = 3) -> np.ndarray:
    """Clouds of 1024 points on the surface of a box, with a random number per point in each further channel."""
    rng = np.random.default_rng(5)
    points = rng.uniform(-1, 1, (count, 1024, channels)).astype(np.float32)
    side = rng.integers(0, 3, (count, 1024, 1))
    np.put_along_axis(points, side, np.sign(np.take_along_axis(points, side, axis=2)), axis=2)
    return normalize(points)


def corrupted(cloud: np.ndarray, name: str, severity: int, index: int = 0, seed: int = 0) -> np.ndarray:
    return corrupt(cloud, name, severity, cloud_rng(name, severity, seed, index))


def rows(cloud: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in cloud}


def fitted_matrix(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The (3, 3) matrix that moves the centered points `before` to the centered points `after`."""
    before, after = (xyz.astype(np.float64) - xyz.mean(axis=0, dtype=np.float64) for xyz in (before, after))
    matrix, residuals, *_ = np.linalg.lstsq(before, after, rcond=None)
    assert residuals.max() < 1e-8, "the points are not moved by a matrix"
    return matrix


def test_the_table_has_the_seven_corruptions():
    assert list(CORRUPTIONS) == NAMES


@pytest.mark.parametrize(("name", "severity"), CASES)
def test_the_number_of_points_is_as_defined(name, severity):
    for index, cloud in enumerate(clouds(5)):
        changed = corrupted(cloud, name, severity, index)
        assert changed.shape == (COUNTS[name][severity - 1], 3)
        assert changed.dtype == np.float32
        assert np.isfinite(changed).all()


@pytest.mark.parametrize(("name", "severity"), CASES)
def test_the_input_is_not_changed(name, severity):
    (cloud,) = clouds(1, channels=4)
    copy = cloud.copy()
    corrupted(cloud, name, severity)
    np.testing.assert_array_equal(cloud, copy)


@pytest.mark.parametrize("name", NAMES)
def test_a_cloud_does_not_depend_on_order_and_number_of_the_others(name):
    batch = clouds(6)
    in_order = [corrupted(cloud, name, 3, index) for index, cloud in enumerate(batch)]
    for index in (4, 1, 5):
        np.testing.assert_array_equal(corrupted(batch[index], name, 3, index), in_order[index])


def test_corruption_severity_seed_and_index_all_choose_the_random_numbers():
    keys = [("jitter", 1, 0, 0), ("rotate", 1, 0, 0), ("jitter", 2, 0, 0), ("jitter", 1, 1, 0), ("jitter", 1, 0, 1)]
    drawn = [cloud_rng(*key).random() for key in keys]
    assert len(set(drawn)) == len(keys)
    assert drawn == [cloud_rng(*key).random() for key in keys]


@pytest.mark.parametrize("name", NAMES)
def test_other_channels_stay_with_their_points(name):
    (cloud,) = clouds(1, channels=5)
    changed = corrupted(cloud, name, 4)
    if name.startswith("drop"):
        assert rows(changed) <= rows(cloud)
        return
    np.testing.assert_array_equal(changed[:1024, 3:], cloud[:, 3:])
    assert rows(changed[1024:, 3:]) <= rows(cloud[:, 3:]), "added points have the channels of a point of the cloud"


@pytest.mark.parametrize("severity", SEVERITIES)
def test_jitter_has_the_standard_deviation_of_its_severity(severity):
    batch = clouds(20)
    noise = np.stack([corrupted(cloud, "jitter", severity, i) - cloud for i, cloud in enumerate(batch)])
    np.testing.assert_allclose(noise.std(axis=(0, 1)), 0.01 * severity, rtol=0.02)
    np.testing.assert_allclose(noise.mean(axis=(0, 1)), 0, atol=4 * 0.01 * severity / np.sqrt(20 * 1024))


@pytest.mark.parametrize(("name", "severity"), [case for case in CASES if case[0].startswith("drop")])
def test_dropped_points_are_removed_and_the_others_stay_in_order(name, severity):
    (cloud,) = clouds(1)
    place = {row.tobytes(): i for i, row in enumerate(cloud)}
    places = [place[row.tobytes()] for row in corrupted(cloud, name, severity)]
    assert places == sorted(set(places))


def test_local_drops_leave_holes_and_global_drops_do_not():
    """Of the points next to a dropped point, most are dropped too if it was in a cluster."""
    shares = {}
    for name, severity in (("drop-local", 5), ("drop-global", 3)):  # 500 and 512 points
        found = []
        for index, cloud in enumerate(clouds(8)):
            left = rows(corrupted(cloud, name, severity, index))
            dropped = np.array([row.tobytes() not in left for row in cloud])
            distances = np.linalg.norm(cloud[:, None] - cloud[None], axis=2)
            found.append(dropped[np.argsort(distances[dropped], axis=1)[:, 1:9]].mean())
        shares[name] = np.mean(found)
    assert shares["drop-local"] > 0.8
    assert abs(shares["drop-global"] - 0.5) < 0.05


def test_a_single_local_drop_takes_the_nearest_points_of_a_dropped_point():
    """A seventh of the clouds have one cluster; then all dropped points are nearer to its center than the others."""
    balls = 0
    for index, cloud in enumerate(clouds(40)):
        left = rows(corrupted(cloud, "drop-local", 3, index))
        dropped = np.array([row.tobytes() not in left for row in cloud])
        distances = np.linalg.norm(cloud[dropped, None] - cloud[None], axis=2)  # (300, 1024)
        balls += bool((distances[:, dropped].max(axis=1) <= distances[:, ~dropped].min(axis=1)).any())
    assert 2 <= balls <= 14


@pytest.mark.parametrize(("name", "severity"), [case for case in CASES if case[0].startswith("add")])
def test_added_points_come_after_the_cloud_and_are_in_the_unit_sphere(name, severity):
    for index, cloud in enumerate(clouds(8)):
        changed = corrupted(cloud, name, severity, index)
        np.testing.assert_array_equal(changed[:1024], cloud)
        assert np.linalg.norm(changed[1024:], axis=1).max() <= 1 + 1e-6


def test_globally_added_points_are_uniform_in_the_unit_sphere():
    (cloud,) = clouds(1)
    added = np.concatenate([corrupted(cloud, "add-global", 5, index)[1024:] for index in range(200)])
    # In each of ten shells of the same volume there is a tenth of the points, and half of them on each side.
    shells = np.histogram(np.linalg.norm(added, axis=1) ** 3, bins=10, range=(0, 1))[0]
    np.testing.assert_allclose(shells / len(added), 0.1, atol=0.012)
    np.testing.assert_allclose((added > 0).mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(np.cov(added.T), np.eye(3) / 5, atol=0.01)


def test_locally_added_points_are_close_to_at_most_seven_points():
    """Around a cloud in one place there is one cluster, of a standard deviation from 0.075 to 0.125."""
    cloud = np.zeros((1024, 3), np.float32)
    spreads = [corrupted(cloud, "add-local", 5, index)[1024:].std() for index in range(50)]
    assert 0.07 < min(spreads) < 0.095
    assert 0.105 < max(spreads) < 0.13
    marked = np.concatenate([cloud, np.arange(1024, dtype=np.float32)[:, None]], axis=1)  # channel 3: the point's index
    clusters = [len(set(corrupted(marked, "add-local", 5, index)[1024:, 3])) for index in range(100)]
    assert set(clusters) == set(range(1, 8))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_scale_is_within_bounds_per_axis_and_the_cloud_is_normalized(severity):
    most = (1.6, 1.7, 1.8, 1.9, 2.0)[severity - 1]
    ratios = []
    for index, cloud in enumerate(clouds(100)):
        changed = corrupted(cloud, "scale", severity, index)
        np.testing.assert_allclose(changed.mean(axis=0), 0, atol=1e-5)
        assert np.linalg.norm(changed, axis=1).max() == pytest.approx(1, abs=1e-5)
        matrix = fitted_matrix(cloud, changed)
        factors = np.diag(matrix)
        np.testing.assert_allclose(matrix, np.diag(factors), atol=1e-5)
        assert factors.min() > 0
        ratios.append(factors.max() / factors.min())
    # Normalization multiplies all axes by one number, so only ratios are known: at most s / (1 / s).
    assert max(ratios) <= most**2 * (1 + 1e-5)
    assert max(ratios) > 0.75 * most**2, "the bounds are never approached"


@pytest.mark.parametrize("severity", SEVERITIES)
def test_rotation_preserves_distances_and_its_angles_are_bounded(severity):
    most = severity * np.pi / 30
    angles = []
    for index, cloud in enumerate(clouds(100)):
        changed = corrupted(cloud, "rotate", severity, index)
        pairs = np.linalg.norm(np.diff(cloud, axis=0), axis=1), np.linalg.norm(np.diff(changed, axis=0), axis=1)
        np.testing.assert_allclose(*pairs, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(changed, axis=1), np.linalg.norm(cloud, axis=1), atol=1e-5)
        rotation = fitted_matrix(cloud, changed)  # Rz Ry Rx, applied to rows
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-5)
        assert np.linalg.det(rotation) > 0
        about_x = np.arctan2(rotation[2, 1], rotation[2, 2])
        about_y = -np.arcsin(rotation[2, 0])
        about_z = np.arctan2(rotation[1, 0], rotation[0, 0])
        angles.append((about_x, about_y, about_z))
    assert np.abs(angles).max() <= most + 1e-5
    assert (np.max(angles, axis=0) > 0.9 * most).all()
    assert (np.min(angles, axis=0) < -0.9 * most).all()


@pytest.mark.parametrize(
    ("name", "severity", "shape", "sentence"),
    [
        ("jitters", 1, (1024, 3), f"corruption is 'jitters'; expected one of {', '.join(NAMES)}"),
        ("jitter", 0, (1024, 3), "severity is 0; expected an integer from 1 to 5"),
        ("jitter", 6, (1024, 3), "severity is 6; expected an integer from 1 to 5"),
        ("jitter", 1.5, (1024, 3), "severity is 1.5; expected an integer from 1 to 5"),
        (
            "scale",
            1,
            (1024, 2),
            "cloud: an array of shape (1024, 2); expected (points, channels), with at least one point and x, y, z",
        ),
        (
            "rotate",
            1,
            (0, 3),
            "cloud: an array of shape (0, 3); expected (points, channels), with at least one point and x, y, z",
        ),
        (
            "drop-local",
            5,
            (500, 3),
            "cloud: 500 points, all of which would be dropped; expected 1024, as in ModelNet-C",
        ),
        ("drop-global", 5, (3, 3), "cloud: 3 points, all of which would be dropped; expected 1024, as in ModelNet-C"),
    ],
)
def test_a_mistake_is_answered_in_one_sentence(name, severity, shape, sentence):
    with pytest.raises(UserError) as error:
        corrupt(np.zeros(shape, np.float32), name, severity, np.random.default_rng(0))
    assert str(error.value) == sentence


@pytest.mark.parametrize(("name", "points"), [("drop-local", 501), ("drop-global", 4), ("add-local", 1)])
def test_the_smallest_clouds_are_corrupted(name, points):
    rest = corrupted(clouds(1)[0, :points], name, 5)
    assert len(rest) == {"drop-local": 1, "drop-global": 1, "add-local": 501}[name]
