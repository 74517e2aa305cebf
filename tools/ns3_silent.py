"""Run ns-3.44 without beacons (tools/ns3_wifi.cc --silent) over the cells of TcpNewReno in
tests/reference/ns3/wifi.csv, and write the means to tests/reference/ns3/wifi_silent.csv.

    python tools/ns3_silent.py PROGRAM [--runs N]

PROGRAM is the compiled tools/ns3_wifi.cc. The runs have the seeds of wifi.csv.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
from concurrent.futures import ThreadPoolExecutor

from ns3_replaced import mean_and_half

from fidelity.measuring import CORES
from fidelity.references import NS3, Row, read
from lasthop.experiments.store import write_whole

SILENT = NS3 / "wifi_silent.csv"
#: Of a row of wifi.csv: what says which cell it is.
CELL = ("ns3_version", "variant", "max_transmissions", "frame_error_rate", "measured_s")


def goodput(program: str, row: Row, number: int) -> float:
    """Of a run, in kbit/s."""
    words = [
        program,
        "--silent",
        f"--loss={row['frame_error_rate']}",
        f"--attempts={row['max_transmissions']}",
        f"--run={number}",
    ]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return float(out.split()[1])


def silent(program: str, row: Row, runs: int) -> Row:
    """A row of the table."""
    with ThreadPoolExecutor(CORES) as pool:
        found = list(pool.map(lambda n: goodput(program, row, n), range(1, runs + 1)))
    mean, half = mean_and_half(found)
    figures = {"goodput_kbps_mean": mean, "goodput_kbps_ci95": half}
    return {k: row[k] for k in CELL} | {"runs_ok": str(runs)} | figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=10)
    o = parser.parse_args()
    rows: list[Row] = []
    for row in read(NS3 / "wifi.csv"):
        if row["variant"] != "TcpNewReno":
            continue
        rows.append(silent(o.program, row, o.runs))
        text = io.StringIO()
        writer = csv.DictWriter(text, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(SILENT, text.getvalue())
        print(*rows[-1].values(), flush=True)


if __name__ == "__main__":
    main()
