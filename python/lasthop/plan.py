"""What a comparison consists of: points (settings) x schemes x seeds, and the scenario of each."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from lasthop import catalogue, provenance, quantities
from lasthop.congestion import CongestionControl
from lasthop.errors import InputError
from lasthop.pool import Cancel

Scheme = str | type[CongestionControl]

# Schemes that one panel or table bears (the palette has as many colours); more are shown by group.
MAX_UNGROUPED = 7
# Between keys that are varied together, and between their values.
JOINT_SEPARATOR = " & "
# Points of a comparison at most, to catch a slip of the pen.
MAX_POINTS = 100_000
# Frames that one core simulates in a second, about (for estimates only).
FRAMES_PER_SECOND = 1e7
PYTHON_FRAMES_PER_SECOND = 2e6
# What may be started without being asked twice, in seconds.
DEFAULT_LIMIT_S = 24 * 3600.0


class Scenario(Protocol):
    """A scenario that was read and checked; `lasthop._native.Scenario` is one."""

    @property
    def title(self) -> str:
        """Its title."""

    @property
    def filled(self) -> str:
        """The scenario as TOML with every default filled in."""

    @property
    def random(self) -> bool:
        """True if anything in it is drawn at random."""

    @property
    def estimated_frames(self) -> int:
        """About how many frames one run sends over links."""

    @property
    def scheme(self) -> str:
        """JSON: label, name, settings, family and group of the scheme that `[tcp]` names."""

    @property
    def slots(self) -> list[str]:
        """Per flow: one line naming the scheme and all its slots."""

    @property
    def groups(self) -> Sequence[tuple[str, int]]:
        """Groups of flows, one for each [[flow]] that has flows: name and number of flows."""

    @property
    def warnings(self) -> list[str]:
        """Schemes that must not be let loose everywhere, a line each."""

    @property
    def assumed(self) -> list[str]:
        """What was assumed because the file did not say it."""

    @property
    def bounds(self) -> str:
        """JSON: the settings that bound the throughput of the first TCP flow: `limited_by`, `setting`, `value`."""

    @property
    def inputs(self) -> list[str]:
        """Paths of the files read besides the scenario itself (traces)."""

    def run(self, seed: int, cancel: Any = None) -> str:
        """One run; its JSON."""


@dataclass(frozen=True)
class Source:
    """Where a scenario comes from: its text, the file it stands in, and what the caller changed."""

    text: str
    origin: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    last_hop: tuple[tuple[str, str], ...] = ()

    def with_settings(self, more: Sequence[tuple[str, str]]) -> Source:
        """The same with more `KEY=VALUE` settings; they win over earlier ones and over options of the last hop."""
        keys = [k for k, _ in more]
        hop = tuple((k, v) for k, v in self.last_hop if f"last_hop.{k}" not in keys)
        return Source(self.text, self.origin, (*self.settings, *more), hop)


#: The traces that lasthop ships.
TRACES = Path(__file__).parent / "data" / "traces"

Loader = Callable[[Source, Scheme | None], Scenario]


def load(source: Source, scheme: Scheme | None = None) -> Scenario:
    """Read and check a scenario with the native code."""
    from lasthop import _native

    return _native.Scenario(source.text, source.origin, list(source.settings), scheme, dict(source.last_hop))


def trace_path(trace: str) -> str:
    """The file of a trace, relative to where we are; one that is not here may be one that lasthop ships, by its name."""
    here, shipped = Path(trace).absolute(), TRACES / trace
    return str(shipped) if not here.exists() and Path(trace).name == trace and shipped.is_file() else str(here)


def source(
    file: str | Path | None = None,
    *,
    text: str | None = None,
    settings: Sequence[tuple[str, str]] = (),
    last_hop: Mapping[str, str] | None = None,
) -> Source:
    """The scenario in `file` (or `text`), or the one that `last_hop` alone describes."""
    hop = tuple((k, trace_path(v) if k in ("down", "up") else v) for k, v in (last_hop or {}).items())
    if text is not None:
        return Source(text, None, tuple(settings), hop)
    if file is not None:
        path = Path(file)
        try:
            return Source(path.read_text(encoding="utf-8"), str(path), tuple(settings), hop)
        except UnicodeDecodeError:
            raise InputError(f"{path}: not a text file in UTF-8") from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
    if not hop:
        raise InputError("give a scenario FILE, or a last hop such as --rate 2Mbps --rtt 40ms (or --down and --up with traces)")
    title = json.dumps(_last_hop_title([(k, v) for k, v in hop if f"last_hop.{k}" not in dict(settings)]))
    return Source(f'title = {title}\nduration = "60 s"\n[last_hop]\n', None, tuple(settings), hop)


def _last_hop_title(hop: Sequence[tuple[str, str]]) -> str:
    """What was given of the last hop, in words: "last hop: 2 Mbps, RTT 40 ms, loss 1 %"."""
    given, parts = dict(hop), []
    for key, name in {"down": "", "up": "", "rate": "", "rtt": "RTT ", "loss": "loss ", "queue": "queue "}.items():
        if key in given:
            value = given[key]
            text = Path(value).name if key in ("down", "up") else re.sub(r"(?<=[\d.])([A-Za-z%/]+)$", r" \1", value)
            parts.append(name + "".join(c if c.isprintable() else "?" for c in text))
    return "last hop" + (": " + ", ".join(parts) if parts else "")


@dataclass(frozen=True)
class Case:
    """One cell of a comparison: a point and a scheme, and the scenario that results."""

    point: int
    set: Mapping[str, str]
    label: str
    name: str
    settings: Mapping[str, Any]
    scenario: Scenario
    key: str
    python_rule: bool = False
    #: Family and group in the catalogue; a scheme of one's own has neither.
    section: tuple[str | None, str | None] = (None, None)
    #: What the scheme needs of the scenario, by key.
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def random(self) -> bool:
        """False if it comes out the same for every seed, so that one run is enough."""
        return self.scenario.random


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
    #: False if nothing is random in any case.
    random: bool = True

    def seeds_of(self, case: Case) -> Sequence[int]:
        """The seeds with which a case is run: one seed if it is the same for all."""
        return self.seeds if case.random else self.seeds[:1]

    @property
    def labels(self) -> list[str]:
        """Labels of the schemes, in order."""
        return list(dict.fromkeys(c.label for c in self.cases))

    @property
    def sections(self) -> list[tuple[str, list[str]]]:
        """The schemes' labels by family and group, in the catalogue's order; one's own come last."""
        members: dict[tuple[str | None, str | None], list[str]] = {}
        for case in self.cases:
            labels = members.setdefault(case.section, [])
            if case.label not in labels:
                labels.append(case.label)
        return [(catalogue.section_title(s), members[s]) for s in catalogue.ordered_sections(members)]

    @property
    def warnings(self) -> list[str]:
        """What to beware of in its schemes, a line each."""
        return list(dict.fromkeys(w for c in self.cases for w in c.scenario.warnings))

    @property
    def assumed(self) -> list[tuple[str, str]]:
        """What was assumed, and of which cases: first what is assumed of all, for which the place is empty."""
        holders: dict[str, list[Case]] = {}
        for case in self.cases:
            for line in dict.fromkeys(case.scenario.assumed):
                holders.setdefault(line, []).append(case)
        placed = [(self.describe_cases(cases), line) for line, cases in holders.items()]
        return sorted(placed, key=lambda p: bool(p[0]))

    @cached_property
    def groups(self) -> list[str]:
        """Names of the groups of flows; none if no case has more than one."""
        if all(len(c.scenario.groups) < 2 for c in self.cases):
            return []
        return list(dict.fromkeys(name for c in self.cases for name, _ in c.scenario.groups))

    def describe_cases(self, cases: Sequence[Case]) -> str:
        """Which cases these are, in words: "at KEY = VALUE", "for SCHEME", both, or "" for all."""
        some = {(c.point, c.label) for c in cases}
        points, labels = sorted({p for p, _ in some}), [x for x in self.labels if any(label == x for _, label in some)]
        if len(some) < len(points) * len(labels):
            return "; ".join(self.describe_cases([c for c in cases if c.label == x]) for x in labels)
        everywhere = self.points
        schemes = "" if len(labels) == len(self.labels) else f"for {', '.join(labels)}"
        at = "" if len(points) == len(everywhere) else f"at {_describe_points(everywhere, points)}"
        return " ".join(x for x in (schemes, at) if x)

    @property
    def has_many_schemes(self) -> bool:
        """True if there are so many schemes that they are shown by group."""
        return len(self.labels) > MAX_UNGROUPED

    @property
    def reference(self) -> str:
        """The label of the scheme that others are seen against: Reno's, else the first one's."""
        return next((c.label for c in self.cases if c.name == "reno"), self.cases[0].label)

    @property
    def points(self) -> list[Mapping[str, str]]:
        """What each point sets, in order."""
        return list({c.point: c.set for c in self.cases}.values())

    def jobs(self, skip: Callable[[Job], bool] = lambda _: False) -> Iterator[Job]:
        """Runs to do: seed by seed, so that a comparison that was interrupted is paired as far as it went."""
        for seed in self.seeds:
            for case in self.cases:
                job = Job(case, seed)
                if seed in self.seeds_of(case) and not skip(job):
                    yield job

    def size(self) -> int:
        """Number of runs."""
        return sum(len(self.seeds_of(c)) for c in self.cases)

    def estimated_seconds(self, workers: int) -> float:
        """About how long all runs take."""
        rate = {True: PYTHON_FRAMES_PER_SECOND, False: FRAMES_PER_SECOND}
        return sum(len(self.seeds_of(c)) * c.scenario.estimated_frames / rate[c.python_rule] for c in self.cases) / workers


