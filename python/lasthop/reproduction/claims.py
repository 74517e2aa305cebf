"""Verdicts: compares claims of a paper with measured values.

A claim of kind `order` holds if the confidence interval of the paired difference is above zero, or
above the difference `least`; `about` if the interval is within the tolerance around the value of
the paper; `bound` if it is within the bounds; `shape` if the metric is monotone along the varied
key, or two schemes cross between two of its values. The verdict is "holds", "differs", or
"undecided" if the interval is too wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lasthop.analysis import statistics
from lasthop.analysis.claim_text import NumberFormat
from lasthop.analysis.statistics import Interval
from lasthop.analysis.verdict import Measured, Outcome, Verdict
from lasthop.errors import InputError
from lasthop.experiments.comparison import Comparison, point_of
from lasthop.quantities import count
from lasthop.scenarios.experiment import Claim


@dataclass(frozen=True)
class Quantity:
    """A measured value; the interval has zero width if the scenario is deterministic."""

    mean: float | None
    ci95: Interval | None
    runs: int
    #: True if all runs are deterministic, so one run is enough.
    exact: bool = False


def judge(claim: Claim, comparison: Comparison, *, modified: bool = False) -> Verdict:
    """Judge a claim. A claim of a modified figure is measured but not judged."""
    verdict = {"order": _order, "about": _about, "bound": _bound, "shape": _shape}[claim.kind](
        claim, comparison
    )
    if modified:
        return replace(verdict, verdict="undecided", why="not judged: the figure was modified")
    # With too few runs there is no difference to explain.
    enough = not comparison.plan.random or len(comparison.plan.seeds) >= claim.min_runs
    if claim.note and (verdict.verdict == "differs" or (verdict.verdict == "undecided" and enough)):
        return replace(verdict, why=f"{verdict.why}. {claim.note}")
    return verdict


def _check_labels(comparison: Comparison, *labels: str) -> None:
    known = comparison.plan.labels
    for label in labels:
        if label not in known:
            raise InputError(
                f"a claim names the scheme `{label}`, but the figure has {', '.join(known)}"
            )


def quantity(
    comparison: Comparison,
    point: int,
    metric: str,
    left: str,
    right: str = "",
    relation: str = "value",
    other: int | None = None,
) -> Quantity:
    """Measure `left`, or its difference, ratio or gain over `right`, with the confidence interval.

    `right` is measured at the same point, or at the point `other`.
    """
    _check_labels(comparison, left, *([right] if right else []))
    if relation == "value":
        given = comparison.values(point, left, metric)
        s = statistics.summarise(given) if given else statistics.Summary(0, None, None, None)
        mean, ci95, runs = s.mean, s.ci95, s.runs
    else:
        a, b = comparison.pairs(point, left, right, metric, other)
        runs = len(a)
        if not a:
            mean, ci95 = None, None
        elif relation == "difference":
            d = statistics.difference(a, b)
            mean, ci95 = d.mean, d.ci95
        else:
            r = statistics.ratio(a, b)
            shift = 1.0 if relation == "gain" else 0.0
            mean = None if r.mean is None else r.mean - shift
            ci95 = None if r.ci95 is None else (r.ci95[0] - shift, r.ci95[1] - shift)
    exact = comparison.deterministic(point, left)
    if relation != "value":
        exact = exact and comparison.deterministic(point if other is None else other, right)
    if mean is not None and exact:
        ci95 = (mean, mean)
    return Quantity(mean, ci95, runs, exact)


def _undecided(claim: Claim, q: Quantity) -> str:
    """Why the claim cannot be judged, or an empty string."""
    if q.mean is None:
        return f"{claim.metric} was not measured in every run"
    if not q.exact and q.runs < claim.min_runs:
        verb = "is" if q.runs == 1 else "are"
        return f"{count(q.runs, 'run')} {verb} too few to decide, {claim.min_runs} are needed"
    return "the interval is unbounded" if q.ci95 is None else ""


def _other(claim: Claim, comparison: Comparison) -> int | None:
    """The point at which `right` is measured, if it differs from that of `left`."""
    return point_of(comparison.plan, claim.against) if claim.against else None


def _within(claim: Claim, comparison: Comparison, low: float, high: float, allowed: str) -> Verdict:
    point = point_of(comparison.plan, claim.at)
    q = quantity(
        comparison,
        point,
        claim.column,
        claim.left,
        claim.right,
        claim.relation,
        _other(claim, comparison),
    )
    reason = _undecided(claim, q)
    if reason or q.ci95 is None:
        return Verdict(claim, q.mean, q.ci95, "undecided", reason, q.runs)
    # Tolerance for rounding: 0.1 + 0.2 is not above 0.3.
    rounding = 1e-12 * max(abs(x) for x in (1.0, *q.ci95))
    a, b = q.ci95
    span = NumberFormat.of(claim).span(q.ci95)
    if a >= low - rounding and b <= high + rounding:
        return Verdict(claim, q.mean, q.ci95, "holds", f"{span} lies within {allowed}", q.runs)
    outside = a > high + rounding or b < low - rounding
    why = (
        f"{span} lies {'outside' if outside else 'partly within'}"
        f" {allowed}{_spread(claim, comparison, point)}"
    )
    return Verdict(claim, q.mean, q.ci95, "differs" if outside else "undecided", why, q.runs)


def _spread(claim: Claim, comparison: Comparison, point: int) -> str:
    """The range over single pairs of runs; figures of papers often show one run."""
    if claim.relation not in ("gain", "ratio"):
        return ""
    a, b = comparison.pairs(point, claim.left, claim.right, claim.column, _other(claim, comparison))
    shift = 1.0 if claim.relation == "gain" else 0.0
    single = sorted(x / y - shift for x, y in zip(a, b, strict=True) if x is not None and y)
    if not single or single[0] == single[-1]:
        return ""
    fmt = NumberFormat.of(claim)
    return f"; single pairs of runs give {fmt.number(single[0])} to {fmt.text(single[-1])}"


def _about(claim: Claim, comparison: Comparison) -> Verdict:
    value, tolerance = claim.value or 0.0, claim.tolerance or 0.0
    fmt = NumberFormat.of(claim)
    allowed = (
        f"{fmt.number(value)} ± {replace(fmt, signed=False).text(tolerance)}"
        if tolerance
        else fmt.text(value)
    )
    return _within(claim, comparison, value - tolerance, value + tolerance, allowed)


def _bound(claim: Claim, comparison: Comparison) -> Verdict:
    low = -math.inf if claim.min is None else claim.min
    high = math.inf if claim.max is None else claim.max
    fmt = NumberFormat.of(claim)
    ends = (
        "-∞" if claim.min is None else fmt.number(low),
        "∞" if claim.max is None else fmt.number(high),
    )
    allowed = f"[{', '.join(ends)}] {fmt.unit}".rstrip()
    return _within(claim, comparison, low, high, allowed)


@dataclass(frozen=True)
class _Step:
    """A difference that is positive according to a claim."""

    name: str
    gap: Quantity
    #: Minimum difference; 0 for any.
    least: float = 0.0

    def verdict(self) -> Outcome:
        if self.gap.ci95 is None:
            return "undecided"
        low, high = self.gap.ci95
        if self.least > 0:
            return "holds" if low >= self.least else "differs" if high < self.least else "undecided"
        return "holds" if low > 0 else "differs" if high < 0 or low == high == 0 else "undecided"


def _steps(claim: Claim, steps: Sequence[_Step]) -> Verdict:
    reasons = [r for r in (_undecided(claim, s.gap) for s in steps) if r]
    single = len(steps) == 1
    measured: Measured = steps[0].gap.mean if single else [s.gap.mean for s in steps]
    ci95 = steps[0].gap.ci95 if single else [s.gap.ci95 for s in steps]
    runs = min(s.gap.runs for s in steps)
    fmt = NumberFormat.of(claim)
    if reasons:
        return Verdict(claim, measured, ci95, "undecided", reasons[0], runs)
    verdicts = [s.verdict() for s in steps]
    intervals = "; ".join(f"{s.name}: {fmt.span(s.gap.ci95)}" for s in steps if s.gap.ci95)
    if claim.least:
        floors = ", ".join(fmt.text(s.least) for s in steps)
        intervals += f"; required: at least {floors}"
    overall: Outcome = (
        "differs" if "differs" in verdicts else "undecided" if "undecided" in verdicts else "holds"
    )
    return Verdict(claim, measured, ci95, overall, f"paired differences {intervals}", runs)


def _least(claim: Claim, comparison: Comparison, point: int, lower: str) -> float:
    """The minimum difference to the scheme `lower` at this point, in the unit of the metric."""
    if not claim.least_is_share:
        return claim.least
    return claim.least * abs(quantity(comparison, point, claim.column, lower).mean or 0.0)


def _order(claim: Claim, comparison: Comparison) -> Verdict:
    point = point_of(comparison.plan, claim.at)
    chain = claim.chain or (claim.right, claim.left)
    other = _other(claim, comparison)
    if other is not None:
        gap = quantity(
            comparison, point, claim.column, claim.left, claim.right, "difference", other
        )
        least = _least(claim, comparison, other, claim.right)
        return _steps(claim, [_Step(f"{claim.left} - {claim.right}", gap, least)])
    steps = [
        _Step(
            f"{high} - {low}",
            quantity(comparison, point, claim.column, high, low, "difference"),
            _least(claim, comparison, point, low),
        )
        for low, high in pairwise(chain)
    ]
    return _steps(claim, steps)


def _along(claim: Claim, comparison: Comparison) -> list[tuple[str, int]]:
    """Values of the first varied key with their points; `at` fixes the other keys."""
    if not comparison.plan.vary:
        raise InputError(f"claim {claim.id}: a shape needs `vary` in [experiment]")
    key = next(iter(comparison.plan.vary))
    return [
        (p[key], n)
        for n, p in enumerate(comparison.plan.points)
        if all(p.get(k) == v for k, v in claim.at.items())
    ]


def _point_difference(comparison: Comparison, metric: str, label: str, a: int, b: int) -> Quantity:
    """Difference b - a of a scheme between two points, paired by seed (same random draws)."""
    return quantity(comparison, b, metric, label, label, "difference", a)


def _shape(claim: Claim, comparison: Comparison) -> Verdict:
    along = _along(claim, comparison)
    metric = claim.column
    if claim.shape in ("increasing", "decreasing"):
        steps = []
        for (va, a), (vb, b) in pairwise(along):
            first, second = (a, b) if claim.shape == "increasing" else (b, a)
            gap = _point_difference(comparison, metric, claim.left, first, second)
            steps.append(_Step(f"{va} → {vb}", gap, _least(claim, comparison, first, claim.left)))
        return _steps(claim, steps)
    places = dict(along)
    assert claim.between is not None  # checked when the file was read
    for value in claim.between:
        if value not in places:
            raise InputError(
                f"claim {claim.id}: between = {value!r}, but the varied key has {', '.join(places)}"
            )
    low, high = (
        quantity(comparison, places[v], metric, claim.left, claim.right, "difference")
        for v in claim.between
    )
    falls = low.mean is not None and low.mean > 0  # left starts above right and ends below
    order = (low, _negated(high)) if falls else (_negated(low), high)
    names = [f"{claim.left} against {claim.right} at {v}" for v in claim.between]
    return _steps(claim, [_Step(n, q) for n, q in zip(names, order, strict=True)])


def _negated(q: Quantity) -> Quantity:
    mean = None if q.mean is None else -q.mean
    return Quantity(mean, None if q.ci95 is None else (-q.ci95[1], -q.ci95[0]), q.runs, q.exact)
