"""Cards as text: a table by group, and numbers with their units."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lasthop.analysis import metrics
from lasthop.analysis.statistics import Interval
from lasthop.evaluation.card import Card, Entry
from lasthop.evaluation.suite import Number

#: Signs of the verdicts, which do not depend on colour.
SIGNS: Mapping[str, str] = {"better": "+", "no worse": "=", "worse": "!", "undecided": "?"}


def unit_of(number: Number) -> tuple[float, str]:
    """Factor from the unit of the metric to that of a table, and that unit."""
    if len(number.parts) == 2 or (_key(number) in metrics.SHARES and _key(number) != "jain"):
        return 100.0, "%"
    if _key(number).endswith("_bps"):
        return 1e-6, "Mbit/s"
    if "_s_" in _key(number) or _key(number).endswith("_s"):
        return 1e3, "ms"
    return 1.0, ""


def _key(number: Number) -> str:
    return number.metric.rsplit(".", 1)[-1]


def value(number: Number, found: float | None, *, with_unit: bool = False) -> str:
    """A value in the unit of the table; "–" if it is unknown."""
    if found is None or math.isnan(found):
        return "–"
    factor, unit = unit_of(number)
    shown = _short(found * factor)
    return f"{shown} {unit}".rstrip() if with_unit else shown


def _short(x: float) -> str:
    if x == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(x))))
    return f"{x:.{min(digits, 4)}f}"


def interval(number: Number, found: Interval | None) -> str:
    """An interval in the unit of the table; empty if it is unknown."""
    return "" if found is None else f"[{value(number, found[0])}, {value(number, found[1])}]"


def difference(entry: Entry) -> str:
    """The difference to the baseline or the limit with its interval."""
    m = entry.verdict.measured
    if m.difference is None:
        return "–"
    sign = "+" if m.difference > 0 else ""
    return f"{sign}{value(entry.number, m.difference)} {interval(entry.number, m.ci95)}".rstrip()


def allowed(entry: Entry) -> str:
    """The margin or the limit of a number, with unit."""
    number = entry.number
    if number.limit is not None:
        word = "at least" if number.better == "higher" else "at most"
        return f"{word} {value(number, number.limit, with_unit=True)}"
    if number.margin_is_share:
        return f"{_short(100 * number.margin)} % of {entry_baseline(entry)}"
    return value(number, number.margin, with_unit=True)


def entry_baseline(entry: Entry) -> str:
    """The label of the baseline: the first scheme of a cell."""
    return next(iter(entry.means))


def card(found: Card, *, all_rows: bool = True) -> str:
    """The card as a table by group; without `all_rows`, only what is worse or undecided."""
    lines = [
        f"{found.scheme} beside {found.suite.baseline}, suite {found.suite.version}"
        f" ({found.suite.sha256[:12]}){', quick' if found.quick else ''},"
        f" {len(found.seeds)} seeds",
        "paired differences with 95 % intervals; verdicts at 5 % by Holm's method over the card",
    ]
    for group, entries in found.groups:
        tally = ", ".join(f"{n} {word}" for word, n in found.tally(group.id).items() if n)
        lines += ["", f"{group.letter}  {group.title}: {tally}"]
        shown = [e for e in entries if all_rows or e.verdict.outcome in ("worse", "undecided")]
        lines += _rows(found, shown)
    lines += ["", found.badge]
    lines += [f"failed: {place}: {error}" for place, error in found.failed.items()]
    for why in dict.fromkeys(found.left_out.values()):
        places = [place for place, reason in found.left_out.items() if reason == why]
        lines.append(f"left out, {why}: {', '.join(places)}")
    return "\n".join(lines)


def _rows(found: Card, entries: list[Entry]) -> list[str]:
    if not entries:
        return []
    labels = list(entries[0].means)
    labels = [found.scheme, *(x for x in labels if x != found.scheme)]
    head = ["", "cell", "number", *labels, "difference", "unit", "n", "verdict"]
    rows = [head]
    title = ""
    for entry in entries:
        row = _row(labels, entry)
        row[1] = "" if entry.cell.title == title else row[1]
        title = entry.cell.title
        rows.append(row)
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    left = (0, 1, 2, len(head) - 1)
    return [
        "  "
        + "  ".join(
            c.ljust(w) if i in left else c.rjust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _row(labels: list[str], entry: Entry) -> list[str]:
    number, m = entry.number, entry.verdict.measured
    name = entry.cell.id.split("/")[1] + (f" ({entry.cell.name})" if entry.cell.name else "")
    return [
        SIGNS[entry.verdict.outcome],
        name,
        number.name,
        *(value(number, entry.means[label]) for label in labels),
        difference(entry),
        unit_of(number)[1],
        str(m.runs),
        entry.verdict.outcome,
    ]


__all__ = ["SIGNS", "allowed", "card", "difference", "interval", "unit_of", "value"]
