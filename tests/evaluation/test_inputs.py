"""Arguments of predict: files, folders, patterns and standard input, in a fixed order."""

import os

import pytest

from bipointnet.evaluation.inputs import Input, expand, listed_in

SUFFIXES = (".ply", ".xyz")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        "b/2.ply",
        "b/1.PLY",
        "b/notes.md",
        "b/.hidden.ply",
        "a/deep/x.xyz",
        "a/z.ply",
        "a-b.ply",
        ".git/c.ply",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    return tmp_path


def names(*arguments: str) -> list[str]:
    found = expand(arguments, SUFFIXES)
    assert all(each.error is None for each in found)
    return [each.name for each in found]


def test_files_keep_their_order_and_need_no_known_suffix(place):
    assert names("b/notes.md", "-", "a/z.ply", "gone.ply") == ["b/notes.md", "-", "a/z.ply", "gone.ply"]


def test_a_folder_is_all_clouds_in_it_sorted(place):
    assert names("a", "b") == ["a/deep/x.xyz", "a/z.ply", "b/1.PLY", "b/2.ply"]
    assert names(".") == ["./a/deep/x.xyz", "./a/z.ply", "./a-b.ply", "./b/1.PLY", "./b/2.ply"]


def test_a_pattern_is_all_clouds_that_match_sorted(place):
    assert names("*/*.ply") == ["a/z.ply", "b/2.ply"]
    assert names("**/*") == ["a/deep/x.xyz", "a/z.ply", "a-b.ply", "b/1.PLY", "b/2.ply"]
    assert names("**/*.xyz") == ["a/deep/x.xyz"]
    assert names("b/[12].*") == ["b/1.PLY", "b/2.ply"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(place):
    (place / "scan[1].ply").touch()
    (place / "scan1.ply").touch()
    assert names("scan[1].ply") == ["scan[1].ply"]


def test_an_argument_without_clouds_is_an_error_and_the_others_count(place):
    found = expand(["empty", "a/z.ply", "*.off"], SUFFIXES)
    assert [each.name for each in found] == ["empty", "a/z.ply", "*.off"]
    assert found[0].error == "empty: a folder without clouds; expected files with one of the suffixes .ply .xyz"
    assert found[1] == Input("a/z.ply")
    assert found[2].error is not None
    assert "*.off: no cloud matches this pattern" in found[2].error


def test_links_are_followed_but_not_in_circles(place):
    (place / "linked").mkdir()
    (place / "linked" / "b").symlink_to(place / "b")
    (place / "linked" / "again").symlink_to(place / "linked")
    assert names("linked") == ["linked/b/1.PLY", "linked/b/2.ply"]


def test_names_that_are_too_long_are_left_to_the_reader():
    assert names("x" * 300) == ["x" * 300]
    assert names(os.path.join("x" * 300, "y.ply")) == [os.path.join("x" * 300, "y.ply")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_list_may_begin_with_a_byte_order_mark_and_names_may_have_any_letter(place, end):
    odd = "b/two\u2028lines\u0085here.ply"
    lines = ["a-b.ply", "# a comment", "", odd, "  a  "]
    (place / "list.txt").write_bytes(end.join(lines).encode("utf-8-sig"))
    assert [each.name for each in listed_in(place / "list.txt", SUFFIXES)] == [
        *("a-b.ply", odd),
        *("a/deep/x.xyz", "a/z.ply"),
    ]
