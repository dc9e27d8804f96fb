"""The command predict: many files, some of them bad; runner-ups; warnings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run, succeed

GOLDEN = Path(__file__).parents[1] / "golden" / "shapes.bpn"


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scans")
    rng = np.random.default_rng(0)
    for name in ("b/2.npy", "b/1.npy", "a.npy"):
        (root / name).parent.mkdir(exist_ok=True)
        np.save(root / name, rng.normal(size=(200, 3)).astype(np.float32))
    (root / "b" / "bad.ply").write_text("hello")
    np.savetxt(root / "few.xyz", rng.normal(size=(20, 3)))
    return root


def test_every_good_file_is_classified_and_every_bad_one_named(scans):
    done = run("predict", "b", "gone.npy", "*.off", "x" * 300, "a.npy", "--model", GOLDEN, cwd=scans)
    assert done.returncode == 2
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == ["b/1.npy", "b/2.npy", "a.npy"]
    errors = done.stderr.splitlines()
    assert all(line.startswith("error: ") for line in errors)
    for line, words in zip(errors, ("b/bad.ply", "gone.npy", "*.off: no cloud matches", "too long"), strict=True):
        assert words in line


def test_json_has_a_row_per_file_with_the_runner_ups(scans):
    done = run("predict", "**/*.npy", "b/bad.ply", "--model", GOLDEN, "--json", cwd=scans)
    assert done.returncode == 2
    *rows, bad = json.loads(done.stdout)
    assert [row["file"] for row in rows] == ["a.npy", "b/1.npy", "b/2.npy"]
    for row in rows:
        assert list(row) == ["file", "task", "label", "probability", "points", "top", "warnings"]
        assert (row["task"], row["points"], row["warnings"]) == ("classify", 128, [])
        assert row["top"][0] == {"label": row["label"], "probability": row["probability"]}
        probabilities = [each["probability"] for each in row["top"]]
        assert len(probabilities) == 3
        assert probabilities == sorted(probabilities, reverse=True)
    assert bad.keys() == {"file", "error"}
    assert bad["file"] == "b/bad.ply"


def test_top_shows_more_classes(scans):
    shown = succeed("predict", "a.npy", "--model", GOLDEN, "--top", "2", cwd=scans).splitlines()
    rows = json.loads(succeed("predict", "a.npy", "--model", GOLDEN, "--top", "1000", "--json", cwd=scans))
    assert [line.split("  ")[:2] for line in shown] == [["a.npy", each["label"]] for each in rows[0]["top"][:2]]
    assert sum(each["probability"] for each in rows[0]["top"]) == pytest.approx(1, abs=1e-4)
    done = run("predict", "a.npy", "--model", GOLDEN, "--top", "0", cwd=scans)
    assert done.returncode == 2
    assert "--top" in done.stderr


def test_a_warning_is_one_line_and_no_error(scans):
    done = run("predict", "few.xyz", "a.npy", "--model", GOLDEN, cwd=scans)
    assert done.returncode == 0
    assert done.stderr.splitlines() == ["warning: few.xyz: number of points 20, in training 128: too few to be sure"]
    row = json.loads(succeed("predict", "few.xyz", "--model", GOLDEN, "--json", cwd=scans))[0]
    assert row["warnings"] == ["number of points 20, in training 128: too few to be sure"]


def test_standard_input_is_text(scans):
    command = [sys.executable, "-m", "bipointnet", "predict", "-", "--model", str(GOLDEN), "--json"]
    text = (scans / "few.xyz").read_bytes()
    piped = subprocess.run(command, input=text, capture_output=True, check=True)
    row = json.loads(piped.stdout)[0]
    named = json.loads(succeed("predict", "few.xyz", "--model", GOLDEN, "--json", cwd=scans))[0]
    assert row == {**named, "file": "-"}
    empty = subprocess.run(command, input=b"", capture_output=True, check=False)
    assert empty.returncode == 2
    assert b"error: standard input: " in empty.stderr


def test_any_file_name_can_be_printed(tmp_path, scans):
    name = os.fsdecode(b"\xff [red]\xc3\xa4.npy")
    (tmp_path / name).write_bytes((scans / "a.npy").read_bytes())
    shown = succeed("predict", ".", "--model", GOLDEN, cwd=tmp_path)
    assert shown.startswith("./\\udcff [red]ä.npy  ")
    row = json.loads(succeed("predict", ".", "--model", GOLDEN, "--json", cwd=tmp_path))[0]
    assert row["file"] == f"./{name}"
