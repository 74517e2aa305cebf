"""The papers' schemes over 802.11ac: `python tools/twenty_years.py [SEEDS]` writes the tables and
the picture of docs/twenty-years-on.md.

The runs are those of the figure related/wifi, with the figure's seeds or with seeds 1 to SEEDS; for
the stalls, each run is inspected. On two processors that takes ten minutes. The text outside the
block is written by hand and kept.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, median
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
| scheme | goodput, Mbit/s | one-way delay, p95, ms | retransmissions | timeouts | stalls \
| lost, %: error / collision / queue |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |"""
#: Of the segments that a connection sends, in the order of that column.
LOSSES = ("lost on the air", "lost in a collision", "dropped at the queue")


def plus(values: Iterable[float], digits: int) -> str:
    """The mean with its 95 % interval, or the median, least and greatest where that reaches below
    0; 0 if all are.
    """
    values = list(values)
    found = statistics.summarise(values)
    assert found.mean is not None
    assert found.ci95 is not None
    if found.mean == 0 == found.ci95[0]:
        return "0"
    if found.ci95[0] < 0:
        middle, least, greatest = median(values), min(values), max(values)
        return f"{middle:.{digits}f} ({least:.{digits}f} to {greatest:.{digits}f})"
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


@dataclass(frozen=True)
class Seen:
    """What an inspected run shows of its flow, or of the part of it from a proxy on."""

    #: Stalls in the measured time, in seconds.
    stalls: list[float]
    #: Shares of the segments that it sent in the whole run, by `LOSSES`.
    lost: list[float]


def inspected(work: tuple[str, str, int, float]) -> Seen:
    """Inspect a run: scheme, place, seed, and the start of the measured time."""
    scheme, place, seed, start_s = work
    run = lasthop.inspect(
        FIGURE, scheme=scheme, seed=seed, settings={PLACE: place}, shortest=SHORTEST_S
    )
    found = run.to_dict()["connections"][-1]
    spans = [(max(stall["start_s"], start_s), stall["end_s"]) for stall in found["stalls"]]
    totals = found["totals"]
    sent = totals["sent_segments"] + totals["agent_segments"]
    return Seen(
        [end - start for start, end in spans if end - start >= SHORTEST_S],
        [totals["losses"].get(name, 0) / sent for name in LOSSES],
    )


def all_inspected(
    schemes: list[str], places: list[str], seeds: Sequence[int], start_s: float
) -> Iterator[list[Seen]]:
    """All runs of each scheme at each place, places first."""
    works = [(s, p, seed, start_s) for p, s, seed in product(places, schemes, seeds)]
    with ProcessPoolExecutor() as pool:
        each = list(pool.map(inspected, works))
    return (each[n : n + len(seeds)] for n in range(0, len(each), len(seeds)))


def in_numbers(runs: list[Seen]) -> list[str]:
    """The number of stalls of a run, and the longest of all runs; and the mean shares of losses."""
    longest = max((s for run in runs for s in run.stalls), default=0.0)
    stalls = f"{plus([len(run.stalls) for run in runs], 1)}; {longest:.1f} s" if longest else "0"
    shares = [mean(run.lost[n] for run in runs) for n in range(len(LOSSES))]
    return [stalls, " / ".join(f"{100 * share:.1f}" for share in shares)]


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
    seen = all_inspected(schemes, places, result.plan.seeds, start_s)
    parts = []
    for at, place in enumerate(places):
        lines = [f"Place **{place}**, n = {seeds} runs:", "", HEAD]
        for label in labels:
            cells = [of_metric(result, at, label, name) for name in METRICS]
            lines.append(f"| {' | '.join([NAMES[label], *cells, *in_numbers(next(seen))])} |")
        parts.append("\n".join(lines))
    page = PAGE.read_text(encoding="utf-8")
    write_whole(PAGE, marked_pages.replaced(page, "tables", "\n\n".join(parts)))
    result.plot(PICTURE)


if __name__ == "__main__":
    main()
