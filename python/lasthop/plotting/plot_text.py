"""Text in figures: names of keys and values, titles and captions, wrapped to the page."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.experiments.plan import JOINT_SEPARATOR

if TYPE_CHECKING:
    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.plan import Plan

#: Keys of an inline table that are not printed, because their value is a name.
_NAMING_KEYS = ("kind", "discipline", "model", "name")
#: Units of scenario files -> units in figures.
UNITS = {"bps": "bit/s", "kbps": "kbit/s", "Mbps": "Mbit/s", "Gbps": "Gbit/s", "B": "bytes"}
MIN_RUNS_FOR_INTERVAL = 10  # fewer runs are drawn one by one instead of as an interval
#: Parts of keys that are abbreviations.
ABBREVIATIONS = {x.lower(): x for x in ("ACK", "ARQ", "ECN", "MSS", "RTO", "RTT", "SACK", "TCP")}


def key_name(key: str, labels: Mapping[str, str]) -> str:
    """A short name of a varied key: from `labels`, or the end of its path."""
    if key in labels:
        return labels[key]
    parts = [p for p in key.split(JOINT_SEPARATOR)[0].split(".") if not p.isdigit()]
    words = " ".join(parts[1:][-2:] or parts[-1:]).replace("_", " ").split()
    return " ".join(ABBREVIATIONS.get(w, w) for w in words)


def value_name(value: str, labels: Mapping[str, str]) -> str:
    """A value as text: from `labels`, or without the syntax of scenario files."""
    if value in labels:
        return labels[value]
    return ", ".join(labels.get(v) or _plain(v) for v in value.split(JOINT_SEPARATOR))


def _plain(value: str) -> str:
    """Format a quantity or an inline table.

    "1Mbps" is "1 Mbit/s", and `{ discipline = "codel", packets = 20 }` is "codel, packets 20".
    """
    if value[:1] not in "{[\"'":
        found = quantities.quantity(value)
        if found is None or not found.unit:
            return value
        # A line is not broken between number and unit.
        return f"{found.number:g}\N{NO-BREAK SPACE}{UNITS.get(found.unit, found.unit)}"
    try:
        return _value_text(tomllib.loads(f"value = {value}")["value"])
    except tomllib.TOMLDecodeError:
        return value.strip("\"'")


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        parts = [
            _value_text(v) if k in _NAMING_KEYS else f"{k} {_value_text(v)}"
            for k, v in value.items()
        ]
        return ", ".join(parts)
    if isinstance(value, list):
        return ", ".join(_value_text(v) for v in value)
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def point_name(point: Mapping[str, str], labels: Mapping[str, str], separator: str = "\n") -> str:
    """The varied keys of a point with their values: "sessions: 15".

    A value from `labels` is written without its key.
    """
    named = [
        value_name(v, labels) if v in labels else f"{key_name(k, labels)}: {value_name(v, labels)}"
        for k, v in point.items()
    ]
    return separator.join(named)


def metric_name(metric: str, labels: Mapping[str, str]) -> str:
    """The axis label of a metric: from `labels`, or its label with unit."""
    return labels.get(metric) or metrics.label(metric)


def varied(plan: Plan, labels: Mapping[str, str]) -> str:
    """The varied keys in words: "varied: loss, rate"; empty if none is varied."""
    names = ", ".join(dict.fromkeys(key_name(k, labels) for k in plan.vary))
    return f"varied: {names}" if names else ""


def wrap(text: str, chars: int) -> str:
    """Wrap text at `chars` characters, without breaking words; line breaks are kept."""
    lines = (
        textwrap.fill(line, max(8, chars), break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )
    return "\n".join(lines)


#: Kind of a figure -> what it draws of many runs, and of few.
_DRAWN = {
    "line": ("mean and 95 % CI", "mean (thick) and single runs (thin)"),
    "points": ("mean and 95 % CI", "mean and single runs (dots)"),
    "box": ("box: quartiles and median, whiskers: smallest and largest run", "single runs"),
    "cdf": ("distribution over the runs", "distribution over the runs"),
    "heatmap": ("mean", "mean"),
}


def caption(comparison: Comparison, *, single_runs: bool | None = None, kind: str = "line") -> str:
    """The caption that explains points and intervals: "mean and 95 % CI, n = 20 runs".

    `single_runs` is true if runs are drawn one by one; by default it depends on their number.
    """
    cases = comparison.plan.cases
    runs = sorted(
        {
            len(comparison.values(c.point, c.label, next(iter(comparison.metrics), "")))
            for c in cases
        }
        - {0}
    )
    if not runs or runs == [1]:
        return "n = 1 run" if comparison.plan.random else comparison.plan.single_run
    few = runs[-1] < MIN_RUNS_FOR_INTERVAL if single_runs is None else single_runs
    drawn = _DRAWN.get(kind, _DRAWN["points"])[few]
    if len(runs) == 1:
        return f"{drawn}, n = {quantities.count(runs[0], 'run')}"
    if runs[0] == 1 and len(runs) == 2:
        return f"{drawn}, n = {runs[1]} runs (or {comparison.plan.single_run})"
    return f"{drawn}, n = {runs[0]} to {runs[-1]} runs"


__all__ = [
    "caption",
    "key_name",
    "metric_name",
    "point_name",
    "value_name",
    "varied",
    "wrap",
]
