"""Compares lasthop with the reference results of ns-2.35 and writes docs/fidelity.md and the catalogue's evidence.

    python tools/fidelity.py [--seeds N] [--check]

Exact: every recovery trace of the fixtures, segment by segment and ACK by ACK, within a microsecond.
Statistical: for each cell d = difference / sqrt(se1^2 + se2^2), se = half of the 95 % interval / t. A table agrees if no
cell is above 3.5, at most 5 % of the cells are above 2.5 unless they differ by less than 2 %, and the signed relative
differences average to within 1 % of zero. Retransmissions and timeouts: within 10 % over a table. `--check` exits with 1
where that does not hold.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lasthop import __version__, _native
from lasthop.statistics import t_quantile

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "tests/reference/ns2"
FIXTURES = ROOT / "crates/lasthop-sim/tests/fixtures/ns2"
#: Depends on the random phase of ns-2's clock.
NOT_EXACT = {"rtotick"}
CORES = 2

BULK = """
duration = "200 s"
[[link]]
between = ["fh", "bs"]
rate = "10 Mbps"
delay = "20 ms"
queue = "499 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue} packets"
{loss}
[[flow]]
from = "fh"
to = "mh"
app = "bulk"
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
"""

ZENG = """
duration = "20 s"
[[link]]
between = ["fh", "bs"]
rate = "1 Mbps"
delay = "5 ms"
queue = "49 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "250 kbps"
delay = {delay}
queue = "49 packets"
{loss}
[[flow]]
from = "fh"
to = "mh"
app = "bulk"
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
{keys}
"""

TRACE = """
duration = "2000 s"
[[link]]
between = ["fh", "bs"]
rate = "{wired_rate}"
delay = "{wired_delay}"
queue = "999 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "{hop_rate}"
delay = "{hop_delay}"
queue = "999 packets"
forward.loss = {{ model = "scripted", data = {data} }}
backward.loss = {{ model = "scripted", acks = {acks} }}
[[flow]]
from = "fh"
to = "mh"
app = {{ kind = "transfer", size = "{bytes} B" }}
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
initial_ssthresh = "{initial_ssthresh} segments"
min_rto = "{minrto_s} s"
clock_granularity = "{tick_s} s"
dupack_threshold = {dupthresh}
limited_transmit = {limited_transmit}
timestamps = {timestamps}
guard_after_rto = {bugfix}
delayed_ack = {delayed_ack}
"""


@dataclass
class Cell:
    """One row of a reference table beside ours. Goodput in bit/s, the other numbers per run."""

    name: str
    scheme: str
    runs: int
    theirs: float
    their_half: float
    ours: float
    our_se: float
    counts: dict[str, tuple[float, float]]

    @property
    def relative(self) -> float:
        return self.ours / self.theirs - 1

    @property
    def d(self) -> float | None:
        """Difference in units of its standard error; None where the reference is one deterministic run."""
        if self.runs == 1:
            return None
        se = math.hypot(self.their_half / t_quantile(self.runs), self.our_se)
        return (self.ours - self.theirs) / se if se > 0 else None

    @property
    def agrees(self) -> bool:
        return abs(self.relative) <= 0.02 if self.d is None else abs(self.d) <= 3.5


@dataclass
class Table:
    """A reference table and what became of it."""

    title: str
    about: str
    cells: list[Cell]
    notes: list[str] = field(default_factory=list)
    #: How far a deterministic cell may be off.
    limit: float = 0.02
    #: The same cells were run with more seeds; those count.
    superseded: bool = False

    def verdicts(self) -> list[tuple[str, bool]]:
        drawn = [c for c in self.cells if c.d is not None]
        fixed = [c for c in self.cells if c.d is None]
        lines = self.drawn_verdicts(drawn) if drawn else []
        if fixed:
            most = max(fixed, key=lambda c: abs(c.relative))
            text = f"{len(fixed)} deterministic cells, largest difference {most.relative:+.2%} ({most.name}), at most {self.limit:.0%}"
            lines.append((text, abs(most.relative) <= self.limit))
        return lines

    def drawn_verdicts(self, drawn: list[Cell]) -> list[tuple[str, bool]]:
        far = [c for c in drawn if abs(c.d or 0) > 2.5 and abs(c.relative) > 0.02]
        worst = max(drawn, key=lambda c: abs(c.d or 0))
        bias = sum(c.relative for c in drawn) / len(drawn)
        # The table's rows share their draws on each side, so luck of the reference's few seeds moves all rows together.
        noise = sum(abs(c.relative / c.d) for c in drawn if c.d) / len(drawn)
        lines = [
            (f"largest |d| {abs(worst.d or 0):.2f} ({worst.name}), at most 3.5", abs(worst.d or 0) <= 3.5),
            (f"{len(far)} of {len(drawn)} cells above 2.5 and 2 %, at most 5 %", len(far) <= 0.05 * len(drawn)),
            (
                f"signed relative differences average {bias:+.2%}, at most 1 % (one cell's standard error is {noise:.2%} on average)",
                abs(bias) <= 0.01,
            ),
        ]
        for what in ("retransmissions", "timeouts"):
            theirs, ours = (sum(c.counts[what][i] for c in drawn) for i in (0, 1))
            lines.append((f"{what} {ours / theirs - 1:+.1%} over the table, at most 10 %", abs(ours / theirs - 1) <= 0.10))
        return lines

    def markdown(self) -> Iterator[str]:
        yield f"## {self.title}\n"
        yield f"{self.about}\n"
        for text, good in self.verdicts():
            yield f"- {'holds' if good else '**differs**'}: {text}"
        for note in self.notes:
            yield f"- note: {note}"
        yield "\n| cell | ns-2 kbit/s | here kbit/s | difference | d | retransmissions | timeouts |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        for c in self.cells:
            pairs = [f"{a:.2f} / {b:.2f}" for a, b in (c.counts["retransmissions"], c.counts["timeouts"])]
            d = "–" if c.d is None else f"{c.d:+.2f}"
            yield f"| {c.name} | {c.theirs / 1e3:.1f} | {c.ours / 1e3:.1f} | {c.relative:+.2%} | {d} | {pairs[0]} | {pairs[1]} |"
        yield ""


def measure(text: str, seeds: int) -> tuple[float, float, dict[str, float]]:
    """Mean goodput of the first flow, its standard error, and mean counters."""
    scenario = _native.Scenario(text)
    with ThreadPoolExecutor(CORES) as pool:
        runs = [json.loads(r)["flows"][0] for r in pool.map(scenario.run, range(1, seeds + 1 if scenario.random else 2))]
    n = len(runs)
    mean = sum(r["goodput_bps"] for r in runs) / n
    spread = math.sqrt(sum((r["goodput_bps"] - mean) ** 2 for r in runs) / (n - 1)) if n > 1 else 0.0
    counters = {k: sum(r[k]["total"] for r in runs) / n for k in ("retransmissions", "timeouts")}
    return mean, spread / math.sqrt(n), counters


def cell(name: str, scheme: str, row: dict[str, str], column: str, text: str, seeds: int, half: float) -> Cell:
    ours, se, counters = measure(text, seeds)
    counts = {"retransmissions": (float(row["retrans" if "retrans" in row else "retrans_mean"]), counters["retransmissions"])}
    counts["timeouts"] = (float(row["timeouts" if "timeouts" in row else "timeouts_mean"]), counters["timeouts"])
    return Cell(name, scheme, int(row["runs"]), float(row[column]), half, ours, se, counts)


def rows(name: str) -> Iterator[dict[str, str]]:
    with open(REFERENCE / name, newline="") as f:
        yield from csv.DictReader(f)


def air_loss(loss: str, both: bool = True) -> str:
    if float(loss) == 0:
        return ""
    # ns-2 draws once per packet, so the ordinal of the frame addresses our draws here.
    value = f'{{ model = "uniform", rate = {loss}, index = "frame" }}'
    return f"loss = {value}" if both else f"forward.loss = {value}"


def with_more(name: str, make: Callable[[str], Table]) -> list[Table]:
    """The reference's table, and the same cells run in ns-2 with more seeds."""
    tables = [make(name)]
    more = name.replace(".csv", "_more.csv")
    if (REFERENCE / more).exists():
        tables[0].notes.append(f"the rows share the few seeds of the reference, so their luck is common to all of them: see `{more}`")
        tables.append(make(more))
        tables[0].superseded = True
    return tables


