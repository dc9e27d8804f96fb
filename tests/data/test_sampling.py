"""Laws of sampling: uniform by area on meshes, without repetition from clouds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bipointnet.data.clouds import Cloud, sample
from bipointnet.data.solids import Surface
from bipointnet.errors import UserError

POINTS = np.random.default_rng(3).normal(size=(50, 3)).astype(np.float32)
SQUARE = Cloud(
    np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 5]], np.float32),
    faces=np.array([[0, 1, 2], [0, 2, 3]], np.int64),
)


def test_surface_is_covered_by_area() -> None:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 9], [3, 0, 9], [0, 1, 9]], np.float32)
    mesh = Cloud(corners, faces=np.array([[0, 1, 2], [0, 0, 1], [3, 4, 5]], np.int64))
    count = 40_000
    found = sample(mesh, count, np.random.default_rng(0), "mesh")
    assert found.shape == (count, 3)
    assert found.dtype == np.float32
    large = found[:, 2] == 9  # area 3/2 against 1/2, and no point on the face without area
    assert abs(large.mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 / count)
    for chosen, width in ((large, 3), (~large, 1)):
        x, y = found[chosen, 0] / width, found[chosen, 1]
        assert set(np.unique(found[chosen, 2])) <= {0, 9}
        assert (x >= 0).all()
        assert (y >= 0).all()
        assert (x + y <= 1 + 1e-6).all()
        # Uniform in a triangle: (1 - distance to the side)^2 is uniform in [0, 1], for each of the three sides.
        for height in (x, y, 1 - x - y):
            shares = np.histogram((1 - height) ** 2, bins=10, range=(0, 1 + 1e-6))[0] / chosen.sum()
            assert np.abs(shares - 0.1).max() < 5 * np.sqrt(0.09 / chosen.sum())


@given(hnp.arrays(np.float32, (3, 3), elements=st.floats(-10, 10, width=32)), st.integers(0, 2**32))
def test_surface_points_are_in_the_triangle(corners: np.ndarray, seed: int) -> None:
    if Surface(corners[None].astype(np.float64)).areas()[0] < 1e-2:
        return
    found = sample(
        Cloud(corners, faces=np.array([[0, 1, 2]], np.int64)), 20, np.random.default_rng(seed), "mesh"
    ).astype(np.float64)
    a, b, c = corners.astype(np.float64)
    weights = np.linalg.lstsq(np.stack([b - a, c - a], axis=1), (found - a).T, rcond=None)[0]  # (2, 20)
    np.testing.assert_allclose(a + weights.T @ np.stack([b - a, c - a]), found, atol=1e-4)
    assert weights.min() > -1e-2
    assert weights.sum(axis=0).max() < 1 + 1e-2


@given(st.integers(1, 60), st.data(), st.integers(0, 2**32))
def test_no_point_is_drawn_twice(size: int, data: st.DataObject, seed: int) -> None:
    count = data.draw(st.integers(1, size))
    cloud = Cloud(np.arange(3 * size, dtype=np.float32).reshape(size, 3))
    found = sample(cloud, count, np.random.default_rng(seed), "cloud")
    assert found.shape == (count, 3)
    assert len({tuple(point) for point in found.tolist()}) == count
    assert {tuple(point) for point in found.tolist()} <= {tuple(point) for point in cloud.points.tolist()}
    assert np.array_equal(found, sample(cloud, count, np.random.default_rng(seed), "cloud"))


def test_sampling_is_in_random_order_and_ignores_vertices_without_faces() -> None:
    found = sample(Cloud(POINTS), 50, np.random.default_rng(0), "cloud")
    assert not np.array_equal(found, POINTS)
    assert sample(SQUARE, 1000, np.random.default_rng(0), "square")[:, 2].max() == 0


def test_too_few_points() -> None:
    with pytest.raises(
        UserError, match=r"^scan\.ply: holds 50 points, expected at least 64; train with --points 50 or fewer"
    ):
        sample(Cloud(POINTS), 64, np.random.default_rng(0), "scan.ply")
