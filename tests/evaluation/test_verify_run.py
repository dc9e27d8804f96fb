"""verify_against_run: packed models of every backbone and task have the bits of the run they were exported from."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from packed_networks import RUN_CLASSES, run_network, save_run

from bipointnet.config import Config
from bipointnet.errors import UserError
from bipointnet.evaluation.verify_torch import verify_against_run
from bipointnet.models import build, checkpoint
from bipointnet.nn import calibrate
from bipointnet.packing import pack
from bipointnet.runtime.verify import count_failures, failures

CONFIGS = {
    "plain": Config(points=100),
    "mean": Config(pool="ema-avg"),
    "transformed": Config(model="pointnet"),
    "scaled": Config(method="xnor", model="pointnet"),
    "compared": Config(method="abc-net"),
    "first": Config(binary_first=True),
    "pointnet2": Config(model="pointnet2"),
    "dgcnn": Config(model="dgcnn"),
    "pointcnn": Config(model="pointcnn"),
    "pointconv": Config(model="pointconv"),
    "local-base": Config(model="local-base"),
    "parts": Config(task="part", model="pointnet-vanilla"),
    "rooms": Config(task="semantic", model="pointnet-vanilla"),
}
SIZES = (1, 2, 40)


def save_segmenter(folder: Path, config: Config) -> Path:
    """A run folder of a network that labels points; parts of two categories, or rooms."""
    categories = ["chair", "stool"] if config.task == "part" else []
    torch.manual_seed(0)
    network = build(config, len(RUN_CLASSES), 3, len(categories))
    batch = [torch.randn(4, 32, 3) / 2, *([torch.arange(4) % 2] if categories else [])]
    calibrate(network, tuple(batch))
    with torch.no_grad():
        network.train()(*batch)
    facts = {"config": dataclasses.asdict(config), "classes": RUN_CLASSES, "channels": 3, "data": "none", "epoch": 0}
    named = {"categories": categories, "parts": [[0, 1, 2], [2, 3, 4]]} if categories else {}
    checkpoint.save(folder / "last.safetensors", dict(network.state_dict()), facts | named)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and its packed model."""
    root = tmp_path_factory.mktemp("verified")
    pack.export_run(save_run(root / "plain", CONFIGS["plain"]), root / "plain.bpn")
    return root


def batch(clouds: int, points: int) -> np.ndarray:
    return np.random.default_rng((0, points)).normal(size=(clouds, points, 3)).astype(np.float32)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in ("pointconv", "pointcnn"))) for name in CONFIGS]
)
def test_a_packed_model_has_the_bits_of_its_network(name, tmp_path, monkeypatch):
    monkeypatch.setattr("bipointnet.runtime.verify.SIZES", SIZES)
    config = CONFIGS[name]
    run = (save_run if config.task == "classify" else save_segmenter)(tmp_path / "run", config)
    pack.export_run(run, tmp_path / "run.bpn")
    seen = []
    report = verify_against_run(
        tmp_path / "run.bpn", run, data=batch(2, 30), progress=lambda done, total: seen.append((done, total))
    )
    assert report["ok"], failures(report)
    assert count_failures(report) == 0
    clouds, found = len(SIZES) + 2, report["torch"]
    assert seen == [(i + 1, 2 * clouds) for i in range(2 * clouds)]
    assert report["clouds"] == found["clouds"] == clouds
    labels = clouds if config.task == "classify" else sum(SIZES) + 2 * 30
    assert found["labels_compared"] == labels
    assert found["bits_compared"] > 0
    assert found["bits_different"] == found["bits_within_rounding"] + found["bits_that_follow"]


def test_a_different_network_is_found(plain, tmp_path, monkeypatch):
    monkeypatch.setattr("bipointnet.runtime.verify.SIZES", (9,))
    report = verify_against_run(plain / "plain.bpn", save_run(tmp_path, CONFIGS["plain"], seed=1))
    assert not report["ok"]
    assert report["reference"]["values_different"] == 0
    assert report["torch"]["bits_unexplained"] > 0
    assert count_failures(report) >= report["torch"]["bits_unexplained"] + report["torch"]["floats_unexplained"] > 0
    assert "differ by more than rounding" in failures(report)[0]


@pytest.mark.parametrize("kind", ["bits", "floats", "indices", "labels"])
def test_a_report_that_is_not_ok_counts_its_failures(kind):
    unexplained = {f"{name}_unexplained": 0 for name in ("bits", "floats", "indices", "labels")}
    report = {"reference": {"values_different": 0}, "isas": {}, "torch": unexplained | {f"{kind}_unexplained": 3}}
    assert count_failures(report) == 3


def test_another_run_is_refused(plain, tmp_path):
    other = save_run(tmp_path / "other", Config(model="pointnet"))
    with pytest.raises(UserError, match=r"model pointnet; expected model pointnet-vanilla, .* exported from"):
        verify_against_run(plain / "plain.bpn", other)
    with pytest.raises(UserError, match=r"pool ema-avg; expected pool ema-max, .* exported from"):
        verify_against_run(plain / "plain.bpn", save_run(tmp_path / "mean", CONFIGS["mean"]))


def test_another_epoch_is_refused(plain, tmp_path):
    facts = {"config": dataclasses.asdict(CONFIGS["plain"]), "classes": RUN_CLASSES, "channels": 3, "epoch": 7}
    checkpoint.save(tmp_path / "last.safetensors", dict(run_network(CONFIGS["plain"]).state_dict()), facts)
    with pytest.raises(UserError, match=r"epoch 7; expected epoch \d+, as the packed model records"):
        verify_against_run(plain / "plain.bpn", tmp_path)


def test_a_packed_model_is_no_run(plain):
    with pytest.raises(UserError, match=r"a packed model where a run folder .* is expected"):
        verify_against_run(plain / "plain.bpn", plain / "plain.bpn")