def _describe_points(points: Sequence[Mapping[str, str]], chosen: Sequence[int]) -> str:
    """Which points these are, by the values of one key if that tells."""
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
    """Digest of the files that a scenario reads."""
    return _digest(*(hashlib.sha256(Path(p).read_bytes()).hexdigest() for p in scenario.inputs))


def _rule_id(scheme: Scheme) -> str:
    """What identifies the code of a rule of one's own: the class, and all source that it may run."""
    return "" if isinstance(scheme, str) else f"{scheme.__qualname__} {provenance.source_id(scheme.__module__)}"


def _check_label(text: str, what: str) -> None:
    """Refuse text that a spreadsheet would compute, a page would take for markup, or a legend would leave out."""
    if text.startswith(("=", "+", "-", "@", "_")) or not text.isprintable() or any(c in "<>&|$" for c in text):
        raise InputError(f"{what} {text!r} must not begin with = + - @ or _, nor contain < > & | $ or control characters")


def plan(
    where: Source,
    schemes: Sequence[Scheme],
    seeds: int,
    vary: Mapping[str, Sequence[str]] | None = None,
    *,
    own: Mapping[str, Mapping[str, str]] | None = None,
    version: str,
    build: str = "",
    loader: Loader = load,
) -> Plan:
    """Read the scenario of every cell. Of a cell in which nothing is random one run is enough.

    `own` is what a scheme needs of the scenario: its label, then keys and values. `version` and `build` are lasthop's:
    runs of another one are not taken over.
    """
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, found {seeds}")
    if not schemes:
        raise InputError("which schemes? Give --schemes S1,S2,… or `schemes` in [experiment]; `lasthop schemes` lists them")
    vary = dict(vary or {})
    points = [dict(zip(vary, combination, strict=True)) for combination in itertools.islice(itertools.product(*vary.values()), MAX_POINTS + 1)]
    if len(points) > MAX_POINTS:
        raise InputError(f"--vary makes more than {MAX_POINTS} points")
    base = loader(where, None)
    base_digest = _digest(version, base.filled, _input_digest(base))
    for key, value in ((k, v) for k, given in vary.items() for v in given):
        if value.startswith(("=", "@")) or "$" in value or not value.isprintable():
            raise InputError(f"--vary {key}: a value must not begin with = or @, nor contain $ or control characters, found {value!r}")
    codes = [_rule_id(scheme) for scheme in schemes]
    cases = []
    for number, point in enumerate(points):
        here = where.with_settings(_settings(point))
        for scheme, code in zip(schemes, codes, strict=True):
            scenario = _load_case(loader, here, scheme, point)
            entry = json.loads(scenario.scheme)
            _check_label(entry["label"], "the label")
            needs = (own or {}).get(entry["label"], {})
            if needs:
                scenario = loader(here.with_settings(list(needs.items())), scheme)
            key = _digest(version, build, scenario.filled, _input_digest(scenario), code)[:16]
            python_rule = not isinstance(scheme, str)
            section = (entry.get("family"), entry.get("group"))
            cases.append(Case(number, point, entry["label"], entry["name"], entry["settings"], scenario, key, python_rule, section, needs))
        _check_labels_unique([c.label for c in cases if c.point == number])
    _check_points_differ(cases, vary)
    random = any(c.random for c in cases)
    return Plan(base.title, base_digest, base.filled, vary, range(1, seeds + 1) if random else [1], cases, random)


