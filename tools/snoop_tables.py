"""The reference results of ns-2.35 for Snoop: over a LAN that loses packets, and in the access point of an 802.11b cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import ns2_tables as ns2
import wlan_tables as wlan
from agreement import Cell, Table, measure

#: A frame reaches the far end of ns-2's LAN `delay` after it begins, here after its end: what its air time takes is taken off.
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
    "ns2_rtt_weights=true": "the round-trip estimate gives a new sample seven eighths of the weight",
    "ns2_rtt_samples=true": "it takes samples of what was sent again, of the handshake, and after the timer is set",
    "ns2_passing=true": "one counter of passed duplicate ACKs for all flows",
    "ns2_suppress_expected=true": "duplicate ACKs that are expected are hidden even after the sender's own retransmission or the last local one",
    "ns2_sender_retransmissions=true": "what the sender sends again is noticed only if it was cached and is not the first",
    "ns2_full_cache=true": "a full cache looks empty",
}
SNOOP = "snoop:" + ":".join(RULES)


@dataclass
class Gains(Table):
    """Goodput with Snoop over that without, here and there."""

    #: By cell: goodput without and with it, theirs and ours; and the gain with the defaults of this one.
    plain: list[tuple[float, float]] = field(default_factory=list)
    snoop: list[tuple[float, float]] = field(default_factory=list)
    defaults: list[float] = field(default_factory=list)

    def verdicts(self) -> list[tuple[str, bool]]:
        most = max(self.cells, key=lambda c: abs(c.relative))
        return [
            (
                f"{len(self.cells)} gains within {self.limit:.0%}: largest difference {most.relative:+.1%} ({most.name})",
                abs(most.relative) <= self.limit,
            )
        ]

    def markdown(self) -> Iterator[str]:
        yield f"## {self.title}\n\n{self.about}\n"
        for text, good in self.verdicts():
            yield f"- {'holds' if good else '**differs**'}: {text}"
        for note in self.notes:
            yield f"- note: {note}"
        yield "\n| cell | without, ns-2 / here kbit/s | with Snoop | gain, ns-2 / here | difference | gain with the defaults |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: |"
        for c, plain, snoop, default in zip(self.cells, self.plain, self.snoop, self.defaults, strict=True):
            pairs = [f"{a / 1e3:.1f} / {b / 1e3:.1f}" for a, b in (plain, snoop)]
            yield f"| {c.name} | {pairs[0]} | {pairs[1]} | {c.theirs:.3f} / {c.ours:.3f} | {c.relative:+.1%} | {default:.3f} |"
        yield ""


def lan(row: dict[str, str], scheme: str) -> str:
    rate = int(float(row["hop_rate"].removesuffix("Mb")) * 1e6)
    delay = int(float(row["hop_delay"].removesuffix("ms")) * 1e6)
    down, up = (delay - size * 8 * 1_000_000_000 // rate for size in (1104, 104))
    way = "forward." if row["dir"] == "data" else ""
    return LAN.format(rate=rate, down=down, up=up, way=way, loss=row["loss"], scheme=scheme)


def scheme_of(row: dict[str, str], snoop: str) -> str:
    sender = ns2.SCHEMES[row["variant"]]
    return f"{snoop}:tick={row['snoop_tick_s']}s:sender={sender}" if row["snoop"] == "1" else sender


Goodput = Callable[[dict[str, str], str], float]


def gains(table: Gains, rows: list[dict[str, str]], keys: tuple[str, ...], name: Callable[[dict[str, str]], str], goodput: Goodput) -> Gains:
    plain = {tuple(r[k] for k in keys): r for r in rows if r["snoop"] == "0"}
    for row in rows:
        without = plain.get(tuple(row[k] for k in keys))
        if row["snoop"] == "0" or without is None:
            continue
        theirs = (float(without["goodput_bps_mean"]), float(row["goodput_bps_mean"]))
        ours = (goodput(without, ns2.SCHEMES[row["variant"]]), goodput(row, scheme_of(row, SNOOP)))
        default = goodput(row, scheme_of(row, "snoop"))
        table.cells.append(Cell(name(row), "snoop", int(row["runs"]), theirs[1] / theirs[0], 0.0, ours[1] / ours[0], 0.0, {}))
        table.plain.append((theirs[0], ours[0]))
        table.snoop.append((theirs[1], ours[1]))
        table.defaults.append(default / ours[0])
    return table


NOTES = [
    "`crates/lasthop-sim/tests/ns2_snoop.rs` holds the agent with these rules to ns-2's own, frame for frame and within a microsecond, under scripted losses. The rows without "
    "Snoop, where plain Reno, NewReno and SACK run, differ as much as those with it: ns-2 has 10 runs of each (8 in the cell).",
    "The last column has the paper's rules, the defaults, over the same plain link. Where it falls behind, the next table says by which rule.",
]


def over_a_lan(seeds: int) -> Gains:
    table = Gains(
        "Gains over a plain link",
        "FH – 10 Mbit/s, 20 ms – BS – LAN – MH: one endless flow for 200 s, 64 bytes of LAN header for each packet, 100 packets of cache, window 100, "
        "uniform loss that hits local retransmissions too. The gain is goodput with Snoop over that without.",
        [],
        NOTES,
        limit=0.10,
        kind="ns-2 gain",
    )

    def name(row: dict[str, str]) -> str:
        tick = f", tick {row['snoop_tick_s']} s" * (row["snoop_tick_s"] != "0.1")
        return (
            f"{ns2.SCHEMES[row['variant']]}, {row['hop_delay']}, {float(row['loss']):.1%} {'both ways' if row['dir'] == 'both' else 'of data'}{tick}"
        )

    return gains(
        table, list(ns2.rows("snoop.csv")), ("variant", "hop_delay", "loss", "dir"), name, lambda row, scheme: measure(lan(row, scheme), seeds)[0]
    )


def in_a_cell(seeds: int) -> Gains:
    table = Gains(
        "Gains in the access point of an 802.11b cell",
        "S – 10 Mbit/s, 10 ms – R – 10 Mbit/s, d2 – AP ))) station: one flow down, 60 s, one attempt for each frame, queues of 50, window 100. Collisions of "
        "data with TCP ACKs come on top of the frame errors, so that Snoop helps at 0 % too.",
        [],
        limit=0.10,
        kind="ns-2 gain",
    )

    def name(row: dict[str, str]) -> str:
        return f"{ns2.SCHEMES[row['variant']]}, d2 {row['d2']}, FER {float(row['fer']):.2%}"

    return gains(
        table,
        list(ns2.rows("snoop_wlan.csv")),
        ("variant", "fer", "d2"),
        name,
        lambda row, scheme: wlan.ours(wlan.ns2_flow(row, scheme), seeds).goodput,
    )


@dataclass
class Apart(Table):
    """What each rule is worth."""

    lines: list[str] = field(default_factory=list)

    def verdicts(self) -> list[tuple[str, bool]]:
        return []

    def markdown(self) -> Iterator[str]:
        yield f"## {self.title}\n\n{self.about}\n"
        yield from self.lines
        yield ""


#: Where the rules are looked at one by one.
LOOKED_AT = (("20ms", "0.01"), ("20ms", "0.05"), ("100ms", "0.05"), ("5ms", "0.09"))


def rule_by_rule(seeds: int) -> Apart:
    """The same cells without each of ns-2's rules in turn."""
    rows = [r for r in ns2.rows("snoop.csv") if r["variant"] == "Reno" and r["snoop"] == "1" and r["dir"] == "both"]
    cells = [next(r for r in rows if (r["hop_delay"], r["loss"]) == where) for where in LOOKED_AT]
    table = Apart(
        "What each of ns-2's rules is worth",
        "Goodput over Reno with the paper's way in the place of one of ns-2's rules, against all of them; both ways, the delay is the last hop's.",
        [],
    )
    table.lines = [
        "| without | " + " | ".join(f"{r['hop_delay']}, {float(r['loss']):.0%}" for r in cells) + " |",
        "| --- |" + " ---: |" * len(cells),
    ]
    whole = [measure(lan(r, scheme_of(r, SNOOP)), seeds)[0] for r in cells]
    for rule, text in RULES.items():
        others = "snoop:" + ":".join(r for r in RULES if r != rule)
        parts = [measure(lan(r, scheme_of(r, others)), seeds)[0] / w - 1 for r, w in zip(cells, whole, strict=True)]
        table.lines.append(f"| `{rule}`: {text} | " + " | ".join(f"{p:+.1%}" for p in parts) + " |")
    parts = [measure(lan(r, scheme_of(r, "snoop")), seeds)[0] / w - 1 for r, w in zip(cells, whole, strict=True)]
    table.lines.append("| all of them | " + " | ".join(f"{p:+.1%}" for p in parts) + " |")
    return table


def tables(seeds: int) -> list[Table]:
    """All tables of the page."""
    return [over_a_lan(seeds), rule_by_rule(seeds), in_a_cell(seeds)]
