"""Run rows of paul.csv in ns-2.35 with the loss chains that lasthop draws.

These are the rows whose chain does not advance while the flow waits. For each row and seed, both
simulators lose the same packets of the last hop, by ordinal. The variance of the chain, which is
most of the variance of the goodput, is then common to both.

    python3 tools/paul_chains.py --seeds 200 > tests/reference/ns2/paul_chains.csv

Needs the program `ns`.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fidelity.paul import frozen_rows, min_rto_of
from lasthop import _native

BENCH = Path(__file__).resolve().parent.parent / "bench"

#: A stream with more datagrams than any flow sends in 100 s, over a link with the same chain and
#: name.
PROBE = """
duration = "4 s"
[[link]]
between = ["bs", "mh"]
rate = "1 Gbps"
queue = "unlimited"
{direction}.loss.model = "markov"
{direction}.loss.good_to_good = 0.9913
{direction}.loss.bad_to_bad = 0.8509
{direction}.loss.clock = "frame"
[[flow]]
from = "{source}"
to = "{sink}"
app = {{ kind = "cbr", rate = "40 Mbps" }}
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
"""


def chain(seed: int, direction: str) -> str:
    """Ordinals of the lost frames."""
    source, sink = ("bs", "mh") if direction == "forward" else ("mh", "bs")
    _, columns = _native.Scenario(
        PROBE.format(direction=direction, source=source, sink=sink)
    ).run_series(seed, ["lost_on_air"])
    # A frame starts every 200 us and takes 8.32 us.
    return " ".join(str(int(t) // 200_000) for t in columns["t_ns"])


def run(row: dict[str, str], minrto: float, seed: int, folder: Path) -> list[str]:
    options = {
        "variant": row["variant"],
        "wired": row["wired_rate"],
        "udp": row["udp"],
        "window": row["window"],
        "minrto": minrto,
        "seed": seed,
    }
    for key, direction in [("down", "forward"), ("up", "backward")][
        : 1 + int(row["both_directions"])
    ]:
        options[key] = folder / f"{direction}{seed}"
    words = ["ns", str(BENCH / "ns2_paul.tcl"), *(f"{k}={v}" for k, v in options.items())]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1::2]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=200)
    seeds = range(1, parser.parse_args().seeds + 1)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["row", "seed", "segments", "data_pkts", "retrans", "timeouts"])
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as pool:
        folder = Path(name)
        for seed in seeds:
            for direction in ("forward", "backward"):
                (folder / f"{direction}{seed}").write_text(chain(seed, direction))
        for number, row in frozen_rows():
            minrto = min_rto_of(number)
            results = pool.map(lambda seed: run(row, minrto, seed, folder), seeds)  # noqa: B023
            writer.writerows(
                [number, seed, *counts] for seed, counts in zip(seeds, results, strict=True)
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
