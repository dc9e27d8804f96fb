"""glTF with its buffer in a file of its own, as most programs export it: the buffer is a part of the cloud."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from awkward_files import gltf

from bipointnet.data import clouds, open_dataset
from bipointnet.data.cache import Entry
from bipointnet.data.gltf_files import buffer_files
from bipointnet.data.reading import cloud_job, fingerprint
from bipointnet.data.scan_files import find_scans
from bipointnet.evaluation.inputs import expand


def write_gltf(path: Path, value: float = 0.0, suffix: str = ".bin") -> Path:
    """A cloud of 40 points with y = `value` in two files; returns the one with the buffer."""
    points = np.stack([np.arange(40), np.full(40, value), np.zeros(40)], axis=1).astype("<f4")
    buffer = path.with_name(f"{path.stem} data{suffix}")  # a space is %20 in the .gltf
    uri = buffer.name.replace(" ", "%20")
    path.parent.mkdir(parents=True, exist_ok=True)
    primitives = [{"attributes": {"POSITION": 0}, "mode": 0}]
    named = {"buffers": [{"uri": uri, "byteLength": points.nbytes}]}
    document = json.loads(gltf(primitives, [(points, {})], binary=False)) | named
    path.write_text(json.dumps(document))
    buffer.write_bytes(points.tobytes())
    return buffer


def write_kitti(path: Path) -> Path:
    path.write_bytes(np.ones((40, 4), "<f4").tobytes())
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for label, name in enumerate(("bowl", "cup")):
        for index in range(5):
            write_gltf(tmp_path / "data" / name / f"{index}.gltf", 10 * label + index)
    return tmp_path / "data"


def test_a_buffer_is_no_cloud_of_its_own(data: Path) -> None:
    found = open_dataset(str(data), 16)
    assert len(found.train) + len(found.test) == 10
    assert found.summary is not None
    assert not found.summary.skipped
    assert {Path(each.name).suffix for each in expand([str(data), f"{data}/*/*"], clouds.SUFFIXES)} == {".gltf"}
    assert {source.file.suffix for source in find_scans(data).sources} == {".gltf"}


def test_a_buffer_may_have_any_suffix(tmp_path: Path) -> None:
    for name in ("bowl", "cup"):
        for index in range(2):
            write_gltf(tmp_path / name / f"{index}.gltf", index, ".dat")
    found = open_dataset(str(tmp_path), 16)
    assert found.summary is not None
    assert not found.summary.skipped


def test_a_bin_that_no_gltf_names_is_a_cloud(data: Path) -> None:
    for name in ("bowl", "cup"):
        write_kitti(data / name / "000123.bin")
    found = open_dataset(str(data), 16)
    assert len(found.train) + len(found.test) == 12
    named = {Path(each.name).name for each in expand([str(data)], clouds.SUFFIXES)}
    assert named == {*(f"{i}.gltf" for i in range(5)), "000123.bin"}
    assert len(find_scans(data).sources) == 12


def test_a_changed_buffer_is_read_again_and_has_another_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "a.gltf"
    buffer = write_gltf(file, value=1)
    before, print_before = cloud_job("a", file, 16, 0).run()[0], fingerprint(file)
    changed = np.frombuffer(buffer.read_bytes(), "<f4") + 1
    buffer.write_bytes(changed.tobytes())
    os.utime(buffer, (1e9, 1e9))
    after, is_new = cloud_job("a", file, 16, 0).run()
    assert is_new
    assert isinstance(before, Entry)
    assert isinstance(after, Entry)
    assert (before.rows[0, 1], after.rows[0, 1]) == (1, 2)
    assert fingerprint(file) not in (print_before, before.fingerprint)
    assert after.fingerprint == fingerprint(file)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "garbage",
        "{}",
        '{"buffers": 3}',
        '{"buffers": [{"uri": 3}]}',
        '{"buffers": [{"uri": "../a.bin"}]}',
        '{"buffers": [{"uri": "gone.bin"}]}',
        '{"buffers": [{"uri": "%s"}]}' % ("a" * 5000),
        "[" * 100_000,
    ],
)
def test_a_damaged_file_has_no_buffers(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.gltf").write_text(content)
    assert buffer_files([tmp_path / "a.gltf", tmp_path / "no such.gltf"]) == []
