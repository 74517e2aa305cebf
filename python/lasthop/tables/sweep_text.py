"""Sweeps as aligned plain text."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lasthop.analysis import metrics
from lasthop.quantities import count
from lasthop.tables import run_text, summary


def text(document: Mapping[str, Any], folder: Path, files: Sequence[str]) -> str:
    """The summary that `lasthop sweep` prints."""
    number, shards = document["shard"]
    shard = "" if shards == 1 else f"shard {number} of {shards}: "
    lines = [
        f"{document['scenario']}: {shard}{count(document['points'], 'point')} x"
        f" {count(len(document['schemes']), 'scheme')}, {count(document['runs'], 'run')}"
        f" ({document['reused']} reused), {len(document['failed'])} failed",
        f"written to {folder}/: {', '.join(files)}",
    ]
    general = [a for a in document["assumed"] if not a.startswith(("at ", "for "))]
    more = len(document["assumed"]) - len(general)
    assumed = [f"assumed: {a}" for a in general]
    if more:
        assumed.append(f"assumptions about some cases: {more}, in sweep.json")
    return "\n".join([lines[0], *assumed, lines[1], *first_rows(document, folder, files)])


#: Metrics with a column in the table that is printed, and its number of rows.
SHOWN = ("goodput_bps", "completed_s", "one_way_delay_s_p95", "timeouts")


MAX_ROWS = 20


def first_rows(document: Mapping[str, Any], folder: Path, files: Sequence[str]) -> list[str]:
    """The first rows of `table.csv`, one per point and scheme, and how to see the others.

    Empty if the file was not written, because the sweep is not finished.
    """
    if "table.csv" not in files:
        return []
    file = folder / "table.csv"
    found: dict[tuple[str, ...], dict[str, str]] = {}
    with file.open(encoding="utf-8", newline="") as opened:
        reader = csv.DictReader(opened)
        keys = list(reader.fieldnames or [])[1:]
        keys = keys[: keys.index("scheme") + 1]
        for row in reader:
            place = tuple(row[k] for k in ("point", *keys))
            if place not in found and len(found) == MAX_ROWS:
                break
            if row["metric"] in SHOWN:
                found.setdefault(place, {})[row["metric"]] = _cell(row)
    known = [m for m in SHOWN if any(cells.get(m, "–") != "–" for cells in found.values())]
    rows = [[*keys, *(metrics.label(m) for m in known)]]
    rows += [[*place[1:], *(cells.get(m, "–") for m in known)] for place, cells in found.items()]
    left = document["points"] * len(document["schemes"]) - len(found)
    more = f"{count(left, 'more row')} of points and schemes" if left > 0 else "all metrics"
    return [
        "",
        f"mean ± half-width of the 95 % CI; {summary.GOODPUT}:",
        run_text.columns(rows),
        f"{more}: {file}, or as a page: lasthop report {shlex.quote(str(folder))}",
    ]


def _cell(row: Mapping[str, str]) -> str:
    """A row of `table.csv` as mean and interval, in the unit of the metric's label."""
    mean, low, high = (float(row[k]) if row[k] else None for k in ("mean", "ci95_low", "ci95_high"))
    ci = None if low is None or high is None else (low, high)
    return summary.interval({"mean": mean, "ci95": ci}, metrics.factor(row["metric"]))


__all__ = ["first_rows", "text"]
