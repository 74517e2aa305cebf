from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import CATALOGUE, SECTIONS, FakeLoader
from hypothesis import given
from hypothesis import strategies as st
from layout import default_figure, scatter
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from lasthop.experiments import plan
from lasthop.experiments.comparison import Comparison, compare
from lasthop.plotting import many_scheme_plots, plots
from lasthop.tables import summary

LONG = "packet-control:dupack_threshold=12:sender=(reno:recovery=newreno)"
EVERYBODY = [*CATALOGUE, LONG, "MyOwnRule"]
LOSS = {"link.radio.loss.rate": ["0 %", "0.5 %", "1 %", "2 %", "5 %"]}
LOG = {"link.radio.rate": ["100 kbps", "1 Mbps", "10 Mbps"]}
MANY = {"link.radio.rate": [f"{n}000 kbps" for n in range(1, 30)]}
LONG_WORDS = {
    "link.radio.queue": [
        "{ packets = 20 }",
        "{ packets = 40 }",
        "{ packets = 80 }",
        "{ packets = 160 }",
    ]
}
WORDS = {"tcp.profile": ["rfc", "ns-2.35"]}
LONG_KEY = {"link.radio.forward.loss.rate": ["0 %", "12.5 %"]}


def compared(
    value: Callable[[str, int, str], float],
    vary: dict[str, list[str]] | None = None,
    schemes: list[str] = EVERYBODY,
) -> Comparison:
    the_plan = plan.plan(plan.Source("x"), schemes, 3, vary, version="1", loader=FakeLoader())

    def observe(job: plan.Job, _: Any) -> dict[str, float | None]:
        goodput = value(job.case.label, job.seed, next(iter(job.case.set.values()), ""))
        return {
            "goodput_bps": goodput,
            "one_way_delay_s_p95": 0.1 + goodput * 1e-7,
            "radio_capacity_bps": 2e6,
        }

    return compare(
        the_plan,
        version="1",
        observe=observe,
        names=["goodput_bps", "one_way_delay_s_p95", "radio_capacity_bps"],
    )


def scattered(label: str, seed: int, at: str) -> float:
    chance = random.Random(f"{label} {at}")
    return 1e6 * chance.random() + 1e4 * random.Random(f"{label} {at} {seed}").gauss()


def all_alike(_label: str, seed: int, _at: str) -> float:
    return 1.5e6 + seed


def names(axes: Axes) -> list[tuple[str, Bbox]]:
    figure = axes.get_figure(root=True)
    assert figure is not None
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    return [(t.get_text(), t.get_window_extent(renderer)) for t in axes.texts]


def check(figure: Figure, panels: int) -> None:
    figure.draw_without_rendering()
    assert len(figure.axes) == panels
    assert figure.get_size_inches()[0] == plots.WIDTH_IN
    titles = [
        t
        for a in figure.axes
        for t in a.get_children()
        if isinstance(t, Text) and t.get_text() == a.get_title(loc="left")
    ]
    assert len(titles) == panels
    extents = [t.get_window_extent() for t in titles]
    assert all(e.x1 <= figure.bbox.x1 for e in extents), "a title runs off the page"
    assert not any(a.overlaps(b) for a, b in itertools.combinations(extents, 2)), "titles overlap"
    beside = [a.yaxis.label.get_window_extent() for a in figure.axes if a.get_ylabel()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(beside, 2)), (
        "labels of axes overlap"
    )
    for axes in figure.axes:
        inside = axes.get_window_extent()
        found = names(axes)
        for text, box in found:
            assert inside.x0 <= box.x0 < box.x1 <= inside.x1, text
            assert inside.y0 <= box.y0 < box.y1 <= inside.y1, text
        for (a, one), (b, other) in itertools.combinations(found, 2):
            assert not one.overlaps(other), f"{a} and {b}"
        ticks = [
            t.get_window_extent()
            for t in [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
            if t.get_text()
        ]
        assert len(ticks) > 1 or axes not in figure.axes[-2:]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(ticks, 2)), (
            "numbers below the axis overlap"
        )
        right = axes.transData.transform(axes.dataLim.get_points())[1][0]
        assert all(right < box.x0 for _, box in found), "a name stands where something is drawn"
        assert axes.get_ylim()[0] <= axes.dataLim.y0 <= axes.dataLim.y1 <= axes.get_ylim()[1]
        assert axes.get_ylim() == figure.axes[0].get_ylim()
        assert axes.get_xlim() == figure.axes[0].get_xlim()


