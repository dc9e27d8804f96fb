"""The summary of a data set: complete as JSON, short as text."""

import json
from pathlib import Path

import numpy as np
import pytest
from own_files import write_classes, write_cloud

from bipointnet.data import open_dataset, shapes
from bipointnet.data.dataset import PointClouds
from bipointnet.data.summary import ClassSize, Skipped, Summary


def summary_of(data: PointClouds) -> Summary:
    assert data.summary is not None
    return data.summary


def test_the_summary_of_a_folder(tmp_path: Path) -> None:
    write_classes(tmp_path, cup=5, bowl=10)
    write_cloud(tmp_path / "cup" / "large.npy", points=900)
    (tmp_path / "cup" / "mesh.off").write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    data = open_dataset(str(tmp_path), 16)
    found = summary_of(data)
    assert found.classes == (ClassSize("bowl", 8, 2), ClassSize("cup", 6, 1))
    assert (found.points, found.meshes) == ((40, 40, 900), 1)
    lines = found.lines()
    assert lines[0] == f"{tmp_path}: layout CLASS/*, 2 classes, 14 clouds to train, 3 to test"
    assert lines[4] == "points per file: 40 to 900, median 40; 1 mesh, sampled on the surface"
    assert lines[5] == f"held out for the test: {', '.join(data.held_out)}"
    stored = json.loads(json.dumps(found.as_json()))
    assert stored["points"] == {"min": 40, "median": 40, "max": 900}
    assert stored["held_out"] == list(data.held_out)
    assert stored["classes"][1] == {"name": "cup", "train": 6, "test": 1}


def test_every_data_set_has_a_summary(tiny: PointClouds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "shapes", lambda points, seed: tiny)
    data = open_dataset("shapes", 16)
    found = summary_of(data)
    assert (found.data, found.layout, len(found.classes)) == ("shapes", "built in", 3)
    assert sum(size.train for size in found.classes) == len(data.train)
    assert np.bincount(data.test.labels).tolist() == [size.test for size in found.classes]


def test_the_text_stays_short() -> None:
    classes = tuple(ClassSize(f"class{k}", 1000, 200) for k in range(40))
    names = tuple(f"class0/{k}.ply" for k in range(8000))
    skipped = tuple(Skipped(f"{k}.md", "no reader for '.md'") for k in range(100))
    lines = Summary("data", "CLASS/*", classes, (5, 6, 7), 3, names, skipped, ("a note",)).lines()
    assert len(lines) == 15
    assert max(map(len, lines)) < 200
    assert lines[0].endswith("40 classes, 40,000 clouds to train, 8,000 to test")
    assert lines[10] == "  and 32 more classes"
    assert lines[12].endswith("class0/4.ply and 7,995 more")
    assert lines[13].endswith("4.md (no reader for '.md') and 95 more")
