"""The commands for networks that classify clouds, as a user runs them."""

import dataclasses
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import complaint, run, succeed
from conftest import blobs, write_clouds
from rich.console import Console

from bipointnet import demo
from bipointnet.cli import common
from bipointnet.cli.verify import print_verification
from bipointnet.config import Config
from bipointnet.models import checkpoint
from bipointnet.training.progress import Progress

QUICK = ["--points", "24", "--epochs", "6", "--batch", "16", "--lr", "0.003", "--device", "cpu"]
GOLDEN = Path(__file__).parents[1] / "golden"
learning = pytest.mark.learning


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of clouds and a run trained on it, from the command line."""
    root = tmp_path_factory.mktemp("trained")
    write_clouds(root / "data", blobs(0, 96, 48), blobs(1, 30, 48))
    enough = ("--epochs", "12", "--lr", "0.01", "--clip", "1")  # to be right with every seed and CPU
    assert "last epoch" in succeed("train", root / "data", *QUICK, *enough, "-o", root / "run")
    return root / "data", root / "run"


@pytest.fixture(scope="module")
def packed(trained: tuple[Path, Path]) -> Path:
    """The trained run as a packed model, from the command line."""
    _, folder = trained
    path = folder.parent / "model.bpn"
    shown = succeed("export", folder, "-o", path)
    assert f"{path.stat().st_size:,} bytes" in shown
    assert [p.name for p in folder.parent.iterdir() if p.name.endswith(".part")] == []
    return path


def without_torch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command where `import torch` fails, as on a machine without PyTorch."""
    code = "import sys; sys.modules['torch'] = None; from bipointnet.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"}, check=False)


@learning
def test_eval_prints_a_table_and_json(trained):
    data, folder = trained
    shown = succeed("eval", folder, data)
    assert "overall" in shown
    assert "ball" in shown
    evaluated = json.loads(succeed("eval", folder / "best.safetensors", data, "--json"))
    assert evaluated["clouds"] == 30
    assert evaluated["oa"] > 60, "three classes: chance is 33"
    assert np.array(evaluated["confusion"]).sum() == 30


@learning
def test_eval_lists_the_misclassified_files(trained, packed):
    data, folder = trained
    report = json.loads(succeed("eval", packed, data, "--files", "--json"))
    confusion = np.array(report["confusion"])
    mistakes = report["mistakes"]
    assert len(mistakes) == confusion.sum() - np.trace(confusion)
    for mistake in mistakes:
        assert list(mistake) == ["file", "truth", "prediction", "probability"]
        assert (data / mistake["file"]).exists()
        assert Path(mistake["file"]).parent.name == mistake["truth"] != mistake["prediction"]
        assert 0 < mistake["probability"] <= 1
    assert "mistakes" not in json.loads(succeed("eval", packed, data, "--json"))
    shown = succeed("eval", folder, data, "--files")
    assert " of 30 misclassified" in shown
    assert shown.count(", predicted ") == int(shown.split(" of 30 misclassified")[0].split()[-1])


@learning
def test_predict_classifies_files(trained, tmp_path):
    data, folder = trained
    files = sorted((data / "test").rglob("*.npy"))
    text = tmp_path / "few points.xyz"
    np.savetxt(text, np.load(files[1])[:20])
    rows = json.loads(succeed("predict", *files, text, "--model", folder, "--json"))
    assert [Path(row["file"]).name for row in rows] == [p.name for p in [*files, text]]
    assert [row["points"] for row in rows] == [48] * len(files) + [20], "at most four times those of the training"
    assert sum(row["label"] == p.parent.name for row, p in zip(rows, files, strict=False)) > 0.6 * len(files)
    assert all(0 < row["probability"] <= 1 for row in rows)
    assert "few points.xyz" in succeed("predict", text, "-m", folder)


