"""Paired comparisons: runs the plan and computes statistics."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop import extras
from lasthop.analysis import metrics, paired
from lasthop.errors import Abandoned, InputError, traceback_outside
from lasthop.experiments import blocks, observing, parts, pool
from lasthop.experiments.blocks import Block
from lasthop.experiments.observing import Finished, Observe
from lasthop.experiments.plan import Case, Job, Plan
from lasthop.experiments.pool import Cancel, Outcome
from lasthop.experiments.store import (
    Row,
    Store,
    matrix,
    row_texts,
    table,
)
from lasthop.progress import Progress
from lasthop.renderers import renderer
from lasthop.scenarios import outputs

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lasthop.analysis.verdict import Verdict
    from lasthop.experiments.chart_spec import Chart
    from lasthop.experiments.recorder import Recorder
    from lasthop.scenarios import experiment

# The files of a comparison in the folder of `--out`.
FILES = [
    *("runs.csv", "runs.previous.csv", "runs.parquet", "table.csv", "scenario.toml"),
    *("command.txt", "comparison.json", "figure.txt", "figure.svg", "figure.png", "figure.pdf"),
]

# Version of the JSON document, see `lasthop schema compare`.
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class JudgedFigure:
    """The figure of a scenario file, the verdicts about its claims, and what its runs recorded."""

    figure: experiment.Figure
    verdicts: list[Verdict]
    modified: bool
    recorder: Recorder


@dataclass(repr=False)
class Comparison:
    """The finished runs of a plan, with statistics."""

    plan: Plan
    rows: list[Row]
    version: str
    #: Names of the metrics, in the order of the files.
    metrics: Sequence[str]
    #: True if it ended early; `rows` then has the finished runs.
    interrupted: bool = False
    #: What `plot` and `write` draw; `None` for the figure of the file.
    chart: Chart | None = None
    #: The `[plot]` and the `[[claim]]` of the scenario file, if it has any.
    figure: JudgedFigure | None = None

    @cached_property
    def _table(self) -> dict[tuple[int, str], tuple[list[int], NDArray[np.float64]]]:
        """The finished runs of each case: seeds in order, and a row of metrics each."""
        by_case: dict[tuple[int, str], list[Row]] = {
            (c.point, c.label): [] for c in self.plan.cases
        }
        for row in self.rows:
            if not row.error:
                by_case[row.case.point, row.case.label].append(row)
        for rows in by_case.values():
            rows.sort(key=attrgetter("seed"))
        width = len(self.metrics)
        return {
            place: ([r.seed for r in rows], matrix(rows) if rows else np.empty((0, width)))
            for place, rows in by_case.items()
        }

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.metrics)}

    @property
    def failed(self) -> list[Row]:
        """Runs that ended with an error."""
        return [r for r in self.rows if r.error]

    @cached_property
    def _cases(self) -> dict[tuple[int, str], Case]:
        return {(c.point, c.label): c for c in self.plan.cases}

    def deterministic(self, point: int, label: str) -> bool:
        """True if a case has a single run, because others differ by processing times at most."""
        return not (self.plan.random and self._cases[(point, label)].random)

    def single_run(self, point: int, label: str) -> str | None:
        """What tables say of a deterministic case in place of an interval; `None` of others."""
        fixed = self.deterministic(point, label)
        return self._cases[(point, label)].single_run if fixed else None

    def values(self, point: int, label: str, metric: str) -> list[float | None]:
        """A metric of all finished runs of a case, in the order of seeds."""
        found = self._sample(point, label, [metric]).values[:, 0]
        return [None if math.isnan(x) else x for x in found.tolist()]

    def statistics_of(self, metric: str) -> paired.Statistics:
        """The statistics that include a metric; a metric that files do not have is added."""
        names = tuple(self.metrics) if metric in self.metrics else (metric,)
        if names not in self._cache:
            samples = [self._sample(c.point, c.label, names) for c in self.plan.cases]
            self._cache[names] = paired.Statistics(samples, names)
        return self._cache[names]

    @cached_property
    def _cache(self) -> dict[tuple[str, ...], paired.Statistics]:
        return {}

    def _sample(self, point: int, label: str, names: Sequence[str]) -> paired.Sample:
        """The finished runs of a case."""
        seeds, values = self._table[(point, label)]
        if tuple(names) != tuple(self.metrics):
            unknown = np.full(len(seeds), math.nan)
            columns = [self._columns.get(name) for name in names]
            values = np.stack([unknown if c is None else values[:, c] for c in columns], axis=1)
        return paired.Sample(point, label, seeds, values, self.deterministic(point, label))

    def pairs(
        self, point: int, left: str, right: str, metric: str, other: int | None = None
    ) -> tuple[list[float | None], list[float | None]]:
        """A metric of two schemes for the seeds that both finished.

        The right scheme is taken at the point `other`, if given. A deterministic run is paired with
        each run of a random partner.
        """
        one = self._sample(point, left, [metric])
        _, a, b = paired.pair(one, self._sample(point if other is None else other, right, [metric]))
        known = ([None if math.isnan(x) else float(x) for x in side[:, 0]] for side in (a, b))
        return next(known), next(known)

    def statistics(self, point: int, label: str, metric: str) -> dict[str, Any]:
        """Mean, standard deviation and 95 % CI of a metric, and its comparison with the first
        scheme.
        """
        return self.statistics_of(metric).of(point, label, metric)

    def groups(self, case: Case) -> list[dict[str, Any]]:
        """The groups of flows of a case: name, number of flows, and statistics.

        The statistics are mean, standard deviation and 95 % CI of each of `metrics.GROUP_METRICS`.
        """
        of_group = {name: (role, scheme) for name, role, scheme in case.scenario.group_roles}
        found = []
        for name, flows in case.scenario.groups:
            role, scheme = of_group[name]
            about = {"name": name, "flows": flows, "role": role, "scheme": scheme or None}
            found.append({**about, **self._group_statistics(case, f"groups.{name}")})
        return found

    def roles(self, case: Case) -> list[dict[str, Any]]:
        """The same for all flows of each role."""
        role_of = {name: role for name, role, _ in case.scenario.group_roles}
        flows: dict[str, int] = {}
        for name, count in case.scenario.groups:
            flows[role_of[name]] = flows.get(role_of[name], 0) + count
        return [
            {"role": role, "flows": n, **self._group_statistics(case, f"roles.{role}")}
            for role, n in flows.items()
        ]

    def _group_statistics(self, case: Case, part: str) -> dict[str, Any]:
        numbers = {}
        for key in metrics.GROUP_METRICS:
            s = self.statistics(case.point, case.label, f"{part}.{key}")
            numbers[key] = {k: s[k] for k in ("mean", "sd", "ci95")}
        return numbers

    def to_dict(self) -> dict[str, Any]:
        """The object that `lasthop compare --json` prints."""
        points = []
        for number_, point in enumerate(self.plan.points):
            schemes = []
            for case in (c for c in self.plan.cases if c.point == number_):
                schemes.append(
                    {
                        "label": case.label,
                        "name": case.name,
                        "settings": dict(case.settings),
                        "slots": list(case.scenario.slots),
                        "warnings": list(case.scenario.warnings),
                        **({"needs": dict(case.needs)} if case.needs else {}),
                        "assumed": list(case.scenario.assumed),
                        "deterministic": self.deterministic(case.point, case.label),
                        "processing_times": case.scenario.draws_processing_times,
                        "runs": len(self._table[(case.point, case.label)][0]),
                        **{
                            m: self.statistics_of(m).full(case.point, case.label, m)
                            for m in self.metrics
                            if not m.startswith(("groups.", "roles."))
                        },
                        **({"groups": self.groups(case)} if self.plan.groups else {}),
                        **({"roles": self.roles(case)} if self.plan.roles else {}),
                    }
                )
            points.append({"set": dict(point), "schemes": schemes})
        return {
            "schema_version": SCHEMA_VERSION,
            "lasthop": self.version,
            "scenario": self.plan.title,
            "scenario_sha256": self.plan.sha256,
            "seeds": list(self.plan.seeds),
            "assumed": [f"{at}: {line}" if at else line for at, line in self.plan.assumed],
            "points": points,
            **({"claims": [v.to_dict() for v in self.verdicts]} if self.verdicts else {}),
            "failed": [
                {"point": r.case.point, "scheme": r.case.label, "seed": r.seed, "error": r.error}
                for r in self.failed
            ],
        }

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts about the claims of the scenario file."""
        return self.figure.verdicts if self.figure is not None else []

    @property
    def runs(self) -> polars.DataFrame:
        """One row per run."""
        extras.require("tables")
        import polars

        rows = self.rows
        values = matrix(rows) if rows else np.empty((0, len(self.metrics)))
        columns: dict[str, Any] = {
            "point": [r.case.point for r in rows],
            **{k: [r.case.set[k] for r in rows] for k in self.plan.vary},
            "scheme": [r.case.label for r in rows],
            "seed": [r.seed for r in rows],
            **parts.numbers(values, self.metrics),
            "error": [r.error or None for r in rows],
        }
        numbers = dict.fromkeys(self.metrics, polars.Float64)
        varied = dict.fromkeys(self.plan.vary, polars.String)
        schema = {
            "point": polars.Int64,
            **varied,
            "scheme": polars.String,
            "seed": polars.Int64,
            **numbers,
            "error": polars.String,
        }
        return polars.DataFrame(columns, schema=schema)

    @property
    def table(self) -> polars.DataFrame:
        """One row per point, scheme and metric: mean, 95 % CI, ratio to the first scheme."""
        extras.require("tables")
        import polars

        return polars.read_csv(self.table_csv().encode(), infer_schema_length=None)

    def to_pandas(self) -> pandas.DataFrame:
        """`runs` as a data frame of pandas, indexed by varied keys, scheme and seed."""
        from lasthop.analysis import frames

        keys = list(self.plan.vary)
        found, _ = frames.with_numbers(self.runs.drop("point"), keys)
        return frames.to_pandas(found, frames.dimensions(keys))

    def to_xarray(self) -> xarray.Dataset:
        """The metrics of all runs as a dataset of xarray.

        Its dimensions are the varied keys, the scheme and the seed.
        """
        from lasthop.analysis import frames

        keys = list(self.plan.vary)
        found, units = frames.with_numbers(self.runs.drop("point", "error"), keys)
        about = {"scenario": self.plan.title, "lasthop": self.version}
        return frames.to_xarray(found, frames.dimensions(keys), about, units)

    def table_csv(self) -> str:
        """`table` as CSV."""
        header = ["point", *self.plan.vary, "scheme", "metric", *paired.TABLE_COLUMNS]
        lines = [table(header, [])]
        names = [table([metric], []).rstrip("\n") for metric in self.metrics]
        for case in self.plan.cases:
            found = self.statistics_of(self.metrics[0]).table_values(case.point, case.label)
            start = table([str(case.point), *case.set.values(), case.label], []).rstrip("\n")
            lines += [
                f"{start},{name},{numbers}\n"
                for name, numbers in zip(names, row_texts(found), strict=True)
            ]
        return "".join(lines)

    def plot(
        self,
        file: str | Path | None = None,
        *,
        kind: str = "",
        metrics: str | Sequence[str] = (),
        x: str = "",
        y: str = "",
        rows: str = "",
        columns: str = "",
        style: str = "",
        ax: Any = None,
    ) -> Figure:
        """Draw the comparison; by default the figure of its file, or else goodput against delay
        or, with varied keys, goodput against the first key.

        `kind` is line, bars, scatter, box, cdf or heatmap. `metrics` names one or several metrics.
        `x` is a varied key (for a scatter plot a metric), `y` the second key of a heat map, `rows`
        and `columns` are the keys of rows and columns of panels. `style` names a preset of
        `plotting.styles`. `ax` are axes of matplotlib to draw into, one for each panel. `file`
        (.svg, .png or .pdf), if given, is written. Raises `InputError` for unknown words.
        """
        extras.require("plots")
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        words = {"kind": kind, "metrics": names, "x": x, "y": y, "rows": rows, "columns": columns}
        figure: Figure = renderer("comparison: figure")(self, file, words, style=style, ax=ax)
        return figure

    def write(
        self,
        folder: str | Path,
        command: Sequence[str],
        *,
        figure: bool = True,
        style: str = "",
        formats: Sequence[str] = (),
    ) -> list[Path]:
        """Write all files except `runs.csv`, which the runs wrote, to `folder`; return all
        files.

        Without `figure`, only tables are written. `style` names a preset, whose formats are
        written unless `formats` is given.
        """
        files: list[Path] = renderer("comparison: files")(
            self, folder, command, figure=figure, style=style, formats=formats
        )
        return files

    def __repr__(self) -> str:
        title = self.plan.title if len(self.plan.title) < 60 else f"{self.plan.title[:59]}…"
        return (
            f"<Comparison {title}: {len(self.plan.labels)} schemes, {len(self.plan.points)} points,"
            f" {len(self.rows)} of {self.plan.size()} runs>"
        )

    def _repr_html_(self) -> str:
        shown: str = renderer("comparison: notebook")(self)
        return shown

    def __str__(self) -> str:
        text: str = renderer("comparison: text")(self)
        return text


