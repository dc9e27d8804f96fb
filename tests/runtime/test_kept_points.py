"""Which points a prediction uses: no copies, at most `max_points`, the same ones in every order and at every entry."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_networks import RUN_CLASSES, run_network, save_run

from bipointnet import load
from bipointnet.config import Config
from bipointnet.data.clouds import Cloud
from bipointnet.errors import UserError
from bipointnet.evaluation.from_file import classify_cloud
from bipointnet.evaluation.predictor import open_model
from bipointnet.packing import pack
from bipointnet.runtime import reference
from bipointnet.runtime.model import kept_points


@given(
    st.integers(0, 10**6),
    st.integers(1, 400),
    st.integers(1, 6),
    st.integers(0, 450),
    st.sampled_from([1, 4, 2**10]),
)
@settings(max_examples=200)
def test_the_core_keeps_the_points_of_the_reference(seed, points, channels, most, levels):
    rng = np.random.default_rng(seed)
    cloud = (rng.integers(-levels, levels + 1, (points, channels)) / np.float32(levels)).astype(np.float32)
    cloud[rng.random(cloud.shape) < 0.1] *= -1  # also -0
    distinct, _ = reference.distinct_points(cloud)
    expected = reference.thinned(distinct, most or len(distinct))
    assert np.array_equal(kept_points(cloud, most), expected)
    shuffled = kept_points(rng.permutation(np.repeat(cloud, 2, axis=0)), most) + 0.0
    assert np.array_equal(np.unique(shuffled, axis=0), np.unique(expected + 0.0, axis=0)), "order and copies matter"


def test_a_sample_is_as_even_as_a_random_one():
    axis = np.arange(40, dtype=np.float32) / 40
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    found = kept_points(grid, 6400)  # one in ten
    for i in range(3):
        shares = np.bincount((found[:, i] * 40).round().astype(int), minlength=40)
        assert len(found) == 6400
        assert ((shares - 160) ** 2 / 144).sum() < 100, "chi-squared with 39 degrees of freedom"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(tmp_path_factory.mktemp("kept") / "run", Config(points=20))


def test_every_entry_uses_the_same_points(run, tmp_path):
    pack.export_run(run, tmp_path / "a.bpn")
    model, packed, network = load(tmp_path / "a.bpn"), open_model(tmp_path / "a.bpn"), open_model(run)
    assert model.max_points == packed.max_points == network.max_points == 80, "four times those of the training"
    cloud = np.random.default_rng(1).standard_normal((1000, 3)).astype(np.float32)
    used = model.kept_points(cloud)
    assert used.shape == (80, 3)
    assert np.array_equal(model.logits(cloud), model.logits(used))
    assert np.array_equal(model.logits(np.stack([cloud, cloud[::-1]]))[0], model.logits(used))
    assert np.array_equal(model.logits(cloud), reference.run_program(reference.read(tmp_path / "a.bpn"), cloud)[0])
    whole = Cloud(cloud, None, None)
    answers = [classify_cloud(predictor, whole, "cloud") for predictor in (packed, network)]
    assert [answer.points for answer in answers] == [80, 80]
    assert answers[0].top[0][0] == answers[1].top[0][0] == model.predict(cloud).names


def test_limits_are_chosen_at_export(run, tmp_path):
    pack.export_run(run, tmp_path / "all.bpn", max_points=0)
    assert load(tmp_path / "all.bpn").max_points is None
    pack.export_run(run, tmp_path / "few.bpn", max_points=7)
    model = load(tmp_path / "few.bpn")
    assert len(model.kept_points(np.random.default_rng(0).random((30, 3), np.float32))) == 7
    for most in (-1, 2**32):
        with pytest.raises(UserError, match=f"max_points is {most}; expected 1 to 2"):
            pack.export(run_network(Config()), tmp_path / "no.bpn", classes=RUN_CLASSES, max_points=most)


@pytest.mark.parametrize(
    ("config", "most"),
    [
        (Config(points=100), 400),
        (Config(points=100, model="pointnet"), 400),
        (Config(points=300), 1024),
        (Config(points=1024, model="pointnet"), 1024),
        (Config(points=2048), 2048),
        (Config(points=100, pool="max"), 100),
        (Config(points=100, recipe="paper"), 100),
        (Config(points=100, model="dgcnn"), 100),
        (Config(points=100, task="part"), None),
    ],
)
def test_networks_that_depend_on_density_use_as_many_points_as_in_training(config, most):
    assert config.max_points == most
