"""The card as one HTML page: heat maps of grids, tables of the other cells, commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from lasthop import pages
from lasthop.evaluation import text
from lasthop.evaluation.card import Card, CellResult, Entry
from lasthop.evaluation.judge import OUTCOMES

#: Half of the width of the picture of an interval, in pixels, and how many margins it shows.
HALF: Final = 60
MARGINS: Final = 3.0


def render(card: Card, command: str) -> str:
    """The page of a card."""
    return pages.render(
        "evaluation.html",
        title=f"{card.scheme} beside {card.suite.baseline}",
        styles=["evaluation.css"],
        values={
            "card": card,
            "command": command,
            "outcomes": OUTCOMES,
            "signs": text.SIGNS,
            "labels": _labels(card),
            "groups": [
                {
                    "group": group,
                    "tally": card.tally(group.id),
                    "files": _files(card, entries),
                }
                for group, entries in card.groups
            ],
        },
    )


def index(cards: Sequence[Card], folders: Sequence[str], command: str) -> str:
    """The page of several cards: a table that sorts, with a row for each."""
    groups = cards[0].groups
    return pages.render(
        "evaluation_index.html",
        title=f"{len(cards)} schemes beside {cards[0].suite.baseline}",
        scripts=["sort.js"],
        styles=["evaluation.css"],
        values={
            "card": cards[0],
            "command": command,
            "outcomes": OUTCOMES,
            "groups": [group for group, _ in groups],
            "rows": [
                {
                    "scheme": card.scheme,
                    "link": f"{quote(folder)}/card.html",
                    "tally": list(card.tally().values()),
                    "worse": [card.tally(group.id)["worse"] for group, _ in groups],
                }
                for card, folder in zip(cards, folders, strict=True)
            ],
        },
    )


def scenario_file(cell: CellResult) -> str:
    """Name of the scenario of a cell in the folder of the card."""
    return f"{cell.id.replace('/', '-')}.toml"


def inspect_command(card: Card, cell: CellResult) -> str:
    """The command that shows the run with the first seed in detail."""
    name = cell.id.replace("/", "-")
    return (
        f"lasthop inspect scenarios/{name}.toml --scheme {shlex.quote(card.scheme)}"
        f" --seed {card.seeds[0]} --out {name}.html"
    )


def _labels(card: Card) -> list[str]:
    labels = list(card.entries[0].means) if card.entries else []
    return [card.scheme, *(label for label in labels if label != card.scheme)]


def _files(card: Card, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """What the template shows of each file: its grids, if it has several keys, and its rows."""
    found = []
    for file in dict.fromkeys(e.cell.file.id for e in entries):
        of_file = [e for e in entries if e.cell.file.id == file]
        about = of_file[0].cell.file
        found.append(
            {
                "about": about,
                "grids": _grids(card, of_file) if len(about.vary) > 1 else [],
                "rows": [_row(card, e) for e in of_file],
            }
        )
    return found


def _grids(card: Card, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """A heat map for each number: the values of the last key are the columns."""
    vary = entries[0].cell.file.vary
    keys = list(vary)
    grids = []
    for number in entries[0].cell.file.numbers:
        rows: dict[str, list[dict[str, str]]] = {}
        for e in (e for e in entries if e.number == number):
            name = ", ".join(e.cell.set[k] for k in keys[:-1])
            shown = text.value(number, e.verdict.measured.mean)
            base = text.value(number, e.verdict.measured.reference)
            rows.setdefault(name, []).append(
                {
                    "outcome": e.verdict.outcome,
                    "sign": text.SIGNS[e.verdict.outcome],
                    "value": shown,
                    "base": base,
                    "title": f"{e.cell.name}: {e.verdict.outcome}, {text.difference(e)}",
                }
            )
        unit = text.unit_of(number)[1]
        grids.append(
            {
                "name": number.name + (f" ({unit})" if unit else ""),
                "reference": card.suite.baseline if number.limit is None else "limit",
                "key": " \\ ".join([", ".join(keys[:-1]), keys[-1]]),
                "columns": list(vary[keys[-1]]),
                "rows": list(rows.items()),
            }
        )
    return grids


def _row(card: Card, entry: Entry) -> dict[str, Any]:
    number = entry.number
    return {
        "cell": entry.cell.name,
        "number": number.name,
        "unit": text.unit_of(number)[1],
        "values": [text.value(number, entry.means[label]) for label in _labels(card)],
        "difference": text.difference(entry),
        "allowed": text.allowed(entry),
        "n": entry.verdict.measured.runs,
        "outcome": entry.verdict.outcome,
        "sign": text.SIGNS[entry.verdict.outcome],
        "bar": _bar(entry),
        "command": "" if card.is_program else inspect_command(card, entry.cell),
    }


def _bar(entry: Entry) -> dict[str, float] | None:
    """Places of the interval in a picture whose right side is better; `None` if unknown."""
    m = entry.verdict.measured
    if m.difference is None:
        return None
    low, high = m.ci95 or (m.difference, m.difference)
    if entry.number.better == "lower":
        low, high = -high, -low
    scale = m.margin * MARGINS or max(abs(low), abs(high)) or 1.0
    at = [HALF + HALF * max(-1.0, min(1.0, x / scale)) for x in (low, high, -m.margin)]
    width = max(at[1] - at[0], 2)
    return {
        # An interval beyond the picture is drawn at its edge.
        "x": round(min(at[0], 2 * HALF - width), 1),
        "width": round(width, 1),
        "margin": round(at[2], 1),
    }


__all__ = ["index", "inspect_command", "render", "scenario_file"]