def bulk(name: str, about: str, window: int, queue: int, seeds: int) -> Table:
    cells = []
    for row in rows(name):
        scheme = row["variant"].lower()
        text = BULK.format(
            rate="2 Mbps", delay=row["wireless_delay"], queue=queue, window=window, scheme=scheme, loss=air_loss(row["loss"], row["dir"] == "both")
        )
        label = f"{scheme}, {row['wireless_delay']}, loss {float(row['loss']):.1%} {row['dir']}"
        cells.append(cell(label, scheme, row, "goodput_bps_mean", text, seeds, float(row["goodput_ci95_half"])))
    return Table(f"`{name}`", about, cells)


def variants(name: str, seeds: int) -> Table:
    cells = []
    for row in rows(name):
        scheme = row["variant"].lower()
        text = BULK.format(rate="2 Mbps", delay=row["wireless_delay"], queue=149, window=100, scheme=scheme, loss=air_loss(row["loss"], False))
        keys = f'min_rto = "{row["minrto_s"]} s"\nguard_after_rto = {row["bugFix"]}\nlimited_transmit = {"true" if row["limited_transmit"] == "1" else "false"}'
        label = f"{scheme}, {row['wireless_delay']}, loss {float(row['loss']):.0%}, bugFix {row['bugFix']}, limited transmit {row['limited_transmit']}, min RTO {row['minrto_s']} s"
        cells.append(cell(label, scheme, row, "goodput_bps_mean", text + keys, seeds, float(row["ci95_half"])))
    return Table(
        f"`{name}`", "The same path with one switch of the profile changed at a time: `guard_after_rto`, `limited_transmit`, `min_rto`.", cells
    )


