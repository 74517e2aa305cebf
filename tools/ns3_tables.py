"""The reference results of ns-3.44: one flow over a lossy last hop (its README: PPP links, SACK and PRR, minimum RTO 1 s)."""

from __future__ import annotations

import csv
from dataclasses import dataclass

from agreement import ROOT, Cell, Table, measure

REFERENCE = ROOT / "tests/reference/ns3/goodput.csv"

LOSSY_HOP = """
duration = "{end} s"
[measure]
from = "20 s"
[[link]]
between = ["fh", "bs"]
rate = "10 Mbps"
delay = "20 ms"
overhead = "2 B"
queue = "1000 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "2 Mbps"
delay = "{delay} ms"
overhead = "2 B"
queue = "1000 packets"
{loss}
[[flow]]
from = "fh"
to = "mh"
app = "bulk"
start = "0.1 s"
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "rfc"
scheme = "{scheme}"
receive_window = "500 segments"
initial_window = "2 segments"
delayed_ack = false
min_rto = "1 s"
{keys}
"""


@dataclass(frozen=True)
class Variant:
    """A variant of ns-3 and what is the same here: the scheme with its settings, and keys of the profile."""

    name: str
    sack: bool
    scheme: str
    settings: str
    about: str
    keys: str = ""
    known: str = ""

    @property
    def label(self) -> str:
        return f"{self.name}, SACK {'on' if self.sack else 'off'}"


VARIANTS: tuple[Variant, ...] = (
    Variant("TcpNewReno", True, "sack", "sack:flavour=rfc6675:prr=true", "Reno's window over SACK and PRR."),
    Variant("TcpNewReno", False, "newreno", "newreno", "Reno's window over NewReno.", keys="sack = false"),
    Variant("TcpLinuxReno", True, "reno", "reno:recovery=sack+prr", "Reno's window over SACK and PRR, halving cwnd.", keys='halving = "window"'),
    Variant("TcpVeno", True, "veno", "veno:recovery=sack+prr", "Veno over SACK and PRR."),
    Variant("TcpVegas", True, "vegas", "vegas:variant=linux:recovery=sack+prr", "Vegas over SACK and PRR."),
    Variant("TcpWestwoodPlus", True, "westwood+", "westwood+:recovery=sack+prr", "Westwood+ over SACK and PRR."),
)


def text(variant: Variant, delay: str, loss: str, measured: str) -> str:
    air = f'forward.loss = {{ model = "uniform", rate = {loss}, index = "frame" }}' if float(loss) > 0 else ""
    end = 20 + int(measured)
    return LOSSY_HOP.format(end=end, delay=delay, loss=air, scheme=variant.settings, keys=variant.keys)


def table(variant: Variant, seeds: int) -> Table:
    cells = []
    with open(REFERENCE, newline="") as f:
        rows = [r for r in csv.DictReader(f) if r["variant"] == variant.name and r["sack"] == str(int(variant.sack))]
    for row in sorted(rows, key=lambda r: (float(r["last_hop_delay_ms"]), float(r["loss"]))):
        ours, se, n = measure(text(variant, row["last_hop_delay_ms"], row["loss"], row["measured_s"]), seeds)
        counts = {
            "retransmissions": (1000 * float(row["rtx_share_mean"]), 1000 * n["retransmissions"] / n["sent"]),
            "timeouts": (float(row["rtos_per_100s_mean"]), n["timeouts"] * 100 / float(row["measured_s"])),
        }
        runs = int(row["runs_ok"]) if float(row["loss"]) > 0 else 1
        goodput, half = (1000 * float(row[k]) for k in ("goodput_kbps_mean", "goodput_kbps_ci95"))
        name = f"{float(row['last_hop_delay_ms']):.0f} ms, loss {float(row['loss']):.1%}"
        cells.append(Cell(name, variant.scheme, runs, goodput, half, ours, se, counts))
    title = f"ns-3.44, {variant.label}: `{variant.settings}`"
    return Table(title, variant.about, cells, reference="ns-3", kind="ns-3", small=0.03, limit=0.03, per=("1000 segments", "100 s"), known=variant.known)


def tables(seeds: int) -> list[Table]:
    """A table for each variant."""
    return [table(v, seeds) for v in VARIANTS]
