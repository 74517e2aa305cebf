"""The papers' schemes over 802.11ac: `python tools/twenty_years.py [SEEDS]` writes the tables and
the picture of docs/twenty-years-on.md.

The runs are those of the figure related/wifi, with the figure's seeds or with seeds 1 to SEEDS; for
the stalls, each run is inspected. On two processors that takes ten minutes. The text outside the
block is written by hand and kept.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import marked_pages

import lasthop
from lasthop.analysis import statistics
from lasthop.experiments.comparison import Comparison
from lasthop.experiments.store import write_whole
from lasthop.scenarios import experiment

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "twenty-years-on.md", DOCS / "img/twenty-years-on.png"
FIGURE = experiment.FOLDER / "related/wifi.toml"
PLACE, FLOW = "flow.flow.to", "groups.flow"
#: Gaps in the in-order delivery from this length on count as stalls, in seconds.
SHORTEST_S = 0.1
NAMES = {
    "cubic": "CUBIC",
    "bbr": "BBR",
    "packet-control": "packet control",
    "esack": "ESACK alone",
    "ll-elsn": "LL-ELSN with ESACK",
    "snoop": "Snoop",
    "newreno": "NewReno",
    "selective-tcp": "Selective-TCP",
    "noor-eaer": "Noor EAER",
    "rnf": "RNF",
}
#: What a table says of a scheme at a place.
Cell = Callable[[str, int], str]


def plus(values: list[float], digits: int) -> str:
    """The mean with its 95 % interval."""
    found = statistics.summarise(values)
    assert found.mean is not None
    assert found.ci95 is not None
    return f"{found.mean:.{digits}f} ± {(found.ci95[1] - found.ci95[0]) / 2:.{digits}f}"


def table(caption: str, result: Comparison, cell: Cell) -> str:
    """A table with a row per scheme and a column per place."""
    places = [point[PLACE] for point in result.plan.points]
    head = [caption, "", f"| scheme | {' | '.join(places)} |", "| --- |" + " ---: |" * len(places)]
    rows = [[NAMES[x], *(cell(x, at) for at in range(len(places)))] for x in result.plan.labels]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def metric(result: Comparison, name: str, factor: float, digits: int) -> Cell:
    """The mean of a metric of the flow; `≈` if it differs from the first scheme's by chance."""

    def cell(label: str, at: int) -> str:
        values = [v for v in result.values(at, label, f"{FLOW}.{name}") if v is not None]
        first = result.statistics(at, label, f"{FLOW}.{name}")["difference_to_first"]
        low, high = (first["ci95"] if first else None) or (1, 1)
        mark = " ≈" if low <= 0 <= high else ""
        return plus([v * factor for v in values], digits) + mark

    return cell


def stalls(work: tuple[str, str, int, float]) -> list[float]:
    """Lengths of the stalls of a run that end in the measured time, in seconds."""
    scheme, place, seed, start_s = work
    seen = lasthop.inspect(
        FIGURE, scheme=scheme, seed=seed, settings={PLACE: place}, shortest=SHORTEST_S
    )
    found = seen.to_dict()["connections"][-1]["stalls"]
    return [s["end_s"] - s["start_s"] for s in found if s["end_s"] > start_s]


def stalled(result: Comparison, schemes: list[str], start_s: float) -> Cell:
    """The number of stalls of a run, and the longest of all runs."""
    labels, places = result.plan.labels, [point[PLACE] for point in result.plan.points]
    seeds = result.plan.seeds
    works = [(s, p, seed, start_s) for s, p, seed in product(schemes, places, seeds)]
    with ProcessPoolExecutor() as pool:
        each = list(pool.map(stalls, works))
    runs = {
        (label, at): each[n * len(seeds) :][: len(seeds)]
        for n, (label, at) in enumerate(product(labels, range(len(places))))
    }

    def cell(label: str, at: int) -> str:
        longest = max((s for lengths in runs[label, at] for s in lengths), default=0.0)
        if longest == 0:
            return "0"
        return f"{plus([float(len(x)) for x in runs[label, at]], 1)}; {longest:.1f} s"

    return cell


def in_words(entry: str | dict[str, Any]) -> str:
    """A scheme of the figure as on the command line."""
    if isinstance(entry, str):
        return entry
    return ":".join([entry["name"], *(f"{k}={v}" for k, v in entry.items() if k != "name")])


def main() -> None:
    figure = tomllib.loads(FIGURE.read_text(encoding="utf-8"))
    seeds = int(sys.argv[1]) if sys.argv[1:] else figure["experiment"]["seeds"]
    result = lasthop.compare(FIGURE, seeds=seeds)
    start_s = float(figure["measure"]["from"].removesuffix(" s"))
    schemes = [in_words(entry) for entry in figure["experiment"]["schemes"]]
    n = f"means with 95 % intervals, n = {seeds} runs"
    tables = [
        table(
            f"Goodput in Mbit/s: {n}. `≈`: the paired difference from CUBIC is within chance.",
            result,
            metric(result, "goodput_bps", 1e-6, 1),
        ),
        table(
            f"One-way delay in ms, 95th percentile of a run, from server to application: {n}.",
            result,
            metric(result, "one_way_delay_s_p95", 1e3, 0),
        ),
        table(
            f"Segments that the server retransmits in the measured time of a run: {n}.",
            result,
            metric(result, "retransmissions", 1, 0),
        ),
        table(
            f"Timeouts in the measured time of a run: {n}.",
            result,
            metric(result, "timeouts", 1, 1),
        ),
        table(
            f"Stalls: gaps of at least {SHORTEST_S * 1e3:.0f} ms in what the application receives,"
            f" in the measured time of a run: {n}, and the longest of all.",
            result,
            stalled(result, schemes, start_s),
        ),
    ]
    page = PAGE.read_text(encoding="utf-8")
    write_whole(PAGE, marked_pages.replaced(page, "tables", "\n\n".join(tables)))
    result.plot(PICTURE)


if __name__ == "__main__":
    main()
