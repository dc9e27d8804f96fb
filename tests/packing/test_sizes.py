"""Size rules are found from pairs of sizes, also those with caps, shares and Python's rounding."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipointnet.packing.runs import CHECKED, FIRST, KEPT, SHAPES
from bipointnet.packing.sizes import fit

SIZES = [FIRST, *KEPT, *SHAPES]

RULES = {
    "a share": lambda n: max(1, n // 2),
    "a share with a cap": lambda n: max(1, min(512, n // 2)),
    "a fixed number": lambda n: 16,
    "at most 20": lambda n: min(20, n),
    "rounded to even": lambda n: max(1, round(0.375 * n)),
    "a decimal share": lambda n: max(1, round(0.334 * n)),
    "rounded up": lambda n: math.ceil(64 * min(1.0, n / 1024)),
    "few, rounded up": lambda n: math.ceil(16 * min(1.0, n / 1024)),
    "24, rounded up": lambda n: math.ceil(24 * min(1.0, n / 1024)),
    "truncated": lambda n: max(1, int(0.2 * n)),
    "a third": lambda n: max(1, n // 3),
    "at least 8": lambda n: max(8, n // 4),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_holds_for_sizes_that_it_was_not_fitted_to(name):
    size = RULES[name]
    rule = fit([(n, size(n)) for n in SIZES])
    assert rule is not None
    for n in (*range(1, 3000, 7), CHECKED, 10_000, 99_999):
        assert rule(n) == size(n), n


@given(st.integers(1, 40), st.integers(1, 600))
def test_shares_with_caps_are_found(share, cap):
    rule = fit([(n, max(1, min(cap, n // share))) for n in SIZES])
    assert rule is not None
    for n in SIZES:
        assert rule(n) == max(1, min(cap, n // share))


def test_sizes_without_a_rule_are_told():
    assert fit([(n, int(math.sqrt(n))) for n in SIZES]) is None
