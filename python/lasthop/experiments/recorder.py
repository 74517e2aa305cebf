"""Does the runs of a figure and keeps what its plot and its claims need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lasthop import quantities
from lasthop.analysis import metrics, schemas
from lasthop.errors import InputError
from lasthop.experiments import observing, pool
from lasthop.experiments.observing import Observe
from lasthop.experiments.plan import Job
from lasthop.experiments.pool import Cancel, Outcome
from lasthop.experiments.store import Metrics, Row
from lasthop.scenarios import experiment
from lasthop.scenarios.experiment import Figure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lasthop._native import Run

# Does one run and records these kinds of events; returns the result of the run and the columns.
Record = Callable[[Job, Sequence[str], Cancel | None], "tuple[Run, dict[str, Any]]"]
Samples = dict[tuple[int, str, int], dict[str, "NDArray[np.float64]"]]


def record(job: Job, kinds: Sequence[str], cancel: Cancel | None) -> tuple[Run, dict[str, Any]]:
    """Do one run and record its events."""
    scenario: Any = job.case.scenario
    found: tuple[Run, dict[str, Any]] = scenario.run_series(job.seed, list(kinds), cancel)
    return found


def _check_part(name: str, where: str) -> None:
    """Raise `InputError` if flows, links or groups of flows have no such number in any run."""
    for one in name.split(metrics.RATIO):
        kind, _, key = metrics.split(one)
        if kind in ("flows", "links"):
            known = schemas.numbers_of(kind)
        elif kind in ("groups", "roles"):
            known = list(metrics.GROUP_METRICS)
        else:
            continue
        if key not in known:
            hint = quantities.did_you_mean(key, known) or f"; they have {', '.join(known)}"
            raise InputError(f"{where}: no metric {one!r}: {kind} have no {key!r}{hint}")


class Recorder:
    """Does the runs of a figure: metrics, measures for the claims, and samples of the plotted
    series.

    `more` names further metrics; those that are parts of a run become columns.
    """

    def __init__(
        self,
        figure: Figure,
        duration_s: float,
        record: Record,
        more: Sequence[str] = (),
        *,
        harm: bool = False,
        measured: bool = False,
    ) -> None:
        import numpy as np

        from lasthop.analysis import series, transients

        self.figure = figure
        self.record = record
        shown = (
            figure.plot.show
            if figure.plot is not None and figure.plot.kind in ("series", "sequence")
            else ()
        )
        if figure.plot is not None and figure.plot.kind == "distribution":
            shown = ("delay",)
        if shown:
            series.check_names(shown, f"{figure.path}: [plot] show")
        for claim in figure.claims:
            known = [*metrics.METRICS, *series.MEASURES, "agreement"]
            if claim.metric not in known and not metrics.is_part(claim.metric):
                raise InputError(
                    f"{figure.path}: claim {claim.id}: metric"
                    f" {claim.metric!r}{quantities.did_you_mean(claim.metric, known)}"
                )
        chart = figure.plot is not None and figure.plot.kind in experiment.CHARTS
        drawn = [*(figure.plot.show if figure.plot is not None and chart else ()), *more]
        if figure.plot is not None and metrics.is_part(figure.plot.x):
            drawn.append(figure.plot.x)
        self.parts = list(
            dict.fromkeys(
                m for m in [*drawn, *(c.metric for c in figure.claims)] if metrics.is_part(m)
            )
        )
        for part in self.parts:
            _check_part(part, str(figure.path))
        #: True if harm to other flows is computed, which needs a run without the candidates.
        self.harm = harm
        self.shown = shown
        #: True if the measures of `transients` are taken, which need events.
        self.measured = measured
        needed = series.events_needed(shown, figure.claims)
        self.kinds = sorted({*needed, *(transients.KINDS if measured else ())})
        self.range = (figure.plot.range if figure.plot else None) or (0.0, duration_s)
        self.grid = np.linspace(*self.range, series.POINTS)
        self.samples: Samples = {}
        self.raw: dict[tuple[int, str], Any] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def names(self) -> list[str]:
        """Columns of the table of runs."""
        from lasthop.analysis import series

        return [
            *metrics.METRICS,
            *self.parts,
            *dict.fromkeys(c.column for c in self.figure.claims if c.metric in series.MEASURES),
        ]

    def __call__(self, job: Job, cancel: Cancel | None) -> Metrics:
        """Do one run and record its events."""
        from lasthop.analysis import series, transients

        solo = observing.solo_run(job.case.solo, job.seed, cancel) if self.harm else None
        run, columns = self.record(job, self.kinds, cancel)
        events = series.Events.of(self.kinds, columns)
        found = observing.of_run(run, solo, self.parts) | series.measure(events, self.figure.claims)
        if self.measured:
            found |= transients.of_run(self.kinds, columns, run)
        seed = self.figure.plot.seed if self.figure.plot is not None else None
        with self._lock:
            if seed is None:
                sampled = {
                    s: series.sample(events, s, self.grid)
                    for s in self.shown
                    if s not in ("sequence", "delay")
                }
                if "delay" in self.shown:
                    sampled["delay"] = series.delays(events)
                self.samples[(job.case.point, job.case.label, job.seed)] = sampled
            if job.seed == (seed or 1) or not job.case.random:
                self.raw[(job.case.point, job.case.label)] = events
        return found

    @property
    def observe(self) -> Observe | None:
        """Does one run; `None` if no events of a run are needed."""
        return self if self.kinds else None

    def add_samples(self, rows: Sequence[Row], cancel: Cancel | None = None) -> None:
        """Repeat the stored runs `rows` whose series are drawn; their metrics are known already."""
        spec = self.figure.plot
        if spec is None or not self.shown:
            return
        seed = 1 if spec.show == ("sequence",) else spec.seed
        todo = [
            Job(r.case, r.seed)
            for r in rows
            if not r.error
            and (r.seed == seed or not r.case.random or seed is None)
            and (r.case.point, r.case.label, r.seed) not in self.samples
            and (seed is None or (r.case.point, r.case.label) not in self.raw)
        ]

        def done(_: Job, outcome: Outcome[Metrics]) -> None:
            if outcome.error is not None:
                raise outcome.error

        if not pool.run_jobs(todo, lambda job: self(job, cancel), done, cancel=cancel):
            raise KeyboardInterrupt
