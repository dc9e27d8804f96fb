"""delta(n) in Python and in the core: one double, the nearest one, on every platform."""

import math
import random
import re
import struct
from pathlib import Path
from typing import Any

import mpmath
import pytest

from bipointnet import _core
from bipointnet.delta import _TABLE, MOST, delta

TABLE = Path(__file__).parents[1] / "core" / "tests" / "engine" / "delta_values.h"
ROW = re.compile(r"\{(\d+)u(?:ll)?, ([-+.0-9a-fxp]+)\}")


def bits(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def exact(n: int) -> Any:
    """Phi^-1(2^(-1/n)) to 60 digits, by Newton's method on the logarithm of the upper tail."""
    with mpmath.workdps(60):
        root = mpmath.sqrt(2)
        goal = mpmath.log(-mpmath.expm1(-mpmath.log(2) / n))
        x = mpmath.mpf(delta(n))
        for _ in range(3):
            tail = mpmath.erfc(x / root) / 2
            density = mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)
            x += (mpmath.log(tail) - goal) * tail / density
        return x


def large_numbers(count: int) -> list[int]:
    rng = random.Random(3)
    return [int(2 ** rng.uniform(14, 53)) for _ in range(count)]


def test_python_and_the_core_have_the_same_double():
    for n in [*range(1, 16385), *large_numbers(2000), 2**32, MOST]:
        assert bits(delta(n)) == bits(_core.delta(n)), n


def test_delta_is_the_nearest_double_in_the_table_of_exact_values():
    rows = ROW.findall(TABLE.read_text())
    assert len(rows) >= 64
    for n, value in rows:
        assert bits(delta(int(n))) == bits(float.fromhex(value)), n


def test_all_doubles_up_to_16384_have_the_hash_that_the_core_demands():
    expected = re.search(r"kDeltaHash = (0x[0-9a-f]+)", TABLE.read_text())
    assert expected
    hashed = 0xCBF29CE484222325
    for n in range(1, 16385):
        for byte in struct.pack("<d", delta(n)):
            hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    assert hashed == int(expected[1], 16)


def test_delta_is_the_nearest_double_to_the_true_value():
    for n in [*range(2, 200), *range(200, 16385, 97), *large_numbers(200)]:
        assert delta(n) == float(exact(n)), n


def test_the_nodes_are_the_ratio_and_the_inverse_of_the_normal_density():
    with mpmath.workdps(60):
        for i, (ratio, ratio_low, inverse, inverse_low) in enumerate(_TABLE):
            x = mpmath.mpf(i) / 8
            density = mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)
            for exactly, high, low in [
                (mpmath.erfc(x / mpmath.sqrt(2)) / 2 / density, ratio, ratio_low),
                (1 / density, inverse, inverse_low),
            ]:
                assert high == float(exactly)
                assert low == float(exactly - mpmath.mpf(high))


def test_delta_of_one_is_positive_zero_and_delta_rises():
    assert bits(delta(1)) == 0
    assert all(delta(n) < delta(n + 1) for n in range(1, 5000))


@pytest.mark.parametrize("n", [0, -1, MOST + 1])
def test_delta_refuses_what_has_no_value(n):
    with pytest.raises(ValueError, match=rf"n = {n}, expected an integer from 1 to 2\*\*53"):
        delta(n)


def test_the_core_refuses_zero():
    with pytest.raises(ValueError, match="n = 0, expected an integer from 1"):
        _core.delta(0)


def test_the_median_of_the_largest_of_n_normal_values_is_delta():
    for n in (2, 64, 1024):
        phi = 0.5 * math.erfc(-delta(n) / math.sqrt(2))
        assert phi**n == pytest.approx(0.5, abs=1e-11)
