"""Regret of `lasthop advise` over random links (docs/traces.md).

    python tools/advice_regret.py [--links 20] [--write]

Prints the table; `--write` also writes it into the page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import marked_pages
import unclear_captures
from fitted_links import Link, drawn, measured

import lasthop
from lasthop.advice import advise
from lasthop.traces.fit.fit import fit

DURATION_S = 30.0
PAGE = Path(__file__).resolve().parent.parent / "docs" / "traces.md"
BLOCK = "advice regret"
# Seeds of the true scenario, none of which made the capture.
TRUE_SEEDS = tuple(range(1001, 1011))
PLACES = ("base-station", "both-ends")
# Links, ends and lengths in seconds of captures that do not tell the capacity, but what would help.
LOSSY = {
    "5 s at the sender": (Link(10e6, 0.04, 0.0, 300), "server", 5),
    "window of 8 segments, 1 % loss": (Link(20e6, 0.04, 0.01, 100, window_packets=8), "phone", 10),
    "3 s at 3 % loss": (Link(20e6, 0.04, 0.03, 100), "phone", 3),
    "losses keep the queue empty": (Link(40e6, 0.06, 0.01, 200), "phone", 10),
}


def goodput(link: Link, scheme: str) -> float:
    """Mean goodput of a scheme on the true link, bit/s."""
    text = link.toml(DURATION_S)
    values = [lasthop.run(text=text, scheme=scheme, seed=s).goodput_bps for s in TRUE_SEEDS]
    return float(np.mean(values))


@dataclass(frozen=True)
class Regret:
    """An answer beside the truth; the regrets are shares of the best scheme's goodput."""

    verdict: str
    #: The scheme that the answer recommends: CUBIC unless the verdict is "helps".
    chosen: str
    #: Safe scheme with the largest median gain over the draws, CUBIC if none gains.
    first: str
    #: Safe scheme with the largest goodput on the true link.
    best: str
    of_chosen: float
    of_first: float
    #: Of the best of the schemes that the answer leaves open.
    of_set: float
    #: How many these are.
    left: int


def regret(link: Link, seed: int, can: str, draws: int) -> Regret:
    """What `advise` answers to a capture at the receiver, and what it costs."""
    answer = advise.advise(fit(measured(link, seed, "phone", DURATION_S)), can, draws)
    safe = [o.scheme for o in answer.options if not o.is_unsafe]
    true = {name: goodput(link, name) for name in [advise.BASELINE, *safe]}
    best = max(true, key=lambda name: true[name])
    first = next((o.scheme for o in answer.options if not o.is_unsafe and o.goodput[0] > 0), None)
    first = first or advise.BASELINE
    chosen = answer.scheme or advise.BASELINE
    of_set = max(answer.candidates, key=lambda name: true[name])
    lost = [1 - true[name] / true[best] for name in (chosen, first, of_set)]
    return Regret(answer.verdict, chosen, first, best, *lost, len(answer.candidates))


def summary(values: Sequence[float]) -> str:
    """Median, 90th percentile and largest value in %."""
    shown = [*np.percentile(values, [50, 90]), max(values)]
    return " | ".join(f"{100 * v:.1f} %" for v in shown)


def tables(found: Sequence[Regret]) -> list[tuple[str, list[float]]]:
    """The rows of the table: what a user follows, and the regrets of the links."""
    answered = [r.of_chosen for r in found if r.verdict != "cannot tell"]
    unknown = [r.of_chosen for r in found if r.verdict == "cannot tell"]
    return [
        ("the answer, where it gives one", answered),
        ('CUBIC, where it is "cannot tell"', unknown),
        ("the first scheme of the table, all links", [r.of_first for r in found]),
        ("the best of those that it leaves open, all links", [r.of_set for r in found]),
    ]


def unknown(draws: int) -> None:
    """Print what is answered to captures that cannot tell, and to those of `LOSSY`, with the true
    gain of the scheme.
    """
    for name, kind in unclear_captures.KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {advise.advise(kind(Path(folder)), 'base-station', draws).text}")
    for name, (link, end, duration_s) in LOSSY.items():
        answer = advise.advise(fit(measured(link, 1, end, duration_s)), "base-station", draws)
        print(f"{name}: {answer.text}")
        if answer.scheme is not None:
            gain = goodput(link, answer.scheme) / goodput(link, advise.BASELINE) - 1
            print(f"    true gain of {answer.scheme}: {100 * gain:.0f} %")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="seed of the first link")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--can", choices=PLACES, action="append")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--unknown", action="store_true", help="captures without a capacity")
    options = parser.parse_args()
    if options.unknown:
        unknown(options.draws)
        return
    lines = [
        "| `--can` | what is followed | links | median | 90th percentile | worst |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for can in options.can or PLACES:
        found = []
        for seed in range(options.first, options.first + options.links):
            one = regret(drawn(seed), seed, can, options.draws)
            found.append(one)
            print(can, seed, one, file=sys.stderr, flush=True)
        for row, values in tables(found):
            lines.append(
                f"| {can} | {row} | {len(values)} | {summary(values) if values else '| |'} |"
            )
    print("\n".join(lines))
    if options.write:
        page = marked_pages.replaced(PAGE.read_text(encoding="utf-8"), BLOCK, "\n".join(lines))
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