def _load_case(loader: Loader, here: Source, scheme: Scheme, point: Mapping[str, str]) -> Scenario:
    """Read the scenario of a cell; a mistake in what is varied goes by that name."""
    try:
        return loader(here, scheme)
    except InputError as error:
        varied = [f"--set {key}" for key, _ in _settings(point)]
        if any(str(error).startswith(f"{option}:") for option in varied):
            raise InputError(str(error).replace("--set", "--vary", 1)) from None
        raise


def check_needs(the_plan: Plan, own: Mapping[str, Mapping[str, str]]) -> None:
    """Every label that has settings of its own must be a scheme's."""
    for label in (x for x in own if x not in the_plan.labels):
        hint = quantities.did_you_mean(label, the_plan.labels)
        raise InputError(f"[experiment] settings: no scheme has the label `{label}`{hint}; there are {', '.join(the_plan.labels)}")


def _settings(point: Mapping[str, str]) -> list[tuple[str, str]]:
    """The settings of a point. `A & B = 1 & 2` varies two keys together."""
    found: list[tuple[str, str]] = []
    for joined, value in point.items():
        keys, parts = joined.split(JOINT_SEPARATOR), value.split(JOINT_SEPARATOR)
        if len(keys) != len(parts):
            raise InputError(f"`{joined}` names {len(keys)} keys, but `{value}` has {len(parts)} values")
        found += zip(keys, parts, strict=True)
    return found


