"""Run ns-3.44 with rules of its senders replaced (tools/ns3_rules.cc) over the cells of
tests/reference/ns3/goodput.csv, and write the means to tests/reference/ns3/replaced.csv.

    python tools/ns3_replaced.py PROGRAM [VARIANT …] [--runs N]

PROGRAM is the compiled tools/ns3_rules.cc. Rows of other variants in the file are kept. The runs
have the seeds of goodput.csv, so that without a replaced rule its means come out again.
"""

from __future__ import annotations

import argparse
import csv
import io
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor

from fidelity.measuring import CORES
from fidelity.references import ROOT
from lasthop.analysis.statistics import t_quantile
from lasthop.experiments.store import write_whole

REFERENCE = ROOT / "tests/reference/ns3/goodput.csv"
REPLACED = ROOT / "tests/reference/ns3/replaced.csv"

#: What the sockets of all variants do otherwise than the recovery here.
SOCKET = (
    "flight",
    "flight-at-loss",
    "exit-ack",
    "exit-fast",
    "forget",
    "prr",
    "recover-fs",
    "restart",
    "karn",
)
#: By variant and SACK: options of the program that put the rules of lasthop's sender in the place
#: of ns-3's.
RULES: dict[tuple[str, bool], tuple[str, ...]] = {
    ("TcpNewReno", True): (*SOCKET, "fractions"),
    ("TcpNewReno", False): (
        "flight",
        "flight-at-loss",
        "exit-ack",
        "exit-fast",
        "clear",
        "classic",
        "more",
        "guard",
        "karn",
        "fractions",
    ),
    ("TcpLinuxReno", True): (*SOCKET, "fresh", "parts", "fractions", "receiver"),
    ("TcpVeno", True): (*SOCKET, "rounds", "few", "samples", "fractions"),
    ("TcpVegas", True): (*SOCKET, "half", "samples", "above"),
    ("TcpWestwoodPlus", True): (
        *SOCKET,
        "fresh",
        "samples",
        "sacked",
        "cap",
        "interval",
        "data-rtt",
        "fractions",
    ),
    ("TcpCubic", True): (*SOCKET, "fresh", "samples", "curve"),
    ("TcpBbr", True): ("flight", "flight-at-loss", "exit-ack", "two", "forget", "all"),
}
#: Runs of a cell.
RUNS = 10
#: By delay and loss: cells with more. A run has about seven losses there, so that goodput varies by
#: a fifth from run to run; and equal seeds lose the same packets for all variants, so that ten
#: runs are high or low for all of them.
MORE_RUNS = {("170.0", "0.001"): 100}
COLUMNS = (
    "variant",
    "sack",
    "rules",
    "last_hop_delay_ms",
    "loss",
    "measured_s",
    "runs_ok",
    "goodput_kbps_mean",
    "goodput_kbps_ci95",
    "rtx_share_mean",
    "rtos_per_100s_mean",
)
Row = dict[str, str]


def cells(variant: str, *, sack: bool) -> list[Row]:
    """The rows of a variant that have losses."""
    with REFERENCE.open(newline="") as f:
        return [
            r
            for r in csv.DictReader(f)
            if (r["ns3_version"], r["variant"], r["sack"]) == ("3.44", variant, str(int(sack)))
            and float(r["loss"]) > 0
        ]


def run(program: str, row: Row, rules: tuple[str, ...], number: int) -> tuple[float, ...]:
    """Goodput in kbit/s, segments sent, retransmissions, timeouts per 100 s."""
    words = [
        program,
        f"--window={row['variant'].removeprefix('Tcp')}",
        f"--delay={row['last_hop_delay_ms']}",
        f"--loss={row['loss']}",
        f"--measured={row['measured_s']}",
        f"--run={number}",
        *(["--no-sack"] if row["sack"] == "0" else []),
        *(f"--{rule}" for rule in rules),
    ]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return tuple(map(float, out.split()[1:]))


def runs_of(row: Row) -> int:
    """How many runs a cell has."""
    return MORE_RUNS.get((row["last_hop_delay_ms"], row["loss"]), RUNS)


def mean_and_half(values: list[float]) -> tuple[str, str]:
    """The mean and half of its 95 % interval, as the tables have them."""
    half = t_quantile(len(values)) * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.fmean(values):.1f}", f"{half:.1f}"


def replaced(program: str, row: Row, rules: tuple[str, ...], runs: int) -> Row:
    """A row of the table."""
    with ThreadPoolExecutor(CORES) as pool:
        found = list(pool.map(lambda n: run(program, row, rules, n), range(1, runs + 1)))
    goodput = [f[0] for f in found]
    mean, half = mean_and_half(goodput)
    values = (
        row["variant"],
        row["sack"],
        " ".join(rules),
        *(row[k] for k in ("last_hop_delay_ms", "loss", "measured_s")),
        str(runs),
        mean,
        half,
        f"{statistics.fmean(f[2] / f[1] for f in found):.5f}",
        f"{statistics.fmean(f[3] for f in found):.2f}",
    )
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program")
    names = sorted({variant for variant, _ in RULES})
    parser.add_argument("variants", nargs="*", help=f"any of {', '.join(names)} (default: all)")
    parser.add_argument("--runs", type=int, help=f"in each cell (default: {RUNS}, or MORE_RUNS)")
    o = parser.parse_args()
    kept: list[Row] = []
    if REPLACED.exists():
        with REPLACED.open(newline="") as f:
            kept = list(csv.DictReader(f))
    for (variant, sack), rules in RULES.items():
        if o.variants and variant not in o.variants:
            continue
        kept = [r for r in kept if (r["variant"], r["sack"]) != (variant, str(int(sack)))]
        kept += [
            replaced(o.program, row, rules, o.runs or runs_of(row))
            for row in cells(variant, sack=sack)
        ]
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
        write_whole(REPLACED, text.getvalue())
        print(
            f"{variant}, SACK {'on' if sack else 'off'}: {len(cells(variant, sack=sack))} cells",
            flush=True,
        )


if __name__ == "__main__":
    main()
