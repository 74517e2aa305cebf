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
    pgo: bool = False

    def sentence(self) -> str:
        beside = "without other load" if self.load < 0.2 else f"beside a load of {self.load:.1f}"
        build = "`make build-pgo`" if self.pgo else "`make build-release` (no PGO)"
        return (
            f"Commit {self.commit}, {build}, {self.processors} processors"
            f" {beside}, best of {self.runs} runs:"
        )


@dataclass(frozen=True)
class Times:
    """CPU time per segment in ns: the best of all runs, the lowest and the highest ratio to that of
    the headline in the same round, and ns-2's time.
    """

    best: float
    ratios: tuple[float, float]
    ns2: float | None = None


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
    text: str, bench: Bench, times: Mapping[str, Times], goals: Mapping[str, float]
) -> str:
    """The page with CPU times under the default profile by case, of which the first one is the
    headline. Those with PGO have a separate block.
    """
    headline = next(iter(times.values()))
    rows = [
        f"| {case} | {of.best:,.0f} | {of.best / headline.best:.1f} |"
        + ("  |" if of is headline else f" [{of.ratios[0]:.1f}, {of.ratios[1]:.1f}] |")
        + f" {goals.get(case, '')} |"
        + ("  |  |" if of.ns2 is None else f" {of.ns2:,.0f} | {of.ns2 / of.best:.1f} |")
        for case, of in times.items()
    ]
    head = [
        "| case | ns per segment | ratio to the first | in each round | goal "
        "| ns-2, ns per segment | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    written = "\n".join([bench.sentence(), "", *head, *rows])
    block = "default profile, PGO" if bench.pgo else "default profile"
    return marked_pages.replaced(text, block, written)


__all__ = ["PAGE", "Bench", "Times", "beside_others", "marked_pages", "under_default"]
