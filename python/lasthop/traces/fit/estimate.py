"""An estimated parameter: value, interval, and what it rests on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from statistics import NormalDist
from typing import Any

#: Confidence level of all intervals of a fit.
LEVEL = 0.9
#: Two-sided quantile of the normal distribution at `LEVEL`.
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


@dataclass(frozen=True)
class Estimate:
    """A parameter of the link in base units (s, bit/s, bytes, shares)."""

    name: str
    #: Unit of the values: "s", "bit/s", "B", "share" or "".
    unit: str
    value: float
    #: Bounds of the 90 % interval. If the data do not tell (`is_range`): the values that are
    #: possible, of which `value` is one.
    low: float
    high: float
    #: Observations that the value rests on, and what they are.
    n: int
    of: str
    #: How it was estimated, or why it cannot be.
    how: str
    is_range: bool = False
    #: What limits the trust in it, empty if nothing is known.
    note: str = ""

    def __post_init__(self) -> None:
        # Numbers of numpy print their type.
        for name in ("value", "low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def document(self) -> dict[str, Any]:
        """The keys of JSON."""
        return asdict(self)


def share_interval(hits: float, n: float) -> tuple[float, float]:
    """Wilson's score interval of a share at `LEVEL` (Wilson 1927); `n` above 0."""
    p = hits / n
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * sqrt(max(p * (1 - p), 0.0) / n + Z * Z / (4 * n * n))
    low = max(middle - half, 0.0) if hits > 0 else 0.0
    return low, min(middle + half, 1.0)


__all__ = ["LEVEL", "Estimate", "Z", "share_interval"]
