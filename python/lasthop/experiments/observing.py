"""Does runs and takes their metrics; harm compares them to runs without the candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.analysis import metrics
from lasthop.errors import InputError, Interrupted
from lasthop.experiments.plan import Job, Plan
from lasthop.experiments.pool import Cancel
from lasthop.experiments.store import Metrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lasthop._native import Run
    from lasthop.scenarios.scenario import Scenario

# Does one run and returns its metrics.
Observe = Callable[[Job, Cancel | None], Metrics]


def names_of(the_plan: Plan, *, series: bool = False) -> list[str]:
    """Names of all metrics of a comparison: of the run, of groups of flows, and of agents.

    With `series`, also the measures of time series.
    """
    groups = metrics.names_of_groups(the_plan.groups, the_plan.roles)
    measures = metrics.SERIES_METRICS if series else ()
    return [*metrics.METRICS, *measures, *groups, *the_plan.counters]


def solo_run(solo: Scenario | None, seed: int, cancel: Any) -> Run | None:
    """The run without the candidates, with the same seed; it is the same for all schemes."""
    return None if solo is None else solo.run_alone(seed, cancel)


def of_run(run: Run, alone: Run | None = None, names: Sequence[str] = ()) -> Metrics:
    """All metrics of a run; of the other parts of a run (agents, links) those in `names`."""
    found = metrics.of_run(run) | metrics.of_groups(run, alone)
    parts = [name for name in names if name not in found and metrics.is_part(name)]
    return found | metrics.values(run, parts)


def row(found: Metrics, names: Sequence[str]) -> NDArray[np.float64]:
    """The metrics in the order of their names; NaN if unknown."""
    values = (found.get(name) for name in names)
    return np.array([math.nan if v is None else v for v in values], dtype=float)


@dataclass(frozen=True)
class Finished:
    """Runs of the first seeds of those wanted: the finished ones."""

    #: One row per run, one column per metric; NaN if unknown.
    values: NDArray[np.float64]
    #: Why a run failed; `None` if it did not.
    errors: Sequence[BaseException | None]


def run_seeds(
    scenario: Scenario,
    solo: Scenario | None,
    seeds: Sequence[int],
    names: Sequence[str],
    cancel: Any,
) -> Finished:
    """Do the runs with these seeds; after an interrupt, only the finished ones are returned.

    A run that fails has an error instead of metrics; wrong input raises `InputError`.
    """
    if not scenario.classes:
        try:
            values = scenario.run_many(list(seeds), list(names), solo, cancel)
            return Finished(values, [None] * len(values))
        except (Interrupted, InputError):
            raise
        except BaseException as error:
            if len(seeds) == 1:
                return Finished(np.full((1, len(names)), math.nan), [error])
        # Once more one by one, so that only the run that fails has no result.
        parts = [run_seeds(scenario, solo, [seed], names, cancel) for seed in seeds]
        return Finished(np.concatenate([p.values for p in parts]), [p.errors[0] for p in parts])
    with_harm = solo is not None and any(n.rpartition(".")[2] in metrics.HARM for n in names)
    rows: list[NDArray[np.float64]] = []
    errors: list[BaseException | None] = []
    for seed in seeds:
        try:
            run = scenario.run(seed, cancel)
            alone = solo_run(solo, seed, cancel) if with_harm else None
            rows.append(row(metrics.values(run, names, alone), names))
            errors.append(None)
        except Interrupted:
            break
        except InputError:
            raise
        except BaseException as failed:
            rows.append(row({}, names))
            errors.append(failed)
    return Finished(np.array(rows, dtype=float).reshape(len(rows), len(names)), errors)


__all__ = ["Finished", "names_of", "of_run", "row", "run_seeds", "solo_run"]
