"""Run rows of a reference table of ns-2.35 with more seeds, for cells that few runs leave
undecided.

    python tools/ns2_more.py noor --where sessions=15 ber_bad=1e-5 mac=noack --runs 60 > rows.csv

Run i of a row has the seed that the reference tables have (1 + the first 31 bits of SHA-256 of
"table|row|i", modulo 2^31 - 2), so that the first runs are those of the table. Rows in
tests/reference/ns2/<table>_more.csv take the place of the table's. The scripts are those of the
reference (tests/reference/ns2/scripts). `noor_resent` is noor's LAN with a sender that resends the
last segment of a burst during the pause, `wlan_exact` is wlan's cell without the back-off slots
that ns-2 loses by rounding (see `CHANGED`). Needs the program `ns`.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lasthop.analysis.statistics import t_quantile

REFERENCE = Path(__file__).resolve().parent.parent / "tests/reference/ns2"
Row = dict[str, str]


@dataclass(frozen=True)
class Made:
    """How a table is made: the script, its options for a row, and the position of columns in its
    output.
    """

    script: str
    options: Callable[[Row], dict[str, str]]
    #: Goodput in bit/s is `scale` times the first value.
    goodput: str
    half: str
    scale: float
    columns: dict[str, int]


def wlan(row: Row) -> dict[str, str]:
    found = {
        "variant": row["variant"],
        "fer": row["fer"],
        "retry": row["retry_limit"],
        "d1": row["d1"],
        "d2": row["d2"],
        "T": "60",
    }
    found |= {
        "basic": row.get("basic_rate", "11Mb"),
        "window": row["window"],
        "up": str(int(row.get("direction") == "up")),
    }
    return found | (
        {"snoop": row["snoop"]}
        | ({"snooptick": row["snoop_tick_s"]} if row["snoop_tick_s"] else {})
        if "snoop" in row
        else {}
    )


def variants(row: Row) -> dict[str, str]:
    found = {
        "variant": row["variant"],
        "bugfix": row["bugFix"],
        "singledup": row["limited_transmit"],
        "minrto": row["minrto_s"],
    }
    return found | {"del": row["wireless_delay"], "loss": row["loss"]}


def noor(row: Row) -> dict[str, str]:
    found = {
        "mac": row["mac"],
        "pairs": str(int(row["nodes"]) // 2),
        "T": row["run_s"],
        "m2": row["mean_bad_s"],
        "ber2": row["ber_bad"],
    }
    return found | ({"peak": "16000"} if row["source"] == "peak16k" else {})


MADE = {
    "bulk_reno_variants": Made(
        "bulk.tcl",
        variants,
        "goodput_bps_mean",
        "ci95_half",
        40.0,
        {"retrans": 3, "timeouts": 4, "cwnd_cuts": 5},
    ),
    "wlan": Made(
        "wlan.tcl",
        wlan,
        "goodput_bps_mean",
        "ci95_half",
        8000 / 60,
        {"data_pkts": 2, "retrans": 3, "timeouts": 4, "cwnd_cuts": 5},
    ),
    "snoop_wlan": Made(
        "snoop_wlan.tcl",
        wlan,
        "goodput_bps_mean",
        "ci95_half",
        8000 / 60,
        {"data_pkts": 2, "sender_retrans": 3, "timeouts": 4, "cwnd_cuts": 5},
    ),
    "noor": Made(
        "noor.tcl",
        noor,
        "ct_bps_mean",
        "ct_ci95_half",
        928 / 40,
        {"data_pkts": 1, "retrans": 2, "timeouts": 3, "cwnd_cuts": 4},
    ),
}


#: Table -> the table whose rows and seeds it has, and what changes in the script.
#:
#: In noor.tcl a pause ends the data with the last segment sent, and ns-2 sends below the end only:
#: after a timeout it does not send that segment again before the next burst. One segment more, and
#: it does; no new segment is sent in either case.
#:
#: In wlan.tcl a station that counts its slots from the end of a frame it has received counts the
#: propagation delay later than the other one, and receives that one's frame as much later. So it
#: divides a whole number of slots by the slot, and with 20 us the quotient is often a little
#: smaller: `BackoffTimer::pause` cuts it off, and the station has one slot more to wait. Slot, SIFS
#: and propagation delay are binary fractions of a second here, so that the quotient is whole.
CHANGED = {
    "noor_resent": (
        "noor",
        {"$tcp($k) advance 0": "$tcp($k) advance [expr {[$tcp($k) set maxseq_]+1}]"},
    ),
    "wlan_exact": (
        "wlan",
        {
            "SlotTime_ 0.000020": "SlotTime_ [expr 21.0 / (1 << 20)]",
            "SIFS_ 0.000010": "SIFS_ [expr 21.0 / (1 << 21)]",
            "$sta set X_ 15": "$sta set X_ [expr 10 + 3e8 / (1 << 26)]",
        },
    ),
}
MADE |= {name: MADE[base] for name, (base, _) in CHANGED.items()}


def base(table: str) -> str:
    """The table in tests/reference whose rows and seeds `table` has."""
    return CHANGED[table][0] if table in CHANGED else table


def seed(table: str, row: Row, run: int) -> int:
    text = ",".join(list(row.values())[: list(row).index("runs")])
    first = (
        int.from_bytes(hashlib.sha256(f"{base(table)}|{text}|{run}".encode()).digest()[:4], "big")
        >> 1
    )
    return 1 + first % (2**31 - 2)


def simulate(table: str, row: Row, run: int) -> list[float]:
    """The numbers that a script prints, starting with the segments delivered in order."""
    made = MADE[table]
    options = made.options(row) | {"seed": str(seed(table, row, run))}
    folder = REFERENCE / "scripts"
    with tempfile.TemporaryDirectory() as name:
        script = folder / made.script
        if table in CHANGED:
            text = script.read_text()
            for old, new in CHANGED[table][1].items():
                assert old in text
                text = text.replace(old, new)
            script = Path(name) / made.script
            script.write_text(text)
            (Path(name) / "common.tcl").write_text((folder / "common.tcl").read_text())
        words = ["ns", str(script), *(f"{k}={v}" for k, v in options.items())]
        printed = subprocess.run(
            words, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    line = next(x.split(",") for x in printed if x.count(",") > 4)
    return [float(x) for x in (line[6:] if table == "bulk_reno_variants" else line[1:])]


def summary(table: str, row: Row, runs: list[list[float]]) -> Row:
    """The row with the means of `runs`; other columns are unchanged."""
    made = MADE[table]
    goodput = [made.scale * r[0] for r in runs]
    half = t_quantile(len(runs)) * statistics.stdev(goodput) / math.sqrt(len(runs))
    new = {
        "runs": str(len(runs)),
        made.goodput: f"{statistics.mean(goodput):.0f}",
        made.half: f"{half:.0f}",
    }
    new |= {key: f"{statistics.stdev(goodput):.0f}" for key in ("sd", "ct_sd") if key in row}
    return (
        row
        | new
        | {key: f"{statistics.mean(r[i] for r in runs):.2f}" for key, i in made.columns.items()}
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=sorted(MADE))
    parser.add_argument(
        "--where",
        nargs="*",
        default=[],
        metavar="COLUMN=VALUE",
        help="rows with these values (default all)",
    )
    parser.add_argument("--runs", type=int, default=60)
    o = parser.parse_args()
    where = dict(w.split("=", 1) for w in o.where)
    with open(REFERENCE / f"{base(o.table)}.csv", newline="") as f:
        reader = csv.DictReader(f)
        writer = csv.DictWriter(sys.stdout, reader.fieldnames or [], lineterminator="\n")
        writer.writeheader()
        for row in reader:
            if all(row[k] == v for k, v in where.items()):
                writer.writerow(
                    summary(o.table, row, [simulate(o.table, row, i) for i in range(1, o.runs + 1)])
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
