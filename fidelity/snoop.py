"""Snoop beside ns-2.35: over a LAN that loses packets, and in the access point of an 802.11b
cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fidelity import wlan
from fidelity.agreement import Cell, Table
from fidelity.measuring import ALL_FLOWS, FIRST_FLOW, Measured, measure
from fidelity.ns2_traces import SCHEMES
from fidelity.references import Row, ns2_rows
from fidelity.suite import Columns, Comparison, Suite

#: A frame reaches the far end of ns-2's LAN `delay` after it begins, here after its end: what its
#: air time takes is taken off.
LAN = """
duration = "200 s"
[[link]]
between = ["s", "bs"]
rate = "10 Mbps"
delay = "20 ms"
queue = "499 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "{rate} bps"
forward.delay = "{down} ns"
backward.delay = "{up} ns"
overhead = "64 B"
queue = "149 packets"
{way}loss = {{ model = "uniform", rate = {loss}, index = "frame" }}
[[flow]]
from = "s"
to = "mh"
app = "bulk"
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "100 segments"
min_rto = "200 ms"
"""

#: What ns-2's agent does otherwise than the paper, rule by rule.
RULES = {
    "backoff=false": "the local timer is not doubled",
    "ns2_rtt_weights=true": (
        "the round-trip estimate gives a new sample seven eighths of the weight"
    ),
    "ns2_rtt_samples=true": (
        "it takes samples of what was sent again, of the handshake, and after the timer is set"
    ),
    "ns2_passing=true": "one counter of passed duplicate ACKs for all flows",
    "ns2_suppress_expected=true": (
        "duplicate ACKs that are expected are hidden even after the sender's own retransmission or"
        " the last local one"
    ),
    "ns2_sender_retransmissions=true": (
        "what the sender sends again is noticed only if it was cached and is not the first"
    ),
    "ns2_full_cache=true": "a full cache looks empty",
}
SNOOP = "snoop:" + ":".join(RULES)


@dataclass
class Gains(Table):
    """Goodput with Snoop over that without, here and there."""

    #: By cell: goodput without and with it, theirs and ours; and the gain with the defaults of this
    #: one.
    plain: list[tuple[float, float]] = field(default_factory=list)
    snoop: list[tuple[float, float]] = field(default_factory=list)
    defaults: list[float] = field(default_factory=list)

    def cells_markdown(self) -> Iterator[str]:
        """The cells with both goodputs and the gain."""
        yield (
            "\n| cell | without, ns-2 / here kbit/s | with Snoop | gain, ns-2 / here | difference |"
            " d | gain with the defaults |"
        )
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        for c, plain, snoop, default in zip(
            self.cells, self.plain, self.snoop, self.defaults, strict=True
        ):
            pairs = [f"{a / 1e3:.1f} / {b / 1e3:.1f}" for a, b in (plain, snoop)]
            d = "–" if c.d is None else f"{c.d:+.2f}"
            yield (
                f"| {c.name} | {pairs[0]} | {pairs[1]} | {c.theirs:.3f} / {c.ours:.3f} |"
                f" {c.relative:+.2%} | {d} | {default:.3f} |"
            )
        yield ""


def lan(row: Row, scheme: str) -> str:
    """The scenario of a row of snoop.csv."""
    rate = int(float(row["hop_rate"].removesuffix("Mb")) * 1e6)
    delay = int(float(row["hop_delay"].removesuffix("ms")) * 1e6)
    down, up = (delay - size * 8 * 1_000_000_000 // rate for size in (1104, 104))
    way = "forward." if row["dir"] == "data" else ""
    return LAN.format(rate=rate, down=down, up=up, way=way, loss=row["loss"], scheme=scheme)


def sender(row: Row) -> str:
    """The scheme of the sender of a row."""
    return SCHEMES[row["variant"]]


def scheme_of(row: Row, snoop: str = SNOOP) -> str:
    """The scheme of a row, with these settings of Snoop if the row has it."""
    if row["snoop"] == "0":
        return sender(row)
    return f"{snoop}:tick={row['snoop_tick_s']}s:sender={sender(row)}"


@dataclass(frozen=True)
class Path:
    """A table of ns-2 with rows without and with Snoop."""

    rows: list[Row]
    #: Columns by which a row with Snoop finds the one without.
    keys: tuple[str, ...]
    name: Callable[[Row], str]
    #: The scenario of a row with a scheme.
    scenario: Callable[[Row, str], str]
    comparison: Comparison
    seeds: int

    def run(self, row: Row, scheme: str) -> Measured:
        """Simulate a row with a scheme."""
        return self.comparison.measure(row, self.seeds, self.scenario(row, scheme))

    def pairs(self) -> Iterator[tuple[Row, Row]]:
        """The rows without and with Snoop that belong together."""
        plain = {self.key(r): r for r in self.rows if r["snoop"] == "0"}
        for row in self.rows:
            if row["snoop"] == "1" and self.key(row) in plain:
                yield plain[self.key(row)], row

    def key(self, row: Row) -> tuple[str, ...]:
        """What a row with Snoop has in common with the one without."""
        return tuple(row[k] for k in self.keys)


def path_of(
    table: str,
    keys: tuple[str, ...],
    name: Callable[[Row], str],
    scenario: Callable[[Row, str], str],
    seeds: int,
    quantity: str,
) -> Path:
    """A path with its rows and the comparison of each of them."""
    comparison = Comparison(
        lambda row: name(row) + (", Snoop" if row["snoop"] == "1" else ""),
        lambda row: "snoop" if row["snoop"] == "1" else sender(row),
        lambda row: scenario(row, scheme_of(row)),
        Columns(counts=("sender_retrans", "timeouts")),
        quantity,
    )
    return Path(ns2_rows(table), keys, name, scenario, comparison, seeds)


def goodput(title: str, about: str, path: Path) -> Table:
    """Each row separately, with ns-2's rules."""
    return Table(title, about, path.comparison.cells(path.rows, path.seeds))


