"""Does one run and takes its metrics, with the run without candidates that harm compares it to."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop.analysis import metrics

if TYPE_CHECKING:
    from lasthop.experiments.plan import Plan, Scenario
    from lasthop.experiments.store import Metrics

# Results of runs without candidates that are kept for other schemes with the same seed.
_MAX_KEPT = 256

_kept: OrderedDict[tuple[int, int], Mapping[str, Any]] = OrderedDict()
_lock = threading.Lock()


def names_of(the_plan: Plan, *, series: bool = False) -> list[str]:
    """Names of all metrics of a comparison: of the run, of groups of flows, and of agents.

    With `series`, also the measures of time series.
    """
    groups = metrics.names_of_groups(the_plan.groups, the_plan.roles)
    measures = metrics.SERIES_METRICS if series else ()
    return [*metrics.METRICS, *measures, *groups, *the_plan.counters]


def solo_run(solo: Scenario | None, seed: int, cancel: Any) -> Mapping[str, Any] | None:
    """The run without the candidates, with the same seed.

    It is the same for all schemes, so results are kept, by the network that ran.
    """
    if solo is None:
        return None
    key = (solo.fingerprint(), seed)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    found: Mapping[str, Any] = json.loads(solo.run(seed, cancel))
    with _lock:
        _kept[key] = found
        if len(_kept) > _MAX_KEPT:
            _kept.popitem(last=False)
    return found


def of_run(
    run: Mapping[str, Any], solo: Mapping[str, Any] | None = None, names: Sequence[str] = ()
) -> Metrics:
    """All metrics of a run; of the other parts of a run (agents, links) those in `names`."""
    found = metrics.of_run(run) | metrics.of_groups(run, solo)
    parts = [name for name in names if name not in found and metrics.is_part(name)]
    return found | {name: metrics.part(run, name) for name in parts}


__all__ = ["names_of", "of_run", "solo_run"]
