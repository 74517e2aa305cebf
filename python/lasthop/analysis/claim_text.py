"""Numbers of claims as text, with unit and number of runs; changes have a sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lasthop.analysis import metrics
from lasthop.quantities import format_number
from lasthop.scenarios.experiment import Claim

Interval = tuple[float, float]

#: Units of measures whose name does not end in their unit.
_UNITS = {
    "timeouts_within": "timeouts",
    "fast_retransmits_within": "fast retransmits",
    "duplicate_acks": "duplicate ACKs",
    "queue_mean": "frames",
    "queue_least": "frames",
    "queue_most": "frames",
    "queue_sd": "frames",
    "segments_again": "segments",
}
_SHARES = {"delay_share": "% of the packets", "agreement": "% of the answers"}


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a claim are formatted."""

    #: Name of the quantity, if the unit does not show it: "ratio".
    what: str
    unit: str
    #: From the unit of the metric to `unit`.
    factor: float
    signed: bool = False

    @classmethod
    def of(cls, claim: Claim, plural: bool = False) -> NumberFormat:
        """The format for the metric and relation of the claim; `plural` for several numbers."""
        if claim.kind in ("order", "shape") or claim.relation == "difference":
            _, unit, factor = _of_metric(claim.metric)
            unit = "percentage points" if unit.startswith("%") else unit
            return cls("differences" if plural else "difference", unit, factor, signed=True)
        if claim.relation == "gain":
            return cls("", "%", 100.0, signed=True)
        return (
            cls("ratio", "", 1.0) if claim.relation == "ratio" else cls(*_of_metric(claim.metric))
        )

    def number(self, x: float | None) -> str:
        """The number without its unit."""
        if x is None:
            return "–"
        text = format_number(x * self.factor, 3 if self.unit == "%" else 4)
        return f"+{text}" if self.signed and x > 0 else text

    def text(self, x: float | None) -> str:
        """The number with its unit."""
        number = self.number(x)
        one = number.lstrip("+-") == "1" and self.unit.endswith("s") and self.unit != "s"
        unit = self.unit[:-1] if one and not self.unit.endswith("ms") else self.unit
        return f"{number} {unit}".rstrip()

    def span(self, ci95: Interval) -> str:
        """A confidence interval with its unit."""
        if ci95[0] == ci95[1]:
            return self.text(ci95[0])
        return f"[{self.number(ci95[0])}, {self.number(ci95[1])}] {self.unit}".rstrip()


def _of_metric(metric: str) -> tuple[str, str, float]:
    """Name (if the unit does not show it), unit and factor of a metric or measure."""
    if metrics.RATIO in metric:
        return "ratio", "", 1.0
    if metric == "jain":
        return metrics.label(metric), "", 1.0
    key = metric.rsplit(".", 1)[-1]
    if key in metrics.SHARES or metric in _SHARES:
        return "", _SHARES.get(metric, "%"), 100.0
    if key in metrics.METRICS:
        name, _, unit = metrics.METRICS[key][0].partition(" (")
        return "", unit.removesuffix(")") or name, metrics.METRICS[key][1]
    if key.endswith("_bps"):
        return "", "kbit/s", 1e-3
    unit = next(
        (
            unit
            for end, unit in (("_s", "s"), ("_bytes", "bytes"), ("_frames", "frames"))
            if key.endswith(end)
        ),
        "",
    )
    return "", unit or _UNITS.get(metric, key.replace("_", " ")), 1.0


def measured(
    claim: Claim, values: float | Sequence[float | None] | None, ci95: Interval | None, runs: int
) -> str:
    """The measured value: "+43.7 % [41.2, 46.1], n = 200"."""
    plural = isinstance(values, Sequence)
    fmt = NumberFormat.of(claim, plural)
    numbers = values if isinstance(values, Sequence) else [values]
    if all(x is None for x in numbers):
        return "–"
    found = ", ".join([*map(fmt.number, numbers[:-1]), fmt.text(numbers[-1])])
    low, high = (fmt.number(x) for x in ci95) if ci95 is not None else ("", "")
    interval = f" [{low}, {high}]" if low != high else ""
    return f"{fmt.what} {found}{interval}, n = {runs}".strip()


def paper(claim: Claim) -> str:
    """The number in the paper with its unit, or its words; empty if the claim has neither."""
    if claim.paper is None or isinstance(claim.paper, str):
        return claim.paper or ""
    return NumberFormat.of(claim).text(claim.paper)


__all__ = ["NumberFormat", "measured", "paper"]