CASES = {
    "scatter": (scattered, {}),
    "scatter, all alike": (all_alike, {}),
    "loss": (scattered, LOSS),
    "loss, all alike": (all_alike, LOSS),
    "logarithmic": (scattered, LOG),
    "many values": (scattered, MANY),
    "words": (scattered, WORDS),
    "long words": (scattered, LONG_WORDS),
}


# All schemes take seconds to draw.
QUICK = ("long words",)
MORE = ("scatter, all alike", "many values", "loss")


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    if name in MORE:
        return [pytest.mark.more("test_one_panel_per_group_without_overlapping_names")]
    return [] if name in QUICK else [pytest.mark.long]


@pytest.mark.parametrize(
    ("value", "vary"),
    [pytest.param(*case, marks=marks_of(name), id=name) for name, case in CASES.items()],
)
def test_one_panel_per_group_without_overlapping_names(
    value: Callable[[str, int, str], float], vary: dict[str, list[str]]
) -> None:
    figure = default_figure(compared(value, vary))
    check(figure, len(SECTIONS) + 1)
    assert (
        figure.get_size_inches()[1] < 13.5
    )  # nine groups are five rows: more than a page of A4, which is 11.7 high
    assert [a.get_title(loc="left") for a in figure.axes] == [
        "loss recovery",
        "reordering and delay spikes",
        "bandwidth estimation",
        "delay and loss discrimination",
        "explicit notification",
        "today's",
        "link layer",
        "split",
        "own schemes",
    ]
    for axes in figure.axes[-2:] if vary in (WORDS, LONG_WORDS) else ():
        shown = [t.get_text() for t in axes.get_xticklabels()]
        assert shown == (
            WORDS["tcp.profile"]
            if vary == WORDS
            else ["packets 20", "packets 40", "packets 80", "packets 160"]
        )
    written = [text for axes in figure.axes for text, _ in names(axes) if text != "reno"]
    assert sorted(written) == sorted(
        many_scheme_plots.wrap_label(x) for x in EVERYBODY if x != "reno"
    )


def test_reno_is_grey_in_every_panel() -> None:
    for axes in default_figure(compared(scattered, LOSS)).axes:
        grey = [line for line in axes.get_lines() if line.get_label() == "reno"]
        assert [to_hex(str(line.get_color())) for line in grey] == [plots.GREY]
        assert "reno" in [text for text, _ in names(axes)]


def test_without_reno_the_first_scheme_is_the_reference() -> None:
    result = compared(scattered, LOSS, [x for x in EVERYBODY if x != "reno"])
    assert result.plan.reference == "tahoe"
    assert all("tahoe" in [text for text, _ in names(a)] for a in default_figure(result).axes)


def test_large_groups_are_split() -> None:
    result = compared(scattered, LOSS, ["reno", *(f"Mine{i}" for i in range(20))])
    figure = default_figure(result)
    check(figure, 3)
    assert [a.get_title(loc="left") for a in figure.axes] == [
        f"own schemes ({i} of 3)" for i in (1, 2, 3)
    ]


@pytest.mark.more("test_one_panel_per_group_without_overlapping_names")
@pytest.mark.parametrize(
    "vary", [{**LOSS, **WORDS}, pytest.param({**WORDS, **LONG_KEY}, marks=pytest.mark.long)]
)
def test_each_combination_of_other_keys_has_panels(vary: dict[str, list[str]]) -> None:
    figure = default_figure(compared(scattered, vary))
    check(figure, 2 * (len(SECTIONS) + 1))
    if vary == {**LOSS, **WORDS}:
        assert figure.axes[0].get_title(loc="left") == "loss recovery\nprofile: rfc"


def test_a_metric_without_data_has_empty_panels() -> None:
    some = EVERYBODY[:12]
    panels = len(default_figure(compared(scattered, LOSS, some)).axes)
    figure = default_figure(compared(lambda *_: math.nan, LOSS, some))
    figure.draw_without_rendering()
    assert [len(figure.axes), *(names(axes) for axes in figure.axes)] == [panels, *[[]] * panels]


