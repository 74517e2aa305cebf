from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes import run_json

from lasthop.analysis import metrics, series
from lasthop.experiments import store


def test_parts_of_a_run() -> None:
    run = run_json(1000.0)
    run["flows"] = [
        {**run["flows"][0], "id": name, "goodput_bps": g}
        for name, g in (("old 1", 100.0), ("old 2", 300.0), ("older", 1e6))
    ]
    assert metrics.part(run, "flows.old.goodput_bps") == 200
    assert metrics.part(run, "flows.old.timeouts.spurious") == 1
    assert metrics.part(run, "flows.new.goodput_bps") is None
    assert metrics.part(run, "agents.reno.kept_back") == 3
    assert metrics.part(run, "agents.snoop.kept_back") is None
    assert metrics.part(run, "links.bs>phone.lost_on_air") == 1
    assert metrics.label("flows.old.goodput_bps") == "goodput (kbit/s) of old"
    assert metrics.factor("flows.old.goodput_bps") == 1e-3
    assert not metrics.is_part("goodput_bps")
    ratio = "agents.reno.kept_back / links.bs>phone.offered_frames"
    assert metrics.is_part(ratio)
    assert metrics.part(run, ratio) == pytest.approx(3 / 100)


KINDS = ["data_sent", "lost_on_air", "delivered"]


def events(*rows: tuple[float, str, int, int]) -> series.Events:
    t, kind, seq, length = zip(*rows, strict=True)
    codes = np.array([KINDS.index(k) for k in kind])
    return series.Events(
        KINDS,
        np.array(t),
        codes,
        np.array(seq),
        np.array(length),
        np.zeros(len(rows), dtype=np.int64),
        np.array(length, dtype=float),
    )


def test_clicks_of_a_session() -> None:
    clicks: list[dict[str, Any]] = [
        {"id": "page 1", "completed_s": 1.0},
        {"id": "page 2", "completed_s": 3.0},
        {"id": "pages 1", "completed_s": 9.0},
    ]
    rest: dict[str, Any] = {"at_s": 0.0, "objects": 1, "bytes": 1000, "broken_off": False}
    last = {"id": "page 3", "completed_s": None}
    run = {**run_json(1000.0), "clicks": [{**rest, **click} for click in [*clicks, last]]}
    assert metrics.part(run, "clicks.page.completed_s") == 2.0
    assert metrics.part(run, "clicks.page 2.completed_s") == 3.0
    assert metrics.part(run_json(1000.0), "clicks.page.completed_s") is None


def test_numbers_of_files_are_those_of_python() -> None:
    drawn = np.random.default_rng(1)
    values = drawn.standard_normal(20_000) * 10.0 ** drawn.integers(-30, 30, 20_000)
    edges = [0.0, -0.0, 1.0, 1e15, 1e15 - 1, 1e16, 123456789012345680.0, 1e-4, 9.9e-5, 1e22, 5e-324]
    edges += [2.0**k for k in range(-1074, 1024)]
    for value in [*values.tolist(), *edges, *(-e for e in edges)]:
        whole = value.is_integer() and abs(value) < 1e15
        assert store.number(value) == (str(int(value)) if whole else repr(value))
    assert store.row_texts(np.array([[1.5, np.nan, 2.0], [np.nan] * 3])) == ["1.5,,2", ",,"]


def test_the_rate_of_the_last_second() -> None:
    found = series.sample(
        events(
            (0.0, "data_sent", 0, 1000), (0.5, "data_sent", 1000, 1000), (2.0, "data_sent", 0, 500)
        ),
        "sending",
        np.array([0.5, 1.0, 1.4, 3.0]),
    )
    assert found == pytest.approx([2 * 8 / 0.5, 8.0, 8.0, 0.0])


def test_repair_time_counts_from_the_last_loss() -> None:
    seen = events(
        (0.0, "data_sent", 0, 1000),
        (0.1, "lost_on_air", 0, 1000),
        (0.3, "data_sent", 0, 1000),
        (0.4, "lost_on_air", 0, 1000),
        (0.45, "lost_on_air", 0, 1000),
        (0.95, "data_sent", 0, 1000),
        (0.99, "lost_on_air", 5000, 1000),
    )
    assert sorted(series._repair_times(seen)) == pytest.approx([0.2, 0.5])


def test_the_queue_is_unknown_without_arrivals() -> None:
    kinds = ["delivered", "enqueued"]
    columns = {
        "t_ns": np.array([1, 2, 3, 4, 9]) * 10**8,
        "event": np.array([1, 1, 0, 1, 1]),
        "flow": np.array([0, 1, 0, 0, 0]),
        "seq": np.zeros(5, dtype=np.int64),
        "len": np.zeros(5, dtype=np.int64),
        "ack": np.zeros(5, dtype=np.int64),
        "value": np.array([7.0, 8.0, 1000.0, 9.0, 2.0]),
        "link": np.array([4, 4, -1, 3, 4]),
        "data_radio": 4,
    }
    found = series.Events.of(kinds, columns)
    assert found.only("enqueued").value.tolist() == [7, 8, 2]
    seen = series.sample(found, "queue", np.array([0.05, 0.15, 0.3, 0.75, 1.0]))
    assert np.array_equal(seen, [np.nan, 7, 8, np.nan, 2], equal_nan=True)
