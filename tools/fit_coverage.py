"""Coverage of the 90 % intervals of `lasthop trace fit` over random links (docs/traces.md).

Prints the table: python3 tools/fit_coverage.py --links 40
Of links that are carried live, with iperf3, ping and tcpdump: … --live --links 10
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
from fitted_links import KINDS, Link, measured, of_kind

from lasthop.traces.fit.fit import Fit, fit

DURATION_S = 30.0


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

    def rows(self) -> list[str]:
        """Cells of the table: a row per parameter, and one of all."""
        keys = ("interval", "interval holds", "range", "range holds")
        total = {key: sum(c[key] for c in self._counts.values()) for key in keys}
        return [
            f"{name.replace('_', ' ')} | {c['interval holds']} of {c['interval']} |"
            f" {c['range holds']} of {c['range']}"
            for name, c in [*self._counts.items(), ("all", total)]
        ]


def _print(head: str, tables: Mapping[str, Counts]) -> None:
    print(f"| {head} | parameter | in the 90 % interval | unknown: in the range |")
    print("| --- " * (head.count("|") + 1) + "| --- | ---: | ---: |")
    for name, counts in tables.items():
        for row in counts.rows():
            print(f"| {name} | {row} |")
    for text, lines in (
        ("More than twice off without a word", [x for c in tables.values() for x in c.off]),
        ("Ranges more than twice off", [x for c in tables.values() for x in c.off_ranges]),
    ):
        print(f"\n{text}: {len(lines)}.")
        print("".join(f"* {line}\n" for line in lines), end="")


def _simulated(options: argparse.Namespace, seeds: range) -> None:
    tables = {}
    for kind in options.kind or KINDS:
        for end in ("phone", "server") if options.end == "both" else (options.end,):
            counts = tables[f"{kind} | {end}"] = Counts()
            for seed in seeds:
                link = of_kind(kind, seed)
                found = fit(measured(link, seed, end, DURATION_S))
                counts.judge(link, found, f"{kind}, {end}, link {seed}")
    _print("links | captured at", tables)


def _carried(seeds: range, note: Callable[[str], None]) -> None:
    tables = {name: Counts() for name in live_fits.MEASUREMENTS}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            run = live_fits.carried(live_fits.drawn(seed), seed, Path(folder))
            note(f"link {seed}: {run.link}, p99 of lateness {1e3 * run.late_s:.3g} ms")
            for name, counts in tables.items():
                counts.judge(run.link, run.fit(name), f"{name}, link {seed}")
    _print("measured by", tables)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, help="seed of the first link")
    parser.add_argument("--end", choices=("phone", "server", "both"), default="both")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--live", action="store_true", help="carry the links live (needs root)")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.links)
    if options.live:
        _carried(seeds, lambda text: print(text, file=sys.stderr, flush=True))
    else:
        _simulated(options, seeds)


if __name__ == "__main__":
    main()
