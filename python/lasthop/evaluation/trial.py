"""Does the runs of the suite and makes the cards of the candidates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.errors import InputError, traceback_outside
from lasthop.evaluation import judge
from lasthop.evaluation.card import Card, CellResult, Entry
from lasthop.evaluation.programs import LeftOut, Program
from lasthop.evaluation.suite import CellFile, Number, Suite
from lasthop.experiments import blocks, observing, plan, pool
from lasthop.experiments.blocks import Block
from lasthop.experiments.observing import Finished
from lasthop.experiments.plan import JOINT_SEPARATOR, Plan
from lasthop.experiments.pool import Outcome
from lasthop.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lasthop.own_schemes import Scheme

    #: Runs of a case: a row per seed, a column per metric.
    Table = dict[int, NDArray[np.float64]]
    #: File, point and label of a case.
    Place = tuple[str, int, str]


#: Keys that say when something is measured.
MEASURING = ("duration", "measure.from")


@dataclass(frozen=True)
class _Part:
    """The runs of one file of the suite."""

    group: str
    file: CellFile
    plan: Plan
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Job:
    """Runs that a thread does in one piece; those of a program are in the baseline's scenario."""

    part: _Part
    block: Block
    program: Program | None = None

    @property
    def place(self) -> Place:
        case = self.block.case
        return self.part.file.id, case.point, self.program.label if self.program else case.label

    def run(self, cancel: Any) -> Finished:
        case, seeds = self.block.case, self.block.seeds
        if self.program is not None:
            return self.program.run_seeds(case.scenario.filled, seeds, self.part.names)
        return observing.run_seeds(case.scenario, case.solo, seeds, self.part.names, cancel)


@dataclass
class _Found:
    """What the runs gave, by their places."""

    tables: dict[Place, Table] = field(default_factory=dict)
    errors: dict[Place, str] = field(default_factory=dict)
    left_out: dict[Place, str] = field(default_factory=dict)


def evaluate(
    suite: Suite,
    schemes: Sequence[Scheme | Program],
    *,
    quick: bool = False,
    jobs: int | None = None,
    only: Sequence[str] = (),
    report: Callable[[str], None] = lambda _: None,
) -> list[Card]:
    """The cards of these schemes; `only` names groups or files ("harm", "safety/overload").

    Raises `InputError` for a scheme that a scenario refuses, and KeyboardInterrupt.
    """

    programs = [s for s in schemes if isinstance(s, Program)]
    named = [s for s in schemes if not isinstance(s, Program)]
    parts = [_part(suite, g.id, f, named, quick) for g, f in suite.selected(only)]
    _check_labels(parts[0].plan, programs)
    try:
        found = _run(parts, suite.baseline, programs, jobs, report)
    finally:
        for program in programs:
            program.close()
    labels = _candidates(parts[0].plan, schemes)
    return [_card(suite, parts, found, label, quick) for label in labels]


def _check_labels(the_plan: Plan, programs: Sequence[Program]) -> None:
    labels = [c.label for c in the_plan.cases if c.point == 0] + [p.label for p in programs]
    for label in (x for i, x in enumerate(labels) if x in labels[:i]):
        raise InputError(f"two schemes have the name {label}")


def _run(
    parts: Sequence[_Part],
    baseline: str,
    programs: Sequence[Program],
    jobs: int | None,
    report: Callable[[str], None],
) -> _Found:
    """Do all runs."""
    from lasthop import _native

    cancel = _native.CancelToken()
    workers = jobs or pool.cores()
    todo: list[_Job] = []
    for part in parts:
        for block in blocks.blocks(part.plan, None, workers):
            todo.append(_Job(part, block))
            if block.case.label == baseline:
                todo += [_Job(part, block, program) for program in programs]
    # The longest first, so that no core waits for the last one.
    todo.sort(key=lambda j: -j.block.case.scenario.estimated_frames * len(j.block.seeds))
    found = _Found()

    with Progress("runs", sum(len(job.block.seeds) for job in todo)) as progress:

        def done(job: _Job, outcome: Outcome[Finished]) -> None:
            place, seeds = job.place, job.block.seeds
            if isinstance(outcome.error, InputError):
                raise outcome.error
            runs = outcome.value
            failures = [outcome.error] if runs is None else [e for e in runs.errors if e]
            for error in failures:
                if isinstance(error, LeftOut):
                    found.left_out[place] = str(error)
                elif error is not None and place not in found.errors:
                    found.errors[place] = f"{type(error).__name__}: {error}"
                    where = traceback_outside(error) or found.errors[place]
                    report(f"{place[0]}: a run of {place[2]} failed:\n{where}")
            rows = () if runs is None else zip(seeds, runs.values, strict=False)
            found.tables.setdefault(place, {}).update(rows)
            progress.step(len(seeds))

        if not pool.run_jobs(todo, lambda j: j.run(cancel), done, cancel=cancel, workers=workers):
            raise KeyboardInterrupt("the card needs all runs")
    return found


