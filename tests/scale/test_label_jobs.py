"""Jobs that label tiles: a labeled copy of each in its place, once, whatever is damaged or stopped."""

import json
import re
import subprocess
import sys
from pathlib import Path

import laspy
import numpy as np
import pytest
import torch
from commands import complaint, run, succeed
from job_files import rows_of, run_with_kills
from packed_networks import shaken
from scan_data import CODES, NAMES, Tile, write_tile

import bipointnet
from bipointnet import scale
from bipointnet.data.blocks import BlockLayout
from bipointnet.data.class_tables import ClassTable
from bipointnet.data.clouds import Cloud, read
from bipointnet.data.scan_facts import ScanFacts
from bipointnet.data.scan_files import find_scans
from bipointnet.data.summary import Skipped
from bipointnet.errors import UserError
from bipointnet.models import ScenePointNet
from bipointnet.packing import pack
from bipointnet.scale.work import LabelFiles, Row
from bipointnet.viz import labeled


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed model for tiles, as if it had been trained on them."""
    return write_model(tmp_path_factory.mktemp("model") / "tiles.bpn")


def write_model(path: Path, unit: str | None = None) -> Path:
    """unit: of the scans that it was trained on."""
    torch.manual_seed(0)
    network = ScenePointNet(3, linear="lsr", pool="ema-max", in_channels=3, tnets=False)
    facts = ScanFacts(ClassTable(NAMES, tuple((code,) for code in CODES)), None, (), "files", unit, 2.0)
    pack.export(
        shaken(network, 3),
        path,
        classes=NAMES,
        task="semantic",
        normalize="none",
        blocks=BlockLayout(20.0, ("x", "y", "height"), {}),
        training={"points": 64, "scans": facts.as_json()},
    )
    return path


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiles")
    for number in range(6):
        write_tile(root / f"north{number % 2}" / f"tile{number}.{'laz' if number % 3 else 'las'}", Tile(number, 3000))
    write_tile(root / "scan.ply", Tile(9, 2000))
    return root


def test_columns_are_named_as_in_training(model: Path, tmp_path: Path):
    """In files that name none: by `bipointnet.label` and by jobs."""
    points = read(write_tile(tmp_path / "a.ply", Tile(0, 300))).points
    np.savetxt(tmp_path / "a.txt", np.c_[np.arange(300), points], fmt="%.9g")
    packed = bipointnet.load(model)
    expected = bipointnet.label(packed, Cloud(points))
    training = packed.manifest["training"]
    training["scans"] = {**training["scans"], "columns": ["number", "x", "y", "z"]}
    assert np.array_equal(bipointnet.label(packed, tmp_path / "a.txt"), expected)
    work = LabelFiles(model.read_bytes(), out=str(tmp_path / "out"))
    work.predictor.training["scans"] = training["scans"]
    row = work.row(str(tmp_path / "a.txt"))
    assert (row["error"], row["counts"]) == (None, np.bincount(expected, minlength=len(NAMES)).tolist())
    assert np.array_equal(read(Path(row["output"])).points, points)


def test_every_tile_gets_a_labeled_copy_in_its_place(model: Path, tiles: Path, tmp_path: Path):
    out = tmp_path / "labeled"
    assert "7 files done" in succeed("segment", tiles, "-m", model, "-o", out, "--workers", "2")
    packed, rows = bipointnet.load(model), rows_of(out)
    assert len(rows) == 7
    for path, row in rows.items():
        labels = bipointnet.label(packed, path)
        assert row["counts"] == np.bincount(labels, minlength=3).tolist()
        assert row["points"] == len(labels)
        target = out / Path(path).relative_to(tiles)
        assert row["output"] == str(target)
        if target.suffix == ".ply":
            assert np.array_equal(read(target).fields["label"], np.array(CODES)[labels])
            continue
        before, after = laspy.read(path), laspy.read(target)
        np.testing.assert_array_equal(after.classification, np.array(CODES)[labels])
        np.testing.assert_array_equal(after.intensity, before.intensity)
    again = json.loads(succeed("segment", tiles, "-m", model, "-o", out, "--json"))
    assert (again["done"], again["skipped"]) == (7, 7)


def test_damaged_tiles_are_listed_and_the_others_labeled(model: Path, tiles: Path, tmp_path: Path):
    good = sorted(tiles.rglob("*.la?"))
    (tmp_path / "bad.laz").write_bytes(good[1].read_bytes()[:3000])
    done = run("segment", *good, tmp_path / "bad.laz", "-m", model, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "6 files done; 1 cannot be used" in done.stdout
    assert f"error: {tmp_path / 'bad.laz'}: " in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").glob("*.la?")) == sorted(path.name for path in good)


TEXT = """ply
format ascii 1.0
comment label 3 is old
comment label of a machine
element camera 1
property float tilt
element vertex 4
property double x
property short label
property double y
property double z
property uchar shade
element face 1
property list uchar int vertex_indices
end_header
0.5

