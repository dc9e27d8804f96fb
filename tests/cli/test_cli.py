"""The commands as a person runs them: what they print, and one clear sentence with exit code 2 for a mistake."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run
from conftest import blobs, write_clouds

from bipointnet import demo
from bipointnet.config import Config
from bipointnet.models import checkpoint

QUICK = ["--points", "24", "--epochs", "6", "--batch", "16", "--lr", "0.003", "--device", "cpu"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of clouds and a run trained on it, from the command line."""
    root = tmp_path_factory.mktemp("trained")
    write_clouds(root / "data", blobs(0, 96, 48), blobs(1, 30, 48))
    done = run("train", root / "data", *QUICK, "-o", root / "run")
    assert done.returncode == 0, done.stderr
    assert "last epoch" in done.stdout
    return root / "data", root / "run"


def test_eval_prints_a_table_and_json(trained):
    data, folder = trained
    shown = run("eval", folder, data)
    assert shown.returncode == 0
    assert "overall" in shown.stdout
    assert "ball" in shown.stdout
    evaluated = json.loads(run("eval", folder / "best.safetensors", data, "--json").stdout)
    assert evaluated["clouds"] == 30
    assert evaluated["oa"] > 80
    assert np.array(evaluated["confusion"]).sum() == 30


def test_predict_names_what_is_in_a_file(trained, tmp_path):
    data, folder = trained
    files = [next((data / "test" / name).iterdir()) for name in ("ball", "stick", "plate")]
    text = tmp_path / "few points.xyz"
    np.savetxt(text, np.load(files[1])[:20])
    rows = json.loads(run("predict", folder, *files, text, "--json").stdout)
    assert [Path(row["file"]).name for row in rows] == [p.name for p in [*files, text]]
    assert [row["points"] for row in rows] == [24, 24, 24, 20]
    assert sum(row["label"] == p.parent.name for row, p in zip(rows, files, strict=False)) >= 2
    assert all(0 < row["probability"] <= 1 for row in rows)
    plain = run("predict", folder, text)
    assert plain.returncode == 0
    assert "few points.xyz" in plain.stdout


@pytest.fixture(scope="module")
def packed(trained: tuple[Path, Path]) -> Path:
    """The trained run as a packed model, from the command line."""
    _, folder = trained
    path = folder.parent / "model.bpn"
    done = run("export", folder, "-o", path)
    assert done.returncode == 0, done.stderr
    assert f"{path.stat().st_size:,} bytes" in done.stdout
    assert [p.name for p in folder.parent.iterdir() if p.name.endswith(".part")] == []
    return path


