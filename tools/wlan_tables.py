"""The reference results for 802.11b: saturation and one TCP flow in ns-2.35, the model of Bianchi, one TCP flow in ns-3.44."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import ns3_mimics
from agreement import CORES, ROOT, Cell, Table

from lasthop import CongestionControl, _native

NS2 = ROOT / "tests/reference/ns2"
NS3 = ROOT / "tests/reference/ns3"

#: What ns-2 does, switch by switch.
NS2_RULES = 'overhead = "34 B"\naccess = "ns-2"\nbackoff_includes_cw = false'

SATURATION = """
duration = "{end} s"
[measure]
from = "1 s"
[[cell]]
members = ["ap", {stations}]
basic_rate = "{basic}"
attempts = {attempts}
queue = "19 packets"
{rules}
after_collision = "{after}"
{flows}
"""

#: 10 % more than one station alone could send.
SATURATING = """[[flow]]
from = "s{i}"
to = "ap"
app = {{ kind = "cbr", rate = "6 Mbps" }}
segment = "960 B"
headers = "40 B"
start = "{i} ms"
"""

NS2_FLOW = """
duration = "100 s"
[measure]
from = "40 s"
[[link]]
between = ["s", "r"]
rate = "10 Mbps"
delay = "{d1}"
queue = "49 packets"
[[link]]
between = ["r", "ap"]
rate = "10 Mbps"
delay = "{d2}"
queue = "49 packets"
[[cell]]
members = ["ap", "sta"]
basic_rate = "{basic}"
attempts = {attempts}
queue = "49 packets"
loss = {{ model = "frame-errors", rate = {fer}, bytes = "1098 B", index = "frame" }}
{rules}
after_collision = "ns-2"
[[cell.station]]
name = "sta"
overhead = "20 B"
[[flow]]
from = "{start}"
to = "{end}"
start = "40 s"
segment = "1000 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
"""

NS3_FLOW = """
duration = "25 s"
[measure]
from = "5 s"
[[link]]
between = ["s", "ap"]
rate = "100 Mbps"
delay = "20 ms"
queue = "1000 packets"
[[cell]]
members = ["ap", "sta"]
attempts = {attempts}
queue = "1000 packets"
down.loss = {{ model = "uniform", rate = {fer}, index = "frame" }}
access = "{access}"
[[flow]]
from = "s"
to = "sta"
start = "0.1 s"
segment = "1000 B"
[tcp]
profile = "rfc"
scheme = "{scheme}"
receive_window = "300 segments"
initial_window = "2 segments"
delayed_ack = false
min_rto = "1 s"
"""

SCHEMES = {"Reno": "reno", "Newreno": "newreno", "Sack1": "sack"}
ACCESS = ("ns-2", "idle", "ns-3")
#: How far a cell with one attempt, and one with several, may be off.
ONE, SEVERAL = 0.15, 0.05


@dataclass
class Within(Table):
    """A table whose cells must lie within a bound each."""

    #: By the name of a cell; another one must lie within `limit`.
    bounds: dict[str, float] = field(default_factory=dict)
    #: Further columns: a heading, and texts in the order of the cells.
    more: dict[str, list[str]] = field(default_factory=dict)

    def verdicts(self) -> list[tuple[str, bool]]:
        lines = []
        for bound in sorted({self.bound(c) for c in self.cells}):
            cells = [c for c in self.cells if self.bound(c) == bound]
            most = max(cells, key=lambda c: abs(c.relative))
            lines.append(
                (f"{len(cells)} cells within {bound:.0%}: largest difference {most.relative:+.1%} ({most.name})", abs(most.relative) <= bound)
            )
        return lines

    def bound(self, cell: Cell) -> float:
        return self.bounds.get(cell.name, self.limit)

    def markdown(self) -> Iterator[str]:
        yield f"## {self.title}\n\n{self.about}\n"
        for text, good in self.verdicts():
            yield f"- {'holds' if good else '**differs**'}: {text}"
        for note in self.notes:
            yield f"- note: {note}"
        heads = "".join(f" {head} |" for head in self.more)
        yield f"\n| cell | {self.reference} kbit/s | here kbit/s | difference | d |{heads}"
        yield "| --- |" + " ---: |" * (4 + len(self.more))
        for i, c in enumerate(self.cells):
            d = "–" if c.d is None else f"{c.d:+.1f}"
            more = "".join(f" {column[i]} |" for column in self.more.values())
            yield f"| {c.name} | {c.theirs / 1e3:.1f} | {c.ours / 1e3:.1f} | {c.relative:+.1%} | {d} |{more}"
        yield ""


@dataclass(frozen=True)
class Ours:
    """Means over seeds."""

    goodput: float
    se: float
    retransmissions: float
    timeouts: float
    #: Of the data on the air: frames, attempts, collisions, frames given up; per run.
    data: tuple[float, float, float, float]


def ours(text: str, seeds: int, scale: float = 1.0, rule: type[CongestionControl] | None = None) -> Ours:
    """Goodput of all flows together, times `scale`."""
    scenario = _native.Scenario(text, scheme=rule) if rule else _native.Scenario(text)
    # A rule in Python keeps the runs one after the other anyway.
    with ThreadPoolExecutor(1 if rule else CORES) as pool:
        runs = [json.loads(r) for r in pool.map(scenario.run, range(1, seeds + 1))]
    goodputs = [scale * sum(f["goodput_bps"] for f in r["flows"]) for r in runs]
    n = len(runs)
    mean = sum(goodputs) / n
    spread = (sum((g - mean) ** 2 for g in goodputs) / max(n - 1, 1)) ** 0.5
    rows = [
        x for r in runs for x in r["links"] if x["radio"] and (x["from"] == "ap") == (r["flows"][0]["to"] != "ap" and r["flows"][0]["from"] != "sta")
    ]
    data = tuple(sum(x[k] for x in rows) / n for k in ("offered_frames", "attempts", "collisions", "lost_on_air"))
    counts = [sum(r["flows"][0][k]["total"] for r in runs) / n for k in ("retransmissions", "timeouts")]
    return Ours(mean, spread / n**0.5, counts[0], counts[1], (data[0], data[1], data[2], data[3]))


def rows(folder: str, name: str) -> list[dict[str, str]]:
    with open((NS2 if folder == "ns2" else NS3) / name, newline="") as f:
        return list(csv.DictReader(f))


def cell_of(name: str, row: dict[str, str], theirs: float, half: float, o: Ours, runs: str = "runs") -> Cell:
    return Cell(name, "", int(row[runs]), theirs, half, o.goodput, o.se, {})


def saturation(seeds: int) -> list[Table]:
    """Stations that always have a frame, beside ns-2 and beside the model with each wait after a collision."""
    tables = []
    runs: dict[tuple[str, str, str, str], Ours] = {}
    about = 'Stations on a circle send 1000-byte packets to one access point, always. 30 s; here `access = "ns-2"`, `backoff_includes_cw = false`, '
    rules = {"ns2": ("ns-2", "364 + 50 µs"), "eifs": ("eifs", "364 µs"), "difs": ("difs", "50 µs")}
    for column, (after, wait) in rules.items():
        beside_ns2, model = [], []
        for row in rows("ns2", "saturation.csv"):
            n = int(row["stations"])
            key = (after, row["stations"], row["basic_rate"], row["retry_limit"])
            stations = ", ".join(f'"s{i}"' for i in range(1, n + 1))
            flows = "".join(SATURATING.format(i=i) for i in range(1, n + 1))
            text = SATURATION.format(
                end=31, stations=stations, basic=row["basic_rate"] + "ps", attempts=row["retry_limit"], rules=NS2_RULES, after=after, flows=flows
            )
            o = runs.setdefault(key, ours(text, max(seeds // 10, 4), 1000 / 960))
            name = f"{n} station{'s' if n > 1 else ''}, basic rate {row['basic_rate']}, {row['retry_limit']} attempts"
            beside_ns2.append(cell_of(name, row, float(row["throughput_bps_mean"]), float(row["ci95_half"]), o))
            model.append(cell_of(name, {"runs": "1"}, float(row[f"bianchi_bps_tc_{column}"]), 0.0, o))
        if column == "ns2":
            tables.append(Within("Saturation beside ns-2.35", about + f'`after_collision = "{after}"`.', beside_ns2, kind=""))
        tables.append(
            Within(
                f"Saturation beside Bianchi's model, {wait} after a collision",
                "The fixed point with these constants and the limit of attempts; the same runs with " + f'`after_collision = "{after}"`.',
                model,
                reference="model",
                kind="",
            )
        )
    return tables


def ns2_flow(row: dict[str, str], scheme: str) -> str:
    ends = ("sta", "s") if row.get("direction") == "up" else ("s", "sta")
    return NS2_FLOW.format(
        d1=row["d1"],
        d2=row["d2"],
        basic=row.get("basic_rate", "11Mb") + "ps",
        attempts=row["retry_limit"],
        fer=row["fer"],
        rules=NS2_RULES,
        start=ends[0],
        end=ends[1],
        scheme=scheme,
        window=row["window"],
    )


def beside_ns2(title: str, about: str, made: list[tuple[str, dict[str, str], str]], sent_again: str, seeds: int) -> Table:
    table = Within(title, about, [], kind="")
    again, timeouts = [], []
    for name, row, scheme in made:
        o = ours(ns2_flow(row, scheme), seeds)
        table.cells.append(cell_of(name, row, float(row["goodput_bps_mean"]), float(row["ci95_half"]), o))
        table.bounds[name] = ONE if row["retry_limit"] == "1" else SEVERAL
        again.append(f"{float(row[sent_again]):.0f} / {o.retransmissions:.0f}")
        timeouts.append(f"{float(row['timeouts']):.1f} / {o.timeouts:.1f}")
    table.more = {"sent again, ns-2 / here": again, "timeouts": timeouts}
    return table


def one_flow(seeds: int) -> list[Table]:
    """One flow over two wired links and a cell, beside ns-2."""
    plain = []
    for row in rows("ns2", "wlan.csv"):
        if row["variant"] in SCHEMES:
            detail = f"{row['direction']}, basic rate {row['basic_rate']}, d2 {row['d2']}"
            name = f"{row['variant']} {detail}, FER {float(row['fer']):.2%}, attempts {row['retry_limit']}"
            plain.append((name, row, SCHEMES[row["variant"]]))
    snoop = []
    for row in rows("ns2", "snoop_wlan.csv"):
        sender = SCHEMES[row["variant"]]
        scheme = f"snoop:sender={sender}" if row["snoop"] == "1" else sender
        snoop.append((f"{scheme}, d2 {row['d2']}, FER {float(row['fer']):.2%}", row, scheme))
    about = (
        "S – 10 Mbit/s, d1 – R – 10 Mbit/s, d2 – AP ))) station; 60 s, queues of 50. The frame error rate is that of a segment of 1000 bytes; shorter "
        "frames are lost less often. DSDV adds 20 bytes to what the station sends. Collisions of data with TCP ACKs come on top."
    )
    return [
        beside_ns2("One flow beside ns-2.35", about, plain, "retrans", seeds),
        beside_ns2(
            "Snoop in the access point beside ns-2.35",
            "The same path with one attempt and a window of 100.",
            snoop,
            "sender_retrans",
            max(seeds // 2, 4),
        ),
    ]


def beside_ns3(seeds: int) -> list[Table]:
    """One flow beside ns-3, and what its rule for the back-off is worth."""
    table = Within("One flow beside ns-3.44", "", [], reference="ns-3", kind="")
    plain, share, losses = [], [], []
    for row in rows("ns3", "wifi.csv"):
        if row["variant"] != "TcpNewReno":
            continue

        def run(access: str, rule: type[CongestionControl] | None = None, row: dict[str, str] = row) -> Ours:
            scheme = "sack:flavour=rfc6675:prr=true"
            fer, attempts = row["frame_error_rate"], row["max_transmissions"]
            return ours(NS3_FLOW.format(attempts=attempts, fer=fer, access=access, scheme=scheme), seeds, 1.0, rule)

        theirs, half = (1e3 * float(row[k]) for k in ("goodput_kbps_mean", "goodput_kbps_ci95"))
        o = run("ns-3", ns3_mimics.NewReno)
        name = f"FER {float(row['frame_error_rate']):.2%}, attempts {row['max_transmissions']}"
        table.cells.append(cell_of(name, row, theirs, half, o, "runs_ok"))
        table.bounds[name] = ONE if row["max_transmissions"] == "1" else SEVERAL
        plain.append(" / ".join(f"{run(access).goodput / theirs - 1:+.1%}" for access in ACCESS))
        offered, attempts, _, lost = o.data
        share.append(f"{float(row['ap_retry_share_mean']):.2%} / {1 - offered / attempts if attempts > offered else 0.0:.2%}")
        losses.append(f"{float(row['ap_mac_drops_per_s_mean']):.2f} / {lost / 20:.2f}")
    heading = 'this one\'s own sender, `access` = "ns-2" / "idle" / "ns-3"'
    table.more = {heading: plain, "retries, ns-3 / here": share, "frames given up per s": losses}
    table.about = (
        'FH – 100 Mbit/s, 20 ms – AP ))) station; 20 s after 5 s. `access = "ns-3"`, and a sender that halves what SACK leaves in the pipe, as '
        "ns-3's TcpNewReno does ([fidelity-ns3.md](fidelity-ns3.md))."
    )
    table.notes = [
        "With one attempt every collision of data with a TCP ACK is a loss, and ns-2 and ns-3 differ by 30 %. The switch is `access`: in ns-2 a station backs "
        "off before each frame, so that 1.6 % of the data collide with an ACK; in ns-3 the TCP ACK that the station's stack makes when a frame has come needs "
        "no back-off, for the pause before the link ACK counts as an idle medium: 1.1 %. With several attempts it makes no difference.",
        "What is left with one attempt is the sender: the column with this one's own sender has the same medium. At 9 % the window has three or four "
        "segments, and two off what is in flight is more than SACK can have reported: there ns-3 stands with the sender of its own.",
        "ns-3 sends beacons, a frame of 0.7 ms every 102 ms, which are not here: 0.7 % of the time.",
    ]
    return [table]


def tables(seeds: int) -> list[Table]:
    """All tables of the page."""
    return [*saturation(seeds), *one_flow(seeds), *beside_ns3(3 * seeds)]
