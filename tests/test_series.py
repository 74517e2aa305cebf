"""Series of a run and the events from which they are computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layout import faults
from matplotlib.figure import Figure

import lasthop
from lasthop.analysis import series
from lasthop.errors import InputError
from lasthop.plotting import plots, series_panels

SPAN = (0.0, 10.0)
CAPACITY = 2000.0  # kbit/s


@pytest.fixture(scope="module")
def result() -> lasthop.RunResult:
    return lasthop.run(
        last_hop={"rate": "2Mbps", "rtt": "40ms", "queue": "40packets"},
        settings={"duration": "10 s"},
        scheme="reno",
    )


@pytest.fixture(scope="module")
def smooth() -> lasthop.RunResult:
    """A run without loss: the receive window fills the path and 20 packets of its queue."""
    settings = {"duration": "10 s", "tcp.receive_window": "30 segments"}
    found = lasthop.run(
        last_hop={"rate": "2Mbps", "rtt": "40ms", "queue": "40packets"},
        settings=settings,
        scheme="reno",
    )
    assert found.data["flows"][0]["sent_segments"] > 1000
    assert found.data["flows"][0]["retransmissions"]["total"] == 0
    return found


def events(result: lasthop.RunResult, name: str) -> series.Events:
    kinds = list(series.SERIES[name][1])
    return series.Events.of(kinds, result.scenario.run_series(1, kinds)[1])


def drawn(result: lasthop.RunResult, name: str) -> list[plots.Line]:
    return series_panels.of_run(events(result, name), name, "reno", SPAN)


def test_rates_over_the_last_second_reach_the_link_rate(smooth: lasthop.RunResult) -> None:
    for name in ("rate", "sending"):
        (line,) = drawn(smooth, name)
        total = events(smooth, name)
        size = total.len if name == "sending" else total.value
        last = float(size[total.t > 9.0].sum()) * 8e-3
        assert line.y[-1] == pytest.approx(last)
        assert last > 0.9 * CAPACITY
    (rate,) = drawn(smooth, "rate")
    # A second can have one more segment than its capacity, which ends in the next second.
    assert rate.y[rate.x >= 1].max() <= CAPACITY + 12
    assert rate.y.min() == 0


def test_goodput_since_the_start_ends_at_the_goodput_of_the_run(result: lasthop.RunResult) -> None:
    (line,) = drawn(result, "goodput")
    assert line.y[-1] == pytest.approx(result.goodput_bps * 1e-3, rel=1e-6)
    assert line.y.max() <= CAPACITY


def test_delivered_ends_at_the_delivered_bytes(result: lasthop.RunResult) -> None:
    (line,) = drawn(result, "delivered")
    assert line.y[-1] == pytest.approx(result.data["flows"][0]["delivered_bytes"] * 1e-3)


@pytest.mark.parametrize(("name", "scale"), [("cwnd", 1e-3), ("ssthresh", 1e-3), ("queue", 1.0)])
def test_steps_have_the_values_of_their_events(
    result: lasthop.RunResult, name: str, scale: float
) -> None:
    (line,) = drawn(result, name)
    wanted = events(result, name).only(*series.SERIES[name][1])
    assert line.y[: wanted.count].tolist() == pytest.approx((wanted.value * scale).tolist())
    assert line.y.max() > 0


def test_every_reduction_is_counted(result: lasthop.RunResult) -> None:
    (line,) = drawn(result, "cwnd_reductions")
    assert line.y[-1] == events(result, "cwnd_reductions").count > 0


def test_sequence_numbers_are_those_sent_and_acknowledged(result: lasthop.RunResult) -> None:
    sent, acknowledged = drawn(result, "sequence")
    assert sent.y.max() == events(result, "sequence").only("data_sent").seq.max() * 1e-3 > 0
    assert acknowledged.y.max() > 2000
    assert sent.dots
    assert acknowledged.dots


def test_delays_are_a_distribution(smooth: lasthop.RunResult) -> None:
    (line,) = drawn(smooth, "delay")
    panel = series_panels.panel("delay", [line], SPAN)
    assert panel.x_label == "one-way delay (ms)"
    assert line.y[0] == 0
    assert line.y[-1] == 1
    assert line.x[0] >= 20
    # The queue is never longer than the receive window.
    assert line.x[-1] <= 20 + 30 * 1500 * 8 / CAPACITY
    measured = smooth.data["flows"][0]["one_way_delay_s"]
    assert np.interp(0.5, line.y, line.x) == pytest.approx(measured["p50"] * 1e3, rel=0.05)


def test_round_trip_times_are_those_of_the_sender(
    smooth: lasthop.RunResult, result: lasthop.RunResult
) -> None:
    (line,) = drawn(smooth, "rtt")
    measured = smooth.data["flows"][0]["rtt_s"]
    for key, share in (("p50", 0.5), ("p95", 0.95)):
        assert np.quantile(line.y, share) == pytest.approx(measured[key] * 1e3, rel=0.02)
    # With losses: no sample is below the path's RTT or above that of a full queue.
    (line,) = drawn(result, "rtt")
    assert line.y.min() > 40
    assert line.y.max() < 40 + 44 * 1500 * 8 / CAPACITY
    assert (np.diff(line.x) >= 0).all()


def test_reductions_lie_on_the_congestion_window(
    result: lasthop.RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Figure] = []
    monkeypatch.setattr(plots, "save", lambda figure, files: seen.append(figure))
    result.plot(tmp_path / "x.svg")
    cwnd, rate, rtt = seen[0].axes
    window, *dots = (line for line in cwnd.get_lines())
    flow = result.data["flows"][0]
    counted = {line.get_label(): len(np.asarray(line.get_xdata())) for line in dots}
    assert counted.get("fast retransmit", 0) == flow["fast_retransmits"]["total"]
    assert counted.get("timeout", 0) == flow["timeouts"]["total"]
    assert counted
    heights = set(np.asarray(window.get_ydata()))
    assert all(set(np.asarray(line.get_ydata())) <= heights for line in dots)
    assert [axes.get_ylim()[0] for axes in (cwnd, rate, rtt)] == [0, 0, 0]


@pytest.mark.parametrize(
    "show",
    [
        ["rate", "queue", "rtt"],
        ["sequence", "cwnd", "delay"],
        ["goodput", "sending", "cwnd_reductions", "ssthresh"],
    ],
)
def test_every_series_has_a_valid_layout(
    result: lasthop.RunResult, show: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Figure] = []
    monkeypatch.setattr(plots, "save", lambda figure, files: seen.append(figure))
    result.plot(tmp_path / "x.svg", show)
    assert [a.get_ylabel().replace("\n", " ") for a in seen[0].axes] == [
        series.SERIES[s][0] for s in show
    ]
    assert faults(seen[0], zoomed=True) == []


@pytest.mark.parametrize("show", [["rto"], ["cwdn"], [], "cwnd"])
def test_an_unknown_series_is_rejected_with_the_list(
    result: lasthop.RunResult, show: Any, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="cwnd"):
        result.plot(tmp_path / "x.svg", show)


def test_the_mean_of_many_runs_has_an_interval_within_the_runs() -> None:
    grid = np.linspace(0, 1, 5)
    skewed = [np.full(5, 100.0 if i == 0 else 0.0) for i in range(12)]
    line = series_panels.of_runs(skewed, grid, "x")
    assert line.low is not None
    assert line.high is not None
    assert line.low.min() >= 0
    assert (line.low <= line.y).all()
    assert (line.y <= line.high).all()
    assert line.high.max() <= 100
    again = series_panels.of_runs(skewed, grid, "x")
    assert again.low is not None
    assert again.low.tolist() == line.low.tolist()


def test_few_runs_are_drawn_one_by_one() -> None:
    grid = np.linspace(0, 1, 5)
    runs = [np.full(5, float(i)) for i in range(3)]
    line = series_panels.of_runs(runs, grid, "x")
    assert line.low is None
    assert [r.tolist() for r in line.runs] == [r.tolist() for r in runs]
    figure = plots.panels([series_panels.panel("cwnd", [line], (0.0, 1.0))], "t", caption="c")
    assert len(figure.axes[0].get_lines()) == 4
    assert series_panels.of_runs(runs[:1], grid, "x").runs == ()
