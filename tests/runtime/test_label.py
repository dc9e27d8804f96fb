"""Every point of a file of any size gets one label, in samples and in blocks; mistakes get one sentence."""

from pathlib import Path

import numpy as np
import pytest

import bipointnet
from bipointnet.data.blocks import ROOM, BlockLayout
from bipointnet.data.clouds import Cloud
from bipointnet.errors import UserError
from bipointnet.runtime.label import BATCH, Logits, Network, label_object, label_scene
from bipointnet.runtime.progress import no_progress

ROOMS = Path(__file__).parents[1] / "golden" / "rooms-semantic.bpn"
COLORLESS = BlockLayout(1.0, ("x", "y", "z", "x/size", "y/size", "z/size"), {})


def by_height(clouds: np.ndarray, classes: int = 4) -> np.ndarray:
    """Logits (B, P, classes) of a network that classifies points by their height, from 0 to 1."""
    best = np.clip((clouds[..., 2] * classes).astype(int), 0, classes - 1)
    return np.eye(classes, dtype=np.float32)[best]


def network(logits: Logits, points: int, channels: int = 3, accepted: tuple[int, ...] = (0, 1, 2, 3)) -> Network:
    layout = {3: None, 6: COLORLESS, 9: ROOM}[channels]
    return Network(logits, np.array(accepted), "part" if channels == 3 else "semantic", points, layout)


def cloud_of(points: int, wide: float = 3.0, colored: bool = False) -> Cloud:
    rng = np.random.default_rng(points)
    xyz = (rng.uniform(size=(points, 3)) * (wide, wide, 1)).astype(np.float32)
    return Cloud(xyz, rng.uniform(size=(points, 3)).astype(np.float32) if colored else None)


@pytest.mark.parametrize("points", [1, 15, 16, 17, 16 * BATCH, 16 * BATCH + 1, 1000])
def test_each_point_of_an_object_gets_the_label_of_its_own_position(points: int):
    cloud, seen, sizes = cloud_of(points), [], []

    def logits(clouds: np.ndarray) -> np.ndarray:
        sizes.append(clouds.shape)
        return by_height(clouds)

    found = label_object(network(logits, 16), cloud, "it", lambda done, of: seen.append((done, of)))
    assert np.array_equal(found, by_height(cloud.points).argmax(axis=-1))
    assert seen[-1][0] == seen[-1][1] == -(-points // 16)
    assert all(shape[0] <= BATCH and shape[1] == min(points, 16) for shape in sizes)


@pytest.mark.parametrize(("points", "wide", "colored"), [(1, 3.0, False), (50, 0.3, True), (3000, 4.2, True)])
def test_each_point_of_a_scene_gets_the_label_of_its_own_position(points: int, wide: float, colored: bool):
    cloud = cloud_of(points, wide, colored)
    low = cloud.points[:, 2].min()

    def logits(blocks: np.ndarray) -> np.ndarray:
        assert blocks.shape[2] == (9 if colored else 6)
        blocks = blocks.copy()
        blocks[..., 2] += low  # in blocks, z starts at the floor
        return by_height(blocks)

    found = label_scene(network(logits, 64, 9 if colored else 6), cloud, "it", no_progress)
    lifted = cloud.points.copy()
    lifted[:, 2] = (lifted[:, 2] - low) + low
    assert np.array_equal(found, by_height(lifted).argmax(axis=-1))


def test_votes_of_overlapping_blocks_are_added():
    """A network that is right and confident far from a block's edge, and wrong but less confident near it."""
    cloud = cloud_of(4000, 4.0)

    def logits(blocks: np.ndarray) -> np.ndarray:
        inside = np.abs(blocks[..., :2]).max(axis=-1) < 0.3
        right = by_height(blocks, 4)
        return np.where(inside[..., None], 10 * right, np.roll(right, 1, axis=-1))

    found = label_scene(network(logits, 256, 6), cloud, "it", no_progress)
    expected = by_height(cloud.points - cloud.points.min(axis=0)).argmax(axis=-1)
    middle = (np.abs(cloud.points[:, :2] - 2) < 1.2).all(axis=1)
    assert (found == expected)[middle].mean() > 0.9


@pytest.mark.parametrize(("label_points", "channels"), [(label_object, 3), (label_scene, 6)])
def test_only_accepted_classes_are_predicted(label_points, channels):
    cloud = cloud_of(500)
    unrestricted = label_points(network(by_height, 64, channels), cloud, "it", no_progress)
    assert set(unrestricted) == {0, 1, 2, 3}
    found = label_points(network(by_height, 64, channels, accepted=(1, 3)), cloud, "it", no_progress)
    assert set(found) == {1, 3}
    assert np.array_equal(found[np.isin(unrestricted, (1, 3))], unrestricted[np.isin(unrestricted, (1, 3))])


def test_missing_colors_get_one_sentence():
    with pytest.raises(UserError, match=r"room\.ply: holds no colors, which the network reads; expected red"):
        label_scene(network(by_height, 16, 9), cloud_of(10), "room.ply", no_progress)


def test_mistakes_of_callers_get_one_sentence():
    model = bipointnet.load(ROOMS)
    with pytest.raises(UserError, match=r"unit is 'km'; expected one of m, ft, us-ft"):
        bipointnet.label(model, "room.las", unit="km")
    with pytest.raises(UserError, match=r"cloud is of the type ndarray; expected the name of a file, or a Cloud"):
        bipointnet.label(model, np.zeros((9, 3)))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match=r"model is 'rooms.bpn'; expected a packed model; pass bipointnet.load"):
        bipointnet.label("rooms.bpn", "room.las")  # pyright: ignore[reportArgumentType]
