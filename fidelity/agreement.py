"""The rule of agreement with a reference (docs/numbers.md): cells, tables and verdicts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

from fidelity.measuring import Measured
from lasthop.analysis.statistics import t_quantile

#: No cell may differ by more than WORST standard errors, and at most SHARE of the cells by more
#: than FAR.
WORST, FAR, SHARE = 3.5, 2.5, 0.05
#: Bound of the mean signed relative difference of a table.
BIAS = 0.01
#: Bound of the difference of retransmissions and timeouts over a table.
COUNTS = 0.10


@dataclass
class Cell:
    """A row of a reference table and the result of lasthop. Goodput in bit/s, counts per run."""

    name: str
    scheme: str
    #: Of the reference.
    runs: int
    theirs: float
    #: Half-width of the 95 % CI of the reference.
    their_half: float
    ours: float
    our_se: float
    #: Retransmissions and timeouts, theirs and ours.
    counts: dict[str, tuple[float, float]]
    #: Where `ours` comes from, if from one scenario.
    source: Measured | None = None

    @property
    def relative(self) -> float:
        """Difference over the value of the reference."""
        return self.ours / self.theirs - 1

    @property
    def se(self) -> float:
        """Standard error of the difference."""
        theirs = self.their_half / t_quantile(self.runs) if self.runs > 1 else 0.0
        return math.hypot(theirs, self.our_se)

    @property
    def d(self) -> float | None:
        """Difference in units of its standard error; None if the reference is one deterministic
        run.
        """
        if self.runs == 1 or self.se == 0:
            return None
        return (self.ours - self.theirs) / self.se

    def agrees(self, limit: float) -> bool:
        """True if the cell agrees; `limit` applies to deterministic cells."""
        return abs(self.relative) <= limit if self.d is None else abs(self.d) <= WORST


@dataclass
class Table:
    """A reference table with the results of lasthop."""

    title: str
    about: str
    cells: list[Cell]
    notes: list[str] = field(default_factory=list)
    #: Bound of the relative difference of a deterministic cell.
    limit: float = 0.02
    #: The reference as a heading, and the kind of evidence.
    reference: str = "ns-2"
    kind: str = "ns-2 statistics"
    #: A cell with a smaller relative difference never counts as FAR.
    small: float = 0.02
    #: Units of retransmissions and timeouts: per run, per 1000 segments, …
    per: tuple[str, str] = ("run", "run")
    #: Known cause of a difference; the table is then shown but not judged.
    known: str = ""
    #: True if the reference has retransmissions and timeouts.
    counted: bool = True
    #: Additional columns: heading -> texts in the order of the cells.
    more: dict[str, list[str]] = field(default_factory=dict)

    @property
    def bias(self) -> float:
        """Mean of the signed relative differences of the random cells."""
        drawn = [c.relative for c in self.cells if c.d is not None]
        return statistics.fmean(drawn) if drawn else 0.0

    def verdicts(self) -> list[tuple[str, bool]]:
        """Each part of the rule in words, and whether it holds."""
        drawn = [c for c in self.cells if c.d is not None]
        fixed = [c for c in self.cells if c.d is None]
        lines = self.drawn_verdicts(drawn) if drawn else []
        if fixed:
            most = max(fixed, key=lambda c: abs(c.relative))
            text = (
                f"{len(fixed)} deterministic cells, largest difference {most.relative:+.2%}"
                f" ({most.name}), at most {self.limit:.0%}"
            )
            lines.append((text, abs(most.relative) <= self.limit))
        return lines

    def count_verdicts(self, cells: list[Cell]) -> Iterator[tuple[str, bool]]:
        """The rule for retransmissions and timeouts."""
        for what in ("retransmissions", "timeouts") if self.counted else ():
            theirs, ours = (sum(c.counts[what][i] for c in cells) for i in (0, 1))
            yield (
                f"{what} {ours / theirs - 1:+.1%} over the table, at most {COUNTS:.0%}",
                abs(ours / theirs - 1) <= COUNTS,
            )

    def drawn_verdicts(self, drawn: list[Cell]) -> list[tuple[str, bool]]:
        """The rule for random cells."""
        far = [c for c in drawn if abs(c.d or 0) > FAR and abs(c.relative) > self.small]
        worst = max(drawn, key=lambda c: abs(c.d or 0))
        noise = math.hypot(*(c.se / c.theirs for c in drawn)) / len(drawn)
        return [
            (
                f"largest |d| {abs(worst.d or 0):.2f} ({worst.name}), at most {WORST}",
                abs(worst.d or 0) <= WORST,
            ),
            (
                (
                    f"{len(far)} of {len(drawn)} cells above {FAR} and {self.small:.0%}, at most"
                    f" {SHARE:.0%}"
                ),
                len(far) <= SHARE * len(drawn),
            ),
            (
                (
                    f"signed relative differences average {self.bias:+.2%}, at most {BIAS:.0%}"
                    f" (standard error of the average: {noise:.2%})"
                ),
                abs(self.bias) <= BIAS,
            ),
            *self.count_verdicts(drawn),
        ]

    def markdown(self) -> Iterator[str]:
        """The section of the page, line by line."""
        yield f"## {self.title}\n"
        yield f"{self.about}\n"
        for text, good in self.verdicts():
            yield f"- {'holds' if good else 'differs' if self.known else '**differs**'}: {text}"
        if self.known:
            yield f"- not judged: {self.known}"
        for note in self.notes:
            yield f"- note: {note}"
        yield from self.cells_markdown()

    def cells_markdown(self) -> Iterator[str]:
        """The cells as a table in Markdown."""
        columns = self.columns()
        yield f"\n| cell | {self.reference} kbit/s | here kbit/s | difference | d |" + "".join(
            f" {head} |" for head in columns
        )
        yield "| --- |" + " ---: |" * (4 + len(columns))
        for i, c in enumerate(self.cells):
            d = "–" if c.d is None else f"{c.d:+.2f}"
            more = "".join(f" {column[i]} |" for column in columns.values())
            yield (
                f"| {c.name} | {c.theirs / 1e3:.1f} | {c.ours / 1e3:.1f} | {c.relative:+.2%} | {d}"
                f" |{more}"
            )
        yield ""

    def columns(self) -> dict[str, list[str]]:
        """The columns after the difference, by heading."""
        counts = {}
        if all(c.counts for c in self.cells):
            for what, per in zip(("retransmissions", "timeouts"), self.per, strict=True):
                counts[f"{what} per {per}"] = [
                    "{:.2f} / {:.2f}".format(*c.counts[what]) for c in self.cells
                ]
        return counts | self.more