def _part(
    suite: Suite, group: str, file: CellFile, schemes: Sequence[Scheme], quick: bool
) -> _Part:
    from lasthop import _native
    from lasthop.experiments import provenance

    where = file.source.with_settings(list(file.quick.items())) if quick else file.source
    names = [p for n in file.numbers for p in n.parts]
    wanted: list[Scheme] = [suite.baseline]
    wanted += [s for s in (*schemes, *suite.ghosts) if s not in wanted]
    the_plan = plan.plan(
        where,
        list(dict.fromkeys(wanted)),
        suite.quick_seeds if quick else suite.seeds,
        file.vary,
        version=_native.version(),
        build=provenance.build_id(),
    )
    return _Part(group, file, the_plan, tuple(dict.fromkeys(names)))


def _candidates(the_plan: Plan, schemes: Sequence[Scheme | Program]) -> list[str]:
    """The labels of the schemes under trial, in the order given."""
    by_scheme = [(c.scheme, c.label) for c in the_plan.cases if c.point == 0]
    labels = [
        s.label if isinstance(s, Program) else next(label for c, label in by_scheme if c == s)
        for s in schemes
    ]
    return list(dict.fromkeys(labels))


def _card(suite: Suite, parts: Sequence[_Part], found: _Found, label: str, quick: bool) -> Card:
    measured: list[judge.Measured] = []
    places: list[tuple[_Part, int, Number, dict[str, float | None]]] = []
    left_out: dict[str, str] = {}
    is_program = all(case.label != label for case in parts[0].plan.cases)
    for part in parts:
        points = range(len(part.plan.points))
        for point, number in itertools.product(points, part.file.numbers):
            labels = [case.label for case in part.plan.cases if case.point == point]
            labels += [label] * is_program
            where = f"{part.file.id} {point + 1}"
            if why := found.left_out.get((part.file.id, point, label)):
                left_out[where] = why
                continue
            runs = {who: _values(part, found, point, who, number) for who in labels}
            if is_program and np.isnan(runs[label]).all():
                left_out[f"{where}: {number.name}"] = "unknown in all runs"
                continue
            base = runs[suite.baseline] if number.limit is None else np.array([number.limit])
            measured.append(judge.measure(number, runs[label], base))
            means = {name: judge.mean_of(values) for name, values in runs.items()}
            places.append((part, point, number, means))
    verdicts = judge.judge(measured)
    entries = [
        Entry(_cell(part, point, suite.baseline if is_program else label), number, means, verdict)
        for (part, point, number, means), verdict in zip(places, verdicts, strict=True)
    ]
    errors = found.errors.items()
    failed = {f"{file} {point + 1}": e for (file, point, who), e in errors if who == label}
    seeds = list(parts[0].plan.seeds)
    return Card(suite, label, entries, quick, seeds, failed, left_out, is_program)


def _cell(part: _Part, point: int, label: str) -> CellResult:
    case = next(c for c in part.plan.cases if (c.point, c.label) == (point, label))
    name = part.file.names[point] if part.file.names else _name(part.plan.points[point])
    return CellResult(
        part.group, part.file, point, name, dict(part.plan.points[point]), case.scenario.filled
    )


def _name(point: Mapping[str, str]) -> str:
    """The varied values, without the times of measuring, which follow from the others."""
    values = []
    for joined, value in point.items():
        pairs = zip(joined.split(JOINT_SEPARATOR), value.split(JOINT_SEPARATOR), strict=True)
        values.append(JOINT_SEPARATOR.join(v for k, v in pairs if k not in MEASURING))
    return ", ".join(values)


def _values(
    part: _Part, found: _Found, point: int, label: str, number: Number
) -> NDArray[np.float64]:
    """A number in all runs of a case, in the order of their seeds."""
    rows = found.tables.get((part.file.id, point, label), {})
    table = np.array([rows[seed] for seed in sorted(rows)]).reshape(len(rows), len(part.names))
    columns = [table[:, part.names.index(name)] for name in number.parts]
    values = columns[0]
    if len(columns) == 2:
        values = columns[0] / np.where(columns[1] == 0, np.nan, columns[1])
    return values if number.unknown is None else np.where(np.isnan(values), number.unknown, values)


__all__ = ["evaluate"]