1 7 2 3 200
nan 7 2 3 100

2.25 7 2 3.5 0
3 9 1e1 3 255
3 0 2 3
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_copy_of_a_ply_of_text_keeps_all_else(model: Path, tmp_path: Path, ending: str):
    text = TEXT.replace("element face 1\nproperty list uchar int vertex_indices\n", "")[:-8]  # a mesh may have no NaN
    (tmp_path / "a.ply").write_bytes(text.replace("\n", ending).encode())
    assert not scale.segment([tmp_path / "a.ply"], model, tmp_path / "out", workers=1).errors
    labels = bipointnet.label(bipointnet.load(model), tmp_path / "a.ply").tolist()
    expected = text.replace("comment label 3 is old\n", "").replace("property short label\n", "")
    names = "".join(f"comment label {code} is {name}\n" for code, name in zip(CODES, NAMES, strict=True))
    expected = expected.replace("1.0\n", f"1.0\n{names}").replace("uchar shade\n", "uchar shade\nproperty int label\n")
    rows = ("1 7 2 3 200", "nan 7 2 3 100", "2.25 7 2 3.5 0", "3 9 1e1 3 255")
    for row, label in zip(rows, (CODES[labels[0]], -1, *(CODES[label] for label in labels[1:])), strict=True):
        words = row.split()
        expected = expected.replace(row, " ".join([words[0], *words[2:], str(label)]))
    assert (tmp_path / "out" / "a.ply").read_bytes() == expected.replace("\n", ending).encode()


def test_a_ply_of_which_only_points_are_copied_has_a_warning(model: Path, tmp_path: Path):
    faces = "element face 1\nproperty list uchar int vertex_indices\n"
    points = "".join(f"{x} {x * x % 7} {x % 5}\n" for x in range(300))
    vertices = "element vertex 300\nproperty float x\nproperty float y\nproperty float z\n"
    (tmp_path / "a.ply").write_text(f"ply\nformat ascii 1.0\n{faces}{vertices}end_header\n3 0 1 2\n{points}")
    assert scale.segment([tmp_path / "a.ply"], model, tmp_path / "out", workers=1).done == 1
    (row,) = rows_of(tmp_path / "out").values()
    assert any("the copy has points and labels only" in warning for warning in row["warnings"])
    assert len(read(tmp_path / "out" / "a.ply").points) == 300


def test_text_that_is_too_large_to_be_read_whole_is_refused(model: Path, tmp_path: Path):
    (tmp_path / "a.ply").write_text(TEXT)
    outcome = scale.segment([tmp_path / "a.ply"], model, tmp_path / "out", workers=1, memory=1000)
    assert "MB of text, expected at most" in outcome.errors[0][1]
    assert "convert it to binary PLY" in outcome.errors[0][1]


