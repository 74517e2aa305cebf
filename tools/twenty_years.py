"""The papers' schemes over 802.11ac: `python tools/twenty_years.py [SEEDS]` writes the tables and
the picture of docs/twenty-years-on.md.

The runs are those of the figure related/wifi, with the figure's seeds or with seeds 1 to SEEDS; for
the stalls, each run is inspected. On two processors that takes ten minutes. The text outside the
block is written by hand and kept.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Sequence
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
#: Metrics of the flow: the factor to the unit of the table, and the digits that are shown.
METRICS = {
    "goodput_bps": (1e-6, 1),
    "one_way_delay_s_p95": (1e3, 0),
    "retransmissions": (1, 0),
    "timeouts": (1, 1),
}
#: Of these, whether they differ from those of the first scheme is shown.
COMPARED = ("goodput_bps", "one_way_delay_s_p95")
HEAD = """\
| scheme | goodput, Mbit/s | one-way delay, p95, ms | retransmissions | timeouts | stalls |
| --- | ---: | ---: | ---: | ---: | ---: |"""


def plus(values: Iterable[float], digits: int) -> str:
    """The mean with its 95 % interval; 0 if all are."""
    found = statistics.summarise(list(values))
    assert found.mean is not None
    assert found.ci95 is not None
    if found.mean == 0 == found.ci95[0]:
        return "0"
    return f"{found.mean:.{digits}f} ± {(found.ci95[1] - found.ci95[0]) / 2:.{digits}f}"


def of_metric(result: Comparison, at: int, label: str, name: str) -> str:
    """The mean of a metric of the flow; `≈` if its difference from the first scheme's is chance."""
    factor, digits = METRICS[name]
    values = [v * factor for v in result.values(at, label, f"{FLOW}.{name}") if v is not None]
    text = plus(values, digits)
    if name in COMPARED and label != result.plan.labels[0]:
        low, high = result.statistics(at, label, f"{FLOW}.{name}")["difference_to_first"]["ci95"]
        text += " ≈" if low <= 0 <= high else ""
    return text


def stalls(work: tuple[str, str, int, float]) -> list[float]:
    """Lengths of the stalls of a run that end in the measured time, in seconds."""
    scheme, place, seed, start_s = work
    seen = lasthop.inspect(
        FIGURE, scheme=scheme, seed=seed, settings={PLACE: place}, shortest=SHORTEST_S
    )
    found = seen.to_dict()["connections"][-1]["stalls"]
    return [s["end_s"] - s["start_s"] for s in found if s["end_s"] > start_s]


def all_stalls(
    schemes: list[str], places: list[str], seeds: Sequence[int], start_s: float
) -> list[list[list[float]]]:
    """The stalls of all runs of each scheme at each place, places first."""
    works = [(s, p, seed, start_s) for p, s, seed in product(places, schemes, seeds)]
    with ProcessPoolExecutor() as pool:
        each = list(pool.map(stalls, works))
    return [each[n : n + len(seeds)] for n in range(0, len(each), len(seeds))]


def in_numbers(runs: list[list[float]]) -> str:
    """The number of stalls of a run, and the longest of all runs."""
    longest = max((s for lengths in runs for s in lengths), default=0.0)
    return f"{plus(map(len, runs), 1)}; {longest:.1f} s" if longest else "0"


def in_words(entry: str | dict[str, Any]) -> str:
    """A scheme of the figure as on the command line."""
    if isinstance(entry, str):
        return entry
    return ":".join([entry["name"], *(f"{k}={v}" for k, v in entry.items() if k != "name")])


def main() -> None:
    figure = tomllib.loads(FIGURE.read_text(encoding="utf-8"))
    seeds = int(sys.argv[1]) if sys.argv[1:] else figure["experiment"]["seeds"]
    result = lasthop.compare(FIGURE, seeds=seeds)
    places, labels = [point[PLACE] for point in result.plan.points], result.plan.labels
    start_s = float(figure["measure"]["from"].removesuffix(" s"))
    schemes = [in_words(entry) for entry in figure["experiment"]["schemes"]]
    stalled = iter(all_stalls(schemes, places, result.plan.seeds, start_s))
    parts = []
    for at, place in enumerate(places):
        lines = [f"Place **{place}**, n = {seeds} runs:", "", HEAD]
        for label in labels:
            cells = [of_metric(result, at, label, name) for name in METRICS]
            lines.append(f"| {' | '.join([NAMES[label], *cells, in_numbers(next(stalled))])} |")
        parts.append("\n".join(lines))
    page = PAGE.read_text(encoding="utf-8")
    write_whole(PAGE, marked_pages.replaced(page, "tables", "\n\n".join(parts)))
    result.plot(PICTURE)


if __name__ == "__main__":
    main()
