"""delta(n) = Phi^-1(2^(-1/n)), the shift of an entropy-maximizing max pool: the same double on every platform.

The maximum of n standard normal values is below x with probability Phi(x)^n. Its median, where a bit of the shifted
maximum is 0 and 1 equally often, is delta(n) (arXiv:2010.05501, 2020, section 3.2).

Packed models compare integers with ceil(a + b delta(n)), so that one unit in the last place can flip a bit. The
logarithms and error functions of C libraries differ there. This function uses nothing but the IEEE operations +, -, *
and /, each rounded to double; `core/src/engine/delta.cpp` has the same operations in the same order, and the tests
demand equal doubles. The result is the double nearest to the true value for every n up to 16384,
and in every sample of larger n that was compared with mpmath.

How. With q = 1 - 2^(-1/n), x = delta(n) solves Q(x) = q, where Q = 1 - Phi.

1. q = 1 - exp(-z), z = ln 2 / n, from the series z - z^2/2 + z^3/6 - ..., with z and z^2 as sums of two doubles.
2. Let x_i = i/8 be the node next to x, phi the density, x = x_i + d. As phi(x_i + t) = phi(x_i) exp(-x_i t - t^2/2),

       Q(x_i) - Q(x) = phi(x_i) P(d),   P(d) = integral from 0 to d of exp(-x_i t - t^2/2) dt.

   So d solves P(d) = w with w = Q(x_i)/phi(x_i) - q/phi(x_i). The table has Q/phi and 1/phi at the nodes, each as the
   sum of two doubles, and w is computed as such a sum: what cancels in the difference is not lost.
3. exp(-x_i t - t^2/2) = sum over k of c_k t^k with c_0 = 1, c_1 = -x_i, k c_k = -(x_i c_{k-1} + c_{k-2}): it solves
   f' = -(x_i + t) f. P follows term by term. One step of Halley's method (P''/P' = -(x_i + d)) finds d to 26 bits.
4. d is rounded to a multiple of 2^-26, so that x_i + d, d^2 and x_i d^2 / 2 are exact. The first terms of

       P(d) = d - x_i d^2/2 + d^3 (4 (x_i^2 - 1) - x_i (x_i^2 - 3) d) / 24 + d^5 (...)

   are computed without a rounding error or as a sum of two doubles, and the rest is small. So the residual w - P(d) is
   known far beyond the last place of x. It corrects x by about 2^-26, and that sum is the one rounding of the result.
"""

from functools import lru_cache

__all__ = ["MOST", "delta"]

MOST = 2**53  # above, not every integer is a double

_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")
_SPLIT = 2.0**27 + 1.0
_GRID = 1.5 * 2.0**26  # adding and subtracting it rounds to a multiple of 2^-26
_EXP_TERMS = 14
_TERMS = 16

