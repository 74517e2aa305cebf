"""Test the random numbers with dieharder, and write its verdicts to docs/numbers.md.

    nice -n 19 python tools/random_quality.py [--results FILE] [--samples N] [--table]

Needs dieharder (Debian package) and `cargo build --release -p lasthop --example draws`, which
writes the draws in the orders in which the models use them. A test that does not pass is repeated
with at least five times the samples. Takes about 5 minutes of CPU time; with `--samples 20`, 20
times the samples for each p-value, two hours. Finished tests are saved in FILE; `--table` only
writes the table from it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import marked_pages

HERE = Path(__file__).resolve().parent.parent
DOC = HERE / "docs" / "numbers.md"
BLOCK = "dieharder"

#: Order of the draws, as in `examples/draws.rs` -> its description; the last one is for comparison.
ORDERS = {
    "indices": "one stream, consecutive indices (frames, normal draws 2i and 2i + 1)",
    "indices, bits reversed": "the same, each draw's lowest bit first",
    "high halves": "the same, bits 63 to 32 only",
    "low halves": "the same, bits 31 to 0 only",
    "seeds": "neighbouring seeds, one process, index 0",
    "names": "processes whose names differ in a number, one seed, index 0",
    "interleaved": "10 processes of a path under 16 neighbouring seeds, index by index",
    "slots": "three frames in each seventh time slot",
    "strides": "every 2^24th index",
    "stations": "the back-off of 50 stations of a cell in turn",
    "normal": "percentiles of normal draws, 32 bits each",
    "AES": "for comparison: AES in OFB mode (dieharder's own generator)",
}

#: Number of the test: (ntuples, samples per p-value). One sample is a p-value; from several,
#: dieharder computes one with a Kolmogorov-Smirnov test, which is wrong (near 1) for a few samples.
#: Tests that dieharder calls suspect are left out.
TESTS: dict[int, tuple[Sequence[int], int]] = {
    **{d: (range(1), 20) for d in (0, 1, 3, 4, 8, 9, 10, 11, 12, 13, 15, 16, 100, 101, 102, 204)},
    202: (range(5, 6), 20),
    200: ((1, 2, 4, 8), 1),
    201: (range(2, 5), 1),
    **{d: (range(1), 1) for d in (2, 17, 205, 206, 207, 208, 209)},
    203: ((0, 1, 7), 1),
}


def run(order: str, test: int, ntuple: int, samples: int) -> list[tuple[str, float, str]]:
    """Name, p-value and assessment of each statistic of a test."""
    draws = (
        f"{shlex.quote(str(HERE / 'target' / 'release' / 'examples' / 'draws'))}"
        f" {shlex.quote(order)} |"
    )
    what = (
        f"-d {test} -n {ntuple} -p {samples} -D test_name -D ntuple -D pvalues -D assessment -c ,"
    )
    # dieharder closes the pipe when it has enough numbers.
    command = f"dieharder -g 205 {what}" if order == "AES" else f"{draws} dieharder -g 200 {what}"
    output = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True
    ).stdout
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines()]
    if not rows:
        raise SystemExit(f"dieharder gave no verdict: {command}")
    return [(f"{name} {n}", float(p), verdict) for name, n, p, verdict in rows]


def judge(order: str, test: int, ntuple: int, samples: int) -> list[tuple[str, float, str]]:
    """As `run`, but a test that does not pass is repeated with more samples, which decide."""
    found = run(order, test, ntuple, samples)
    passed = all(verdict == "PASSED" for _, _, verdict in found)
    return found if passed else run(order, test, ntuple, max(20, 5 * samples))


def measure(results: Path, times: int) -> None:
    done = {(r["order"], r["test"], r["ntuple"]) for r in read(results)}
    with results.open("a") as file:
        for test, (ntuples, samples) in TESTS.items():
            for order in ORDERS:
                for ntuple in ntuples:
                    if (order, test, ntuple) in done:
                        continue
                    row = {
                        "order": order,
                        "test": test,
                        "ntuple": ntuple,
                        "found": judge(order, test, ntuple, times * samples),
                    }
                    print(json.dumps(row), file=file, flush=True)


def read(results: Path) -> list[dict]:
    return (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )


def table(rows: list[dict]) -> str:
    """One row per order: p-values by verdict, and their range.

    Only tests that are finished for every order count.
    """
    orders = defaultdict(set)
    for row in rows:
        orders[row["test"], row["ntuple"]].add(row["order"])
    rows = [row for row in rows if orders[row["test"], row["ntuple"]] == set(ORDERS)]
    names = dict.fromkeys(name.split()[0] for row in rows for name, _, _ in row["found"])
    lines = [*textwrap.wrap(f"Tests: {', '.join(f'`{name}`' for name in names)}.", 100), ""]
    lines += ["| draws in the order of | p-values | passed | weak | failed | smallest | largest |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for order, about in ORDERS.items():
        found = [value for row in rows if row["order"] == order for value in row["found"]]
        counts = [
            sum(verdict == v for _, _, verdict in found) for v in ("PASSED", "WEAK", "FAILED")
        ]
        ps = [p for _, p, _ in found]
        lines.append(
            f"| {about} | {len(found)} | {' | '.join(map(str, counts))} | {min(ps):.5f} |"
            f" {max(ps):.5f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=HERE / "out" / "random-quality.jsonl",
        help="finished tests (default %(default)s)",
    )
    parser.add_argument(
        "--samples", type=int, default=1, metavar="N", help="N times the samples (default 1)"
    )
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    if not options.table:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        measure(options.results, options.samples)
    page = marked_pages.replaced(DOC.read_text(), BLOCK, table(read(options.results)))
    DOC.write_text(page)


if __name__ == "__main__":
    main()
