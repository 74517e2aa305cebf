from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lasthop.analysis import statistics

numbers = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


@given(numbers)
def test_the_interval_is_students(values: list[float]) -> None:
    found = statistics.summarise(values)
    assert found.ci95 is not None
    if np.std(values) < 1e-9 * (1 + abs(np.mean(values))):
        return
    low, high = stats.t.interval(
        0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values)
    )
    assert found.ci95 == pytest.approx((low, high), rel=1e-9, abs=1e-6)
    assert found.sd == pytest.approx(np.std(values, ddof=1), rel=1e-9, abs=1e-6)


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
        t = abs(statistics.mean(d)) / math.sqrt(statistics.variance(d) / len(d))
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
