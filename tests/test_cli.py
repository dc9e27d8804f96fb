"""The commands as a person runs them: what they print, and one clear sentence with exit code 2 for a mistake."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import blobs

from bipointnet import demo
from bipointnet.config import Config

QUICK = ["--points", "24", "--epochs", "6", "--batch", "16", "--lr", "0.003", "--device", "cpu"]


def run(command: list[str], *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of clouds and a run trained on it, from the command line."""
    root = tmp_path_factory.mktemp("trained")
    names = ("ball", "stick", "plate")
    for split, seed, count in (("train", 0, 96), ("test", 1, 30)):
        part = blobs(seed, count, 48)
        for i, (points, label) in enumerate(zip(part.points, part.labels, strict=True)):
            path = root / "data" / split / names[label] / f"{i}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, points)
    done = run([sys.executable, "-m", "bipointnet"], "train", root / "data", *QUICK, "-o", root / "run")
    assert done.returncode == 0, done.stderr
    assert "last epoch" in done.stdout
    return root / "data", root / "run"


def test_eval_prints_a_table_and_json(bipointnet, trained):
    data, folder = trained
    shown = run(bipointnet, "eval", folder, data)
    assert shown.returncode == 0
    assert "overall" in shown.stdout
    assert "ball" in shown.stdout
    judged = json.loads(run(bipointnet, "eval", folder / "best.safetensors", data, "--json").stdout)
    assert judged["clouds"] == 30
    assert judged["oa"] > 80
    assert np.array(judged["confusion"]).sum() == 30


def test_predict_names_what_is_in_a_file(bipointnet, trained, tmp_path):
    data, folder = trained
    files = [next((data / "test" / name).iterdir()) for name in ("ball", "stick", "plate")]
    text = tmp_path / "few points.xyz"
    np.savetxt(text, np.load(files[1])[:20])
    rows = json.loads(run(bipointnet, "predict", folder, *files, text, "--json").stdout)
    assert [Path(row["file"]).name for row in rows] == [p.name for p in [*files, text]]
    assert [row["points"] for row in rows] == [24, 24, 24, 20]
    assert sum(row["label"] == p.parent.name for row, p in zip(rows, files, strict=False)) >= 2
    assert all(0 < row["probability"] <= 1 for row in rows)
    plain = run(bipointnet, "predict", folder, text)
    assert plain.returncode == 0
    assert "few points.xyz" in plain.stdout


def test_options_override_toml_which_overrides_the_defaults(bipointnet, trained, tmp_path):
    data, _ = trained
    toml = tmp_path / "recipe.toml"
    toml.write_text('method = "bnn"\nepochs = 5\npoints = 24\nbatch = 16\ndevice = "cpu"\nlr = 1\n')
    done = run(bipointnet, "train", data, "--config", toml, "--epochs", "1", "-o", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout)["config"]
    assert (config["method"], config["epochs"], config["pool"], config["lr"]) == ("bnn", 1, "ema-max", 1.0)


def test_version(bipointnet):
    from bipointnet import __version__

    assert run(bipointnet, "--version").stdout.strip() == __version__


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
    (root / "nan.xyz").write_text("0 0 nan\n")
    (root / "typo.toml").write_text("epoch = 3\n")
    (root / "type.toml").write_text('epochs = "many"\n')
    (root / "broken.toml").write_text("epochs 3\n")
    return root


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(bipointnet, junk, mistake):
    arguments, words = MISTAKES[mistake]
    done = run(bipointnet, *arguments, cwd=junk)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert all(word in lines[0] for word in words)
    assert not (junk / "runs").exists(), "nothing is left behind"
    assert not (junk / "x").exists(), "nothing is left behind"


def test_a_run_is_not_overwritten(bipointnet, trained):
    data, folder = trained
    before = (folder / "last.safetensors").read_bytes()
    done = run(bipointnet, "train", data, *QUICK, "-o", folder)
    assert done.returncode == 2
    assert "--resume" in done.stderr
    assert (folder / "last.safetensors").read_bytes() == before


def test_other_classes_are_told(bipointnet, trained, junk):
    _, folder = trained
    done = run(bipointnet, "eval", folder, junk / "pair")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_demo_trains_judges_and_draws(tmp_path, monkeypatch, tiny):
    """The whole tour on a tiny set: three networks, a table's worth of figures and a picture."""
    networks = {n: dataclasses.replace(c, points=24, epochs=2, batch=16) for n, c in demo.NETWORKS.items()}
    monkeypatch.setattr(demo, "NETWORKS", networks)
    monkeypatch.setattr(demo, "open_dataset", lambda name, points: tiny)
    moments = []
    contestants = demo.demo(tmp_path, lambda name, moment: moments.append((name, moment)))
    assert [c.figures["method"] for c in contestants] == ["lsr", "fp", "bnn"]
    assert contestants[0].bytes * 10 < contestants[1].bytes
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert {name for name, _ in moments} == set(networks)
    moments.clear()
    again = demo.demo(tmp_path, lambda name, moment: moments.append(moment))
    assert not moments, "a finished demo is shown again without training"
    assert [c.judgement.overall for c in again] == [c.judgement.overall for c in contestants]


def test_demo_trains_the_twins_alike_and_the_naive_network_as_in_the_paper():
    one_bit, twin, naive = demo.NETWORKS.values()
    assert dataclasses.replace(one_bit, method="fp", pool="max") == twin
    assert naive == Config(
        method="bnn", pool="max", points=twin.points, epochs=twin.epochs, batch=twin.batch, device="cpu"
    )
