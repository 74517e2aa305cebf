"""Runs the cells of a bulk reference table in ns-2.35 with the very losses that lasthop drew, so that luck is out of the comparison.

    python3 tools/ns2_same_losses.py bulk_w100.csv --window 100 --queue 150 > tests/reference/ns2/bulk_w100_same.csv

lasthop runs each cell; the places of the lost frames, in the order in which frames cross the last hop, go to ns-2 as a list. A line
holds the means of ns-2 over the same seeds, and mean and standard deviation of lasthop's goodput less ns-2's, run by run. ns-2's
clock keeps a random phase of its own. Needs the program `ns`.
"""

import argparse
import csv
import json
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import ns2_more
import ns2_tables as ns2

from lasthop import _native

ADDED = ("goodput_bps_here", "difference_bps_mean", "difference_bps_sd")


def ours(scenario: _native.Scenario, seed: int, delay_ns: int) -> tuple[float, dict[str, str]]:
    """Goodput of a run, and the places of the frames it lost: of data and of ACKs, counted from 1 in the order of crossing."""
    result, columns = scenario.run_recorded(seed, True)
    assert columns is not None
    arrived, lost = (list(columns["events"]).index(e) for e in ("arrived", "lost_on_air"))
    crossed: dict[str, list[tuple[int, bool]]] = {"bs>mh": [], "mh>bs": []}
    for t, event, link in zip(*(columns[k].tolist() for k in ("t_ns", "event", "link")), strict=True):
        name = columns["links"][link] if link >= 0 else ""
        if name in crossed and event in (arrived, lost):
            # A frame is lost at the end of its air time and arrives when it has crossed.
            crossed[name].append((t if event == lost else t - delay_ns, event == lost))
    places = {name: [i for i, (_, gone) in enumerate(sorted(frames), 1) if gone] for name, frames in crossed.items()}
    names = {"data": places["bs>mh"], "acks": places["mh>bs"]}
    return json.loads(result)["flows"][0]["goodput_bps"], {k: ",".join(map(str, v)) for k, v in names.items()}


def theirs(row: dict[str, str], window: int, queue: int, seed: int, lists: dict[str, str]) -> list[int]:
    script, options = ns2_more.scenario(row, window, queue)
    return ns2_more.run(script, **(options | {"loss": 0, "both": 0, "seed": seed} | lists))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="its name in tests/reference/ns2")
    parser.add_argument("--window", type=int, default=100)
    parser.add_argument("--queue", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--variants", default="Reno,Newreno,Sack1", help="rows of these")
    o = parser.parse_args()
    writer: csv.DictWriter[str] | None = None
    for row in ns2.rows(o.table):
        if row["variant"] not in o.variants.split(",") or float(row["loss"]) == 0:
            continue
        scenario = _native.Scenario(ns2.bulk_text(row, o.window, o.queue - 1))
        delay_ns = int(row["wireless_delay"].removesuffix("ms")) * 1_000_000

        def pair(seed: int, row: dict[str, str] = row, scenario: _native.Scenario = scenario, delay_ns: int = delay_ns) -> tuple[float, list[int]]:
            goodput, lists = ours(scenario, seed, delay_ns)
            return goodput, theirs(row, o.window, o.queue, seed, lists)

        with ThreadPoolExecutor(2) as pool:
            pairs = list(pool.map(pair, range(1, o.seeds + 1)))
        goodput = [r[0] * 8000 / 200 for _, r in pairs]
        less = [a - b for (a, _), b in zip(pairs, goodput, strict=True)]
        new = {
            "runs": str(o.seeds),
            "goodput_bps_mean": f"{statistics.mean(goodput):.0f}",
            "goodput_bps_here": f"{statistics.mean(a for a, _ in pairs):.0f}",
        }
        new |= {"difference_bps_mean": f"{statistics.mean(less):.0f}", "difference_bps_sd": f"{statistics.stdev(less):.0f}"}
        new |= {key: f"{statistics.mean(r[i] for _, r in pairs):.2f}" for key, i in ns2_more.COUNTS.items() if key in row}
        names = [k for k in row if k in ("variant", "wireless_delay", "loss", "dir", "bugFix", "limited_transmit", "minrto_s")]
        line = {k: row[k] for k in names} | new
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(line), lineterminator="\n")
            writer.writeheader()
        writer.writerow(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