def test_two_files_are_never_written_to_one(model: Path, tmp_path: Path):
    files = [write_tile(tmp_path / name, Tile(0, 300)) for name in ("a/tile.ply", "b/tile.ply", "a/tile.txt")]
    for chosen, root in (((0, 1), None), ((0, 2), tmp_path), ((0, 2), None)):
        with pytest.raises(UserError, match=r"its labeled copy would be .*, as that of .*; expected different names"):
            scale.segment([files[number] for number in chosen], model, tmp_path / "out", root=root)
    assert not (tmp_path / "out").exists()
    assert scale.segment(files[:2], model, tmp_path / "out", root=str(tmp_path), workers=1).done == 2


class Broken(scale.LabelFiles):
    """A defect of ours."""

    def use(self, file: Path) -> Row:
        raise KeyError(file.name)


def test_a_defect_becomes_a_row_with_an_error(tmp_path: Path):
    """Otherwise it would end workers, and on Ray the job."""
    (tmp_path / "a.ply").write_text(TEXT)
    found = Broken(b"").row(str(tmp_path / "a.ply"))
    expected = "an unexpected error, which is a defect of bipointnet (KeyError: 'a.ply'); please report it"
    assert found["error"] == f"{tmp_path / 'a.ply'}: {expected}"


JOB = """
import sys
from pathlib import Path
from bipointnet import scale
tiles = sorted(Path(sys.argv[1]).rglob("*.*"))
scale.segment(tiles, sys.argv[2], sys.argv[3], root=sys.argv[1], workers=2, save_seconds=0.2)
"""


@pytest.mark.long
def test_random_kills_change_no_row_and_no_tile(model: Path, tmp_path: Path):
    """2,000 tiles, 20 kills at random moments: of workers, and of the process that started the job."""
    for number in range(2000):
        suffix = "laz" if number % 100 == 0 else "ply" if number % 10 == 0 else "las"
        write_tile(tmp_path / "tiles" / f"{number % 7}" / f"{number}.{suffix}", Tile(number, 60, size=(20, 15)))
    command = [sys.executable, "-c", JOB, str(tmp_path / "tiles"), str(model)]
    calm = tmp_path / "calm"
    subprocess.run([*command, str(calm)], check=True)
    expected, copies = rows_of(calm), copies_in(calm)
    assert len(expected) == len(copies) == 2000
    assert all(row["error"] is None for row in expected.values())
    for stormy in run_with_kills(command, tmp_path / "stormy", 20):
        rows = rows_of(stormy)
        for found in rows.values():
            found["output"] = found["output"].replace(str(stormy), str(calm))
        assert rows == expected
        assert copies_in(stormy) == copies, "every tile is written once, and whole"


def copies_in(out: Path) -> dict[Path, bytes]:
    """The labeled copies in a folder of results."""
    files = [path for path in out.rglob("*") if path.is_file() and path.parent != out]
    return {path.relative_to(out): path.read_bytes() for path in files}


def test_a_job_overwrites_no_other_files(model: Path, tmp_path: Path):
    file = write_tile(tmp_path / "tiles" / "a.las", Tile(0, 500))
    with pytest.raises(UserError, match=r"a\.las: is in the folder for the results; expected scans outside of it"):
        scale.segment([file], model, tmp_path)
    kept = write_tile(tmp_path / "out" / "a.las", Tile(1, 500))
    before = kept.read_bytes()
    with pytest.raises(UserError, match=r"its labeled copy would replace .*a\.las; expected a folder without such"):
        scale.segment([file], model, tmp_path / "out")
    assert kept.read_bytes() == before
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "_job.json").write_text("")
    (tmp_path / "linked" / "a.las").symlink_to(file)
    work = LabelFiles(model.read_bytes(), out=str(tmp_path / "linked"))
    assert "would be overwritten by its labeled copy" in work.row(str(file))["error"]


