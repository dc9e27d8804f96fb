"""The files of a labeled cloud: their names, what may not be overwritten, and what is written."""

import sys
from pathlib import Path

import laspy
import numpy as np
import pytest
from scan_data import CODES, NAMES, Tile, write_tile

from bipointnet.data import clouds
from bipointnet.data.clouds import Cloud
from bipointnet.errors import UserError
from bipointnet.viz.write import LONGEST_NAME, SUFFIXES, output_files, write_labeled


def test_names_of_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert output_files(None, Path("a/mug.ply"), []) == [Path(f"mug-labels{suffix}") for suffix in SUFFIXES]
    assert output_files(tmp_path, Path("mug.ply"), [])[0] == tmp_path / "mug-labels.ply"
    assert output_files(Path("x.y"), Path("mug.ply"), [])[1] == Path("x.y.npy")
    for name in ("x" * (LONGEST_NAME + 1), "ä" * (LONGEST_NAME // 2 + 1)):
        with pytest.raises(UserError, match="expected the name of the files to write"):
            output_files(Path(name), Path("mug.ply"), [])


def test_no_input_and_no_folder_is_overwritten(tmp_path):
    source = tmp_path / "mug.npy"
    source.touch()
    with pytest.raises(UserError, match="an input file, which would be overwritten"):
        output_files(tmp_path / "mug", source, [source])
    (tmp_path / "taken.html").mkdir()
    with pytest.raises(UserError, match=r"taken\.html: a folder where a file should be written"):
        output_files(tmp_path / "taken", source, [source])


def test_coordinates_are_those_of_the_file_and_the_picture_needs_matplotlib(tmp_path, monkeypatch):
    points = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    cloud = Cloud(points, origin=(1e6, 2e6, 0.0))
    labels = np.arange(20) % 3
    files = output_files(tmp_path / "far", Path("far.las"), [])
    assert write_labeled(files, cloud, labels, list("abc"), "far", "z") == files
    assert all(file.exists() for file in files)
    np.testing.assert_array_equal(np.load(files[1]), labels)
    again = clouds.read(files[0])
    np.testing.assert_allclose(again.points + np.array(again.origin), points + np.array(cloud.origin), atol=1e-3)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    files = output_files(tmp_path / "near", Path("far.las"), [])
    assert write_labeled(files, cloud, labels, list("abc"), "far", "z") == files[:-1]
    assert not files[-1].exists()


def test_every_file_has_the_codes_of_the_training_scans(tmp_path):
    source = tmp_path / "tile.las"
    write_tile(source, Tile(0))
    cloud = clouds.read(source)
    labels = np.random.default_rng(0).integers(0, len(NAMES), len(cloud.points))
    files = output_files(tmp_path / "out", source, [source], las=True)
    write_labeled(files, cloud, labels, list(NAMES), "tile", "z", CODES, source)
    expected = np.array(CODES)[labels]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    np.testing.assert_array_equal(laspy.read(tmp_path / "out.las").classification, expected)
    np.testing.assert_array_equal(clouds.read(tmp_path / "out.ply").fields["label"], expected)


def test_all_files_are_written_or_none(tmp_path, monkeypatch):
    source = tmp_path / "tile.laz"
    write_tile(source, Tile(0))
    cloud = clouds.read(source)
    labels = np.zeros(len(cloud.points), int)
    targets = output_files(tmp_path / "out", source, [source], las=True)

    def full(contents):
        raise UserError("no space left")

    monkeypatch.setattr("bipointnet.viz.labeled.write_all", full)
    with pytest.raises(UserError, match="no space left"):
        write_labeled(targets, cloud, labels, list(NAMES), "tile", "z", CODES, source)
    assert list(tmp_path.iterdir()) == [source]
    monkeypatch.undo()
    damaged = source.with_name("damaged.laz")
    damaged.write_bytes(source.read_bytes()[:3000])
    with pytest.raises(UserError, match="damaged"):
        write_labeled(targets, cloud, labels, list(NAMES), "tile", "z", CODES, damaged)
    assert sorted(tmp_path.iterdir()) == [damaged, source]


def test_only_files_of_an_earlier_labeling_are_replaced(tmp_path):
    """Two scans in one folder: the labels of the first one must not be written over the second one."""
    sources = [tmp_path / name for name in ("a.las", "b.las")]
    for number, source in enumerate(sources):
        write_tile(source, Tile(number))
    for name in ("b", "b.las"):
        with pytest.raises(UserError, match=r"b\.las: is there already, and was not written by an earlier labeling"):
            output_files(tmp_path / name, sources[0], [sources[0]], las=True)
    cloud = clouds.read(sources[0])
    for name in ("labeled", "labeled.laz", "labeled.ply"):
        files = output_files(tmp_path / name, sources[0], [sources[0]], las=True)
        assert files[-1] == tmp_path / "labeled.las"
        write_labeled(files, cloud, np.zeros(len(cloud.points), int), list(NAMES), "a", "z", CODES, sources[0])
