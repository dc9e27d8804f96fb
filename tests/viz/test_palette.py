"""colors.py: colors stay with their classes and can be told apart."""

import numpy as np
import pytest

from bipointnet.viz.palette import colors, seen


def least_distances(count: int) -> list[float]:
    """The least distance of two colors in OKLab: to most people, to protanopes, to deuteranopes."""
    views = seen(colors(count))
    pairs = np.triu_indices(count, k=1)
    return [float(np.linalg.norm(view[:, None] - view, axis=-1)[pairs].min()) for view in views]


def test_oklab_has_white_black_and_red_where_its_author_says() -> None:
    most, protan, deutan = seen(np.array([[255, 255, 255], [0, 0, 0], [255, 0, 0]]))
    np.testing.assert_allclose(most, [[1, 0, 0], [0, 0, 0], [0.6280, 0.2249, 0.1258]], atol=1e-4)
    for view in (protan, deutan):  # grays look to everybody as they are
        np.testing.assert_allclose(view[:2], most[:2], atol=1e-3)


@pytest.mark.parametrize("count", range(2, 51))
def test_no_two_colors_look_alike(count: int) -> None:
    # Two colors side by side are told apart from about 0.02 in OKLab.
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


def test_neighbours_in_a_list_differ_more_than_others() -> None:
    most = seen(colors(50))[0]
    apart = min(np.linalg.norm(most[k] - most[k + gap]) for gap in (1, 2, 3) for k in range(50 - gap))
    assert apart > 1.5 * least_distances(50)[0]
