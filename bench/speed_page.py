"""The tables of docs/speed.md that programs write."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import marked_pages  # noqa: E402

PAGE = ROOT / "docs" / "speed.md"


@dataclass(frozen=True)
class Bench:
    """Where and how a bench has run: what its times depend on."""

    commit: str
    processors: int
    # Mean number of other processes that wanted a processor in the minute before.
    load: float
    runs: int

    def sentence(self) -> str:
        beside = "without other load" if self.load < 0.2 else f"beside a load of {self.load:.1f}"
        return (
            f"Commit {self.commit}, `make build-release` (no PGO), {self.processors} processors"
            f" {beside}, best of {self.runs} runs:"
        )


def beside_others(text: str, bench: Bench, times: Mapping[str, Mapping[str, float]]) -> str:
    """The page with CPU times per packet in ns, by case and program, lasthop first."""
    others = [name for name in next(iter(times.values())) if name != "lasthop"]
    head = "| case | lasthop, ns per packet |" + "".join(
        f" {name}, ns per packet | ratio |" for name in others
    )
    rows = [
        f"| {case} | {of['lasthop']:,.0f} |"
        + "".join(f" {of[name]:,.0f} | {of[name] / of['lasthop']:.1f} |" for name in others)
        for case, of in times.items()
    ]
    lines = [bench.sentence(), "", head, "| --- | ---: |" + " ---: | ---: |" * len(others), *rows]
    return marked_pages.replaced(text, "bench", "\n".join(lines))


def under_default(
    text: str,
    bench: Bench,
    times: Mapping[str, Mapping[str, float]],
    goals: Mapping[str, float],
) -> str:
    """The page with CPU times per segment in ns under the default profile, by case and program, of
    which the first case is the headline.
    """
    headline = next(iter(times.values()))["lasthop"]
    rows = [
        f"| {case} | {of['lasthop']:,.0f} | {of['lasthop'] / headline:.1f} |"
        f" {goals.get(case, '')} |"
        + (f" {of['ns-2']:,.0f} | {of['ns-2'] / of['lasthop']:.1f} |" if "ns-2" in of else " | |")
        for case, of in times.items()
    ]
    head = [
        "| case | ns per segment | ratio to the first | goal | ns-2, ns per segment | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    written = "\n".join([bench.sentence(), "", *head, *rows])
    return marked_pages.replaced(text, "default profile", written)


__all__ = ["PAGE", "Bench", "beside_others", "marked_pages", "under_default"]
