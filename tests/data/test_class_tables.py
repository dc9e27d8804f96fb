"""class_tables.py: gives the class of each code."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bipointnet.data.class_tables import ASPRS, IGNORED, ClassTable, numbered_table, read_table, standard_table
from bipointnet.errors import UserError


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@st.composite
def tables(draw: st.DrawFn) -> ClassTable:
    codes = draw(st.lists(st.integers(0, 65535) | st.integers(0, 30), min_size=1, max_size=20, unique=True))
    owners = [draw(st.integers(-1, 3)) for _ in codes]
    groups = [tuple(code for code, owner in zip(codes, owners, strict=True) if owner == i) for i in range(4)]
    groups = [group for group in groups if group]
    ignored = frozenset(code for code, owner in zip(codes, owners, strict=True) if owner < 0)
    return ClassTable(tuple(f"class {i}" for i in range(len(groups))), tuple(groups), ignored)


@settings(max_examples=200, deadline=None)
@given(tables(), st.data())
def test_index_of_is_a_dictionary(table: ClassTable, data: st.DataObject) -> None:
    index = dict.fromkeys(table.ignored, -1)
    index |= {code: i for i, group in enumerate(table.codes) for code in group}
    codes = data.draw(st.lists(st.sampled_from(sorted(index)), max_size=30))
    dtype = data.draw(st.sampled_from([np.int64, np.uint16, np.int32]))
    found = table.index_of(np.array(codes, dtype), "a.las")
    assert found.dtype == np.int64
    assert found.tolist() == [index[code] for code in codes]
    for index, code in enumerate(table.written):
        assert table.index_of(np.array([code]), "a.las").tolist() == [index]
    assert ClassTable.from_json(table.as_json()) == table


@settings(max_examples=100, deadline=None)
@given(tables(), st.lists(st.integers(-5, 70_000), min_size=1, max_size=30))
def test_unknown_codes_are_counted(table: ClassTable, codes: list[int]) -> None:
    known = {*table.ignored, *(code for group in table.codes for code in group)}
    unknown = sorted(set(codes) - known)
    if not unknown:
        return
    with pytest.raises(UserError) as caught:
        table.index_of(np.array(codes), "a.las")
    for code in unknown[:8]:
        count = codes.count(code)
        assert f" {code} ({count} point{'s' * (count > 1)})" in str(caught.value)


def test_the_sentence_for_unknown_codes() -> None:
    table = ClassTable(("ground", "car"), ((2,), (64, 65)), frozenset({7}))
    with pytest.raises(UserError) as caught:
        table.index_of(np.array([2, 66, 66, 7, 70]), "a.las")
    assert str(caught.value) == (
        "a.las: holds codes without a class: 66 (2 points), 70 (1 point); expected 2, 64, 65; name each in a table "
        'given with --classes, for example 66 = "car", or 66 = "ignore"'
    )


@pytest.mark.parametrize(
    ("names", "codes", "ignored"),
    [
        (("a",), ((1,), (2,)), ()),
        (("a", "b"), ((1,), ()), ()),
        (("a", "b"), ((1,), (1,)), ()),
        (("a", "b"), ((1,), (2, 2)), ()),
        (("a", "b"), ((1,), (2,)), (2,)),
        (("a", "b"), ((1,), (-2,)), ()),
        (("a", "b"), ((1,), (65536,)), ()),
    ],
)
def test_tables_that_contradict_themselves(names: tuple, codes: tuple, ignored: tuple) -> None:
    with pytest.raises(UserError, match="expected one or more codes from 0 to 65535 per class and each code once"):
        ClassTable(names, codes, frozenset(ignored))


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        [],
        {},
        {"names": ["a"], "codes": [[1]]},
        {"names": ["a"], "codes": [1], "ignored": []},
        {"names": [1], "codes": [[1]], "ignored": []},
        {"names": ["a"], "codes": [["1"]], "ignored": []},
        {"names": ["a"], "codes": [[1.0]], "ignored": []},
        {"names": ["a"], "codes": [[True]], "ignored": []},
        {"names": ["a"], "codes": [[1]], "ignored": None},
        {"names": 5, "codes": [[1]], "ignored": []},
        {"names": ["a"], "codes": [[1]], "ignored": [[2]]},
    ],
)
def test_json_that_is_no_table(value: Any) -> None:
    with pytest.raises(UserError):
        ClassTable.from_json(value)


def test_standard_names() -> None:
    assert list(ASPRS) == list(range(19))
    assert standard_table({6: 1, 2: 2, 7: 1}) == ClassTable(("ground", "building"), ((2,), (6,)), frozenset(IGNORED))
    assert standard_table(dict.fromkeys(ASPRS, 1)).names == tuple(ASPRS[code] for code in ASPRS if code not in IGNORED)
    with pytest.raises(UserError) as caught:
        standard_table({2: 9, 65: 1200, 64: 3})
    assert "codes without a standard name: 64 (3 points), 65 (1,200 points)" in str(caught.value)
    assert 'with --classes, one per line, for example 64 = "car"' in str(caught.value)


def test_numbered_names() -> None:
    expected = ClassTable(("label 0", "label 5", "label 12"), ((0,), (5,), (12,)))
    assert numbered_table({12, 0, 5}) == expected
    of_numpy: Any = np.array([5, 0, 12, 5])
    assert numbered_table(of_numpy) == expected
    assert [type(code) for group in numbered_table(of_numpy).codes for code in group] == [int] * 3  # for JSON


@pytest.mark.parametrize("lead", ["", "[classes]\n", "# a comment\n\n[classes]\n"])
def test_read_table(tmp_path: Path, lead: str) -> None:
    lines = '64 = "car"\n65 = "car"\n2 = "ground"\n"3" = "  low plant "\n7 = "ignore"\n0 = "Ignore"\n1 = "ground"\n'
    table = read_table(write(tmp_path / "classes.toml", lead + lines))
    assert table == ClassTable(("ground", "low plant", "car"), ((1, 2), (3,), (64, 65)), frozenset({0, 7}))
    assert table.written == (1, 3, 64)


def test_a_table_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    content = '2 = "ground"\n3 = "plant"\n'
    assert read_table(write(tmp_path / "classes.toml", content.encode("utf-8-sig"))).names == ("ground", "plant")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("2: ground", "is not TOML ("),
        ('2 = "a"\n2 = "b"', "is not TOML ("),
        (b"\xff\xfe2", "is not TOML ("),
        ("a = " + "[" * 100_000, "is not TOML ("),
        ('2 = "a"\n02 = "b"', "names the code 2 twice"),
        ('ground = 2\ncar = "b"', "the key 'ground', expected a code from 0 to 65535"),
        ('-1 = "a"\n2 = "b"', "the key '-1'"),
        ('65536 = "a"\n2 = "b"', "the key '65536'"),
        ("9" * 5000 + ' = "a"', "the key '9999"),
        ('"²" = "a"', "the key '²'"),
        ("2 = 3\n4 = 5", "the code 2 has the value '3', expected a name in quotes"),
        ('2.5 = "a"\n3 = "b"', "the code 2 has the value"),
        ('2 = " "\n3 = "b"', "the code 2 has the value ' '"),
        ('2 = "a\\nb"\n3 = "b"', "the code 2 has the value"),
        ('2 = "car"\n3 = "Car"', "the classes 'car' and 'Car' differ only in upper and lower case"),
        ('2 = "a"\n3 = "a"\n4 = "ignore"', "names 1 classes beside 'ignore', expected at least 2"),
        ("", "names 0 classes"),
        ("[classes]\n", "names 0 classes"),
        ('title = "x"\n[classes]\n2 = "a"\n3 = "b"', "has 'title' beside the table [classes]"),
        ('classes = "a"', "the key 'classes'"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, content: str | bytes, sentence: str) -> None:
    path = write(tmp_path / "classes.toml", content)
    with pytest.raises(UserError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(UserError, match="cannot be read"):
            read_table(path)
