"""What a checkpoint and a packed file say about the data of a run, so that predict can notice unusual clouds."""

import dataclasses
import json

import numpy as np
import pytest
from commands import complaint, run, succeed

from bipointnet.config import Config
from bipointnet.data.dataset import PointClouds, Split
from bipointnet.evaluation.networks import evaluate
from bipointnet.models import checkpoint
from bipointnet.runtime import reference
from bipointnet.training import facts
from bipointnet.training.loop import train
from bipointnet.training.tasks import TASKS

QUICK = ["--points", "8", "--epochs", "2", "--batch", "16", "--device", "cpu"]


def boxes(sides: np.ndarray, name: str = "folder") -> PointClouds:
    """Clouds whose largest sides are these: x is the largest."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(len(sides), 20, 3)).astype(np.float32)
    points = (points - points.min(axis=1, keepdims=True)) / np.ptp(points, axis=1)[:, None]
    points = points * np.array([1, 0.5, 0.25], np.float32) * sides[:, None, None].astype(np.float32) + 100
    split = Split(points.astype(np.float32), np.arange(len(sides)) % 2)
    return PointClouds(name, ("a", "b"), split, split)


def test_extent_is_a_range_of_the_largest_sides_in_the_units_of_the_files():
    sides = np.linspace(200, 400, 201)
    assert facts.extent(boxes(sides)) == pytest.approx([202, 398], rel=1e-5)


def test_data_without_units_have_no_extent():
    data = boxes(np.linspace(1, 2, 10))
    for name in ("shapes", "shapes/chair", "rooms"):
        assert facts.extent(dataclasses.replace(data, name=name)) is None
    points = data.train.points - data.train.points.mean(axis=1, keepdims=True)
    points = points / np.linalg.norm(points, axis=2).max(axis=1)[:, None, None]
    unit = Split(points.astype(np.float32), data.train.labels)
    assert facts.extent(dataclasses.replace(data, train=unit)) is None


@pytest.mark.parametrize(("task", "classes"), [("classify", 2), ("part", 3)])
def test_the_classes_are_those_of_the_task(task, classes):
    """The built-in shapes have classes of clouds and of points."""
    data = boxes(np.linspace(1, 2, 10))
    labels = np.tile(np.arange(20) % 3, (10, 1))
    split = Split(data.train.points, data.train.labels, labels)
    both = dataclasses.replace(data, train=split, test=split, point_classes=("x", "y", "z"), parts=((0, 1, 2), (0, 1)))
    found = TASKS[task](Config(task=task, points=8), both)
    assert facts.counts(both, found.classes)["num_classes"] == classes


def test_a_checkpoint_names_data_counts_extent_and_confidence(tiny, tmp_path):
    config = Config(points=24, epochs=2, batch=16, device="cpu")
    train(config, tiny, tmp_path / "run", data_path="my/scans")
    network, known = checkpoint.load_run(tmp_path / "run")
    assert (known["data"], known["dataset"], known["layout"], known["points"]) == ("my/scans", "tiny", "tiny", 24)
    assert (known["num_classes"], known["train_clouds"], known["test_clouds"]) == (3, 96, 48)
    assert (known["epoch"], known["epochs"], known["cloud_points"]) == (2, 2, None)
    assert known["extent"] == facts.extent(tiny)
    import torch

    found = evaluate(network, torch.from_numpy(tiny.test.points), tiny.test.labels, 3, 24)
    percentile = np.percentile(found.probabilities.max(axis=1), 5)
    assert known["confidence"] == round(known["confidence"], 3)
    assert percentile - 0.001 < known["confidence"] <= percentile


def test_a_packed_file_keeps_these_facts(folder_of_clouds, tmp_path):
    succeed("train", folder_of_clouds, *QUICK, "-o", tmp_path / "run")
    succeed("export", tmp_path / "run", "-o", tmp_path / "m.bpn")
    training = reference.read(tmp_path / "m.bpn").manifest["training"]
    known = checkpoint.load(tmp_path / "run" / "last.safetensors")[1]
    names = ("layout", "points", "epoch", "epochs", "extent", "cloud_points", "confidence", "num_classes")
    assert {name: training[name] for name in names} == {name: known[name] for name in names}
    assert (known["data"], training["data"]) == (str(folder_of_clouds), folder_of_clouds.name)
    assert training["layout"] == "train/CLASS/* with test/CLASS/*"
    assert (training["epoch"], training["epochs"], training["cloud_points"]) == (2, 2, [48, 48])
    assert 0 < training["confidence"] <= 1
    assert training["extent"][0] < training["extent"][1]


def test_resume_needs_a_run_and_a_run_is_not_overwritten(folder_of_clouds, tmp_path):
    place = tmp_path / "run"
    assert "holds no run to resume" in complaint("train", folder_of_clouds, *QUICK, "-o", place, "--resume")
    assert not place.exists()
    first = json.loads(succeed("train", folder_of_clouds, *QUICK, "-o", place, "--json"))
    assert "holds a run already; add --resume" in complaint("train", folder_of_clouds, *QUICK, "-o", place)
    assert "started with lr = " in complaint("train", folder_of_clouds, "--lr", "0.5", "-o", place, "--resume")
    again = run("train", folder_of_clouds, "-o", place, "--resume", "--json")
    assert json.loads(again.stdout)["last_oa"] == first["last_oa"]
    assert json.loads(again.stdout)["config"] == first["config"]
