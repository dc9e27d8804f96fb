"""The page about a run, from made-up figures: sizes, tables, curves."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_example import report

from bipointnet.viz.confusion import MOST_CLASSES, confused_pairs, confusion_table
from bipointnet.viz.curves import Curve, chart, ticks
from bipointnet.viz.run_report import MOST_POINTS, report_bytes

LARGEST = 1_500_000


@pytest.mark.parametrize("unit", ["clouds", "points"])
@pytest.mark.parametrize("classes", [2, 40, 200])
def test_the_page_is_small(classes, unit):
    assert len(report_bytes(report(classes, unit, epochs=600, points=8192))) < LARGEST


def test_a_page_without_mistakes_says_so():
    perfect = dataclasses.replace(report(3), examples=[], confusion=np.diag([5, 7, 9]))
    page = report_bytes(perfect).decode()
    assert "None: all 21 test clouds are predicted correctly." in page
    assert "Confused most often" not in page
    assert 'id="view"' not in page


def test_a_class_without_test_clouds_is_named_and_has_no_bar():
    found = report(3)
    scores = [found.class_scores[0], found.class_scores[1]._replace(score=float("nan")), found.class_scores[2]]
    page = report_bytes(dataclasses.replace(found, class_scores=scores)).decode()
    assert f"Without test clouds: {scores[1].name}." in page
    assert page.partition('<ul class="bars">')[2].partition("</ul>")[0].count("<li>") == 2
    assert "nan" not in page.partition("<main>")[2].partition("<script")[0]


def test_names_of_files_need_not_be_utf_8():
    found = dataclasses.replace(report(3), data=("caf\udce9.xyz",), command="train caf\udce9")
    assert report_bytes(found).count(b"caf\\udce9") == 2


def test_the_page_says_what_was_read():
    page = report_bytes(report(3)).decode()
    section = page.partition('<section id="data-set"')[2].partition("</section>")[0]
    assert "data/a: layout CLASS/*, 9 classes\nheld out for the test: &lt;a&gt;.ply" in section
    assert 'id="data-set"' not in report_bytes(dataclasses.replace(report(3), data=())).decode()


def test_many_classes_have_pairs_instead_of_a_table():
    page = report_bytes(report(MOST_CLASSES + 1)).decode()
    assert '<table class="confusion' not in page
    assert "Confused most often" in page


def test_of_many_points_some_are_shown_with_their_labels():
    found = report(4, "points", points=5000)
    page = report_bytes(found).decode()
    steps = re.search(r'"steps": "(.*?)"', page)
    labels = re.search(r'"truth": "(.*?)"', page)
    assert steps is not None
    assert labels is not None
    assert (len(steps[1]), len(labels[1])) == (8 * MOST_POINTS, 4 * -(-2 * MOST_POINTS // 3))  # base64 of 6 and 2 bytes


counts = st.integers(2, 6).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n)
)


@given(counts)
def test_pairs_are_the_largest_counts_beside_the_diagonal(rows):
    confusion = np.array(rows)
    names = [str(k) for k in range(len(rows))]
    pairs = confused_pairs(confusion, names, limit=4)
    wrong = sorted((confusion[~np.eye(len(rows), dtype=bool)]).tolist(), reverse=True)
    assert [pair.wrong for pair in pairs] == [count for count in wrong[:4] if count]
    for pair in pairs:
        assert confusion[int(pair.truth), int(pair.prediction)] == pair.wrong
        assert confusion[int(pair.truth)].sum() == pair.total
        assert pair.truth != pair.prediction
    table = confusion_table(confusion, names, "clouds")
    assert table.count("title=") == np.count_nonzero(confusion)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_are_evenly_spaced_around_the_values(low, extent):
    high = low + extent
    found = ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), 1e-6)
    assert found[0] <= low + slack
    assert found[-1] >= high - slack
    assert 2 <= len(found) <= 8
    np.testing.assert_allclose(np.diff(found), found[1] - found[0], rtol=1e-6)


def test_a_larger_value_is_drawn_higher_and_a_later_epoch_more_to_the_right():
    svg = chart("loss", [Curve("loss", "first", [(1, 3.0), (2, 1.0), (5, 2.0)])])
    line = re.search(r'<polyline class="first" points="(.*?)"', svg)
    assert line is not None
    (x1, y1), (x2, y2), (x5, y5) = (map(float, place.split(",")) for place in line[1].split())
    assert x1 < x2 < x5
    assert x5 - x2 == pytest.approx(3 * (x2 - x1), abs=0.2)
    assert y1 < y5 < y2


def test_one_epoch_is_a_chart_too():
    assert "<circle" in chart("loss", [Curve("loss", "first", [(1, 0.0)])], from_zero=True)