def zeng_text(config: str) -> tuple[str, str] | None:
    """The scenario of a row of zeng.csv and its scheme; None for what is not there yet."""
    if "Sack" in config or "sack" in config or "every_0.5ms" in config:
        return None
    keys, window = [], "20"
    delay = '{ base = "170 ms", table = "zeng2006", from = "0.5 s", index = "frame" }'
    if config.startswith("0_"):
        delay = '"170 ms"'
    if config.startswith("III"):
        spans = (
            'added = [{ from = "5 s", length = "6 s", extra = "6 s" }]'
            if "plus6s" in config
            else 'stalls = [{ from = "5 s", length = "6 s" }], in_order = true'
        )
        delay = f'{{ base = "170 ms", {spans} }}'
    if "inorder" in config:
        delay = delay.replace(" }", ", in_order = true }")
    if "minrto1" in config:
        keys.append('min_rto = "1 s"')
    if "window64" in config:
        window = "64"
    if "nolimtx" in config:
        keys.append("limited_transmit = false")
    if "numdupacks" in config:
        keys.append(f"dupack_threshold = {config.split('numdupacks')[1].split('_')[0]}")
    sender = next((v for v in ("newreno", "tahoe") if v in config.lower()), "reno")
    scheme = sender
    if "ackfilter" in config:
        threshold = config.split("ackfilter")[1].split("_")[0]
        # The reference lets every second identical retransmission through instead of answering it.
        data = "forward_even=true" if "datafilter" in config else "data_filter=false"
        scheme = f"packet-control:dupack_threshold={threshold}:{data}:sender={sender}"
    loss = air_loss("0.01") if config.startswith("II_") else ""
    return ZENG.format(delay=delay, loss=loss, scheme=scheme, window=window, keys="\n".join(keys)), scheme.split(":")[0]


def zeng(seeds: int) -> list[Table]:
    drawn, fixed = [], []
    more = {row["config"]: row for row in rows("zeng_more.csv")} if (REFERENCE / "zeng_more.csv").exists() else {}
    for row in rows("zeng.csv"):
        made = zeng_text(row["config"])
        if made is None:
            continue
        text, scheme = made
        best = more.get(row["config"], row)
        name = row["config"] + (f" ({best['runs']} runs)" if best is not row else "")
        half = float(best["ci95_half"]) * 8000 / 20
        (fixed if row["config"].startswith("III") else drawn).append(cell(name, scheme, best, "goodput_bps", text, seeds, half))
    about = "Path and delays of zeng2006: scenario I (delay variation), II (1 % loss in addition), with the ACK filter written in Tcl for ns-2, and the sender's own threshold in its place."
    notes = (
        [
            "the reference's rows share 50 seeds, so their luck is common to all of them; rows marked with a number of runs were made anew with the same script and more seeds"
        ]
        if more
        else []
    )
    third = Table("`zeng.csv`, scenario III", "One deterministic run each: a stall of six seconds; within 3 %.", fixed, limit=0.03)
    return [Table("`zeng.csv`, scenarios I and II", about, drawn, notes), third]


def exact() -> tuple[dict[str, list[int]], list[str]]:
    """Per scheme [agreeing, all] traces, and the differences."""
    score: dict[str, list[int]] = {}
    differences = []
    for path in sorted(FIXTURES.glob("*.txt")):
        if path.stem in NOT_EXACT:
            continue
        settings: dict[str, str] = {}
        sequences: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for line in path.read_text().splitlines():
            head, _, rest = line.partition("=")
            if " " not in head.split("(")[0]:
                settings[head.split("(")[0]] = rest
                continue
            variant, event, *items = line.split(" ")
            t, out = 0, []
            for item in items:
                number, step = item.split("@")
                t += int(step)
                out.append((int(number), t))
            sequences[variant, event] = out
        for variant in ("Tahoe", "Reno", "Newreno"):
            good = _same(settings, variant, sequences)
            tally = score.setdefault(variant.lower(), [0, 0])
            tally[0] += good
            tally[1] += 1
            if not good:
                differences.append(f"{path.stem} {variant}")
    return score, differences


