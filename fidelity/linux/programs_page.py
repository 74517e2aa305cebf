"""The tables of docs/validation.md about programs and their sockets, and what was measured of
real ones (tests/reference/linux/programs.json).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fidelity.references import REFERENCES, ROOT
from lasthop.experiments.store import write_whole

sys.path.insert(0, str(ROOT / "tools"))

import marked_pages

PAGE = ROOT / "docs/validation.md"
STORE = REFERENCES / "linux/programs.json"
SHARES, TIMES = "programs", "times of programs"

#: Of a program: how many of its real transfers are slow; or, if it times its writes, the median and
#: the first and last decile of the microseconds that 64 KiB took it, and of how many refills.
Outcome = dict[str, Any]


def read(store: Path = STORE) -> dict[str, Outcome]:
    """What was measured of each program."""
    return dict(json.loads(store.read_text(encoding="utf-8"))) if store.exists() else {}


def keep(name: str, outcome: Outcome, store: Path = STORE) -> None:
    """Store what was measured of a program, in place of what is stored of it."""
    lines = [
        f" {json.dumps(each)}: {json.dumps(of)}"
        for each, of in sorted((read(store) | {name: outcome}).items())
    ]
    write_whole(store, "{\n" + ",\n".join(lines) + "\n}\n")


def write(shares: Iterable[str], times: Iterable[str], page: Path = PAGE) -> None:
    """Write both tables from their rows, which have no bars at their ends."""
    text = page.read_text(encoding="utf-8")
    first = ["| program | real, slow | simulated, slow | p |", "| --- | ---: | ---: | ---: |"]
    second = ["| program | time for 64 KiB, µs | refills |", "| --- | ---: | ---: |"]
    for name, head, rows in ((SHARES, first, shares), (TIMES, second, times)):
        lines = [*head, *(f"| {row} |" for row in rows)]
        text = marked_pages.replaced(text, name, "\n".join(lines))
    write_whole(page, text)
