"""The paper's theory as functions: the entropy a pool leaves in a bit, and the size of a 1-bit product.

Paper: BiPointNet, ICLR 2021, arXiv:2010.05501. Its misprints are corrected here; docs/theory.md lists them. Entropies
are in bits. All functions assume that the n pooled values are independent and N(0, 1), as BatchNorm makes each of them,
and that signs are independent. Real points are neighbors on a surface and satisfy neither; `analysis.study` measures
trained networks.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from bipointnet.delta import delta

NORMAL = NormalDist()
DRAWN_AT_ONCE = 2**20


def bit_entropy(p: float, q: float | None = None) -> float:
    """H(p) = -p log2 p - q log2 q of a bit that is set with probability p; pass q = 1 - p if it is known more exactly.

    Proposition 1: the maximum, 1, is at p = 1/2 only, because the slope log2((1 - p) / p) changes sign there.

    Examples:
        >>> bit_entropy(0.5), round(bit_entropy(0.1), 3)
        (1.0, 0.469)
    """
    rare = min(p, 1 - p if q is None else q)
    return -(rare * math.log2(rare) + (1 - rare) * math.log1p(-rare) / math.log(2)) if rare > 0 else 0.0


def log_cdf(d: float) -> float:
    """log Phi(d), accurate where Phi(d) is near 0 or 1; -inf below -38.

    Examples:
        >>> round(log_cdf(0), 6)
        -0.693147
    """
    if d > 0:
        return math.log1p(-0.5 * math.erfc(d / math.sqrt(2)))
    below = 0.5 * math.erfc(-d / math.sqrt(2))
    return math.log(below) if below > 0 else -math.inf


def max_pool_entropy(n: float, shift: float = 0.0) -> float:
    """Entropy of sign(max of n standard normal values - shift).

    The maximum is below the shift if all n values are: p = Phi(shift)^n. Without a shift p = 2^-n, which is practically
    0 for any cloud: every bit is +1.

    Examples:
        >>> round(max_pool_entropy(20), 5), max_pool_entropy(1024, delta(1024))
        (2e-05, 1.0)
    """
    exponent = n * log_cdf(shift)
    return bit_entropy(math.exp(exponent), -math.expm1(exponent))


def mean_pool_entropy(n: float, shift: float = 0.0) -> float:
    """Entropy of sign(mean of n standard normal values - shift): the mean is N(0, 1/n), so p = Phi(shift sqrt(n)).

    Without a shift that is a whole bit for every n: EMA-avg is the plain mean.

    Examples:
        >>> mean_pool_entropy(1024)
        1.0
    """
    d = shift * math.sqrt(n)
    return bit_entropy(math.exp(log_cdf(d)), math.exp(log_cdf(-d)))


def decay_constant(shift: float = 0.0) -> float:
    """The c of Theorem 1: for c <= n2 < n1, a max pool over n1 elements leaves less entropy than one over n2.

    Let t = Phi(shift) be the probability that one value is below the shift. Then p_n = t^n falls to 0 with n, and H(p)
    rises with p below 1/2. So H falls from the n with t^n = 1/2 on: c = log 2 / -log t. (The proof needs p_c <= 1/2,
    not >= as printed, and 0 < t < 1: otherwise there is no entropy for any n.) Without a shift c = 1; for the shift
    delta(n), c = n.

    Examples:
        >>> decay_constant(), round(decay_constant(delta(64)), 6)
        (1.0, 64.0)
    """
    return math.log(2) / -log_cdf(shift)


class Estimate(NamedTuple):
    """A simulated value and its standard error."""

    value: float
    error: float


def delta_by_simulation(n: int, simulations: int = 10_000, rng: np.random.Generator | None = None) -> Estimate:
    """Algorithm 1: delta(n) as the median of the maxima of `simulations` lists of n values from N(0, 1).

    (As printed, its loops run from 0 to m and from 0 to n, one iteration too many each.) The median of m draws has the
    standard error 1 / (2 f sqrt(m)), where f is the density at the median; for a maximum,
    f = n phi(d) Phi(d)^(n-1) = n phi(d) / (2 Phi(d)).

    Examples:
        >>> value, error = delta_by_simulation(20)
        >>> abs(value - delta(20)) < 4 * error
        True
    """
    rng = rng or np.random.default_rng(0)
    maxima = np.empty(simulations)
    step = max(1, DRAWN_AT_ONCE // n)
    for start in range(0, simulations, step):
        drawn = rng.standard_normal((min(step, simulations - start), n))
        maxima[start : start + step] = drawn.max(axis=1)
    d = delta(n)
    return Estimate(float(np.median(maxima)), NORMAL.cdf(d) / (n * NORMAL.pdf(d) * math.sqrt(simulations)))


def bits_lost(expected: float, pooled: float) -> float:
    """Entropy that a max pool over `pooled` elements loses if its shift is delta(`expected`).

    Phi(delta(m))^n = 2^(-n/m), so the loss 1 - H(2^(-n/m)) depends only on the ratio n/m.

    Examples:
        >>> round(bits_lost(1024, 512), 3), round(bits_lost(1024, 2048), 3)
        (0.128, 0.189)
    """
    exponent = -pooled / expected * math.log(2)
    return 1 - bit_entropy(math.exp(exponent), -math.expm1(exponent))


class Product(NamedTuple):
    """The distribution of z = a . w for vectors of K signs: values -K, -K + 2, ..., K and probabilities (K + 1,)."""

    values: np.ndarray
    probabilities: np.ndarray

    @property
    def mean(self) -> float:
        return float(self.values @ self.probabilities)

    @property
    def variance(self) -> float:
        return float((self.values - self.mean) ** 2 @ self.probabilities)


def agreement(p_weight: float = 0.5, p_input: float = 0.5) -> float:
    """The probability that an input and a weight have the same sign; the arguments are those of +1."""
    return p_weight * p_input + (1 - p_weight) * (1 - p_input)


def product_distribution(inputs: int, p_weight: float = 0.5, p_input: float = 0.5) -> Product:
    """Theorem 2 (and the proposition before it): z = 2c - K, where c of K pairs agree, binomial(K, agreement).

    P(2c - K) = C(K, c) e^c (1 - e)^(K - c) with mean K (2e - 1) and variance 4 K e (1 - e): 0 and K for e = 1/2.

    Examples:
        >>> z = product_distribution(64)
        >>> round(abs(z.mean), 9), round(z.variance, 9)
        (0.0, 64.0)
    """
    e = agreement(p_weight, p_input)
    counts = np.arange(inputs + 1)
    if e in (0.0, 1.0):
        return Product(2 * counts - inputs, (counts == e * inputs).astype(float))
    log_factorials = np.array([math.lgamma(c + 1) for c in range(inputs + 1)])
    log_choose = log_factorials[-1] - log_factorials - log_factorials[::-1]
    return Product(2 * counts - inputs, np.exp(log_choose + counts * math.log(e) + (inputs - counts) * math.log1p(-e)))


def normal_approximation(values: np.ndarray, inputs: int) -> np.ndarray:
    """N(0, K) at the values of a product of K inputs. They are 2 apart, so each has twice the density.

    Examples:
        >>> normal_approximation(np.array([0]), 64).round(4).tolist()  # exactly: C(64, 32) / 2^64 = 0.0993
        [0.0997]
    """
    return 2 / math.sqrt(2 * math.pi * inputs) * np.exp(-(values.astype(float) ** 2) / (2 * inputs))


def simulate_products(
    inputs: int, draws: int, rng: np.random.Generator, p_weight: float = 0.5, p_input: float = 0.5
) -> np.ndarray:
    """z = a . w of `draws` pairs of random sign vectors: (draws,) int64."""
    z = np.empty(draws, np.int64)
    step = max(1, DRAWN_AT_ONCE // inputs)
    for start in range(0, draws, step):
        size = (min(step, draws - start), inputs)
        same = (rng.random(size) < p_weight) == (rng.random(size) < p_input)
        z[start : start + step] = 2 * same.sum(axis=1) - inputs
    return z


COUNTS = (1, 4, 20, 64, 128, 1024, 2048, 4096)
RATIOS = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 1, 4 / 3, 2, 4, 8)
WIDTHS = (64, 128, 1024)


def survey(simulations: int = 10_000, seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    """The tables of `bipointnet analyze`: pools by n, the shift of another n, 1-bit products by number of inputs.

    Examples:
        >>> [round(row["delta"], 3) for row in survey(simulations=100)["pools"] if row["n"] == 1024]
        [3.204]
    """
    rng = np.random.default_rng(seed)
    pools = []
    for n in COUNTS:
        estimate = delta_by_simulation(n, simulations, rng)
        pools.append(
            {
                "n": n,
                "max": max_pool_entropy(n),
                "ema_max": max_pool_entropy(n, delta(n)),
                "ema_avg": mean_pool_entropy(n),
                "delta": delta(n) + 0.0,
                "monte_carlo": estimate.value,
                "standard_error": estimate.error,
            }
        )
    products = []
    for inputs in WIDTHS:
        exact, drawn = product_distribution(inputs), simulate_products(inputs, simulations, rng)
        gap = np.abs(exact.probabilities - normal_approximation(exact.values, inputs)).sum() / 2
        products.append(
            {
                "inputs": inputs,
                "deviation": math.sqrt(exact.variance),
                "simulated_mean": float(drawn.mean()),
                "simulated_deviation": float(drawn.std()),
                "normal_gap": float(gap),
            }
        )
    return {
        "pools": pools,
        "wrong_n": [{"ratio": r, "bits_lost": bits_lost(1, r)} for r in RATIOS],
        "products": products,
    }
