"""One run as aligned plain text."""

from __future__ import annotations

import itertools

from lasthop import limits, quantities
from lasthop.quantities import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


# Why segments were discarded, by the keys of a flow.
_DISCARDS = {
    "old_timestamp": "with an old timestamp (PAWS)",
    "beyond_window": "beyond the window",
    "zero_window": "before a closed window",
    "challenged": "answered by a challenge ACK",
    "no_connection": "for a forgotten connection",
}

# Counters that only some links have, and their columns.
_LINK_COUNTERS = {
    "filtered_frames": "filtered",
    "dropped_by_policer": "by policer",
    "duplicated_frames": "duplicated",
    "corrupted_frames": "corrupted",
}


def rate(bps: float | None) -> str:
    """Format a data rate: "147.2 kbit/s"."""
    if bps is None:
        return "–"
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= size:
            return f"{quantities.format_number(bps / size)} {unit}"
    return f"{quantities.format_number(bps)} bit/s"


def time(seconds: float | None) -> str:
    """Format a time: "194.3 ms"."""
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{quantities.format_number(seconds / size)} {unit}"
    return "0 s" if seconds == 0 else f"{quantities.format_number(seconds / 1e-9)} ns"


def columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Format rows as columns; the first column is left-aligned, the others right-aligned."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            c.ljust(w) if i == 0 else c.rjust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def explanation(explained: Mapping[str, Any]) -> str:
    """How a run is computed: a line for each link and each receiver, and the probes."""
    rows = [
        (f"{link['from']}>{link['to']}", link["mode"], link["why"]) for link in explained["links"]
    ]
    receivers = [
        (receiver["flow"], "in advance" if receiver["in_advance"] else "by event", receiver["why"])
        for receiver in explained["receivers"]
    ]
    lines = ["links:", *_columns(rows)]
    if receivers:
        lines += ["receivers:", *_columns(receivers)]
    return "\n".join([*lines, f"probes: {', '.join(explained['probes'])}"])


def _columns(rows: list[tuple[str, str, str]]) -> list[str]:
    """Indented lines whose first two columns are aligned."""
    name, mode = (max((len(row[i]) for row in rows), default=0) for i in (0, 1))
    return [f"  {row[0]:{name}}  {row[1]:{mode}}  {row[2]}" for row in rows]


def _distribution(d: Mapping[str, Any]) -> str:
    return (
        f"{time(d['mean'])} mean, {time(d['p50'])} median, {time(d['p95'])} p95"
        if d["mean"] is not None
        else "–"
    )


def _flow(flow: Mapping[str, Any]) -> list[str]:
    """The block of a flow."""
    retransmissions, timeouts, fast = (
        flow["retransmissions"],
        flow["timeouts"],
        flow["fast_retransmits"],
    )
    done = f", complete at {time(flow['completed_s'])}" if flow["completed_s"] is not None else ""
    return [
        f"\n{flow['id']}: {flow['from']} → {flow['to']}",
        *_gave_up(flow),
        (
            f"  goodput         {rate(flow['goodput_bps'])} while active"
            f" ({flow['delivered_bytes']} bytes delivered{done})"
        ),
        (
            f"  sent            {flow['sent_segments']} segments,"
            f" {count(retransmissions['total'], 'retransmission')}"
            f" ({retransmissions['spurious']} spurious)"
        ),
        (
            f"  timeouts        {timeouts['total']} ({timeouts['spurious']} spurious,"
            f" {timeouts['ack_loss']} caused by ACK loss)"
        ),
        (
            f"  fast retransmit {fast['total']} ({fast['spurious']} spurious); cwnd reduced"
            f" {count(flow['cwnd_reductions'], 'time')}"
        ),
        *_discarded(flow),
        f"  limited by      {limits.describe(flow)}",
        f"  RTT             {_distribution(flow['rtt_s'])}",
        f"  one-way delay   {_distribution(flow['one_way_delay_s'])}",
        *_experience(flow),
    ]


def _discarded(flow: Mapping[str, Any]) -> list[str]:
    """What the ends have discarded, by reason."""
    if not (discarded := flow.get("discarded")):
        return []
    found = {key: discarded.get(key, 0) for key in _DISCARDS}
    parts = [f"{found[key]} {text}" for key, text in _DISCARDS.items() if found[key]]
    if discarded["acks"]:
        parts.append(f"{count(discarded['acks'], 'ACK')} by the sender (PAWS)")
    return [f"  discarded       {', '.join(parts)}"]