def test_a_job_overwrites_no_copy_of_another_scan(model: Path, tmp_path: Path):
    """Scans of one name from two folders, in two calls; each call may be repeated."""
    monday, tuesday = (write_tile(tmp_path / day / "tile.ply", Tile(n, 500)) for n, day in enumerate(("mon", "tue")))
    assert scale.segment([monday], model, tmp_path / "out", workers=1).done == 1
    before = (tmp_path / "out" / "tile.ply").read_bytes()
    with pytest.raises(UserError, match=r"tue/tile\.ply: its labeled copy would replace .*, that of .*mon/tile\.ply"):
        scale.segment([tuesday], model, tmp_path / "out", workers=1)
    assert (tmp_path / "out" / "tile.ply").read_bytes() == before
    assert scale.segment([monday], model, tmp_path / "out", workers=1).skipped == 1


def test_labeled_copies_are_no_input(model: Path, tmp_path: Path):
    """Neither for a job that is started again with results below the scans, nor for training."""
    for number in range(3):
        write_tile(tmp_path / "tiles" / f"{number}.las", Tile(number, 500))
    job = ("segment", "tiles", "-m", model, "-o", "tiles/labeled", "--workers", "1", "--json")
    assert json.loads(succeed(*job, cwd=tmp_path))["done"] == 3
    again = json.loads(succeed(*job, cwd=tmp_path))
    assert (again["done"], again["skipped"]) == (3, 3)
    assert len(list((tmp_path / "tiles" / "labeled").rglob("*.las"))) == 3
    found = find_scans(tmp_path / "tiles")
    assert [source.name for source in found.sources] == ["0.las", "1.las", "2.las"]
    assert found.skipped == (Skipped("labeled/", "labels that `segment` wrote"),)