def _same(settings: dict[str, str], variant: str, sequences: dict[tuple[str, str], list[tuple[int, int]]]) -> bool:
    s = {k: v.replace("Mb", " Mbps") if k.endswith("rate") else v for k, v in settings.items()}
    s |= {"limited_transmit": "true" if s["limited_transmit"] == "1" else "false", "delayed_ack": '"100 ms"' if s["delack"] == "1" else "false"}
    data, acks = json.dumps(s["data_drops"].split()), json.dumps([int(a) for a in s["ack_drops"].split()])
    text = TRACE.format(**s, data=data, acks=acks, bytes=1000 * int(s["segments"]), scheme=variant.lower())
    _, columns = _native.Scenario(text).run_series(1, ["data_sent", "ack_received"])
    sent, acked = [], []
    for t, code, seq, length, ack in zip(*(columns[k].tolist() for k in ("t_ns", "event", "seq", "len", "ack")), strict=True):
        if code == 0:
            sent.append((seq // 1000 + 1 if length else 0, t))
        else:
            acked.append((ack // 1000, t))
    theirs_acked = sequences[variant, "ack"]
    theirs_sent = sequences[variant, "snd"]
    acked = acked[: len(theirs_acked)]
    sent = [x for x in sent if x[1] <= theirs_acked[-1][1] * 1000 + 1000]
    return all(
        len(a) == len(b) and all(x[0] == y[0] and abs(x[1] - 1000 * y[1]) <= 1000 for x, y in zip(a, b, strict=True))
        for a, b in ((sent, theirs_sent), (acked, theirs_acked))
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="seeds per cell (default 200; zeng2006, whose runs are short, five times as many)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where something does not agree, and write nothing")
    options = parser.parse_args()
    score, differences = exact()
    tables = [
        *with_more(
            "bulk_w100.csv",
            lambda n: bulk(n, "One endless flow for 200 s; window 100, queue 150, so that only random loss matters.", 100, 149, options.seeds),
        ),
        *with_more(
            "bulk_w10000_q50.csv", lambda n: bulk(n, "The same with window 10000 and a queue of 50: both kinds of loss.", 10_000, 49, options.seeds)
        ),
        *with_more("bulk_reno_variants.csv", lambda n: variants(n, options.seeds)),
        *zeng(5 * options.seeds),
    ]
    counted = [t for t in tables if not t.superseded]
    evidence: dict[str, list[dict[str, object]]] = {}
    for scheme, (agree, cases) in score.items():
        evidence.setdefault(scheme, []).append({"kind": "ns-2 exact", "cases": cases, "agree": agree})
    for scheme in sorted({c.scheme for t in tables for c in t.cells}):
        cells = [c for t in counted for c in t.cells if c.scheme == scheme]
        evidence.setdefault(scheme, []).append({"kind": "ns-2 statistics", "cases": len(cells), "agree": sum(c.agrees for c in cells)})
    failures = differences + [f"{t.title}: {text}" for t in counted for text, good in t.verdicts() if not good]
    if options.check:
        print("\n".join(failures) or "everything agrees")
        return 1 if failures else 0
    head = (
        f"# How lasthop compares with ns-2.35\n\nMade by `tools/fidelity.py --seeds {options.seeds}` with lasthop {__version__}; do not edit. "
        "The rule of agreement is in `docs/numbers.md`.\n\n## Recovery traces, exact\n\n"
        "Every segment that the sender hands to its link and every ACK that reaches it: number equal, time within a microsecond. "
        "`rtotick` is left out: it depends on the random phase of ns-2's clock.\n\n| scheme | traces | equal |\n| --- | ---: | ---: |\n"
    )
    body = "".join(f"| {s} | {n} | {a} |\n" for s, (a, n) in score.items())
    text = head + body + "\n" + "\n".join(line for t in tables for line in t.markdown())
    (ROOT / "docs/fidelity.md").write_text(text)
    (ROOT / "python/lasthop/data/evidence.json").write_text(json.dumps(evidence, indent=1) + "\n")
    print("\n".join(failures) or "everything agrees")
    return 0


if __name__ == "__main__":
    sys.exit(main())
