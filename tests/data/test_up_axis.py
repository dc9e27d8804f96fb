"""The up axis: clouds are rotated, never mirrored, and the way back is exact."""

import itertools

import numpy as np
import pytest

from bipointnet.data.up_axis import AXES, rotate_up


@pytest.mark.parametrize(("up", "to"), list(itertools.product(AXES, AXES)))
def test_the_up_axis_becomes_the_other_one_by_a_rotation(up, to):
    unit = dict(zip(AXES, np.eye(3), strict=True))
    matrix = rotate_up(np.eye(3), up, to)  # row i: where the unit vector i goes
    assert np.array_equal(rotate_up(unit[up], up, to), unit[to])
    assert np.linalg.det(matrix) == pytest.approx(1)
    cloud = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    assert np.array_equal(rotate_up(rotate_up(cloud, up, to), to, up), cloud)
    assert rotate_up(cloud, up, to).dtype == np.float32
    if up == to:
        assert np.array_equal(matrix, np.eye(3))


@pytest.mark.parametrize(("up", "to"), [each for each in itertools.product(AXES, AXES) if each[0] != each[1]])
def test_the_third_axis_stays(up, to):
    third = ({*AXES} - {up, to}).pop()
    unit = dict(zip(AXES, np.eye(3), strict=True))
    assert np.array_equal(rotate_up(unit[third], up, to), unit[third])
