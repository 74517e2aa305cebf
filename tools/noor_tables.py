"""Pairs of nodes on one CSMA/CA LAN, as noor has them: Reno beside ns-2.35, whose MAC is 802.11 with one attempt."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

from agreement import CORES, ROOT, Cell, Table

from lasthop import _native

SECONDS = 40
HEADERS, PAYLOAD = 40, 76
#: Losses by bit errors and by contention, as shares of what was sent, over a table.
LOSSES = 0.10

LAN = """
duration = "{seconds} s"
[[cell]]
members = ["n{{1..{nodes}}}"]
mac = "csma-lan"
overhead = "34 B"
queue = "unlimited"
link_acks = {link_acks}
access = "ns-2"
backoff_includes_cw = false
after_collision = "ns-2"
delay = "50 us"
[[flow]]
from = "n{{1..{last}..2}}"
to = "n{{2..{nodes}..2}}"
count = {sessions}
each = 3
start = "20 ms"
stagger = "20 ms"
app = {{ kind = "on-off", mean_on = "1 s", mean_off = "1 s"{rate} }}
segment = "76 B"
headers = "40 B"
loss = {{ model = "two-state", good = "1 s", bad = "{bad} s", good_rate = 1e-6, bad_rate = {ber} }}
[tcp]
profile = "ns-2.35"
scheme = "reno"
receive_window = "32 segments"
max_rto = "64 s"
"""

#: What to keep in mind.
NOTE = "ns-2's 5 runs have the same on/off times in all rows of a number of sessions, so their luck moves rows together"

SOURCES = {"greedy": "data without end in a burst", "peak16k": "16 kbit/s of payload in a burst"}
MACS = {"noack": "no link ACKs: broadcast frames behind an address filter", "ack": "link ACKs on the air, one attempt"}


@dataclass
class Lan(Table):
    """A table that has losses to agree on, too."""

    #: Per cell and kind of loss: theirs and ours, as shares of the offered bits.
    losses: list[dict[str, tuple[float, float]]] = field(default_factory=list)

    def verdicts(self) -> list[tuple[str, bool]]:
        lines = super().verdicts()
        for what in ("bit-error loss", "contention loss"):
            theirs, ours = (sum(x[what][i] for x in self.losses) for i in (0, 1))
            lines.append((f"{what} ratio {ours / theirs - 1:+.1%} over the table, at most 10 %", abs(ours / theirs - 1) <= LOSSES))
        return lines

    def markdown(self) -> Iterator[str]:
        yield from super().markdown()
        yield "| cell | bit-error loss / offered, ns-2 | here | contention loss / offered, ns-2 | here |"
        yield "| --- | ---: | ---: | ---: | ---: |"
        for c, x in zip(self.cells, self.losses, strict=True):
            parts = [f"{a:.4f} | {b:.4f}" for a, b in (x["bit-error loss"], x["contention loss"])]
            yield f"| {c.name} | {parts[0]} | {parts[1]} |"
        yield ""


def text(row: dict[str, str], extra: str = "") -> str:
    """The scenario of a row."""
    nodes = int(row["nodes"])
    return LAN.format(
        seconds=SECONDS,
        nodes=nodes,
        last=nodes - 1,
        link_acks="true" if row["mac"] == "ack" else "false",
        sessions=row["sessions"],
        rate=', rate = "16 kbps"' if row["source"] == "peak16k" else "",
        bad=row["mean_bad_s"],
        ber=row["ber_bad"],
    ).replace('access = "ns-2"', f'access = "ns-2"{extra}')


@dataclass(frozen=True)
class Ours:
    """Means over seeds."""

    throughput: float
    se: float
    bit_errors: float
    contention: float
    retransmissions: float
    timeouts: float


@cache
def ours(scenario_text: str, seeds: int) -> Ours:
    """Throughput in the reference's sense: bits of whole packets, in order, each once."""
    scenario = _native.Scenario(scenario_text)
    with ThreadPoolExecutor(CORES) as pool:
        runs = [json.loads(r) for r in pool.map(scenario.run, range(1, seeds + 1))]
    n, scale = len(runs), 8 * (HEADERS + PAYLOAD) / PAYLOAD / SECONDS
    throughput = [scale * sum(f["delivered_bytes"] for f in r["flows"]) for r in runs]
    mean = sum(throughput) / n
    spread = math.sqrt(sum((x - mean) ** 2 for x in throughput) / max(n - 1, 1))
    ratio = [sum(r["traffic_bits"][k] / r["traffic_bits"]["offered"] for r in runs) / n for k in ("bit_errors", "collisions")]
    count = [sum(f[k]["total"] for r in runs for f in r["flows"]) / n for k in ("retransmissions", "timeouts")]
    return Ours(mean, spread / math.sqrt(n), ratio[0], ratio[1], count[0], count[1])


def tables(seeds: int) -> list[Table]:
    """A table for each form of the MAC and each source."""
    with open(ROOT / "tests/reference/ns2/noor.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    found: list[Table] = []
    for mac, source in dict.fromkeys((r["mac"], r["source"]) for r in rows):
        about = (
            f"Reno, 40 s, 5 runs of ns-2 and {seeds} here; {MACS[mac]}; {SOURCES[source]}. Throughput counts whole packets, in order, each once. "
            'Here `mac = "csma-lan"` with `access = "ns-2"`, `backoff_includes_cw = false`, `after_collision = "ns-2"` and `delay = "50 us"` '
            "(25 µs in the link layer of each end)."
        )
        table = Lan(f"{mac}, {source}", about, [], kind="ns-2, LAN", notes=[NOTE])
        for row in (r for r in rows if (r["mac"], r["source"]) == (mac, source)):
            o = ours(text(row), seeds)
            counts = {"retransmissions": (float(row["retrans"]), o.retransmissions), "timeouts": (float(row["timeouts"]), o.timeouts)}
            name = f"{row['sessions']} sessions, {row['ber_bad']}"
            table.cells.append(
                Cell(name, "reno", int(row["runs"]), float(row["ct_bps_mean"]), float(row["ct_ci95_half"]), o.throughput, o.se, counts)
            )
            losses = {"bit-error loss": (float(row["biterror_loss_ratio"]), o.bit_errors)}
            table.losses.append(losses | {"contention loss": (float(row["contention_loss_ratio"]), o.contention)})
        found.append(table)
    return found