def _gave_up(flow: Mapping[str, Any]) -> list[str]:
    """Why and when the connection ended without an answer."""
    if not (gave_up := flow.get("gave_up")):
        return []
    limit = {
        "syn": "SYN: tcp.syn_retries",
        "syn_ack": "SYN-ACK: tcp.synack_retries",
        "data": "data: tcp.user_timeout, tcp.orphan_timeout",
        "probe": "zero-window probes: tcp.probe_retries",
    }[gave_up["unanswered"]]
    return [f"  gave up         at {time(gave_up['at_s'])}, no answer to its {limit}"]


def _late(found: Mapping[str, Any], what: str) -> str:
    """How many packets or frames come after their deadline, or never."""
    share = found["late_or_lost_share"]
    return (
        f"{'–' if share is None else f'{100 * share:.2f} %'} of {found['sent']} {what} late or lost"
        f" (deadline {time(found['deadline_s'])})"
    )


def _experience(flow: Mapping[str, Any]) -> list[str]:
    """What a user of the flow feels."""
    lines = []
    if flow["app"] == "ping" and flow["empty_path_s"] is not None:
        lines.append(f"  RTT, empty path {time(flow['empty_path_s'])}")
    if call := flow.get("call"):
        score = "–" if call["mos"] is None else f"{call['mos']:.2f}"
        lines.append(f"  call            {_late(call, 'packets')}, mean opinion score {score}")
    if frames := flow.get("frames"):
        lines.append(f"  media           {_late(frames, 'frames')}")
    if video := flow.get("video"):
        ratio = video["rebuffer_ratio"]
        lines += [
            (
                f"  video           start-up {time(video['startup_s'])},"
                f" {count(video['stalls'], 'stall')} of {time(video['stalled_s'])} in all"
                f" ({'–' if ratio is None else f'{100 * ratio:.2f} %'} of the time)"
            ),
            (
                f"                  {rate(video['bitrate_bps'])} played on average,"
                f" {count(video['switches'], 'switch', 'switches')},"
                f" {count(video['chunks'], 'chunk')}"
            ),
        ]
    elif requests := flow.get("requests"):
        repeated = requests["repeated"]
        again = f", {count(repeated, 'repeated request')}" if repeated else ""
        lines += [
            (
                f"  responses       {requests['answered']} to {count(requests['sent'], 'request')}"
                f"{again}, {requests['answered_per_s']:.2f} per second"
            ),
            f"  response time   {_distribution(requests['response_s'])}",
        ]
    return lines


