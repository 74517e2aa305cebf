"""All schemes on measured links: `python tools/measured_links.py FOLDER` writes the tables of
docs/measured-links.md.

FOLDER contains the traces (docs/traces.md gives their source; they are not part of lasthop). The
text outside the block in the page is written by hand and kept.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import marked_pages

import lasthop
from lasthop import catalogue
from lasthop.analysis import statistics
from lasthop.experiments.store import write_whole

PAGE = Path(__file__).parents[1] / "docs/measured-links.md"
BLOCK = "measured links"
LINKS = ["ATT-LTE-driving-2016", "TMobile-UMTS-driving", "Verizon-LTE-short"]
LOSSES = ["0%", "1%"]
SEEDS = 20
HEAD = """| scheme | goodput, kbit/s: 0 % loss | 1 % | share of capacity, mean (max): 0 % | 1 % \
| p95 one-way delay, ms: 0 % | 1 % |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |"""
#: Buffers and caches as published, whatever the rate of the trace.
PUBLISHED = {
    "snoop": "cache_packets=100",
    "snack-snoop": "cache_packets=100",
    "i-tcp": "buffer=64000B",
    "mtcp": "buffer=64000B",
    "m-tcp": "buffer=64000B",
    "rnf": "buffer=256000B",
}


def cells(runs: Any, label: str) -> list[str]:
    """Goodput in kbit/s, its share of the capacity (mean and largest value), p95 of the one-way
    delay in ms.
    """
    rows = runs.filter(runs["scheme"] == label)
    goodput, capacity = rows["goodput_bps"].to_numpy(), rows["radio_capacity_bps"].to_numpy()
    share = goodput / capacity
    assert share.max() < 1, f"{label} exceeds the trace"
    kbps = statistics.summarise((goodput / 1e3).tolist())
    delay = statistics.summarise((rows["one_way_delay_s_p95"].to_numpy() * 1e3).tolist())
    return [_plus(kbps), f"{100 * share.mean():.0f} % ({100 * share.max():.0f} %)", _plus(delay)]


def _plus(s: statistics.Summary) -> str:
    assert s.mean is not None
    assert s.ci95 is not None
    return f"{s.mean:.0f} ± {(s.ci95[1] - s.ci95[0]) / 2:.0f}"


def table(folder: Path, link: str, schemes: list[str]) -> list[str]:
    """One link: each result without loss and, beside it, with loss."""
    hop = {"down": str(folder / f"{link}.down"), "up": str(folder / f"{link}.up"), "rtt": "40ms"}
    settings = {"last_hop.start": "random"}
    plain, lossy = (
        lasthop.compare(
            last_hop={**hop, "loss": loss}, schemes=schemes, seeds=SEEDS, settings=settings
        ).runs
        for loss in LOSSES
    )
    lines = [f"## {link}", "", HEAD]
    for label in (s.partition(":")[0] for s in schemes):
        pairs = zip(cells(plain, label), cells(lossy, label), strict=True)
        lines.append(f"| {label} | {' | '.join(' | '.join(pair) for pair in pairs)} |")
    return [*lines, ""]


def main() -> None:
    folder = Path(sys.argv[1])
    names = [e["name"] for e in catalogue.entries()]
    schemes = [f"{n}:{PUBLISHED[n]}:label={n}" if n in PUBLISHED else n for n in names]
    lines = [line for link in LINKS for line in table(folder, link, schemes)]
    page = PAGE.read_text(encoding="utf-8")
    write_whole(PAGE, marked_pages.replaced(page, BLOCK, "\n".join(lines)))


if __name__ == "__main__":
    main()
