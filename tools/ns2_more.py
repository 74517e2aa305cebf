"""Runs the cells of a bulk reference table once more in ns-2.35 with more seeds: the few seeds of the table share their
luck over all rows, which moves whole tables.

    python3 tools/ns2_more.py tests/reference/ns2/bulk_w100.csv --window 100 --queue 150 --seeds 150 > ..._more.csv
    python3 tools/ns2_more.py tests/reference/ns2/snoop.csv --variants Reno,Newreno,Sack1 --seeds 50 > ..._more.csv

Needs the program `ns`.
"""

import argparse
import csv
import math
import statistics
import subprocess
import sys
from pathlib import Path

from lasthop.statistics import t_quantile

BENCH = Path(__file__).resolve().parent.parent / "bench"


def run(script: str, **options: object) -> list[int]:
    words = subprocess.run(
        ["ns", str(BENCH / script), *(f"{k}={v}" for k, v in options.items())], capture_output=True, text=True, check=True
    ).stdout.split()
    return [int(n) for n in words[1::2]]


def scenario(row: dict[str, str], window: int, queue: int) -> tuple[str, dict[str, object]]:
    """The script that makes a row, and its options."""
    options: dict[str, object] = {"variant": row["variant"], "loss": row["loss"], "window": window, "queue": queue}
    if "dir" in row:
        options["both"] = int(row["dir"] == "both")
    if "snoop" in row:
        options |= {"segments": 0, "T": 200, "minrto": 0.2, "limited": 1, "wired_delay": "20ms", "hop_delay": row["hop_delay"]}
        return "ns2_snoop.tcl", options | {"snoop": row["snoop"], "snooptick": row["snoop_tick_s"]}
    options["delay"] = row["wireless_delay"]
    if "bugFix" in row:
        options |= {"bugfix": row["bugFix"], "limited": row["limited_transmit"], "minrto": row["minrto_s"]}
    return "ns2.tcl", options


#: The columns of the tables by what they hold: place in the output of a run.
COUNTS = {"data_pkts_mean": 1, "data_pkts": 1, "retrans_mean": 2, "retrans": 2, "sender_retrans": 2, "timeouts_mean": 3, "timeouts": 3}
CUTS = {"cwnd_cuts_mean": 4, "cwnd_cuts": 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("--window", type=int, default=100)
    parser.add_argument("--queue", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=150, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them; beyond those of the table the two are independent")
    parser.add_argument("--variants", default="Reno,Newreno", help="rows of these (default Reno,Newreno)")
    o = parser.parse_args()
    with open(o.table, newline="") as f:
        reader = csv.DictReader(f)
        writer = csv.DictWriter(sys.stdout, reader.fieldnames or [], lineterminator="\n")
        writer.writeheader()
        for row in reader:
            if row["variant"] not in o.variants.split(","):
                continue
            if float(row["loss"]) == 0:
                writer.writerow(row)
                continue
            script, options = scenario(row, o.window, o.queue)
            runs = [run(script, seed=s, **options) for s in range(o.first, o.first + o.seeds)]
            goodput = [r[0] * 8000 / 200 for r in runs]
            sd = statistics.stdev(goodput)
            new = {"runs": str(o.seeds), "goodput_bps_mean": f"{statistics.mean(goodput):.0f}", "goodput_sd": f"{sd:.0f}", "sd": f"{sd:.0f}"}
            new |= dict.fromkeys(("goodput_ci95_half", "ci95_half"), f"{t_quantile(o.seeds) * sd / math.sqrt(o.seeds):.0f}") | {
                "queue_drops_mean": ""
            }
            new |= {key: f"{statistics.mean(r[i] for r in runs):.2f}" for key, i in (COUNTS | CUTS).items()}
            writer.writerow(row | {key: value for key, value in new.items() if key in row})
            sys.stdout.flush()


if __name__ == "__main__":
    main()
