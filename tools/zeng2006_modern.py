"""zeng2006's scenarios with later senders: `python tools/zeng2006_modern.py` writes the
tables of docs/zeng2006-modern.md.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import marked_pages
import numpy as np

import lasthop
from lasthop.analysis import metrics, statistics
from lasthop.experiments import plan
from lasthop.experiments.comparison import Comparison, compare
from lasthop.experiments.plan import Job, Source
from lasthop.experiments.pool import Cancel
from lasthop.experiments.store import Metrics, write_whole
from lasthop.scenarios import experiment
from lasthop.tables import summary

PAGE = Path(__file__).parents[1] / "docs/zeng2006-modern.md"
BLOCK = "later senders"

PACKET_CONTROL = [
    f"packet-control:sender=reno:dupack_threshold={d}:strict=true:label=D = {d}"
    for d in (3, 6, 9, 12)
]
EIFEL = {
    "eifel 2000": "eifel:variant=original:label=eifel 2000",
    "eifel rfc": "eifel:variant=rfc:label=eifel rfc",
}
LATER = ["f-rto", "ncr", "rack", "rack:f_rto=true:dsack_undo=true:label=rack as in Linux"]
SCHEMES = ["reno", *PACKET_CONTROL, *EIFEL.values(), *LATER, "newreno", "sack"]
#: Eifel's option has the cost given in the thesis. RACK needs D-SACK, which only receivers of SACK
#: senders send.
ALSO = (("tcp.timestamp_bytes", "12"), ("tcp.timestamp_ack_bytes", "12"), ("tcp.dsack", "true"))
LOSSES = [f"{n} %" for n in range(1, 6)]

SENT = "radio_sent_again_bytes"
WASTED = "radio_wasted_bytes"
NAMES = [
    "goodput_bps",
    WASTED,
    SENT,
    "radio_airtime_per_byte_s",
    "timeouts",
    "fast_retransmits",
    "cwnd_reductions",
]


@dataclass(frozen=True)
class Setting:
    """One of the thesis' scenarios."""

    title: str
    figure: str
    seeds: int
    about: str
    vary: Mapping[str, Sequence[str]] = field(default_factory=dict)


SETTINGS = [
    Setting(
        "Scenario I (figures 13 to 15)",
        "zeng2006/fig13",
        200,
        "The delay varies from frame to frame and nothing is lost.",
    ),
    Setting(
        "Scenario II (figure 16)",
        "zeng2006/fig16",
        300,
        "As I, with 1 % of the frames lost on the radio link in each direction.",
    ),
    Setting(
        "Scenario III (figures 17 to 20)",
        "zeng2006/fig17",
        30,
        "Constant delay, no loss; the radio link stops for 6 s.",
    ),
]
LOSSY = Setting(
    "Scenario II with more loss",
    "zeng2006/fig16",
    200,
    "As II, with 1 % to 5 % of the frames lost.",
    {"link.radio.loss.rate": LOSSES},
)


def waste(columns: Mapping[str, Any], link: int) -> tuple[int, int]:
    """Payload retransmitted over a link, and the spurious part of it, in bytes.

    A copy of a segment is spurious if an earlier one, in the order in which they entered the link,
    arrived.
    """
    kinds = list(columns["events"])
    codes = {kinds.index(k): k for k in ("enqueued", "dropped_at_queue", "arrived")}
    mine = np.flatnonzero(
        (columns["link"] == link) & (columns["len"] > 0) & np.isin(columns["event"], list(codes))
    )
    copies: dict[int, list[int]] = defaultdict(
        list
    )  # per segment: attempts in the order of entering
    length: dict[int, int] = {}
    arrived: set[tuple[int, int]] = set()
    for i in mine[np.argsort(columns["t_ns"][mine], kind="stable")].tolist():
        what, seq, attempt = (
            codes[int(columns["event"][i])],
            int(columns["seq"][i]),
            int(columns["attempt"][i]),
        )
        length[seq] = int(columns["len"][i])
        if what == "enqueued":
            copies[seq].append(attempt)
        elif what == "dropped_at_queue":
            copies[seq] = [a for a in copies[seq] if a != attempt]
        else:
            arrived.add((seq, attempt))
    again = sum(length[seq] * max(0, len(attempts) - 1) for seq, attempts in copies.items())
    through = {seq: [(seq, a) in arrived for a in attempts] for seq, attempts in copies.items()}
    return again, sum(
        length[seq] * (len(t) - 1 - t.index(True)) for seq, t in through.items() if True in t
    )


def observe(job: Job, cancel: Cancel | None) -> Metrics:
    """Do one run: its metrics, and the retransmissions over the radio link."""
    scenario: Any = job.case.scenario
    run, columns = scenario.run_recorded(job.seed, True, None, cancel)
    again, needless = waste(columns, run.data_radio)
    found = metrics.of_run(run) | {SENT: float(again), WASTED: float(needless)}
    return {name: found[name] for name in NAMES}


def measure(
    setting: Setting, schemes: Sequence[str] = SCHEMES, seeds: int | None = None
) -> Comparison:
    """All runs of a setting."""
    figure = experiment.read(experiment.FOLDER / f"{setting.figure}.toml")
    where = Source(figure.text, str(figure.path), ALSO)
    the_plan = plan.plan(
        where, schemes, seeds or setting.seeds, setting.vary, version=lasthop.__version__
    )
    return compare(
        the_plan, version=lasthop.__version__, observe=observe, names=NAMES, what=setting.title
    )


def _cell(result: Comparison, point: int, label: str, metric: str, factor: float) -> str:
    return summary.interval(result.statistics(point, label, metric), factor)


