"""Size rules: how a number of points or neighbors depends on the number of points it is chosen from (docs/format.md).

    size(n) = min(most, max(least, round(factor n)))

The rule is found from pairs (n, size). Each size bounds the factor to an interval; at `least` only from above, and at
`most` only from below. The simplest number in the intersection is taken: a fraction with a small denominator, where
powers of two count as smaller, because numbers of points and neighbors often are powers of two; else a decimal number
with few digits; and of all roundings the one with the simplest factor.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

UNBOUNDED = 2**32 - 1


def _unlikely(denominator: int) -> float:
    """How unlikely a denominator is in a program."""
    return denominator / 4 if denominator.bit_count() == 1 else denominator


# The denominators that are tried before decimal numbers.
SMALL = sorted((*range(1, 65), 128), key=_unlikely)


@dataclass(frozen=True)
class SizeRule:
    factor: float
    round: str
    least: int
    most: int

    def __call__(self, n: int) -> int:
        rounding = {"floor": math.floor, "ceil": math.ceil, "even": round}[self.round]
        return min(self.most, max(self.least, int(rounding(self.factor * n))))

    @property
    def fixed(self) -> bool:
        return self.least == self.most

    def as_json(self) -> dict[str, Any]:
        return {"factor": float(self.factor), "round": self.round, "least": self.least, "most": self.most}


def fixed(size: int) -> SizeRule:
    return SizeRule(0.0, "floor", size, size)


def fit(pairs: Sequence[tuple[int, int]], most: int = UNBOUNDED) -> SizeRule | None:
    """The simplest rule with size(n) = size for all pairs; None if there is none.

    >>> fit([(5, 5), (19, 19), (131, 20), (500, 20)])
    SizeRule(factor=1.0, round='floor', least=1, most=20)
    >>> fit([(131, 49), (500, 188), (2503, 939)])
    SizeRule(factor=0.375, round='even', least=1, most=4294967295)
    >>> fit([(89, 2), (203, 4), (389, 7), (523, 9), (2503, 16)], most=16)
    SizeRule(factor=0.015625, round='ceil', least=1, most=16)
    """
    pairs = sorted(set(pairs))
    sizes = {size for _, size in pairs}
    if len(sizes) == 1:
        return fixed(pairs[0][1])
    lows, highs = [1, pairs[0][1]], [most, pairs[-1][1]]  # without limits first, if both fit
    found: list[tuple[float, SizeRule]] = []
    for low, high, rounding in product(lows, highs, ("floor", "ceil", "even")):
        factor = _factor(pairs, low, high, rounding)
        if factor is not None:
            rule = SizeRule(_safe(factor, rounding), rounding, low, high)
            if all(rule(n) == size for n, size in pairs):
                found.append((_complexity(factor), rule))
    return min(found, key=lambda one: one[0])[1] if found else None


def _factor(pairs: list[tuple[int, int]], least: int, most: int, rounding: str) -> Fraction | None:
    """The simplest factor that gives the sizes between these limits."""
    below, above = Fraction(0), Fraction(2**20)
    half, none = Fraction(1, 2), Fraction(0)
    start, stop = {"floor": (none, 2 * half), "ceil": (-2 * half, none), "even": (-half, half)}[rounding]
    for n, size in pairs:
        below = max(below, (size + start) / n) if size > least else below
        above = min(above, (size + stop) / n) if size < most else above
    if below > above:
        return None
    for denominator in (*SMALL, *(10**digits for digits in range(2, 13))):
        number = Fraction(math.ceil(below * denominator), denominator)
        number = number + Fraction(1, denominator) if number == below and rounding == "ceil" else number
        if below <= number <= above and number > 0:
            return number
    return None


def _complexity(number: Fraction) -> float:
    """How unlikely a number is in a program: by its denominator, or ten to the power of its decimal digits."""
    if number.denominator in SMALL:
        return _unlikely(number.denominator)
    return next((10**digits for digits in range(2, 13) if (number * 10**digits).denominator == 1), 10**13)


def _safe(number: Fraction, rounding: str) -> float:
    """The factor as a float. One that is not exact must not fall on the wrong side where factor n is an integer."""
    factor = float(number)
    if rounding == "even" or Fraction(factor) == number:
        return factor
    if rounding == "floor" and Fraction(factor) < number:
        return math.nextafter(factor, math.inf)
    if rounding == "ceil" and Fraction(factor) > number:
        return math.nextafter(factor, 0)
    return factor