def _arrivals(
    result: Mapping[str, Any], group: str, flows: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The block of the transfers of a Poisson process."""
    from lasthop.analysis import metrics

    arrived = [f for f in flows if f["arrived_s"] < result["duration_s"]]
    complete = sum(f["completed_s"] is not None for f in arrived)
    values = metrics.of_groups(result)
    value = {key: values[f"groups.{group}.{key}"] for key in metrics.GROUP_METRICS}
    sent = sum(f["sent_segments"] for f in flows)
    again = sum(f["retransmissions"]["total"] for f in flows)
    times, slowdowns = (
        ", ".join(
            f"{'–' if value[f'{key}_p{p}'] is None else text(value[f'{key}_p{p}'])} {word}"
            for p, word in ((50, "median"), (95, "p95"), (99, "p99"))
        )
        for key, text in (("completed_s", time), ("slowdown", "{:.2f}".format))
    )
    return [
        (
            f"\n{group}: {count(len(arrived), 'transfer')} from {flows[0]['from']} to"
            f" {flows[0]['to']}, {complete} complete"
        ),
        f"  goodput         {rate(value['goodput_bps'])} of the measured time",
        f"  sent            {count(sent, 'segment')}, {count(again, 'retransmission')}",
        f"  completion time {times}",
        f"  slowdown        {slowdowns}",
    ]


def run(result: Mapping[str, Any], slots: Sequence[str], assumed: Sequence[str]) -> str:
    """What `lasthop run` prints."""
    out = [
        f"{result['scenario']}: {result['scheme']}, seed {result['seed']},"
        f" {time(result['duration_s'])}"
    ]
    out += [f"  warning: {line}" for line in result["warnings"]]
    out += [f"  {line}" for line in _slots(result["flows"], slots)]
    groups = itertools.groupby(result["flows"], key=lambda f: (f["group"], "arrived_s" in f))
    for (group, is_process), flows in groups:
        out += (
            _arrivals(result, group, list(flows))
            if is_process
            else [line for flow in flows for line in _flow(flow)]
        )
    if result.get("clicks"):
        out += [
            "",
            columns(
                [
                    ["click", "time", "bytes", "first byte after", "complete after"],
                    *map(_click, result["clicks"]),
                ],
                "",
            ),
        ]
    out += ["", _links(result["links"])]
    for agent in result["agents"]:
        counts = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in agent["counters"].items())
        out.append(f"\nagent {agent['scheme']} at {agent['node']}: {counts or 'no counters'}")
        if agent.get("limited_by"):
            out.append(f"  sender of the agent: limited by {limits.describe(agent)}")
    out += _classifier(result["classifier"])
    if assumed:
        out += ["", *(f"assumed: {a}" for a in assumed)]
    return "\n".join(out)


def _links(links: Sequence[Mapping[str, Any]]) -> str:
    """A row per one-way link."""
    marking = any(x["marked_frames"] for x in links)
    link_arq = any("attempts" in x for x in links)
    counters = [key for key in _LINK_COUNTERS if any(key in x for x in links)]
    more = [
        *(["attempts"] if link_arq else []),
        *(["ECN-marked"] if marking else []),
        *(_LINK_COUNTERS[key] for key in counters),
    ]
    head = [
        "link",
        "frames offered",
        "delivered",
        "lost on air",
        "dropped at queue",
        *more,
        "utilisation",
        "queueing delay p95",
    ]
    rows = [head] + [
        [
            f"{x['from']} → {x['to']}" + (" (radio)" if x.get("radio") else ""),
            str(x["offered_frames"]),
            str(x["delivered_frames"]),
            str(x["lost_on_air"]),
            str(x["dropped_at_queue"]),
            *([str(x.get("attempts", "–"))] if link_arq else []),
            *([str(x["marked_frames"])] if marking else []),
            *(str(x.get(key, "–")) for key in counters),
            f"{100 * x['utilisation']:.1f} %" if x["utilisation"] is not None else "–",
            time(x["queue_delay_s"]["p95"]),
        ]
        for x in links
    ]
    return columns(rows, "")


def _slots(flows: Sequence[Mapping[str, Any]], slots: Sequence[str]) -> list[str]:
    """The components of all flows, one line for consecutive flows with the same components."""
    if len(set(slots)) < 2:
        return list(slots[:1])
    lines = []
    for line, same in itertools.groupby(flows, key=lambda flow: str(flow["slots"])):
        names = [str(flow["id"]) for flow in same]
        lines.append(f"{names[0] if len(names) == 1 else f'{names[0]} … {names[-1]}'}: {line}")
    return lines


def _click(click: Mapping[str, Any]) -> list[str]:
    """Row of a click: times of the page, counted from the click."""
    done = "aborted" if click["broken_off"] else time(click["completed_s"])
    return [
        click["id"],
        time(click["at_s"]),
        str(click["bytes"]),
        time(click["first_byte_s"]),
        done,
    ]


def _classifier(found: Mapping[str, Any] | None) -> list[str]:
    """Per flow, the confusion matrix of the loss classifier."""
    if not found:
        return []
    from lasthop.analysis import metrics

    lines = []
    for flow in found["flows"]:
        share = (
            "no losses"
            if flow["accuracy"] is None
            else f"{100 * flow['accuracy']:.1f} % of the losses classified correctly"
        )
        rows = [["true class", *(f"classified as {s}" for s in metrics.PREDICTED_CLASSES)]]
        rows += [
            [what, *(str(flow["matrix"][truth][s]) for s in metrics.PREDICTED_CLASSES)]
            for truth, what in metrics.TRUE_CLASSES.items()
        ]
        lines += ["", f"classifier of {flow['scheme']}, {flow['id']}: {share}", columns(rows)]
    return lines
