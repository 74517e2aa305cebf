"""The quick form of `make fidelity`: repeats a few cells of each page and checks its verdicts.

`make fidelity` records in tests/fidelity.json, for each table, its verdicts and a few cells with
their scenarios and the results of their first seeds. The quick form repeats these seeds. With the
same code the results are equal. After a change, the mean difference of the pairs (common random
draws) shifts the recorded cell and the recorded bias of the table; then the rule of agreement
(docs/numbers.md) is applied.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from typing import Any

from fidelity.agreement import BIAS, WORST, Cell, Table
from fidelity.measuring import QUANTITIES, simulate
from fidelity.references import ROOT, digests
from lasthop.experiments.store import write_whole

RECORD = ROOT / "tests/fidelity.json"
#: Seeds of a cell, and cells of a table.
SEEDS, CELLS = 3, 2


def chosen(cells: list[Cell]) -> list[Cell]:
    """Cells to record, spread over the table; random cells are preferred."""
    able = [c for c in cells if c.source]
    drawn = [c for c in able if c.d is not None] or able
    return [drawn[(2 * i + 1) * len(drawn) // (2 * CELLS)] for i in range(min(CELLS, len(drawn)))]


def record(page: str, commit: str, tables: list[Table]) -> None:
    """Replace the record of a page by these tables."""
    kept = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"pages": {}}
    entries = []
    for t in tables:
        verdicts = [[text, good] for text, good in t.verdicts()]
        entries.append(
            {
                "title": t.title,
                "judged": not t.known,
                "limit": t.limit,
                "small": t.small,
                "bias": t.bias,
                "verdicts": verdicts,
            }
        )
        entries[-1]["cells"] = [cell_record(c) for c in chosen(t.cells)] if not t.known else []
    kept["references"] = digests()
    kept["pages"][page] = {"commit": commit, "tables": entries}
    write_whole(RECORD, json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def cell_record(c: Cell) -> dict[str, Any]:
    """The record of a cell with the results of its first seeds."""
    assert c.source
    found = {
        "name": c.name,
        "theirs": c.theirs,
        "ours": c.ours,
        "se": c.se,
        "random": c.d is not None,
        "scenario": c.source.text,
    }
    return found | {
        "quantity": c.source.quantity,
        "scale": c.source.scale,
        "first": list(c.source.values[:SEEDS]),
    }


def moved(entry: dict[str, Any]) -> tuple[float, float]:
    """Shift of the cell since the record, and its standard error."""
    runs = simulate(entry["scenario"], len(entry["first"]))
    quantity = QUANTITIES[entry["quantity"]]
    by = [entry["scale"] * quantity(r) - old for r, old in zip(runs, entry["first"], strict=True)]
    return statistics.fmean(by), statistics.stdev(by) / math.sqrt(len(by)) if len(by) > 1 else 0.0


def no_longer(table: dict[str, Any]) -> Iterator[str]:
    """The verdicts of a table that held when the page was made but do not hold now."""
    held = all(good for _, good in table["verdicts"])
    shifts = []
    for entry in table["cells"]:
        by, noise = moved(entry)
        theirs, ours = entry["theirs"], entry["ours"] + by
        shifts.append(by / theirs)
        if entry["random"]:
            d = (ours - theirs) / math.hypot(entry["se"], noise)
            before = (entry["ours"] - theirs) / entry["se"]
            if abs(d) > WORST >= abs(before):
                yield (
                    f"{entry['name']}: {ours / 1e3:.1f} kbit/s beside {theirs / 1e3:.1f}, d ="
                    f" {d:+.2f} (was {before:+.2f}), at most {WORST}"
                )
        elif abs(ours / theirs - 1) > table["limit"] >= abs(entry["ours"] / theirs - 1):
            yield (
                f"{entry['name']}: {ours / 1e3:.1f} kbit/s beside {theirs / 1e3:.1f}, at most"
                f" {table['limit']:.0%} off"
            )
    bias = table["bias"] + (statistics.fmean(shifts) if shifts else 0.0)
    if held and abs(bias) > BIAS:
        yield (
            f"signed relative differences average {bias:+.2%} (were {table['bias']:+.2%}), at most"
            f" {BIAS:.0%}"
        )


def page_text(page: str) -> str:
    """A page as it is."""
    return (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")


def check(page: str) -> list[str]:
    """The verdicts of a page that no longer hold."""
    kept = json.loads(RECORD.read_text(encoding="utf-8"))["pages"][page]
    text = page_text(page)
    found = (
        []
        if f"commit {kept['commit']}" in text
        else ["the page and the record are of different commits"]
    )
    for table in kept["tables"]:
        missing = [t for t, _ in table["verdicts"] if t not in text]
        found += [f"{table['title']}: not on the page: {t}" for t in missing]
        found += [f"{table['title']}: {t}" for t in no_longer(table)]
    return found
