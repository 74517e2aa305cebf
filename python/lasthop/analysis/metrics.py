"""Metrics of one run, which comparisons average: their texts; names end in the unit.

The simulator computes them and has their texts (`lasthop_sim::metrics`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lasthop import _native

if TYPE_CHECKING:
    from lasthop._native import Run

Document = Mapping[str, Any]

# Confusion matrix of loss classifiers: true class -> its name, and the predicted classes.
TRUE_CLASSES: Final = {
    "wireless": "wireless losses",
    "congestion": "congestion losses",
    "not_lost": "segments not lost",
}
PREDICTED_CLASSES: Final = ("wireless", "congestion")

_OF_RUN, _OF_GROUP, _HARM = _native.metric_texts()

# name -> (axis label with unit, factor from the unit of the metric to that of the label, meaning)
METRICS: Final = {name: (label, unit, about) for name, label, unit, about, _ in _OF_RUN}

# Series measures (transients.py), which need the events of a run.
SERIES_METRICS: Final[dict[str, tuple[str, float, str]]] = {
    "time_to_90_s": (
        "time to 90 % of the capacity (s)",
        1.0,
        "from the start of the first flow; goodput of all flows in 100 ms",
    ),
    "convergence_s": (
        "convergence time (s)",
        1.0,
        "from the start of the last bulk flow until Jain's index is at least 0.9 for 5 s",
    ),
    "rate_overshoot": (
        "sending rate above the capacity, peak (%)",
        1e2,
        "largest sending rate of all flows in 100 ms, relative to the capacity",
    ),
    "queue_peak_frames": ("queue at the radio link, peak (frames)", 1.0, "largest queue"),
}

# Harm to a group of flows by the candidates (Ware et al., Beyond Jain's Fairness Index, HotNets
# 2019): metric -> what it is about. At most 1, negative if the group gains.
HARM: Final = dict(_HARM)

# Metrics that are shares, so at most 1.
SHARES: Final = {*(name for name, *_, is_share in _OF_RUN + _OF_GROUP if is_share), *HARM}

# Metrics of a group of flows, one group per [[flow]] table: key -> as above.
GROUP_METRICS: Final = {
    **{name: (label, unit, about) for name, label, unit, about, _ in _OF_GROUP},
    **{
        name: (f"harm to the {of} (%)", 1e2, "relative to a run without the candidates")
        for name, of in HARM.items()
    },
}

# Parts of a run. "groups.NAME.KEY" is one of `GROUP_METRICS` of a group of flows, "roles.ROLE.KEY"
# the same of all flows with a role, "flows.NAME.KEY" the mean over the flows of that name,
# "clicks.NAME.KEY" the mean over the clicks of a web session or of one of its pages,
# "agents.SCHEME.COUNTER" the sum over the agents of a scheme, "links.FROM>TO.KEY" a value of that
# link. A KEY of a nested table has a dot: "timeouts.spurious". "A / B" is the ratio of two values.
PARTS: Final = ("groups", "roles", "flows", "clicks", "agents", "links")
RATIO: Final = " / "


def names_of_groups(groups: Sequence[str], roles: Sequence[str] = ()) -> list[str]:
    """Names of all metrics of these groups of flows, and of the flows with these roles."""
    parts = [*(f"groups.{name}" for name in groups), *(f"roles.{role}" for role in roles)]
    return [f"{part}.{key}" for part in parts for key in GROUP_METRICS]


def split(metric: str) -> tuple[str, str, str]:
    """Kind, name and key of a part. Only the name of a group may contain dots."""
    kind, rest = metric.split(".", 1)
    name, key = rest.rsplit(".", 1) if kind == "groups" else rest.split(".", 1)
    return kind, name, key


# Role -> the flows that have it.
ROLES: Final = {
    "candidate": "the candidates",
    "competitor": "the competitors",
    "probe": "the probes",
    "background": "the background flows",
}
CANDIDATES_SHARE: Final = "roles.candidate.goodput_share"

# Short names of metrics in options.
SHORT: Final = {
    "share": CANDIDATES_SHARE,
    "goodput": "goodput_bps",
    "delay": "one_way_delay_s_p95",
    "completion": "completed_s",
    "utilization": "utilisation",
}


def find(name: str, known: Sequence[str], option: str) -> str:
    """The metric that a name or a short name means; raises `InputError` if it is not `known`."""
    from lasthop import quantities
    from lasthop.errors import InputError

    found = SHORT.get(name, name)
    if found not in known:
        hint = quantities.did_you_mean(name, [*SHORT, *known])
        raise InputError(
            f"{option}: there is no metric `{name}`{hint}; there are {', '.join([*SHORT, *known])}"
        )
    return found


def is_part(metric: str) -> bool:
    """True if the metric names a value of a part of a run, or a ratio of two such values."""
    return all(m.count(".") >= 2 and m.split(".", 1)[0] in PARTS for m in metric.split(RATIO))


def label(metric: str) -> str:
    """The axis label of a metric, with unit."""
    if RATIO in metric:
        return " / ".join(label(m) for m in metric.split(RATIO))
    if is_part(metric):
        kind, name, key = split(metric)
        known = GROUP_METRICS if kind in ("groups", "roles") else METRICS
        inner = known[key][0] if key in known else key.replace("_", " ").replace(".", ", ")
        if kind == "roles":
            what, bracket, unit = inner.rpartition(" (")
            return f"{what} of {ROLES.get(name, name)} ({unit}" if bracket else f"{inner}, {name}"
        return f"{inner}, {name}" if kind == "agents" else f"{inner} of {name}"
    known = METRICS | SERIES_METRICS
    return known[metric][0] if metric in known else metric


def factor(metric: str) -> float:
    """Factor from the unit of a metric to the unit of its label."""
    if RATIO in metric:
        return 1.0
    key = split(metric)[2] if is_part(metric) else metric
    known = METRICS | SERIES_METRICS | GROUP_METRICS
    return known[key][1] if key in known else 1.0


def bounds(metric: str) -> tuple[float, float]:
    """Smallest and largest possible value of a metric; only harm can be negative."""
    key = metric if RATIO in metric else metric.split(".")[-1]
    return -math.inf if key in HARM else 0.0, 1.0 if key in SHARES else math.inf


def result_of(run: Run | Document) -> Run:
    """The result of a run; a document, as `lasthop run --json` prints it, is read."""
    return _native.Run.from_json(json.dumps(run)) if isinstance(run, Mapping) else run


def values(
    run: Run | Document, names: Sequence[str], alone: Run | Document | None = None
) -> dict[str, float | None]:
    """The metrics with these names; `None` if unknown.

    `alone` is the run without the candidates, with the same seed; without it, harm is unknown.
    """
    found = result_of(run).metrics(list(names), None if alone is None else result_of(alone))
    return dict(zip(names, found, strict=True))


def part(run: Run | Document, metric: str) -> float | None:
    """Value of a part of a run; `None` if the run has no such part or the part no such value."""
    return values(run, [metric])[metric]


def of_groups(run: Run | Document, alone: Run | Document | None = None) -> dict[str, float | None]:
    """All metrics of the groups of flows of a run and of its roles, in the order of
    `GROUP_METRICS`; `alone` as for `values`.
    """
    run = result_of(run)
    return values(run, [f"{part}.{key}" for part in run.parts for key in GROUP_METRICS], alone)


def of_run(run: Run | Document) -> dict[str, float | None]:
    """All metrics of a run, in the order of `METRICS`; `None` if unknown."""
    return values(run, list(METRICS))
