"""The reference results for 802.11b: saturation and one TCP flow in ns-2.35, the model of
Bianchi, one TCP flow in ns-3.44.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

from lasthop import CongestionControl
from lasthop.validation import ns2, ns3_mimics
from lasthop.validation.agreement import (
    ROOT,
    Cell,
    Run,
    Table,
    cell_of,
    measure,
    measured,
    simulate,
)

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
#: Variants of ns-3: the scheme here, and the rules of ns-3 in its place.
NS3_SENDERS: dict[str, tuple[str, type[CongestionControl] | None]] = {
    "TcpNewReno": ("sack:flavour=rfc6675:prr=true", ns3_mimics.NewReno),
    "TcpWestwoodPlus": ("westwood+:recovery=sack+prr", None),
}
ACCESS = ("ns-2", "idle", "ns-3")
#: Seeds beside a model, which has no noise; ours is a thousandth with these.
FEW = 8
ALL_FLOWS = "goodput of all flows"


@dataclass(frozen=True)
class Air:
    """What became of the data frames of the access point in a run, on average."""

    offered: float
    attempts: float
    lost: float

    @property
    def retries(self) -> float:
        """As a share of the attempts."""
        return 1 - self.offered / self.attempts if self.attempts > self.offered else 0.0


def air(runs: list[Run]) -> Air:
    rows = [x for r in runs for x in r["links"] if x["radio"] and x["from"] == "ap"]
    offered, attempts, lost = (
        sum(x[k] for x in rows) / len(runs) for k in ("offered_frames", "attempts", "lost_on_air")
    )
    return Air(offered, attempts, lost)


def ns3_rows(name: str) -> list[dict[str, str]]:
    with open(NS3 / name, newline="") as f:
        return list(csv.DictReader(f))


def saturation(seeds: int) -> list[Table]:
    """Stations that always have a frame, beside ns-2 and beside the model with each wait after a
    collision.
    """
    tables = []
    about = (
        "Stations on a circle send 1000-byte packets to one access point, always. 30 s; here"
        ' `access = "ns-2"`, `backoff_includes_cw = false`, '
    )
    rules = {"ns2": ("ns-2", "364 + 50 µs"), "eifs": ("eifs", "364 µs"), "difs": ("difs", "50 µs")}
    for column, (after, wait) in rules.items():
        beside_ns2, model = [], []
        for row in ns2.rows("saturation.csv"):
            n = int(row["stations"])
            stations = ", ".join(f'"s{i}"' for i in range(1, n + 1))
            flows = "".join(SATURATING.format(i=i) for i in range(1, n + 1))
            text = SATURATION.format(
                end=31,
                stations=stations,
                basic=row["basic_rate"] + "ps",
                attempts=row["retry_limit"],
                rules=NS2_RULES,
                after=after,
                flows=flows,
            )
            o = measure(text, seeds if column == "ns2" else FEW, ALL_FLOWS, 1000 / 960)
            name = (
                f"{n} station{'s' if n > 1 else ''}, basic rate {row['basic_rate']},"
                f" {row['retry_limit']} attempts"
            )
            runs, theirs, half = (
                int(row["runs"]),
                float(row["throughput_bps_mean"]),
                float(row["ci95_half"]),
            )
            beside_ns2.append(cell_of(name, "", runs, theirs, half, o, {}))
            model.append(
                Cell(name, "", 1, float(row[f"bianchi_bps_tc_{column}"]), 0.0, o.mean, o.se, {})
            )
        if column == "ns2":
            tables.append(
                Table(
                    "Saturation beside ns-2.35",
                    about + f'`after_collision = "{after}"`.',
                    beside_ns2,
                    kind="",
                    counted=False,
                )
            )
        tables.append(
            Table(
                f"Saturation beside Bianchi's model, {wait} after a collision",
                "The fixed point with these constants and the limit of attempts; `after_collision"
                f' = "{after}"`. The model has no intervals: within 2 %.',
                model,
                reference="model",
                kind="",
                counted=False,
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


def one_flow(seeds: int) -> Table:
    """One flow over two wired links and a cell, beside ns-2."""
    cells = []
    for row in ns2.rows("wlan.csv"):
        if row["variant"] not in SCHEMES:
            continue
        detail = f"{row['direction']}, basic rate {row['basic_rate']}, d2 {row['d2']}"
        name = (
            f"{row['variant']} {detail}, FER {float(row['fer']):.2%}, attempts {row['retry_limit']}"
        )
        runs = int(row["runs"])
        o = measure(ns2_flow(row, SCHEMES[row["variant"]]), max(seeds, runs), ALL_FLOWS)
        counts = {
            "retransmissions": (float(row["retrans"]), o.retransmissions),
            "timeouts": (float(row["timeouts"]), o.timeouts),
        }
        cells.append(
            cell_of(
                name, "", runs, float(row["goodput_bps_mean"]), float(row["ci95_half"]), o, counts
            )
        )
    about = (
        "S – 10 Mbit/s, d1 – R – 10 Mbit/s, d2 – AP ))) station; 60 s, queues of 50. The frame"
        " error rate is that of a segment of 1000 bytes; shorter frames are lost less often. DSDV"
        " adds 20 bytes to what the station sends. Collisions of data with TCP ACKs come on top."
    )
    return Table("One flow beside ns-2.35", about, cells, kind="")


def beside_ns3(seeds: int) -> Table:
    """One flow beside ns-3, and what its rule for the back-off is worth."""
    table = Table(
        "One flow beside ns-3.44", "", [], reference="ns-3", small=0.03, kind="", counted=False
    )
    plain, share, losses = [], [], []
    for row in ns3_rows("wifi.csv"):
        scheme, rule = NS3_SENDERS[row["variant"]]

        def text(
            access: str, keys: str = "", row: dict[str, str] = row, scheme: str = scheme
        ) -> str:
            fer, attempts = row["frame_error_rate"], row["max_transmissions"]
            return (
                NS3_FLOW.format(attempts=attempts, fer=fer, access=access, scheme=scheme)
                + keys
                + "\n"
            )

        theirs, half = (1e3 * float(row[k]) for k in ("goodput_kbps_mean", "goodput_kbps_ci95"))
        scenario = text("ns-3", ns3_mimics.KEYS if rule else "")
        runs = simulate(scenario, seeds, rule)
        o, medium = measured(scenario, ALL_FLOWS, 1.0, runs), air(runs)
        name = (
            f"{row['variant']}, FER {float(row['frame_error_rate']):.2%}, attempts"
            f" {row['max_transmissions']}"
        )
        table.cells.append(cell_of(name, "", int(row["runs_ok"]), theirs, half, o, {}))
        if rule:
            # The scenario alone does not give it.
            table.cells[-1].source = None
        plain.append(
            " / ".join(
                f"{measure(text(access), seeds, ALL_FLOWS).mean / theirs - 1:+.1%}"
                for access in ACCESS
            )
        )
        share.append(f"{float(row['ap_retry_share_mean']):.2%} / {medium.retries:.2%}")
        losses.append(f"{float(row['ap_mac_drops_per_s_mean']):.2f} / {medium.lost / 20:.2f}")
    heading = 'lasthop\'s own sender, `access` = "ns-2" / "idle" / "ns-3"'
    table.more = {heading: plain, "retries, ns-3 / here": share, "frames given up per s": losses}
    table.about = (
        'FH – 100 Mbit/s, 20 ms – AP ))) station; 20 s after 5 s. `access = "ns-3"`, TcpNewReno'
        " with ns-3's rules, which were not made for these cells"
        " ([fidelity-ns3.md](fidelity-ns3.md)); TcpWestwoodPlus beside"
        " `westwood+:recovery=sack+prr`."
    )
    table.notes = [
        (
            "With one attempt every collision of data with a TCP ACK is a loss, and ns-2 and ns-3"
            " differ by 30 %. The switch is `access`: in ns-2 a station backs off before each"
            " frame, so that 1.6 % of the data collide with an ACK; in ns-3 the TCP ACK that the"
            " station's stack makes when a frame has come needs no back-off, for the pause before"
            " the link ACK counts as an idle medium: 1.1 %. With several attempts it makes no"
            " difference."
        ),
        (
            "ns-3 sends beacons, a frame of 0.7 ms every 102 ms, which are not here: 0.7 % of the"
            " time."
        ),
    ]
    return table


def tables(seeds: int) -> list[Table]:
    """All tables of the page."""
    return [*saturation(seeds), one_flow(seeds), beside_ns3(seeds)]