@learning
def test_a_packed_model_predicts_like_its_run_but_without_torch(trained, packed):
    """The run computes in float32 and the packed model keeps its last layer in float16: near ties may differ."""
    data, folder = trained
    assert "overall" in without_torch("eval", packed, data).stdout
    of_packed = json.loads(without_torch("eval", packed, data, "--json").stdout)
    of_run = json.loads(succeed("eval", folder, data, "--json"))
    moved = np.abs(np.array(of_packed["confusion"]) - np.array(of_run["confusion"])).sum() / 2
    assert moved <= 1
    assert (of_packed["clouds"], of_packed["epoch"]) == (30, of_run["epoch"])
    assert "isa" in of_packed
    assert 0 < of_run["entropy"] <= 1
    files = sorted((data / "test").rglob("*.npy"))[::5]
    of_packed = json.loads(without_torch("predict", *files, "--model", packed, "--json").stdout)
    of_run = json.loads(succeed("predict", *files, "--model", folder, "--json"))
    for row, other in zip(of_packed, of_run, strict=True):
        assert (row["file"], row["points"]) == (other["file"], other["points"])
        assert row["probability"] == pytest.approx(other["probability"], abs=0.05)
        assert row["label"] == other["label"] or row["probability"] < 0.55


@learning
def test_export_says_what_it_wrote(trained, packed, tmp_path):
    _, folder = trained
    path = tmp_path / "f32.bpn"
    report = json.loads(succeed("export", folder, "-o", path, "--last", "f32", "--json"))
    assert report["bytes"] == path.stat().st_size > packed.stat().st_size
    assert report["ratio"] == pytest.approx(report["fp32"] / report["bytes"], abs=0.01)


@learning
def test_inspect_shows_operations_and_layers(trained, packed):
    shown = without_torch("inspect", packed)
    assert shown.returncode == 0
    assert all(word in shown.stdout for word in ("bilinear_pool", "1 bit", "float16", "points: ", "stick", "ema-max"))
    facts = json.loads(without_torch("inspect", packed, "--json").stdout)
    assert facts["bytes"]["file"] == packed.stat().st_size
    layers = succeed("inspect", trained[1])
    assert all(word in layers for word in ("pooled.linear", "1024 x 128", "131,073", "parameters"))


@learning
def test_verify_compares_everything(trained, packed, tmp_path):
    data, folder = trained
    report = json.loads(succeed("verify", packed, "--run", folder, "--data", data, "--json"))
    assert report["ok"]
    assert report["clouds"] == report["torch"]["clouds"] == 37
    assert report["torch"]["bits_unexplained"] == 0
    shown = succeed("verify", packed, "--run", folder)
    assert "Compared on 7 clouds:" in shown
    assert "PyTorch, float64" in shown
    assert shown.endswith("OK: all checks passed\n")
    tensors, facts = checkpoint.load(folder / "last.safetensors")
    tensors["head.0.0.weight"].neg_()
    checkpoint.save(tmp_path / "other.safetensors", tensors, facts)
    wrong = run("verify", packed, "--run", tmp_path / "other.safetensors")
    assert wrong.returncode == 1
    assert "FAILED: " in wrong.stdout
    assert "wrong: " in wrong.stdout
    assert "OK" not in wrong.stdout


def verification(**torch: int) -> str:
    """What `verify` prints of a report with these figures of the comparison with PyTorch."""
    report = {
        "clouds": 7,
        "golden_vector": {"isas": ["avx2", "portable"], "tolerance": 1e-5},
        "reference": {"values_compared": 5000, "values_different": 0, "first_differences": []},
        "isas": {"avx2": {"values_compared": 6000, "values_different": 0, "first_differences": []}},
        "torch": {
            "bits_compared": 9000,
            "labels_compared": 7,
            "labels_different": 0,
            "labels_unexplained": 0,
            "floats_unexplained": 0,
            "indices_unexplained": 0,
            **{f"bits_{name}": count for name, count in torch.items()},
            "first_unexplained": [],
        },
        "ok": not torch["unexplained"],
    }
    console = Console(file=io.StringIO(), width=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "out", console)
        print_verification(report)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_verify_says_why_bits_may_differ():
    shown = verification(different=33, within_rounding=3, that_follow=30, unexplained=0)
    assert "5,000 values compared with the portable core, none differs" in shown
    assert "9,000 bits compared, 33 differ, as expected: 3 float sums are within float32 rounding" in shown
    assert "the other 30 follow from these" in shown
    assert shown.endswith("OK: all checks passed\n")
    shown = verification(different=0, within_rounding=0, that_follow=0, unexplained=0)
    assert "9,000 bits compared, none differs" in shown
    shown = verification(different=33, within_rounding=3, that_follow=28, unexplained=2)
    assert "as expected" not in shown
    assert "FAILED: 2 values differ that must be equal" in shown
    assert "OK" not in shown


