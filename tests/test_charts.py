"""Figures of comparisons: kinds, axes, panels, styles and words."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from fakes import CATALOGUE, FakeLoader
from layout import below_zero, faults, legends
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.text import Text

from lasthop.errors import InputError
from lasthop.experiments import chart_spec, plan
from lasthop.experiments.chart_spec import Chart
from lasthop.experiments.comparison import Comparison, compare
from lasthop.plotting import charts, kinds, points, styles

GOODPUT, DELAY = "goodput_bps", "one_way_delay_s_p95"
NAMES = [GOODPUT, DELAY, "radio_capacity_bps", "utilisation"]
LOSS = {"last_hop.loss": ["0.1 %", "1 %", "3 %"]}
RATE = {"last_hop.rate": ["1Mbps", "5Mbps", "20Mbps"]}
RTT = {"last_hop.rtt": ["20ms", "80ms", "200ms"]}
QUEUE = {"last_hop.queue": ['"250 packets"', '{discipline="codel"}', '{discipline="fq-codel"}']}
SCHEMES = ["cubic", "bbr", "reno", "newreno", "westwood+", "snoop"]
VARIED: dict[str, dict[str, list[str]]] = {
    "none": {},
    "one": LOSS,
    "category": QUEUE,
    "two": LOSS | QUEUE,
    "three": LOSS | RATE | RTT,
}


def value(job: plan.Job, metric: str) -> float:
    """A skewed value: most runs are near it, some are close to zero."""
    case = random.Random(f"{job.case.point} {job.case.label} {metric}").random()
    run = random.Random(f"{job.case.label} {metric} {job.seed}").random()
    rate = float((job.case.set.get("last_hop.rate") or "5Mbps").removesuffix("Mbps"))
    scale = {GOODPUT: rate * 1e6, DELAY: 0.4, "radio_capacity_bps": rate * 1e6}.get(metric, 1.0)
    if metric == "radio_capacity_bps":
        return scale
    return scale * case * (0.01 if run < 0.2 else 0.8 + 0.2 * run)


def compared(
    vary: dict[str, list[str]],
    schemes: Sequence[str] = SCHEMES,
    seeds: int = 12,
    value: Callable[[plan.Job, str], float | None] = value,
) -> Comparison:
    the_plan = plan.plan(plan.Source("x"), schemes, seeds, vary, version="1", loader=FakeLoader())
    return compare(
        the_plan, version="1", observe=lambda job, _: {n: value(job, n) for n in NAMES}, names=NAMES
    )


def texts(figure: Figure) -> list[str]:
    return [str(t.get_text()) for t in figure.findobj(Text) if t.get_text()]


def possible(kind: str, vary: str) -> bool:
    return vary != "none" or kind not in ("line", "heatmap")


more = pytest.mark.more("test_every_kind_has_a_valid_layout")


def marks_of(kind: str, vary: str, style: str) -> list[pytest.MarkDecorator]:
    """Many panels take seconds: the quick tests draw them in one style, and most in one kind."""
    if style != "ieee-column":
        return [pytest.mark.long] if vary in ("two", "three") else [more]
    return [more] if vary == "three" and kind != "line" else []


CASES = [
    pytest.param(kind, vary, style, marks=marks_of(kind, vary, style))
    for kind, vary, style in itertools.product(
        chart_spec.KINDS, VARIED, ("page", "ieee-column", "slides")
    )
    if possible(kind, vary)
]


@pytest.mark.parametrize(("kind", "vary", "style"), CASES)
def test_every_kind_has_a_valid_layout(kind: str, vary: str, style: str) -> None:
    with styles.use(style) as preset:
        figure = charts.draw(compared(VARIED[vary]), Chart(kind))
    assert faults(figure) == []
    assert below_zero(figure) == []
    assert figure.get_size_inches()[0] == preset.width_in
    assert figure.get_size_inches()[1] < 11
    assert not [t for t in texts(figure) if "{" in t or "discipline" in t or '="' in t]


@pytest.mark.parametrize("kind", [k for k in chart_spec.KINDS if k != "scatter"])
def test_several_metrics_have_rows_of_panels(kind: str) -> None:
    figure = charts.draw(compared(LOSS), Chart(kind, (GOODPUT, DELAY)))
    assert faults(figure) == []
    written = " ".join(texts(figure)).replace("\n", " ")
    assert "goodput (kbit/s)" in written
    assert "one-way delay, 95th percentile (ms)" in written


def test_three_keys_have_an_axis_rows_and_columns() -> None:
    figure = charts.draw(compared(LOSS | RATE | RTT), Chart())
    assert len(figure.axes) == 9
    assert [a.get_title() for a in figure.axes] == [
        "RTT: 20\N{NO-BREAK SPACE}ms",
        "RTT: 80\N{NO-BREAK SPACE}ms",
        "RTT: 200\N{NO-BREAK SPACE}ms",
        *[""] * 6,
    ]
    strips = [t.get_text() for a in figure.axes for t in a.texts]
    assert [s.replace("\N{NO-BREAK SPACE}", " ") for s in strips] == [
        "rate: 1 Mbit/s",
        "rate: 5 Mbit/s",
        "rate: 20 Mbit/s",
    ]
    limits = [a.get_ylim() for a in figure.axes]
    assert [len(set(limits[i : i + 3])) for i in (0, 3, 6)] == [1, 1, 1]
    assert limits[0][1] < limits[6][1] / 5, "each row has its own scale"
    assert "varied: loss, rate, RTT" in " ".join(texts(figure))


def test_rows_and_columns_can_be_chosen() -> None:
    result = compared(LOSS | RATE | RTT)
    figure = charts.draw(result, Chart("line", x="rate", rows="loss", columns="rtt"))
    assert figure.axes[-1].get_xlabel() == "rate (Mbit/s)"
    figure = charts.draw(result, Chart("line", x="rtt", rows="rate"))
    assert [a.get_title().split(":")[0] for a in figure.axes[:3]] == ["loss"] * 3


def test_a_fourth_key_has_its_first_value() -> None:
    figure = charts.draw(compared(LOSS | RATE | RTT | QUEUE, SCHEMES[:2]), Chart())
    assert len(figure.axes) == 9
    assert any("at rate: 1" in t for t in texts(figure))


def test_many_panels_of_one_key_wrap() -> None:
    values = {"tcp.min_rto": [f"{n} s" for n in range(1, 8)]}
    figure = charts.draw(compared(LOSS | values, SCHEMES[:2]), Chart())
    assert len(figure.axes) == 7
    assert faults(figure) == []
    assert figure.axes[0].get_title().startswith("min RTO: 1")


def test_few_runs_are_drawn_one_by_one() -> None:
    few, many = (charts.draw(compared(LOSS, SCHEMES[:2], n), Chart()) for n in (5, 12))
    assert [x.get_label() for x in few.axes[0].get_lines()].count("_run") == 2 * 5
    assert not few.axes[0].collections
    assert len(many.axes[0].collections) == 2
    assert "mean (thick) and single runs (thin), n = 5 runs" in texts(few)
    assert "mean and 95 % CI, n = 12 runs" in texts(many)
    bars = charts.draw(compared(LOSS, SCHEMES[:2], 5), Chart("bars"))
    assert sum(np.size(x.get_xdata()) for x in bars.axes[0].get_lines()) == 2 * 3 * 5


def test_bands_of_skewed_runs_stay_within_the_possible_values() -> None:
    def skewed(job: plan.Job, _: str) -> float:
        return 1e6 if job.seed == 1 else 1.0

    for kind in ("line", "bars", "scatter"):
        figure = charts.draw(compared(LOSS, SCHEMES[:2], 12, skewed), Chart(kind))
        assert below_zero(figure) == []
        assert figure.axes[0].get_ylim()[0] == 0
        assert kind != "scatter" or figure.axes[0].get_xlim()[0] >= 0


def test_bars_and_heat_maps_show_the_means() -> None:
    result = compared(LOSS, SCHEMES[:2])
    figure = charts.draw(result, Chart("bars"))
    scale = figure.axes[0].transData.inverted()
    heights = sorted(p.get_extents().transformed(scale).height for p in figure.axes[0].patches)
    means = [result.statistics(n, s, GOODPUT)["mean"] * 1e-3 for n in range(3) for s in SCHEMES[:2]]
    assert heights == pytest.approx(sorted(means))
    heat = charts.draw(result, Chart("heatmap"))
    shown: np.ndarray = np.ma.filled(np.ma.asarray(heat.axes[0].images[0].get_array()), np.nan)
    assert shown.ravel().tolist() == pytest.approx(
        [result.statistics(n, s, GOODPUT)["mean"] * 1e-3 for s in SCHEMES[:2] for n in range(3)]
    )


def test_colours_are_logarithmic_if_the_means_span_much() -> None:
    def is_logarithmic(ratio: float) -> bool:
        def first_is_larger(job: plan.Job, _: str) -> float:
            return ratio if job.case.label == SCHEMES[0] else 1.0

        result = compared(LOSS, SCHEMES[:2], 3, first_is_larger)
        image = charts.draw(result, Chart("heatmap")).axes[0].images[0]
        return isinstance(image.norm, LogNorm)

    assert is_logarithmic(25.0)
    assert not is_logarithmic(15.0)


def test_a_distribution_rises_from_zero_to_one() -> None:
    result = compared({}, SCHEMES[:2])
    lines = charts.draw(result, Chart("cdf")).axes[0].get_lines()
    for line, label in zip(lines, SCHEMES[:2], strict=True):
        x, y = (np.asarray(v, dtype=float) for v in line.get_data())
        assert y.tolist() == pytest.approx([i / 12 for i in range(13)])
        assert x[1:].tolist() == sorted(kinds.known_values(result, 0, label, GOODPUT))


def test_unknown_values_leave_a_panel_empty() -> None:
    def partly(job: plan.Job, metric: str) -> float | None:
        return None if job.case.set["last_hop.loss"] == "3 %" else value(job, metric)

    for kind in ("scatter", "cdf"):
        figure = charts.draw(compared(LOSS, SCHEMES[:2], 12, partly), Chart(kind))
        assert "no values" in texts(figure)
        assert faults(figure) == []
    for kind in ("line", "bars", "box", "heatmap"):
        assert faults(charts.draw(compared(LOSS, SCHEMES[:2], 12, partly), Chart(kind))) == []


@pytest.mark.parametrize(
    "kind",
    [
        "scatter",
        *(
            pytest.param(kind, marks=pytest.mark.more("test_all_schemes_of_the_catalogue"))
            for kind in ("bars", "box", "line", "heatmap")
        ),
    ],
)
def test_all_schemes_of_the_catalogue(kind: str) -> None:
    many = [*CATALOGUE]
    vary = LOSS if kind in ("line", "heatmap") else {}
    assert faults(charts.draw(compared(vary, many), Chart(kind))) == []


WRONG: list[tuple[Chart, str]] = [
    (Chart("pie"), "--plot: no kind 'pie'; there are line, bars, scatter, box, cdf, heatmap"),
    (Chart("bar"), "did you mean `bars`"),
    (Chart("line", ("goodpt",)), "--metric: no metric 'goodpt' .did you mean `goodput`.*.$"),
    (Chart("line", x="delay"), "--x: no varied key 'delay'; there are last_hop.loss, last_hop"),
    (Chart("scatter", x="loss"), "--x: no metric 'loss'; there are goodput_bps, "),
    (Chart("line", rows="loss"), "--rows: last_hop.loss is an axis already"),
    (Chart("line", rows="rate", columns="rate"), "--columns: last_hop.rate has the rows"),
    (Chart("bars", y="rate"), "--y: only kind heatmap"),
    (Chart("cdf", x="loss"), "--x: kind cdf has the metric as x axis"),
    (Chart("heatmap", y="loss"), "--y: last_hop.loss is the x axis already"),
    (Chart("heatmap", columns="rtt"), "--columns: the columns of this heat map are the schemes"),
    (Chart(schemes=("veno",)), "no scheme 'veno'"),
]


@pytest.mark.parametrize(("chart", "message"), WRONG)
def test_wrong_words_name_the_allowed_ones(chart: Chart, message: str) -> None:
    with pytest.raises(InputError, match=message):
        charts.draw(compared(LOSS | RATE | RTT, SCHEMES[:2], 2), chart)


def test_short_names_of_metrics() -> None:
    found = compared({}, SCHEMES[:2])
    chart = chart_spec.resolve(Chart("scatter", ("goodput",), x="delay"), found.plan, found.metrics)
    assert (chart.metrics, chart.x) == (("goodput_bps",), "one_way_delay_s_p95")


def test_kinds_that_need_a_key_or_few_schemes() -> None:
    with pytest.raises(InputError, match="kind line needs a varied key"):
        charts.draw(compared({}), Chart("line"))
    with pytest.raises(InputError, match="kind box shows at most 7 schemes"):
        charts.draw(compared(LOSS, [*CATALOGUE], 2), Chart("box"))
    for name, check in (("styl", styles.check), ("gif", lambda n: styles.check_formats([n]))):
        with pytest.raises(InputError, match=r"there are (page|svg), "):
            check(name)


def test_journals_have_neither_title_nor_caption() -> None:
    for style, titles in (("page", True), ("ieee-column", False), ("acm-page", False)):
        with styles.use(style):
            shown = texts(charts.draw(compared(LOSS, SCHEMES[:2]), Chart()))
        assert ("mean and 95 % CI, n = 12 runs" in shown) == titles
        assert any(t.startswith("fake") for t in shown) == titles
    assert styles.current().name == styles.DEFAULT


def test_axes_of_the_caller(tmp_path: Path) -> None:
    own = Figure(figsize=(8, 3))
    left, right = own.subplots(1, 2)
    result = compared(LOSS, SCHEMES[:2])
    assert result.plot(ax=left) is own
    assert result.plot(kind="box", metrics=DELAY, ax=right) is own
    assert left.get_lines()
    assert right.get_ylabel().replace("\n", " ") == "one-way delay, 95th percentile (ms)"
    with pytest.raises(InputError, match="the figure has 3 panels, found 2 axes"):
        compared(LOSS | RTT, SCHEMES[:2]).plot(ax=[left, right])
    figure = result.plot(tmp_path / "f.pdf", style="ieee-column")
    assert figure.get_size_inches()[0] == 3.5
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")


def test_results_are_short_in_a_notebook() -> None:
    result = compared(LOSS | RATE, SCHEMES)
    assert len(repr(result)) < 200
    assert "216 runs" not in repr(result)
    assert repr(result) == "<Comparison fake: 6 schemes, 9 points, 648 of 648 runs>"
    assert result._repr_html_().count("<tr>") == 1 + 9 * 6


def test_a_legend_names_the_schemes_once() -> None:
    for kind in ("line", "bars", "box", "cdf"):
        assert legends(charts.draw(compared(LOSS), Chart(kind))) == SCHEMES


def test_an_interval_is_clipped(tmp_path: Path) -> None:
    assert points.clip_to_bounds("utilisation", 0.8, 1.1) == (0.8, 1.0)
    result = compared(LOSS, SCHEMES[:2])
    files = result.write(tmp_path, ["lasthop", "compare", "x y"], style="ieee-column")
    assert {f.name for f in files} >= {"figure.pdf", "figure.png", "figure.txt"}
    caption = (tmp_path / "figure.txt").read_text()
    for part in ("n = 12 runs", "95 %", "seeds: 1 to 12", "command: lasthop compare 'x y'"):
        assert part in caption
    assert "loss = 0.1 %, 1 %, 3 %" in caption.replace("\N{NO-BREAK SPACE}", " ")


def test_files_drawn_side_by_side_are_those_drawn_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saved(folder: str, start: Callable[..., int | None]) -> list[bytes]:
        monkeypatch.setattr(styles, "_start", start)
        files = [tmp_path / folder / f"figure.{kind}" for kind in ("svg", "png", "pdf")]
        files[0].parent.mkdir()
        styles.save(charts.draw(compared(LOSS), Chart("line")), files)
        assert sorted(p.name for p in files[0].parent.iterdir()) == [
            "figure.pdf",
            "figure.png",
            "figure.svg",
        ]
        return [file.read_bytes() for file in files]

    aside = styles._start
    in_turn = saved("turn", lambda *_: None)
    assert saved("aside", aside) == in_turn

    def fails(figure: Figure, file: Path) -> int | None:
        # A process that cannot write leaves the file to the first one.
        return aside(figure, file.parent / "none" / file.name)

    assert saved("fails", fails) == in_turn