# Q(x)/phi(x) and 1/phi(x) at x = 0, 1/8, ..., 66/8, each as the nearest double and the double nearest to the rest.
_NODES = """
    0x1.40d931ff62706p+0 -0x1.a6a0d6f814637p-54 0x1.40d931ff62706p+1 -0x1.a6a0d6f814637p-53
    0x1.23329ae210ff4p+0 -0x1.eb1d40d393e77p-54 0x1.435d67c267b27p+1 0x1.7d109c4e0d641p-53
    0x1.09aedf1446de3p+0 0x1.0f579c7841b83p-55 0x1.4b08827fec435p+1 0x1.15057662a853cp-53
    0x1.e72e927666adap-1 -0x1.f458be3030644p-57 0x1.583858e5a4979p+1 -0x1.f03e859581098p-53
    0x1.c0b2d78fb0db8p-1 0x1.f03fc945f6d6bp-56 0x1.6b91a2c397050p+1 -0x1.68ccfaf0a2347p-54
    0x1.9efe466edb8d2p-1 0x1.4057d67f9c6b3p-56 0x1.860d6f679b583p+1 0x1.e1441c41ee7f8p-53
    0x1.81510273fa9f7p-1 -0x1.6dafd8b8422a5p-55 0x1.a90e1abe0a7a7p+1 -0x1.b68d5b64ffee0p-53
    0x1.670e47a65a82dp-1 -0x1.a27cb0f3e0c90p-56 0x1.d67e3be87da1ep+1 -0x1.32e340461cd04p-53
    0x1.4fb53a9eb0a1cp-1 0x1.f3a27ff1fa5b6p-56 0x1.087eaba64708ap+2 0x1.177031e6ed67fp-53
    0x1.3adb542dfc7bap-1 -0x1.1e2d479060ae6p-58 0x1.2e10034e1c172p+2 -0x1.e31ddfc84ad66p-54
    0x1.282805b693bb5p-1 -0x1.0951817ce278bp-55 0x1.5e66107548426p+2 0x1.200d4302f2e9fp-53
    0x1.17514c7e7bec5p-1 -0x1.a77ca7e09b34bp-55 0x1.9cdedca98747fp+2 -0x1.bdb4dab01ac75p-53
    0x1.0818fcc1d2b2dp-1 -0x1.45705da5bff85p-55 0x1.ee242fbb0a39ep+2 0x1.864fc62bf4d98p-52
    0x1.f49535cbfbfeep-2 0x1.a7fb5eec99765p-56 0x1.2c5c8ef0cd233p+3 0x1.8269735e22170p-52
    0x1.db73467cf148ep-2 -0x1.13d48d8ca55fap-56 0x1.72e5a2c38079fp+3 0x1.48a35c5a0d97cp-51
    0x1.c48050a308297p-2 -0x1.c5b621b9eed03p-56 0x1.d135862d675a2p+3 -0x1.63726945731b2p-54
    0x1.af7b6a4d54e8dp-2 -0x1.1d868ca5c856ap-57 0x1.28588b0141e5dp+4 -0x1.a1d6aeea5277cp-50
    0x1.9c2ccac41d903p-2 -0x1.ec4d3305e1027p-56 0x1.7f800362438a6p+4 -0x1.b6f3e80998e56p-50
    0x1.8a6450445bb96p-2 0x1.ab6e9e8de335ap-56 0x1.f819ef4f1ea75p+4 -0x1.80f23f8a8a608p-50
    0x1.79f84a0a01afcp-2 0x1.5c93f12a93a87p-61 0x1.5088227527aefp+5 -0x1.8cbaffbfa8829p-50
    0x1.6ac4792d19de8p-2 0x1.3a97f8f795bddp-57 0x1.c8679f2c8b8bbp+5 -0x1.36a52c12497b5p-51
    0x1.5ca93db40451fp-2 -0x1.1fc9f6a87efdcp-57 0x1.3a5cb047ca645p+6 -0x1.4cd38dec29e29p-49
    0x1.4f8ae774d1389p-2 0x1.b3ea0f61ca78dp-56 0x1.b7df21fd703dcp+6 0x1.bf62973236b13p-50
    0x1.43512418e52bep-2 0x1.cc5fb2ea66750p-56 0x1.389780c5d7800p+7 -0x1.78696677924d2p-48
    0x1.37e684ee8e185p-2 0x1.59d67caa83d55p-58 0x1.c3476ac6eb2f4p+7 -0x1.3e24385e4fa53p-47
    0x1.2d38184268d98p-2 0x1.a597f43885b05p-59 0x1.4ae0e0ec97ed6p+8 0x1.6ce0f7fe9871ap-48
    0x1.233512cf6779ap-2 -0x1.b846254021106p-57 0x1.ecd789ff0fbb6p+8 -0x1.5735a92fe11f9p-47
    0x1.19ce867cd112cp-2 0x1.f59a42535f832p-56 0x1.74d2b1ff00fb7p+9 -0x1.8c6fb65895489p-45
    0x1.10f724278b794p-2 -0x1.4caa5e4b5f17dp-58 0x1.1e79144c3b0c0p+10 -0x1.1d18551c63d19p-44
    0x1.08a3069eed562p-2 -0x1.ef59282912ebbp-58 0x1.bf2d8fd6a8475p+10 -0x1.1890dc0b81050p-47
    0x1.00c785530ab11p-2 0x1.06768791f8186p-56 0x1.628381d9c1e1bp+11 0x1.da41679b41329p-43
    0x1.f2b61aeec5b59p-3 -0x1.e7f7c9baa4e09p-57 0x1.1d7a2c7dba66dp+12 -0x1.3bcf9efa2ae4bp-43
    0x1.e4aa012912ddep-3 0x1.538abcb9214a8p-58 0x1.d302750be77d5p+12 -0x1.a903e673e46aep-42
    0x1.d75b2f61191ddp-3 -0x1.0ce2584eca4d7p-58 0x1.8400f8f5fda99p+13 -0x1.c505ba17b1301p-41
    0x1.cabb94b532c3ap-3 -0x1.f79d39e3e71b1p-59 0x1.4770b1182e332p+14 0x1.ee78bd8b198ffp-40
    0x1.bebe7208c36efp-3 0x1.ee5c2bae17c5dp-58 0x1.18ae7a5dcc258p+15 0x1.f3f1222cc2c19p-48
    0x1.b3583458b8dc3p-3 0x1.4a943606a6357p-57 0x1.e8c726dd1ee0ep+15 0x1.cddc35bca722ep-39
    0x1.a87e53e063906p-3 -0x1.4d1926bbbf443p-57 0x1.b047afd83c8a6p+16 -0x1.798226b6e92c7p-39
    0x1.9e27375ea4545p-3 -0x1.ceef22d9e1d0ep-57 0x1.845551073010fp+17 -0x1.542778344be8ap-39
    0x1.944a1ae7055f7p-3 -0x1.9983d30d46545p-58 0x1.625910a42130ep+18 0x1.750eed4d4610fp-37
    0x1.8adef9c13f89dp-3 0x1.b16c08b7f31f2p-58 0x1.486dba8b848fep+19 0x1.46f20f0a80b92p-35
    0x1.81de7aecbf923p-3 -0x1.ca61815a725c6p-57 0x1.3532ed491efd1p+20 0x1.5e4d1c296d54cp-34
    0x1.7941dfedadc79p-3 0x1.e01cd034d0497p-59 0x1.27ade20c91d8ap+21 0x1.d7cc73a682575p-34
    0x1.7102f59651d9cp-3 -0x1.aff55ec673728p-59 0x1.1f340ed1bbaa7p+22 0x1.d6af0822dc7f2p-32
    0x1.691c068ae0ee8p-3 0x1.f32049436700ep-59 0x1.1b5d13e3cdafep+23 0x1.f52aeea13d25ep-31
    0x1.6187cf4733979p-3 0x1.9ad04fd0db40fp-57 0x1.1bfa528e2846bp+24 -0x1.bacd488206054p-31
    0x1.5a417375d8c66p-3 0x1.0febc5d4de751p-61 0x1.211338c37725ep+25 -0x1.fe123f2096374p-30
    0x1.5344746eb961dp-3 -0x1.785b5cc3593bfp-57 0x1.2ae5d7ac88910p+26 -0x1.0af84acb013eep-28
    0x1.4c8ca8b939648p-3 0x1.ee69cf55c268cp-57 0x1.39ebd5e4d5401p+27 -0x1.3f976ab84c3dbp-29
    0x1.46163472a2014p-3 -0x1.c0273d5833973p-57 0x1.4ee44b6978286p+28 0x1.22ff36afb7634p-26
    0x1.3fdd827dc763bp-3 -0x1.367cdddd24a9cp-58 0x1.6ae3a714a9529p+29 0x1.52c359de58764p-25
    0x1.39df3e6469646p-3 -0x1.6eb9ad313866ap-57 0x1.8f6b79c2b8d7fp+30 -0x1.36532169b8921p-24
    0x1.34184ed5d9148p-3 -0x1.89c5aa729778ep-57 0x1.be8d0773fb984p+31 -0x1.c59a472162ad7p-23
    0x1.2e85d0b109902p-3 0x1.118ca4035b316p-57 0x1.fb1af5c9378e5p+32 -0x1.3251116584c85p-23
    0x1.2925128a71ccbp-3 0x1.033142621fc2fp-57 0x1.24784cf64da04p+34 0x1.e8fc19c81de5bp-20
    0x1.23f390a01532fp-3 -0x1.9e693bf54a305p-57 0x1.56ac555ed0955p+35 -0x1.124d056bd4a21p-19
    0x1.1eeef12fb5865p-3 0x1.bf8cc02ecd582p-57 0x1.97d10a6612f22p+36 -0x1.54e0485d5ce7fp-18
    0x1.1a150124a3ce9p-3 0x1.0dd4ad3f45dd2p-58 0x1.ecfcabc9a9097p+37 0x1.075a615681cdep-18
    0x1.1563b113e802cp-3 0x1.ecbc9772b515bp-59 0x1.2eaa3098e6877p+39 0x1.cf6a23e7f8617p-15
    0x1.10d9127e8f293p-3 -0x1.1c9e1f7c37028p-61 0x1.797d2acd3eab0p+40 0x1.082ba49f2dc3fp-16
    0x1.0c735552e368ep-3 0x1.2690da8f1fa82p-58 0x1.de39a12cbad47p+41 -0x1.d76b3e61f9a67p-13
    0x1.0830c5a626416p-3 0x1.48fc7d22433fbp-58 0x1.33b12f9a36fb1p+43 -0x1.1d1f69b045014p-13
    0x1.040fc9a11f089p-3 -0x1.e82ce2dcacf64p-58 0x1.922d1461267b4p+44 -0x1.3e6d52260e51bp-11
    0x1.000edf9a72987p-3 -0x1.cc3be4638e6efp-57 0x1.0af9d0baabe89p+46 -0x1.942350f6dfefep-9
    0x1.f85938b48fbd8p-4 -0x1.7cf7be04427c3p-60 0x1.6808b4b1bd4aap+47 -0x1.3250ca713f12cp-7
    0x1.f0cf530674e10p-4 -0x1.8dd9e4c37942fp-62 0x1.ed2cc414419b4p+48 0x1.1089fe98e4c68p-9
    0x1.e97d883a154bap-4 0x1.70789049382f5p-58 0x1.5718485148ba1p+50 0x1.83b3447032779p-5
"""
_TABLE = [tuple(map(float.fromhex, line.split())) for line in _NODES.strip().splitlines()]


