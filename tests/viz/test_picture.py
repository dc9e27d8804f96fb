"""Pictures of figures: any name can be drawn as it is, and a file that cannot be written is refused before."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from bipointnet.errors import UserError
from bipointnet.viz.confusion import draw_confusion, write_confusion
from bipointnet.viz.picture import check_file

NAMES = ("椅子", r"$\frac$", "$x^2$", "_cup", "two\nlines", "$\ud800")


def test_any_name_can_be_in_a_confusion_matrix(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_confusion(tmp_path / "a.png", np.eye(len(NAMES), dtype=int), NAMES, r"$\frac$ 部屋")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_name_with_dollars_is_no_formula() -> None:
    axes = Figure().subplots()
    draw_confusion(axes, np.eye(len(NAMES), dtype=int), NAMES, "$x^2$")
    texts = [axes.title, *axes.get_xticklabels(), *axes.get_yticklabels()]
    assert [text.get_text() for text in texts if "x^2" in text.get_text()] == ["$x^2$"] * 3
    assert not any(text.get_parse_math() for text in texts)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a.pdf", r"--picture is '.*a.pdf'; expected a file that ends in .png; choose such a name"),
        ("png", "expected a file that ends in .png"),
        ("folder.png", r"folder.png: a folder where --picture should write a file"),
        ("model.png", r"model.png: the packed model, which --picture would overwrite"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "model.png").touch()
    with pytest.raises(UserError, match=sentence):
        check_file("--picture", tmp_path / name, ".png", tmp_path / "model.png")


def test_a_file_that_can_be_written_is_accepted(tmp_path: Path) -> None:
    check_file("--picture", tmp_path / "new" / "a.PNG", ".png", tmp_path)
