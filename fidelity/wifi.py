"""TCP in cells of 802.11n beside ns-3.44 (docs/wifi-beside-ns3.md).

    python -m fidelity.wifi [--seeds N]

prints the table of the page. Nearly all cells have one run of ns-3, so its spread is taken from the
runs here: d is the difference in standard errors if both programs have the same distribution.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from fidelity.measuring import simulate
from fidelity.references import NS3, Row, read

CELL = """
duration = "{end} s"
[measure]
from = "{warm_s} s"
[[link]]
between = ["server", "ap"]
rate = "1 Gbps"
delay = "5 ms"
queue = "9000 packets"
[[cell]]
members = ["ap", {members}]
mac = "802.11n"
access = "ns-3"
mcs = {mcs}
ampdu = "{ampdu} B"
queue = "9000 packets"
{direction}.loss = {{ model = "uniform", rate = {frame_error_rate}, index = "frame" }}
{flows}
[tcp]
profile = "rfc"
scheme = "sack:flavour=rfc6675:prr=true"
receive_window = "{window_segments} segments"
initial_window = "2 segments"
delayed_ack = false
min_rto = "1 s"
"""
FLOW = """[[flow]]
from = "{0}"
to = "{1}"
start = "{2} ms"
segment = "1448 B"
headers = "40 B"
"""
#: Columns that make a cell.
KEYS = ("stations", "mcs", "aggregation", "frame_error_rate", "direction")
#: The start of the first flow, and the time to the next, ms.
START, STAGGER = 3_000, 10


def scenario(row: Row) -> str:
    """The scenario of a cell."""
    names = [f"s{i}" for i in range(int(row["stations"]))]
    ends = [(n, "server") if row["direction"] == "up" else ("server", n) for n in names]
    return CELL.format(
        **row,
        end=int(row["warm_s"]) + int(row["measured_s"]),
        members=", ".join(f'"{name}"' for name in names),
        ampdu=65_535 if row["aggregation"] == "1" else 0,
        flows="".join(FLOW.format(*e, START + STAGGER * i) for i, e in enumerate(ends)),
    )


@dataclass(frozen=True)
class Beside:
    """A quantity in both programs, kbit/s."""

    theirs: list[float]
    ours: list[float]

    @property
    def relative(self) -> float:
        """Difference over the value of ns-3."""
        return statistics.fmean(self.ours) / statistics.fmean(self.theirs) - 1

    @property
    def d(self) -> float:
        """Difference in standard errors, with the standard deviation of the runs here."""
        apart = statistics.fmean(self.ours) - statistics.fmean(self.theirs)
        scale = math.sqrt(1 / len(self.ours) + 1 / len(self.theirs))
        return apart / (statistics.stdev(self.ours) * scale)

    def markdown(self) -> str:
        """Four columns of a table."""
        means = (statistics.fmean(self.theirs) / 1e3, statistics.fmean(self.ours) / 1e3)
        return f"{means[0]:.2f} | {means[1]:.2f} | {self.relative:+.1%} | {self.d:+.1f}"


def cells() -> list[list[Row]]:
    """The runs of ns-3, by cell."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in read(NS3 / "cell.csv"):
        found.setdefault(tuple(row[key] for key in KEYS), []).append(row)
    return list(found.values())


def beside(rows: list[Row], seeds: int) -> tuple[Beside, Beside]:
    """The sum over the stations, and the slowest station."""
    theirs = [[float(x) for x in row["goodputs_kbps"].split()] for row in rows]
    runs = simulate(scenario(rows[0]), seeds)
    ours = [[f["goodput_bps"] / 1e3 for f in run["flows"]] for run in runs]
    both = [Beside([of(run) for run in theirs], [of(run) for run in ours]) for of in (sum, min)]
    return both[0], both[1]


def markdown(seeds: int) -> Iterator[str]:
    """The table, line by line."""
    yield (
        "| stations | MCS | A-MPDU | FER | TCP | runs | ns-3 | here | difference | d | slowest,"
        " ns-3 | here | difference | d |"
    )
    yield "| ---: | ---: | --- | ---: | --- |" + " ---: |" * 9
    for rows in cells():
        row = rows[0]
        aggregates = "yes" if row["aggregation"] == "1" else "no"
        total, slowest = beside(rows, seeds)
        yield (
            f"| {row['stations']} | {row['mcs']} | {aggregates} |"
            f" {float(row['frame_error_rate']):.0%} | {row['direction']} | {len(rows)} |"
            f" {total.markdown()} | {slowest.markdown()} |"
        )


if __name__ == "__main__":
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--seeds", type=int, default=40)
    print("\n".join(markdown(made.parse_args().seeds)))
