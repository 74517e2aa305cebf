"""Blocks of runs that a thread does in one piece, without the interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lasthop.experiments.plan import FRAMES_PER_SECOND, Case, Plan

# A block takes about this time, in seconds: short enough for progress and interrupts.
BLOCK_S = 0.05
# Most runs of a block. Runs without candidates are kept for twice as many seeds.
MAX_RUNS = 128


@dataclass(frozen=True)
class Block:
    """Runs of one case."""

    case: Case
    seeds: tuple[int, ...]


def block_runs(the_plan: Plan, workers: int, most: int = MAX_RUNS) -> int:
    """Number of runs of a block: so that each worker gets several."""
    longest = max((c.scenario.estimated_frames for c in the_plan.cases), default=0)
    in_time = BLOCK_S * FRAMES_PER_SECOND / max(longest, 1)
    each = math.ceil(the_plan.size() / (4 * workers))
    return max(1, min(int(in_time), each, most))


def blocks(
    the_plan: Plan, has: Callable[[Case, int], bool] | None, workers: int, most: int = MAX_RUNS
) -> Iterator[Block]:
    """The runs to do, some seeds after the other, so that the finished runs of an interrupted
    comparison are paired. `has`: which are finished; `None` if none is. `most`: runs of a block.
    """
    runs = block_runs(the_plan, workers, most)
    for first in range(0, len(the_plan.seeds), runs):
        some = the_plan.seeds[first : first + runs]
        for case in the_plan.cases:
            own = the_plan.seeds_of(case)
            seeds = tuple([s for s in some if s in own and not (has and has(case, s))])
            if seeds:
                yield Block(case, seeds)


__all__ = ["Block", "block_runs", "blocks"]
