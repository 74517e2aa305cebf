"""Coverage of the 90 % intervals of `lasthop trace fit` over random links (docs/traces.md).

Prints the table: python3 tools/fit_coverage.py --links 40
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

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


def judge(link: Link, found: Fit, counts: dict[str, dict[str, int]]) -> list[str]:
    """Count where each true value lies; returns those that are more than twice off."""
    off = []
    estimates = {e.name: e for e in found.estimates()}
    for name, true in truths(link).items():
        e = estimates.get(name)
        if e is None:
            continue
        kind = "range" if e.is_range else "interval"
        counts[name][kind] += 1
        if e.low * (1 - 1e-9) <= true <= e.high * (1 + 1e-9):
            counts[name][kind + " holds"] += 1
        elif not e.is_range and not e.note and true > 0 and not 0.5 <= e.value / true <= 2:
            off.append(f"{name}: {e.value:.4g}, true {true:.4g}")
    return off


def _sum(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    keys = ("interval", "interval holds", "range", "range holds")
    return {key: sum(c[key] for c in counts.values()) for key in keys}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, help="seed of the first link")
    parser.add_argument("--end", choices=("phone", "server", "both"), default="both")
    parser.add_argument("--kind", choices=KINDS, action="append")
    options = parser.parse_args()
    ends = ("phone", "server") if options.end == "both" else (options.end,)
    print("| links | captured at | parameter | in the 90 % interval | unknown: in the range |")
    print("| --- | --- | --- | ---: | ---: |")
    wrong = []
    for kind in options.kind or KINDS:
        for end in ends:
            counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
            for seed in range(options.first, options.first + options.links):
                link = of_kind(kind, seed)
                off = judge(link, fit(measured(link, seed, end, DURATION_S)), counts)
                wrong += [f"{kind}, {end}, link {seed}: {text}" for text in off]
            for name, c in [*counts.items(), ("all", _sum(counts))]:
                print(
                    f"| {kind} | {end} | {name.replace('_', ' ')} |"
                    f" {c['interval holds']} of {c['interval']} |"
                    f" {c['range holds']} of {c['range']} |"
                )
    print()
    print(f"More than twice off without a word: {len(wrong)}.")
    for line in wrong:
        print(f"* {line}")


if __name__ == "__main__":
    main()