def test_names_are_not_cut_in_files_and_pipes():
    """Without a terminal there is no width to fit in; a cut name cannot be used by the next program."""
    console = common._Console(file=io.StringIO())
    table = common.empty_table("runs", {"run": "left", "layer": "left"})
    table.add_row("runs/" + "x" * 120, "y" * 120)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "x" * 120 in shown
    assert "y" * 120 in shown


def test_bench_prints_a_table_and_json():
    path = GOLDEN / "shapes.bpn"
    assert "One cloud of 128 points" in succeed("bench", path, "--rounds", "1"), "as in training"
    report = json.loads(succeed("bench", path, "--points", "32", "--rounds", "3", "--json"))
    assert (report["points"], report["threads"], report["rounds"]) == (32, 1, 3)
    assert report["speedup"]["torch"] > 0
    shown = without_torch("bench", path, "--points", "32", "--rounds", "3")
    assert shown.returncode == 0, shown.stderr
    assert "portable" in shown.stdout
    assert "torch" not in shown.stdout


@learning
def test_options_override_toml_which_overrides_the_defaults(trained, tmp_path):
    data, _ = trained
    toml = tmp_path / "recipe.toml"
    toml.write_text('method = "bnn"\nepochs = 5\npoints = 24\nbatch = 16\ndevice = "cpu"\nlr = 1\nnorm = false\n')
    done = succeed("train", data, "--config", toml, "--epochs", "1", "--norm", "-o", tmp_path / "run", "--json")
    config = json.loads(done)["config"]
    assert (config["method"], config["epochs"], config["pool"], config["lr"]) == ("bnn", 1, "ema-max", 1.0)
    assert config["norm"]


@learning
def test_a_run_is_not_overwritten(trained):
    data, folder = trained
    before = (folder / "last.safetensors").read_bytes()
    assert "--resume" in complaint("train", data, *QUICK, "-o", folder)
    assert (folder / "last.safetensors").read_bytes() == before


@learning
def test_data_with_different_classes_are_refused(trained, tmp_path):
    data, folder = trained
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        for name in ("ball", "stick"):
            (tmp_path / split / f"my {name}s").symlink_to(data / split / name)
    sentence = complaint("eval", folder, tmp_path)
    assert "the network knows none of the classes my balls, my sticks; expected some of ball, plate, stick" in sentence


@learning
def test_a_run_is_evaluated_on_new_files(trained, tmp_path):
    """Of a folder without a test split, all files that it has not seen are tested; stdout stays clean JSON."""
    data, folder = trained
    write_clouds(tmp_path / "halves", blobs(7, 40, 48), blobs(8, 1, 48))
    new = (tmp_path / "halves" / "train").rename(tmp_path / "new")
    shutil.copy(sorted((data / "train" / "ball").iterdir())[0], new / "ball" / "seen.npy")
    (new / "vase").mkdir()
    shutil.copy(sorted((new / "stick").iterdir())[0], new / "vase" / "a.npy")
    done = run("eval", folder, new, "--json")
    assert json.loads(done.stdout)["clouds"] == 40
    assert "tested: 40 that are new to it; left out: 1 of its training files" in done.stderr
    assert "left out: vase (a class that the network does not know)" in done.stderr


