"""The finished runs of a case."""

from __future__ import annotations

import numpy as np

from lasthop.experiments.case_runs import CaseRuns


def test_runs_are_in_order_of_seeds_and_none_is_there_twice() -> None:
    runs = CaseRuns(first=5, width=2)
    assert runs.add([9, 6], np.array([[9.0, 90.0], [6.0, 60.0]])) == 2
    assert runs.add([7, 6], np.array([[7.0, 70.0], [6.0, 60.0]])) == 1
    assert [s for s in range(12) if s in runs] == [6, 7, 9]
    assert runs.missing(range(5, 12)) == [5, 8, 10, 11]
    assert runs.missing(range(6, 8)) == []
    seeds, values = runs.ordered()
    assert seeds.tolist() == [6, 7, 9]
    assert values.tolist() == [[6.0, 60.0], [7.0, 70.0], [9.0, 90.0]]
    assert runs.add([], np.empty((0, 2))) == 0


def test_a_case_without_runs_has_an_empty_matrix() -> None:
    seeds, values = CaseRuns(first=1, width=3).ordered()
    assert (len(seeds), values.shape) == (0, (0, 3))