def without_torch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command where `import torch` fails, as it does on a machine without PyTorch."""
    code = "import sys; sys.modules['torch'] = None; from bipointnet.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"}, check=False)


def test_export_says_what_it_wrote(trained, packed, tmp_path):
    _, folder = trained
    path = tmp_path / "f32.bpn"
    said = json.loads(run("export", folder, "-o", path, "--last", "f32", "--json").stdout)
    assert said["bytes"] == path.stat().st_size > packed.stat().st_size
    assert said["ratio"] == pytest.approx(said["fp32"] / said["bytes"], abs=0.01)


def test_a_packed_model_is_judged_and_asked_like_its_run_but_without_torch(trained, packed):
    data, folder = trained
    assert "overall" in without_torch("eval", packed, data).stdout
    evaluated = json.loads(without_torch("eval", packed, data, "--json").stdout)
    of_run = json.loads(run("eval", folder, data, "--json").stdout)
    assert evaluated["confusion"] == of_run["confusion"]
    assert (evaluated["clouds"], evaluated["oa"], evaluated["epoch"]) == (30, of_run["oa"], of_run["epoch"])
    files = sorted((data / "test").rglob("*.npy"))[::5]
    rows = json.loads(without_torch("predict", packed, *files, "--json").stdout)
    of_run = json.loads(run("predict", folder, *files, "--json").stdout)
    for row, other in zip(rows, of_run, strict=True):
        assert [row[key] for key in ("file", "label", "points")] == [other[key] for key in ("file", "label", "points")]
        assert row["probability"] == pytest.approx(other["probability"], abs=0.02)


def test_inspect_shows_operations_and_layers(trained, packed):
    shown = without_torch("inspect", packed)
    assert shown.returncode == 0
    assert all(word in shown.stdout for word in ("bilinear_pool", "1 bit", "float16", "a point", "stick", "ema-max"))
    facts = json.loads(without_torch("inspect", packed, "--json").stdout)
    assert facts["bytes"]["file"] == packed.stat().st_size
    assert [o["op"] for o in facts["operations"]][:3] == ["points", "dense", "sign"]
    assert facts["multiply_adds"]["one_bit"] == 24 * (64 * 128 + 128 * 1024) + 1024 * 512 + 512 * 256
    assert facts["training"]["points"] == 24
    layers = run("inspect", trained[1])
    assert all(word in layers.stdout for word in ("pooled.linear", "1024 x 128", "131,073", "parameters"))


def test_verify_compares_everything(trained, packed, tmp_path):
    data, folder = trained
    report = json.loads(run("verify", packed, "--run", folder, "--data", data, "--json").stdout)
    assert report["ok"]
    assert report["clouds"] == report["torch"]["clouds"] == 37
    assert report["torch"]["labels_different"] == report["torch"]["unexplained"] == 0
    shown = without_torch("verify", packed)
    assert shown.returncode == 0
    assert "All is as it should be" in shown.stdout
    tensors, facts = checkpoint.load(folder / "last.safetensors")
    tensors["head.0.0.weight"].neg_()
    checkpoint.save(tmp_path / "other.safetensors", tensors, facts)
    wrong = run("verify", packed, "--run", tmp_path / "other.safetensors")
    assert wrong.returncode == 1
    assert "Not as it should be" in wrong.stdout
    assert "operation" in wrong.stdout


def test_bench_prints_a_table_and_json(packed):
    report = json.loads(run("bench", packed, "--points", "32", "--rounds", "3", "--json").stdout)
    assert (report["points"], report["threads"], report["rounds"]) == (32, 1, 3)
    assert report["ratio"]["torch"] > 0
    shown = without_torch("bench", packed, "--points", "32", "--rounds", "3")
    assert shown.returncode == 0, shown.stderr
    assert "portable" in shown.stdout
    assert "torch" not in shown.stdout


def test_options_override_toml_which_overrides_the_defaults(trained, tmp_path):
    data, _ = trained
    toml = tmp_path / "recipe.toml"
    toml.write_text('method = "bnn"\nepochs = 5\npoints = 24\nbatch = 16\ndevice = "cpu"\nlr = 1\n')
    done = run("train", data, "--config", toml, "--epochs", "1", "-o", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout)["config"]
    assert (config["method"], config["epochs"], config["pool"], config["lr"]) == ("bnn", 1, "ema-max", 1.0)


def test_version():
    from bipointnet import __version__

    assert run("--version").stdout.strip() == __version__


MISTAKES = {
    "no such data": (["train", "nowhere"], ["nowhere", "shapes"]),
    "empty folder": (["train", "empty"], ["empty", "layout"]),
    "a class with no file": (["train", "hollow"], ["hollow/b", "suffixes"]),
    "unknown method": (["train", "shapes", "--method", "lrs"], ["lrs", "did you mean 'lsr'"]),
    "unknown option in the TOML": (["train", "shapes", "--config", "typo.toml"], ["typo.toml", "epoch", "'epochs'"]),
    "wrong type in the TOML": (["train", "shapes", "--config", "type.toml"], ["type.toml", "'many'", "int"]),
    "not a TOML": (["train", "shapes", "--config", "broken.toml"], ["broken.toml", "TOML"]),
    "no such TOML": (["train", "shapes", "--config", "no.toml"], ["no.toml"]),
    "zero epochs": (["train", "shapes", "--epochs", "0"], ["epochs is 0", "at least 1"]),
    "binary first layer of a float network": (
        ["train", "shapes", "--method", "fp", "--binary-first"],
        ["--method lsr"],
    ),
    "no such run": (["eval", "nowhere", "shapes"], ["nowhere", "not there"]),
    "a text as a run": (["predict", "typo.toml", "nan.xyz"], ["typo.toml", "not a checkpoint"]),
    "export of nothing": (["export", "nowhere", "-o", "m.bpn"], ["nowhere", "not there"]),
    "export of a packed model": (["export", "hollow.bpn", "-o", "m.bpn"], ["hollow.bpn", "packed model already"]),
    "export into a folder": (["export", "nowhere", "-o", "empty"], ["empty", "a folder"]),
    "a damaged packed model": (["predict", "hollow.bpn", "nan.xyz"], ["hollow.bpn", "damaged", "export"]),
    "inspect of a text": (["inspect", "typo.toml"], ["typo.toml", "not a packed model"]),
    "verify of a text": (["verify", "typo.toml"], ["typo.toml", "not a packed model"]),
    "verify of nothing": (["verify", "nowhere"], ["nowhere", "no such file"]),
    "bench of nothing": (["bench", "nowhere"], ["nowhere", "no such file"]),
    "bench of no points": (["bench", "hollow.bpn", "--points", "0"], ["points is 0"]),
    "no such init": (["train", "pair", "--points", "4", "--init", "nowhere", "-o", "x"], ["nowhere", "not there"]),
    "fewer points than asked": (["train", "pair", "--points", "9"], ["pair", "0.xyz", "8 points", "--points 8"]),
    "NaN points": (["train", "rotten", "--points", "2"], ["bad.xyz", "NaN", "remove"]),
}


@pytest.fixture(scope="module")
def junk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that can be wrong."""
    root = tmp_path_factory.mktemp("junk")
    (root / "empty").mkdir()
    (root / "hollow" / "b").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("hollow/a", "pair/a", "pair/b", "rotten/a", "rotten/b"):
        (root / name).mkdir(parents=True)
        for i in range(3):
            np.savetxt(root / name / f"{i}.xyz", rng.normal(size=(8, 3)))
    (root / "rotten" / "a" / "bad.xyz").write_text("0 0 0\n1 nan 0\n1 1 1\n")
    header = json.dumps({"__metadata__": {"bipointnet": json.dumps({"format": 1, "program": []})}}).encode()
    (root / "hollow.bpn").write_bytes(len(header).to_bytes(8, "little") + header)
    (root / "nan.xyz").write_text("0 0 nan\n")
    (root / "typo.toml").write_text("epoch = 3\n")
    (root / "type.toml").write_text('epochs = "many"\n')
    (root / "broken.toml").write_text("epochs 3\n")
    return root


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(junk, mistake):
    arguments, words = MISTAKES[mistake]
    done = run(*arguments, cwd=junk)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert all(word in lines[0] for word in words)
    assert not (junk / "runs").exists(), "nothing is left behind"
    assert not (junk / "x").exists(), "nothing is left behind"
    assert not (junk / "m.bpn").exists(), "nothing is left behind"


