"""Figures of the papers: each is a comparison with a plot and claims."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.experiments import chart_spec, description, observing, plan, pool
from lasthop.experiments.chart_spec import Chart
from lasthop.experiments.comparison import Comparison, JudgedFigure, compare
from lasthop.experiments.figure_result import FigureResult, inputs_of
from lasthop.experiments.observing import Observe
from lasthop.experiments.plan import Case, Loader, Plan, Scheme, Source
from lasthop.experiments.pool import Cancel
from lasthop.experiments.recorder import Record, Recorder, record
from lasthop.experiments.store import Row, write_whole, writing
from lasthop.reproduction import claims
from lasthop.scenarios import experiment, outputs
from lasthop.scenarios.experiment import DEFAULT_SEEDS, Figure

QUICK_SEEDS = 3
#: End of the name of a figure's table of statistics.
TABLE = ".table.csv"


@dataclass(frozen=True)
class Options:
    """The options of `reproduce`."""

    also: Sequence[Scheme] = ()
    seeds: int | None = None
    settings: Sequence[tuple[str, str]] = ()
    quick: bool = False

    @property
    def modified(self) -> bool:
        """True if schemes or settings differ from those of the figure file; `seeds` does not
        count.
        """
        return bool(self.also or self.settings)

    @property
    def changes(self) -> list[str]:
        """What differs: "KEY = VALUE" for each setting, and "also SCHEME"."""
        names = [x if isinstance(x, str) else x.__name__ for x in self.also]
        return [*(f"{k} = {v}" for k, v in self.settings), *(f"also {name}" for name in names)]


def figure_plan(
    figure: Figure, options: Options, *, version: str, loader: Loader = plan.load
) -> Plan:
    """The plan of a figure."""
    where = Source(figure.text, str(figure.path), tuple(options.settings))
    wanted = figure.experiment
    if figure.plot is not None and figure.plot.vectors:
        return _vector_plan(figure, where, loader)
    seeds = options.seeds or (QUICK_SEEDS if options.quick else wanted.seeds or DEFAULT_SEEDS)
    schemes = [*wanted.schemes, *options.also]
    the_plan = plan.plan(
        where, schemes, seeds, wanted.vary, own=wanted.settings, version=version, loader=loader
    )
    plan.check_needs(the_plan, wanted.settings)
    return the_plan


def _vector_plan(figure: Figure, where: Source, loader: Loader) -> Plan:
    """The plan of a figure with test vectors: one case per vector, and no runs."""
    assert figure.plot is not None
    base = loader(where, None)
    cases = []
    for vector in figure.plot.vectors:
        scenario = loader(where, vector.scheme)
        entry = scenario.scheme
        cases.append(Case(0, {}, vector.id, entry["name"], entry["settings"], scenario, vector.id))
    return Plan(base.title, "", base.filled, {}, [1], cases, random=False)


class InComparison:
    """The `[plot]` and the `[[claim]]` of the scenario file of a comparison.

    A `chart` takes the place of `[plot]`. The claims of a modified scenario are measured but not
    judged. With `series`, the measures of time series are taken. Raises `InputError` if the figure
    does not go with the plan.
    """

    def __init__(
        self,
        figure: Figure,
        the_plan: Plan,
        chart: Chart | None,
        modified: bool,
        *,
        series: bool = False,
    ) -> None:
        self.chart = chart
        self.modified = modified
        drawn = figure.plot
        if drawn is not None and (chart is not None or drawn.kind == "vectors"):
            drawn = None
        if drawn is not None and modified and drawn.kind in experiment.CHARTS:
            drawn = _without_missing(drawn, the_plan)
        # A claim about a scheme or a point that the options took away is left out.
        self.figure = replace(
            figure,
            plot=drawn,
            claims=() if modified or _is_vectors(figure) else figure.claims,
        )
        more = (*chart.metrics, chart.x) if chart is not None else ()
        series = series or any(m in metrics.SERIES_METRICS for m in more)
        more = (*more, *the_plan.counters)
        self.recorder = Recorder(
            self.figure, duration(the_plan), record, more, harm=True, measured=series
        )
        names = observing.names_of(the_plan, series=series)
        self.names = list(dict.fromkeys([*names, *self.recorder.names]))
        option = "--" if chart is not None else "[plot] "
        if chart_spec.draws_chart(self.figure):
            chosen = chart or chart_spec.of_plot(self.figure.plot)
            chart_spec.resolve(chosen, the_plan, self.names, option)

    @property
    def observe(self) -> Observe | None:
        """Does one run and returns its metrics; `None` if no events of a run are needed."""
        return self.recorder.observe

    def attach(self, comparison: Comparison, cancel: Cancel | None) -> None:
        """Judge the claims of a finished comparison, and let it draw the figure."""
        comparison.chart = self.chart
        if self.figure.plot is None and not self.figure.claims:
            return
        self.recorder.add_samples(comparison.rows, cancel)
        verdicts = [claims.judge(c, comparison) for c in self.figure.claims]
        comparison.figure = JudgedFigure(self.figure, verdicts, self.modified, self.recorder)


def _is_vectors(figure: Figure) -> bool:
    return figure.plot is not None and figure.plot.kind == "vectors"


def _without_missing(spec: experiment.Plot, the_plan: Plan) -> experiment.Plot | None:
    """The plot of a comparison with other schemes or keys; `None` if its keys are not varied."""
    keys = [k for k in (spec.rows, spec.columns) if k]
    keys += [spec.x] if spec.x and experiment.CHARTS[spec.kind] != "scatter" else []
    keys += [spec.y] if spec.y and spec.y != "scheme" else []
    known = all(any(v == k or v.endswith(f".{k}") for v in the_plan.vary) for k in keys)
    needs_key = experiment.CHARTS[spec.kind] in ("line", "heatmap")
    if not known or (needs_key and not the_plan.vary):
        return None
    shown = tuple(label for label in spec.schemes if label in the_plan.labels)
    return replace(spec, schemes=shown, references=())


def reproduce_figure(
    figure: Figure,
    options: Options,
    *,
    version: str,
    cancel: Cancel | None = None,
    workers: int | None = None,
    loader: Loader = plan.load,
    record: Record = record,
    answer: Callable[[str, Sequence[str]], list[str]] | None = None,
    limit_s: float = plan.DEFAULT_LIMIT_S,
    report: Callable[[str], None] = lambda _: None,
) -> FigureResult:
    """Reproduce one figure: do its runs and judge its claims."""
    from lasthop.experiments import chart_spec

    the_plan = figure_plan(figure, options, version=version, loader=loader)
    plan.check_run_time(the_plan, workers or pool.cores(), limit_s)
    recorder = Recorder(figure, duration(the_plan), record)
    if chart_spec.draws_chart(figure):
        chart_spec.resolve(chart_spec.of_plot(figure.plot), the_plan, recorder.names, "[plot] ")
    answers: list[tuple[str, list[str]]] = []
    if figure.plot is not None and figure.plot.vectors:
        answers = [(v.id, (answer or _answer)(v.scheme, v.packets)) for v in figure.plot.vectors]
        expected = {v.id: v.expect for v in figure.plot.vectors}
        rows = []
        for case in the_plan.cases:
            given = dict(answers)[case.label]
            agree = sum(a == b for a, b in zip(given, expected[case.label], strict=True)) / len(
                given
            )
            rows.append(Row(case, 1, np.array([[agree]])))
        comparison = Comparison(the_plan, rows, version, ["agreement"])
    else:
        comparison = compare(
            the_plan,
            version=version,
            cancel=cancel,
            workers=workers,
            observe=recorder.observe,
            names=recorder.names,
            report=report,
            what=figure.id,
        )
    result = FigureResult(
        figure, comparison, [], options.modified, recorder, [], answers, options.changes
    )
    if comparison.interrupted:
        return result
    result.verdicts = [
        claims.judge(c, comparison, modified=options.modified) for c in figure.claims
    ]
    return result


def _answer(scheme: str, packets: Sequence[str]) -> list[str]:
    from lasthop import _native

    return _native.agent_answers(scheme, list(packets))


def duration(the_plan: Plan) -> float:
    """Simulated seconds, from the filled-in scenario."""
    return quantities.seconds(tomllib.loads(the_plan.filled).get("duration"), "duration")


def check_outputs(figure: Figure, options: Options, version: str, out: Path) -> None:
    """Raise `InputError` if a file that `write` writes is an input of the figure.

    Those of the papers are in the package.
    """
    if figure.path.is_relative_to(experiment.FOLDER):
        return
    base = out / figure.id
    ends = (".svg", ".png", ".pdf", ".csv", TABLE, ".txt", ".md", ".json")
    files = outputs.in_folder("--out", base.parent, [base.with_suffix(e).name for e in ends])
    files += outputs.in_folder("--out", out, ["index.md", "index.html"])
    the_plan = figure_plan(figure, options, version=version)
    outputs.check(files, inputs_of(figure, the_plan))


def write(
    result: FigureResult,
    out: Path,
    *,
    style: str = "",
    formats: Sequence[str] = (),
    command: Sequence[str] = (),
) -> None:
    """Write plot, caption, table and page of a figure to the folder `out`.

    `style` names a preset, whose formats are written unless `formats` is given.
    """
    from lasthop.plotting import captions, paper_figure, plot_text, styles
    from lasthop.reproduction import report

    base = out / result.id
    with writing(base.parent):
        base.parent.mkdir(parents=True, exist_ok=True)
    files = []
    with styles.use(style) as preset:
        drawing = paper_figure.draw(result)
        if drawing is not None:
            pictures = [base.with_suffix(f".{f}") for f in formats or preset.formats]
            styles.save(drawing, pictures)
            files += pictures
    if not result.answers:
        write_whole(base.with_suffix(".csv"), result.comparison.runs.write_csv())
        write_whole(base.with_suffix(TABLE), result.comparison.table_csv())
        files += [base.with_suffix(".csv"), base.with_suffix(TABLE)]
        kind = (
            chart_spec.of_plot(result.figure.plot).kind
            if chart_spec.draws_chart(result.figure)
            else "line"
        )
        drawn = plot_text.caption(result.comparison, kind=kind or "line")
        caption = captions.text(result.comparison, drawn, command, title=result.title)
        write_whole(base.with_suffix(".txt"), caption)
        files.append(base.with_suffix(".txt"))
    page, described = base.with_suffix(".md"), base.with_suffix(".json")
    result.files = [str(f.relative_to(out)) for f in [*files, described, page]]
    write_whole(described, description.text(_described(result, command)))
    write_whole(page, report.page(result))


def _described(result: FigureResult, command: Sequence[str]) -> dict[str, Any]:
    """What FIGURE.json says: the comparison, what the figure shows, and its claims."""
    spec = result.figure.plot
    chart = chart_spec.of_plot(spec)
    return {
        **description.document(result.comparison, command),
        "id": result.id,
        "title": result.title,
        "modified": result.modified,
        "about": spec.about if spec is not None else "",
        "kind": spec.kind if spec is not None else "",
        "plot": {"kind": chart.kind, "metrics": list(chart.metrics), "x": chart.x},
        "labels": dict(spec.labels) if spec is not None else {},
        "claims": description.claims(result.verdicts),
        "files": result.files,
    }