COLUMNS = [
    ("goodput, kbit/s", "goodput_bps", 1e-3),
    ("spurious retransmissions on the radio, kB", WASTED, 1e-3),
    ("retransmissions on the radio, kB", SENT, 1e-3),
    ("air time per byte, µs", "radio_airtime_per_byte_s", 1e6),
    ("timeouts", "timeouts", 1.0),
    ("fast retransmits", "fast_retransmits", 1.0),
    ("window reductions", "cwnd_reductions", 1.0),
]


GOODPUT_CLAIM = (
    'Claim "Eifel has the better goodput". Paired difference Eifel − packet control, kbit/s [95 %'
    " CI]:"
)
BANDWIDTH_CLAIM = (
    'Claim "packet control saves radio bandwidth". Paired difference Eifel − packet control of'
    " the\nspurious retransmissions on the radio link, kB [95 % CI]:"
)
NOTE = (
    "Mean ± half-width of the 95 % CI per run of 20 s; seed k is common to all schemes."
    " *Retransmissions on the radio*: payload of the copies of a segment that were sent over the"
    " radio link after the first one. *Spurious*: the part of it of which an earlier copy arrived."
    " Packets that packet control drops before the link are in neither."
)


def rows(header: Sequence[str], cells: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [
        f"| {' | '.join(header)} |",
        f"| --- |{' ---: |' * (len(header) - 1)}",
        *(f"| {' | '.join(c)} |" for c in cells),
    ]


def full_table(result: Comparison, point: int = 0) -> list[str]:
    """Every metric of every scheme at one point."""
    cells = [
        [label, *(_cell(result, point, label, m, f) for _, m, f in COLUMNS)]
        for label in result.plan.labels
    ]
    return rows(["scheme", *(title for title, *_ in COLUMNS)], cells)


def along(result: Comparison, metric: str, factor: float) -> list[str]:
    """One metric of every scheme, a column per value of the varied key."""
    points = range(len(result.plan.points))
    values = [next(iter(p.values())) for p in result.plan.points]
    return rows(
        ["scheme", *values],
        [
            [label, *(_cell(result, n, label, metric, factor) for n in points)]
            for label in result.plan.labels
        ],
    )


def judged(result: Comparison, point: int, eifel: str, metric: str, factor: float) -> list[str]:
    """A variant of Eifel compared with each D: the paired difference, and whether it is
    positive, as the thesis claims.
    """
    cells = []
    for label in controlled(result):
        gap = statistics.difference(*result.pairs(point, eifel, label, metric))
        if gap.mean is None:
            cells.append("–")
            continue
        low, high = gap.ci95 or (gap.mean, gap.mean)
        verdict = "holds" if low > 0 else "**differs**" if high < 0 or low == high else "undecided"
        cells.append(
            f"{gap.mean * factor:+.3g} [{low * factor:+.3g}, {high * factor:+.3g}] {verdict}"
        )
    return cells


def controlled(result: Comparison) -> list[str]:
    """The labels of packet control."""
    return [x for x in result.plan.labels if x.startswith("D = ")]


def verdicts(results: Sequence[tuple[str, Comparison, int]]) -> list[str]:
    """The thesis' two claims, by setting and D."""
    labels = controlled(results[0][1])
    out = []
    for text, metric in (
        (GOODPUT_CLAIM, "goodput_bps"),
        (BANDWIDTH_CLAIM, WASTED),
    ):
        cells = [
            [title, e, *judged(r, n, e, metric, 1e-3)]
            for title, r, n in results
            for e in EIFEL
            if e in r.plan.labels
        ]
        out += [text, "", *rows(["setting", "variant", *labels], cells), ""]
    return out


def tables(results: Sequence[tuple[Setting, Comparison]], lossy: Comparison) -> str:
    """What the page has in its block."""
    values = [next(iter(p.values())) for p in lossy.plan.points]
    points = [(s.title.split(" (")[0], r, 0) for s, r in results] + [
        (f"II at {v}", lossy, n) for n, v in enumerate(values) if n
    ]
    out = ["## The thesis' claims", "", *verdicts(points)]
    out += ["## All numbers", "", textwrap.fill(NOTE, 100), ""]
    for setting, result in results:
        out += [
            f"### {setting.title}",
            "",
            f"{setting.about} {len(result.plan.seeds)} seeds, profile ns-2.26.",
            "",
            *full_table(result),
            "",
        ]
    out += [f"### {LOSSY.title}", "", f"{LOSSY.about} {len(lossy.plan.seeds)} seeds.", ""]
    for title, metric, factor in COLUMNS[:3]:
        out += [f"{title[0].upper()}{title[1:]}:", "", *along(lossy, metric, factor), ""]
    slots = dict.fromkeys(
        textwrap.fill(f"- {c.label}: {line}", 100, subsequent_indent="  ")
        for c in results[0][1].plan.cases
        for line in c.scenario.slots
    )
    also = (
        "Timestamps take 12 bytes in data and ACKs (Eifel only). Receivers of SACK senders send"
        " D-SACK."
    )
    out += [
        "## Components of the schemes",
        "",
        *slots,
        "",
        also,
        "",
        f"lasthop {lasthop.__version__}.",
    ]
    return "\n".join(out)


def made() -> str:
    """Do all runs; the page with its tables."""
    found = tables([(s, measure(s)) for s in SETTINGS], measure(LOSSY))
    return marked_pages.replaced(PAGE.read_text(encoding="utf-8"), BLOCK, found)


if __name__ == "__main__":
    write_whole(PAGE, made())
