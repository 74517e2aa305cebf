"""Comparisons as aligned plain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop import limits, quantities
from lasthop.analysis import metrics
from lasthop.quantities import count
from lasthop.tables.run_text import columns
from lasthop.tables.verdict_text import claim_lines

if TYPE_CHECKING:
    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.plan import Case, Plan


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


def runs_text(runs: int, single_run: str | None) -> str:
    """Number of runs of a case: "20"; of a case that is run once, why ("one run, …")."""
    return single_run if single_run is not None and runs == 1 else str(runs)


SHOWN = (
    ("goodput_bps", "goodput kbit/s"),
    ("one_way_delay_s_p95", "delay p95 ms"),
    ("spurious_retransmissions", "spurious retransmissions"),
    ("timeouts", "timeouts"),
)
DELAY = "one_way_delay_s_p95"
#: Which time goodput refers to in tables of several runs; in `run`, the time that a flow is active.
GOODPUT = "goodput is per measured time"
COMPLETION = ("completed_s", "completion s")
#: What the schemes of a table are compared by.
COMPARED = {"goodput_bps": "goodput", "completed_s": "completion time"}


def _compared(result: Comparison, number: int) -> str:
    """The metric that the schemes are compared by at one point: the completion time, if all flows
    of all runs are finite transfers and completed; otherwise the goodput.
    """
    complete = "completed_s" in result.metrics and all(
        time is not None
        for label in result.plan.labels
        for time in result.values(number, label, "completed_s")
    )
    return "completed_s" if complete else "goodput_bps"


def _shown(result: Comparison, number: int, compared: str) -> list[tuple[str, str]]:
    """The metrics with a column at one point, and their heads.

    Transfers have the completion time first. Their goodput over the measured time is their size
    divided by the duration of the run; it has no column if it is the same for all schemes.
    """
    shown = list(SHOWN)
    if compared == COMPLETION[0]:
        means = {result.statistics(number, x, "goodput_bps")["mean"] for x in result.plan.labels}
        texts = {None if x is None else quantities.format_number(x) for x in means}
        shown = [COMPLETION, *(shown[1:] if len(texts) == 1 else shown)]
    group = _delay_group(result)
    if not group:
        return shown
    return [
        (f"groups.{group}.{key}", f"{group}: {title}") if key == DELAY else (key, title)
        for key, title in shown
    ]


def _delay_group(result: Comparison) -> str:
    """The group of flows whose delay the table of schemes has: the first one of the candidates.

    The maximum over groups, such as a web session and a bulk flow, would be a delay of neither. The
    tables of groups have the delays of the others. Empty with one group.
    """
    if len(result.plan.groups) < 2:
        return ""
    roles = [(n, r) for c in result.plan.cases for n, r, _ in c.scenario.group_roles]
    candidates = (name for name, role in roles if role == ONLY_ROLE)
    group = next(candidates, "")
    return group if f"groups.{group}.{DELAY}" in result.metrics else ""


def _point(result: Comparison, number: int) -> list[list[str]]:
    """The table of one point, one row per scheme."""
    several = len(result.plan.labels) > 2
    more = ["p (Holm)"] if several else []
    compared = _compared(result, number)
    shown = _shown(result, number, compared)
    change = f"{COMPARED[compared]} change"
    rows = [["scheme", *(title for _, title in shown), change, *more, "corr.", "runs"]]
    senders = {c.label: _over_sender(c) for c in result.plan.cases if c.point == number}

    def row(label: str) -> list[str]:
        stats = {m: result.statistics(number, label, m) for m, _ in shown}
        first = label == result.plan.labels[0]
        main = stats[compared]
        correlation = main["correlation_to_first"]
        return [
            senders.get(label, label),
            *(interval(stats[m], metrics.factor(m)) for m, _ in shown),
            "" if first else percent(main["ratio_to_first"]),
            *(["" if first else _p(result, number, label, compared)] if several else []),
            "" if first or correlation is None else f"{correlation:.2f}",
            runs_text(
                len(result.values(number, label, "goodput_bps")),
                result.single_run(number, label),
            ),
        ]

    return rows + _by_group(result, row)


def _over_sender(case: Case) -> str:
    """The label of a scheme; that of an agent or relay with its sender: "snoop over cubic"."""
    for line in case.scenario.slots:
        if ", agent " in line or ", relay " in line:
            return f"{case.label} over {line.removeprefix('window ').split(',')[0]}"
    return case.label


def _p(result: Comparison, number: int, label: str, metric: str) -> str:
    """p of the metric's difference to the first scheme, adjusted by Holm's method."""
    return p_text(result.statistics_of(metric).p_holm(number, label, metric))


def p_text(p: float | None) -> str:
    """Format a p value: "0.012"."""
    return "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _undecided(result: Comparison, number: int) -> list[str]:
    """Schemes that may equal the first in what they are compared by, with the seeds that would
    decide.
    """
    first, lines, compared = result.plan.labels[0], [], _compared(result, number)
    name = COMPARED[compared]
    for label in result.plan.labels[1:]:
        gap = result.statistics(number, label, compared)["difference_to_first"]
        needed = result.statistics_of(compared).seeds_needed(number, label, compared)
        if not gap["ci95"] or not gap["ci95"][0] <= 0 <= gap["ci95"][1]:
            continue
        if needed is None:
            lines.append(f"undecided: {name} of {label} against {first}: equal in all runs")
            continue
        have = len(result.values(number, label, compared))
        more = max(needed - have, 1)
        lines.append(
            f"undecided: {name} of {label} against {first}; to show the observed difference with"
            f" power 80 %, run about {count(more, 'more seed')} ({have + more} in all)"
        )
    return lines


GROUPS_SHOWN = (
    ("goodput_bps", "goodput kbit/s"),
    ("goodput_share", "share %"),
    ("flow_goodput_bps_mean", "per active flow kbit/s"),
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
    about = f"{runs}, mean ± half-width of the 95 % CI"
    if not plan.random:
        about = plan.single_run if len(result.rows) == 1 else f"{runs}; of each {plan.single_run}"
    heading = f"{plan.title}: {about}; {GOODPUT}"
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
        out += ["", "claims:", *(line for v in result.verdicts for line in claim_lines(v))]
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
    how = []
    if any(c.scenario.inputs for c in cases):
        how.append(
            'for a random start position in the trace: --start random, or start = "random" in the'
            " file (--set last_hop.start=random)"
        )
    if any(c.scenario.random_starts == "none" for c in cases):
        how.append('random_starts = "none": the starts of flows are not drawn')
    return ["; ".join([f"{plan.single_run}, {place}", *how])]
