"""render.py: near points hide far ones, and the angles place the viewer."""

import numpy as np
import pytest

from bipointnet.viz.render import render

RED, BLUE = (200, 30, 30), (30, 30, 200)


def image_of(points: list[tuple[float, float, float]], colors: list[tuple[int, int, int]], *view: float) -> np.ndarray:
    image = render(np.array(points, float), np.array(colors, np.uint8), *view, width=120, height=100)
    assert image.shape == (100, 120, 3)
    return image


def center_of(image: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    """The mean position of the pixels of a color, in pixels right and up from the center of the image."""
    rows, columns = np.nonzero((image == color).all(axis=-1))
    return np.array([columns.mean() - 59.5, 49.5 - rows.mean()])


@pytest.mark.parametrize(
    ("point", "view", "sign"),
    [
        ((1, 0, 0), (-90, 0), (1, 0)),  # seen from -y, x is to the right
        ((1, 0, 0), (90, 0), (-1, 0)),
        ((0, 1, 0), (0, 30), (1, 0)),
        ((0, 0, 1), (37, 10), (0, 1)),  # z is up from every azimuth
        ((0, 1, 0), (-90, 90), (0, 1)),  # a floor plan has y up
    ],
)
def test_points_appear_where_the_viewer_sees_them(point: tuple, view: tuple, sign: tuple) -> None:
    opposite = tuple(-x for x in point)
    image = image_of([point, opposite], [RED, BLUE], *view)
    for color, side in ((RED, 1), (BLUE, -1)):
        right, up = side * center_of(image, color)
        assert (abs(right) > 20, abs(up) > 20) == (sign[0] != 0, sign[1] != 0)
        assert (np.sign(right) if sign[0] else np.sign(up)) == sum(sign)


@pytest.mark.parametrize("order", [1, -1])
def test_near_points_hide_far_ones(order: int) -> None:
    points, colors = [(1.0, 0.0, 0.0), (-1.0, 0.0, 0.0)][::order], [RED, BLUE][::order]
    for azimuth, nearer, farther in ((0, RED, BLUE), (180, BLUE, RED)):
        image = image_of(points, colors, azimuth, 0)
        assert tuple(image[50, 60]) == nearer
        assert not (image == farther).all(axis=-1).any()


def test_a_dense_plane_is_closed_and_flat_and_its_edge_darkens_the_background() -> None:
    y, z = (side.ravel() for side in np.meshgrid(np.linspace(-1, 1, 200), np.linspace(-1, 1, 200)))
    wall = np.column_stack([np.zeros(len(y)), y, z])
    block = wall[np.abs(wall).max(axis=1) < 0.3] + (0.5, 0, 0)
    colors = np.repeat(np.array([RED, BLUE], np.uint8), (len(wall), len(block)), axis=0)
    image = render(np.concatenate([wall, block]), colors, 0, 0, 200, 200)
    assert (image[25:175, 25:175] != 255).all(), "no hole shows the white background"
    assert (image[80:120, 80:120] == BLUE).all()
    assert (image[30:60, 30:170] == RED).all()
    rim = image[100, 65:74]  # up to the block's edge
    assert (rim[0] == RED).all()
    assert (rim[-1] < 0.9 * np.array(RED)).all()


def test_every_cloud_fits_the_image() -> None:
    rng = np.random.default_rng(0)
    clouds = (
        np.zeros((1, 3)),
        np.full((5, 3), 7e6),
        rng.normal(size=(50, 3)) * (1, 0, 0),
        rng.normal(size=(50, 3)) * 1e-12,
        rng.normal(size=(50, 3)) + np.array([512_345.0, 5_412_345.0, 80.0]),
    )
    for cloud in clouds:
        image = render(cloud, np.zeros((len(cloud), 3), np.uint8), 30, 20, 90, 90)
        assert (image == 0).any()
        for side in (image[0], image[-1], image[:, 0], image[:, -1]):
            assert (side == 255).all()
