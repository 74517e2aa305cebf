"""Sweeps: the runs of many points, schemes and seeds, kept in a folder and resumed there."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop import extras
from lasthop.analysis import paired, statistics
from lasthop.errors import InputError
from lasthop.experiments import observing, parts, plan, stop_rule
from lasthop.experiments.case_runs import CaseRuns
from lasthop.experiments.chunks import CaseWork, Chunk, Finished
from lasthop.experiments.store import OTHER_INPUT, partial, row_texts, table, write_whole

if TYPE_CHECKING:
    import numpy.typing as npt

    from lasthop.experiments.plan import Plan
    from lasthop.experiments.stop_rule import StopRule

SCHEMA_VERSION = 1
DESCRIPTION = "sweep.json"
#: The files of a sweep beside its parts.
FILES = [DESCRIPTION, "scenario.toml", "runs.parquet", "table.parquet", "table.csv", "runs.csv"]
# CPU time of a chunk, in seconds: enough that its overhead is small, and little to lose. The last
# chunks are shorter, so that no worker waits long for another one.
CHUNK_S = (10.0, 60.0)
LAST_CHUNK_S = 1.0
# CPU time of a run without frames, for estimates.
RUN_OVERHEAD_S = 4e-4

#: A run: number of the case, and seed.
Run = tuple[int, int]
#: Runs: number of their case, and seeds.
Missing = tuple[int, Sequence[int]]


@dataclass(frozen=True)
class SweepCase:
    """A case as `sweep.json` describes it."""

    point: int
    set: Mapping[str, str]
    label: str
    key: str
    deterministic: bool
    #: True if processing times are drawn by seed.
    processing_times: bool = False

    @property
    def single_run(self) -> str | None:
        """What tables say in place of an interval; `None` if the case is random."""
        return plan.single_run(self.processing_times) if self.deterministic else None


@dataclass(frozen=True)
class Sweep:
    """What a sweep consists of. It is written to `sweep.json`, and suffices to read its parts."""

    cases: Sequence[SweepCase]
    #: All seeds that may be used; with a stop rule each point uses the first of them.
    seeds: range
    metrics: tuple[str, ...]
    until: StopRule | None
    first_round: int
    #: Everything else in the document: scenario, build, command, …
    about: Mapping[str, Any] = field(default_factory=dict)
    #: Number of this shard, from 1, and number of shards.
    shard: tuple[int, int] = (1, 1)

    @cached_property
    def id(self) -> str:
        """Digest of all runs of the sweep, the same for all its shards."""
        parts_ = [[c.point, c.label, c.key] for c in self.cases]
        rule = None if self.until is None else list(vars(self.until).values())
        what = [parts_, self.seeds.start, self.seeds.stop, self.first_round, rule, self.metrics]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]

    @cached_property
    def points(self) -> dict[int, list[int]]:
        """Numbers of the cases by point."""
        found: dict[int, list[int]] = {}
        for number, case in enumerate(self.cases):
            found.setdefault(case.point, []).append(number)
        return found

    @cached_property
    def number_of(self) -> dict[tuple[str, str], int]:
        """Number of a case by its key and label."""
        return {(c.key, c.label): n for n, c in enumerate(self.cases)}

    def has(self, point: int, seed: int) -> bool:
        """True if the runs of a point with this seed belong to this shard.

        With a stop rule whole points do, otherwise pairs of point and seed.
        """
        n = point if self.until is not None else point * len(self.seeds) + seed - self.seeds[0]
        return n % self.shard[1] == self.shard[0] - 1

    def to_dict(self) -> dict[str, Any]:
        """The document `sweep.json`."""
        until = self.until
        return {
            "schema_version": SCHEMA_VERSION,
            **self.about,
            "id": self.id,
            "shard": list(self.shard),
            "seeds": [self.seeds[0], self.seeds[-1]],
            "until": None
            if until is None
            else {"metric": until.metric, "half_width": until.half, "is_share": until.is_share},
            "first_round": self.first_round,
            "metrics": list(self.metrics),
            "cases": [
                {
                    "point": c.point,
                    "set": dict(c.set),
                    "label": c.label,
                    "key": c.key,
                    "deterministic": c.deterministic,
                    "processing_times": c.processing_times,
                }
                for c in self.cases
            ],
        }


_OWN_KEYS = {"schema_version", "id", "shard", "seeds", "until", "first_round", "metrics", "cases"}


def read(folder: Path) -> Sweep:
    """Read `sweep.json` of a folder; raises `InputError`."""
    path = folder / DESCRIPTION
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        until = found["until"]
        first, last = found["seeds"]
        return Sweep(
            [SweepCase(**case) for case in found["cases"]],
            range(first, last + 1),
            tuple(found["metrics"]),
            None if until is None else stop_rule.StopRule(*until.values()),
            found["first_round"],
            {k: v for k, v in found.items() if k not in _OWN_KEYS},
            (found["shard"][0], found["shard"][1]),
        )
    except OSError as error:
        raise InputError(
            f"{folder} is no folder of a sweep: {path.name}: {error.strerror}"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the description of a sweep: {error}") from None


def names_of(the_plan: Plan) -> tuple[str, ...]:
    """The metrics of a sweep, in the order of its files."""
    return tuple(observing.names_of(the_plan))


def describe(
    the_plan: Plan,
    *,
    until: StopRule | None,
    first_round: int,
    about: Mapping[str, Any],
    shard: tuple[int, int] = (1, 1),
) -> Sweep:
    """The sweep of a plan."""
    seeds = the_plan.seeds
    return Sweep(
        [
            SweepCase(
                point=c.point,
                set=dict(c.set),
                label=c.label,
                key=c.key,
                deterministic=not (the_plan.random and c.random),
                processing_times=c.scenario.draws_processing_times,
            )
            for c in the_plan.cases
        ],
        range(seeds[0], seeds[-1] + 1),
        names_of(the_plan),
        until,
        min(first_round, len(seeds)),
        about,
        shard,
    )


class Runs:
    """The finished runs of a sweep."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self._cases: dict[int, CaseRuns] = {}
        #: Number of runs that are finished and did not fail.
        self.finished = 0
        self.failed: dict[Run, str] = {}
        self._rounds: dict[int, int] = {}

    def load(self, folder: Path, clean: bool = True) -> Counter[str]:
        """Add the runs in the parts of a folder; returns the number left out, by reason.

        `clean` deletes unfinished files; it needs the lock of the folder.
        """
        left_out: Counter[str] = Counter()
        for part in parts.read(folder, self.sweep.metrics, left_out, clean=clean):
            rows: dict[int, list[int]] = {}
            for i, (key, scheme, seed) in enumerate(
                zip(part.keys, part.schemes, part.seeds, strict=True)
            ):
                case = self.sweep.number_of.get((key, scheme))
                if case is None or seed not in self.sweep.seeds:
                    left_out[OTHER_INPUT] += 1
                elif not part.errors[i]:  # failed runs are repeated
                    rows.setdefault(case, []).append(i)
            self._add(rows, part.seeds, part.values)
        return left_out

    def add(self, finished: Finished) -> None:
        """Add the runs of a chunk."""
        cases, seeds = np.array(finished.cases, dtype=np.int64), finished.seeds
        for i in [i for i, error in enumerate(finished.errors) if error]:
            self.failed[finished.cases[i], seeds[i]] = finished.errors[i]
            cases[i] = -1
        rows = {case: np.flatnonzero(cases == case) for case in set(cases.tolist()) - {-1}}
        if self.failed:
            for case, mine in rows.items():
                for i in mine.tolist():
                    self.failed.pop((case, seeds[i]), None)
        self._add(rows, seeds, finished.values)

    def _add(
        self,
        rows: Mapping[int, Sequence[int] | npt.NDArray[np.int64]],
        seeds: Sequence[int],
        values: npt.NDArray[np.float64],
    ) -> None:
        """Add runs; `rows` has the rows of each case."""
        all_seeds = np.array(seeds, dtype=np.int64)
        for case, mine in rows.items():
            self.finished += self._of(case).add(all_seeds[mine], values[mine])

    def _of(self, case: int) -> CaseRuns:
        if case not in self._cases:
            self._cases[case] = CaseRuns(self.sweep.seeds[0], len(self.sweep.metrics))
        return self._cases[case]

    def of_case(self, case: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The finished runs of a case: seeds in order, and a row of metrics each."""
        return self._of(case).ordered()

    def _has(self, case: int, seed: int) -> bool:
        """True if a run is finished or has failed in this call."""
        return seed in self._of(case) or (case, seed) in self.failed

    def _wanted_seeds(self, point: int) -> int:
        """Number of seeds that a point needs, as far as its finished rounds tell."""
        sweep, most = self.sweep, len(self.sweep.seeds)
        if sweep.until is None:
            return most
        runs = self._rounds.get(point, sweep.first_round)
        while runs < most and self._complete(point, runs):
            following = stop_rule.next_round(sweep.until, runs, self._worst(point, runs), most)
            if following == runs:
                break
            runs = following
        self._rounds[point] = runs
        return runs

    def _complete(self, point: int, runs: int) -> bool:
        return all(
            self._has(case, seed)
            for case in self.sweep.points[point]
            for seed in self._seeds(case, runs)
        )

    def _seeds(self, case: int, runs: int) -> range:
        return self.sweep.seeds[: 1 if self.sweep.cases[case].deterministic else runs]

    def _worst(self, point: int, runs: int) -> float:
        """The largest factor by which an interval of a point is wider than the rule allows."""
        rule = self.sweep.until
        assert rule is not None
        column, worst = self.sweep.metrics.index(rule.metric), 0.0
        for case in self.sweep.points[point]:
            if self.sweep.cases[case].deterministic:
                continue
            seeds, values = self.of_case(case)
            wanted = seeds <= self._seeds(case, runs)[-1]
            s = statistics.summarise(values[wanted, column].tolist())
            if s.mean is None or s.ci95 is None:
                return math.inf
            worst = max(worst, rule.factor(s.mean, (s.ci95[1] - s.ci95[0]) / 2))
        return worst

    def _blocks(self) -> Iterator[tuple[int, int, range]]:
        """Point and case of this shard, and the seeds that the sweep needs, as far as finished
        rounds tell; without a stop rule those of other shards, too.
        """
        for point, cases in self.sweep.points.items():
            if self.sweep.until is not None and not self.sweep.has(point, 0):
                continue
            needed = self._wanted_seeds(point)
            for case in cases:
                yield point, case, self._seeds(case, needed)

    def _of_shard(self, point: int, seeds: Sequence[int]) -> Sequence[int]:
        """Those of the seeds of a block that belong to this shard."""
        if self.sweep.until is not None or self.sweep.shard == (1, 1):
            return seeds
        return [seed for seed in seeds if self.sweep.has(point, seed)]

    def wanted(self) -> int:
        """Number of runs of this shard that the sweep needs, as far as finished rounds tell."""
        return sum(len(self._of_shard(point, seeds)) for point, _, seeds in self._blocks())

    def missing(self) -> list[Missing]:
        """The runs that are wanted, but neither finished nor failed in this call."""
        found: list[Missing] = []
        for point, case, seeds in self._blocks():
            own = self._of_shard(point, self._of(case).missing(seeds))
            if self.failed:
                own = [seed for seed in own if (case, seed) not in self.failed]
            if own:
                found.append((case, own))
        return found


class Cutter:
    """Cuts runs into chunks of some CPU time; finished chunks correct the estimates.

    Without `chunk_s`, the CPU time of a chunk in seconds, it depends on what is left to do.
    """

    def __init__(
        self,
        the_plan: Plan,
        sweep: Sweep,
        names: Sequence[str],
        build: str,
        chunk_s: float | None = None,
    ) -> None:
        self._plan, self._sweep, self._build = the_plan, sweep, build
        self._chunk_s = chunk_s
        self._names = names  # schemes as on the command line, in the order of the labels
        self._scale = 1.0
        self._number = itertools.count(1)
        self._costs = [self._cost(c) for c in the_plan.cases]
        # What is to do, and what of it is in no chunk yet; to be multiplied by the scale.
        self._total = self._left = 0.0

    @staticmethod
    def _cost(case: plan.Case) -> float:
        rate = plan.PYTHON_FRAMES_PER_SECOND if case.python_rule else plan.FRAMES_PER_SECOND
        return RUN_OVERHEAD_S + case.scenario.estimated_frames / rate

    def begin(self, pending: Sequence[Missing]) -> None:
        """These are the runs that `cut` will get."""
        self._total = self._left = sum(self._costs[case] * len(seeds) for case, seeds in pending)

    def learn(self, chunk: Chunk, cpu_s: float) -> None:
        """Correct the estimate by a finished chunk."""
        expected = sum(self._costs[c.case] * len(c.seeds) for c in chunk.cases)
        if expected > 0 and cpu_s > 0:
            self._scale = 0.5 * self._scale + 0.5 * cpu_s / expected

    def cut(self, pending: list[Missing], workers: int) -> Chunk:
        """Remove the next chunk from `pending`, whose cases are in reverse order."""
        wanted_s = self._chunk_s or chunk_seconds(
            self._scale * self._total, self._scale * self._left, workers
        )
        spent, works = 0.0, list[CaseWork]()
        while pending and (not works or self._scale * spent < wanted_s):
            case, seeds = pending.pop()
            cost = self._costs[case]
            count = max(1, math.ceil((wanted_s / self._scale - spent) / cost))
            if count < len(seeds):
                pending.append((case, seeds[count:]))
                seeds = seeds[:count]
            works.append(self._work(case, tuple(seeds)))
            spent += cost * len(seeds)
        self._left -= spent
        return Chunk(next(self._number), self._build, self._sweep.metrics, tuple(works))

    def _work(self, case: int, seeds: tuple[int, ...]) -> CaseWork:
        found = self._plan.cases[case]
        return CaseWork(
            case,
            self._names[case % len(self._names)],
            found.source,
            found.key,
            seeds,
        )


def count_of(missing: Iterable[Missing]) -> int:
    """Number of runs."""
    return sum(len(seeds) for _, seeds in missing)


def part_of(finished: Finished, sweep: Sweep) -> parts.Part:
    """The runs of a chunk as the part to write."""
    keys, labels = [c.key for c in sweep.cases], [c.label for c in sweep.cases]
    return parts.Part(
        [keys[n] for n in finished.cases],
        [labels[n] for n in finished.cases],
        finished.seeds,
        finished.values,
        finished.errors,
    )


def write_description(folder: Path, sweep: Sweep) -> None:
    """Write `sweep.json`."""
    write_whole(folder / DESCRIPTION, json.dumps(sweep.to_dict(), indent=1) + "\n")


def write_tables(folder: Path, runs: Runs) -> list[Path]:
    """Write `runs.parquet`, `table.parquet` and `table.csv`, in the order of the sweep.

    Without the extra `tables`, the files are `runs.csv` and `table.csv`. Their bytes depend on the
    results alone, not on the order in which runs ended.
    """
    if not extras.is_installed("tables"):
        return _write_csv(folder, runs)
    # The matrix of all runs is in memory twice while its file is written, and so comes last.
    found = _table(runs)
    parts.write_parquet(found, folder / "table.parquet", statistics=False)
    write_whole(folder / "table.csv", found.write_csv().encode())
    parts.write_parquet(_runs_table(runs), folder / "runs.parquet", statistics=False)
    return [folder / n for n in ("runs.parquet", "table.parquet", "table.csv")]


def _runs_table(runs: Runs) -> Any:
    """One row per run, in the order of cases and seeds."""
    polars = parts.import_polars()
    sweep = runs.sweep
    blocks = list(_ordered_runs(runs))
    place = np.repeat(np.arange(len(blocks)), [len(seeds) for _, seeds, _, _ in blocks])

    def repeated(each: Iterable[object], dtype: Any) -> Any:
        """The value of each case, once per run."""
        return polars.Series(list(each), dtype=dtype).gather(place)

    cases = [sweep.cases[case] for case, _, _, _ in blocks]
    columns = {
        "point": repeated((c.point for c in cases), polars.Int64),
        **{k: repeated((c.set[k] for c in cases), polars.String) for k in sweep.cases[0].set},
        "scheme": repeated((c.label for c in cases), polars.String),
        "seed": polars.Series(np.concatenate([s for _, s, _, _ in blocks]), dtype=polars.Int64),
    }
    for i, name in enumerate(sweep.metrics):
        column = np.concatenate([values[:, i] for _, _, values, _ in blocks])
        columns[name] = _compact(polars.Series(name, column, nan_to_null=True))
    errors = [error for _, _, _, texts in blocks for error in texts]
    columns["error"] = polars.Series(errors, dtype=polars.String)
    return polars.select(**columns)


def _compact(column: Any) -> Any:
    """A column of a table; one value in all rows is stored once. Many metrics are unknown or zero
    in all runs.
    """
    polars = parts.import_polars()
    value = column[0] if len(column) else None
    alike = column.null_count() in (0, len(column)) and (value is None or (column == value).all())
    return polars.lit(value, dtype=polars.Float64) if len(column) and alike else column


def _ordered_runs(
    runs: Runs,
) -> Iterator[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float64], list[str | None]]]:
    """The runs of each case: its number, seeds in order, metrics and errors. A failed run has
    unknown metrics.
    """
    failed: dict[int, dict[int, str]] = {}
    for (case, seed), error in runs.failed.items():
        failed.setdefault(case, {})[seed] = error
    for case in range(len(runs.sweep.cases)):
        seeds, values = runs.of_case(case)
        own = failed.get(case, {})
        if own:
            unknown = np.full((len(own), values.shape[1]), math.nan)
            seeds = np.concatenate([seeds, np.array(list(own), dtype=np.int64)])
            order = np.argsort(seeds)
            seeds, values = seeds[order], np.concatenate([values, unknown])[order]
        errors: list[str | None] = [None] * len(seeds)
        if own:
            errors = [own.get(s) for s in seeds.tolist()]
        yield case, seeds, values, errors


def _write_csv(folder: Path, runs: Runs) -> list[Path]:
    """Write `runs.csv` and `table.csv`, which need no polars."""
    cases, names = runs.sweep.cases, list(runs.sweep.metrics)
    keys = list(cases[0].set)
    with partial(folder / "runs.csv") as temporary, open(temporary, "wb") as out:
        header = table(["point", *keys, "scheme", "seed", *names, "error"], [])
        out.write(header.encode(errors="surrogateescape"))
        for number, seeds, values, errors in _ordered_runs(runs):
            start = _start(cases[number])
            rows = zip(seeds.tolist(), row_texts(values), errors, strict=True)
            lines = [f"{start},{s},{n}{table(['', e or ''], [])}" for s, n, e in rows]
            out.write("".join(lines).encode(errors="surrogateescape"))
    lines = [table(["point", *keys, "scheme", "metric", *paired.TABLE_COLUMNS], [])]
    for case, found in _statistics(runs):
        start, texts = _start(case), row_texts(found)
        lines += [f"{start},{n},{numbers}\n" for n, numbers in zip(names, texts, strict=True)]
    write_whole(folder / "table.csv", "".join(lines))
    return [folder / "runs.csv", folder / "table.csv"]


def _start(case: SweepCase) -> str:
    """Point, varied values and scheme of a case as CSV."""
    return table([str(case.point), *case.set.values(), case.label], []).rstrip("\n")


def _statistics(runs: Runs) -> Iterator[tuple[SweepCase, npt.NDArray[np.float64]]]:
    """Each case with its rows of the table, point by point: statistics take several times the
    memory of their runs.
    """
    memory = statistics.ResampleMemory()
    for numbers in runs.sweep.points.values():
        found = paired.Statistics([_sample(runs, n) for n in numbers], runs.sweep.metrics, memory)
        for case in (runs.sweep.cases[n] for n in numbers):
            yield case, found.table_values(case.point, case.label)


def _sample(runs: Runs, number: int) -> paired.Sample:
    """The finished runs of a case."""
    case = runs.sweep.cases[number]
    seeds, values = runs.of_case(number)
    return paired.Sample(case.point, case.label, seeds.tolist(), values, case.deterministic)


def _table(runs: Runs) -> Any:
    """Statistics: one row per point, scheme and metric."""
    polars = parts.import_polars()
    sweep = runs.sweep
    cases, rows = zip(*_statistics(runs), strict=True)
    count = len(sweep.metrics)
    repeated = [c for c in cases for _ in range(count)]
    return polars.DataFrame(
        {
            "point": [c.point for c in repeated],
            **{k: [c.set[k] for c in repeated] for k in sweep.cases[0].set},
            "scheme": [c.label for c in repeated],
            "metric": list(sweep.metrics) * len(cases),
            **parts.numbers(np.concatenate(rows), paired.TABLE_COLUMNS),
        }
    )


def chunk_seconds(total_s: float, left_s: float, workers: int) -> float:
    """CPU time of the next chunk, in seconds; `left_s` of `total_s` are in no chunk yet.

    Each worker gets several chunks, within the limits of `CHUNK_S`; those at the end are shorter.
    """
    even = max(total_s / workers, 1e-9)
    whole = min(max(even / 8, CHUNK_S[0]), CHUNK_S[1])
    # With too little work for several chunks of full length, each worker gets a few short ones.
    return min(whole, even / 2, max(left_s / workers / 2, LAST_CHUNK_S))


def ids_differ(one: Sweep, other: Sweep) -> str:
    """What distinguishes two sweeps, as a phrase; empty if they are the same."""
    if one.id == other.id:
        return ""
    if one.about.get("build") != other.about.get("build"):
        return "they were made by different builds of lasthop"
    if [c.set for c in one.cases] != [c.set for c in other.cases]:
        return "they vary other keys or values"
    if [c.label for c in one.cases] != [c.label for c in other.cases]:
        return "they compare other schemes"
    if one.seeds != other.seeds or one.until != other.until or one.first_round != other.first_round:
        return "they use other seeds or another stop rule"
    return "they have other scenarios, traces or rules"


def folder_size(folder: Path) -> int:
    """Bytes of all parts in a folder."""
    return sum(os.stat(p).st_size for p in parts.files(folder))
