"""Manifests: the same data set as CSV and as JSON, and errors with line numbers."""

import json
from pathlib import Path

import pytest
from dataset_errors import error_of
from own_files import write_classes

from bipointnet.data import open_dataset
from bipointnet.data.dataset import PointClouds

ROWS = [(f"scans/{name}/{name}{k}.npy", name) for name in ("cup", "bowl") for k in range(10)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_classes(tmp_path / "scans", cup=10, bowl=10)
    return tmp_path


def write_csv(path: Path, rows: list[tuple[str, ...]], header: str = "path,class") -> Path:
    path.write_text("".join(f"{line}\n" for line in (header, *(",".join(row) for row in rows))))
    return path


def write_json(path: Path, rows: list[tuple[str, ...]]) -> Path:
    keys = ("path", "class", "split")
    path.write_text(json.dumps([dict(zip(keys, row, strict=False)) for row in rows], indent=1))
    return path


def same(one: PointClouds, other: PointClouds) -> bool:
    return all(
        (a.points == b.points).all() and (a.labels == b.labels).all()
        for a, b in ((one.train, other.train), (one.test, other.test))
    )


def test_csv_and_json_are_one_data_set(root: Path) -> None:
    found = [
        open_dataset(str(place), 16)
        for place in (
            write_csv(root / "list.csv", ROWS),
            write_csv(root / "list2.csv", ROWS[::-1], "Path, Class"),
            write_json(root / "list.json", ROWS),
        )
    ]
    excel = root / "excel.csv"
    excel.write_bytes("﻿class;path;weight\r\n".encode() + "".join(f"{c};{p};1\r\n" for p, c in ROWS).encode())
    found.append(open_dataset(str(excel), 16))
    assert found[0].classes == ("bowl", "cup")
    assert all(same(found[0], other) for other in found[1:])
    assert len(found[0].held_out) == 4
    assert found[0].held_out == found[-1].held_out
    assert all(name.startswith("scans/") for name in found[0].held_out)
    assert found[-1].summary is not None
    assert found[-1].summary.notes == ("columns that are not used: weight",)
    assert found[-1].summary.layout == "manifest"


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_a_folder_with_a_manifest(root: Path, suffix: str) -> None:
    write = write_csv if suffix == "csv" else write_json
    write(root / f"manifest.{suffix}", ROWS[5:15])
    assert same(open_dataset(str(root), 16), open_dataset(str(root / f"manifest.{suffix}"), 16))
    assert len(open_dataset(str(root), 16).train) == 8


def test_two_manifests(root: Path) -> None:
    write_csv(root / "manifest.csv", ROWS)
    write_json(root / "manifest.json", ROWS)
    assert error_of(root) == (
        f"{root}: holds manifest.csv and manifest.json; expected one of the two; name one of them"
    )


@pytest.mark.parametrize("last", ["test", "Testing", "val", "validation"])
def test_splits(root: Path, last: str) -> None:
    rows = [(path, name, last if k % 5 == 0 else "train") for k, (path, name) in enumerate(ROWS)]
    data = open_dataset(str(write_csv(root / "list.csv", rows, "path,class,split")), 16)
    assert data.test.points[:, 0, 1].tolist() == [100, 105, 0, 5]
    assert (len(data.train), data.held_out) == (16, ())
    assert data.summary is not None
    assert data.summary.notes == (("val is the test split, as there is no split test",) if last[0] == "v" else ())
    rows[1] = (*rows[1][:2], "val")
    rows[2], rows[12] = ((*rows[k][:2], "test") for k in (2, 12))
    data = open_dataset(str(write_json(root / "list.json", rows)), 16)
    left = 1 if last[0].lower() == "t" else 5
    assert data.summary is not None
    assert data.summary.notes == (f"the split val with {left} files is not used: test is the test split",)


LINE = "scans/cup/cup0.npy,cup"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 is '', expected the names of the columns path, class and, optionally, split"),
        ("file,label\na,b\n", "line 1 is 'file,label', expected the names of the columns"),
        ("0.1,0.2,0.3\n", "line 1 is '0.1,0.2,0.3', expected the names of the columns"),
        ("path,class,split,Split\na,b,train,test\n", "line 1 is 'path,class,split,Split', expected the names of"),
        ("path,class\n", "lists no files"),
        (f"path,class\n{LINE}\n\nscans/cup/cup1.npy\n", "line 4 has 1 fields, expected 2 as in line 1"),
        (f"path,class\n{LINE}\nscans/cup/cup1.npy,\n", "line 3 has no class"),
        (f"path,class\n{LINE}\n,cup\n", "line 3 has no path"),
        (f"path,class\n{LINE}\nscans/cup/nope.npy,cup\n", "line 3 names scans/cup/nope.npy, but "),
        (f"path,class\n{LINE}\nlist.md,cup\n", "line 3 names list.md, whose suffix no reader knows"),
        (f"path,class\n{LINE}\n\n{LINE}\n", "line 4 lists scans/cup/cup0.npy again, as line 2"),
        (f"path,class\n{LINE}\nscans/../scans/cup/cup0.npy,bowl\n", "line 3 lists scans/../scans/cup/cup0.npy again"),
        (f"path,class,split\n{LINE},train\n{LINE[:-9]}1.npy,cup,\n", "line 3 has no split, while line 2 has one"),
        (f"path,class,split\n{LINE},held\n", "line 2 has the split 'held'; expected one of train, training, test"),
        (f'path,class\n{LINE}\n"scans/cup/\ncup1.npy",cup\n{LINE}\n', "line 3 has the path 'scans/cup/\\ncup1.npy'; "),
    ],
)
def test_mistakes_in_csv(root: Path, text: str, message: str) -> None:
    (root / "list.md").write_text("hello")
    (root / "list.csv").write_text(text)
    assert error_of(root / "list.csv").startswith(f"{root / 'list.csv'}: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is not a list of objects in JSON"),
        ("[", "line 1 is not JSON"),
        ('[\n{"path": "a" "class": 1}]', "line 2 is not JSON"),
        ('[\n\n["a", "b"]]', 'line 3 holds ["a", "b"], expected an object like {"path"'),
        ('[\n{"path": 1, "class": "cup"}]', "line 2 holds"),
        ('[\n{"path": "scans/cup/cup0.npy"}]', "line 2 has no class"),
        (
            '[{"path": "scans/cup/cup0.npy",\n"class": "cup"},\n\n{"path": "x.npy", "class": "cup"}]',
            "line 4 names x.npy",
        ),
        ("[" * 100_000, "is nested too deeply"),
        ('[{"path": ' + "9" * 5000 + "}]", "is not JSON (Exceeds the limit"),
        ('[\n{"path": null, "class": "cup"}]', "line 2 holds"),
    ],
)
def test_mistakes_in_json(root: Path, text: str, message: str) -> None:
    (root / "list.json").write_text(text)
    assert error_of(root / "list.json").startswith(f"{root / 'list.json'}: {message}")


