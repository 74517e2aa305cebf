"""The plan of a comparison: points (settings) x schemes x seeds, with the scenario of each case."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from lasthop import catalogue, quantities
from lasthop.errors import InputError
from lasthop.experiments import provenance
from lasthop.experiments.pool import Cancel
from lasthop.own_schemes import Scheme, SchemeClass
from lasthop.scenarios import outputs, pipes
from lasthop.scenarios.origin import Loader, Origin
from lasthop.scenarios.scenario import Scenario
from lasthop.scenarios.scenario_source import JOINT_SEPARATOR, Source, load, source, trace_paths

# With more schemes than the palette has colours, figures and tables are split by group.
MAX_UNGROUPED = 7
# Maximum number of points of a comparison; more are taken for a mistake.
MAX_POINTS = 100_000
# Roles of flows to which harm is computed.
HARMED = ("competitor", "probe")
# Approximate number of frames that one core simulates per second, for estimates.
FRAMES_PER_SECOND = 1e7
PYTHON_FRAMES_PER_SECOND = 2e6
# Header lines of the tables of a scenario file that do not change its runs.
FIGURE_TABLE = re.compile(r"\[\[?(?:experiment|plot|claim)[].]")
# Default limit of the estimated run time, in seconds.
DEFAULT_LIMIT_S = 24 * 3600.0

#: What a table says of a case whose result is the same for every seed, in place of an interval.
NOTHING_DRAWN = "one run, nothing drawn"
#: The same if other seeds differ by the microseconds that receivers take to answer.
PROCESSING_TIMES_DRAWN = "one run, only processing times drawn"


def single_run(draws_processing_times: bool) -> str:
    """What tables say in place of the interval of a case that is run once."""
    return PROCESSING_TIMES_DRAWN if draws_processing_times else NOTHING_DRAWN


@dataclass(frozen=True)
class Case:
    """One case of a comparison: a scheme at a point, with its scenario."""

    point: int
    set: Mapping[str, str]
    label: str
    name: str
    settings: Mapping[str, Any]
    scenario: Scenario
    key: str
    python_rule: bool = False
    #: Family and group in the catalogue; `None` for a Python rule.
    section: tuple[str | None, str | None] = (None, None)
    #: Scenario settings that the scheme needs, by key.
    needs: Mapping[str, str] = field(default_factory=dict)
    #: What the scenario was loaded from.
    source: Source = field(default_factory=lambda: Source(""))
    #: The scheme that replaces the one in `[tcp]`; without it the case cannot be pickled.
    scheme: Scheme | None = None

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("scenario", "solo", "source", "scheme")
        state = {k: v for k, v in self.__dict__.items() if k not in left_out}
        return {**state, "origin": Origin(self.source, self.scheme)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        origin = state.pop("origin")
        loaded = origin.load()
        self.__dict__.update(state, source=origin.source, scheme=origin.scheme, scenario=loaded)

    @cached_property
    def solo(self) -> Scenario | None:
        """The scenario without its candidates, if it has competitors or probes."""
        return solo_of(self.scenario)

    @property
    def random(self) -> bool:
        """False if nothing but processing times differs between seeds: one run is enough."""
        return self.scenario.random

    @property
    def single_run(self) -> str | None:
        """What tables say in place of an interval; `None` if the case is random."""
        return None if self.random else single_run(self.scenario.draws_processing_times)


@dataclass(frozen=True)
class Job:
    """One run."""

    case: Case
    seed: int


@dataclass(frozen=True)
class Plan:
    """All runs of a comparison."""

    title: str
    sha256: str
    filled: str
    vary: Mapping[str, Sequence[str]]
    seeds: Sequence[int]
    cases: Sequence[Case]
    #: False if all cases are deterministic.
    random: bool = True

    def seeds_of(self, case: Case) -> Sequence[int]:
        """The seeds of a case; one seed if it is deterministic."""
        return self.seeds if case.random else self.seeds[:1]

    @property
    def inputs(self) -> list[str]:
        """The files that the scenarios of the cases were read from."""
        found = (f for c in self.cases for f in outputs.inputs_of(c.source, c.scenario))
        return list(dict.fromkeys(found))

    @property
    def single_run(self) -> str:
        """What tables say of all cases that are run once."""
        return single_run(any(c.single_run == PROCESSING_TIMES_DRAWN for c in self.cases))

    @property
    def labels(self) -> list[str]:
        """Labels of the schemes, in order."""
        return list(dict.fromkeys(c.label for c in self.cases))

    @property
    def sections(self) -> list[tuple[str, list[str]]]:
        """Labels by family and group, in the order of the catalogue; Python rules come last."""
        members: dict[tuple[str | None, str | None], list[str]] = {}
        for case in self.cases:
            labels = members.setdefault(case.section, [])
            if case.label not in labels:
                labels.append(case.label)
        return [
            (catalogue.section_title(s), members[s]) for s in catalogue.ordered_sections(members)
        ]

    @property
    def warnings(self) -> list[str]:
        """Warnings about the schemes, one line each."""
        return list(dict.fromkeys(w for c in self.cases for w in c.scenario.warnings))

    @property
    def assumed(self) -> list[tuple[str, str]]:
        """Assumptions with the cases that they concern.

        Assumptions about all cases come first; the text of their cases is empty.
        """
        holders: dict[str, list[Case]] = {}
        for case in self.cases:
            for line in dict.fromkeys(case.scenario.assumed):
                holders.setdefault(line, []).append(case)
        placed = [(self.describe_cases(cases), line) for line, cases in holders.items()]
        return sorted(placed, key=lambda p: bool(p[0]))

    @cached_property
    def groups(self) -> list[str]:
        """Names of the groups of flows.

        Empty if no case has more than one flow, or an application whose user is measured.
        """
        has_groups = (
            sum(n for _, n in c.scenario.groups) > 1 or c.scenario.has_users for c in self.cases
        )
        if not any(has_groups):
            return []
        return list(dict.fromkeys(name for c in self.cases for name, _ in c.scenario.groups))

    @cached_property
    def roles(self) -> list[str]:
        """Roles of the flows; empty if all have the same."""
        found = dict.fromkeys(role for c in self.cases for _, role, _ in c.scenario.group_roles)
        return list(found) if len(found) > 1 else []

    @cached_property
    def counters(self) -> list[str]:
        """Metrics "agents.SCHEME.COUNTER" of all agents and relays."""
        agents = [agent for c in self.cases for agent in c.scenario.counters()]
        pairs = [(scheme.split(":")[0], key) for scheme, keys in agents for key in keys]
        return list(dict.fromkeys(f"agents.{s}.{k}" for s, k in pairs if "." not in s))

    def describe_cases(self, cases: Sequence[Case]) -> str:
        """Describe cases: "at KEY = VALUE", "for SCHEME", both, or "" for all cases."""
        some = {(c.point, c.label) for c in cases}
        points, labels = (
            sorted({p for p, _ in some}),
            [x for x in self.labels if any(label == x for _, label in some)],
        )
        if len(some) < len(points) * len(labels):
            return "; ".join(
                self.describe_cases([c for c in cases if c.label == x]) for x in labels
            )
        everywhere = self.points
        schemes = "" if len(labels) == len(self.labels) else f"for {', '.join(labels)}"
        at = "" if len(points) == len(everywhere) else f"at {_describe_points(everywhere, points)}"
        return " ".join(x for x in (schemes, at) if x)

    @property
    def has_many_schemes(self) -> bool:
        """True if figures and tables are split by group of schemes."""
        return len(self.labels) > MAX_UNGROUPED

    @property
    def reference(self) -> str:
        """Label of the reference scheme: Reno if present, otherwise the first scheme."""
        return next((c.label for c in self.cases if c.name == "reno"), self.cases[0].label)

    @property
    def points(self) -> list[Mapping[str, str]]:
        """The settings of each point, in order."""
        return list({c.point: c.set for c in self.cases}.values())

    def jobs(self, skip: Callable[[Job], bool] = lambda _: False) -> Iterator[Job]:
        """Runs to do, seed by seed, so that the finished runs of an interrupted comparison are
        paired.
        """
        for seed in self.seeds:
            for case in self.cases:
                job = Job(case, seed)
                if seed in self.seeds_of(case) and not skip(job):
                    yield job

    def size(self) -> int:
        """Number of runs."""
        return sum(len(self.seeds_of(c)) for c in self.cases)

    def estimated_seconds(self, workers: int) -> float:
        """Estimated run time of all runs, in seconds."""
        rate = {True: PYTHON_FRAMES_PER_SECOND, False: FRAMES_PER_SECOND}
        return (
            sum(
                len(self.seeds_of(c)) * c.scenario.estimated_frames / rate[c.python_rule]
                for c in self.cases
            )
            / workers
        )


def solo_of(scenario: Scenario) -> Scenario | None:
    """The scenario without its candidates, if it has competitors or probes."""
    if all(role not in HARMED for _, role, _ in scenario.group_roles):
        return None
    return scenario.without_candidates()


def _describe_points(points: Sequence[Mapping[str, str]], chosen: Sequence[int]) -> str:
    """Describe points, by the values of one key if possible."""
    for key in points[0]:
        found = dict.fromkeys(points[n][key] for n in chosen)
        if [n for n, p in enumerate(points) if p[key] in found] == list(chosen):
            return f"{key} = {', '.join(found)}"
    if len(chosen) > 3:
        return f"{len(chosen)} of {len(points)} points"
    return "; ".join(", ".join(f"{k} = {v}" for k, v in points[n].items()) for n in chosen)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _input_digest(scenario: Scenario) -> str:
    """Digest of the trace files that a scenario reads."""
    return _digest(*(_file_digest(p, Path(p).stat().st_mtime_ns) for p in scenario.inputs))


def _without_figure(filled: str) -> str:
    """The scenario without the tables that do not change its runs: plan, plot and claims.

    The text is the core's, with one table per header line; parsing it took longer than a short run.
    """
    lines, keep = [], True
    for line in filled.splitlines():
        if line.startswith("["):
            keep = not FIGURE_TABLE.match(line)
        if keep:
            lines.append(line)
    return "\n".join(lines)


@lru_cache(maxsize=64)
def _file_digest(path: str, _changed: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def case_key(version: str, build: str, scenario: Scenario, code: str) -> str:
    """Digest of everything that determines the runs of a case, except the seed."""
    filled = pipes.without_folder(_without_figure(scenario.filled))
    return _digest(version, build, filled, _input_digest(scenario), code)[:16]


def rules_id(scenario: Scenario) -> str:
    """Identify the code of the schemes in Python: their classes, sources and imports."""
    return " ".join(_class_id(scheme) for scheme in scenario.classes)


def _class_id(scheme: SchemeClass) -> str:
    return f"{scheme.__qualname__} {provenance.source_id(scheme.__module__)}"


def _check_label(text: str, what: str) -> None:
    """Reject text that is a spreadsheet formula, is markup, or is hidden in a legend."""
    if (
        text.startswith(("=", "+", "-", "@", "_"))
        or not text.isprintable()
        or any(c in "<>&|$" for c in text)
    ):
        raise InputError(
            f"{what} {text!r} must not begin with = + - @ or _, nor contain < > & | $ or control"
            " characters"
        )


def plan(
    where: Source,
    schemes: Sequence[Scheme],
    seeds: int | range,
    vary: Mapping[str, Sequence[str]] | None = None,
    *,
    own: Mapping[str, Mapping[str, str]] | None = None,
    version: str,
    build: str = "",
    loader: Loader = load,
) -> Plan:
    """Make the plan of a comparison; a deterministic case gets one run.

    `seeds` is a number N, for the seeds 1 to N, or a range. `vary` maps a scenario key to its
    values. `own` gives the scenario settings that a scheme needs:
    label -> key -> value. Stored runs of another `version` or `build` of lasthop are not reused.
    Raises `InputError` for wrong input.
    """
    seeds = _seed_numbers(seeds)
    if not schemes:
        raise InputError(
            "which schemes? Give --schemes S1,S2,… or `schemes` in [experiment]; `lasthop schemes`"
            " lists them"
        )
    vary = dict(vary or {})
    points = _points(vary)
    base = loader(where, None)
    base_digest = _digest(version, pipes.without_folder(base.filled), _input_digest(base))
    _check_values(vary)
    class_id: Callable[[Any], str] = cache(_class_id)

    def key(scenario: Scenario) -> str:
        code = " ".join(class_id(c) for c in scenario.classes)
        return case_key(version, build, scenario, code)

    cases: list[Case] = []
    for number, point in enumerate(points):
        all_settings = where.with_settings(_settings(point))
        sources = [all_settings.for_scheme(scheme) for scheme in schemes]
        _check_scheme_settings(all_settings, sources)
        here = [
            _case(number, point, scheme, source, own or {}, loader, key)
            for scheme, source in zip(schemes, sources, strict=True)
        ]
        _check_labels_unique([c.label for c in here])
        cases += here
    _check_points_differ(cases, vary)
    random = any(c.random for c in cases)
    return Plan(
        base.title,
        base_digest,
        base.filled,
        vary,
        seeds if random else list(seeds[:1]),
        cases,
        random,
    )


def _seed_numbers(seeds: int | range) -> range:
    if isinstance(seeds, range):
        return seeds
    return range(1, quantities.whole_number(seeds, "--seeds", 1) + 1)


def _points(vary: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """All combinations of the varied values."""
    points = [
        dict(zip(vary, combination, strict=True))
        for combination in itertools.islice(itertools.product(*vary.values()), MAX_POINTS + 1)
    ]
    if len(points) > MAX_POINTS:
        raise InputError(f"--vary makes more than {MAX_POINTS} points")
    return points


def _check_values(vary: Mapping[str, Sequence[str]]) -> None:
    """Reject values that a spreadsheet or a figure would interpret."""
    for key, value in ((k, v) for k, given in vary.items() for v in given):
        if value.startswith(("=", "@")) or "$" in value or not value.isprintable():
            raise InputError(
                f"--vary {key}: a value must not begin with = or @, nor contain $ or control"
                f" characters, found {value!r}"
            )


def _case(
    number: int,
    point: Mapping[str, str],
    scheme: Scheme,
    here: Source,
    own: Mapping[str, Mapping[str, str]],
    loader: Loader,
    key: Callable[[Scenario], str],
) -> Case:
    """The case of a scheme at a point, whose settings `here` includes."""
    scenario = _load_case(loader, here, scheme, point)
    entry = scenario.scheme
    _check_label(entry["label"], "the label")
    needs = own.get(entry["label"], {})
    source = here.with_settings(list(needs.items())) if needs else here
    if needs:
        drawn = scenario.random_starts if here.draw_starts else None
        scenario = loader(source, scheme)
        if here.draw_starts and scenario.random_starts != drawn:
            # All schemes of a point have the same starts, also if the needs of one are random.
            source = source.with_settings([("random_starts", drawn or "none")])
            scenario = loader(source, scheme)
    return Case(
        number,
        point,
        entry["label"],
        entry["name"],
        entry["settings"],
        scenario,
        key(scenario),
        python_rule=bool(scenario.classes),
        section=(entry.get("family"), entry.get("group")),
        needs=needs,
        source=source,
        scheme=scheme,
    )


def _load_case(loader: Loader, here: Source, scheme: Scheme, point: Mapping[str, str]) -> Scenario:
    """Load the scenario of a case; errors in varied keys name the option --vary."""
    try:
        return loader(here, scheme)
    except InputError as error:
        varied = [f"--set {key}" for key, _ in _settings(point)]
        if any(str(error).startswith(f"{option}:") for option in varied):
            raise InputError(str(error).replace("--set", "--vary", 1)) from None
        raise


def check_needs(the_plan: Plan, own: Mapping[str, Mapping[str, str]]) -> None:
    """Raise `InputError` if `own` has a label that no scheme has."""
    for label in (x for x in own if x not in the_plan.labels):
        hint = quantities.did_you_mean(label, the_plan.labels)
        raise InputError(
            f"[experiment] settings: no scheme has the label `{label}`{hint}; there are"
            f" {', '.join(the_plan.labels)}"
        )


def _settings(point: Mapping[str, str]) -> list[tuple[str, str]]:
    """The settings of a point; `A & B = 1 & 2` sets two keys."""
    found: list[tuple[str, str]] = []
    for joined, value in point.items():
        keys, parts = joined.split(JOINT_SEPARATOR), value.split(JOINT_SEPARATOR)
        if len(keys) != len(parts):
            raise InputError(
                f"`{joined}` names {len(keys)} keys, but `{value}` has {len(parts)} values"
            )
        found += zip(keys, parts, strict=True)
    return found


def _check_labels_unique(labels: list[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(
                f"two schemes have the label `{label}`; give one of them another with `:label=…`"
            )


def _check_points_differ(cases: Sequence[Case], vary: Mapping[str, Sequence[str]]) -> None:
    """Raise `InputError` if two points are the same scenario."""
    at_point: dict[int, list[Case]] = {}
    for case in cases:
        at_point.setdefault(case.point, []).append(case)
    seen: dict[tuple[str, ...], Case] = {}
    for case, *others in at_point.values():
        other = seen.setdefault((case.key, *(c.key for c in others)), case)
        if other is not case:
            keys = [k for k in vary if case.set[k] != other.set[k]] or list(vary)
            raise InputError(
                f"varying {' and '.join(keys)} makes no difference: {dict(other.set)} and"
                f" {dict(case.set)} are the same scenario"
            )


def _check_scheme_settings(wanted: Source, sources: Sequence[Source]) -> None:
    """Raise `InputError` for a setting of `tcp.scheme` that none of the schemes has."""
    taken = {key for source in sources for key, _ in source.settings}
    for key, _ in wanted.settings:
        if key not in taken:
            raise InputError(f"{key}: none of the schemes has this setting")


def check_run_time(the_plan: Plan, workers: int, limit_s: float) -> None:
    """Raise `InputError` if the estimated run time exceeds `limit_s` (seconds)."""
    from lasthop.progress import duration

    estimate = the_plan.estimated_seconds(workers)
    if estimate > limit_s:
        raise InputError(
            f"{the_plan.size()} runs would take about {duration(estimate)} on {workers} cores, the"
            f" limit is {duration(limit_s)}; "
            "shorten it (--seeds, --vary, duration) or raise the limit with --limit"
            f' "{max(1, round(estimate / 3600 * 1.5))} h"'
        )


__all__ = [
    "JOINT_SEPARATOR",
    "Cancel",
    "Case",
    "Job",
    "Loader",
    "Origin",
    "Plan",
    "Scenario",
    "Scheme",
    "Source",
    "check_needs",
    "check_run_time",
    "load",
    "plan",
    "source",
    "trace_paths",
]
