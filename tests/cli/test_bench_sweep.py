"""`bipointnet bench --sweep` as a user runs it: a table, the same as JSON, a picture; without PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import succeed

from bipointnet.errors import UserError
from bipointnet.extras import installed
from bipointnet.viz.sweep_files import check_files, png_bytes, write_sweep

SHAPES = Path(__file__).parents[1] / "golden" / "shapes.bpn"
OPTIONS = ("--sweep", "--points", "128,32", "--rounds", "3", "--clouds", "20")


class Shown(NamedTuple):
    text: str
    report: dict[str, Any]
    picture: bytes


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """One sweep with all its outputs, where PyTorch cannot be imported, nor by the processes that it starts."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "no" / "torch").mkdir(parents=True)
    (folder / "no" / "torch" / "__init__.py").write_text("raise ImportError('there is no PyTorch here')\n")
    command = [sys.executable, "-m", "bipointnet", "bench", str(SHAPES), *OPTIONS, "-o", "new/a.json"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "no"), "NO_COLOR": "1"}
    done = subprocess.run(
        [*command, "--picture", "a.png"], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "new" / "a.json").read_text())
    return Shown(done.stdout, report, (folder / "a.png").read_bytes())


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("│").split("│")]


def test_the_table_shows_what_the_json_has(shown):
    rows = [cells(line) for line in shown.text.splitlines() if line.startswith("│")]
    sizes = shown.report["sizes"]
    assert [row[0] for row in rows] == [f"{row['points']:,}" for row in sizes] == ["32", "128"]
    for row, size in zip(rows, sizes, strict=True):
        found, ratios = (
            list(size["runtimes"].values()),
            [size["speedup"][name] for name in size["speedup"] if name != "plain"],
        )
        times, faster = row[1 : 1 + len(found)], row[1 + len(found) : 1 + len(found) + len(ratios)]
        for time, each in zip(times, found, strict=True):
            value, unit = time.split()
            us = float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]
            assert us == pytest.approx(each["us"], rel=0.06)
        assert faster == [f"{ratio:.1f} x" for ratio in ratios]
        assert row[-1] == f"{size['accuracy']:.1f} %"
        assert len(row) == 2 + len(found) + (len(found) - 1) + len(ratios), "the memory of plain is not shown"


def test_the_report_names_runtimes_and_the_accuracy_is_better_than_chance(shown):
    expected = ["packed", "plain"] + ["onnxruntime"] * (installed("onnx") and installed("onnxruntime"))
    for row in shown.report["sizes"]:
        assert list(row["runtimes"]) == expected
        assert row["accuracy"] >= 30, "20 classes: chance is 5"
        assert row["accuracy"] % 5 == 0, "20 clouds"
        for found in row["runtimes"].values():
            assert found["reason"] is None
            assert found["rounds"] == 3
    assert (shown.report["threads"], shown.report["rounds"], shown.report["test_clouds"]) == (1, 3, 20)


def test_the_picture_is_a_png_with_lines(shown, tmp_path):
    assert shown.picture.startswith(b"\x89PNG\r\n\x1a\n")
    from matplotlib.image import imread

    (tmp_path / "a.png").write_bytes(shown.picture)
    image = imread(tmp_path / "a.png")[:, :, :3]  # (H, W, 3) in [0, 1]
    height, width, _ = image.shape
    for part, name in ((0, "time"), (2, "accuracy")):  # the memory of a small cloud may be 0
        panel = image[:, part * width // 3 : (part + 1) * width // 3]
        blue = (abs(panel - (0, 0x72 / 255, 0xB2 / 255)) < 0.02).all(axis=2)
        assert blue.sum() > 100, name
    assert height > 300


def test_json_is_printed_alone():
    report = json.loads(succeed("bench", SHAPES, *OPTIONS[:2], "32", "--rounds", "1", "--clouds", "0", "--json"))
    assert [row["points"] for row in report["sizes"]] == [32]
    assert report["sizes"][0]["accuracy"] is None


def test_a_picture_leaves_out_what_is_unknown_and_a_runtime_that_was_not_measured(shown):
    unknown = {"us": None, "rounds": 0, "peak_bytes": None, "reason": "not enough memory"}
    known = {"us": 10.0, "rounds": 3, "peak_bytes": None, "reason": None}
    for packed in (known, unknown):
        row = {"points": 32, "runtimes": {"packed": packed, "onnxruntime": unknown}, "accuracy": None}
        assert png_bytes({**shown.report, "sizes": [row]}).startswith(b"\x89PNG")


def test_files_are_refused_before_anything_is_measured(tmp_path, monkeypatch):
    model = tmp_path / "model.json"
    model.write_bytes(SHAPES.read_bytes())
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError, match=r"model.json: the packed model, which --out would overwrite"):
        check_files(model, None, model)
    with pytest.raises(UserError, match=r"folder.png: a folder where --picture should write a file"):
        check_files(None, tmp_path / "folder.png", model)
    check_files(tmp_path / "a.JSON", tmp_path / "a.png", model)
    monkeypatch.setattr("bipointnet.extras.installed", lambda package: False)
    check_files(tmp_path / "a.json", None, model)
    with pytest.raises(UserError, match=r"--picture needs matplotlib, which is not installed; install it with: pip"):
        check_files(None, tmp_path / "a.png", model)
    assert write_sweep({}, None, None) == []