def test_labels_of_single_files_are_no_input(model: Path, tmp_path: Path):
    write_tile(tmp_path / "tiles" / "0.las", Tile(0, 500))
    succeed("segment", "0.las", "-m", model, cwd=tmp_path / "tiles")
    done = run("segment", "tiles", "-m", model, "-o", "labeled", "--workers", "1", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["done"] == 1
    assert "labels that `segment` wrote are left out: tiles/0-labels.las, tiles/0-labels.npy" in done.stderr


def test_labels_of_other_files_are_no_input(model: Path, tmp_path: Path):
    """The folders that `train` accepts: labels in another file beside the scan, or in a folder of their own."""
    for number in range(3):
        write_tile(tmp_path / "scans" / f"{number}.ply", Tile(number, 500))
    np.save(tmp_path / "scans" / "0_labels.npy", Tile(0, 500).codes)
    (tmp_path / "labels").mkdir()
    np.save(tmp_path / "labels" / "1.npy", Tile(1, 500).codes)
    done = run("segment", "scans", "labels", "-m", model, "-o", "out", "--workers", "1", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["done"]) == (0, 3)
    assert "files with the labels of others are left out: labels/1.npy, scans/0_labels.npy" in done.stderr


def test_a_copy_that_is_gone_is_made_again(model: Path, tiles: Path, tmp_path: Path):
    files = sorted(tiles.rglob("*.las"))
    first = scale.segment(files, model, tmp_path / "out", workers=1)
    lost = tmp_path / "out" / files[0].name
    content = lost.read_bytes()
    lost.unlink()
    second = scale.segment(files, model, tmp_path / "out", workers=1)
    assert (first.done, second.done, second.skipped) == (len(files), len(files), len(files) - 1)
    assert lost.read_bytes() == content
    assert len(rows_of(tmp_path / "out")) == len(files)


def test_a_tile_that_changes_while_it_is_labeled_has_no_copy(model: Path, tmp_path: Path):
    class Replacing(LabelFiles):
        def use(self, file: Path) -> Row:
            found = super().use(file)
            write_tile(file, Tile(1, 500))
            return found

    file = write_tile(tmp_path / "a.las", Tile(0, 500))
    row = Replacing(model.read_bytes(), out=str(tmp_path / "out")).row(str(file))
    assert "changed while it was read" in row["error"]
    assert not (tmp_path / "out" / "a.las").exists()


@pytest.mark.parametrize("suffix", [".las", ".ply", ".txt"])
def test_rows_have_the_warnings_of_a_single_file(model: Path, tmp_path: Path, suffix: str):
    """Here the scan is in other units than those of the training: its density is far too low."""
    file = write_tile(tmp_path / f"a{suffix}", Tile(0, 500, size=(4000, 3000)))
    columns = ("x", "y", "z", "intensity", "label") if suffix == ".txt" else ()
    given = ("--columns", ",".join(columns)) if columns else ()
    done = run("segment", file, "-m", model, "-o", tmp_path / "single", *given)
    (warning,) = re.findall(r"warning: .*: (has .* wrong units\?)", done.stderr)
    row = LabelFiles(model.read_bytes(), out=str(tmp_path / "out"), columns=columns).row(str(file))
    assert row["error"] is None
    assert row["warnings"] == [warning]
    outcome = scale.segment([file], model, tmp_path / "job", workers=1, columns=columns)
    assert str(outcome) == "1 files done; 1 with warnings"


def test_the_unit_is_that_of_the_training(model: Path, tmp_path: Path):
    """Unless one is given: for jobs, for `segment`, and for `bipointnet.label`."""
    file, metric = tmp_path / "a.ply", write_tile(tmp_path / "metric.ply", Tile(0, 500))
    points = read(metric).points
    labeled.write_ply(file, points / np.float32(0.3048), np.zeros(500, int), NAMES)
    in_feet = write_model(tmp_path / "feet.bpn", unit="ft")
    expected = bipointnet.label(bipointnet.load(model), file, unit="ft")
    assert np.array_equal(bipointnet.label(bipointnet.load(in_feet), file), expected)
    succeed("segment", file, "-m", in_feet, "-o", tmp_path / "single")
    assert np.array_equal(np.load(tmp_path / "single.npy"), np.array(CODES)[expected])
    scale.segment([file], in_feet, tmp_path / "job", workers=1)
    assert np.array_equal(read(tmp_path / "job" / "a.ply").fields["label"], np.array(CODES)[expected])


@pytest.mark.parametrize("suffix", [".las", ".ply", ".npy"])
def test_labels_of_segment_are_codes_of_the_training(model: Path, tmp_path: Path, suffix: str):
    """So they can be compared with, and trained on, like those of the scans themselves."""
    file = write_tile(tmp_path / "a.las", Tile(0, 500))
    succeed("segment", file, "-m", model, "-o", tmp_path / "b")
    expected = np.array(CODES)[bipointnet.label(bipointnet.load(model), file)]
    assert np.array_equal(np.load(tmp_path / "b.npy"), expected)
    assert np.array_equal(read(tmp_path / "b.ply").fields["label"], expected)
    truth = tmp_path / "truth" / f"b{suffix}"
    truth.parent.mkdir()
    (tmp_path / truth.name).rename(truth)  # away from the other files with its labels
    shown = json.loads(succeed("segment", file, "-m", model, "-o", tmp_path / "c", "--truth", truth, "--json"))
    assert shown["truth"]["oa"] == 100


def test_mistakes_get_one_sentence(model: Path, tiles: Path, tmp_path: Path):
    assert "expected a folder for them; name one with -o" in complaint("segment", tiles, "-m", model)
    assert "no files were named" in complaint("segment", "-m", model)
    truth = ["segment", tiles, "-m", model, "-o", tmp_path / "o", "--truth", "x.npy"]
    assert "--truth, --category, --up and --strict are for one file" in complaint(*truth)
    assert "--truth, --category, --up and --strict are for one file" in complaint(*truth[:-2], "--strict")
    assert "no such file" in complaint("segment", tmp_path / "none.las", "-m", model)
    assert "expected one of m, ft, us-ft" in complaint(
        "segment", tiles, "-m", model, "-o", tmp_path / "o", "--unit", "yd"
    )
