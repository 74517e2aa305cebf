"""What share of many short stored runs is not the simulation of events.

    python bench/machinery.py [--seeds N] [--write]

Runs of one second (five points, two schemes, 2 Mbit/s, 1 % loss) with all files but the figure, in
`lasthop compare` and in `lasthop sweep --jobs 1`, for N and 3 N seeds. Callgrind counts the
instructions of the command and of its parts; the differences exclude start-up. With --write, the
table is written into docs/speed.md. The build needs its symbols:

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
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import speed_page  # noqa: E402

CASE = (
    "--rate 2Mbps --rtt 40ms --loss 1% --set duration=1s --schemes reno,cubic"
    " --vary last_hop.rtt=20..100..20ms --quiet"
)
COMMANDS = {"compare": "--no-figure", "sweep": "--jobs 1"}
RUNS_PER_SEED = 10

LOOP, BUILD = "event loop", "network, flows and plan built"
RUN = "result of a run, memory taken over and freed"
#: The functions of each part, as callgrind_annotate names them, with all that they call.
PARTS = {
    LOOP: [r"Simulation<R>::run_until"],
    BUILD: [r"lasthop_sim::build::build"],
    RUN: [r"lasthop_sim::Repeated::run", r"drop_in_place<lasthop_sim::probes::result::RunResult>"],
    "texts of the stored row": [r"lasthop_python::__pyfunction_row_texts"],
    "SHA-256": [r"EVP_DigestInit_ex", r"EVP_DigestUpdate", r"EVP_DigestFinal_ex"],
    "resamples of the bootstrap": [r"metrics::resamples::counts"],
    "their products with the metrics": [r"DOUBLE_matmul"],
    "sums of columns": [r"metrics::sums::column_sums"],
}
REST = "metrics, other statistics, tables, Parquet, the interpreter"
LINE = re.compile(r"^\s*([\d,]+) \(.*?\)\s+(?:\S*?:)?(.*?)(?: \[.*\])?$", re.MULTILINE)


def count(command: str, seeds: int, folder: Path) -> Counter[str]:
    """Instructions of a command: of each part, and of all."""
    counts = folder / f"{command}.{seeds}"
    call = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}.%p", sys.executable]
    call[2:2] = ["--trace-children=yes"]
    call += ["-m", "lasthop", command, *CASE.split(), *COMMANDS[command].split()]
    call += ["--seeds", str(seeds), "--out", str(folder / f"out-{command}-{seeds}")]
    # The same hashes each time, as in counting.py.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    subprocess.run(call, check=True, capture_output=True, env=environment)
    found: Counter[str] = Counter()
    for process in folder.glob(f"{counts.name}.*"):
        annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(process)]
        text = subprocess.run(annotate, check=True, capture_output=True, text=True).stdout
        found += by_part(text)
    # Events and building are parts of their run.
    found[RUN] -= found[LOOP] + found[BUILD]
    if not found[LOOP]:
        raise SystemExit("machinery.py: callgrind found no event loop; has the module symbols?")
    return found


def by_part(text: str) -> Counter[str]:
    """The instructions of each part and of all, from the text of callgrind_annotate."""
    found: Counter[str] = Counter()
    for line in LINE.finditer(text):
        instructions, function = int(line[1].replace(",", "")), line[2]
        if function == "PROGRAM TOTALS":
            found["all"] += instructions
        for part, functions in PARTS.items():
            if any(re.fullmatch(rf"(.*::)?({name})", function) for name in functions):
                found[part] += instructions
    return found


def table(runs: dict[str, dict[str, float]]) -> list[str]:
    """Instructions of a run by part, a column for each command, and the shares of machinery."""
    head = ["| part | `compare --out` | `sweep --jobs 1` |", "| --- | ---: | ---: |"]
    rows = [
        f"| {part} |" + "".join(f" {of[part]:,.0f} |" for of in runs.values())
        for part in [*PARTS, REST, "all"]
    ]
    shares = (f" {100 * (1 - of[LOOP] / of['all']):.1f} % |" for of in runs.values())
    return [*head, *rows, f"| all but the event loop |{''.join(shares)}"]


def main() -> None:
    """Print the instructions of a run by part, and the share that is not the event loop."""
    parser = argparse.ArgumentParser(description="The machinery of many short runs.")
    parser.add_argument("--seeds", type=int, default=100, metavar="N")
    parser.add_argument("--write", action="store_true", help="write docs/speed.md")
    args = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            few, many = (count(command, k * args.seeds, Path(folder)) for k in (1, 3))
            runs = 2 * RUNS_PER_SEED * args.seeds
            of_run = {part: (many[part] - few[part]) / runs for part in [*PARTS, "all"]}
            of_run[REST] = of_run["all"] - sum(of_run[part] for part in PARTS)
            found[command] = of_run
    lines = "\n".join(table(found))
    print(lines)
    if args.write:
        page = speed_page.PAGE.read_text(encoding="utf-8")
        page = speed_page.marked_pages.replaced(page, "machinery", lines)
        speed_page.PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
