"""One normalization, for NumPy arrays and PyTorch tensors alike."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bipointnet.data.normalize import normalize
from bipointnet.runtime.reference import normalized

floats = st.floats(-1e6, 1e6, width=32)
clouds = st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(3, 5)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=floats)
)
centers = st.sampled_from(["mean", "box"])


@given(clouds, centers)
def test_tensors_are_normalized_as_arrays_are(x, center):
    """Up to the last digit: the libraries sum the coordinates of a mean in different orders."""
    found = normalize(torch.from_numpy(x), center).numpy()
    np.testing.assert_allclose(found, normalize(x, center), rtol=1e-6, atol=1e-6)


@given(clouds)
def test_the_middle_of_the_box_is_at_0_and_copies_do_not_move_it(x):
    y = normalize(x.astype(np.float64), "box")
    assert np.abs(y[..., :3].min(axis=-2) + y[..., :3].max(axis=-2)).max() < 1e-9
    half = np.concatenate([x, x[..., : 1 + x.shape[-2] // 2, :]], axis=-2)
    assert np.array_equal(normalize(half, "box")[..., : x.shape[-2], :], normalize(x, "box"))


@given(clouds, st.sampled_from(["sphere", "box"]))
def test_the_reference_of_the_format_normalizes_alike(x, how):
    center = {"sphere": "mean", "box": "box"}[how]
    for cloud in x:
        size = np.ptp(cloud[:, :3], axis=0).max()
        if size > 1e-4 and size * 1e4 > np.abs(cloud[:, :3]).max():  # else differences are rounded
            np.testing.assert_allclose(normalized(cloud, how), normalize(cloud, center), rtol=1e-5, atol=1e-5)


@given(clouds)
def test_the_farthest_point_is_at_distance_1_and_the_mean_at_0(x):
    y = normalize(x.astype(np.float64))
    radius = np.linalg.norm(y[..., :3], axis=-1).max(axis=-1)
    flat = (x[..., :3] == x[..., :1, :3]).all(axis=(-2, -1))
    assert radius[~flat] == pytest.approx(1, rel=1e-12)
    assert not y[flat][..., :3].any(), "identical points become zeros, not NaN"
    assert np.abs(y[..., :3].mean(axis=-2)).max() < 1e-9
    assert np.array_equal(y[..., 3:], x[..., 3:])


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_a_far_cloud_keeps_its_shape(make):
    near = np.random.default_rng(0).integers(-64, 64, (50, 3)).astype(np.float32) / 64
    far = near + np.float32(2.0**14)  # exact in float32
    assert np.array_equal(np.asarray(normalize(make(near))), np.asarray(normalize(make(far))))


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scale_of_a_cloud_does_not_matter(make, scale):
    cloud = np.random.default_rng(1).normal(size=(30, 3)).astype(np.float32)
    found = np.asarray(normalize(make(cloud * np.float32(scale))))
    np.testing.assert_allclose(found, normalize(cloud), rtol=1e-5, atol=1e-6)


@given(
    arrays(np.float64, st.tuples(st.integers(2, 20), st.just(3)), elements=st.floats(-100, 100)),
    arrays(np.float64, 3, elements=st.floats(-50, 50)),
    st.floats(0.01, 100),
)
def test_moving_and_scaling_a_cloud_changes_nothing(xyz: np.ndarray, shift: np.ndarray, scale: float) -> None:
    if np.ptp(xyz, axis=0).max() < 1e-3:  # below that, rounding after the shift changes the shape
        return
    np.testing.assert_allclose(normalize(xyz * scale + shift), normalize(xyz), atol=1e-6)


@given(arrays(np.float32, 3, elements=st.floats(-(2.0**100), 2.0**100, width=32)), st.integers(1, 40))
def test_identical_points_become_zeros(point: np.ndarray, count: int) -> None:
    assert not normalize(np.tile(point, (count, 1))).any()


def test_the_clouds_of_a_batch_are_normalized_one_by_one() -> None:
    batch = np.random.default_rng(0).normal(size=(2, 4, 30, 5)).astype(np.float32)
    before = batch.copy()
    found = normalize(batch)
    assert found.dtype == np.float32
    assert np.array_equal(batch, before)
    assert np.array_equal(found[..., 3:], batch[..., 3:])
    np.testing.assert_allclose(found[1, 2], normalize(batch[1, 2]), atol=1e-6)


def test_whole_numbers_become_floats() -> None:
    assert np.isclose(np.linalg.norm(normalize(np.array([[0, 0, 0], [200, 0, 0]], np.uint8)), axis=1).max(), 1)
