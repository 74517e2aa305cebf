"""Metrics of one run, which comparisons average: their texts; names end in the unit.

They are computed by the simulator (`lasthop_sim::metrics`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lasthop import limits
from lasthop.analysis import experience

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

# name -> (axis label with unit, factor from the unit of the metric to that of the label, meaning)
METRICS: Final[dict[str, tuple[str, float, str]]] = {
    "goodput_bps": (
        "goodput (kbit/s)",
        1e-3,
        "in-order payload of all flows divided by the measured time",
    ),
    "one_way_delay_s_p95": ("one-way delay, 95th percentile (ms)", 1e3, "maximum over the flows"),
    "queue_delay_s_p95": (
        "queueing delay at the radio link, 95th percentile (ms)",
        1e3,
        "in the direction of the data",
    ),
    "retransmissions": ("retransmissions", 1.0, "retransmitted segments"),
    "spurious_retransmissions": (
        "spurious retransmissions",
        1.0,
        "retransmissions of a segment of which an earlier copy arrived",
    ),
    "timeouts": ("timeouts", 1.0, "retransmission timeouts (RTO)"),
    "spurious_timeouts": (
        "spurious timeouts",
        1.0,
        "timeouts for data that had arrived or was in flight",
    ),
    "fast_retransmits": ("fast retransmits", 1.0, "fast retransmits"),
    "spurious_fast_retransmits": (
        "spurious fast retransmits",
        1.0,
        "fast retransmits of data that was not lost",
    ),
    "spurious_share": (
        "share of the fast retransmits that are spurious",
        1.0,
        "unknown without fast retransmits",
    ),
    "burst_segments": (
        "largest burst (segments)",
        1.0,
        "consecutive segments, faster than the bottleneck; maximum over the flows",
    ),
    "cwnd_reductions": ("window reductions", 1.0, "episodes in which cwnd or ssthresh fell"),
    "radio_airtime_per_byte_s": (
        "air time per delivered byte (µs)",
        1e6,
        "busy time of the radio link in both directions, divided by delivered bytes",
    ),
    "completed_s": ("completion time (s)", 1.0, "completion time of the last finite transfer"),
    "jain": ("Jain's fairness index", 1.0, "over the goodputs of the bulk flows"),
    "one_way_delay_s_mean": ("one-way delay, mean (ms)", 1e3, "maximum over the flows"),
    "utilisation": (
        "utilisation of the radio link",
        1.0,
        "busy share of time, in the direction of the data",
    ),
    "lost_on_air": ("frames lost on the air", 1.0, "all links"),
    "dropped_at_queue": ("frames dropped at queues", 1.0, "all links"),
    "marked_frames": ("frames marked by queues", 1.0, "ECN congestion experienced, all links"),
    "cumulative_throughput_bps": (
        "cumulative throughput (kbit/s)",
        1e-3,
        "received data with headers, each segment counted once, all flows",
    ),
    "contention_loss_ratio": (
        "contention loss / offered load",
        1.0,
        "bits of packets lost in collisions, divided by bits sent by the endpoints",
    ),
    "bit_error_loss_ratio": (
        "bit-error loss / offered load",
        1.0,
        "bits of packets lost to bit errors, divided by bits sent by the endpoints",
    ),
    "radio_capacity_bps": (
        "capacity of the radio link (kbit/s)",
        1e-3,
        "in the direction of the data, if known",
    ),
    "classifier_accuracy": (
        "share of losses classified correctly",
        1.0,
        "unknown without a classifier or a loss",
    ),
    **{
        f"{truth}_as_{predicted}": (f"{what} classified as {predicted}", 1.0, "segments")
        for truth, what in TRUE_CLASSES.items()
        for predicted in PREDICTED_CLASSES
    },
    **{
        f"limited_by_{key}": (f"share of time limited by {what}", 1.0, "mean over the flows")
        for key, what in limits.NAMES.items()
    },
}


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
HARM: Final = {
    "harm_goodput": "goodput",
    "harm_delay": "one-way delay, p95",
    "harm_completion": "completion time, p95",
}

# Metrics that are shares, so at most 1.
SHARES: Final = (
    *("spurious_share", "jain", "utilisation", "contention_loss_ratio", "bit_error_loss_ratio"),
    *("classifier_accuracy", "goodput_share", "completed_share", *experience.SHARES, *HARM),
)

# Metrics of a group of flows, one group per [[flow]] table: key -> as above.
GROUP_METRICS: Final[dict[str, tuple[str, float, str]]] = {
    "goodput_bps": (
        "goodput (kbit/s)",
        1e-3,
        "in-order payload of its flows divided by the measured time",
    ),
    "goodput_share": ("share of the goodput (%)", 1e2, "relative to the goodput of all flows"),
    "flow_goodput_bps_mean": (
        "goodput per flow (kbit/s)",
        1e-3,
        "mean over its flows; each flow over its active time",
    ),
    "jain": ("Jain's fairness index", 1.0, "over the goodputs of its bulk flows, if several"),
    "one_way_delay_s_mean": ("one-way delay, mean (ms)", 1e3, "maximum over its flows"),
    "one_way_delay_s_p95": ("one-way delay, 95th percentile (ms)", 1e3, "maximum over its flows"),
    "one_way_delay_s_p99": ("one-way delay, 99th percentile (ms)", 1e3, "maximum over its flows"),
    "rtt_s_p95": ("RTT, 95th percentile (ms)", 1e3, "maximum over its flows"),
    "retransmissions": ("retransmissions", 1.0, "retransmitted segments of its flows"),
    "timeouts": ("timeouts", 1.0, "retransmission timeouts (RTO) of its flows"),
    "completed_share": (
        "share of the transfers completed (%)",
        1e2,
        "unknown without finite transfers",
    ),
    "completed_s_p50": (
        "completion time, median (s)",
        1.0,
        "over its finite transfers; unknown if fewer than half are complete",
    ),
    "completed_s_p95": (
        "completion time, 95th percentile (s)",
        1.0,
        "over its finite transfers; unknown if fewer than 95 % are complete",
    ),
    "completed_s_p99": (
        "completion time, 99th percentile (s)",
        1.0,
        "over its finite transfers; unknown if fewer than 99 % are complete",
    ),
    **{
        f"slowdown_p{p}": (
            f"slowdown, {words}",
            1.0,
            "completion time divided by that on the empty path, over its finite transfers",
        )
        for p, words in ((50, "median"), (95, "95th percentile"), (99, "99th percentile"))
    },
    **{
        f"click_s_p{p}": (
            f"page load time, {words} (s)",
            1.0,
            "from a click to the last byte of its page; an incomplete page is the longest",
        )
        for p, words in ((50, "median"), (95, "95th percentile"))
    },
    **experience.METRICS,
    **{
        f"limited_by_{key}": (f"share of time limited by {what}", 1.0, "mean over its flows")
        for key, what in limits.NAMES.items()
    },
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


def _split(metric: str) -> tuple[str, str, str]:
    """Return kind, name and key of a part. Only the name of a group may contain dots."""
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
        kind, name, key = _split(metric)
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
    key = _split(metric)[2] if is_part(metric) else metric
    known = METRICS | SERIES_METRICS | GROUP_METRICS
    return known[key][1] if key in known else 1.0


def bounds(metric: str) -> tuple[float, float]:
    """Smallest and largest possible value of a metric; only harm can be negative."""
    key = metric if RATIO in metric else metric.split(".")[-1]
    return -math.inf if key in HARM else 0.0, 1.0 if key in SHARES else math.inf


def result_of(run: Run | Document) -> Run:
    """The result of a run; a document, as `lasthop run --json` prints it, is read."""
    from lasthop import _native

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
