"""Coverage of the 90 % intervals of `lasthop trace fit` over random links (docs/traces.md).

    python tools/fit_coverage.py --links 80 [--write]
    python tools/fit_coverage.py --live --links 10 [--write]    (root, iperf3, ping and tcpdump)

`--live` carries the links. Prints the table; `--write` also writes it into the page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import live_fits
import marked_pages
from fitted_links import KINDS, Link, measured, of_kind

from lasthop.traces.fit.fit import Fit, fit

DURATION_S = 30.0
PAGE = Path(__file__).resolve().parent.parent / "docs" / "traces.md"
BLOCK, LIVE_BLOCK = "simulated fits", "live fits"


def truths(link: Link) -> dict[str, float]:
    """The true parameters; a queue holds the frame being sent beside its limit."""
    known = {
        "capacity": link.capacity_bps,
        "base_rtt": link.rtt_s,
        "queue": 1500.0 * link.queue_packets,
        "air_loss": link.residual_loss,
    }
    if link.burst > 1:
        known["bad_to_bad"] = 1 - 1 / link.burst
    return known


class Counts:
    """Where the true values lie, by parameter."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        #: Parameters that are more than twice off without a word.
        self.off: list[str] = []
        #: Ranges of whose ends the nearer one is more than twice off.
        self.off_ranges: list[str] = []

    def judge(self, link: Link, found: Fit, where: str) -> None:
        """Count where each true value lies."""
        estimates = {e.name: e for e in found.estimates()}
        for name, true in truths(link).items():
            e = estimates.get(name)
            if e is None:
                continue
            kind = "range" if e.is_range else "interval"
            self._counts[name][kind] += 1
            holds = e.low * (1 - 1e-9) <= true <= e.high * (1 + 1e-9)
            self._counts[name][kind + " holds"] += holds
            text = f"{where}: {name}: {e.value:.4g} [{e.low:.4g}, {e.high:.4g}], true {true:.4g}"
            if e.is_range:
                if not holds and not e.low / 2 <= true <= 2 * e.high:
                    self.off_ranges.append(text)
            elif not e.note and not (0.5 * true <= e.value <= 2 * true or true == e.low == 0):
                self.off.append(text)

    def add(self, other: Counts) -> None:
        """Count the parameters of others too."""
        for name, counts in other._counts.items():
            for key, value in counts.items():
                self._counts[name][key] += value

    def cells(self) -> dict[str, str]:
        """The cell of each parameter, and of all together; of none that was not judged."""
        keys = ("interval", "interval holds", "range", "range holds")
        every = {k: sum(c[k] for c in self._counts.values()) for k in keys}
        return {name: _cell(counts) for name, counts in [*self._counts.items(), ("all", every)]}


def _cell(c: Mapping[str, int]) -> str:
    """How many hold of the intervals, and of the ranges of unknown parameters."""
    found = [f"{c[k + ' holds']} of {c[k]}" if c[k] else "–" for k in ("interval", "range")]
    return "; ".join(found)


PARAMETERS = ("capacity", "base_rtt", "queue", "air_loss", "bad_to_bad", "all")


def table(head: str, tables: Mapping[str, Counts]) -> str:
    """A row for each kind of links or measurements, a column per parameter, and what is off.

    The last rows are of all links, for each word after the first one in the names.
    """
    columns = head.count("|") + 1
    lines = [
        f"| {head} | {' | '.join(name.replace('_', ' ') for name in PARAMETERS)} |",
        "| --- " * columns + "| ---: " * len(PARAMETERS) + "|",
    ]
    totals: dict[str, Counts] = defaultdict(Counts)
    for name, counts in tables.items():
        totals[" | ".join(["all", *name.split(" | ")[1:]])].add(counts)
    for name, counts in [*tables.items(), *totals.items()]:
        cells = counts.cells()
        lines.append(f"| {name} | {' | '.join(cells.get(p, '–') for p in PARAMETERS)} |")
    for text, found in (
        ("More than twice off without a word", [x for c in tables.values() for x in c.off]),
        ("Ranges more than twice off", [x for c in tables.values() for x in c.off_ranges]),
    ):
        lines += [
            "",
            f"{text}: {len(found)}.",
            *([""] if found else []),
            *(f"* {x}" for x in found),
        ]
    return "\n".join(lines)


def _simulated(options: argparse.Namespace, seeds: range) -> str:
    tables = {}
    for kind in options.kind or KINDS:
        for end in ("phone", "server") if options.end == "both" else (options.end,):
            counts = tables[f"{kind} | {end}"] = Counts()
            for seed in seeds:
                link = of_kind(kind, seed)
                found = fit(measured(link, seed, end, DURATION_S))
                counts.judge(link, found, f"{kind}, {end}, link {seed}")
    return table("links | captured at", tables)


def _carried(seeds: range, note: Callable[[str], None]) -> str:
    tables = {name: Counts() for name in live_fits.MEASUREMENTS}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            run = live_fits.carried(live_fits.drawn(seed), seed, Path(folder))
            note(f"link {seed}: {run.link}, p99 of lateness {1e3 * run.late_s:.3g} ms")
            for name, counts in tables.items():
                counts.judge(run.link, run.fit(name), f"{name}, link {seed}")
    return table("measured by", tables)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, help="seed of the first link")
    parser.add_argument("--end", choices=("phone", "server", "both"), default="both")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--live", action="store_true", help="carry the links live (needs root)")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.links)
    if options.live:
        written = _carried(seeds, lambda text: print(text, file=sys.stderr, flush=True))
    else:
        written = _simulated(options, seeds)
    print(written)
    if options.write:
        block = LIVE_BLOCK if options.live else BLOCK
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(marked_pages.replaced(page, block, written), encoding="utf-8")


if __name__ == "__main__":
    main()
