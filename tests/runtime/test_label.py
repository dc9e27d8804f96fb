"""Every point of a file gets one label, in samples and in blocks, whatever its size; mistakes get a sentence."""

from pathlib import Path

import numpy as np
import pytest

from bipointnet.data.clouds import Cloud
from bipointnet.errors import UserError
from bipointnet.runtime.label import BATCH, label_object, label_scene, read_labels


def by_height(clouds: np.ndarray, classes: int = 4) -> np.ndarray:
    """Logits (B, P, classes) of a network that sees how high a point lies, from 0 to 1."""
    best = np.clip((clouds[..., 2] * classes).astype(int), 0, classes - 1)
    return np.eye(classes, dtype=np.float32)[best]


def ignore(done: int, of: int) -> None:
    pass


def cloud_of(points: int, wide: float = 3.0, colored: bool = False) -> Cloud:
    rng = np.random.default_rng(points)
    xyz = (rng.uniform(size=(points, 3)) * (wide, wide, 1)).astype(np.float32)
    return Cloud(xyz, rng.uniform(size=(points, 3)).astype(np.float32) if colored else None)


@pytest.mark.parametrize("points", [1, 15, 16, 17, 16 * BATCH, 16 * BATCH + 1, 1000])
def test_each_point_of_an_object_has_the_label_of_its_own_place(points: int):
    cloud, told, sizes = cloud_of(points), [], []

    def logits(clouds: np.ndarray) -> np.ndarray:
        sizes.append(clouds.shape)
        return by_height(clouds)

    found = label_object(cloud, "it", 16, logits, lambda done, of: told.append((done, of)))
    assert np.array_equal(found, by_height(cloud.points).argmax(axis=-1))
    assert told[-1][0] == told[-1][1] == -(-points // 16)
    assert all(shape[0] <= BATCH and shape[1] == min(points, 16) for shape in sizes)


@pytest.mark.parametrize(("points", "wide", "colored"), [(1, 3.0, False), (50, 0.3, True), (3000, 4.2, True)])
def test_each_point_of_a_scene_has_the_label_of_its_own_place(points: int, wide: float, colored: bool):
    cloud = cloud_of(points, wide, colored)
    low = cloud.points[:, 2].min()

    def logits(blocks: np.ndarray) -> np.ndarray:
        assert blocks.shape[2] == (9 if colored else 6)
        blocks = blocks.copy()
        blocks[..., 2] += low  # blocks count from the floor
        return by_height(blocks)

    found = label_scene(cloud, "it", 64, 9 if colored else 6, 4, logits, ignore)
    lifted = cloud.points.copy()
    lifted[:, 2] = (lifted[:, 2] - low) + low
    assert np.array_equal(found, by_height(lifted).argmax(axis=-1))


def test_votes_of_overlapping_blocks_are_added():
    """A network that is sure where a point stands far from a block's edge and wrong, but unsure, near it."""
    cloud = cloud_of(4000, 4.0)

    def logits(blocks: np.ndarray) -> np.ndarray:
        inside = np.abs(blocks[..., :2]).max(axis=-1) < 0.3
        right = by_height(blocks, 4)
        return np.where(inside[..., None], 10 * right, np.roll(right, 1, axis=-1))

    found = label_scene(cloud, "it", 256, 6, 4, logits, ignore)
    expected = by_height(cloud.points - cloud.points.min(axis=0)).argmax(axis=-1)
    middle = (np.abs(cloud.points[:, :2] - 2) < 1.2).all(axis=1)
    assert (found == expected)[middle].mean() > 0.9


def test_colors_that_are_missing():
    with pytest.raises(UserError, match=r"room\.ply: holds no colors, which the network reads; name a file with red"):
        label_scene(cloud_of(10), "room.ply", 16, 9, 4, by_height, ignore)


def test_labels_are_read_back(tmp_path: Path):
    labels = np.array([3, 0, 2])
    np.save(tmp_path / "a.npy", labels.astype(np.uint8))
    (tmp_path / "a.txt").write_text("3\n0\n2\n")
    for name in ("a.npy", "a.txt"):
        found = read_labels(tmp_path / name, 3, 4)
        assert found.dtype == np.int64
        assert np.array_equal(found, labels)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (np.zeros(5, int), r"holds labels of shape \(5,\); expected 3, one for each point"),
        (np.zeros((3, 1), int), r"holds labels of shape \(3, 1\); expected 3"),
        (np.array([0, 1, 4]), "holds labels from 0 to 4; expected whole numbers from 0 to 3"),
        (np.array([0, -1, 1]), "holds labels from -1 to 1; expected whole numbers"),
        (np.array([0.0, 1.0, 2.0]), "holds float64 labels; expected whole numbers from 0 to 3"),
        (np.array(["a", "b", "c"]), "holds <U1 labels; expected whole numbers"),
        (b"PK\x03\x04", "no labels can be read"),
        (b"no numpy", "no labels can be read"),
        (b"", "no labels can be read"),
        (None, "no labels can be read .it is not there."),
    ],
)
def test_labels_that_do_not_fit(tmp_path: Path, content: np.ndarray | bytes | None, sentence: str):
    path = tmp_path / "truth.npy"
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        read_labels(path, 3, 4)