def test_a_path_out_of_the_folder_and_back_is_the_same_file(root: Path) -> None:
    """Also where a link makes the folder above another one than the path shows."""
    (root / "link").symlink_to(root / "scans" / "cup")
    rows = [*ROWS, (f"../{root.name}/{ROWS[0][0]}", "bowl")]
    assert "line 22 lists ../" in error_of(write_csv(root / "list.csv", rows))
    rows[-1] = ("link/../cup/cup0.npy", "bowl")
    assert "line 22 lists link/../cup/cup0.npy again, as line 2" in error_of(write_csv(root / "list.csv", rows))


def test_what_pandas_writes(root: Path) -> None:
    """An index without a name, and null for an empty cell."""
    write_csv(root / "list.csv", [(str(k), *row) for k, row in enumerate(ROWS)], ",path,class")
    (root / "list.json").write_text(json.dumps([{"path": path, "class": c, "split": None} for path, c in ROWS]))
    of_csv, of_json = (open_dataset(str(root / name), 16) for name in ("list.csv", "list.json"))
    assert same(of_csv, of_json)
    assert of_csv.summary is not None
    assert of_csv.summary.notes == ("columns that are not used: one without a name",)


def test_a_manifest_that_is_not_text(root: Path) -> None:
    (root / "list.csv").write_bytes(b"path,class\n\xff\xfe\n")
    assert error_of(root / "list.csv").startswith(f"{root / 'list.csv'}: is not text in UTF-8")


def test_classes_that_differ_only_in_case(root: Path) -> None:
    rows = [(path, name.upper() if k == 3 else name) for k, (path, name) in enumerate(ROWS)]
    message = error_of(write_csv(root / "list.csv", rows))
    assert "the classes 'CUP' (scans/cup/cup3.npy) and 'cup' (" in message
