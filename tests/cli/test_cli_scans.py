"""The commands for labeled scans, as a user runs them: train, evaluate, export, label, and labels written back."""

import json
import re
from pathlib import Path

import laspy
import numpy as np
import pytest
from commands import complaint, run, succeed
from scan_data import CODES, NAMES, TABLE, Tile, write_tile

import bipointnet
from bipointnet.data.clouds import read
from bipointnet.runtime.label import label

QUICK = ["--task", "semantic", "--model", "pointnet-vanilla", "--points", "128", "--batch", "8", "--device", "cpu"]
FAST = ["--epochs", "6", "--lr", "0.01", "--init-bias-std", "1", "--seed", "1"]
pytestmark = pytest.mark.learning


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with LAZ tiles, a table of classes, a run and its packed model, made by the commands."""
    root = tmp_path_factory.mktemp("scans")
    for number in range(6):
        write_tile(root / "tiles" / f"tile{number}.laz", Tile(number))
    (root / "classes.toml").write_text(TABLE)
    options = ["--classes", root / "classes.toml", "--channels", "intensity", "-o", root / "run"]
    assert "% mIoU" in succeed("train", root / "tiles", *QUICK, *FAST, *options)
    succeed("export", root / "run", "-o", root / "tiles.bpn")
    return root


def test_the_run_and_the_packed_model_know_how_scans_are_cut(made: Path):
    model = bipointnet.load(made / "tiles.bpn")
    assert model.classes == list(NAMES)
    assert model.blocks is not None
    assert (model.blocks.side, model.blocks.channels) == (10.0, ("x", "y", "height", "intensity"))
    assert json.loads((made / "run" / "config.json").read_text())["points"] == 128


def test_eval_has_scores_per_class_and_per_file(made: Path, tmp_path: Path):
    picture = tmp_path / "confusion.png"
    shown = succeed("eval", made / "run", made / "tiles", "--picture", picture)
    assert "tested: 1 that the run held out; left out: 5 of its training files" in shown
    assert "the files with the lowest mIoU" in shown
    assert picture.read_bytes()[1:4] == b"PNG"
    found = json.loads(succeed("eval", made / "run", made / "tiles", "--json"))
    assert found["class_iou"].keys() == set(NAMES)
    (file,) = found["files"]
    assert file["points"] == 6000
    assert file["miou"] == pytest.approx(found["miou"])
    assert found["miou"] > 60, "the classes differ in height: an untrained network has at most 20"
    packed = json.loads(succeed("eval", made / "tiles.bpn", made / "tiles", "--json"))
    assert packed["miou"] == pytest.approx(found["miou"], abs=0.5)
    every = json.loads(succeed("eval", made / "tiles.bpn", made / "tiles", "--all", "--json"))
    assert len(every["files"]) == 6
    assert sum(score["points"] for score in every["files"]) == 36_000


def test_segment_writes_labels_back_into_las(made: Path, tmp_path: Path):
    source = made / "tiles" / "tile0.laz"
    shown = succeed("segment", source, "-m", made / "tiles.bpn", "--truth", source, "-o", tmp_path / "out", "--json")
    found = json.loads(shown)
    assert found["points"] == 6000
    assert found["truth"]["miou"] > 60
    codes = np.load(tmp_path / "out.npy")
    before, after = laspy.read(source), laspy.read(tmp_path / "out.laz")
    np.testing.assert_array_equal(after.classification, codes)
    for name in before.point_format.dimension_names:
        if name != "classification":
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    np.testing.assert_array_equal(codes, np.array(CODES)[label(bipointnet.load(made / "tiles.bpn"), read(source))])


def test_truth_may_be_any_file_with_labels(made: Path, tmp_path: Path):
    tile = Tile(0)
    source = made / "tiles" / "tile0.laz"
    np.save(tmp_path / "codes.npy", tile.codes)
    np.savetxt(tmp_path / "codes.txt", tile.codes, fmt="%d")
    write_tile(tmp_path / "column.ply", tile)
    write_tile(tmp_path / "columns.txt", tile)
    scores = [
        json.loads(
            succeed("segment", source, "-m", made / "tiles.bpn", "-o", tmp_path / "o", "--truth", truth, "--json")
        )
        for truth in (source, *(tmp_path / name for name in ("codes.npy", "codes.txt", "column.ply", "columns.txt")))
    ]
    assert all(score["truth"] == scores[0]["truth"] for score in scores)
    np.save(tmp_path / "short.npy", tile.codes[:-1])
    options = ["segment", source, "-m", made / "tiles.bpn", "-o", tmp_path / "o", "--truth"]
    assert "holds 5999 labels, expected 6000, one per point" in complaint(*options, tmp_path / "short.npy")
    np.save(tmp_path / "other.npy", np.full(6000, 9))
    assert "holds codes without a class: 9 (6,000 points); expected 2, 6, 64; use a model that was" in complaint(
        *options, tmp_path / "other.npy"
    )
    assert "there is no such file; check the path of --truth" in complaint(*options, tmp_path / "none.npy")


def test_a_scan_in_feet_is_noticed(made: Path, tmp_path: Path):
    tile = Tile(0)
    tile.points = tile.points / 0.3048
    write_tile(tmp_path / "feet.las", tile)
    done = run("segment", tmp_path / "feet.las", "-m", made / "tiles.bpn", "-o", tmp_path / "o")
    assert done.returncode == 0
    assert "points per square meter, in training 2: wrong units?" in done.stderr
    done = run("segment", tmp_path / "feet.las", "-m", made / "tiles.bpn", "-o", tmp_path / "m", "--unit", "ft")
    assert done.returncode == 0
    assert "warning" not in done.stderr
    truth = made / "tiles" / "tile0.laz"
    succeed("segment", truth, "-m", made / "tiles.bpn", "-o", tmp_path / "t")
    assert (np.load(tmp_path / "m.npy") == np.load(tmp_path / "t.npy")).mean() > 0.9
    assert "--unit is 'yd'; expected one of m, ft, us-ft" in complaint(
        "segment", truth, "-m", made / "tiles.bpn", "--unit", "yd"
    )


def test_a_scan_may_have_another_axis_up(made: Path, tmp_path: Path):
    tile = Tile(0)
    write_tile(tmp_path / "in-z.ply", tile)
    tile.points = tile.points[:, [0, 2, 1]] * (1, 1, -1)  # y up
    write_tile(tmp_path / "in-y.ply", tile)
    succeed("segment", tmp_path / "in-z.ply", "-m", made / "tiles.bpn", "-o", tmp_path / "z")
    succeed("segment", tmp_path / "in-y.ply", "-m", made / "tiles.bpn", "-o", tmp_path / "y", "--up", "y")
    assert (np.load(tmp_path / "z.npy") == np.load(tmp_path / "y.npy")).mean() > 0.99


def test_one_scan_is_split_by_place(made: Path, tmp_path: Path):
    file = write_tile(tmp_path / "one.las", Tile(7, 20_000, (200, 60)))
    options = ["--classes", made / "classes.toml", "--epochs", "1"]
    succeed("train", file, *QUICK, *options, "-o", tmp_path / "run")
    found = json.loads(succeed("eval", tmp_path / "run", file, "--json"))
    assert found["notes"] == ["tested: the last fifth of 1 files"]
    assert 3000 < found["files"][0]["points"] < 5000
    new = write_tile(tmp_path / "new.las", Tile(8, 20_000, (200, 60)))
    found = json.loads(succeed("eval", tmp_path / "run", new, "--json"))
    assert found["notes"] == ["tested: 1 files that are new to it"]
    assert found["files"][0]["points"] == 20_000


def test_training_continues_with_the_options_of_its_start(made: Path, tmp_path: Path):
    options = ["--classes", made / "classes.toml", "--epochs", "1", "-o", tmp_path / "run"]
    succeed("train", made / "tiles", *QUICK, *options)
    (tmp_path / "run" / "result.json").unlink()
    assert "% mIoU" in succeed("train", made / "tiles", "-o", tmp_path / "run", "--resume")


def test_mistakes_get_one_sentence(made: Path, tmp_path: Path):
    train = ["train", made / "tiles", *QUICK, "-o", tmp_path / "no"]
    assert 'one per line, for example 64 = "car"' in complaint(*train)
    assert "block is -1.0; expected more than 0" in complaint(*train, "--block", "-1")
    assert "split is 'half'; expected one of files, place" in complaint(*train, "--split", "half")
    drawn = ["eval", made / "tiles.bpn", made / "tiles", "--picture", tmp_path / "a.pdf"]
    assert "a.pdf'; expected a file that ends in .png" in complaint(*drawn)
    classify = ["train", made / "tiles", "--block", "3", "-o", tmp_path / "no"]
    assert "block is 3.0 with task 'classify'; expected it with --task semantic" in complaint(*classify)
    assert not (tmp_path / "no").exists()
    bare = write_tile(tmp_path / "bare.las", Tile(0), codes=np.ones(6000))
    assert "no classification, all points have the code 0 or 1" in complaint(
        "train", bare, *QUICK, "-o", tmp_path / "no"
    )


def test_resume_refuses_other_classes(made: Path, tmp_path: Path):
    table = tmp_path / "classes.toml"
    table.write_text(TABLE)
    options = ["--classes", table, "--epochs", "1", "-o", tmp_path / "run"]
    succeed("train", made / "tiles", *QUICK, *options)
    (tmp_path / "run" / "result.json").unlink()
    table.write_text(TABLE.replace("ground", "floor"))
    sentence = complaint("train", made / "tiles", "-o", tmp_path / "run", "--resume")
    assert "its scans are read or cut in another way than when the run was started (scans: " in sentence


def test_the_report_repeats_the_run(made: Path):
    page = re.sub(r"<[^>]+>", "", (made / "run" / "report.html").read_text())
    assert "--task semantic --model pointnet-vanilla --points 128" in page


def test_old_point_formats_are_refused_before_labeling(made: Path, tmp_path: Path):
    """Point formats 0 to 5 hold the codes 0 to 31, and a class has 64."""
    header = laspy.LasHeader(point_format=0, version="1.2")
    header.scales = np.full(3, 0.001)
    las = laspy.LasData(header)
    las.x, las.y, las.z = Tile(0).points.T
    las.intensity = Tile(0).intensity
    las.write(str(tmp_path / "old.las"))
    sentence = complaint("segment", tmp_path / "old.las", "-m", made / "tiles.bpn", "-o", tmp_path / "out")
    assert "a class has the code 64, expected 0 to 31 in point format 0" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["old.las"]


def test_a_packed_model_is_tested_on_what_train_held_out_of_usable_files(tmp_path: Path):
    for number in range(7):
        write_tile(tmp_path / "tiles" / f"t{number}.laz", Tile(number))
    (tmp_path / "tiles" / "t7.laz").write_bytes(b"LASF damaged")
    for number in range(8):  # which would be a part of the fifth that is held out
        write_tile(tmp_path / "tiles" / f"u{number}.laz", Tile(number), codes=np.zeros(6000, int))
    (tmp_path / "classes.toml").write_text(TABLE + '0 = "ignore"\n')
    options = ["--classes", tmp_path / "classes.toml", "--epochs", "1", "--skip-bad", "-o", tmp_path / "run"]
    succeed("train", tmp_path / "tiles", *QUICK, *options)
    held_out = json.loads((tmp_path / "run" / "result.json").read_text())["held_out"]
    succeed("export", tmp_path / "run", "-o", tmp_path / "a.bpn")
    found = json.loads(succeed("eval", tmp_path / "a.bpn", tmp_path / "tiles", "--skip-bad", "--json"))
    assert [score["file"] for score in found["files"]] == held_out
