"""Runs the cells of a bulk reference table once more in ns-2.35 with more seeds: the few seeds of the table share their
luck over all rows, which moves whole tables.

    python3 tools/ns2_more.py tests/reference/ns2/bulk_w100.csv --window 100 --queue 150 --seeds 150 > ..._more.csv

Needs the program `ns`.
"""

import argparse
import csv
import math
import statistics
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "bench/ns2.tcl"


def run(**options: object) -> list[int]:
    words = subprocess.run(["ns", str(SCRIPT), *(f"{k}={v}" for k, v in options.items())], capture_output=True, text=True, check=True).stdout.split()
    return [int(n) for n in words[1::2]]


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
            options = dict(variant=row["variant"], delay=row["wireless_delay"], loss=row["loss"], window=o.window, queue=o.queue)
            if "dir" in row:
                options["both"] = int(row["dir"] == "both")
            else:
                options |= {"bugfix": row["bugFix"], "limited": row["limited_transmit"], "minrto": row["minrto_s"]}
            runs = [run(seed=s, **options) for s in range(o.first, o.first + o.seeds)]
            goodput = [r[0] * 8000 / 200 for r in runs]
            half = 1.976 * statistics.stdev(goodput) / math.sqrt(o.seeds)
            mean = [statistics.mean(r[i] for r in runs) for i in range(5)]
            row["runs"] = str(o.seeds)
            row["goodput_bps_mean"] = f"{statistics.mean(goodput):.0f}"
            row["goodput_ci95_half" if "goodput_ci95_half" in row else "ci95_half"] = f"{half:.0f}"
            row["retrans_mean" if "retrans_mean" in row else "retrans"] = f"{mean[2]:.2f}"
            row["timeouts_mean" if "timeouts_mean" in row else "timeouts"] = f"{mean[3]:.2f}"
            row["cwnd_cuts_mean" if "cwnd_cuts_mean" in row else "cwnd_cuts"] = f"{mean[4]:.2f}"
            for key in ("data_pkts_mean", "goodput_sd", "queue_drops_mean"):
                if key in row:
                    row[key] = {"data_pkts_mean": f"{mean[1]:.1f}", "goodput_sd": f"{statistics.stdev(goodput):.0f}"}.get(key, "")
            writer.writerow(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