def _product(a: float, b: float) -> tuple[float, float]:
    """a * b as a sum of two doubles, exactly (Dekker 1971)."""
    product = a * b
    t = _SPLIT * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLIT * b
    b_high = t - (t - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _tail(n: float) -> tuple[float, float]:
    """1 - 2^(-1/n) as a sum of two doubles."""
    z = _LN2_HIGH / n
    product, error = _product(z, n)
    z_low = (((_LN2_HIGH - product) - error) + _LN2_LOW) / n
    square, square_low = _product(z, z)
    square_low = square_low + 2.0 * z * z_low
    series = 0.0  # 1/3 - z/(3 4) + z^2/(3 4 5) - ...
    for k in range(_EXP_TERMS, 2, -1):
        series = (1.0 - z * series) / k
    high = z - 0.5 * square
    low = ((z - high) - 0.5 * square) + ((z_low - 0.5 * square_low) + 0.5 * z * square * series)
    q = high + low
    return q, low - (q - high)


@lru_cache(maxsize=2**15)
def delta(n: int) -> float:
    """Return Phi^-1(2^(-1/n)), the median of the largest of n standard normal values.

    >>> delta(1), round(delta(1024), 4)
    (0.0, 3.2044)
    """
    if not 1 <= n <= MOST:
        raise ValueError(f"delta(n): n = {n}, expected an integer from 1 to 2**53")
    if n == 1:
        return 0.0
    q, q_low = _tail(float(n))

    node = 0  # the node with the smallest |w|; the nodes before have larger, positive w
    here = _TABLE[0][0] - q * _TABLE[0][2]
    while node + 1 < len(_TABLE):
        after = _TABLE[node + 1][0] - q * _TABLE[node + 1][2]
        if not abs(after) < abs(here):
            break
        node, here = node + 1, after
    ratio, ratio_low, inverse, inverse_low = _TABLE[node]
    x = node / 8.0

    product, error = _product(q, inverse)
    error = error + (q * inverse_low + q_low * inverse)
    w = ratio - product
    t = w - ratio
    w_low = ((ratio - (w - t)) - (product + t)) + (ratio_low - error)

    c = [1.0, -x]
    for k in range(2, _TERMS):
        c.append(-(x * c[k - 1] + c[k - 2]) / k)
    integrated = [c[k] / (k + 1) for k in range(_TERMS)]

    d = w / (1.0 - 0.5 * x * w)
    p = f = 0.0  # P(d) / d and P'(d), without the terms k = 0 and 1, over d^2
    for k in range(_TERMS - 1, 1, -1):
        p = p * d + integrated[k]
        f = f * d + c[k]
    u = (w - d * (1.0 + d * (d * p - 0.5 * x))) / (1.0 + d * (d * f - x))
    d = d + u / (1.0 - 0.5 * (x + d) * u)
    d = (d + _GRID) - _GRID

    p = f = 0.0  # the same without the terms k = 2 and 3, over d^4
    for k in range(_TERMS - 1, 3, -1):
        p = p * d + integrated[k]
        f = f * d + c[k]
    square = d * d
    slope = 1.0 + d * (d * ((f * d + c[3]) * d + c[2]) - x)
    cube, cube_low = _product(square, d)
    factor = 4.0 * (x * x - 1.0) - x * (x * x - 3.0) * d
    product, error = _product(cube, factor)
    error = error + cube_low * factor
    third = product / 24.0
    product_again, error_again = _product(third, 24.0)
    third_low = (((product - product_again) - error_again) + error) / 24.0
    rest = (w_low - third_low) - square * cube * p
    u = ((((w - d) + 0.5 * x * square) - third) + rest) / slope
    return (x + d) + (u + 0.5 * (x + d) * u * u)
