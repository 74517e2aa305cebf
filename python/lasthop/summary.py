"""Results as text for people: short, aligned, no colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop import metrics

if TYPE_CHECKING:
    from lasthop.comparison import Comparison


def rate(bps: float | None) -> str:
    """A data rate: "147.2 kbit/s"."""
    if bps is None:
        return "–"
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= size:
            return f"{bps / size:.4g} {unit}"
    return f"{bps:.4g} bit/s"


def time(seconds: float | None) -> str:
    """A time: "194.3 ms"."""
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return "0 s" if seconds == 0 else f"{seconds / 1e-9:.4g} ns"


def columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Rows as aligned columns: the first to the left, the others to the right; the first row is the heading."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _distribution(d: Mapping[str, Any]) -> str:
    return f"{time(d['mean'])} mean, {time(d['p50'])} median, {time(d['p95'])} p95" if d["mean"] is not None else "–"


def run(result: Mapping[str, Any], slots: Sequence[str], assumed: Sequence[str]) -> str:
    """What `lasthop run` prints."""
    out = [f"{result['scenario']}: {result['scheme']}, seed {result['seed']}, {time(result['duration_s'])}"]
    out += [f"  {line}" for line in slots]
    for flow in result["flows"]:
        again, timeouts, fast = flow["retransmissions"], flow["timeouts"], flow["fast_retransmits"]
        done = f", complete at {time(flow['completed_s'])}" if flow["completed_s"] is not None else ""
        out += [
            f"\n{flow['id']}: {flow['from']} → {flow['to']}",
            f"  goodput         {rate(flow['goodput_bps'])} ({flow['delivered_bytes']} bytes delivered{done})",
            f"  sent            {flow['sent_segments']} segments, {again['total']} of them again ({again['spurious']} needlessly)",
            f"  timeouts        {timeouts['total']} ({timeouts['spurious']} spurious, {timeouts['ack_loss']} by lost ACKs)",
            f"  fast retransmit {fast['total']} ({fast['spurious']} spurious); window reduced {flow['cwnd_reductions']} times",
            f"  round trip      {_distribution(flow['rtt_s'])}",
            f"  one-way delay   {_distribution(flow['one_way_delay_s'])}",
        ]
    head = ["link", "offered", "delivered", "lost on air", "dropped", "busy", "queue p95"]
    rows = [head] + [
        [
            f"{x['from']} → {x['to']}" + (" (radio)" if x.get("radio") else ""),
            str(x["offered_frames"]),
            str(x["delivered_frames"]),
            str(x["lost_on_air"]),
            str(x["dropped_at_queue"]),
            f"{100 * x['utilisation']:.1f} %" if x["utilisation"] is not None else "–",
            time(x["queue_delay_s"]["p95"]),
        ]
        for x in result["links"]
    ]
    out += ["", columns(rows, "")]
    for agent in result["agents"]:
        counters = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in agent["counters"].items())
        out.append(f"\nagent {agent['scheme']} at {agent['node']}: {counters or 'nothing counted'}")
    if assumed:
        out += ["", *(f"assumed: {a}" for a in assumed)]
    return "\n".join(out)


def interval(s: Mapping[str, Any], factor: float) -> str:
    """A mean with half of its interval: "147.2 ± 3.1"."""
    if s["mean"] is None:
        return "–"
    text = f"{s['mean'] * factor:.4g}"
    return f"{text} ± {(s['ci95'][1] - s['ci95'][0]) / 2 * factor:.2g}" if s["ci95"] else text


def _percent(ratio: Mapping[str, Any]) -> str:
    if ratio["mean"] is None:
        return "–"
    text = f"{100 * (ratio['mean'] - 1):+.1f} %"
    return f"{text} [{100 * (ratio['ci95'][0] - 1):+.1f}, {100 * (ratio['ci95'][1] - 1):+.1f}]" if ratio["ci95"] else text


SHOWN = (
    ("goodput_bps", "goodput kbit/s"),
    ("one_way_delay_s_p95", "delay p95 ms"),
    ("spurious_retransmissions", "spurious again"),
    ("timeouts", "timeouts"),
)


def comparison(result: Comparison) -> str:
    """What `lasthop compare` prints."""
    plan = result.plan
    runs = f"{len(result.rows)} runs" + (f" of {plan.size()} (interrupted)" if result.interrupted else "")
    out = [f"{plan.title}: {runs}, mean ± half of the 95 % interval, goodput against {plan.labels[0]} from pairs"]
    for number, point in enumerate(plan.points):
        if point:
            out.append("\n" + ", ".join(f"{k} = {v}" for k, v in point.items()))
        rows = [["scheme", *(title for _, title in SHOWN), "goodput change", "corr.", "runs"]]
        for case in (c for c in plan.cases if c.point == number):
            stats = {m: result.statistics(number, case.label, m) for m, _ in SHOWN}
            first = case.label == plan.labels[0]
            goodput = stats["goodput_bps"]
            correlation = goodput["correlation_to_first"]
            rows.append(
                [
                    case.label,
                    *(interval(stats[m], metrics.factor(m)) for m, _ in SHOWN),
                    "" if first else _percent(goodput["ratio_to_first"]),
                    "" if first or correlation is None else f"{correlation:.2f}",
                    str(len(result.values(number, case.label, "goodput_bps"))),
                ]
            )
        out.append(columns(rows))
    out.append("")
    slots = dict.fromkeys(f"{c.label}: {line}" for c in plan.cases for line in dict.fromkeys(c.scenario.slots))
    out += slots
    out += [f"assumed: {a}" for a in plan.assumed]
    if not plan.random:
        out.append("nothing in this scenario is random: one run each, no intervals")
    if result.failed:
        out.append(f"{len(result.failed)} runs failed and are left out")
    return "\n".join(out)
