"""palette.py: classes keep their colors, and the colors are distinguishable."""

import numpy as np
import pytest

from bipointnet.viz.palette import colors, perceived


def least_distances(count: int) -> list[float]:
    """The least distance of two colors in OKLab: for most people, for protanopes, for deuteranopes."""
    views = perceived(colors(count))
    pairs = np.triu_indices(count, k=1)
    return [float(np.linalg.norm(view[:, None] - view, axis=-1)[pairs].min()) for view in views]


def test_oklab_of_white_black_and_red_is_as_published() -> None:
    most, protan, deutan = perceived(np.array([[255, 255, 255], [0, 0, 0], [255, 0, 0]]))
    np.testing.assert_allclose(most, [[1, 0, 0], [0, 0, 0], [0.6280, 0.2249, 0.1258]], atol=1e-4)
    for view in (protan, deutan):  # grays look the same to everyone
        np.testing.assert_allclose(view[:2], most[:2], atol=1e-3)


@pytest.mark.parametrize("count", range(2, 51))
def test_no_two_colors_look_alike(count: int) -> None:
    # Adjacent colors are distinguishable from a distance of about 0.02 in OKLab.
    most, protan, deutan = least_distances(count)
    assert most > (0.15 if count <= 8 else 0.1 if count <= 13 else 0.075)
    assert min(protan, deutan) > (0.075 if count <= 8 else 0.05 if count <= 13 else 0.035)


def test_a_class_keeps_its_color_when_others_are_added() -> None:
    many = colors(300)
    assert many.dtype == np.uint8
    for count in (0, 1, 7, 8, 9, 50, 299):
        assert np.array_equal(colors(count), many[:count])
    assert len(np.unique(many[:256], axis=0)) == 256
    assert np.array_equal(many[256:], many[:44])


def test_neighbors_in_a_list_differ_more_than_others() -> None:
    most = perceived(colors(50))[0]
    apart = min(np.linalg.norm(most[k] - most[k + gap]) for gap in (1, 2, 3) for k in range(50 - gap))
    assert apart > 1.5 * least_distances(50)[0]
