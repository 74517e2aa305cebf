"""The validation of the catalogue as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lasthop import pages
from lasthop.live import catalogue
from lasthop.live.catalogue import Row


def render(rows: Sequence[Row], *, seeds: int, size: int, command: str) -> str:
    """The page of these rows."""
    failed = [f"{r.scheme}, seed {seed}: {error}" for r in rows for seed, error in r.failed]
    parted = [
        {"scheme": row.scheme, "differences": catalogue.differences(row)}
        for row in rows
        if row.verdict() == "parts"
    ]
    return pages.render(
        "validation.html",
        title="Real packets beside simulations",
        scripts=["sort.js"],
        styles=["evaluation.css"],
        values={
            "summary": catalogue.summary(rows).capitalize(),
            "size": f"{size:,}",
            "seeds": seeds,
            "rows": [_row(row) for row in rows],
            "parted": parted,
            "failed": failed,
            "command": command,
        },
    )


def _row(row: Row) -> dict[str, Any]:
    ratio, interval = row.ratio()
    n = len(row.real)
    return {
        "scheme": row.scheme,
        "ends": row.ends,
        "n": n,
        "real": f"{sum(row.real) / n:.2f}" if n else "",
        "simulated": f"{sum(row.simulated) / n:.2f}" if n else "",
        "ratio": "" if ratio is None else f"{ratio:.3f}",
        "interval": "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
        "verdict": row.verdict(),
        "parts": row.verdict() == "parts",
    }