def gains(title: str, about: str, path: Path, notes: list[str]) -> Gains:
    """The ratio of two rows; its relative error is that of both."""
    table = Gains(title, about, [], notes, kind="ns-2 gain", counted=False)
    for without, row in path.pairs():
        references = [path.comparison.reference(r) for r in (without, row)]
        theirs = [r.goodput for r in references]
        ours = [path.run(without, sender(row)), path.run(row, scheme_of(row))]
        gain, our_gain = theirs[1] / theirs[0], ours[1].mean / ours[0].mean
        half = gain * math.hypot(*(r.half / r.goodput for r in references))
        se = our_gain * math.hypot(*(o.se / o.mean for o in ours))
        runs = references[1].runs
        table.cells.append(Cell(path.name(row), "snoop", runs, gain, half, our_gain, se, {}))
        table.plain.append((theirs[0], ours[0].mean))
        table.snoop.append((theirs[1], ours[1].mean))
        table.defaults.append(path.run(row, scheme_of(row, "snoop")).mean / ours[0].mean)
    return table


NOTES = [
    (
        "`crates/lasthop-sim/tests/sim/ns2_snoop.rs` compares the agent with these rules with"
        " ns-2's own, frame for frame and within a microsecond, under scripted losses."
    ),
    (
        "The last column has the paper's rules, the defaults, over the same plain link. Where it"
        " falls behind, the next table says by which rule."
    ),
]


def lan_path(seeds: int) -> Path:
    """The wired path with a LAN at its end."""

    def name(row: Row) -> str:
        tick = f", tick {row['snoop_tick_s']} s" * (row["snoop_tick_s"] != "0.1")
        return (
            f"{sender(row)}, {row['hop_delay']}, {float(row['loss']):.1%}"
            f" {'both ways' if row['dir'] == 'both' else 'of data'}{tick}"
        )

    keys = ("variant", "hop_delay", "loss", "dir")
    return path_of("snoop.csv", keys, name, lan, seeds, FIRST_FLOW)