def test_a_run_is_not_overwritten(trained):
    data, folder = trained
    before = (folder / "last.safetensors").read_bytes()
    done = run("train", data, *QUICK, "-o", folder)
    assert done.returncode == 2
    assert "--resume" in done.stderr
    assert (folder / "last.safetensors").read_bytes() == before


def test_other_classes_are_told(trained, junk):
    _, folder = trained
    done = run("eval", folder, junk / "pair")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_demo_trains_judges_and_draws(tmp_path, monkeypatch, tiny):
    """The whole tour on a tiny set: three networks, a table's worth of figures and a picture."""
    networks = {n: dataclasses.replace(c, points=24, epochs=2, batch=16) for n, c in demo.NETWORKS.items()}
    monkeypatch.setattr(demo, "NETWORKS", networks)
    monkeypatch.setattr(demo, "open_dataset", lambda name, points: tiny)
    moments = []
    data, contestants = demo.demo(tmp_path, lambda name, moment: moments.append((name, moment)))
    assert [c.figures["method"] for c in contestants] == ["lsr", "fp", "bnn"]
    assert contestants[0].bytes * 10 < contestants[1].bytes
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert {name for name, _ in moments} == set(networks)
    moments.clear()
    _, again = demo.demo(tmp_path, lambda name, moment: moments.append(moment))
    assert not moments, "a finished demo is shown again without training"
    assert [c.evaluation.overall for c in again] == [c.evaluation.overall for c in contestants]
    monkeypatch.setattr(demo, "BENCH_ROUNDS", 2)
    monkeypatch.setattr(demo, "VERIFIED_CLOUDS", 2)
    shipped = demo.deploy(tmp_path, data, contestants[0], lambda done, of: None)
    assert shipped["verify"]["ok"]
    assert shipped["verify"]["torch"]["unexplained"] == 0
    assert (tmp_path / "demo.bpn").stat().st_size == shipped["bench"]["bytes"]["packed"]
    assert shipped["as_torch"] >= shipped["clouds"] - 1, "the last layer is rounded to float16"
    assert shipped["name"] in tiny.classes


def test_demo_trains_the_twins_alike_and_the_naive_network_as_in_the_paper():
    one_bit, twin, naive = demo.NETWORKS.values()
    assert dataclasses.replace(one_bit, method="fp", pool="max") == twin
    assert naive == Config(
        method="bnn", pool="max", points=twin.points, epochs=twin.epochs, batch=twin.batch, device="cpu"
    )
