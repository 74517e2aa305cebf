"""The base of the comparisons: how rows of a reference become a table, and tables a page.

A `Comparison` says how a row of a reference is named and simulated and where it has its results;
its cells make a `Table`, which the rule of agreement judges. A `Suite` is the tables of a page. A
module per suite has only what is particular to it: scenarios, names of cells, prose and notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fidelity.agreement import Cell, Table
from fidelity.measuring import FIRST_FLOW, Measured, Quantity, measure
from fidelity.references import Row
from lasthop import CongestionControl, _native

#: Minimum number of seeds of a cell; a reference with more runs sets a larger number.
SEEDS = 40


@dataclass(frozen=True)
class Reference:
    """What a reference has in a row."""

    runs: int
    #: Bit/s, and the half-width of its 95 % confidence interval; 0 for one deterministic run.
    goodput: float
    half: float
    #: Retransmissions and timeouts in the units of the table; None if it has none.
    counts: tuple[float, float] | None = None


@dataclass(frozen=True)
class Columns:
    """The columns with the results of a row."""

    goodput: str = "goodput_bps_mean"
    half: str = "ci95_half"
    runs: str = "runs"
    #: None if the reference has no counters, or if they are not compared.
    counts: tuple[str, str] | None = ("retrans", "timeouts")
    #: Bit/s in a unit of the goodput.
    unit: float = 1.0

    def __call__(self, row: Row) -> Reference:
        """The results of a row."""
        goodput, half = (self.unit * float(row[key]) for key in (self.goodput, self.half))
        counts = None
        if self.counts:
            retransmissions, timeouts = self.counts
            counts = (float(row[retransmissions]), float(row[timeouts]))
        return Reference(int(row[self.runs]), goodput, half, counts)


def per_run(_: Row, ours: Measured) -> tuple[float, float]:
    """Retransmissions and timeouts per run."""
    return ours.retransmissions, ours.timeouts


@dataclass(frozen=True)
class Comparison:
    """How a row of a reference becomes a cell."""

    name: Callable[[Row], str]
    #: The scheme whose evidence the cell is; "" if it is nobody's.
    scheme: Callable[[Row], str]
    #: The scenario file.
    scenario: Callable[[Row], str]
    reference: Callable[[Row], Reference] = Columns()
    #: Key of `measuring.QUANTITIES`, and the factor that makes it the reference's quantity.
    quantity: str = FIRST_FLOW
    scale: float = 1.0
    #: The counters of lasthop in the units of the reference.
    counts: Callable[[Row, Measured], tuple[float, float]] = per_run
    #: A window rule in Python in the place of the scenario's scheme.
    rule: type[CongestionControl] | None = None
    #: Further quantities to measure.
    also: tuple[Quantity, ...] = ()
    #: True if there are at least as many seeds as runs of the reference.
    as_many_runs: bool = True
    #: True if the quick form may repeat the cells.
    repeatable: bool = True

    def measure(self, row: Row, seeds: int, scenario: str | None = None) -> Measured:
        """Simulate a row, or another scenario in its place."""
        least = self.reference(row).runs if self.as_many_runs else 1
        text = self.scenario(row) if scenario is None else scenario
        return measure(
            text,
            max(seeds, least),
            self.quantity,
            self.scale,
            self.rule,  # type: ignore[arg-type]  # mypy: a class is not Hashable
            self.also,
        )

    def cell_with(self, row: Row, ours: Measured) -> Cell:
        """The cell of a row and a result."""
        theirs = self.reference(row)
        counts = {}
        if theirs.counts is not None:
            both = zip(theirs.counts, self.counts(row, ours), strict=True)
            counts = dict(zip(("retransmissions", "timeouts"), both, strict=True))
        # The scenario alone does not give a result of a rule in Python.
        source = ours if self.repeatable and self.rule is None else None
        return Cell(
            self.name(row),
            self.scheme(row),
            theirs.runs,
            theirs.goodput,
            theirs.half,
            ours.mean,
            ours.se,
            counts,
            source,
        )

    def cell(self, row: Row, seeds: int) -> Cell:
        """Simulate a row."""
        return self.cell_with(row, self.measure(row, seeds))

    def cells(self, rows: Iterable[Row], seeds: int) -> list[Cell]:
        """Simulate rows."""
        return [self.cell(row, seeds) for row in rows]


@dataclass(frozen=True)
class Suite:
    """A page of docs/fidelity*.md."""

    page: str
    title: str
    #: The tables with a minimum number of seeds per cell.
    tables: Callable[[int], list[Table]]
    #: Variants of ns-2 whose recovery traces are compared exactly.
    exact: tuple[str, ...] = ()
    #: A section before the tables.
    more: Callable[[], str] = str


def known_scheme(name: str) -> bool:
    """True if the catalogue has the scheme."""
    return any(entry["name"] == name for entry in _native.schemes())