def check_folder(folder: Path, plan: Plan) -> None:
    """Raise `InputError` if a file that `Comparison.write` writes is an input of the plan."""
    outputs.check(outputs.in_folder("--out", folder, FILES), plan.inputs)


def compare(
    plan: Plan,
    *,
    version: str,
    out: Path | None = None,
    cancel: Cancel | None = None,
    workers: int | None = None,
    observe: Observe | None = None,
    names: Sequence[str] | None = None,
    report: Callable[[str], None] = lambda _: None,
    what: str = "runs",
) -> Comparison:
    """Do the runs of a plan that `out` does not have yet.

    `names` are the metrics to keep; by default all, with those of each group of flows if there are
    several groups. `observe` does one run, for metrics that need more than its result; without it,
    blocks of runs are done without the interpreter. `report` gets the traceback of each failed run.
    `what` names the progress line.
    """
    names = observing.names_of(plan) if names is None else list(names)
    if out is not None:
        check_folder(out, plan)
    store = Store(out, plan, names) if out is not None else None
    rows: list[Row] = list(store.rows.values()) if store else []
    workers = workers or pool.cores()
    has = store.has if store is not None and store.rows else None
    todo = list(blocks.blocks(plan, has, workers, 1 if observe else blocks.MAX_RUNS))

    def work(block: Block) -> Finished:
        if observe is None:
            return observing.run_seeds(
                block.case.scenario, block.case.solo, block.seeds, names, cancel
            )
        found = observe(Job(block.case, block.seeds[0]), cancel)
        return Finished(observing.row(found, names)[np.newaxis], [None])

    with Progress(what, sum(len(b.seeds) for b in todo)) as progress:

        def done(block: Block, outcome: Outcome[Finished]) -> None:
            new = _rows(block, outcome, len(names), report)
            rows.extend(new)
            if store is not None:
                store.add(new)
            progress.step(len(new))

        try:
            complete = pool.run_jobs(todo, work, done, cancel=cancel, workers=workers)
        except Abandoned:
            if store is None:
                raise
            store.close()
            raise Abandoned(
                f"{len(rows)} of {plan.size()} runs are saved in {store.path}; repeat the command"
                " to continue"
            ) from None
        except BaseException:
            if store is not None:
                store.close()
            raise
    place = {(c.point, c.label): i for i, c in enumerate(plan.cases)}
    rows.sort(key=attrgetter("seed"))
    rows.sort(key=lambda row: place[row.case.point, row.case.label])
    if store is not None:
        store.finish(rows)
    return Comparison(plan, rows, version, names, interrupted=not complete)