def test_train_says_what_it_read(tmp_path):
    """And skips bad files only on request."""
    write_clouds(tmp_path / "halves", blobs(7, 60, 48), blobs(8, 1, 48))
    data = (tmp_path / "halves" / "train").rename(tmp_path / "data")
    (data / "ball" / "bad.npy").write_bytes(b"garbage")
    assert "or pass --skip-bad" in complaint("train", data, *QUICK, "-o", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    done = run("train", data, *QUICK, "--epochs", "1", "-o", tmp_path / "run", "--skip-bad", "--json")
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "run" / "data.json").read_text())
    assert stored["held_out"] == json.loads(done.stdout)["held_out"]
    assert [skipped["name"] for skipped in stored["skipped"]] == ["ball/bad.npy"]
    assert f"{data}: layout CLASS/*, 3 classes, " in done.stderr
    assert f"held out for the test: {stored['held_out'][0]}, " in done.stderr
    assert "left out: ball/bad.npy (begins with 'garbag', expected" in done.stderr


def test_without_a_terminal_training_prints_lines(monkeypatch):
    """Output to a file has no bar, but must not be silent for minutes."""
    console = Console(file=io.StringIO(), width=200)
    monkeypatch.setattr(common, "err", console)
    clock = iter(range(0, 10**6, 4))  # seconds; one call per step
    monkeypatch.setattr(common.time, "monotonic", lambda: float(next(clock)))
    with common.epoch_bar() as bars:
        show = common.epoch_progress(bars, "net [1]", 8)
        for epoch in range(1, 9):
            show(Progress(epoch, 8, 1, 2, None))
            row = {"loss": 1 / epoch, "test_miou": None, "test_oa": 90.0 if epoch == 8 else None}
            show(Progress(epoch, 8, 2, 2, row))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "net [1]: epoch 1/8, loss 1.000, 56 s left",
        "net [1]: epoch 3/8, loss 0.333, 40 s left",
        "net [1]: epoch 5/8, loss 0.200, 24 s left",
        "net [1]: epoch 7/8, loss 0.143, 8 s left",
        "net [1]: epoch 8/8, loss 0.125, test accuracy 90.0 %",
    ]


@learning
def test_demo_trains_evaluates_and_draws(tmp_path, monkeypatch, tiny):
    """The whole demo on a tiny data set: three networks, their figures and a picture."""
    networks = {n: dataclasses.replace(c, points=24, epochs=2, batch=16) for n, c in demo.NETWORKS.items()}
    monkeypatch.setattr(demo, "NETWORKS", networks)
    monkeypatch.setattr(demo, "open_dataset", lambda name, points: tiny)
    moments = []
    data, trained_networks = demo.demo(tmp_path, lambda name, moment: moments.append((name, moment)))
    assert [c.figures["method"] for c in trained_networks] == ["lsr", "fp", "bnn"]
    assert trained_networks[0].bytes * 10 < trained_networks[1].bytes
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert {name for name, _ in moments} == set(networks)
    moments.clear()
    _, again = demo.demo(tmp_path, lambda name, moment: moments.append(moment))
    assert not moments, "a finished demo is shown again without training"
    assert [c.evaluation.overall for c in again] == [c.evaluation.overall for c in trained_networks]
    monkeypatch.setattr(demo, "BENCH_ROUNDS", 2)
    monkeypatch.setattr(demo, "VERIFIED_CLOUDS", 2)
    deployed = demo.deploy(tmp_path, data, trained_networks[0], lambda done, of: None)
    assert deployed["verify"]["ok"]
    assert deployed["verify"]["torch"]["bits_unexplained"] == 0
    assert (tmp_path / "demo.bpn").stat().st_size == deployed["bench"]["bytes"]["packed"]
    assert deployed["as_torch"] >= deployed["clouds"] - 1, "the last layer is rounded to float16"
    assert deployed["name"] in tiny.classes


def test_demo_trains_the_twins_alike_and_the_naive_network_as_in_the_paper():
    one_bit, twin, naive = demo.NETWORKS.values()
    assert dataclasses.replace(one_bit, method="fp", pool="max") == twin
    assert naive == Config(
        method="bnn", pool="max", points=twin.points, epochs=twin.epochs, batch=twin.batch, device="cpu", center="box"
    )
