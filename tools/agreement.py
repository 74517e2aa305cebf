"""The rule of agreement with a reference (docs/numbers.md): cells, tables, and what becomes of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lasthop import _native
from lasthop.statistics import t_quantile

ROOT = Path(__file__).resolve().parent.parent
CORES = 2


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
    #: Both sides met the same losses, run by run; `their_half` is that of the mean difference.
    paired: bool = False

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

    def agrees(self, small: float) -> bool:
        """Where luck plays no part, a difference as small as this agrees."""
        if self.d is None or (self.paired and abs(self.relative) <= small):
            return abs(self.relative) <= small
        return abs(self.d) <= (2.5 if self.paired else 3.5)


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
    #: Whose numbers these are, as a heading and as a kind of evidence.
    reference: str = "ns-2"
    kind: str = "ns-2 statistics"
    #: A difference below this is never held against a cell.
    small: float = 0.02
    #: What the counts are per.
    per: tuple[str, str] = ("run", "run")
    #: Why it need not agree; then it is shown and not judged.
    known: str = ""
    #: The reference counts retransmissions and timeouts.
    counted: bool = True

    def verdicts(self) -> list[tuple[str, bool]]:
        if self.cells and all(c.paired for c in self.cells):
            return self.paired_verdicts()
        drawn = [c for c in self.cells if c.d is not None]
        fixed = [c for c in self.cells if c.d is None]
        lines = self.drawn_verdicts(drawn) if drawn else []
        if fixed:
            most = max(fixed, key=lambda c: abs(c.relative))
            text = f"{len(fixed)} deterministic cells, largest difference {most.relative:+.2%} ({most.name}), at most {self.limit:.0%}"
            lines.append((text, abs(most.relative) <= self.limit))
        return lines

    def paired_verdicts(self) -> list[tuple[str, bool]]:
        far = [c for c in self.cells if not c.agrees(self.small)]
        most = max(self.cells, key=lambda c: abs(c.relative))
        bias = sum(c.relative for c in self.cells) / len(self.cells)
        return [
            (
                f"{len(far)} of {len(self.cells)} cells above {self.small:.0%} and 2.5 standard errors; largest difference {most.relative:+.2%} ({most.name})",
                not far,
            ),
            (f"signed relative differences average {bias:+.3%}, at most 1 %", abs(bias) <= 0.01),
            *self.count_verdicts(self.cells),
        ]

    def count_verdicts(self, cells: list[Cell]) -> Iterator[tuple[str, bool]]:
        for what in ("retransmissions", "timeouts") if self.counted else ():
            theirs, ours = (sum(c.counts[what][i] for c in cells) for i in (0, 1))
            yield f"{what} {ours / theirs - 1:+.1%} over the table, at most 10 %", abs(ours / theirs - 1) <= 0.10

    def drawn_verdicts(self, drawn: list[Cell]) -> list[tuple[str, bool]]:
        far = [c for c in drawn if abs(c.d or 0) > 2.5 and abs(c.relative) > self.small]
        worst = max(drawn, key=lambda c: abs(c.d or 0))
        bias = sum(c.relative for c in drawn) / len(drawn)
        # The table's rows share their draws on each side, so luck of the reference's few seeds moves all rows together.
        noise = sum(abs(c.relative / c.d) for c in drawn if c.d) / len(drawn)
        return [
            (f"largest |d| {abs(worst.d or 0):.2f} ({worst.name}), at most 3.5", abs(worst.d or 0) <= 3.5),
            (f"{len(far)} of {len(drawn)} cells above 2.5 and {self.small:.0%}, at most 5 %", len(far) <= 0.05 * len(drawn)),
            (
                f"signed relative differences average {bias:+.2%}, at most 1 % (one cell's standard error is {noise:.2%} on average)",
                abs(bias) <= 0.01,
            ),
            *self.count_verdicts(drawn),
        ]

    def markdown(self) -> Iterator[str]:
        yield f"## {self.title}\n"
        yield f"{self.about}\n"
        for text, good in self.verdicts():
            yield f"- {'holds' if good else 'differs' if self.known else '**differs**'}: {text}"
        if self.known:
            yield f"- not judged: {self.known}"
        for note in self.notes:
            yield f"- note: {note}"
        yield f"\n| cell | {self.reference} kbit/s | here kbit/s | difference | d | retransmissions per {self.per[0]} | timeouts per {self.per[1]} |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        for c in self.cells:
            pairs = [f"{a:.2f} / {b:.2f}" for a, b in (c.counts["retransmissions"], c.counts["timeouts"])]
            d = "–" if c.d is None else f"{c.d:+.2f}"
            yield f"| {c.name} | {c.theirs / 1e3:.1f} | {c.ours / 1e3:.1f} | {c.relative:+.2%} | {d} | {pairs[0]} | {pairs[1]} |"
        yield ""


@cache
def measure(text: str, seeds: int) -> tuple[float, float, dict[str, float]]:
    """Mean goodput of the first flow, its standard error, and mean counters."""
    scenario = _native.Scenario(text)
    with ThreadPoolExecutor(CORES) as pool:
        runs = [json.loads(r)["flows"][0] for r in pool.map(scenario.run, range(1, seeds + 1 if scenario.random else 2))]
    n = len(runs)
    mean = sum(r["goodput_bps"] for r in runs) / n
    spread = math.sqrt(sum((r["goodput_bps"] - mean) ** 2 for r in runs) / (n - 1)) if n > 1 else 0.0
    counters = {k: sum(r[k]["total"] for r in runs) / n for k in ("retransmissions", "timeouts")}
    counters["sent"] = sum(r["sent_segments"] for r in runs) / n
    return mean, spread / math.sqrt(n), counters


def cell(name: str, scheme: str, row: dict[str, str], column: str, text: str, seeds: int, half: float) -> Cell:
    ours, se, counters = measure(text, seeds)
    counts = {"retransmissions": (float(row["retrans" if "retrans" in row else "retrans_mean"]), counters["retransmissions"])}
    counts["timeouts"] = (float(row["timeouts" if "timeouts" in row else "timeouts_mean"]), counters["timeouts"])
    return Cell(name, scheme, int(row["runs"]), float(row[column]), half, ours, se, counts)


def known_scheme(name: str) -> bool:
    """The catalogue has it."""
    return any(entry["name"] == name for entry in json.loads(_native.schemes()))
