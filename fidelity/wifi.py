"""TCP in cells of 802.11n beside ns-3.44 (docs/wifi-beside-ns3.md).

    python -m fidelity.wifi [--seeds N]

writes the table of the page, and what the rule of agreement says (`fidelity/agreement.py`).
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import textwrap
from collections.abc import Iterator

from fidelity.agreement import Cell, Table
from fidelity.measuring import simulate
from fidelity.references import NS3, ROOT, Row, read
from lasthop.analysis.statistics import t_quantile
from lasthop.experiments.store import write_whole

sys.path.insert(0, str(ROOT / "tools"))

import marked_pages

PAGE, BLOCK = ROOT / "docs/wifi-beside-ns3.md", "cells of 802.11n"

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
block_ack_retry_limit = false
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
#: What is compared of the stations' goodputs: their sum, and the smallest.
KINDS = (sum, min)


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


def cells() -> list[list[Row]]:
    """The runs of ns-3, by cell."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in read(NS3 / "cell.csv"):
        found.setdefault(tuple(row[key] for key in KEYS), []).append(row)
    return list(found.values())


def beside(rows: list[Row], seeds: int) -> tuple[Cell, Cell]:
    """The sum over the stations, and the slowest station, kbit/s."""
    theirs = [[float(x) for x in row["goodputs_kbps"].split()] for row in rows]
    runs = simulate(scenario(rows[0]), seeds)
    ours = [[f["goodput_bps"] / 1e3 for f in run["flows"]] for run in runs]
    both = [_cell(rows[0], [of(run) for run in theirs], [of(run) for run in ours]) for of in KINDS]
    return both[0], both[1]


def _cell(row: Row, theirs: list[float], ours: list[float]) -> Cell:
    n = len(theirs)
    half = t_quantile(n) * statistics.stdev(theirs) / math.sqrt(n) if n > 1 else 0.0
    aggregates = "A-MPDU" if row["aggregation"] == "1" else "single"
    return Cell(
        name=(
            f"{row['stations']} stations, MCS {row['mcs']}, {aggregates},"
            f" {float(row['frame_error_rate']):.0%}, {row['direction']}"
        ),
        scheme="",
        runs=n,
        theirs=statistics.fmean(theirs),
        their_half=half,
        ours=statistics.fmean(ours),
        our_se=statistics.stdev(ours) / math.sqrt(len(ours)),
        counts={},
    )


def _columns(cell: Cell) -> str:
    d = "–" if cell.d is None else f"{cell.d:+.1f}"
    theirs = f"{cell.theirs / 1e3:.2f} ± {cell.their_half / 1e3:.2f}"
    # Half-width of the 95 % interval of the difference; that of the many seeds here is normal.
    half = math.hypot(cell.their_half, 1.96 * cell.our_se) / cell.theirs
    return f"{theirs} | {cell.ours / 1e3:.2f} | {cell.relative:+.1%} ± {half:.1%} | {d}"


def markdown(seeds: int) -> Iterator[str]:
    """The table, line by line, and what the rule of agreement says."""
    yield (
        "| stations | MCS | A-MPDU | FER | TCP | runs | ns-3 | here | difference | d | slowest,"
        " ns-3 | here | difference | d |"
    )
    yield "| ---: | ---: | --- | ---: | --- |" + " ---: |" * 9
    found: tuple[list[Cell], list[Cell]] = ([], [])
    for rows in cells():
        row = rows[0]
        aggregates = "yes" if row["aggregation"] == "1" else "no"
        total, slowest = beside(rows, seeds)
        found[0].append(total)
        # Of one station, it is the same.
        found[1].extend([slowest] if row["stations"] != "1" else [])
        yield (
            f"| {row['stations']} | {row['mcs']} | {aggregates} |"
            f" {float(row['frame_error_rate']):.0%} | {row['direction']} | {len(rows)} |"
            f" {_columns(total)} | {_columns(slowest)} |"
        )
    yield ""
    for title, of_kind in zip(("sum", "slowest station"), found, strict=True):
        table = Table(title, "", of_kind, counted=False)
        for text, holds in table.verdicts():
            line = f"* {title}: {text}: {'holds' if holds else 'does not hold'}"
            yield textwrap.fill(line, 100, subsequent_indent="  ")


if __name__ == "__main__":
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--seeds", type=int, default=40)
    written = "\n".join(markdown(made.parse_args().seeds))
    text = marked_pages.replaced(PAGE.read_text(encoding="utf-8"), BLOCK, written)
    write_whole(PAGE, text)
