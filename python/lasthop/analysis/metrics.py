"""Metrics of one run, which comparisons average, taken from its JSON; names end in the unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lasthop.analysis import experience, limits

_Values = dict[str, float | None]

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
# 2019): metric -> (metric of the group, true if more of it is better). At most 1, negative if the
# group gains.
HARM: Final[dict[str, tuple[str, bool]]] = {
    "harm_goodput": ("goodput_bps", True),
    "harm_delay": ("one_way_delay_s_p95", False),
    "harm_completion": ("completed_s_p95", False),
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
        for name, of in zip(
            HARM, ("goodput", "one-way delay, p95", "completion time, p95"), strict=True
        )
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


def part(run: Mapping[str, Any], metric: str) -> float | None:
    """Value of a part of a run; `None` if the run has no such part or the part no such value."""
    if RATIO in metric:
        above, below = (part(run, m) for m in metric.split(RATIO, 1))
        return above / below if above is not None and below else None
    kind, name, key = _split(metric)
    if kind in ("groups", "roles"):
        return of_groups(run).get(metric)
    if kind in ("flows", "clicks"):
        # Several flows of one name have a number after a dot or a blank.
        found = [
            f
            for f in run.get(kind, ())
            if str(f["id"]) == name or str(f["id"]).startswith((f"{name}.", f"{name} "))
        ]
        known = [x for x in (_nested_value(f, key) for f in found) if x is not None]
        return sum(known) / len(known) if known else None
    if kind == "agents":
        known = [
            x
            for x in (
                a["counters"].get(key)
                for a in run["agents"]
                if str(a["scheme"]).split(":")[0] == name
            )
            if x is not None
        ]
        return float(sum(known)) if known else None
    known = [
        x
        for x in (_nested_value(k, key) for k in run["links"] if f"{k['from']}>{k['to']}" == name)
        if x is not None
    ]
    return known[0] if known else None


def _nested_value(table: Mapping[str, Any], key: str) -> float | None:
    value: Any = table
    for step in key.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def jain(values: Sequence[float]) -> float | None:
    """Jain's fairness index (Σx)² / (n Σx²).

    It is 1 if all values are equal, 1/n if all but one are zero, and `None` if all are zero.
    """
    squares = sum(x * x for x in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def _percentile(values: Sequence[float], share: float) -> float | None:
    """Smallest value that `share` of the values do not exceed; `None` if it is infinite."""
    rank = max(1, math.ceil(share * len(values) - 1e-9))
    found = sorted(values)[rank - 1] if values else math.inf
    return found if math.isfinite(found) else None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(max(known)) if known else None


def _count(flows: Sequence[Mapping[str, Any]], key: str, part: str = "total") -> float:
    return float(sum(f[key][part] for f in flows))


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def data_radio(run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The radio link in the direction of the data of the first flow; `None` without a radio
    link.
    """
    radio: list[Mapping[str, Any]] = [x for x in run["links"] if x.get("radio")]
    ends = {f["to"] for f in run["flows"]}
    starts = {f["from"] for f in run["flows"]}
    towards = (
        [x for x in radio if x["to"] in ends] or [x for x in radio if x["from"] in starts] or radio
    )
    return towards[0] if towards else None


def confusion(run: Mapping[str, Any]) -> dict[str, dict[str, int]] | None:
    """Confusion matrix over all flows: true class -> predicted class -> segments.

    `None` if no scheme has a classifier.
    """
    if run["classifier"] is None:
        return None
    matrices = [f["matrix"] for f in run["classifier"]["flows"]]
    return {
        truth: {
            predicted: sum(m[truth][predicted] for m in matrices) for predicted in PREDICTED_CLASSES
        }
        for truth in TRUE_CLASSES
    }


