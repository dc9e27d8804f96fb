"""The command eval with --corruptions, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import complaint, run, succeed
from conftest import blobs, write_clouds
from packed_networks import save_run

from bipointnet.config import Config
from bipointnet.data.corruptions import CORRUPTIONS
from bipointnet.packing import pack

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clouds of 1100 points in a folder, an untrained run, and its packed model."""
    root = tmp_path_factory.mktemp("robustness")
    write_clouds(root / "data", blobs(0, 6, 1100), blobs(1, 8, 1100))
    save_run(root, Config(points=64, model="pointnet-vanilla"), seed=5)
    pack.export_run(root, root / "m.bpn", "f32")
    return root


def without_torch(*arguments: str | Path) -> str:
    """What a command prints where `import torch` fails, as on a machine without PyTorch."""
    code = "import sys; sys.modules['torch'] = None; from bipointnet.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout


def test_a_run_and_its_packed_model_print_the_same_accuracies(root):
    of_run = json.loads(succeed("eval", root, root / "data", "--corruptions", "--json"))
    of_packed = json.loads(without_torch("eval", root / "m.bpn", root / "data", "--corruptions", "--json"))
    assert "isa" in of_packed
    assert {key: of_packed[key] for key in of_run} == of_run
    assert (of_run["dataset"], of_run["clouds"], of_run["points"], of_run["epoch"]) == ("folder", 8, 1024, 0)
    assert list(of_run["corruptions"]) == list(CORRUPTIONS)
    rows = [row["severities"] for row in of_run["corruptions"].values()]
    assert np.shape(rows) == (7, 5)
    assert of_run["mean"] == pytest.approx(np.mean(rows))
    assert {accuracy * 8 / 100 for row in rows for accuracy in row} <= set(range(9)), "counts of 8 clouds"


def test_the_table_has_a_row_per_corruption_and_a_column_per_severity(root):
    found = json.loads(succeed("eval", root / "m.bpn", root / "data", "--corruptions", "--json"))
    done = run("eval", root / "m.bpn", root / "data", "--corruptions")
    assert done.returncode == 0, done.stderr
    assert "folder: 8 test clouds, accuracy in percent" in done.stdout
    assert "evaluating" not in done.stderr, "a progress bar is for terminals"
    lines = [line.replace("┃", "│").strip("│\n ").split("│") for line in done.stdout.splitlines() if line[0] in "│┃"]
    cells = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in lines}
    assert list(cells) == ["corruption", "clean", *CORRUPTIONS, "mean"]
    assert cells["corruption"] == ["severity 1", "2", "3", "4", "5", "mean"]
    assert cells["clean"] == ["", "", "", "", "", f"{found['clean']:.1f}"]
    for name, row in found["corruptions"].items():
        assert cells[name] == [f"{accuracy:.1f}" for accuracy in (*row["severities"], row["mean"])]
    assert cells["mean"][-1] == f"{found['mean']:.1f}"


def test_mistakes_are_answered_in_one_sentence(root, tmp_path):
    sentence = complaint("eval", GOLDEN / "shapes-parts.bpn", "shapes", "--corruptions")
    assert "labels points (task part); --corruptions is for classifiers; leave it out" in sentence
    sentence = complaint("eval", root / "m.bpn", root / "data", "--corruptions", "--files")
    assert "found --files and --corruptions; expected one of them" in sentence
    write_clouds(tmp_path / "small", blobs(0, 6, 200), blobs(1, 3, 200))
    assert "200 points, expected at least 1024" in complaint(
        "eval", root / "m.bpn", tmp_path / "small", "--corruptions"
    )
