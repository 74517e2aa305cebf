"""The layout of all plots."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fakes import CATALOGUE, FakeLoader, run_json
from layout import default_figure, faults, scatter
from matplotlib.text import Text

import lasthop
from lasthop import _native
from lasthop.experiments import plan
from lasthop.experiments.comparison import Comparison, compare
from lasthop.experiments.figure_result import FigureResult
from lasthop.experiments.recorder import Recorder
from lasthop.plotting import paper_figure, plots
from lasthop.reproduction import figures
from lasthop.reproduction.figures import Options
from lasthop.scenarios import experiment

SCALE = {"_bps": 1e6, "_s": 1.0, "_share": 1.0, "_ratio": 1.0, "jain": 1.0, "accuracy": 1.0}


def made_up(job: plan.Job, metric: str) -> float:
    """A value in the order of magnitude of the metric; it depends on the case and a little on
    the run.
    """
    scale = next((size for end, size in SCALE.items() if end in metric), 30.0)
    case = random.Random(f"{job.case.point} {job.case.label} {metric}").random()
    return (
        scale * case * (0.9 + 0.1 * random.Random(f"{job.case.label} {metric} {job.seed}").random())
    )


def record(job: plan.Job, kinds: Sequence[str], _: Any) -> tuple[_native.Run, dict[str, Any]]:
    """Events of all kinds with oscillating values, one every 50 ms for 100 s."""
    t = np.arange(1, 2001) * 50_000_000
    chance = np.random.default_rng(job.seed)
    number = len(t) * len(kinds)
    event = np.repeat(np.arange(len(kinds)), len(t))
    seq = np.tile(1000 * np.arange(len(t)), len(kinds))
    value = 5000.0 + 4000 * np.sin(seq / 9e4) + chance.random(number) * 900
    columns = {
        "t_ns": np.tile(t, len(kinds)) + event * 1_000_000,
        "event": event,
        "seq": seq,
        "ack": seq,
        "value": value,
    }
    columns |= {k: np.full(number, 1 if k == "link" else 0) for k in ("flow", "link")} | {
        "len": np.full(number, 1000)
    }
    run = run_json(1e6, job.case.label, job.seed)
    return _native.Run.from_json(json.dumps(run)), {**columns, "data_radio": 1}


def with_made_up_values(figure: experiment.Figure) -> FigureResult:
    """A shipped figure with fake values instead of a simulation."""
    the_plan = figures.figure_plan(figure, Options(seeds=2), version=_native.version())
    recorder = Recorder(figure, figures.duration(the_plan), record)

    def observe(job: plan.Job, cancel: Any) -> dict[str, float | None]:
        if recorder.kinds:
            recorder(job, cancel)
        return {name: made_up(job, name) for name in recorder.names}

    vectors = figure.plot.vectors if figure.plot is not None else ()
    answers = [(v.id, list(v.expect)) for v in vectors]
    result = (
        Comparison(the_plan, [], "1", [])
        if vectors
        else compare(the_plan, version="1", observe=observe, names=recorder.names)
    )
    return FigureResult(figure, result, [], False, recorder, answers=answers)


def kind_of_plot(figure: experiment.Figure) -> tuple[object, ...]:
    """What the layout depends on: the paper, the kind of plot and the number of varied keys."""
    kind = None if figure.plot is None else figure.plot.kind
    return figure.id.split("/")[0], kind, len(figure.experiment.vary)


def one_of_each_kind() -> list[Any]:
    """All shipped figures: one of each kind of plot, then those of another paper with this kind;
    the others are for the long tests.
    """
    seen: set[tuple[object, ...]] = set()
    found = []
    for figure in experiment.figures(experiment.all_ids()):
        of_paper, of_any = kind_of_plot(figure), kind_of_plot(figure)[1:]
        marks: list[pytest.MarkDecorator] = []
        if of_paper in seen:
            marks = [pytest.mark.long]
        elif of_any in seen:
            marks = [pytest.mark.more("test_every_shipped_figure_has_a_valid_layout")]
        seen |= {of_paper, of_any}
        found.append(pytest.param(figure, marks=marks, id=figure.id))
    return found


@pytest.mark.parametrize("figure", one_of_each_kind())
def test_every_shipped_figure_has_a_valid_layout(figure: experiment.Figure) -> None:
    drawing = paper_figure.draw(with_made_up_values(figure))
    assert drawing is not None
    assert faults(drawing, zoomed=figure.plot is not None and figure.plot.kind == "series") == []


@pytest.mark.long
@pytest.mark.parametrize("name", experiment.all_ids())
def test_shipped_figures_have_a_valid_layout_with_measured_values(name: str) -> None:
    figure = lasthop.reproduce(name, quick=True).figures[0]
    drawing = paper_figure.draw(figure)
    assert drawing is not None
    assert (
        faults(
            drawing, zoomed=figure.figure.plot is not None and figure.figure.plot.kind == "series"
        )
        == []
    )


SCHEMES = ["reno", "newreno", "sack", "snoop", "cubic", "bbr", "packet-control:dupack_threshold=12"]
LOSS, RATE = (
    {"last_hop.loss": ["0 %", "0.1 %", "1 %"]},
    {"last_hop.rate": ["1 Mbps", "5 Mbps", "20 Mbps"]},
)
QUEUE = {
    "last_hop.queue": [
        "250 packets",
        '{discipline="codel"}',
        '{ discipline = "fq-codel", packets = 1000 }',
    ]
}
VARIED = {
    "scatter": {},
    "one key": LOSS,
    "two keys": LOSS | RATE,
    "three keys": LOSS | RATE | QUEUE,
    "categories": QUEUE,
    "a category per panel": LOSS | QUEUE,
    "five panels": LOSS | {"tcp.min_rto": ["0.2 s", "0.5 s", "1 s", "2 s", "4 s"]},
}


def compared(
    vary: dict[str, list[str]],
    schemes: list[str],
    value: Callable[[plan.Job, str], float] = made_up,
    seeds: int = 4,
) -> Comparison:
    the_plan = plan.plan(plan.Source("x"), schemes, seeds, vary, version="1", loader=FakeLoader())
    names = ["goodput_bps", "one_way_delay_s_p95", "radio_capacity_bps"]
    return compare(
        the_plan, version="1", observe=lambda job, _: {n: value(job, n) for n in names}, names=names
    )


more = [pytest.mark.more("test_default_plots_have_a_valid_layout")]


@pytest.mark.parametrize(
    ("name", "schemes"),
    [
        pytest.param(name, schemes, id=f"{name}-{size}", marks=more if size == "many" else [])
        for name, vary in VARIED.items()
        for size, schemes in (("few", SCHEMES), ("many", [*CATALOGUE, *SCHEMES[-1:]]))
        # Many schemes over two keys are drawn as over one, with more panels.
        if size == "few" or len(vary) <= 1
    ],
)
def test_default_plots_have_a_valid_layout(name: str, schemes: list[str]) -> None:
    vary = VARIED[name]
    drawing = default_figure(compared(vary, schemes))
    assert faults(drawing) == []
    assert drawing.get_size_inches()[0] == plots.WIDTH_IN


@pytest.mark.parametrize("spread", [1e-9, 0.02, 0.3])
def test_labels_of_close_points_do_not_overlap(spread: float) -> None:
    def near(job: plan.Job, metric: str) -> float:
        return (
            1e6 * (1 + spread * made_up(job, metric))
            if metric.endswith("bps")
            else 0.1 + spread * made_up(job, metric)
        )

    figure = scatter(compared({}, SCHEMES, near))
    assert faults(figure) == []
    named = [t.get_text() for t in figure.axes[0].texts]
    assert set(SCHEMES) <= set(named)


def test_shared_limits_include_all_columns() -> None:
    """The values of the first column are a tenth of the others, which its limits would clip."""

    def rising(job: plan.Job, metric: str) -> float:
        return float(job.case.set.get("last_hop.rate", "1 Mbps").split()[0]) * made_up(job, metric)

    figure = default_figure(compared(LOSS | RATE, SCHEMES[:2], rising))
    assert faults(figure) == []
    assert len({a.get_ylim() for a in figure.axes}) == 1


def test_panels_are_wrapped_into_rows_and_columns() -> None:
    figure = default_figure(compared(LOSS | RATE | QUEUE, SCHEMES[:2]))
    places = sorted(
        {(round(a.get_position().y0, 3), round(a.get_position().x0, 3)) for a in figure.axes}
    )
    assert len(figure.axes) == len(places) == 9
    titles = [a.get_title().replace("\N{NO-BREAK SPACE}", " ") for a in figure.axes]
    assert titles == [
        "queue: 250 packets",
        "queue: codel",
        "queue: fq-codel,\npackets 1000",
        *[""] * 6,
    ]


def _words(text: Text) -> str:
    return str(text.get_text()).replace("\n", " ").replace("\N{NO-BREAK SPACE}", " ")


def test_no_line_joins_categories() -> None:
    figure = default_figure(compared(QUEUE, SCHEMES[:2], seeds=12))
    assert {str(line.get_linestyle()) for line in figure.axes[0].get_lines()} == {"None"}
    assert [_words(t) for t in figure.axes[0].get_xticklabels()] == [
        "250 packets",
        "codel",
        "fq-codel, packets 1000",
    ]
    joined = default_figure(compared(LOSS, SCHEMES[:2]))
    assert "None" not in {str(line.get_linestyle()) for line in joined.axes[0].get_lines()}


def test_the_caption_explains_the_intervals() -> None:
    for vary in ({}, LOSS):
        figure = default_figure(compared(vary, SCHEMES[:3], seeds=12))
        assert "mean and 95 % CI, n = 12 runs" in [t.get_text() for t in figure.findobj(Text)]


def test_intervals_are_clipped_to_possible_values() -> None:
    """Skewed runs have a t interval far below zero or, for a share, above 1."""
    assert plots.clip_to_bounds("goodput_bps", -3.0, 5.0) == (0.0, 5.0)
    assert plots.clip_to_bounds("utilisation", 0.8, 1.1) == (0.8, 1.0)
    assert plots.clip_to_bounds("flows.tcp.goodput_bps", -1.0, 1.0) == (0.0, 1.0)

    def skewed(job: plan.Job, _: str) -> float:
        return 1e6 if job.seed == 1 else 1.0

    figure = default_figure(compared(LOSS, SCHEMES[:2], skewed, seeds=12))
    lows = [
        np.asarray(p.vertices, dtype=float)[:, 1].min()
        for c in figure.axes[0].collections
        for p in c.get_paths()
    ]
    assert lows
    assert min(lows) >= 0
    assert figure.axes[0].get_ylim()[0] == 0
