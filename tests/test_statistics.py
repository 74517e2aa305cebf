from __future__ import annotations

import math
import random
from statistics import variance as sample_variance
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasthop import _native
from lasthop.analysis import paired, statistics, student

numbers = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


# Two-sided 95 % quantiles of Student's t, as published tables and closed forms give them.
T_975 = {
    1: math.tan(0.475 * math.pi),
    2: 0.95 * math.sqrt(2 / (1 - 0.95**2)),
    3: 3.182446305284263,
    4: 2.7764451051977987,
    5: 2.570581835636314,
    10: 2.2281388519649385,
    20: 2.0859634472658364,
    30: 2.0422724563012373,
    100: 1.9839715184496334,
    1000: 1.9623390808264078,
}


@pytest.mark.parametrize(("df", "published"), T_975.items())
def test_the_quantiles_of_t_are_the_published_ones(df: int, published: float) -> None:
    assert student.quantile(0.95, df) == pytest.approx(published, rel=1e-10)
    assert statistics.t_quantile(df + 1) == student.quantile(0.95, df)


@pytest.mark.parametrize("df", [1, 2, 3, 7, 19, 399, 400, 401, 5000])
@pytest.mark.parametrize("t", [1e-5, 0.3, 1.0, 2.5, 8.0])
def test_the_tail_of_t_is_the_integral_of_its_density(df: int, t: float) -> None:
    x = np.linspace(0, t, 20_001)
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    density = scale * (1 + x * x / df) ** (-(df + 1) / 2)
    weights = np.where(np.arange(len(x)) % 2, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    inside = 2 * float(weights @ density) * (x[1] - x[0]) / 3  # Simpson's rule
    assert student.tail(t, df) == pytest.approx(1 - inside, abs=1e-10)


@given(numbers)
def test_the_interval_is_students(values: list[float]) -> None:
    found = statistics.summarise(values)
    assert found.ci95 is not None
    sd, n = float(np.std(values, ddof=1)), len(values)
    half = student.quantile(0.95, n - 1) * sd / math.sqrt(n)
    m = float(np.mean(values))
    assert found.ci95 == pytest.approx((m - half, m + half), rel=1e-9, abs=1e-6)
    assert found.sd == pytest.approx(sd, rel=1e-9, abs=1e-6)


def test_one_run_has_no_interval_and_an_unknown_value_has_no_mean() -> None:
    assert statistics.summarise([3.0]) == statistics.Summary(1, 3.0, None, None)
    assert statistics.summarise([3.0, None]).mean is None


def test_the_order_of_runs_does_not_matter() -> None:
    values = [0.1 * i for i in range(100)]
    shuffled = values[:]
    random.Random(1).shuffle(shuffled)
    assert statistics.summarise(values) == statistics.summarise(shuffled)


def test_fieller_by_its_definition() -> None:
    """r is in the interval if and only if the mean of a - r b does not differ from 0
    significantly.
    """
    draw = random.Random(7)
    b = [draw.gauss(100, 10) for _ in range(20)]
    a = [1.3 * x + draw.gauss(0, 5) for x in b]
    found = statistics.ratio(a, b)
    assert found.mean == pytest.approx(sum(a) / sum(b))
    assert found.ci95 is not None
    for r, inside in (
        (found.ci95[0] - 1e-6, False),
        (found.ci95[0] + 1e-6, True),
        (found.ci95[1] - 1e-6, True),
        (found.ci95[1] + 1e-6, False),
    ):
        d = [x - r * y for x, y in zip(a, b, strict=True)]
        t = abs(statistics.mean(d)) / math.sqrt(sample_variance(d) / len(d))
        assert (t < statistics.t_quantile(len(d))) == inside


def test_fieller_is_unknown_where_unbounded_or_with_too_few_runs() -> None:
    assert statistics.ratio([1.0, 2.0], [1.0, 1.0]) == statistics.Ratio(1.5, None)
    assert statistics.ratio([1.0, 2.0, 3.0], [1.0, -1.0, 0.5]).ci95 is None
    assert statistics.ratio([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]) == statistics.Ratio(None, None)


def test_equal_schemes_have_the_ratio_one_exactly() -> None:
    a = [10.0, 11.5, 12.25, 9.0]
    found = statistics.ratio(a, a)
    assert found.mean == 1.0
    assert found.ci95 == pytest.approx((1.0, 1.0))
    assert statistics.difference(a, a).ci95 == (0.0, 0.0)


def test_fieller_covers() -> None:
    """In 95 % of the experiments the interval includes the true ratio."""
    draw = random.Random(3)
    hits = 0
    for _ in range(1000):
        b = [draw.gauss(10, 3) for _ in range(10)]
        a = [draw.gauss(15, 3) for _ in range(10)]
        found = statistics.ratio(a, b).ci95
        hits += found is not None and found[0] <= 1.5 <= found[1]
    assert 925 <= hits <= 975


def test_correlation() -> None:
    assert statistics.correlation([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]) == pytest.approx(1)
    assert statistics.correlation([1.0, 2.0, 3.0], [6.0, 4.0, 2.0]) == pytest.approx(-1)
    assert statistics.correlation([1.0, 1.0, 1.0], [6.0, 4.0, 2.0]) is None
    assert statistics.correlation([1.0, 2.0], [6.0, 4.0]) is None


def test_holm_adjusts_each_column() -> None:
    # The example of Holm's method for p = 0.01, 0.04, 0.03 and three tests.
    p = np.array([[math.nan, math.nan], [0.01, 0.2], [0.04, math.nan], [0.03, 0.6]])
    found = statistics.holm(p)
    assert found[1:, 0] == pytest.approx([0.03, 0.06, 0.06])
    assert found[1, 1] == pytest.approx(0.4)
    assert found[3, 1] == pytest.approx(0.6)
    assert np.isnan(found[0]).all()
    assert math.isnan(found[2, 1])


@pytest.mark.parametrize(("runs", "share"), [(20, 0.5), (20, 0.95), (7, 0.5), (101, 0.05)])
def test_the_interval_of_a_quantile_is_that_of_a_bootstrap(runs: int, share: float) -> None:
    draw = np.random.default_rng(5)
    drawn = np.sort(draw.integers(1, runs + 1, (40_000, runs)), axis=1)
    quantiles = np.sort(drawn[:, statistics.quantile_rank(runs, share) - 1])
    low, high = quantiles[[999, 38_999]]
    found = statistics.bootstrap_ranks(runs, share)
    assert found is not None
    assert abs(found[0] - low) <= 1
    assert abs(found[1] - high) <= 1


def test_the_bootstrap_of_a_ratio_repeats_and_covers() -> None:
    draw = np.random.default_rng(11)
    hits = 0
    for _ in range(300):
        b = draw.normal(10, 2, (30, 1))
        a = 1.5 * b + draw.normal(0, 2, (30, 1))
        (counts,) = statistics.resample_counts(np.hstack([a, b]), range(30))
        assert (counts.sum(axis=1) == 30).all()
        low, high = statistics.bootstrap_ratio(a, b, [counts])
        again = statistics.resample_counts(np.hstack([a, b]), range(30))
        assert statistics.bootstrap_ratio(a, b, again) == (low, high)
        hits += bool(low[0] <= 1.5 <= high[0])
    assert 270 <= hits <= 296


@pytest.mark.parametrize("runs", [1, 2, 3, 20, 99, 1000, 70_001])
def test_resamples_are_those_that_numpy_draws(runs: int) -> None:
    generator: Any = np.random.PCG64(20 + runs)
    start = generator.state["state"]
    drawn = np.random.Generator(generator).integers(0, runs, (30, runs))
    draws = _native.Resamples(start["state"], start["inc"], runs)
    found = np.empty((30, runs))
    draws.count(found[:7])
    draws.count(found[7:])
    assert (found == [np.bincount(row, minlength=runs) for row in drawn]).all()


def test_the_bootstrap_does_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand resamples of many runs do not fit into the memory at once."""
    draw = np.random.default_rng(3)
    b = draw.normal(10, 2, (250, 2))
    a = 1.5 * b + draw.normal(0, 2, (250, 2))
    both = np.hstack([a, b])

    def bootstrap() -> tuple[list[int], list[float]]:
        blocks = list(statistics.resample_counts(both, range(250)))
        ends = statistics.bootstrap_ratio(a, b, blocks)
        return [len(block) for block in blocks], np.concatenate(ends).tolist()

    sizes, whole = bootstrap()
    assert sizes == [statistics.RESAMPLES]
    monkeypatch.setattr(statistics, "BLOCK", 250 * 300 + 1)
    sizes, found = bootstrap()
    assert sizes == [300, 300, 300, 100]
    assert found == pytest.approx(whole, rel=1e-12)


def test_unknown_metrics_and_zeros_are_left_out_of_the_bootstrap() -> None:
    """Each column gets what the resamples of all columns give."""
    draw = np.random.default_rng(4)
    b = draw.normal(10, 2, (120, 5))
    b[:, 1], b[7, 2], b[:119, 3] = 0.0, math.nan, 0.0
    a = 1.5 * b + draw.normal(0, 2, (120, 5))
    a[:, 4] = 0.0
    blocks = list(statistics.resample_counts(np.hstack([a, b]), range(120)))
    for other in (a, b):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.sort((blocks[0] @ other) / (blocks[0] @ b), axis=0)
        low, high = statistics.bootstrap_ratio(other, b, blocks)
        assert np.isnan(low).tolist() == [False, True, True, True, False]
        assert (np.isnan(low) == np.isnan(high)).all()
        assert low[[0, 4]].tolist() == pytest.approx(ratios[24, [0, 4]].tolist(), rel=1e-12)
        assert high[[0, 4]].tolist() == pytest.approx(ratios[974, [0, 4]].tolist(), rel=1e-12)


def test_the_ratio_of_a_scheme_to_itself_is_that_of_all_resamples() -> None:
    """Also where it is known without drawing any."""
    draw = np.random.default_rng(5)
    known = [1, 2, 3, 80, 199, 200]  # runs that differ from 0, of 200
    values = np.zeros((200, len(known) + 3))
    for column, runs in enumerate(known):
        values[draw.permutation(200)[:runs], column] = draw.uniform(1, 2, runs)
    values[:, -3] = -values[:, 3]
    values[:10, -2], values[:, -1] = 1.0, draw.normal(0, 1, 200)
    blocks = list(statistics.resample_counts(values, range(200)))
    means = blocks[0] @ np.abs(values)
    unknown = (means == 0).any(axis=0)
    low, high = statistics.bootstrap_ratio(values, values, blocks)
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == unknown.tolist()
    assert (low[~unknown] == 1).all()
    assert (high[~unknown] == 1).all()
    assert unknown.tolist()[: len(known)] == [True] * 3 + [False] * 3
    surely = values[:, : len(known)]
    found = statistics.bootstrap_ratio(surely, surely, iter(()))
    assert np.array_equal(found, (low[: len(known)], high[: len(known)]), equal_nan=True)


def test_sums_are_exactly_rounded_whatever_is_unknown() -> None:
    values = np.array([[0.1, math.nan, 0.0, 1e16], [0.2, 1.0, 0.0, 1.0], [0.3, 1.0, 0.0, -1e16]])
    found = statistics.Moments(values).mean * 3
    assert found[[0, 2, 3]].tolist() == pytest.approx([0.6, 0.0, 1.0], abs=1e-15)
    assert math.isnan(found[1])


def test_the_number_of_seeds_has_the_power_that_it_promises() -> None:
    """With that number of seeds, about 80 % of the t tests detect the difference."""
    draw = np.random.default_rng(3)
    nan = np.array([math.nan])
    effect = statistics.Columns(np.array([1.0]), np.array([2.0]), nan, nan)
    n = int(statistics.seeds_needed(effect)[0])
    assert n == 34  # of a table of the paired t test: d = 0.5, power 0.8
    found = statistics.Moments(draw.normal(1.0, 2.0, (n, 4000))).summary
    assert 0.78 <= float(((found.low > 0) | (found.high < 0)).mean()) <= 0.82


def test_all_statistics_of_a_case() -> None:
    draw = np.random.default_rng(1)
    first = draw.normal(10, 1, (20, 2))
    other = first + draw.normal(1, 1, (20, 2))
    other[3, 1] = math.nan
    samples = [
        paired.Sample(0, "a", list(range(1, 21)), first),
        paired.Sample(0, "b", list(range(1, 21)), other),
    ]
    found = paired.Statistics(samples, ["x", "y"])
    x = found.full(0, "b", "x")
    assert x["mean"] == statistics.summarise(list(other[:, 0])).mean
    assert (
        x["ratio_to_first"]["ci95"] == statistics.ratio(list(other[:, 0]), list(first[:, 0])).ci95
    )
    low, high = x["ratio_to_first"]["bootstrap_ci95"]
    assert low < x["ratio_to_first"]["mean"] < high
    assert x["quantiles"]["p50"]["value"] == sorted(other[:, 0])[9]
    assert x["difference_to_first"]["p"] == x["difference_to_first"]["p_holm"] < 0.01
    y = found.full(0, "b", "y")
    assert y["mean"] is None
    assert y["quantiles"]["p95"] == {"value": None, "ci95": None}
    assert y["ratio_to_first"]["bootstrap_ci95"] is None
    assert y["difference_to_first"]["seeds_needed"] is None
    rows = found.table_rows(0, "b")
    assert [len(row) for row in rows] == [len(paired.TABLE_COLUMNS)] * 2
    assert rows[0][1] == x["mean"]


def test_five_thousand_runs_in_less_than_a_second() -> None:
    import time

    draw = np.random.default_rng(2)
    seeds = list(range(1, 21))
    samples = [
        paired.Sample(point, label, seeds, draw.normal(10, 1, (20, 60)))
        for point in range(25)
        for label in "abcdefghij"
    ]
    start = time.process_time()
    found = paired.Statistics(samples, [f"m{i}" for i in range(60)])
    for sample in samples:
        for metric in ("m0", "m1", "m2", "m3"):
            found.of(sample.point, sample.label, metric)
        found.p_holm(sample.point, sample.label, "m0")
    assert time.process_time() - start < 1.0
