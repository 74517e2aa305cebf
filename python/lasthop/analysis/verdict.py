"""The verdict about a claim: plain data, as `lasthop reproduce --json` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lasthop.analysis import claim_text
from lasthop.analysis.claim_text import NumberFormat
from lasthop.analysis.statistics import Interval
from lasthop.scenarios.experiment import Claim

Outcome = Literal["holds", "differs", "undecided"]
Measured = float | list[float | None] | None


@dataclass(frozen=True)
class Verdict:
    """The verdict about a claim."""

    claim: Claim
    measured: Measured
    ci95: Interval | list[Interval | None] | None
    verdict: Outcome
    why: str
    #: Number of runs, or of pairs of runs.
    runs: int = 0

    @property
    def display(self) -> str:
        """The measured value with unit, confidence interval and number of runs."""
        ci95 = None if isinstance(self.ci95, list) else self.ci95
        return claim_text.measured(self.claim, self.measured, ci95, self.runs)

    def to_dict(self) -> dict[str, Any]:
        """As `lasthop reproduce --json` prints it."""
        c = self.claim
        return {
            "id": c.id,
            "kind": c.kind,
            "text": c.text,
            "paper": c.paper,
            "measured": self.measured,
            "ci95": self.ci95,
            "verdict": self.verdict,
            "why": self.why,
            "unit": NumberFormat.of(c).unit,
            "n": self.runs,
            "display": self.display,
        }


__all__ = ["Measured", "Outcome", "Verdict"]