def _classifier(run: Mapping[str, Any]) -> dict[str, float | None]:
    counts = confusion(run)
    if counts is None:
        return dict.fromkeys(
            [
                "classifier_accuracy",
                *(
                    f"{truth}_as_{predicted}"
                    for truth in TRUE_CLASSES
                    for predicted in PREDICTED_CLASSES
                ),
            ]
        )
    right = sum(counts[c][c] for c in PREDICTED_CLASSES)
    losses = sum(
        counts[true][predicted] for true in PREDICTED_CLASSES for predicted in PREDICTED_CLASSES
    )
    found: dict[str, float | None] = {"classifier_accuracy": _share(right, losses)}
    return found | {
        f"{truth}_as_{predicted}": float(n)
        for truth, row in counts.items()
        for predicted, n in row.items()
    }


def _traffic(run: Mapping[str, Any]) -> dict[str, float | None]:
    """Metrics in the terms of noor, from the traffic ledger; unknown if nothing was sent."""
    bits, seconds = run["traffic_bits"], run["measured_s"]
    return {
        "cumulative_throughput_bps": bits["data"] / seconds if seconds else None,
        "contention_loss_ratio": _share(bits["collisions"], bits["offered"]),
        "bit_error_loss_ratio": _share(bits["bit_errors"], bits["offered"]),
    }


def _goodput(run: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]) -> float | None:
    """In-order payload of these flows divided by the measured time, bit/s."""
    return (
        sum(f["delivered_bytes"] for f in flows) * 8 / run["measured_s"]
        if run["measured_s"]
        else None
    )


def _clicks_of(run: Mapping[str, Any], groups: set[str]) -> list[float]:
    """Page load times of the clicks of these groups; infinite for an incomplete page."""
    every = {str(f["group"]) for f in run["flows"]}
    times = []
    for click in run.get("clicks", ()):
        # A session has the name of its group, or that name with a number; the name of one group
        # may begin with that of another.
        owners = [group for group in every if str(click["id"]).startswith(f"{group} ")]
        if max(owners, key=len, default="") in groups:
            done = click["completed_s"]
            times.append(math.inf if done is None else done)
    return times


def _slowdown(flow: Mapping[str, Any]) -> float:
    """Completion time of a transfer divided by that on the empty path."""
    ideal, done = flow.get("empty_path_s"), flow["completed_s"]
    return done / ideal if ideal and done is not None else math.inf


def _of_flows(run: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]) -> _Values:
    """`GROUP_METRICS` of these flows, without harm."""
    delivered = sum(f["delivered_bytes"] for f in run["flows"])
    # A Poisson process without an arrival in the run has one transfer, which has not started.
    transfers = [
        f for f in flows if f["app"] == "transfer" and f.get("arrived_s", 0) < run["duration_s"]
    ]
    # An incomplete transfer takes longer than every complete one.
    times = [math.inf if f["completed_s"] is None else f["completed_s"] for f in transfers]
    slowdowns = [_slowdown(f) for f in transfers]
    clicks = _clicks_of(run, {str(f["group"]) for f in flows})
    bulk = [f["goodput_bps"] or 0.0 for f in flows if f["app"] == "bulk"]
    return {
        "goodput_bps": _goodput(run, flows),
        "goodput_share": _share(sum(f["delivered_bytes"] for f in flows), delivered),
        "flow_goodput_bps_mean": sum(f["goodput_bps"] or 0.0 for f in flows) / len(flows),
        "jain": jain(bulk) if len(bulk) > 1 else None,
        **{
            f"one_way_delay_s_{key}": _largest([f["one_way_delay_s"][key] for f in flows])
            for key in ("mean", "p95", "p99")
        },
        "rtt_s_p95": _largest([f["rtt_s"]["p95"] for f in flows]),
        "retransmissions": _count(flows, "retransmissions"),
        "timeouts": _count(flows, "timeouts"),
        "completed_share": _share(sum(map(math.isfinite, times)), len(times)),
        **{f"completed_s_p{p}": _percentile(times, p / 100) for p in (50, 95, 99)},
        **{f"slowdown_p{p}": _percentile(slowdowns, p / 100) for p in (50, 95, 99)},
        **{f"click_s_p{p}": _percentile(clicks, p / 100) for p in (50, 95)},
        **experience.of_flows(flows),
        **limits.mean_shares(flows),
    }


