"""The reference tables of tests/reference, as ns-2, ns-3 and Linux produced them."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

#: The clone of the repository; a wheel has no reference tables.
ROOT = Path(__file__).resolve().parents[1]
REFERENCES = ROOT / "tests/reference"
NS2, NS3, LINUX = (REFERENCES / name for name in ("ns2", "ns3", "linux"))

#: Column -> text.
Row = dict[str, str]


def read(path: Path) -> list[Row]:
    """The rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def settings(row: Row) -> tuple[str, ...]:
    """What identifies a row of ns-2: all before its number of runs."""
    return tuple(list(row.values())[: list(row).index("runs")])


def ns2_rows(name: str) -> list[Row]:
    """A table of ns-2.

    A row that was run with more seeds (`tools/ns2_more.py`) takes the place of the table's.
    """
    more = NS2 / name.replace(".csv", "_more.csv")
    again = {settings(row): row for row in read(more)} if more.exists() else {}
    return [again.get(settings(row), row) if again else row for row in read(NS2 / name)]


def digests() -> dict[str, str]:
    """The start of the SHA-256 of each table, by its path in tests/reference."""
    return {
        str(p.relative_to(REFERENCES)): hashlib.sha256(p.read_bytes()).hexdigest()[:16]
        for p in sorted(REFERENCES.rglob("*.csv"))
    }
