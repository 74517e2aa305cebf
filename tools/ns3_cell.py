"""Run ns-3.44 (tools/ns3_cell.cc) over cells of 802.11n with TCP, and write the goodput of
each station to tests/reference/ns3/cell.csv.

    PYTHONPATH=. python tools/ns3_cell.py PROGRAM [--runs N]

PROGRAM is the compiled tools/ns3_cell.cc. Each run takes the CPU 0.3 to 15 s; the cells are
chosen so that each value of each quantity meets most values of the others. Runs that the file has
are kept, and it is written after each run.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
from concurrent.futures import ThreadPoolExecutor, as_completed

from fidelity.measuring import CORES
from fidelity.references import NS3, Row, read
from lasthop.experiments.store import write_whole

CELLS = NS3 / "cell.csv"
#: Segments of the window of each flow, by the number of stations: the cell is saturated, and no
#: queue overflows.
WINDOWS = {1: 160, 5: 64, 20: 20}
#: Stations, MCS, whether frames are aggregated, error rate of MPDUs of data, direction.
CASES = (
    (1, 7, True, 0.0, "down"),
    (1, 7, True, 0.0, "up"),
    (1, 7, True, 0.1, "down"),
    (1, 7, True, 0.1, "up"),
    (1, 4, False, 0.03, "down"),
    (1, 0, True, 0.03, "up"),
    (1, 7, False, 0.1, "up"),
    (1, 0, False, 0.0, "down"),
    (5, 7, True, 0.0, "down"),
    (5, 7, True, 0.0, "up"),
    (5, 7, True, 0.1, "down"),
    (5, 7, True, 0.03, "up"),
    (5, 4, True, 0.1, "up"),
    (5, 4, False, 0.0, "up"),
    (5, 4, False, 0.1, "down"),
    (5, 0, True, 0.03, "down"),
    (5, 0, False, 0.1, "up"),
    (20, 7, True, 0.0, "down"),
    (20, 7, True, 0.0, "up"),
    (20, 0, False, 0.1, "down"),
)
#: The start of the measurement and its length, s.
WARM, MEASURED = 6, 4


def goodputs(program: str, case: tuple[int, int, bool, float, str], number: int) -> list[float]:
    """Of the stations in a run, kbit/s."""
    stations, mcs, aggregates, errors, direction = case
    words = [
        program,
        f"--stations={stations}",
        f"--mcs={mcs}",
        f"--fer={errors}",
        f"--window={WINDOWS[stations]}",
        f"--warm={WARM}",
        f"--measured={MEASURED}",
        f"--run={number}",
        *([] if aggregates else ["--single"]),
        *(["--up"] if direction == "up" else []),
    ]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in out.split()]


def row(case: tuple[int, int, bool, float, str], number: int, found: list[float]) -> Row:
    """A row of the table: a run."""
    stations, mcs, aggregates, errors, direction = case
    return {
        "ns3_version": "3.44",
        "stations": str(stations),
        "mcs": str(mcs),
        "aggregation": str(int(aggregates)),
        "frame_error_rate": str(errors),
        "direction": direction,
        "window_segments": str(WINDOWS[stations]),
        "warm_s": str(WARM),
        "measured_s": str(MEASURED),
        "run": str(number),
        "goodputs_kbps": " ".join(f"{x:.1f}" for x in found),
    }


def key(run: Row) -> tuple[str, ...]:
    """What a run is, without its result."""
    return tuple(value for name, value in run.items() if name != "goodputs_kbps")


def write(found: dict[tuple[str, ...], Row]) -> None:
    """Writes the runs, cell by cell in the order of CASES."""
    order = [key(row(case, 1, []))[:-1] for case in CASES]
    rows = sorted(found.values(), key=lambda r: (order.index(key(r)[:-1]), int(r["run"])))
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_whole(CELLS, text.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=1)
    o = parser.parse_args()
    found = {key(r): r for r in (read(CELLS) if CELLS.exists() else [])}
    everything = [(case, number) for number in range(1, o.runs + 1) for case in CASES]
    missing = [w for w in everything if key(row(*w, [])) not in found]
    with ThreadPoolExecutor(CORES) as pool:
        runs = {pool.submit(goodputs, o.program, *w): w for w in missing}
        for run in as_completed(runs):
            made = row(*runs[run], run.result())
            found[key(made)] = made
            write(found)


if __name__ == "__main__":
    main()
