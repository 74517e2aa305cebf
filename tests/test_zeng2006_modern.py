from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zeng2006_modern as modern

from lasthop.experiments import plan
from lasthop.scenarios import experiment

RADIO = 2
KINDS = ["enqueued", "dropped_at_queue", "arrived", "lost_on_air"]


def columns(*rows: tuple[int, str, int, int, int, int]) -> dict[str, Any]:
    """Rows of time, event, link, seq, length, attempt."""
    t, event, link, seq, length, attempt = zip(*rows, strict=True)
    numbers = {
        "t_ns": t,
        "event": [KINDS.index(e) for e in event],
        "link": link,
        "seq": seq,
        "len": length,
        "attempt": attempt,
    }
    return {"events": KINDS, **{k: np.array(v) for k, v in numbers.items()}}


def test_a_transmission_is_spurious_if_an_earlier_one_arrived() -> None:
    found = columns(
        (0, "enqueued", RADIO, 0, 1000, 1),
        (
            1,
            "enqueued",
            RADIO,
            0,
            1000,
            2,
        ),  # overtakes, but it was sent after the one that arrives in the end
        (2, "arrived", RADIO, 0, 1000, 2),
        (3, "arrived", RADIO, 0, 1000, 1),
    )
    assert modern.waste(found, RADIO) == (1000, 1000)


def test_a_transmission_after_lost_ones_is_not_spurious() -> None:
    found = columns(
        (0, "enqueued", RADIO, 0, 500, 1),
        (1, "lost_on_air", RADIO, 0, 500, 1),
        (2, "enqueued", RADIO, 0, 500, 2),
        (3, "arrived", RADIO, 0, 500, 2),
        (4, "enqueued", RADIO, 0, 500, 3),  # this one is, and it is lost too
        (5, "lost_on_air", RADIO, 0, 500, 3),
    )
    assert modern.waste(found, RADIO) == (1000, 500)


def test_transmissions_on_other_links_do_not_count() -> None:
    found = columns(
        (0, "enqueued", RADIO, 0, 1000, 1),
        (0, "dropped_at_queue", RADIO, 0, 1000, 1),
        (1, "enqueued", 0, 0, 1000, 2),  # another link, where an agent then drops it
        (2, "enqueued", RADIO, 0, 1000, 3),
        (3, "arrived", RADIO, 0, 1000, 3),
        (4, "enqueued", RADIO, 0, 0, 3),  # an ACK
        (4, "enqueued", RADIO, 0, 0, 4),
    )
    assert modern.waste(found, RADIO) == (0, 0)


def test_the_count_agrees_with_the_simulator_without_an_agent() -> None:
    """Without loss and agent, these are the retransmissions that the simulator calls spurious."""
    figure = experiment.read(experiment.FOLDER / "zeng2006/fig13.toml")
    for scheme in ("reno", "newreno"):
        scenario: Any = plan.load(plan.Source(figure.text), scheme)
        for seed in (1, 2, 3):
            run, recorded = scenario.run_recorded(seed, True)
            retransmitted, spurious = modern.waste(recorded, run.data_radio)
            counted = run.to_dict()["flows"][0]["retransmissions"]
            # Segments in flight at the end have not reached the radio link.
            assert retransmitted == pytest.approx(1000 * counted["total"], abs=2000)
            assert spurious == pytest.approx(1000 * counted["spurious"], abs=2000)
            assert spurious > 3000


def test_the_tables_have_each_scheme() -> None:
    result = modern.measure(
        modern.SETTINGS[2], ["reno", modern.PACKET_CONTROL[1], "newreno:label=eifel rfc"], 2
    )
    lossy = modern.measure(
        modern.LOSSY, ["reno", modern.PACKET_CONTROL[1], "newreno:label=eifel rfc"], 2
    )
    page = modern.tables([(modern.SETTINGS[2], result)], lossy)
    assert page.count("\n| reno |") == 1 + 3
    assert "II at 5 %" in page


@pytest.mark.long
def test_the_page_is_up_to_date() -> None:
    assert modern.PAGE.read_text(encoding="utf-8") == modern.made(), (
        "`python tools/zeng2006_modern.py`, and see whether its text is still true"
    )


def test_verdicts() -> None:
    result = modern.measure(
        modern.SETTINGS[0], ["eifel:label=D = 3", "reno:label=D = 9", "eifel:label=eifel rfc"], 12
    )
    same, better = modern.judged(result, 0, "eifel rfc", "goodput_bps", 1e-3)
    assert same.endswith("**differs**")  # exactly equal is not better
    assert better.endswith("holds")