def _rows(
    block: Block, outcome: Outcome[Finished], metrics: int, report: Callable[[str], None]
) -> list[Row]:
    """A row per run of a block; the metrics of failed runs are unknown."""
    if isinstance(outcome.error, InputError):
        raise outcome.error
    found = outcome.value
    if found is None:
        unknown = np.full((len(block.seeds), metrics), math.nan)
        found = Finished(unknown, [outcome.error] * len(block.seeds))
    rows = []
    for index, (seed, error) in enumerate(zip(block.seeds, found.errors, strict=False)):
        text = "" if error is None else _failed(block.case, seed, error, report)
        rows.append(Row(block.case, seed, found.values, index, text))
    return rows


def _failed(case: Case, seed: int, error: BaseException, report: Callable[[str], None]) -> str:
    """Report a failed run with its traceback; returns its error as one line."""
    where = traceback_outside(error) or "".join(traceback.format_exception(error))
    report(f"run {seed} of {case.label} failed:\n{where}")
    text = "".join(traceback.format_exception_only(error)).strip()
    return text or type(error).__name__


def point_of(plan: Plan, at: Mapping[str, str]) -> int:
    """Number of the point with all settings in `at`; raises `InputError` if there is none."""
    for number_, point in enumerate(plan.points):
        if all(point.get(k) == v for k, v in at.items()):
            return number_
    raise InputError(
        f"no point of the comparison has {', '.join(f'{k} = {v}' for k, v in at.items())}"
    )


__all__ = ["Case", "Comparison", "compare", "point_of"]
