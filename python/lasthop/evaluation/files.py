"""The files of a card: card.json, card.html, badge and scenarios."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from lasthop.errors import InputError
from lasthop.evaluation import page
from lasthop.evaluation.card import Card
from lasthop.experiments.store import write_whole

FILES: Final = ("card.json", "card.html", "badge.svg", "badge.txt")
SCENARIOS: Final = "scenarios"
#: Table of several cards.
INDEX: Final = "index.html"
#: Colours of the badge's right half: nothing worse, something worse.
_GREEN, _ORANGE = "#00634a", "#a13a00"
#: Approximate width of a character of the badge, in pixels.
_CHARACTER = 6.6


def check(folder: str | Path, schemes: Sequence[str]) -> None:
    """Raise `InputError` if a card would replace a file with a scheme."""
    for scheme in schemes:
        file = Path(scheme.partition(".py:")[0] + ".py").resolve()
        if ".py:" in scheme and file in [(Path(folder) / name).resolve() for name in FILES]:
            raise InputError(f"--out {folder} would overwrite {file}, which is a scheme")


def write(cards: Sequence[Card], folder: str | Path, command: str) -> list[str]:
    """Write the files of all cards; returns their names, relative to `folder`.

    Several cards have a folder each, named by their schemes.
    """
    top = Path(folder)
    written: list[str] = []
    names = _folders(cards)
    for card, name in zip(cards, names, strict=True):
        here = top / name
        (here / SCENARIOS).mkdir(parents=True, exist_ok=True)
        for file, content in _contents(card, command):
            write_whole(here / file, content)
        files = [*FILES, SCENARIOS] if len(cards) == 1 else [""]
        written += [(Path(name) / file).as_posix() for file in files]
    if len(cards) > 1:
        write_whole(top / INDEX, page.index(cards, names, command))
        written.insert(0, INDEX)
    return written


def _folders(cards: Sequence[Card]) -> list[str]:
    if len(cards) == 1:
        return ["."]
    names = [re.sub(r"[^A-Za-z0-9+_.-]+", "-", c.scheme).strip("-.") or "scheme" for c in cards]
    return [n if names.count(n) == 1 else f"{n}-{i + 1}" for i, n in enumerate(names)]


def _contents(card: Card, command: str) -> Iterator[tuple[str, str]]:
    yield "card.json", json.dumps(card.to_dict(), indent=1, ensure_ascii=False) + "\n"
    yield "card.html", page.render(card, command)
    yield "badge.svg", badge(card)
    yield "badge.txt", card.badge + "\n"
    for cell in {e.cell.id: e.cell for e in card.entries}.values():
        yield f"{SCENARIOS}/{page.scenario_file(cell)}", cell.scenario


def badge(card: Card) -> str:
    """The card in one line as a picture."""
    from markupsafe import escape

    tally = card.tally()
    left = f"RFC 9743, suite {card.suite.version}{' quick' if card.quick else ''}: {card.scheme}"
    right = ", ".join(f"{n} {word}" for word, n in tally.items() if n)
    a, b = (round(len(text) * _CHARACTER + 12) for text in (left, right))
    colour = _ORANGE if tally["worse"] else _GREEN
    parts: list[Any] = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" role="img"'
        f' font-family="Verdana, DejaVu Sans, sans-serif" font-size="11" fill="#fff">'
        f"<title>{escape(card.badge)}</title>",
        f'<rect width="{a}" height="20" fill="#444"/>',
        f'<rect x="{a}" width="{b}" height="20" fill="{colour}"/>',
        f'<text x="6" y="14" textLength="{a - 12}">{escape(left)}</text>',
        f'<text x="{a + 6}" y="14" textLength="{b - 12}">{escape(right)}</text></svg>',
    ]
    return "".join(map(str, parts)) + "\n"


__all__ = ["FILES", "badge", "check", "write"]