def cell_path(seeds: int) -> Path:
    """The wired path with an 802.11b cell at its end."""

    def name(row: Row) -> str:
        return f"{sender(row)}, d2 {row['d2']}, FER {float(row['fer']):.2%}"

    keys = ("variant", "fer", "d2")
    return path_of("snoop_wlan.csv", keys, name, wlan.ns2_flow, seeds, ALL_FLOWS)


LAN_ABOUT = (
    "FH – 10 Mbit/s, 20 ms – BS – LAN – MH: one endless flow for 200 s, 64 bytes of LAN header for"
    " each packet, 100 packets of cache, window 100, uniform loss that hits local retransmissions"
    " too."
)
CELL_ABOUT = (
    "S – 10 Mbit/s, 10 ms – R – 10 Mbit/s, d2 – AP ))) station: one flow down, 60 s, one attempt"
    " for each frame, queues of 50, window 100. Collisions of data with TCP ACKs come on top of the"
    " frame errors, so that Snoop helps at 0 % too."
)


@dataclass
class Apart(Table):
    """What each rule is worth."""

    lines: list[str] = field(default_factory=list)

    def verdicts(self) -> list[tuple[str, bool]]:
        """None: nothing is compared with a reference."""
        return []

    def markdown(self) -> Iterator[str]:
        """The section of the page, line by line."""
        yield f"## {self.title}\n\n{self.about}\n"
        yield from self.lines
        yield ""


#: Where the rules are looked at one by one.
LOOKED_AT = (("20ms", "0.01"), ("20ms", "0.05"), ("100ms", "0.05"), ("5ms", "0.09"))


def rule_by_rule(seeds: int) -> Apart:
    """The same cells without each of ns-2's rules in turn."""
    rows = [
        r
        for r in ns2_rows("snoop.csv")
        if r["variant"] == "Reno" and r["snoop"] == "1" and r["dir"] == "both"
    ]
    cells = [next(r for r in rows if (r["hop_delay"], r["loss"]) == where) for where in LOOKED_AT]
    table = Apart(
        "What each of ns-2's rules is worth",
        "Goodput over Reno with the paper's way in the place of one of ns-2's rules, against all of"
        " them; both ways, the delay is the last hop's.",
        [],
    )
    table.lines = [
        "| without | "
        + " | ".join(f"{r['hop_delay']}, {float(r['loss']):.0%}" for r in cells)
        + " |",
        "| --- |" + " ---: |" * len(cells),
    ]
    whole = [measure(lan(r, scheme_of(r)), seeds).mean for r in cells]
    for rule, text in RULES.items():
        others = "snoop:" + ":".join(r for r in RULES if r != rule)
        parts = [
            measure(lan(r, scheme_of(r, others)), seeds).mean / w - 1
            for r, w in zip(cells, whole, strict=True)
        ]
        table.lines.append(f"| `{rule}`: {text} | " + " | ".join(f"{p:+.1%}" for p in parts) + " |")
    parts = [
        measure(lan(r, scheme_of(r, "snoop")), seeds).mean / w - 1
        for r, w in zip(cells, whole, strict=True)
    ]
    table.lines.append("| all of them | " + " | ".join(f"{p:+.1%}" for p in parts) + " |")
    return table


def tables(seeds: int) -> list[Table]:
    """All tables of the page."""
    over_a_lan, in_a_cell = lan_path(seeds), cell_path(seeds)
    gain = " The gain is goodput with Snoop over that without."
    return [
        goodput("Over a LAN that loses packets", LAN_ABOUT, over_a_lan),
        gains("Gains over a plain link", LAN_ABOUT + gain, over_a_lan, NOTES),
        rule_by_rule(seeds),
        goodput("In the access point of an 802.11b cell", CELL_ABOUT, in_a_cell),
        gains("Gains in the access point of an 802.11b cell", CELL_ABOUT + gain, in_a_cell, []),
    ]


SUITE = Suite("fidelity-snoop", "Snoop beside ns-2.35", tables)
