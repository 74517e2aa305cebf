"""Student's t distribution: tail probabilities and quantiles."""

from __future__ import annotations

import math
from functools import lru_cache

# Above this, the ratio of gamma functions comes from its series, which is then exact to 1e-16.
_LARGE = 200.0


def tail(t: float, df: int) -> float:
    """P(|T| > t) of Student's t with `df` degrees of freedom; relative error below 1e-11.

    It is the regularised incomplete beta function I_x(df/2, 1/2) at x = df / (df + t²).
    """
    square = t * t
    if square == 0.0:
        return 1.0
    a, b, x, y = df / 2, 0.5, df / (df + square), square / (df + square)
    # ln of x^a y^b / B(a, b)
    front = -a * math.log1p(square / df) + 0.5 * math.log(y) + _log_gamma_ratio(a)
    front = math.exp(front - 0.5 * math.log(math.pi))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, y) / b


def _log_gamma_ratio(a: float) -> float:
    """The logarithm of Γ(a + 1/2) / Γ(a)."""
    if a < _LARGE:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    r = 1 / a
    series = 1 + r * (-1 / 8 + r * (1 / 128 + r * (5 / 1024 + r * (-21 / 32768 - 399 * r / 2**18))))
    return 0.5 * math.log(a) + math.log(series)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz' method."""
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            value *= c * d
        if abs(c * d - 1.0) < 4e-16:
            break
    return value


@lru_cache(maxsize=4096)
def quantile(confidence: float, df: int) -> float:
    """The t with P(|T| <= t) = `confidence` (between 0 and 1); relative error below 1e-11."""
    outside = 1.0 - confidence
    # ln P(|T| > t) is a decreasing function of ln t; the bracket holds for every df.
    low, high = -30.0, 2.0
    while tail(math.exp(high), df) > outside:
        high *= 2.0
    while high - low > 1e-13:
        middle = 0.5 * (low + high)
        if tail(math.exp(middle), df) > outside:
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))
