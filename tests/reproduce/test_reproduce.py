"""`bipointnet reproduce`: it trains what is missing, repeats nothing, and survives a kill."""

import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import blobs

from bipointnet.errors import UserError
from bipointnet.reproduce.report import lines
from bipointnet.reproduce.tables import TABLES

ROOT = Path(__file__).parents[2]
SHORT = ["--set", "epochs=2", "--set", "points=16", "--set", "batch=8", "--set", "device=cpu"]


def write_modelnet(folder: Path, points: int) -> Path:
    """Balls, sticks and plates in the layout of ModelNet40."""
    folder.mkdir()
    for seed, (name, clouds) in enumerate((("train", 96), ("test", 48))):
        split = blobs(seed, clouds, points)
        (folder / f"{name}_files.txt").write_text(f"{name}.h5\n")
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["data"], file["label"] = split.points, split.labels[:, None].astype(np.uint8)
    (folder / "shape_names.txt").write_text("ball\nstick\nplate\n")
    return folder


@pytest.fixture
def modelnet(tmp_path) -> Path:
    return write_modelnet(tmp_path / "modelnet40_ply_hdf5_2048", 48)


def command(bipointnet: list[str], modelnet: Path, *options: str, table: str = "deploy") -> list[str]:
    places = ["-o", str(modelnet.parent / "results"), "--runs", str(modelnet.parent / "runs")]
    return [*bipointnet, "reproduce", table, str(modelnet), *places, *SHORT, *options]


def run(words: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True)


def test_runs_that_are_missing_are_trained_and_the_others_are_not(bipointnet, modelnet):
    first = run(command(bipointnet, modelnet, "--only", "variant-c", "--json"))
    assert first.returncode == 0, first.stderr
    results = modelnet.parent / "results"
    (written,) = results.glob("*.json")
    assert written.name == "modelnet-variant-c-paper-seed0.json"
    result = json.loads(written.read_text())
    assert (result["epochs"], result["data"]) == (2, modelnet.name)
    rows = json.loads(first.stdout)["rows"]
    assert rows[2]["figures"]["OA"] == {"paper": 84.6, "ours": [result["last_oa"]]}
    assert all(row["figures"]["OA"]["ours"] == [] for row in rows if row != rows[2])

    before = written.stat().st_mtime_ns
    again = run(command(bipointnet, modelnet, "--only", "variant-c"))
    assert again.returncode == 0, again.stderr
    assert "runs to train" not in again.stderr
    assert written.stat().st_mtime_ns == before

    other = run([*command(bipointnet, modelnet, "--only", "variant-c"), "--set", "epochs=3"])
    assert other.returncode == 2
    assert "holds a run with epochs = 2, found 3 now; choose another folder" in other.stderr


def test_clouds_that_are_too_small_for_corruptions_are_a_reason(bipointnet, modelnet):
    done = run(command(bipointnet, modelnet, "--only", "vanilla-lsr-ours-seed0", table="robustness"))
    assert done.returncode == 2
    assert "48 points" in done.stderr
    assert not (modelnet.parent / "results").exists()


@pytest.mark.long
def test_the_table_of_robustness_evaluates_corrupted_clouds(bipointnet, tmp_path):
    data = write_modelnet(tmp_path / "modelnet", 1024)
    done = run(command(bipointnet, data, "--only", "vanilla-lsr-ours-seed0", "--json", table="robustness"))
    assert done.returncode == 0, done.stderr
    (row,) = [row for row in json.loads(done.stdout)["rows"] if row["figures"]["OA"]["ours"]]
    result = json.loads((tmp_path / "results" / "modelnet-pointnet-vanilla-lsr-ours-seed0.json").read_text())
    assert row["figures"]["corrupted OA"]["ours"] == [result["corrupted_oa"]]
    means = [figures["mean"] for figures in result["corruptions"].values()]
    assert len(means) == 7
    assert result["corrupted_oa"] == pytest.approx(sum(means) / 7)


