"""The commands on cloud files: inspect, and the options --columns and --strict."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import complaint, run, succeed

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(kind: str) -> Path:
    return GOLDEN / f"{kind}.bpn"


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A scan with columns in an unusual order, and two points without a return."""
    xyz = np.random.default_rng(0).normal(size=(150, 3))
    lines = [f"{i} {z:.6f} {y:.6f} {x:.6f}" for i, (x, y, z) in enumerate(xyz)]
    lines[7] = lines[90] = "0 nan nan nan"
    (tmp_path / "scan.txt").write_text("\n".join(lines) + "\n")
    np.save(tmp_path / "same.npy", np.delete(np.round(xyz, 6), [7, 90], axis=0))
    return tmp_path / "scan.txt"


COLUMNS = ("--columns", "-,z,y,x")
LEFT_OUT = "2 of 150 points have no finite coordinates and were left out"


def test_predict_reads_named_columns_and_says_what_was_left_out(scan: Path) -> None:
    model = ("--model", golden("shapes"), "--json")
    done = run("predict", scan, *COLUMNS, *model)
    assert done.returncode == 0
    assert f"{scan}: {LEFT_OUT}" in done.stderr
    (found,) = json.loads(done.stdout)
    (same,) = json.loads(succeed("predict", scan.parent / "same.npy", *model))
    assert (found["label"], found["probability"]) == (same["label"], pytest.approx(same["probability"], abs=1e-5))
    assert "2 of 150 points with a NaN" in complaint("predict", scan, *COLUMNS, "--strict", *model)


def test_segment_compares_the_points_that_are_left_with_their_truth(scan: Path) -> None:
    pytest.importorskip("matplotlib")
    model = ("--model", golden("shapes-parts"), "--json")
    category = _category()
    first = run("segment", scan, *COLUMNS, *category, *model, "-o", scan.parent / "a")
    assert first.returncode == 0, first.stderr
    assert LEFT_OUT in first.stderr
    labels = np.load(scan.parent / "a.npy")
    assert np.flatnonzero(labels == -1).tolist() == [7, 90]  # of the file's 150 points
    assert (labels.dtype, len(labels)) == (np.int64, 150)
    np.save(scan.parent / "truth.npy", np.maximum(labels, 0))  # points without a return have any label
    compared = succeed(
        "segment", scan, *COLUMNS, *category, *model, "-o", scan.parent / "b", "--truth", scan.parent / "truth.npy"
    )
    assert json.loads(compared)["truth"]["oa"] == 100


def _category() -> list[str]:
    import bipointnet

    categories = bipointnet.load(golden("shapes-parts")).categories
    return ["--category", categories[0]] if categories else []


def test_inspect_shows_a_cloud(scan: Path) -> None:
    shown = succeed("inspect", scan, "--columns", "intensity,z,y,x")
    for words in (
        "scan.txt: text",
        "148 points",
        "intensity",
        "Colors: none",
        "Extent: ",
        "Left out: 2 points",
        "Use: ",
    ):
        assert words in shown
    facts = json.loads(succeed("inspect", scan, "--columns", "intensity,z,y,x", "--json"))
    assert (facts["kind"], facts["points"], facts["dropped"]) == ("cloud", 148, 2)
    assert facts["ranges"]["intensity"] == [0, 149]
    assert "2 of 150 points with a NaN" in complaint("inspect", scan, "--strict")


def test_inspect_refuses_a_bad_cloud_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.ply").write_text("ply\nformat ascii 1.0\n")
    assert "the file ends in its header" in complaint("inspect", tmp_path / "bad.ply")
