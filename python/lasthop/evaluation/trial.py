"""Does the runs of the suite and makes the cards of the candidates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.errors import InputError, traceback_outside
from lasthop.evaluation import judge
from lasthop.evaluation.card import Card, CellResult, Entry
from lasthop.evaluation.suite import CellFile, Number, Suite
from lasthop.experiments import blocks, observing, plan, pool
from lasthop.experiments.blocks import Block
from lasthop.experiments.observing import Finished
from lasthop.experiments.plan import JOINT_SEPARATOR, Case, Plan
from lasthop.experiments.pool import Outcome
from lasthop.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lasthop.own_schemes import Scheme

    #: Runs of a case: a row per seed, a column per metric.
    Table = dict[int, NDArray[np.float64]]


#: Keys that say when something is measured.
MEASURING = ("duration", "measure.from")


@dataclass(frozen=True)
class _Part:
    """The runs of one file of the suite."""

    group: str
    file: CellFile
    plan: Plan
    names: tuple[str, ...]


def evaluate(
    suite: Suite,
    schemes: Sequence[Scheme],
    *,
    quick: bool = False,
    jobs: int | None = None,
    only: Sequence[str] = (),
    report: Callable[[str], None] = lambda _: None,
) -> list[Card]:
    """The cards of these schemes; `only` names groups or files ("harm", "safety/overload").

    Raises `InputError` for a scheme that a scenario refuses, and KeyboardInterrupt.
    """
    from lasthop import _native

    parts = [_part(suite, g.id, f, schemes, quick) for g, f in _files(suite, only)]
    cancel = _native.CancelToken()
    workers = jobs or pool.cores()
    tables: dict[tuple[str, int, str], Table] = {}
    todo = [
        (part, block)
        for part in parts
        for block in blocks.blocks(part.plan, lambda _: False, workers)
    ]
    # The longest first, so that no core waits for the last one.
    todo.sort(key=lambda t: -t[1].case.scenario.estimated_frames * len(t[1].seeds))
    errors: dict[tuple[str, int, str], str] = {}

    def work(item: tuple[_Part, Block]) -> Finished:
        part, block = item
        return observing.run_seeds(
            block.case.scenario, block.case.solo, block.seeds, part.names, cancel
        )

    with Progress("runs", sum(len(b.seeds) for _, b in todo)) as progress:

        def done(item: tuple[_Part, Block], outcome: Outcome[Finished]) -> None:
            part, block = item
            place = (part.file.id, block.case.point, block.case.label)
            if isinstance(outcome.error, InputError):
                raise outcome.error
            found = outcome.value
            failures = [outcome.error] if found is None else [e for e in found.errors if e]
            for error in failures:
                if error is not None and place not in errors:
                    errors[place] = f"{type(error).__name__}: {error}"
                    where = traceback_outside(error) or errors[place]
                    report(f"{part.file.id}: a run of {block.case.label} failed:\n{where}")
            rows = () if found is None else zip(block.seeds, found.values, strict=False)
            tables.setdefault(place, {}).update(rows)
            progress.step(len(block.seeds))

        if not pool.run_jobs(todo, work, done, cancel=cancel, workers=workers):
            raise KeyboardInterrupt("the card needs all runs")
    labels = _candidates(parts[0].plan, suite, schemes)
    return [_card(suite, parts, tables, errors, label, quick) for label in labels]


def _files(suite: Suite, only: Sequence[str]) -> Iterator[tuple[Any, CellFile]]:
    found = False
    for group in suite.groups:
        for file in group.files:
            if not only or group.id in only or group.letter in only or file.id in only:
                found = True
                yield group, file
    if not found:
        raise InputError(f"--only: there is no group and no cell {', '.join(only)}")


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


def _candidates(the_plan: Plan, suite: Suite, schemes: Sequence[Scheme]) -> list[str]:
    """The labels of the schemes under trial, in the order given."""
    wanted = [s for i, s in enumerate(schemes) if s not in schemes[:i]]
    by_scheme = [(c.scheme, c.label) for c in the_plan.cases if c.point == 0]
    return [next(label for scheme, label in by_scheme if scheme == s) for s in wanted]


def _card(
    suite: Suite,
    parts: Sequence[_Part],
    tables: Mapping[tuple[str, int, str], Table],
    errors: Mapping[tuple[str, int, str], str],
    label: str,
    quick: bool,
) -> Card:
    measured: list[judge.Measured] = []
    places: list[tuple[_Part, int, Number, dict[str, float | None]]] = []
    for part in parts:
        points = range(len(part.plan.points))
        for point, number in itertools.product(points, part.file.numbers):
            runs = {
                case.label: _values(part, case, tables, number)
                for case in part.plan.cases
                if case.point == point
            }
            base = runs[suite.baseline] if number.limit is None else np.array([number.limit])
            measured.append(judge.measure(number, runs[label], base))
            means = {name: judge.mean_of(values) for name, values in runs.items()}
            places.append((part, point, number, means))
    verdicts = judge.judge(measured)
    entries = [
        Entry(_cell(part, point, label), number, means, verdict)
        for (part, point, number, means), verdict in zip(places, verdicts, strict=True)
    ]
    failed = {f"{file} {point + 1}": e for (file, point, who), e in errors.items() if who == label}
    return Card(suite, label, entries, quick, list(parts[0].plan.seeds), failed)


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
    part: _Part, case: Case, tables: Mapping[tuple[str, int, str], Table], number: Number
) -> NDArray[np.float64]:
    """A number in all runs of a case, in the order of their seeds."""
    rows = tables.get((part.file.id, case.point, case.label), {})
    table = np.array([rows[seed] for seed in sorted(rows)]).reshape(len(rows), len(part.names))
    columns = [table[:, part.names.index(name)] for name in number.parts]
    found = columns[0]
    if len(columns) == 2:
        found = columns[0] / np.where(columns[1] == 0, np.nan, columns[1])
    return found if number.unknown is None else np.where(np.isnan(found), number.unknown, found)


__all__ = ["evaluate"]
