"""Results as aligned plain text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop import quantities
from lasthop.analysis import limits, metrics
from lasthop.quantities import count

if TYPE_CHECKING:
    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.plan import Case, Plan


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
        (
            f"  goodput         {rate(flow['goodput_bps'])} ({flow['delivered_bytes']} bytes"
            f" delivered{done})"
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
        f"  limited by      {limits.describe(flow)}",
        f"  RTT             {_distribution(flow['rtt_s'])}",
        f"  one-way delay   {_distribution(flow['one_way_delay_s'])}",
        *_experience(flow),
    ]


def _experience(flow: Mapping[str, Any]) -> list[str]:
    """What a user of the flow feels."""
    lines = []
    if flow["app"] == "ping" and flow["empty_path_s"] is not None:
        lines.append(f"  RTT, empty path {time(flow['empty_path_s'])}")
    if call := flow.get("call"):
        share = call["late_or_lost_share"]
        score = "–" if call["mos"] is None else f"{call['mos']:.2f}"
        lines.append(
            f"  call            {'–' if share is None else f'{100 * share:.2f} %'} of"
            f" {call['sent']} packets late or lost (deadline {time(call['deadline_s'])}),"
            f" mean opinion score {score}"
        )
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
        f"  goodput         {rate(value['goodput_bps'])}",
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
    marking = any(x["marked_frames"] for x in result["links"])
    link_arq = any("attempts" in x for x in result["links"])
    more = [*(["attempts"] if link_arq else []), *(["ECN-marked"] if marking else [])]
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
            f"{100 * x['utilisation']:.1f} %" if x["utilisation"] is not None else "–",
            time(x["queue_delay_s"]["p95"]),
        ]
        for x in result["links"]
    ]
    out += ["", columns(rows, "")]
    for agent in result["agents"]:
        counters = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in agent["counters"].items())
        out.append(f"\nagent {agent['scheme']} at {agent['node']}: {counters or 'no counters'}")
        if agent.get("limited_by"):
            out.append(f"  sender of the agent: limited by {limits.describe(agent)}")
    out += _classifier(result["classifier"])
    if assumed:
        out += ["", *(f"assumed: {a}" for a in assumed)]
    return "\n".join(out)


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
    lines = []
    for flow in found["flows"] if found else ():
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


def interval(s: Mapping[str, Any], factor: float) -> str:
    """Format a mean with the half-width of its confidence interval: "147.2 ± 3.1"."""
    if s["mean"] is None:
        return "–"
    text = quantities.format_number(s["mean"] * factor)
    if not s["ci95"]:
        return text
    half = (s["ci95"][1] - s["ci95"][0]) / 2
    if half < 1e-12 * abs(s["mean"]):  # equal runs; the rest is rounding of the mean
        half = 0.0
    return f"{text} ± {quantities.format_number(half * factor, 2)}"


def percent(ratio: Mapping[str, Any]) -> str:
    """Format a ratio as a change with its confidence interval: "+43.7 % [+41.2, +46.1]"."""
    if ratio["mean"] is None:
        return "–"
    text = f"{100 * (ratio['mean'] - 1):+.1f} %"
    return (
        f"{text} [{100 * (ratio['ci95'][0] - 1):+.1f}, {100 * (ratio['ci95'][1] - 1):+.1f}]"
        if ratio["ci95"]
        else text
    )


SHOWN = (
    ("goodput_bps", "goodput kbit/s"),
    ("one_way_delay_s_p95", "delay p95 ms"),
    ("spurious_retransmissions", "spurious retransmissions"),
    ("timeouts", "timeouts"),
)


def _point(result: Comparison, number: int) -> list[list[str]]:
    """The table of one point, one row per scheme."""
    several = len(result.plan.labels) > 2
    more = ["p (Holm)"] if several else []
    head = ["scheme", *(title for _, title in SHOWN), "goodput change", *more, "corr.", "runs"]
    rows = [head]
    senders = {c.label: _over_sender(c) for c in result.plan.cases if c.point == number}

    def row(label: str) -> list[str]:
        stats = {m: result.statistics(number, label, m) for m, _ in SHOWN}
        first = label == result.plan.labels[0]
        goodput = stats["goodput_bps"]
        correlation = goodput["correlation_to_first"]
        return [
            senders.get(label, label),
            *(interval(stats[m], metrics.factor(m)) for m, _ in SHOWN),
            "" if first else percent(goodput["ratio_to_first"]),
            *(["" if first else _p(result, number, label)] if several else []),
            "" if first or correlation is None else f"{correlation:.2f}",
            str(len(result.values(number, label, "goodput_bps"))),
        ]

    return rows + _by_group(result, row)


def _over_sender(case: Case) -> str:
    """The label of a scheme; that of an agent or relay with its sender: "snoop over cubic"."""
    for line in case.scenario.slots:
        if ", agent " in line or ", relay " in line:
            return f"{case.label} over {line.removeprefix('window ').split(',')[0]}"
    return case.label


def _p(result: Comparison, number: int, label: str) -> str:
    """p of the goodput's difference to the first scheme, adjusted by Holm's method."""
    return p_text(result.statistics_of("goodput_bps").p_holm(number, label, "goodput_bps"))


def p_text(p: float | None) -> str:
    """Format a p value: "0.012"."""
    return "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _undecided(result: Comparison, number: int) -> list[str]:
    """Schemes whose goodput may equal that of the first, with the seeds that would decide."""
    first, lines = result.plan.labels[0], []
    for label in result.plan.labels[1:]:
        gap = result.statistics(number, label, "goodput_bps")["difference_to_first"]
        needed = result.statistics_of("goodput_bps").seeds_needed(number, label, "goodput_bps")
        if not gap["ci95"] or not gap["ci95"][0] <= 0 <= gap["ci95"][1]:
            continue
        if needed is None:
            lines.append(f"undecided: goodput of {label} against {first}: equal in all runs")
            continue
        have = len(result.values(number, label, "goodput_bps"))
        more = max(needed - have, 1)
        lines.append(
            f"undecided: goodput of {label} against {first}; to show the observed difference with"
            f" power 80 %, run about {count(more, 'more seed')} ({have + more} in all)"
        )
    return lines


GROUPS_SHOWN = (
    ("goodput_bps", "goodput kbit/s"),
    ("goodput_share", "share %"),
    ("flow_goodput_bps_mean", "per flow kbit/s"),
    ("jain", "Jain"),
    ("one_way_delay_s_p95", "delay p95 ms"),
    ("harm_goodput", "harm goodput %"),
    ("harm_delay", "harm delay %"),
)
TRANSFERS_SHOWN = (
    ("completed_share", "completed %"),
    ("completed_s_p50", "completion p50 s"),
    ("completed_s_p95", "p95 s"),
    ("completed_s_p99", "p99 s"),
    ("slowdown_p50", "slowdown p50"),
    ("slowdown_p95", "p95"),
    ("click_s_p50", "page load p50 s"),
    ("click_s_p95", "p95 s"),
    ("harm_completion", "harm %"),
)
EXPERIENCE_SHOWN = (
    ("rtt_increase_s_p95", "RTT increase p95 ms"),
    ("late_or_lost_share", "late or lost %"),
    ("mos", "MOS"),
    ("responses_per_s", "responses/s"),
    ("response_s_p50", "response p50 ms"),
    ("response_s_p95", "p95 ms"),
    ("startup_s", "start-up s"),
    ("rebuffer_ratio", "rebuffering %"),
    ("stalls", "stalls"),
    ("bitrate_bps", "bitrate kbit/s"),
    ("bitrate_switches", "switches"),
)
HARM_NOTE = (
    "  harm: share lost by a group to the candidates, relative to runs without them (negative: it"
    " gains)"
)
# With one role of the flows it has no column.
ONLY_ROLE = "candidate"


def _groups(
    found: Mapping[str, Sequence[Mapping[str, Any]]], shown: Sequence[tuple[str, str]]
) -> list[list[str]]:
    """A table of the groups of flows by scheme: below each scheme, one row per group.

    Metrics that are unknown for all groups have no column, groups without a metric no row; the
    table is empty without metrics.
    """
    known = [
        (key, title)
        for key, title in shown
        if any(g[key]["mean"] is not None for gs in found.values() for g in gs)
    ]
    if not known:
        return []
    with_roles = any(g["role"] != ONLY_ROLE for gs in found.values() for g in gs)
    roles = ["role"] if with_roles else []
    limit = ["limited by"] if shown is GROUPS_SHOWN else []
    rows = [["group of flows", *roles, "flows", *(title for _, title in known), *limit]]
    for label, groups in found.items():
        rows.append([label, *[""] * (len(rows[0]) - 1)])
        for g in groups:
            if all(g[key]["mean"] is None for key, _ in known):
                continue
            cells = [interval(g[key], metrics.GROUP_METRICS[key][1]) for key, _ in known]
            start = [f"  {g['name']}", *([g["role"]] if with_roles else []), str(g["flows"])]
            rows.append([*start, *cells, *(_limit(g) for _ in limit)])
    return rows


def _limit(group: Mapping[str, Any]) -> str:
    """What limits a group for the longest time: "cwnd 93 %"."""
    shares = {name: group[f"limited_by_{key}"]["mean"] for key, name in limits.NAMES.items()}
    known = {name: share for name, share in shares.items() if share is not None}
    if not known:
        return "–"
    name = max(known, key=lambda n: known[n])
    return f"{name} {100 * known[name]:.0f} %"


def _series(result: Comparison, number: int) -> list[str]:
    """The measures of time series at one point, one line per scheme."""
    known = [m for m in metrics.SERIES_METRICS if m in result.metrics]
    lines = []
    for label in result.plan.labels if known else ():
        parts = []
        for m in known:
            name, _, unit = metrics.label(m).rpartition(" (")
            value = interval(result.statistics(number, label, m), metrics.factor(m))
            parts.append(f"{name} {value} {unit.removesuffix(')')}")
        lines.append(f"{label}: {', '.join(parts)}")
    return lines


def _counters(result: Comparison, number: int) -> list[str]:
    """The counters of agents and relays at one point that are not 0, one line per scheme."""
    lines = []
    for case in (c for c in result.plan.cases if c.point == number):
        for scheme, keys in dict(case.scenario.counters()).items():
            agent = scheme.split(":")[0]
            shown = [(k, f"agents.{agent}.{k}") for k in keys if "." not in agent]
            parts = [
                f"{key.replace('_', ' ')} {interval(result.statistics(number, case.label, m), 1)}"
                for key, m in shown
                if m in result.metrics and result.statistics(number, case.label, m)["mean"]
            ]
            if parts:
                lines.append(f"agent {agent}, scheme {case.label}: {', '.join(parts)}")
    return lines


def _across_points(result: Comparison) -> list[list[str]]:
    """The goodput table: one row per scheme, one column per point."""
    points = list(enumerate(result.plan.points))
    keys = ", ".join(result.plan.vary)
    factor = metrics.factor("goodput_bps")

    def row(label: str) -> list[str]:
        return [
            label,
            *(interval(result.statistics(n, label, "goodput_bps"), factor) for n, _ in points),
        ]

    return [[keys, *(", ".join(p.values()) for _, p in points)], *_by_group(result, row)]


def _by_group(result: Comparison, row: Callable[[str], list[str]]) -> list[list[str]]:
    """One row per scheme; many schemes are listed under the headings of the catalogue."""
    if not result.plan.has_many_schemes:
        return [row(label) for label in result.plan.labels]
    rows = []
    for title, labels in result.plan.sections:
        members = [["  " + cells[0], *cells[1:]] for cells in map(row, labels)]
        rows += [[title, *[""] * (len(members[0]) - 1)], *members]
    return rows


def _binding(result: Comparison, number: int) -> list[str]:
    """The settings that limit the schemes at one point, one line each."""
    lines = []
    for case in (c for c in result.plan.cases if c.point == number):
        names = [m for m in result.metrics if m.startswith("limited_by_")]
        means = {m: result.statistics(number, case.label, m)["mean"] for m in names}
        lines += limits.binding_settings(case.label, means, case.scenario.bounds)
    return lines


def comparison(result: Comparison) -> str:
    """What `lasthop compare` prints."""
    plan = result.plan
    runs = (
        f"{len(result.rows)} of {count(plan.size(), 'run')} (interrupted)"
        if result.interrupted
        else count(len(result.rows), "run")
    )
    heading = f"{plan.title}: {runs}, mean ± half-width of the 95 % CI"
    warnings = [f"warning: {line}" for line in plan.warnings]
    if plan.has_many_schemes and plan.vary:
        out = [
            f"{heading}, {metrics.label('goodput_bps')}; other metrics: --out, --json",
            *warnings,
            columns(_across_points(result)),
        ]
    else:
        change = (
            f"; change relative to {plan.labels[0]}, paired by seed" if len(plan.labels) > 1 else ""
        )
        out = [f"{heading}{change}", *warnings]
        for number, point in enumerate(plan.points):
            if point:
                out.append("\n" + ", ".join(f"{k} = {v}" for k, v in point.items()))
            out.append(columns(_point(result, number)))
            out += _undecided(result, number)
            out += _binding(result, number)
            out += _series(result, number)
            out += _counters(result, number)
            if plan.groups:
                cases = [c for c in plan.cases if c.point == number]
                found = {c.label: result.groups(c) for c in cases}
                shown = (GROUPS_SHOWN, TRANSFERS_SHOWN, EXPERIENCE_SHOWN)
                tables = [_groups(found, metrics_shown) for metrics_shown in shown]
                out += [line for rows in tables if rows for line in ("", columns(rows))]
            if plan.roles and any(c.solo is not None for c in plan.cases):
                out.append(HARM_NOTE)
    out.append("")
    slots = dict.fromkeys(
        f"{c.label}: {line}" for c in plan.cases for line in dict.fromkeys(c.scenario.slots)
    )
    out += slots
    out += assumptions(plan)
    out += _deterministic_cases(plan)
    if result.verdicts:
        from lasthop.analysis import report

        out += ["", "claims:", *(line for v in result.verdicts for line in report.claim_lines(v))]
    if result.failed:
        out.append(
            f"{count(len(result.failed), 'run')} failed and"
            f" {'is' if len(result.failed) == 1 else 'are'} left out"
        )
    return "\n".join(out)


def assumptions(plan: Plan) -> list[str]:
    """The assumptions, one line each; an assumption about some cases only names them."""
    return [
        f"assumed {place}: {line}" if place else f"assumed: {line}" for place, line in plan.assumed
    ]


def _deterministic_cases(plan: Plan) -> list[str]:
    """Name the deterministic cases, and how to make them random."""
    cases = [c for c in plan.cases if not c.random]
    if not cases:
        return []
    place = plan.describe_cases(cases) or "in this scenario"
    traces = any(c.scenario.inputs for c in cases)
    how = (
        '; for a random start position in the trace: --start random, or start = "random" in the'
        " file (--set last_hop.start=random)"
        if traces
        else ""
    )
    return [f"deterministic {place}: one run per case, no confidence interval{how}"]
