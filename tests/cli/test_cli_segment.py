"""The commands for networks that label points, as a user runs them."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import complaint, succeed
from labeled_data import write_parts, write_rooms

import bipointnet
from bipointnet.data import clouds
from bipointnet.data.shapenet_part import PARTS
from bipointnet.errors import UserError

QUICK = ["--model", "pointnet-vanilla", "--points", "32", "--batch", "8", "--lr", "0.003", "--device", "cpu"]
SUFFIXES = (".html", ".npy", ".ply", ".png")
pytestmark = pytest.mark.learning


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a run for all categories and its packed model, made by the commands."""
    root = tmp_path_factory.mktemp("parts")
    write_parts(root / "data")
    shown = succeed("train", root / "data", "--task", "part", "--epochs", "2", *QUICK, "-o", root / "run")
    assert "% mIoU" in shown
    succeed("export", root / "run", "-o", root / "parts.bpn")
    return root


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for rooms, of one fold."""
    root = tmp_path_factory.mktemp("rooms")
    write_rooms(root / "data", areas=2)
    succeed(
        "train", root / "data", "--task", "semantic", "--epochs", "2", "--fold", "Area_1", *QUICK, "-o", root / "run"
    )
    succeed("export", root / "run", "-o", root / "rooms.bpn")
    return root


def test_eval_prints_a_table_and_json(parts, rooms):
    shown = succeed("eval", parts / "run", parts / "data")
    assert "IoU by category" in shown
    assert "Airplane/wing" in shown
    assert "weighted as in the paper" in shown
    figures = json.loads(succeed("eval", parts / "run", parts / "data", "--json"))
    assert {"category_miou", "instance_miou", "paper_miou", "oa"} <= figures.keys()
    scores = json.loads((parts / "run" / "result.json").read_text())["scores"]
    assert scores.keys() == figures.keys() - {"dataset", "clouds"}
    for key, value in scores.items():  # up to rounding, which may depend on the size of a batch
        assert figures[key] == pytest.approx(value, abs=1), key
    shown = succeed("eval", rooms / "run", rooms / "data")
    assert "s3dis/Area_1" in shown
    assert "ceiling" in shown


def test_eval_refuses_folds_that_may_have_been_trained_on(parts, rooms, tmp_path):
    write_rooms(tmp_path / "data", areas=3)
    for room in (tmp_path / "data").glob("Area_1_*"):
        room.unlink()
    for model in ("run", "rooms.bpn"):
        sentence = complaint("eval", rooms / model, tmp_path / "data")
        assert "was trained on all folds but Area_1 and may have seen any of these: Area_2, Area_3" in sentence
        assert "classes are not the 13 of s3dis/Area_1" in complaint("eval", rooms / model, parts / "data")


def test_a_toml_file_is_checked_together_with_the_options(parts, tmp_path):
    toml = tmp_path / "mugs.toml"
    toml.write_text('category = "Mug"\nepochs = 1\n')
    start = ["train", parts / "data", "--config", toml, *QUICK, "-o", tmp_path / "run"]
    assert "mugs.toml and the options: category is 'Mug' with task 'classify'" in complaint(*start)
    assert "/Mug: last epoch" in succeed(*start, "--task", "part")


def test_packed_and_trained_networks_have_the_same_scores(parts, rooms):
    for root, packed in ((parts, "parts.bpn"), (rooms, "rooms.bpn")):
        of_run, of_packed = (
            json.loads(succeed("eval", root / model, root / "data", "--json")) for model in ("run", packed)
        )
        assert of_run["miou"] == pytest.approx(of_packed["miou"], abs=1), "up to bits within rounding of 0"


def test_segment_writes_all_four_files(parts, tmp_path):
    x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    np.save(tmp_path / "mug.npy", x)
    for model in ("run", "parts.bpn"):
        figures = json.loads(
            succeed(
                "segment", tmp_path / "mug.npy", "--model", parts / model, "--category", "Mug", "--json", cwd=tmp_path
            )
        )
        assert sorted(Path(path).name for path in figures["written"]) == [f"mug-labels{suffix}" for suffix in SUFFIXES]
        labels = np.load(tmp_path / "mug-labels.npy")
        assert set(labels) <= set(PARTS[11])
        assert sum(figures["classes"].values()) == 100
        np.testing.assert_array_equal(clouds.read(tmp_path / "mug-labels.ply").points, x)
    shown = succeed(
        "segment", tmp_path / "mug.npy", "-m", parts / "parts.bpn", "--category", "Mug", "-o", tmp_path / "deep" / "a"
    )
    assert "Written:" in shown
    model = bipointnet.load(parts / "parts.bpn")
    np.testing.assert_array_equal(
        bipointnet.label(model, tmp_path / "mug.npy", category="Mug"), np.load(tmp_path / "deep/a.npy")
    )
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == [f"a{suffix}" for suffix in SUFFIXES]


def test_truth_is_what_the_category_can_have_and_case_does_not_matter(parts, tmp_path):
    np.save(tmp_path / "mug.npy", np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
    command = ["segment", tmp_path / "mug.npy", "-m", parts / "parts.bpn", "--category", "mug", "--truth"]
    first, second = PARTS[11]
    (tmp_path / "truth.txt").write_text(f"{first}.000000\n{second}.000000\n" * 2)
    report = json.loads(succeed(*command, tmp_path / "truth.txt", "--json", cwd=tmp_path))
    assert 0 <= report["truth"]["oa"] <= 100
    (tmp_path / "wrong.txt").write_text(f"{first}\n0\n" * 2)
    sentence = complaint(*command, tmp_path / "wrong.txt", cwd=tmp_path)
    assert f"point 1 (counted from 0) has label 0; expected {first} to {second}" in sentence
    assert "--files is for classifiers" in complaint("eval", parts / "run", parts / "data", "--files")


def test_segment_labels_every_point_of_a_room_and_compares(rooms, tmp_path):
    room = np.load(rooms / "data" / "Area_1_office_1.npy")
    np.save(tmp_path / "room.npy", room[:, :6])
    np.save(tmp_path / "truth.npy", room[:, 6].astype(np.int64))
    truth = ["--truth", tmp_path / "truth.npy"]
    report = succeed("segment", tmp_path / "room.npy", "-m", rooms / "rooms.bpn", *truth, "--json", cwd=tmp_path)
    figures = json.loads(report)
    assert figures["points"] == len(room)
    labels = np.load(tmp_path / "room-labels.npy")
    assert figures["truth"]["oa"] == pytest.approx(100 * (labels == room[:, 6]).mean())
    model = bipointnet.load(rooms / "rooms.bpn")
    seen: list[tuple[int, int]] = []
    np.testing.assert_array_equal(
        bipointnet.label(model, tmp_path / "room.npy", progress=lambda done, total: seen.append((done, total))), labels
    )
    assert seen[-1][0] == seen[-1][1]
    np.testing.assert_array_equal(bipointnet.label(model, clouds.read(tmp_path / "room.npy"), threads=2), labels)
    with pytest.raises(UserError, match="the cloud: holds no colors"):
        bipointnet.label(model, clouds.Cloud(room[:, :3].astype(np.float32)))


def test_each_fold_of_six_areas_and_their_total(tmp_path):
    write_rooms(tmp_path / "data", areas=6, points=1500)
    command = ["train", tmp_path / "data", "--task", "semantic", "--fold", "each", "--epochs", "1", *QUICK]
    shown = succeed(*command, "-o", tmp_path / "runs")
    assert "mIoU of all folds" in shown
    assert all(f"Area_{area}" in shown for area in range(1, 7))
    total = json.loads((tmp_path / "runs" / "result.json").read_text())
    runs = [json.loads((tmp_path / "runs" / f"Area_{area}" / "result.json").read_text()) for area in range(1, 7)]
    confusion = np.sum([run["confusion"] for run in runs], axis=0)
    assert total["oa"] == pytest.approx(100 * np.trace(confusion) / confusion.sum())
    assert total["folds"].keys() == {f"Area_{area}" for area in range(1, 7)}
    assert "holds runs already; add --resume to continue them" in complaint(*command, "-o", tmp_path / "runs")
    assert json.loads(succeed(*command, "-o", tmp_path / "runs", "--resume", "--json")) == total
    other = complaint(*command, "--method", "bnn", "-o", tmp_path / "runs", "--resume")
    assert "started with method = 'lsr', found 'bnn' now" in other


def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(parts, rooms, tmp_path):
    np.save(tmp_path / "cloud.npy", np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32))
    np.save(tmp_path / "short.npy", np.zeros(49, np.int64))
    (tmp_path / "empty.xyz").write_text("")
    (tmp_path / "taken.html").mkdir()
    before = sorted(tmp_path.iterdir())
    cloud = tmp_path / "cloud.npy"
    mug = [cloud, "-m", parts / "parts.bpn", "--category"]
    for arguments, sentence in (
        ([*mug, "Mug", "--truth", tmp_path / "short.npy"], "holds 49 labels, expected 50, one per point of"),
        ([*mug, "Unicorn"], "found --category Unicorn; expected one of: Airplane, Bag"),
        ([cloud, "-m", parts / "run"], "found no --category; expected one of: Airplane"),
        ([*mug, "Mug", "--up", "w"], "--up is 'w'; expected x, y or z"),
        ([cloud, "-m", rooms / "rooms.bpn", "--category", "Mug"], "has no category input"),
        ([cloud, "-m", rooms / "rooms.bpn"], "holds no colors, which the network reads"),
        ([tmp_path / "empty.xyz", "-m", rooms / "run"], "the file is empty"),
        ([cloud, "-m", cloud], "neither a packed model nor a checkpoint"),
        ([*mug, "Mug", "-o", tmp_path / "cloud"], "an input file, which would be overwritten; choose another name"),
        ([*mug, "Mug", "-o", "x" * 251], "expected the name of the files to write"),
        ([*mug, "Mug", "-o", "ä" * 150], "expected the name of the files to write"),
        ([cloud, "-m", tmp_path / "taken.html"], "a folder without last.safetensors"),
        ([*mug, "Mug", "-o", tmp_path / "taken"], "a folder where a file should be written"),
    ):
        assert sentence in complaint("segment", *arguments, cwd=tmp_path)
    assert sorted(tmp_path.iterdir()) == before
    assert "use `bipointnet segment`" in complaint("predict", cloud, "-m", parts / "run")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--task", "part", "--category", "Unicorn"],
            "has no class 'Unicorn' to segment; expected one of: Airplane",
        ),
        (["--task", "semantic"], "has no labeled scans; expected data such as rooms; use --task part"),
        (["--task", "semantic", "--fold", "each"], "has no folds, unlike S3DIS; found fold 'each'; leave"),
        (["--task", "semantic", "--fold", "Area_1"], "has no folds, unlike S3DIS; found fold 'Area_1'"),
    ],
)
def test_training_that_does_not_fit_the_data(parts, options, sentence, tmp_path):
    assert sentence in complaint("train", parts / "data", *options, *QUICK, "--epochs", "1", "-o", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_empty_rooms_are_refused(tmp_path):
    write_rooms(tmp_path / "data", areas=2)
    np.save(tmp_path / "data" / "Area_2_office_1.npy", np.empty((0, 7)))
    command = ["train", tmp_path / "data", "--task", "semantic", *QUICK, "--epochs", "1", "-o", tmp_path / "run"]
    assert "Area_2_office_1.npy" in complaint(*command)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError):
        clouds.read(tmp_path / "data" / "Area_2_office_1.npy")
