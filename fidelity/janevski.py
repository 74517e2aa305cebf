"""The path of janevski2009 beside ns-2.35: Reno, NewReno and SACK from end to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fidelity.agreement import Cell, Table
from fidelity.measuring import DOWNLOAD, Measured, measured, simulate
from fidelity.ns2_traces import SCHEMES
from fidelity.references import NS2, Row, read
from fidelity.suite import Comparison, Reference, Suite

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


def scenario(
    scheme: str,
    size: int,
    steps: list[tuple[float, float]],
    queue: int = 100_000,
    outage: str = "",
    min_rto: str = "1",
) -> str:
    """A download of `size` kB; `steps` are times in s and rates of the downlink in Mbit/s."""
    schedule = ", ".join(f'{{ at = "{at} s", rate = "{rate} Mbps" }}' for at, rate in steps)
    return PATH.format(
        schedule=schedule, queue=queue, outage=outage, size=size, scheme=scheme, min_rto=min_rto
    )


def size_of(row: Row) -> int:
    """The size of a download in kB."""
    return int(row.get("file_kB", 15_000))


def reference(row: Row) -> Reference:
    """Size by download time, of one deterministic run."""
    goodput = size_of(row) * 8e3 / float(row["download_s"])
    return Reference(1, goodput, 0.0, (float(row["retrans"]), float(row["timeouts"])))


@dataclass(frozen=True)
class Download(Comparison):
    """A comparison that looks for the phase of the sender's clock, which ns-2 draws."""

    def cell(self, row: Row, seeds: int) -> Cell:
        """The first phase counts if it agrees, otherwise the nearest of `PHASES`."""
        text, theirs = self.scenario(row), self.reference(row).goodput
        found: list[Measured] = []
        for phases in (1, PHASES):
            runs = simulate(text, phases)
            found = [measured(text, self.quantity, self.scale, [run]) for run in runs]
            if abs(found[0].mean / theirs - 1) <= NEAR:
                break
        ours = min(found, key=lambda f: abs(f.mean / theirs - 1))
        cell = self.cell_with(row, ours)
        if len(found) == 1:
            return cell
        return replace(cell, name=f"{cell.name} ({len(found)} phases)", source=None)


def downloads(name: Callable[[Row], str], scenario: Callable[[Row], str]) -> Download:
    """The comparison of a table."""
    return Download(
        name, lambda row: SCHEMES[row["variant"]], scenario, reference, quantity=DOWNLOAD
    )


def outage_text(row: Row) -> str:
    """The scenario of a row of janevski_outage.csv."""
    length = float(row["outage_s"])
    steps, outage = list(STEPS), ""
    if row["outage_model"] == "hold" and length:
        # The reference's radio link serialises one packet for the whole of the outage.
        steps.append((7.5, 0.0))
    elif length:
        outage = f'outage = {{ from = "7.5 s", length = "{length} s", frames = "lost-at-arrival" }}'
    return scenario(
        SCHEMES[row["variant"]],
        size_of(row),
        [*steps, (7.5 + length, 4.5)],
        outage=outage,
        min_rto=row["minrto_s"],
    )


def outages() -> list[Table]:
    """Download time by the length of the outage, in both models of it."""
    comparison = downloads(
        lambda r: (
            f"{r['variant']}, {float(r['outage_s']):.0f} s, minimum of the timer {r['minrto_s']} s"
        ),
        outage_text,
    )
    rows = read(NS2 / "janevski_outage.csv")
    found = {
        model: comparison.cells([row for row in rows if row["outage_model"] == model], 1)
        for model in ("hold", "drop")
    }
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


def buffer_text(row: Row) -> str:
    """The scenario of a row of janevski_buffer.csv."""
    stop = [(7.5, 0.0), (22.0, 4.5)] if row["schedule"] == "outage_hold" else [(7.5, 4.5)]
    # ns-2's limit L lets L - 1 wait.
    queue = int(row["buffer_pkts"]) - 1
    return scenario(SCHEMES[row["variant"]], size_of(row), [*STEPS, *stop], queue=queue)


def buffers() -> list[Table]:
    """Download time by the buffer of the controller."""
    comparison = downloads(lambda r: f"{r['variant']}, limit {r['buffer_pkts']}", buffer_text)
    rows = read(NS2 / "janevski_buffer.csv")
    found = {
        schedule: comparison.cells([row for row in rows if row["schedule"] == schedule], 1)
        for schedule in ("no_outage", "outage_hold")
    }
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
    comparison = downloads(
        lambda r: f"{r['variant']}, {size_of(r)} kB at {r['rate_mbps']} Mbit/s",
        lambda r: scenario(SCHEMES[r["variant"]], size_of(r), [(0.0, float(r["rate_mbps"]))]),
    )
    cells = comparison.cells(read(NS2 / "janevski_small.csv"), 1)
    return [Table("Small files", "A file over a link of constant rate.", cells, kind=KIND)]


def tables(_: int) -> list[Table]:
    """All tables of the page; every run is deterministic."""
    return [*outages(), *buffers(), *small()]


SUITE = Suite("fidelity-janevski", "The path of janevski2009 beside ns-2.35", tables)
