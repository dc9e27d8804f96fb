"""Augmentations: what each of them keeps and what it may change."""

import pytest
import torch

from bipointnet.config import Config
from bipointnet.training import augment

NOT_LABELED = torch.zeros(8, dtype=torch.int64)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(8, 50, 5, generator=rng(7), dtype=torch.float64)


CHANGES = {
    "rotate": lambda x, g: augment.rotate(x, 180, "z", g),
    "scale": lambda x, g: augment.scale_axes(x, 1.5, g),
    "shift": lambda x, g: augment.shift(x, 0.2, g),
    "jitter": lambda x, g: augment.jitter(x, 0.01, g),
    "drop": lambda x, g: augment.drop_points(x, 0.8, g),
    "draw": lambda x, g: augment.draw_points(x, NOT_LABELED, 20, g)[0],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_generator_determines_everything(x, change):
    before = x.clone()
    assert torch.equal(change(x, rng(1)), change(x, rng(1)))
    assert not torch.equal(change(x, rng(1)), change(x, rng(2)))
    assert torch.equal(x, before), "the given batch is not changed"


@pytest.mark.parametrize("name", ["rotate", "scale", "shift", "jitter"])
def test_only_xyz_changes(x, name):
    assert torch.equal(CHANGES[name](x, rng())[..., 3:], x[..., 3:])


@pytest.mark.parametrize("up", augment.AXES)
def test_rotation_keeps_height_distances_and_handedness(x, up):
    turned = augment.rotate(x, 180, up, rng())
    axis = augment.AXES[up]
    torch.testing.assert_close(turned[..., axis], x[..., axis])
    torch.testing.assert_close(torch.pdist(turned[0, :, :3]), torch.pdist(x[0, :, :3]))
    assert (torch.linalg.det(turned[:, :3, :3]).sign() == torch.linalg.det(x[:, :3, :3]).sign()).all()


def test_rotation_stays_within_its_angle():
    x = torch.tensor([1.0, 0, 0]).expand(4000, 1, 3)
    turned = augment.rotate(x, 30, "z", rng())
    angles = torch.rad2deg(torch.atan2(turned[..., 1], turned[..., 0]))
    assert angles.abs().max() <= 30 + 1e-4
    assert angles.max() > 29
    assert angles.min() < -29


def test_scale_and_shift_stay_within_their_bounds():
    ones = torch.ones(4000, 1, 3)
    factors = augment.scale_axes(ones, 1.5, rng())
    assert 1 / 1.5 <= factors.min() < 0.68
    assert 1.49 < factors.max() <= 1.5
    moved = augment.shift(ones, 0.2, rng()) - 1
    assert 0.199 < moved.abs().max() <= 0.2 + 1e-6


def test_drawn_points_are_different_points_of_the_cloud():
    x = torch.arange(3 * 40, dtype=torch.float32).reshape(3, 40, 1).expand(-1, -1, 3)
    drawn, _ = augment.draw_points(x, NOT_LABELED, 25, rng())
    for cloud, source in zip(drawn[..., 0], x[..., 0], strict=True):
        assert len(set(cloud.tolist())) == 25
        assert set(cloud.tolist()) <= set(source.tolist())
    assert set(augment.draw_points(x, NOT_LABELED, 40, rng())[0][0, :, 0].tolist()) == set(range(40))


def test_drawn_points_keep_their_labels(x):
    labels = torch.arange(8 * 50).reshape(8, 50)
    drawn, kept = augment.draw_points(x, labels, 20, rng())
    assert torch.equal(drawn, x.reshape(-1, 5)[kept])


def test_dropped_points_become_the_first_one(x):
    dropped = augment.drop_points(x, 0.8, rng())
    kept = (dropped == x).all(dim=-1)
    first = (dropped == x[:, :1]).all(dim=-1)
    assert (kept | first).all()
    assert 0.2 < first.float().mean() < 0.6


def test_the_paper_s_recipe_augments_nothing(x):
    assert augment.augment(x, Config(), "z", rng()) is x


def test_augmentations_follow_one_another_in_the_documented_order(x):
    config, generator = Config(rotate=10, scale=1.5, shift=0.2, jitter=0.01, drop=0.5), rng(3)
    expected = augment.rotate(x, 10, "y", generator)
    expected = augment.scale_axes(expected, 1.5, generator)
    expected = augment.shift(expected, 0.2, generator)
    expected = augment.jitter(expected, 0.01, generator)
    expected = augment.drop_points(expected, 0.5, generator)
    assert torch.equal(augment.augment(x, config, "y", rng(3)), expected)
