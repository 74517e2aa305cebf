from __future__ import annotations

import goldens
import numpy as np
import pytest

from lasthop.analysis.series import Events

TO_DO = """{what} for `{name}`. Run `python tools/goldens.py {name}`, look at {file}.svg and the
numbers in {file}.txt, and write one sentence into the first line of {file}.txt that says what is
seen: slow start, where the window is cut, and to what."""


@pytest.mark.parametrize("name", goldens.names())
def test_cwnd_of_each_round_trip_is_as_recorded(name: str) -> None:
    file = goldens.path(name)
    golden = goldens.read(name)
    assert file.exists(), TO_DO.format(
        what="there is no golden", name=name, file=f"tests/goldens/{name}"
    )
    assert golden.sentence.endswith("."), TO_DO.format(
        what="the golden has no sentence", name=name, file=f"tests/goldens/{name}"
    )
    found = goldens.run(name, golden.settings).numbers
    assert len(found) == goldens.ROUNDS
    again = (
        f"cwnd of `{name}` changed. If that was meant: `python tools/goldens.py {name}`, then see"
        " whether its sentence is still true"
    )
    assert found == golden.numbers, again
    assert file.read_text(encoding="utf-8") == golden.text()
    assert file.with_suffix(".svg").exists()


def test_every_golden_belongs_to_a_scheme() -> None:
    files = {p.stem for p in goldens.FOLDER.iterdir() if p != goldens.SCENARIO}
    assert files <= set(goldens.names())


def test_reno_follows_rfc_5681() -> None:
    """Slow start and congestion avoidance grow cwnd by known amounts per round trip."""
    windows = goldens.run("reno").windows
    assert list(windows[:4]) == [2, 4, 8, 16]
    assert windows[5] == windows[4] / 2
    growth = np.diff(windows[34:52])
    assert growth.min() > 0.9
    assert growth.max() < 1.0


def test_the_run_has_the_intended_losses() -> None:
    run = goldens.run("newreno")
    assert len(run.rounds_of("lost_on_air")) == 7
    assert len(run.rounds_of("timeout")) == 1
    assert max(run.rounds_of("lost_on_air")) < min(run.rounds_of("dropped_at_queue"))


def test_a_round_trip_skips_lost_transmissions() -> None:
    """Of two segments the first is lost; the next round trip is that of its retransmission."""
    rows = [
        (0.0, "data_sent", 0, 1000, -1),
        (0.1, "data_sent", 1000, 1000, -1),
        (0.3, "lost_on_air", 0, 1000, -1),
        (0.6, "data_received", 1000, 1000, -1),
        (0.6, "ack_sent", 0, 0, 500),
        (1.1, "ack_received", 0, 0, 500),
        (1.1, "data_sent", 0, 1000, -1),
        (1.6, "data_received", 0, 1000, -1),
        (1.6, "ack_sent", 0, 0, 2000),
        (2.1, "ack_received", 0, 0, 2000),
    ]
    t, kind, seq, length, ack = zip(*rows, strict=True)
    codes = np.array([goldens.KINDS.index(k) for k in kind])
    events = Events(
        goldens.KINDS,
        np.array(t),
        codes,
        np.array(seq),
        np.array(length),
        np.array(ack),
        np.zeros(len(rows)),
    )
    assert goldens.round_trips(events) == [1.1, 2.1]


def test_sentence_and_settings_survive_rewriting() -> None:
    golden = goldens.Golden(
        "It is seen.", (("link.radio.queue", '{ discipline = "x" }'),), tuple("12345678901")
    )
    lines = golden.text().splitlines()
    assert lines[:2] == ["It is seen.", 'set link.radio.queue={ discipline = "x" }']
    assert [len(line.split()) for line in lines[2:]] == [8, 3]
