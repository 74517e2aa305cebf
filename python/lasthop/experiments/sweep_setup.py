"""Prepares a sweep: the plan of its runs, from a scenario and what is wanted."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop import own_schemes, quantities
from lasthop.errors import InputError
from lasthop.experiments import axes, plan, provenance, stop_rule, sweep
from lasthop.experiments import sweep_table as table
from lasthop.experiments.plan import Plan, Scheme, Source
from lasthop.experiments.sweep import Sweep
from lasthop.experiments.sweep_table import Wanted
from lasthop.scenarios import experiment
from lasthop.scenarios.python_values import axis_texts

# With more cases, and more assumptions about some cases, they are counted instead of described.
MAX_DESCRIBED = 200


@dataclass(frozen=True)
class Prepared:
    """A sweep that can begin."""

    plan: Plan
    sweep: Sweep
    #: The schemes as on the command line.
    schemes: list[str]

    @property
    def loads_anywhere(self) -> bool:
        """False if a class in Python has no file, so that only this process can load it."""
        classes = {c for case in self.plan.cases for c in case.scenario.classes}
        return all(own_schemes.file_of(c) is not None for c in classes)


def wanted(
    schemes: Sequence[Scheme],
    vary: Mapping[str, Any],
    zips: Sequence[Mapping[str, Any]],
    seeds: int | str | range | None,
    until: str | None,
    max_seeds: int | None,
) -> Wanted:
    """What is swept, from values of Python; texts are as on the command line."""
    varied: dict[str, list[str]] = {}
    for key, given in vary.items():
        listed = given if isinstance(given, str) else axis_texts(key, given)
        table.add_axis(varied, key, axes.values(listed, f"vary {key}"), "vary")
    for group in zips:
        texts = {k: v if isinstance(v, str) else axis_texts(k, v) for k, v in group.items()}
        joined, values = axes.zipped(texts, "zip")
        table.add_axis(varied, joined, values, "zip")
    names = tuple(own_schemes.name_of(s) for s in schemes)
    return Wanted(names, varied, _seeds(seeds), until, max_seeds)


def _seeds(seeds: int | str | range | None) -> range | None:
    if seeds is None or isinstance(seeds, range):
        if seeds is not None and (not seeds or seeds.step != 1 or seeds.start < 0):
            raise InputError(f"seeds must be a range of whole numbers from 0 on, found {seeds}")
        return seeds
    return axes.read_seeds(str(seeds))


def shard(given: str | tuple[int, int] | None) -> tuple[int, int]:
    """Number of a shard, from 1, and number of shards: "2/8" or (2, 8)."""
    if given is None:
        return 1, 1
    text = given if isinstance(given, str) else f"{given[0]}/{given[1]}"
    number, slash, count = text.partition("/")
    if (
        not slash
        or not number.isdigit()
        or not count.isdigit()
        or not 1 <= int(number) <= int(count)
    ):
        raise InputError(f"--shard must be i/N with i from 1 to N, such as 2/8, found `{text}`")
    return int(number), int(count)


def prepare(
    where: Source, origin: str, asked: Wanted, part: tuple[int, int], words: Sequence[str]
) -> Prepared:
    """Plan a sweep; what `asked` leaves open comes from the scenario.

    `origin` names the scenario in messages, `words` are the command. Raises `InputError`.
    """
    from lasthop import _native

    plan.load(where)  # reports errors with their position in the file
    given = experiment.read(Path(origin), text=where.text).experiment
    chosen = asked.over(table.read(where.text, origin, given))
    seeds = chosen.seeds
    if chosen.until is None:
        if chosen.max_seeds is not None:
            raise InputError("--max-seeds needs a stop rule (--until)")
        seeds = seeds or range(1, table.DEFAULT_SEEDS + 1)
        first_round = len(seeds)
    else:
        first_round = len(seeds) if seeds else stop_rule.FIRST_ROUND
        most = chosen.max_seeds or max(stop_rule.DEFAULT_MAX_SEEDS, first_round)
        quantities.whole_number(most, "--max-seeds")
        if most < first_round or first_round < 3:
            raise InputError(
                f"--until needs a first round of at least 3 seeds and at most --max-seeds; found"
                f" --seeds {first_round}, --max-seeds {most}"
            )
        start = seeds.start if seeds else 1
        seeds = range(start, start + most)
    version, build = _native.version(), provenance.build_id()
    the_plan = plan.plan(
        where,
        [own_schemes.load_scheme(s) for s in chosen.schemes],
        seeds,
        chosen.vary,
        own=given.settings,
        version=version,
        build=build,
    )
    about = {
        "lasthop": version,
        "build": build,
        "scenario": the_plan.title,
        "scenario_sha256": the_plan.sha256,
        "command": shlex.join(words),
        "vary": {k: list(v) for k, v in the_plan.vary.items()},
        "schemes": list(chosen.schemes),
        "warnings": the_plan.warnings,
        "assumed": _assumed(the_plan),
    }
    described = sweep.describe(
        the_plan,
        until=None
        if chosen.until is None
        else stop_rule.read(chosen.until, list(sweep.names_of(the_plan))),
        first_round=first_round,
        about=about,
        shard=part,
    )
    return Prepared(the_plan, described, list(chosen.schemes))


def _assumed(the_plan: Plan) -> list[str]:
    """The assumptions; with many cases, those about some cases only name how many these are."""
    if len(the_plan.cases) <= MAX_DESCRIBED:
        return [f"{at}: {line}" if at else line for at, line in the_plan.assumed]
    held = Counter(line for c in the_plan.cases for line in dict.fromkeys(c.scenario.assumed))
    total = len(the_plan.cases)
    lines = [line for line, count in held.items() if count == total]
    some = [f"for {n} of {total} cases: {line}" for line, n in held.items() if n < total]
    more = len(some) - MAX_DESCRIBED
    return [*lines, *some[:MAX_DESCRIBED], *([f"for some cases: {more} more"] if more > 0 else [])]


__all__ = ["Prepared", "prepare", "shard", "wanted"]