def test_a_run_that_fails_is_named_and_the_others_continue(bipointnet, modelnet):
    broken = modelnet.parent / "runs" / "modelnet-variant-c-paper-seed0"
    broken.parent.mkdir()
    broken.write_text("a file where the run folder should be")
    done = run(command(bipointnet, modelnet, "--only", "variant", "--jobs", "2", "--set", "epochs=1"))
    assert done.returncode == 2
    assert "modelnet-variant-c-paper-seed0: error:" in done.stderr
    assert "1 of the runs failed (modelnet-variant-c-paper-seed0)" in done.stderr
    assert len(list((modelnet.parent / "results").glob("*.json"))) == 3


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_kill_loses_nothing(bipointnet, modelnet, number):
    words = command(bipointnet, modelnet, "--only", "variant-c", "--set", "epochs=60")
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    folder = modelnet.parent / "runs" / "modelnet-variant-c-paper-seed0"
    until = time.monotonic() + 120
    while not (folder / "metrics.csv").exists():
        assert time.monotonic() < until, "no checkpoint"
        time.sleep(0.05)
    os.kill(process.pid, number)
    error = process.communicate(timeout=60)[1]
    if number == signal.SIGKILL:  # the training is alone now, and keeps others away until it ends
        with (modelnet.parent / "runs" / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
    else:
        assert process.returncode == 128 + number
        assert "the same command continues" in error
    done = run(words)
    assert done.returncode == 0, done.stderr
    result = json.loads((modelnet.parent / "results" / f"{folder.name}.json").read_text())
    undisturbed = run([*command(bipointnet, modelnet, "--only", "variant-c", "--set", "epochs=60"), "-o",
                       str(modelnet.parent / "other"), "--runs", str(modelnet.parent / "other-runs")])  # fmt: skip
    assert undisturbed.returncode == 0, undisturbed.stderr
    other = json.loads((modelnet.parent / "other" / f"{folder.name}.json").read_text())
    assert {name: result[name] for name in ("last_oa", "best_oa", "entropy")} == {
        name: other[name] for name in ("last_oa", "best_oa", "entropy")
    }


def test_a_second_call_waits_for_the_trainings_of_the_first(bipointnet, modelnet):
    runs = modelnet.parent / "runs"
    runs.mkdir()
    with (runs / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run(command(bipointnet, modelnet, "--only", "variant-c"))
    assert done.returncode == 2
    assert "trainings of another `reproduce` are running there" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["deplo"], "TABLE is 'deplo'; expected one of ablation"),
        (["deploy", "shapes"], "DATA holds shapes; expected a data set of this table: modelnet"),
        (["deploy", "shapes", "-o", "own", "--set", "epoch=3"], "--set is 'epoch=3'; expected NAME=VALUE"),
        (["deploy", "shapes", "-o", "own", "--set", "seed=3"], "--set is 'seed=3'; expected NAME=VALUE"),
        (["deploy", "shapes", "--set", "epochs=3"], "--set makes other runs than those of the table; expected -o"),
        (
            ["deploy", "shapes", "-o", "benchmarks/../benchmarks/results/", "--set", "epochs=3"],
            "--set makes other runs than those of the table; expected -o",
        ),
        (["deploy", "shapes", "shapes"], "DATA holds shapes twice"),
    ],
)
def test_mistakes_are_one_sentence(bipointnet, words, sentence):
    done = run([*bipointnet, "reproduce", *words])
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_means_are_over_the_seeds_that_are_there(tmp_path):
    row = next(row for row in TABLES["backbones"].rows if row.seeds == 3)
    for seed, oa in ((0, 80.0), (2, 90.0)):
        (tmp_path / f"{row.name}-seed{seed}.json").write_text(json.dumps({"last_oa": oa, "config": {}}))
    found = next(line for line in lines(TABLES["backbones"], tmp_path) if line.label == row.label)
    assert (found.figures["OA"].ours, found.done, found.seeds) == ((80.0, 90.0), 2, 3)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"config": {}, "model": "pointnet"}'])
def test_files_that_are_no_results_are_a_sentence(tmp_path, content):
    row = TABLES["backbones"].rows[0]
    (tmp_path / f"{row.name}-seed0.json").write_text(content)
    with pytest.raises(UserError, match=r"delete .* to run it again"):
        lines(TABLES["backbones"], tmp_path)


def test_the_page_is_what_the_results_say():
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "benchmarks" / "results_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run `python benchmarks/results_page.py`"