def harm(alone: float | None, beside: float | None, more_is_better: bool) -> float | None:
    """Harm of Ware et al. (2019) from a metric without and with the candidates.

    It is the share of the better of the two values that is lost: 0 for no harm, 1 for a total
    loss, negative for a gain; `None` if a value is unknown.
    """
    if alone is None or beside is None:
        return None
    return _share(alone - beside, alone) if more_is_better else _share(beside - alone, beside)


def of_groups(
    run: Mapping[str, Any], solo: Mapping[str, Any] | None = None
) -> dict[str, float | None]:
    """All metrics of the groups of flows of a run and of its roles, in the order of
    `GROUP_METRICS`.

    `solo` is the run without the candidates, with the same seed; without it, harm is unknown.
    """
    found: dict[str, float | None] = {}
    alone = {} if solo is None else of_groups(solo)
    for name, flows in _members(run).items():
        values = _of_flows(run, flows)
        for key, (metric, more_is_better) in HARM.items():
            values[key] = harm(alone.get(f"{name}.{metric}"), values[metric], more_is_better)
        found |= {f"{name}.{key}": values[key] for key in GROUP_METRICS}
    return found


def _members(run: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The flows of each group ("groups.NAME") and of each role ("roles.ROLE")."""
    members: dict[str, list[Mapping[str, Any]]] = {}
    for flow in run["flows"]:
        members.setdefault(f"groups.{flow['group']}", []).append(flow)
    for flow in run["flows"]:
        if "role" in flow:
            members.setdefault(f"roles.{flow['role']}", []).append(flow)
    return members


def of_run(run: Mapping[str, Any]) -> dict[str, float | None]:
    """All metrics of a run, in the order of `METRICS`; `None` if unknown."""
    flows, links = run["flows"], run["links"]
    radio = data_radio(run)
    delivered = sum(f["delivered_bytes"] for f in flows)
    busy = [x["busy_s"] for x in links if x.get("radio")]
    completed = [f["completed_s"] for f in flows]
    finished = bool(completed) and all(c is not None for c in completed)
    values: dict[str, float | None] = {
        "goodput_bps": _goodput(run, flows),
        "one_way_delay_s_p95": _largest([f["one_way_delay_s"]["p95"] for f in flows]),
        "queue_delay_s_p95": radio["queue_delay_s"]["p95"] if radio else None,
        "retransmissions": _count(flows, "retransmissions"),
        "spurious_retransmissions": _count(flows, "retransmissions", "spurious"),
        "timeouts": _count(flows, "timeouts"),
        "spurious_timeouts": _count(flows, "timeouts", "spurious"),
        "fast_retransmits": _count(flows, "fast_retransmits"),
        "spurious_fast_retransmits": _count(flows, "fast_retransmits", "spurious"),
        "spurious_share": _share(
            _count(flows, "fast_retransmits", "spurious"), _count(flows, "fast_retransmits")
        ),
        "burst_segments": _largest([f.get("burst_segments") for f in flows]),
        "cwnd_reductions": float(sum(f["cwnd_reductions"] for f in flows)),
        "radio_airtime_per_byte_s": sum(busy) / delivered if busy and delivered else None,
        "completed_s": max(completed) if finished else None,
        "jain": jain([f["goodput_bps"] or 0.0 for f in flows if f["app"] == "bulk"]),
        "one_way_delay_s_mean": _largest([f["one_way_delay_s"]["mean"] for f in flows]),
        "utilisation": radio["utilisation"] if radio else None,
        "lost_on_air": float(sum(x["lost_on_air"] for x in links)),
        "dropped_at_queue": float(sum(x["dropped_at_queue"] for x in links)),
        "marked_frames": float(sum(x["marked_frames"] for x in links)),
        **_traffic(run),
        "radio_capacity_bps": radio.get("capacity_bps") if radio else None,
        **_classifier(run),
        **limits.mean_shares(flows),
    }
    return {name: values[name] for name in METRICS}
