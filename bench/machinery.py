"""What share of a comparison of many short runs is not the simulation of events.

    python bench/machinery.py [--seeds N]

Runs of one second (five points, two schemes, 2 Mbit/s, 1 % loss) with all files but the figure, for
N and 2 N seeds. Callgrind counts the instructions of the command and those of the event loops; the
differences exclude start-up. The rest is set-up, results, metrics, statistics and files. The build
needs its symbols:

    cargo rustc --profile local --package lasthop-native -- -C strip=none
    cp target/local/liblasthop_native.so python/lasthop/_native.abi3.so
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CASE = (
    "--rate 2Mbps --rtt 40ms --loss 1% --set duration=1s --schemes reno,cubic"
    " --vary last_hop.rtt=20..100..20ms --no-figure --quiet"
)
RUNS_PER_SEED = 10
# The event loop, as callgrind_annotate names it.
LOOP = re.compile(r"^\s*([\d,]+) .*Simulation<R>::run_until", re.MULTILINE)
TOTAL = re.compile(r"^\s*([\d,]+) .*PROGRAM TOTALS", re.MULTILINE)


def count(seeds: int, folder: Path) -> tuple[int, int]:
    """Instructions of a comparison, and of its event loops."""
    counts = folder / f"callgrind.{seeds}"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", sys.executable]
    command += ["-m", "lasthop", "compare", *CASE.split(), "--seeds", str(seeds)]
    command += ["--out", str(folder / f"out-{seeds}")]
    # The same hashes each time, as in counting.py.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(counts)]
    text = subprocess.run(annotate, check=True, capture_output=True, text=True).stdout
    total, loop = TOTAL.search(text), LOOP.search(text)
    if total is None or loop is None:
        raise SystemExit("machinery.py: callgrind found no event loop; has the module symbols?")
    return int(total[1].replace(",", "")), int(loop[1].replace(",", ""))


def main() -> None:
    """Print the instructions of a run, and the share that is not the event loop."""
    parser = argparse.ArgumentParser(description="The machinery of many short runs.")
    parser.add_argument("--seeds", type=int, default=200, metavar="N")
    seeds = parser.parse_args().seeds
    with tempfile.TemporaryDirectory() as folder:
        few, many = (count(k * seeds, Path(folder)) for k in (1, 2))
    runs = RUNS_PER_SEED * seeds
    total, loop = ((after - before) / runs for before, after in zip(few, many, strict=True))
    print(f"instructions of a run: {total:,.0f}, of which its event loop {loop:,.0f}")
    print(f"machinery: {100 * (1 - loop / total):.1f} %")


if __name__ == "__main__":
    main()