def _check_labels_unique(labels: list[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"two schemes have the label `{label}`; give one of them another with `:label=…`")


def _check_points_differ(cases: Sequence[Case], vary: Mapping[str, Sequence[str]]) -> None:
    """Points that come out the same are a mistake: the varied key changes nothing."""
    seen: dict[str, Case] = {}
    for case in (c for c in cases if c.label == cases[0].label):
        other = seen.setdefault(case.key, case)
        if other is not case:
            keys = [k for k in vary if case.set[k] != other.set[k]] or list(vary)
            raise InputError(f"varying {' and '.join(keys)} makes no difference: {dict(other.set)} and {dict(case.set)} are the same scenario")


def check_run_time(the_plan: Plan, workers: int, limit_s: float) -> None:
    """Refuse what would run much longer than anyone meant."""
    from lasthop.progress import duration

    estimate = the_plan.estimated_seconds(workers)
    if estimate > limit_s:
        raise InputError(
            f"{the_plan.size()} runs would take about {duration(estimate)} on {workers} cores, the limit is {duration(limit_s)}; "
            f'shorten it (--seeds, --vary, duration) or raise the limit with --limit "{max(1, round(estimate / 3600 * 1.5))} h"'
        )


__all__ = ["Cancel", "Case", "Job", "Loader", "Plan", "Scenario", "Scheme", "Source", "check_needs", "check_run_time", "load", "plan", "source"]
