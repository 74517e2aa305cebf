"""The card of a scheme: its cells, numbers and verdicts as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lasthop.evaluation.judge import OUTCOMES, Verdict
from lasthop.evaluation.suite import CellFile, Group, Number, Suite

#: Version of the form of card.json.
SCHEMA_VERSION: Final = 1
#: Significant digits of numbers in card.json: more would be noise in a difference of two cards.
DIGITS: Final = 6


@dataclass(frozen=True)
class CellResult:
    """A cell: a scenario of the suite, at a point of its varied keys."""

    group: str
    file: CellFile
    point: int
    #: The varied values; empty if nothing is varied.
    name: str
    set: Mapping[str, str]
    #: The scenario with all defaults filled in, for the candidate.
    scenario: str = field(repr=False)

    @property
    def id(self) -> str:
        """File and number of the point: "alone/grid-3"; without points the file alone."""
        return f"{self.file.id}-{self.point + 1}" if self.set else self.file.id

    @property
    def title(self) -> str:
        """The title with the varied values."""
        return f"{self.file.title}: {self.name}" if self.name else self.file.title


@dataclass(frozen=True)
class Entry:
    """A number of a cell with its verdict."""

    cell: CellResult
    number: Number
    #: Mean of each scheme; `None` if unknown.
    means: Mapping[str, float | None]
    verdict: Verdict


@dataclass(frozen=True)
class Card:
    """All entries of a candidate."""

    suite: Suite
    scheme: str
    entries: Sequence[Entry]
    quick: bool
    seeds: Sequence[int]
    #: Cell and point -> why a run of the candidate failed.
    failed: Mapping[str, str]
    #: Cell and point, or number -> why it has no entry.
    left_out: Mapping[str, str] = field(default_factory=dict)
    #: True if a program does the runs, which `lasthop inspect` cannot repeat.
    is_program: bool = False

    @property
    def groups(self) -> list[tuple[Group, list[Entry]]]:
        """The groups that have entries, in the order of the suite."""
        found = [(g, [e for e in self.entries if e.cell.group == g.id]) for g in self.suite.groups]
        return [(group, entries) for group, entries in found if entries]

    def tally(self, group: str | None = None) -> dict[str, int]:
        """Number of entries with each outcome, of a group or of the card."""
        counts = Counter(e.verdict.outcome for e in self.entries if group in (None, e.cell.group))
        return {word: counts[word] for word in OUTCOMES}

    def failing(self, groups: Sequence[str]) -> list[Entry]:
        """Entries of these groups that are worse."""
        return [e for e in self.entries if e.cell.group in groups and e.verdict.outcome == "worse"]

    @property
    def badge(self) -> str:
        """The card in one line."""
        tally = ", ".join(f"{n} {word}" for word, n in self.tally().items())
        quick = " quick" if self.quick else ""
        return f"{self.scheme}: {tally} (lasthop evaluate {self.suite.version}{quick})"

    def to_dict(self) -> dict[str, Any]:
        """The document of card.json."""
        return {
            "schema_version": SCHEMA_VERSION,
            "suite": self.suite.version,
            "suite_sha256": self.suite.sha256,
            "scheme": self.scheme,
            "baseline": self.suite.baseline,
            "quick": self.quick,
            "seeds": list(self.seeds),
            "tally": self.tally(),
            "groups": [
                {
                    "id": group.id,
                    "letter": group.letter,
                    "title": group.title,
                    "tally": self.tally(group.id),
                    "numbers": [_entry(e) for e in entries],
                }
                for group, entries in self.groups
            ],
            "failed": dict(self.failed),
            "left_out": dict(self.left_out),
        }


def _entry(entry: Entry) -> dict[str, Any]:
    n, m = entry.number, entry.verdict.measured
    ci95 = None if m.ci95 is None else [_round(x) for x in m.ci95]
    return {
        "cell": entry.cell.id,
        "title": entry.cell.title,
        "set": dict(entry.cell.set),
        "rfc9743": list(entry.cell.file.rfc9743),
        "bbr": list(entry.cell.file.bbr),
        "number": n.name,
        "metric": n.metric,
        "better": n.better,
        "margin": _round(m.margin) if n.limit is None else None,
        "limit": n.limit,
        "n": m.runs,
        "means": {label: _round(value) for label, value in entry.means.items()},
        "difference": _round(m.difference),
        "ci95": ci95,
        "p_holm": _round(entry.verdict.p_holm),
        "verdict": entry.verdict.outcome,
    }


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


__all__ = ["SCHEMA_VERSION", "Card", "CellResult", "Entry"]