def test_few_schemes_share_one_panel() -> None:
    few = EVERYBODY[: plan.MAX_UNGROUPED]
    assert len(plots.COLOURS) == plan.MAX_UNGROUPED
    assert len(default_figure(compared(scattered, LOSS, few)).axes) == 1
    assert len(default_figure(compared(scattered, {}, few)).axes) == 1


# A dozen schemes in the quick tests, all of them in the long ones.
DOZEN_OR_ALL = [EVERYBODY[:12], pytest.param(EVERYBODY, marks=pytest.mark.long)]


@pytest.mark.parametrize("schemes", DOZEN_OR_ALL, ids=["a dozen", "all"])
def test_the_same_comparison_gives_the_same_bytes(schemes: list[str], tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        compared(scattered, LOSS, schemes).plot(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_one_table_with_a_row_per_scheme_and_a_column_per_point() -> None:
    lines = summary.comparison(compared(scattered, LOSS)).split("\n\n")[0].splitlines()[1:]
    assert lines[0].split()[1:] == ["0", "%", "0.5", "%", "1", "%", "2", "%", "5", "%"]
    rows = [line for line in lines[1:] if "±" in line]
    assert sorted(line.split()[0] for line in rows) == sorted(EVERYBODY)
    assert [line.strip() for line in lines[1:] if "±" not in line][:2] == [
        "loss recovery",
        "reordering and delay spikes",
    ]


def test_one_table_by_group_without_varied_keys() -> None:
    lines = summary.comparison(compared(scattered)).split("\n\n")[0].splitlines()[1:]
    assert lines[0].split()[0] == "scheme"
    assert lines[1].strip() == "loss recovery"
    assert sum("±" in line for line in lines) == len(EVERYBODY)


def test_long_labels_are_wrapped_before_settings() -> None:
    assert many_scheme_plots.wrap_label("reno") == "reno"
    assert many_scheme_plots.wrap_label("snoop:tick=50ms") == "snoop:tick=50ms"
    assert (
        many_scheme_plots.wrap_label("packet-control:dupack_threshold=12")
        == "packet-control\n:dupack_threshold=12"
    )
    assert all(
        len(line) <= many_scheme_plots.MAX_WORD_CHARS
        for line in many_scheme_plots.wrap_label(LONG + ":x=" + 40 * "y").splitlines()
    )


@given(st.lists(st.tuples(st.floats(-50, 150), st.floats(1, 9)), min_size=1, max_size=11))
def test_spreading_keeps_order_bounds_and_distance(items: list[tuple[float, float]]) -> None:
    wanted, heights = [w for w, _ in items], [h for _, h in items]
    found = many_scheme_plots.spread_labels(wanted, heights, 0, 100)
    ordered = sorted(range(len(items)), key=lambda i: wanted[i])
    for a, b in itertools.pairwise(ordered):
        assert found[b] - found[a] >= (heights[a] + heights[b]) / 2 - 1e-6
    assert all(h / 2 - 1e-6 <= y <= 100 - h / 2 + 1e-6 for y, h in zip(found, heights, strict=True))


def test_labels_without_overlap_do_not_move() -> None:
    assert many_scheme_plots.spread_labels([80, 10, 40], [10, 10, 10], 0, 100) == [80, 10, 40]
    assert many_scheme_plots.spread_labels([50, 50], [10, 10], 0, 100) == [45, 55]
    assert many_scheme_plots.spread_labels([], [], 0, 100) == []


@pytest.mark.parametrize(
    "schemes", [*DOZEN_OR_ALL, ["reno", "snoop"]], ids=["a dozen", "all", "two"]
)
def test_one_very_long_delay_makes_the_axis_logarithmic(schemes: list[str]) -> None:
    slow = schemes[-1]

    def wide(label: str, seed: int, at: str) -> float:
        return 1e10 if label == slow else scattered(label, seed, at)

    figure = scatter(compared(wide, schemes=schemes))
    assert {a.get_xscale() for a in figure.axes} == {"log"}
    figure = scatter(compared(scattered, schemes=schemes))
    assert {a.get_xscale() for a in figure.axes} == {"linear"}
